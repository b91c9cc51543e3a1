//! POSIX access control lists, set and read through their extended attributes.

use super::common::group;
use crate::acl::{ACCESS, DEFAULT, GROUP, GROUP_OBJECT, MASK, OTHER, USER, USER_OBJECT, list};
use crate::check::{ensure, refused, same};
use crate::{Identity, Outcome, TestContext};

group! { "acls":
    none_at_first [AccessControlLists];
    named_user [AccessControlLists, Users];
    named_group [AccessControlLists, Users];
    mask_limits [AccessControlLists, Users];
    chmod_changes_the_mask [AccessControlLists, Users];
    mode_shows_the_mask [AccessControlLists];
    minimal_list_is_the_mode [AccessControlLists];
    removal [AccessControlLists, Users];
    default_list_is_inherited [AccessControlLists, Users, WholeModes];
    default_list_replaces_the_umask [AccessControlLists, WholeModes];
    default_list_of_subdirectories [AccessControlLists, WholeModes];
    default_list_only_of_directories [AccessControlLists];
    by_the_owner_only [AccessControlLists, Users];
    nonsense [AccessControlLists];
    directory_search [AccessControlLists, Users];
    kept_over_rename [AccessControlLists];
}

/// Returns a list with these permissions for user 1002: owner rw, group none, this mask, others none.
fn for_user(permissions: u16, mask: u16) -> Vec<u8> {
    list(&[(USER_OBJECT, 6, 0), (USER, permissions, 1002), (GROUP_OBJECT, 0, 0), (MASK, mask, 0), (OTHER, 0, 0)])
}

fn none_at_first(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.mkdir(b"d", 0o755)?;
    refused!(me.attribute(b"f", ACCESS), ENODATA);
    refused!(me.attribute(b"d", DEFAULT), ENODATA);
    Ok(())
}

fn named_user(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    me.chmod(b"f", 0o600)?;
    let (named, other) = (context.user(1002)?, context.user(1003)?);
    refused!(named.get(b"f"), EACCES);
    me.setxattr(b"f", ACCESS, &for_user(6, 6), 0)?;
    same!(me.attribute(b"f", ACCESS)?, for_user(6, 6));
    same!(named.get(b"f")?, b"data");
    named.edit(b"f")?.put_at(b"D", 0)?;
    refused!(other.get(b"f"), EACCES);
    named.access(b"f", libc::R_OK | libc::W_OK)?;
    refused!(named.access(b"f", libc::X_OK), EACCES);
    Ok(())
}

fn named_group(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    let entries = [(USER_OBJECT, 6, 0), (GROUP_OBJECT, 0, 0), (GROUP, 4, 2000), (MASK, 7, 0), (OTHER, 0, 0)];
    me.setxattr(b"f", ACCESS, &list(&entries), 0)?;
    let member = context.client(&Identity::user(1002).and_groups(&[2000]))?;
    same!(member.get(b"f")?, b"data");
    refused!(member.edit(b"f"), EACCES);
    refused!(context.user(1002)?.get(b"f"), EACCES);
    Ok(())
}

fn mask_limits(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    let named = context.user(1002)?;
    me.setxattr(b"f", ACCESS, &for_user(6, 4), 0)?;
    named.get(b"f")?;
    refused!(named.edit(b"f"), EACCES);
    me.setxattr(b"f", ACCESS, &for_user(6, 0), 0)?;
    refused!(named.get(b"f"), EACCES);
    Ok(())
}

fn chmod_changes_the_mask(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    let named = context.user(1002)?;
    me.setxattr(b"f", ACCESS, &for_user(6, 6), 0)?;
    me.chmod(b"f", 0o640)?;
    same!(me.attribute(b"f", ACCESS)?, for_user(6, 4));
    refused!(named.edit(b"f"), EACCES);
    named.get(b"f")?;
    me.chmod(b"f", 0o600)?;
    refused!(named.get(b"f"), EACCES);
    Ok(())
}

fn mode_shows_the_mask(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.setxattr(b"f", ACCESS, &for_user(7, 5), 0)?;
    same!(me.stat(b"f")?.mode, 0o650);
    me.setxattr(b"f", ACCESS, &for_user(7, 7), 0)?;
    same!(me.stat(b"f")?.mode, 0o670);
    Ok(())
}

fn minimal_list_is_the_mode(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.setxattr(b"f", ACCESS, &list(&[(USER_OBJECT, 7, 0), (GROUP_OBJECT, 5, 0), (OTHER, 1, 0)]), 0)?;
    same!(me.stat(b"f")?.mode, 0o751);
    refused!(me.attribute(b"f", ACCESS), ENODATA);
    Ok(())
}

fn removal(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    let named = context.user(1002)?;
    me.setxattr(b"f", ACCESS, &for_user(4, 4), 0)?;
    named.get(b"f")?;
    me.removexattr(b"f", ACCESS)?;
    refused!(me.attribute(b"f", ACCESS), ENODATA);
    me.chmod(b"f", 0o600)?;
    refused!(named.get(b"f"), EACCES);
    Ok(())
}

fn inherited() -> Vec<u8> {
    list(&[(USER_OBJECT, 7, 0), (USER, 7, 1002), (GROUP_OBJECT, 5, 0), (MASK, 7, 0), (OTHER, 0, 0)])
}

