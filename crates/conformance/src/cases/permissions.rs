//! Access control: owner, group, others, root, sticky and set-id bits.

use std::time::{Duration, Instant};

use vnode::Errno;

use super::common::group;
use crate::check::{ensure, refused, same};
use crate::{Ability, Client, File, Identity, Outcome, TestContext};

/// Maximum time that a kernel may cache the names in a directory whose search permission has been revoked.
const MAX_REVOCATION_DELAY: Duration = Duration::from_secs(10);

group! { "permissions":
    reading_and_writing [Users];
    owner_before_group_before_others [Users];
    supplementary_groups [Users];
    many_supplementary_groups [Users];
    root_reads_and_writes_everything [Users];
    searching_a_directory [Users];
    searching_every_directory_on_the_way [Users];
    listing_a_directory [Users];
    listing_without_searching [Users];
    changing_a_directory [Users];
    unlinking_needs_the_directory_only [Users];
    renaming_needs_both_directories [Users];
    renaming_a_directory_needs_it_too [Users];
    sticky_directory [Users];
    sticky_directory_of_ones_own [Users];
    sticky_rename_over [Users];
    chmod_by_owner_only [Users];
    chown_by_root_only [Users];
    chgrp_to_own_groups [Users];
    setgid_needs_membership [Users];
    write_clears_set_id [Users, KillSetId];
    truncate_clears_set_id [Users, KillSetId];
    allocation_clears_set_id [Users, KillSetId, Punch];
    copy_clears_set_id [Users, KillSetId, CopyRange];
    chown_clears_set_id [Users];
    chown_keeps_setgid_without_execution [Users];
    root_writes_and_set_id_stays [Users, RootKeepsSetId];
    root_allocates_and_set_id_stays [Users, RootKeepsSetId, Punch];
    root_copies_and_set_id_stays [Users, RootKeepsSetId, CopyRange];
    setgid_directory_gives_its_group [Users];
    setgid_directory_with_foreign_group [Users];
    access_answers [Users];
    access_of_root [Users];
    truncate_needs_writing [Users];
    open_with_truncation_needs_writing [Users];
    an_open_file_stays_open [Users];
    created_without_permission_for_oneself [Users];
    readlink_needs_only_search [Users];
    symlink_through_forbidden_directory [Users];
    revoking_search_takes_effect_at_once [Users, PromptRevocation];
    revoking_group_takes_effect_at_once [Users];
    moving_to_a_private_directory_takes_effect_at_once [Users, PromptRevocation];
    denied_creation_leaves_nothing [Users];
    stat_needs_no_permission_on_the_object [Users];
    missing_or_forbidden [Users];
    every_mode_for_every_class [Users];
}

const OWNER: u32 = 1001;
const OTHER: u32 = 1002;
const GROUP: u32 = 2000;

fn owner(context: &TestContext<'_>) -> Outcome<Box<dyn Client>> {
    Ok(context.user(OWNER)?)
}

fn other(context: &TestContext<'_>) -> Outcome<Box<dyn Client>> {
    Ok(context.user(OTHER)?)
}

/// Creates a file of the owner and the group with this mode.
fn file(context: &TestContext<'_>, name: &[u8], mode: u32) -> Outcome {
    context.me.put(name, b"contents")?;
    context.me.chown(name, Some(OWNER), Some(GROUP))?;
    Ok(context.me.chmod(name, mode)?)
}

/// Creates a directory of the owner and the group with this mode.
fn directory(context: &TestContext<'_>, name: &[u8], mode: u32) -> Outcome {
    context.me.mkdir(name, 0o755)?;
    context.me.chown(name, Some(OWNER), Some(GROUP))?;
    Ok(context.me.chmod(name, mode)?)
}

fn reading_and_writing(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o640)?;
    let (owner, other) = (owner(context)?, other(context)?);
    let member = context.client(&Identity { gid: GROUP, ..Identity::user(OTHER) })?;
    same!(owner.get(b"f")?, b"contents");
    owner.edit(b"f")?;
    same!(member.get(b"f")?, b"contents");
    refused!(member.open(b"f", libc::O_WRONLY, 0), EACCES);
    refused!(member.edit(b"f"), EACCES);
    refused!(other.get(b"f"), EACCES);
    refused!(other.open(b"f", libc::O_WRONLY | libc::O_APPEND, 0), EACCES);
    Ok(())
}

