//! Attributes: the results of stat, and chmod and chown by root.

use super::common::{group, numbered, pause};
use crate::check::{ensure, refused, same};
use crate::{Kind, Outcome, TestContext};

group! { "attributes":
    of_a_new_file;
    of_a_new_directory;
    of_a_symlink;
    umask_narrows_new_modes;
    every_mode_bit;
    change_of_mode_through_a_symlink;
    change_of_mode_of_an_open_file;
    size_follows_writes;
    blocks_follow_data;
    inode_is_stable;
    inodes_differ;
    open_file_and_path_agree;
    readdir_agrees_with_stat;
    directory_link_count [DirectoryLinks];
    file_link_count [HardLinks];
    owner_and_group [Users];
    large_ids [Users];
    owner_of_a_symlink [Users];
    owner_of_an_open_file [Users];
    birth_time [BirthTimes];
    every_opener_sees_changes;
}

fn of_a_new_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    let stat = file.stat()?;
    same!(stat.kind, Kind::Regular);
    same!(stat.mode, 0o644);
    same!(stat.links, 1);
    same!(stat.size, 0);
    same!(stat.blocks, 0);
    same!((stat.uid, stat.gid), own_ids(context)?);
    ensure!(stat.block_size >= 512, "block size {}", stat.block_size);
    Ok(())
}

fn of_a_new_directory(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o751)?;
    let stat = me.stat(b"d")?;
    same!(stat.kind, Kind::Directory);
    same!(stat.mode, 0o751);
    same!((stat.uid, stat.gid), own_ids(context)?);
    same!(me.names(b"d")?.len(), 0);
    Ok(())
}

/// Returns the uid and gid of the test's own directory, which are those of the client that created it.
fn own_ids(context: &TestContext<'_>) -> Outcome<(u32, u32)> {
    let stat = context.me.stat(b".")?;
    Ok((stat.uid, stat.gid))
}

fn of_a_symlink(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.symlink(b"where/it/leads", b"s")?;
    let stat = me.lstat(b"s")?;
    same!(stat.kind, Kind::Symlink);
    same!(stat.mode, 0o777);
    same!(stat.size, 14);
    same!(stat.links, 1);
    Ok(())
}

fn umask_narrows_new_modes(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    for (mask, file, directory) in [(0, 0o666, 0o777), (0o27, 0o640, 0o750), (0o777, 0, 0)] {
        me.umask(mask);
        let (f, d, n) = (numbered("f", mask as usize), numbered("d", mask as usize), numbered("n", mask as usize));
        me.open(&f, libc::O_CREAT | libc::O_RDWR, 0o666)?;
        me.mkdir(&d, 0o777)?;
        me.mknod(&n, libc::S_IFREG | 0o666, (0, 0))?;
        same!(me.stat(&f)?.mode, file, "file with umask {mask:o}");
        same!(me.stat(&d)?.mode, directory, "directory with umask {mask:o}");
        same!(me.stat(&n)?.mode, file, "node with umask {mask:o}");
        me.chmod(&d, 0o700)?;
    }
    Ok(())
}

fn every_mode_bit(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.mkdir(b"d", 0o755)?;
    for mode in (0..12).map(|bit| 1 << bit).chain([0, 0o7777, 0o644]) {
        me.chmod(b"f", mode)?;
        same!(me.stat(b"f")?.mode, mode);
        me.chmod(b"d", mode)?;
        same!(me.stat(b"d")?.mode, mode);
        same!(me.stat(b"d")?.kind, Kind::Directory);
    }
    Ok(())
}

fn change_of_mode_through_a_symlink(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.symlink(b"f", b"s")?;
    me.chmod(b"s", 0o604)?;
    same!(me.stat(b"f")?.mode, 0o604);
    same!(me.lstat(b"s")?.mode, 0o777);
    Ok(())
}