fn default_list_is_inherited(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.setxattr(b"d", DEFAULT, &inherited(), 0)?;
    me.open(b"d/f", libc::O_CREAT | libc::O_RDWR, 0o666)?.put_at(b"data", 0)?;
    let named = context.user(1002)?;
    named.edit(b"d/f")?;
    refused!(context.user(1003)?.get(b"d/f"), EACCES);
    // The mode of the creation restricts owner, mask and others.
    same!(me.stat(b"d/f")?.mode, 0o660);
    me.open(b"d/g", libc::O_CREAT | libc::O_RDWR, 0o600)?;
    refused!(named.get(b"d/g"), EACCES);
    Ok(())
}

fn default_list_replaces_the_umask(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.setxattr(b"d", DEFAULT, &inherited(), 0)?;
    me.umask(0o077);
    me.open(b"d/f", libc::O_CREAT | libc::O_RDWR, 0o666)?;
    me.mkdir(b"d/e", 0o777)?;
    same!(me.stat(b"d/f")?.mode, 0o660);
    same!(me.stat(b"d/e")?.mode, 0o770);
    me.open(b"f", libc::O_CREAT | libc::O_RDWR, 0o666)?;
    same!(me.stat(b"f")?.mode, 0o600);
    Ok(())
}

fn default_list_of_subdirectories(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.setxattr(b"d", DEFAULT, &inherited(), 0)?;
    refused!(me.attribute(b"d", ACCESS), ENODATA);
    me.mkdir(b"d/e", 0o777)?;
    same!(me.attribute(b"d/e", DEFAULT)?, inherited());
    same!(me.attribute(b"d/e", ACCESS)?, inherited());
    me.put(b"d/f", b"")?;
    refused!(me.attribute(b"d/f", DEFAULT), ENODATA | EACCES | EOPNOTSUPP);
    me.removexattr(b"d", DEFAULT)?;
    me.mkdir(b"d/g", 0o777)?;
    refused!(me.attribute(b"d/g", DEFAULT), ENODATA);
    Ok(())
}

fn default_list_only_of_directories(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    refused!(me.setxattr(b"f", DEFAULT, &inherited(), 0), EACCES | EINVAL | EOPNOTSUPP);
    Ok(())
}

fn by_the_owner_only(context: &TestContext<'_>) -> Outcome {
    let (owner, other) = (context.user(1001)?, context.user(1002)?);
    owner.put(b"f", b"")?;
    owner.chmod(b"f", 0o666)?;
    refused!(other.setxattr(b"f", ACCESS, &for_user(7, 7), 0), EPERM);
    owner.setxattr(b"f", ACCESS, &for_user(4, 4), 0)?;
    refused!(other.removexattr(b"f", ACCESS), EPERM);
    same!(other.attribute(b"f", ACCESS)?, for_user(4, 4));
    Ok(())
}

fn nonsense(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    let without_mask = list(&[(USER_OBJECT, 6, 0), (USER, 6, 1002), (GROUP_OBJECT, 0, 0), (OTHER, 0, 0)]);
    refused!(me.setxattr(b"f", ACCESS, &without_mask, 0), EINVAL);
    refused!(me.setxattr(b"f", ACCESS, b"nonsense", 0), EINVAL | EOPNOTSUPP);
    let mut wrong_version = for_user(6, 6);
    wrong_version[0] = 9;
    refused!(me.setxattr(b"f", ACCESS, &wrong_version, 0), EINVAL | EOPNOTSUPP);
    refused!(me.attribute(b"f", ACCESS), ENODATA);
    Ok(())
}

fn directory_search(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o700)?;
    me.put(b"d/f", b"data")?;
    let named = context.user(1002)?;
    refused!(named.get(b"d/f"), EACCES);
    let entries = [(USER_OBJECT, 7, 0), (USER, 1, 1002), (GROUP_OBJECT, 0, 0), (MASK, 1, 0), (OTHER, 0, 0)];
    me.setxattr(b"d", ACCESS, &list(&entries), 0)?;
    same!(named.get(b"d/f")?, b"data");
    refused!(named.names(b"d"), EACCES);
    refused!(context.user(1003)?.get(b"d/f"), EACCES);
    // The entry may also deny what the mode would permit.
    let entries = [(USER_OBJECT, 7, 0), (USER, 0, 1002), (GROUP_OBJECT, 5, 0), (MASK, 5, 0), (OTHER, 5, 0)];
    me.setxattr(b"d", ACCESS, &list(&entries), 0)?;
    refused!(named.get(b"d/f"), EACCES);
    same!(context.user(1003)?.get(b"d/f")?, b"data");
    refused!(named.stat(b"d/f"), EACCES);
    Ok(())
}

fn kept_over_rename(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.setxattr(b"f", ACCESS, &for_user(6, 6), 0)?;
    me.mkdir(b"d", 0o755)?;
    me.rename(b"f", b"d/g")?;
    same!(me.attribute(b"d/g", ACCESS)?, for_user(6, 6));
    ensure!(me.attributes(b"d/g")?.contains(&ACCESS.to_vec()), "the list is not listed");
    Ok(())
}