fn owner_before_group_before_others(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o077)?;
    let member = context.client(&Identity { gid: GROUP, ..Identity::user(OTHER) })?;
    // The first matching class decides, even if a later one would permit it.
    refused!(owner(context)?.get(b"f"), EACCES);
    member.get(b"f")?;
    context.me.chmod(b"f", 0o707)?;
    refused!(member.get(b"f"), EACCES);
    other(context)?.get(b"f")?;
    Ok(())
}

fn supplementary_groups(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o060)?;
    directory(context, b"d", 0o070)?;
    let member = context.client(&Identity::user(OTHER).and_groups(&[5, GROUP, 7]))?;
    let stranger = context.client(&Identity::user(OTHER).and_groups(&[5, 7]))?;
    member.edit(b"f")?;
    member.put(b"d/x", b"")?;
    same!(member.names(b"d")?, vec![b"x".to_vec()]);
    same!(member.stat(b"d/x")?.gid, OTHER);
    refused!(stranger.edit(b"f"), EACCES);
    refused!(stranger.stat(b"d/x"), EACCES);
    refused!(stranger.names(b"d"), EACCES);
    Ok(())
}

fn many_supplementary_groups(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o040)?;
    let mut groups: Vec<u32> = (10_000..10_100).collect();
    let stranger = context.client(&Identity::user(OTHER).and_groups(&groups))?;
    groups.push(GROUP);
    let member = context.client(&Identity::user(OTHER).and_groups(&groups))?;
    member.get(b"f")?;
    refused!(stranger.get(b"f"), EACCES);
    Ok(())
}

fn root_reads_and_writes_everything(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    directory(context, b"d", 0)?;
    me.put(b"d/f", b"root's")?;
    me.chown(b"d/f", Some(OWNER), None)?;
    me.chmod(b"d/f", 0)?;
    same!(me.get(b"d/f")?, b"root's");
    me.edit(b"d/f")?.put_at(b"R", 0)?;
    same!(me.names(b"d")?.len(), 1);
    me.rename(b"d/f", b"d/g")?;
    me.unlink(b"d/g")?;
    Ok(())
}

fn searching_a_directory(context: &TestContext<'_>) -> Outcome {
    directory(context, b"d", 0o711)?;
    context.me.put(b"d/f", b"found")?;
    let other = other(context)?;
    same!(other.get(b"d/f")?, b"found");
    refused!(other.names(b"d"), EACCES);
    refused!(other.stat(b"d/none"), ENOENT);
    make_private(context, b"d", 0o744, b"f")?;
    refused!(other.stat(b"d/f"), EACCES);
    refused!(other.get(b"d/f"), EACCES);
    refused!(other.chdir(b"d"), EACCES);
    Ok(())
}

fn searching_every_directory_on_the_way(context: &TestContext<'_>) -> Outcome {
    directory(context, b"a", 0o755)?;
    directory(context, b"a/b", 0o700)?;
    directory(context, b"a/b/c", 0o777)?;
    file(context, b"a/b/c/f", 0o666)?;
    let (owner, other) = (owner(context)?, other(context)?);
    // The owner goes first: its lookups must not grant others access.
    same!(owner.get(b"a/b/c/f")?, b"contents");
    refused!(other.get(b"a/b/c/f"), EACCES);
    refused!(other.stat(b"a/b/c"), EACCES);
    refused!(other.stat(b"a/b/none"), EACCES);
    refused!(other.stat(b"a/b/c/.."), EACCES);
    same!(owner.get(b"a/b/c/f")?, b"contents");
    // A process that is already below the directory may continue.
    let below = context.user(OTHER)?;
    context.me.chmod(b"a/b", 0o755)?;
    below.chdir(b"a/b/c")?;
    make_private(context, b"a/b", 0o700, b"c")?;
    same!(below.get(b"f")?, b"contents");
    refused!(below.stat(b"../c/f"), EACCES);
    Ok(())
}

