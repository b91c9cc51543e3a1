//! Extended attributes.

use super::common::{group, numbered};
use crate::check::{ensure, refused, same};
use crate::{Identity, Outcome, TestContext};

group! { "xattrs":
    set_and_get [ExtendedAttributes];
    missing [ExtendedAttributes];
    list [ExtendedAttributes];
    create_only [ExtendedAttributes];
    replace_only [ExtendedAttributes];
    remove [ExtendedAttributes];
    sizes [ExtendedAttributes];
    buffer_too_small [ExtendedAttributes];
    asking_for_the_size [ExtendedAttributes];
    empty_value [ExtendedAttributes];
    binary_value [ExtendedAttributes];
    long_names [ExtendedAttributes];
    of_a_directory [ExtendedAttributes];
    not_of_symlinks [ExtendedAttributes];
    move_with_renames [ExtendedAttributes];
    shared_by_links [ExtendedAttributes, HardLinks];
    not_inherited [ExtendedAttributes];
    need_permission [ExtendedAttributes, Users];
    trusted_is_roots [ExtendedAttributes, Users];
    unknown_name_space [ExtendedAttributes];
    too_large [ExtendedAttributes, Kernel];
    many [ExtendedAttributes];
    capability_goes_with_a_write [ExtendedAttributes, Users, KillSetId];
    capability_goes_with_an_allocation_and_a_copy [ExtendedAttributes, Users, KillSetId, Punch, CopyRange];
}

fn set_and_get(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.setxattr(b"f", b"user.one", b"1", 0)?;
    me.setxattr(b"f", b"user.two", b"second", 0)?;
    same!(me.attribute(b"f", b"user.one")?, b"1");
    same!(me.attribute(b"f", b"user.two")?, b"second");
    me.setxattr(b"f", b"user.one", b"changed and longer", 0)?;
    same!(context.another()?.attribute(b"f", b"user.one")?, b"changed and longer");
    same!(me.get(b"f")?, b"");
    Ok(())
}

fn missing(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    refused!(me.attribute(b"f", b"user.none"), ENODATA);
    refused!(me.removexattr(b"f", b"user.none"), ENODATA);
    refused!(me.attribute(b"none", b"user.none"), ENOENT);
    same!(me.attributes(b"f")?.iter().filter(|name| name.starts_with(b"user.")).count(), 0);
    Ok(())
}

/// Returns the names in the `user.` namespace.
fn user_names(context: &TestContext<'_>, path: &[u8]) -> Outcome<Vec<Vec<u8>>> {
    let mut names = context.me.attributes(path)?;
    names.retain(|name| name.starts_with(b"user."));
    Ok(names)
}

fn list(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    for name in [&b"user.b"[..], b"user.a", b"user.a.b", b"user.\xff"] {
        me.setxattr(b"f", name, b"x", 0)?;
    }
    let expected: Vec<Vec<u8>> =
        [&b"user.a"[..], b"user.a.b", b"user.b", b"user.\xff"].iter().map(|name| name.to_vec()).collect();
    same!(user_names(context, b"f")?, expected);
    me.removexattr(b"f", b"user.a")?;
    same!(user_names(context, b"f")?.len(), 3);
    Ok(())
}

fn create_only(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.setxattr(b"f", b"user.a", b"1", libc::XATTR_CREATE)?;
    refused!(me.setxattr(b"f", b"user.a", b"2", libc::XATTR_CREATE), EEXIST);
    same!(me.attribute(b"f", b"user.a")?, b"1");
    Ok(())
}

fn replace_only(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    refused!(me.setxattr(b"f", b"user.a", b"1", libc::XATTR_REPLACE), ENODATA);
    me.setxattr(b"f", b"user.a", b"1", 0)?;
    me.setxattr(b"f", b"user.a", b"2", libc::XATTR_REPLACE)?;
    same!(me.attribute(b"f", b"user.a")?, b"2");
    Ok(())
}

fn remove(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.setxattr(b"f", b"user.a", b"1", 0)?;
    me.removexattr(b"f", b"user.a")?;
    refused!(me.attribute(b"f", b"user.a"), ENODATA);
    refused!(me.removexattr(b"f", b"user.a"), ENODATA);
    me.setxattr(b"f", b"user.a", b"again", libc::XATTR_CREATE)?;
    same!(me.attribute(b"f", b"user.a")?, b"again");
    Ok(())
}