fn change_of_mode_of_an_open_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    file.chmod(0o400)?;
    same!(me.stat(b"f")?.mode, 0o400);
    // The permitted uses of an open file were determined when it was opened.
    file.put_at(b"still", 0)?;
    me.unlink(b"f")?;
    file.chmod(0o640)?;
    same!(file.stat()?.mode, 0o640);
    Ok(())
}

fn size_follows_writes(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    for (data, offset, size) in [(&b"abc"[..], 0, 3), (b"x", 1, 3), (b"yz", 2, 4), (b"end", 10_000, 10_003)] {
        file.put_at(data, offset)?;
        same!(file.stat()?.size, size);
        same!(me.stat(b"f")?.size, size);
    }
    file.truncate(17)?;
    same!(me.stat(b"f")?.size, 17);
    Ok(())
}

fn blocks_follow_data(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    file.put_at(&context.noise(1 << 20, 0), 0)?;
    file.sync(false)?;
    let bytes = file.stat()?.blocks * 512;
    // Where blocks go to the end of a log, that of a layer on another such layer, there is more than twice the data until it is given back.
    ensure!((1 << 20..3 << 20).contains(&bytes), "{bytes} bytes are allocated for 1 MiB");
    file.truncate(0)?;
    file.sync(false)?;
    let bytes = file.stat()?.blocks * 512;
    ensure!(bytes < 1 << 16, "{bytes} bytes are allocated for an empty file");
    Ok(())
}

fn inode_is_stable(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    let inode = me.stat(b"f")?.inode;
    me.put(b"f", b"data")?;
    me.chmod(b"f", 0o600)?;
    me.mkdir(b"d", 0o755)?;
    me.rename(b"f", b"d/g")?;
    same!(me.stat(b"d/g")?.inode, inode);
    let directory = me.stat(b"d")?.inode;
    me.rename(b"d", b"e")?;
    same!(me.stat(b"e")?.inode, directory);
    same!(context.another()?.stat(b"e/g")?.inode, inode);
    Ok(())
}

fn inodes_differ(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let mut inodes = std::collections::HashSet::new();
    for number in 0..200 {
        let name = numbered("x", number);
        match number % 3 {
            0 => me.put(&name, b"")?,
            1 => me.mkdir(&name, 0o755)?,
            _ => me.symlink(b"t", &name)?,
        }
        ensure!(inodes.insert(me.lstat(&name)?.inode), "the inode number of {name:?} is used twice");
    }
    Ok(())
}

fn open_file_and_path_agree(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    file.put_at(b"some data", 0)?;
    same!(file.stat()?, me.stat(b"f")?, "after a write");
    me.chmod(b"f", 0o640)?;
    same!(file.stat()?, me.stat(b"f")?, "after chmod");
    me.truncate(b"f", 3)?;
    same!(file.stat()?, me.stat(b"f")?, "after truncate");
    me.rename(b"f", b"g")?;
    same!(file.stat()?, me.stat(b"g")?, "after rename");
    Ok(())
}

fn readdir_agrees_with_stat(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.mkdir(b"d", 0o755)?;
    me.symlink(b"d", b"s")?;
    me.mknod(b"p", libc::S_IFREG | 0o600, (0, 0))?;
    for entry in me.entries(b".")? {
        let stat = me.lstat(&entry.name)?;
        same!(entry.inode, stat.inode, "inode number of {:?}", entry.name);
        ensure!(
            entry.kind == stat.kind || entry.kind == Kind::Unknown,
            "{:?} is {:?}, readdir says {:?}",
            entry.name,
            stat.kind,
            entry.kind
        );
    }
    Ok(())
}

fn directory_link_count(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    same!(me.stat(b"d")?.links, 2);
    me.mkdir(b"d/one", 0o755)?;
    me.mkdir(b"d/two", 0o755)?;
    me.put(b"d/file", b"")?;
    same!(me.stat(b"d")?.links, 4);
    me.mkdir(b"e", 0o755)?;
    me.rename(b"d/one", b"e/one")?;
    same!((me.stat(b"d")?.links, me.stat(b"e")?.links), (3, 3));
    me.rmdir(b"d/two")?;
    same!(me.stat(b"d")?.links, 2);
    Ok(())
}