/// Revokes search permission on a directory from others, and waits where a kernel may cache a name in it for a moment longer.
fn make_private(context: &TestContext<'_>, name: &[u8], mode: u32, entry: &[u8]) -> Outcome {
    context.me.chmod(name, mode)?;
    let (other, path, started) = (other(context)?, [name, b"/", entry].concat(), Instant::now());
    while !context.can(Ability::PromptRevocation)
        && started.elapsed() < MAX_REVOCATION_DELAY
        && other.lstat(&path).is_ok()
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn moving_to_a_private_directory_takes_effect_at_once(context: &TestContext<'_>) -> Outcome {
    let (me, other) = (&context.me, other(context)?);
    directory(context, b"private", 0o700)?;
    directory(context, b"open", 0o755)?;
    directory(context, b"open/d", 0o755)?;
    file(context, b"open/d/f", 0o666)?;
    file(context, b"open/f", 0o666)?;
    same!(other.get(b"open/d/f")?, b"contents");
    same!(other.get(b"open/f")?, b"contents");
    me.rename(b"open/d", b"private/d")?;
    me.rename(b"open/f", b"private/f")?;
    for name in [&b"private/d"[..], b"private/d/f", b"private/f"] {
        refused!(other.stat(name), EACCES);
        refused!(other.get(name), EACCES);
    }
    // A file that another with its name has replaced is gone for others, too.
    file(context, b"open/g", 0o666)?;
    same!(other.get(b"open/g")?, b"contents");
    me.rename(b"open/g", b"private/f")?;
    refused!(other.get(b"private/f"), EACCES);
    me.rename(b"private/d", b"open/d")?;
    same!(other.get(b"open/d/f")?, b"contents");
    Ok(())
}

fn listing_a_directory(context: &TestContext<'_>) -> Outcome {
    directory(context, b"d", 0o750)?;
    context.me.put(b"d/f", b"")?;
    let member = context.client(&Identity::user(OTHER).and_groups(&[GROUP]))?;
    same!(owner(context)?.names(b"d")?.len(), 1);
    same!(member.names(b"d")?.len(), 1);
    refused!(other(context)?.names(b"d"), EACCES);
    Ok(())
}

fn listing_without_searching(context: &TestContext<'_>) -> Outcome {
    directory(context, b"d", 0o755)?;
    context.me.put(b"d/f", b"")?;
    make_private(context, b"d", 0o444, b"f")?;
    let other = other(context)?;
    same!(other.names(b"d")?, vec![b"f".to_vec()]);
    refused!(other.stat(b"d/f"), EACCES);
    refused!(other.stat(b"d/none"), EACCES);
    Ok(())
}

fn changing_a_directory(context: &TestContext<'_>) -> Outcome {
    directory(context, b"d", 0o755)?;
    file(context, b"d/f", 0o666)?;
    file(context, b"f", 0o666)?;
    context.me.mkdir(b"d/e", 0o777)?;
    let other = other(context)?;
    refused!(other.create(b"d/new"), EACCES);
    refused!(other.mkdir(b"d/new", 0o755), EACCES);
    refused!(other.symlink(b"t", b"d/new"), EACCES);
    refused!(other.mknod(b"d/new", libc::S_IFREG | 0o600, (0, 0)), EACCES);
    refused!(other.link(b"f", b"d/new"), EACCES);
    refused!(other.unlink(b"d/f"), EACCES);
    refused!(other.rmdir(b"d/e"), EACCES);
    refused!(other.rename(b"d/f", b"d/g"), EACCES);
    // The file itself is writable.
    other.edit(b"d/f")?.put_at(b"x", 0)?;
    same!(context.me.names(b"d")?.len(), 2);
    Ok(())
}

fn unlinking_needs_the_directory_only(context: &TestContext<'_>) -> Outcome {
    directory(context, b"d", 0o777)?;
    file(context, b"d/f", 0)?;
    let other = other(context)?;
    refused!(other.get(b"d/f"), EACCES);
    other.rename(b"d/f", b"d/g")?;
    other.unlink(b"d/g")?;
    context.me.mkdir(b"d/e", 0)?;
    other.rmdir(b"d/e")?;
    Ok(())
}

fn renaming_needs_both_directories(context: &TestContext<'_>) -> Outcome {
    directory(context, b"open", 0o777)?;
    directory(context, b"closed", 0o755)?;
    file(context, b"open/f", 0o644)?;
    file(context, b"closed/f", 0o644)?;
    let other = other(context)?;
    refused!(other.rename(b"open/f", b"closed/g"), EACCES);
    refused!(other.rename(b"closed/f", b"open/g"), EACCES);
    refused!(other.rename(b"open/f", b"closed/f"), EACCES);
    other.rename(b"open/f", b"open/g")?;
    same!(context.me.names(b"closed")?, vec![b"f".to_vec()]);
    Ok(())
}

fn renaming_a_directory_needs_it_too(context: &TestContext<'_>) -> Outcome {
    directory(context, b"a", 0o777)?;
    directory(context, b"b", 0o777)?;
    directory(context, b"a/d", 0o755)?;
    let other = other(context)?;
    // Moving it to another directory changes its "..".
    refused!(other.rename(b"a/d", b"b/d"), EACCES);
    other.rename(b"a/d", b"a/e")?;
    context.me.chmod(b"a/e", 0o777)?;
    other.rename(b"a/e", b"b/e")?;
    Ok(())
}

fn sticky_directory(context: &TestContext<'_>) -> Outcome {
    context.me.mkdir(b"tmp", 0o755)?;
    context.me.chmod(b"tmp", 0o1777)?;
    let (owner, other) = (owner(context)?, other(context)?);
    owner.put(b"tmp/f", b"")?;
    owner.mkdir(b"tmp/d", 0o777)?;
    owner.chmod(b"tmp/f", 0o666)?;
    refused!(other.unlink(b"tmp/f"), EPERM | EACCES);
    refused!(other.rmdir(b"tmp/d"), EPERM | EACCES);
    refused!(other.rename(b"tmp/f", b"tmp/g"), EPERM | EACCES);
    refused!(other.rename(b"tmp/f", b"g"), EPERM | EACCES);
    other.edit(b"tmp/f")?;
    owner.rename(b"tmp/f", b"tmp/g")?;
    owner.unlink(b"tmp/g")?;
    context.me.rmdir(b"tmp/d")?;
    Ok(())
}

fn sticky_directory_of_ones_own(context: &TestContext<'_>) -> Outcome {
    directory(context, b"d", 0o1777)?;
    let (owner, other) = (owner(context)?, other(context)?);
    other.put(b"d/f", b"")?;
    owner.rename(b"d/f", b"d/g")?;
    owner.unlink(b"d/g")?;
    Ok(())
}

fn sticky_rename_over(context: &TestContext<'_>) -> Outcome {
    context.me.mkdir(b"tmp", 0o755)?;
    context.me.chmod(b"tmp", 0o1777)?;
    let (owner, other) = (owner(context)?, other(context)?);
    owner.put(b"tmp/f", b"owner's")?;
    other.put(b"tmp/g", b"other's")?;
    refused!(other.rename(b"tmp/g", b"tmp/f"), EPERM | EACCES);
    same!(owner.get(b"tmp/f")?, b"owner's");
    other.put(b"tmp/h", b"more")?;
    other.rename(b"tmp/g", b"tmp/h")?;
    same!(other.get(b"tmp/h")?, b"other's");
    Ok(())
}

fn chmod_by_owner_only(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o666)?;
    let member = context.client(&Identity::user(OTHER).and_groups(&[GROUP]))?;
    refused!(other(context)?.chmod(b"f", 0o777), EPERM);
    refused!(member.chmod(b"f", 0o777), EPERM);
    refused!(member.edit(b"f")?.chmod(0o777), EPERM);
    owner(context)?.chmod(b"f", 0o400)?;
    same!(context.me.stat(b"f")?.mode, 0o400);
    Ok(())
}