fn sizes(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    for size in [1, 2, 63, 64, 100, 255, 256, 1000, 2000, 1] {
        let value: Vec<u8> = (0..size).map(|n| n as u8).collect();
        me.setxattr(b"f", b"user.a", &value, 0)?;
        same!(me.attribute(b"f", b"user.a")?, value);
    }
    Ok(())
}

fn buffer_too_small(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.setxattr(b"f", b"user.a", b"12345", 0)?;
    refused!(me.getxattr(b"f", b"user.a", 4), ERANGE);
    same!(me.getxattr(b"f", b"user.a", 5)?, b"12345");
    refused!(me.listxattr(b"f", 3), ERANGE);
    Ok(())
}

fn asking_for_the_size(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.setxattr(b"f", b"user.a", b"12345", 0)?;
    same!(me.getxattr(b"f", b"user.a", 0)?.len(), 5);
    let list = me.listxattr(b"f", 0)?.len();
    same!(me.listxattr(b"f", list)?.len(), list);
    ensure!(list >= 7, "the list of names takes {list} bytes");
    Ok(())
}

fn empty_value(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.setxattr(b"f", b"user.a", b"", 0)?;
    same!(me.attribute(b"f", b"user.a")?, b"");
    same!(user_names(context, b"f")?.len(), 1);
    refused!(me.setxattr(b"f", b"user.a", b"x", libc::XATTR_CREATE), EEXIST);
    Ok(())
}

fn binary_value(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    let value: Vec<u8> = (0..=255).collect();
    me.setxattr(b"f", b"user.a", &value, 0)?;
    same!(me.attribute(b"f", b"user.a")?, value);
    Ok(())
}

fn long_names(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    let mut name = b"user.".to_vec();
    name.resize(255, b'n');
    me.setxattr(b"f", &name, b"long", 0)?;
    same!(me.attribute(b"f", &name)?, b"long");
    name.push(b'n');
    refused!(me.setxattr(b"f", &name, b"longer", 0), ERANGE | ENAMETOOLONG);
    refused!(me.setxattr(b"f", b"user.", b"none", 0), EINVAL);
    Ok(())
}

fn of_a_directory(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.setxattr(b"d", b"user.a", b"directory's", 0)?;
    same!(me.attribute(b"d", b"user.a")?, b"directory's");
    same!(user_names(context, b"d")?, vec![b"user.a".to_vec()]);
    Ok(())
}

fn not_of_symlinks(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.symlink(b"f", b"s")?;
    refused!(me.setxattr(b"s", b"user.a", b"1", 0), EPERM | EOPNOTSUPP);
    same!(user_names(context, b"f")?.len(), 0);
    Ok(())
}

fn move_with_renames(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.put(b"g", b"")?;
    me.setxattr(b"f", b"user.a", b"f's", 0)?;
    me.setxattr(b"g", b"user.b", b"g's", 0)?;
    me.rename(b"f", b"g")?;
    same!(user_names(context, b"g")?, vec![b"user.a".to_vec()]);
    same!(me.attribute(b"g", b"user.a")?, b"f's");
    Ok(())
}

fn shared_by_links(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.link(b"f", b"g")?;
    me.setxattr(b"f", b"user.a", b"1", 0)?;
    same!(me.attribute(b"g", b"user.a")?, b"1");
    me.unlink(b"f")?;
    same!(me.attribute(b"g", b"user.a")?, b"1");
    Ok(())
}

fn not_inherited(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.setxattr(b"d", b"user.a", b"1", 0)?;
    me.put(b"d/f", b"")?;
    me.mkdir(b"d/e", 0o755)?;
    same!(user_names(context, b"d/f")?.len(), 0);
    same!(user_names(context, b"d/e")?.len(), 0);
    // A new file does not inherit the attributes of an old one with its name.
    me.setxattr(b"d/f", b"user.b", b"1", 0)?;
    me.unlink(b"d/f")?;
    me.put(b"d/f", b"")?;
    same!(user_names(context, b"d/f")?.len(), 0);
    Ok(())
}