fn file_link_count(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    for number in 2..=10 {
        me.link(b"f", &numbered("l", number))?;
        same!(me.stat(b"f")?.links, number as u64);
    }
    me.unlink(b"f")?;
    same!(me.stat(b"l2")?.links, 9);
    me.rename(b"l3", b"l4x")?;
    same!(me.stat(b"l2")?.links, 9);
    me.put(b"other", b"")?;
    me.rename(b"other", b"l5")?;
    same!(me.stat(b"l2")?.links, 8);
    same!(me.stat(b"l5")?.links, 1);
    Ok(())
}

fn owner_and_group(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.chown(b"f", Some(1001), Some(1002))?;
    same!((me.stat(b"f")?.uid, me.stat(b"f")?.gid), (1001, 1002));
    me.chown(b"f", None, Some(1003))?;
    same!((me.stat(b"f")?.uid, me.stat(b"f")?.gid), (1001, 1003));
    me.chown(b"f", Some(1004), None)?;
    same!((me.stat(b"f")?.uid, me.stat(b"f")?.gid), (1004, 1003));
    me.chown(b"f", None, None)?;
    same!((me.stat(b"f")?.uid, me.stat(b"f")?.gid), (1004, 1003));
    let user = context.user(1005)?;
    user.put(b"g", b"")?;
    user.mkdir(b"d", 0o755)?;
    user.symlink(b"t", b"s")?;
    for name in [b"g", b"d", b"s"] {
        let stat = me.lstat(name)?;
        same!((stat.uid, stat.gid), (1005, 1005), "owner of {name:?}");
    }
    Ok(())
}

fn large_ids(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    for id in [65_534, 65_536, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe] {
        me.chown(b"f", Some(id), Some(id - 1))?;
        same!((me.stat(b"f")?.uid, me.stat(b"f")?.gid), (id, id - 1));
    }
    Ok(())
}

fn owner_of_a_symlink(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.symlink(b"f", b"s")?;
    me.lchown(b"s", Some(7), Some(8))?;
    same!((me.lstat(b"s")?.uid, me.lstat(b"s")?.gid), (7, 8));
    same!(me.stat(b"f")?.uid, 0);
    me.chown(b"s", Some(9), None)?;
    same!(me.lstat(b"s")?.uid, 7);
    same!(me.stat(b"f")?.uid, 9);
    Ok(())
}

fn owner_of_an_open_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    file.chown(Some(11), Some(12))?;
    same!((me.stat(b"f")?.uid, me.stat(b"f")?.gid), (11, 12));
    me.unlink(b"f")?;
    file.chown(None, Some(13))?;
    same!((file.stat()?.uid, file.stat()?.gid), (11, 13));
    Ok(())
}

fn birth_time(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    let first = me.stat(b"f")?;
    ensure!(first.born.is_some(), "no time of creation");
    ensure!(first.born <= Some(first.changed), "born after the last change: {first:?}");
    pause();
    me.put(b"f", b"more")?;
    me.chmod(b"f", 0o600)?;
    me.rename(b"f", b"g")?;
    same!(me.stat(b"g")?.born, first.born);
    Ok(())
}

fn every_opener_sees_changes(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let file = context.me.create(b"f")?;
    let seen = other.open(b"f", libc::O_RDONLY, 0)?;
    for round in 1..50_u64 {
        file.put_at(&[round as u8; 100], (round - 1) * 100)?;
        same!(other.stat(b"f")?.size, round * 100);
        same!(seen.get_at((round - 1) * 100, 200)?, vec![round as u8; 100]);
    }
    other.unlink(b"f")?;
    refused!(context.me.stat(b"f"), ENOENT);
    same!(file.stat()?.links, 0);
    Ok(())
}