fn chown_by_root_only(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o666)?;
    let (owner, other) = (owner(context)?, other(context)?);
    refused!(owner.chown(b"f", Some(OTHER), None), EPERM);
    refused!(other.chown(b"f", Some(OTHER), None), EPERM);
    refused!(other.chown(b"f", None, Some(OTHER)), EPERM);
    refused!(owner.chown(b"f", None, Some(OTHER)), EPERM);
    same!((context.me.stat(b"f")?.uid, context.me.stat(b"f")?.gid), (OWNER, GROUP));
    context.me.chown(b"f", Some(OTHER), Some(OTHER))?;
    other.chmod(b"f", 0o600)?;
    Ok(())
}

fn chgrp_to_own_groups(context: &TestContext<'_>) -> Outcome {
    let owner = context.client(&Identity::user(OWNER).and_groups(&[GROUP, 2001]))?;
    owner.put(b"f", b"")?;
    same!(owner.stat(b"f")?.gid, OWNER);
    owner.chown(b"f", None, Some(GROUP))?;
    owner.chown(b"f", Some(OWNER), Some(2001))?;
    same!(owner.stat(b"f")?.gid, 2001);
    refused!(owner.chown(b"f", None, Some(2002)), EPERM);
    let member = context.client(&Identity::user(OTHER).and_groups(&[GROUP, 2001]))?;
    refused!(member.chown(b"f", None, Some(GROUP)), EPERM);
    Ok(())
}