fn need_permission(context: &TestContext<'_>) -> Outcome {
    let (owner, other) = (context.user(1001)?, context.user(1002)?);
    owner.put(b"f", b"")?;
    owner.setxattr(b"f", b"user.a", b"1", 0)?;
    same!(other.attribute(b"f", b"user.a")?, b"1");
    refused!(other.setxattr(b"f", b"user.a", b"2", 0), EACCES);
    refused!(other.removexattr(b"f", b"user.a"), EACCES);
    owner.chmod(b"f", 0o200)?;
    refused!(other.attribute(b"f", b"user.a"), EACCES);
    refused!(owner.attribute(b"f", b"user.a"), EACCES);
    owner.setxattr(b"f", b"user.a", b"3", 0)?;
    same!(context.me.attribute(b"f", b"user.a")?, b"3");
    Ok(())
}

fn trusted_is_roots(context: &TestContext<'_>) -> Outcome {
    let user = context.client(&Identity::user(1001))?;
    user.put(b"f", b"")?;
    context.me.setxattr(b"f", b"trusted.a", b"secret", 0)?;
    same!(context.me.attribute(b"f", b"trusted.a")?, b"secret");
    refused!(user.setxattr(b"f", b"trusted.b", b"1", 0), EPERM);
    refused!(user.attribute(b"f", b"trusted.a"), ENODATA | EPERM);
    ensure!(!user.attributes(b"f")?.contains(&b"trusted.a".to_vec()), "a user sees a trusted name");
    ensure!(context.me.attributes(b"f")?.contains(&b"trusted.a".to_vec()), "root does not see a trusted name");
    Ok(())
}

fn unknown_name_space(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    refused!(me.setxattr(b"f", b"nonsense.a", b"1", 0), EOPNOTSUPP);
    refused!(me.setxattr(b"f", b"plain", b"1", 0), EOPNOTSUPP);
    refused!(me.attribute(b"f", b"nonsense.a"), EOPNOTSUPP | ENODATA);
    Ok(())
}

fn too_large(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    refused!(me.setxattr(b"f", b"user.a", &vec![1; 65_537], 0), E2BIG);
    refused!(me.attribute(b"f", b"user.a"), ENODATA);
    Ok(())
}

fn many(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    for number in 0..50 {
        me.setxattr(b"f", &numbered("user.n", number), &numbered("v", number), 0)?;
    }
    same!(user_names(context, b"f")?.len(), 50);
    for number in (0..50).step_by(2) {
        me.removexattr(b"f", &numbered("user.n", number))?;
    }
    same!(user_names(context, b"f")?.len(), 25);
    for number in (1..50).step_by(2) {
        same!(me.attribute(b"f", &numbered("user.n", number))?, numbered("v", number));
    }
    Ok(())
}

/// A value of `security.capability`: revision 2, effective, with the bit of CAP_NET_BIND_SERVICE permitted.
const BIND_PORTS: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn capability_goes_with_a_write(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    me.chmod(b"f", 0o777)?;
    let user = context.user(1001)?;
    let open = user.edit(b"f")?;
    me.setxattr(b"f", b"security.capability", &BIND_PORTS, 0)?;
    same!(me.attribute(b"f", b"security.capability")?, BIND_PORTS);
    open.put_at(b"x", 0)?;
    refused!(me.attribute(b"f", b"security.capability"), ENODATA);
    me.setxattr(b"f", b"security.capability", &BIND_PORTS, 0)?;
    user.truncate(b"f", 1)?;
    refused!(me.attribute(b"f", b"security.capability"), ENODATA);
    Ok(())
}

fn capability_goes_with_an_allocation_and_a_copy(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", &[2; 8192])?;
    me.put(b"source", &[1; 8192])?;
    me.chmod(b"f", 0o777)?;
    me.chmod(b"source", 0o644)?;
    let user = context.user(1001)?;
    let (source, open) = (user.open(b"source", libc::O_RDONLY, 0)?, user.edit(b"f")?);
    me.setxattr(b"f", b"security.capability", &BIND_PORTS, 0)?;
    open.allocate(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, 0, 4096)?;
    refused!(me.attribute(b"f", b"security.capability"), ENODATA);
    me.setxattr(b"f", b"security.capability", &BIND_PORTS, 0)?;
    same!(source.copy_range(0, &*open, 0, 4096)?, 4096);
    refused!(me.attribute(b"f", b"security.capability"), ENODATA);
    Ok(())
}