fn setgid_needs_membership(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o755)?;
    // The owner is not in the file's group: the bit is dropped silently.
    owner(context)?.chmod(b"f", 0o2755)?;
    same!(context.me.stat(b"f")?.mode, 0o755);
    let member = context.client(&Identity::user(OWNER).and_groups(&[GROUP]))?;
    member.chmod(b"f", 0o2755)?;
    same!(context.me.stat(b"f")?.mode, 0o2755);
    context.me.chown(b"f", None, Some(GROUP))?;
    member.chmod(b"f", 0o4755)?;
    same!(context.me.stat(b"f")?.mode, 0o4755);
    Ok(())
}

/// Runs an operation on a set-id file of the owner, writable by everybody, and returns the resulting mode.
fn mode_after(context: &TestContext<'_>, mode: u32, operation: impl FnOnce() -> Outcome) -> Outcome<u32> {
    context.me.chmod(b"f", mode)?;
    same!(context.me.stat(b"f")?.mode, mode);
    operation()?;
    Ok(context.me.stat(b"f")?.mode)
}

fn write_clears_set_id(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o777)?;
    for client in [owner(context)?, other(context)?] {
        let open = client.edit(b"f")?;
        same!(mode_after(context, 0o6777, || Ok(open.put_at(b"x", 0)?))?, 0o777);
        same!(mode_after(context, 0o4777, || Ok(open.put_at(b"x", 0)?))?, 0o777);
        let append = client.open(b"f", libc::O_WRONLY | libc::O_APPEND, 0)?;
        same!(mode_after(context, 0o6777, || append.write(b"x").map(drop).map_err(Into::into))?, 0o777);
    }
    Ok(())
}

fn truncate_clears_set_id(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o777)?;
    let other = other(context)?;
    same!(mode_after(context, 0o6777, || Ok(other.truncate(b"f", 3)?))?, 0o777);
    let open = other.edit(b"f")?;
    same!(mode_after(context, 0o6777, || Ok(open.truncate(10)?))?, 0o777);
    let reopened = || -> Outcome {
        other.open(b"f", libc::O_WRONLY | libc::O_TRUNC, 0)?;
        Ok(())
    };
    same!(mode_after(context, 0o6777, reopened)?, 0o777);
    Ok(())
}

fn allocation_clears_set_id(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o777)?;
    let open = other(context)?.edit(b"f")?;
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    same!(mode_after(context, 0o6777, || Ok(open.allocate(punch, 0, 4)?))?, 0o777);
    each_allocation(&*open, |allocate| {
        same!(mode_after(context, 0o6777, allocate)?, 0o777);
        Ok(())
    })
}

/// Runs a test on each kind of fallocate(2) that the file system supports.
fn each_allocation(file: &dyn File, test: impl Fn(&dyn Fn() -> Outcome) -> Outcome) -> Outcome {
    const BLOCK: u64 = 4096;
    for mode in [
        0,
        libc::FALLOC_FL_KEEP_SIZE,
        libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
        libc::FALLOC_FL_ZERO_RANGE,
        libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE,
        libc::FALLOC_FL_COLLAPSE_RANGE,
        libc::FALLOC_FL_INSERT_RANGE,
    ] {
        file.truncate(4 * BLOCK)?;
        match file.allocate(mode, BLOCK, BLOCK) {
            Err(Errno::EOPNOTSUPP | Errno::EINVAL) => {}
            _ => {
                file.truncate(4 * BLOCK)?;
                test(&|| Ok(file.allocate(mode, BLOCK, BLOCK)?))?;
            }
        }
    }
    Ok(())
}

fn copy_clears_set_id(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o777)?;
    context.me.put(b"source", &[1; 8192])?;
    context.me.chmod(b"source", 0o644)?;
    for client in [owner(context)?, other(context)?] {
        let (source, open) = (client.open(b"source", libc::O_RDONLY, 0)?, client.edit(b"f")?);
        let copy = || {
            same!(source.copy_range(0, &*open, 0, 4096)?, 4096);
            Ok(())
        };
        same!(mode_after(context, 0o6777, copy)?, 0o777);
    }
    Ok(())
}

fn chown_clears_set_id(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o777)?;
    let owner = context.client(&Identity::user(OWNER).and_groups(&[GROUP, 2001]))?;
    same!(mode_after(context, 0o6755, || Ok(owner.chown(b"f", None, Some(2001))?))?, 0o755);
    same!(mode_after(context, 0o6755, || Ok(context.me.chown(b"f", Some(OWNER), Some(GROUP))?))?, 0o755);
    // A directory keeps the bits.
    directory(context, b"d", 0o755)?;
    context.me.chmod(b"d", 0o6755)?;
    context.me.chown(b"d", Some(OTHER), Some(OTHER))?;
    same!(context.me.stat(b"d")?.mode, 0o6755);
    Ok(())
}

fn chown_keeps_setgid_without_execution(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o644)?;
    // Set-group-id without group execute permission marks mandatory locking, not privilege.
    let mode = mode_after(context, 0o2644, || Ok(context.me.chown(b"f", Some(OTHER), None)?))?;
    same!(mode, 0o2644);
    Ok(())
}

fn root_writes_and_set_id_stays(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o777)?;
    let open = context.me.edit(b"f")?;
    same!(mode_after(context, 0o6777, || Ok(open.put_at(b"x", 0)?))?, 0o6777);
    same!(mode_after(context, 0o6777, || Ok(open.truncate(1)?))?, 0o6777);
    let reopened = || -> Outcome {
        context.me.open(b"f", libc::O_WRONLY | libc::O_TRUNC, 0)?;
        Ok(())
    };
    same!(mode_after(context, 0o6777, reopened)?, 0o6777);
    Ok(())
}

fn root_allocates_and_set_id_stays(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o777)?;
    let open = context.me.edit(b"f")?;
    each_allocation(&*open, |allocate| {
        same!(mode_after(context, 0o6777, allocate)?, 0o6777);
        Ok(())
    })
}

fn root_copies_and_set_id_stays(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o777)?;
    context.me.put(b"source", &[1; 8192])?;
    let (source, open) = (context.me.open(b"source", libc::O_RDONLY, 0)?, context.me.edit(b"f")?);
    let copy = || {
        same!(source.copy_range(0, &*open, 0, 4096)?, 4096);
        Ok(())
    };
    same!(mode_after(context, 0o6777, copy)?, 0o6777);
    Ok(())
}

fn setgid_directory_gives_its_group(context: &TestContext<'_>) -> Outcome {
    context.me.mkdir(b"d", 0o755)?;
    context.me.chown(b"d", None, Some(GROUP))?;
    context.me.chmod(b"d", 0o2777)?;
    let member = context.client(&Identity::user(OTHER).and_groups(&[GROUP]))?;
    member.put(b"d/f", b"")?;
    member.mkdir(b"d/e", 0o755)?;
    member.symlink(b"t", b"d/s")?;
    for name in [&b"d/f"[..], b"d/e", b"d/s"] {
        same!(member.lstat(name)?.gid, GROUP, "group of {name:?}");
        same!(member.lstat(name)?.uid, OTHER, "owner of {name:?}");
    }
    same!(member.stat(b"d/e")?.mode, 0o2755);
    same!(member.stat(b"d/f")?.mode, 0o644);
    member.mkdir(b"d/e/deeper", 0o700)?;
    same!((member.stat(b"d/e/deeper")?.gid, member.stat(b"d/e/deeper")?.mode), (GROUP, 0o2700));
    Ok(())
}

fn setgid_directory_with_foreign_group(context: &TestContext<'_>) -> Outcome {
    context.me.mkdir(b"d", 0o755)?;
    context.me.chown(b"d", None, Some(GROUP))?;
    context.me.chmod(b"d", 0o2777)?;
    let other = other(context)?;
    // The group is inherited, but without the bit that would grant its privileges.
    other.open(b"d/f", libc::O_CREAT | libc::O_RDWR, 0o2775)?;
    let stat = other.stat(b"d/f")?;
    same!((stat.gid, stat.mode), (GROUP, 0o755));
    other.mkdir(b"d/e", 0o755)?;
    same!((other.stat(b"d/e")?.gid, other.stat(b"d/e")?.mode), (GROUP, 0o2755));
    Ok(())
}

fn access_answers(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o641)?;
    let (owner, other) = (owner(context)?, other(context)?);
    let member = context.client(&Identity::user(OTHER).and_groups(&[GROUP]))?;
    owner.access(b"f", libc::R_OK | libc::W_OK)?;
    refused!(owner.access(b"f", libc::X_OK), EACCES);
    member.access(b"f", libc::R_OK)?;
    refused!(member.access(b"f", libc::R_OK | libc::W_OK), EACCES);
    other.access(b"f", libc::X_OK)?;
    other.access(b"f", libc::F_OK)?;
    refused!(other.access(b"f", libc::R_OK), EACCES);
    refused!(other.access(b"none", libc::F_OK), ENOENT);
    directory(context, b"d", 0o700)?;
    refused!(other.access(b"d/none", libc::F_OK), EACCES);
    Ok(())
}

fn access_of_root(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0)?;
    context.me.access(b"f", libc::R_OK | libc::W_OK)?;
    // Root may execute what at least one class may execute.
    refused!(context.me.access(b"f", libc::X_OK), EACCES);
    context.me.chmod(b"f", 0o001)?;
    context.me.access(b"f", libc::X_OK)?;
    directory(context, b"d", 0)?;
    context.me.access(b"d", libc::R_OK | libc::W_OK | libc::X_OK)?;
    Ok(())
}

fn truncate_needs_writing(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o444)?;
    refused!(owner(context)?.truncate(b"f", 0), EACCES);
    refused!(other(context)?.truncate(b"f", 0), EACCES);
    same!(context.me.stat(b"f")?.size, 8);
    context.me.chmod(b"f", 0o002)?;
    other(context)?.truncate(b"f", 1)?;
    same!(context.me.stat(b"f")?.size, 1);
    Ok(())
}

fn open_with_truncation_needs_writing(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o444)?;
    let other = other(context)?;
    refused!(other.open(b"f", libc::O_RDONLY | libc::O_TRUNC, 0), EACCES);
    refused!(other.open(b"f", libc::O_WRONLY | libc::O_TRUNC, 0), EACCES);
    refused!(other.open(b"f", libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, 0o644), EACCES);
    same!(context.me.get(b"f")?, b"contents");
    Ok(())
}

fn an_open_file_stays_open(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0o666)?;
    let open = other(context)?.edit(b"f")?;
    context.me.chmod(b"f", 0)?;
    open.put_at(b"C", 0)?;
    same!(open.contents()?, b"Contents");
    open.truncate(1)?;
    same!(open.stat()?.size, 1);
    refused!(other(context)?.edit(b"f"), EACCES);
    Ok(())
}

fn created_without_permission_for_oneself(context: &TestContext<'_>) -> Outcome {
    let owner = owner(context)?;
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
    let open = owner.open(b"f", flags, 0)?;
    open.put_at(b"data", 0)?;
    same!(open.contents()?, b"data");
    refused!(owner.get(b"f"), EACCES);
    same!(owner.stat(b"f")?.mode, 0);
    let open = owner.open(b"g", libc::O_CREAT | libc::O_WRONLY, 0o444)?;
    open.put_at(b"data", 0)?;
    same!(owner.get(b"g")?, b"data");
    Ok(())
}

fn readlink_needs_only_search(context: &TestContext<'_>) -> Outcome {
    directory(context, b"d", 0o711)?;
    context.me.symlink(b"target", b"d/s")?;
    let other = other(context)?;
    same!(other.readlink(b"d/s")?, b"target");
    make_private(context, b"d", 0o744, b"s")?;
    refused!(other.readlink(b"d/s"), EACCES);
    Ok(())
}

fn symlink_through_forbidden_directory(context: &TestContext<'_>) -> Outcome {
    directory(context, b"d", 0o700)?;
    file(context, b"d/f", 0o666)?;
    context.me.symlink(b"d/f", b"s")?;
    same!(owner(context)?.get(b"s")?, b"contents");
    refused!(other(context)?.get(b"s"), EACCES);
    other(context)?.lstat(b"s")?;
    Ok(())
}

fn revoking_search_takes_effect_at_once(context: &TestContext<'_>) -> Outcome {
    directory(context, b"d", 0o755)?;
    file(context, b"d/f", 0o666)?;
    let other = other(context)?;
    for _ in 0..20 {
        same!(other.get(b"d/f")?, b"contents");
        context.me.chmod(b"d", 0o700)?;
        refused!(other.get(b"d/f"), EACCES);
        refused!(other.stat(b"d/f"), EACCES);
        context.me.chmod(b"d", 0o755)?;
    }
    Ok(())
}

fn revoking_group_takes_effect_at_once(context: &TestContext<'_>) -> Outcome {
    directory(context, b"d", 0o750)?;
    file(context, b"d/f", 0o640)?;
    let member = context.client(&Identity::user(OTHER).and_groups(&[GROUP]))?;
    same!(member.get(b"d/f")?, b"contents");
    context.me.chown(b"d/f", None, Some(1))?;
    refused!(member.get(b"d/f"), EACCES);
    context.me.chown(b"d", None, Some(1))?;
    refused!(member.stat(b"d/f"), EACCES);
    Ok(())
}

fn denied_creation_leaves_nothing(context: &TestContext<'_>) -> Outcome {
    directory(context, b"d", 0o555)?;
    for client in [owner(context)?, other(context)?] {
        refused!(client.create(b"d/f"), EACCES);
        refused!(client.mkdir(b"d/g", 0o777), EACCES);
        refused!(client.symlink(b"t", b"d/h"), EACCES);
    }
    same!(context.me.names(b"d")?.len(), 0);
    Ok(())
}

fn stat_needs_no_permission_on_the_object(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0)?;
    directory(context, b"d", 0)?;
    let other = other(context)?;
    same!(other.stat(b"f")?.size, 8);
    same!(other.stat(b"d")?.mode, 0);
    Ok(())
}

fn missing_or_forbidden(context: &TestContext<'_>) -> Outcome {
    directory(context, b"d", 0o700)?;
    file(context, b"d/f", 0o777)?;
    let other = other(context)?;
    // Refusals must not reveal whether a name exists.
    for name in [&b"d/f"[..], b"d/none"] {
        refused!(other.stat(name), EACCES);
        refused!(other.unlink(name), EACCES);
        refused!(other.rename(name, b"x"), EACCES);
        refused!(other.open(name, libc::O_CREAT | libc::O_EXCL, 0o600), EACCES);
        refused!(other.mkdir(name, 0o755), EACCES | EEXIST);
    }
    Ok(())
}

fn every_mode_for_every_class(context: &TestContext<'_>) -> Outcome {
    file(context, b"f", 0)?;
    let member = context.client(&Identity::user(OTHER).and_groups(&[GROUP]))?;
    let classes = [(owner(context)?, 6), (member, 3), (other(context)?, 0)];
    for mode in 0..0o1000_u32 {
        context.me.chmod(b"f", mode)?;
        for (client, shift) in &classes {
            let bits = mode >> shift & 7;
            for wanted in 1..8 {
                let allowed = client.access(b"f", wanted).is_ok();
                ensure!(
                    allowed == (bits & wanted as u32 == wanted as u32),
                    "mode {mode:03o}, class at bit {shift}, access {wanted}: {allowed}"
                );
            }
        }
        if mode % 9 == 0 {
            let (client, shift) = &classes[mode as usize / 9 % 3];
            same!(client.get(b"f").is_ok(), mode >> shift & 4 != 0, "reading with mode {mode:03o} at bit {shift}");
            same!(client.edit(b"f").is_ok(), mode >> shift & 6 == 6, "writing with mode {mode:03o} at bit {shift}");
        }
    }
    Ok(())
}
