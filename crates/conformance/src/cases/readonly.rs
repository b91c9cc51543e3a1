//! A subject that refuses every change, on the tree that [`prepare`] creates.

use super::common::{numbered, run_concurrently};
use crate::check::{ensure, refused, same};
use crate::subject::Result;
use crate::{Abilities, Ability, Client, Kind, Lock, LockKind, Outcome, Test, TestContext, Time, TimeChange};

/// Lists the tests: they need a read-only subject, and the abilities that they name.
macro_rules! tests {
    ($($name:ident $([$($need:ident),*])?;)+) => {
        pub(crate) fn tests() -> Vec<Test> {
            vec![$(Test {
                group: "readonly",
                name: stringify!($name),
                needs: &[Ability::ReadOnly $($(, Ability::$need)*)?],
                body: $name,
            }),+]
        }
    };
}

tests! {
    reading;
    listing;
    attributes;
    symlinks;
    opening_to_write;
    creation;
    removal;
    renaming;
    links;
    changes_of_attributes;
    changes_through_an_open_file;
    extended_attributes [ExtendedAttributes];
    access_of_writers;
    permissions_still_hold [Users];
    locks [RangeLocks];
    maps [Map];
    large_file;
    many_readers;
    seeking_in_a_directory;
    special_files [SpecialFiles];
}

/// A time that every file system can record.
const OLD: Time = Time::new(1_000_000_000, 0);

/// Creates the tree.
pub(crate) fn prepare(client: &dyn Client, abilities: Abilities) -> Result<()> {
    client.put(b"readme", b"read me\n")?;
    client.mkdir(b"d", 0o755)?;
    client.put(b"d/f", b"below")?;
    client.symlink(b"d/f", b"s")?;
    client.mkdir(b"empty", 0o777)?;
    client.chmod(b"empty", 0o777)?;
    client.mkdir(b"many", 0o755)?;
    for number in 0..200 {
        client.put(&numbered("many/entry-with-a-long-name-", number), b"")?;
    }
    client.put(b"large", &pattern())?;
    client.put(b"open", b"to all")?;
    client.chmod(b"open", 0o666)?;
    client.put(b"secret", b"to nobody")?;
    client.chmod(b"secret", 0o600)?;
    if abilities.has(Ability::ExtendedAttributes) {
        client.setxattr(b"readme", b"user.a", b"value", 0)?;
    }
    if abilities.has(Ability::SpecialFiles) {
        client.mknod(b"fifo", libc::S_IFIFO | 0o644, (0, 0))?;
    }
    client.set_times(b"readme", TimeChange::To(OLD), TimeChange::To(OLD), true)
}

fn pattern() -> Vec<u8> {
    (0..1_000_003_u32).map(|n| (n ^ n >> 9) as u8).collect()
}

fn reading(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    same!(me.get(b"readme")?, b"read me\n");
    same!(me.get(b"d/../d/f")?, b"below");
    same!(me.open(b"readme", libc::O_RDONLY, 0)?.get_at(5, 2)?, b"me");
    // An existing file can be opened even with O_CREAT.
    same!(me.open(b"readme", libc::O_RDONLY | libc::O_CREAT, 0o644)?.contents()?, b"read me\n");
    refused!(me.get(b"none"), ENOENT);
    refused!(me.get(b"readme/x"), ENOTDIR);
    Ok(())
}

fn listing(context: &TestContext<'_>) -> Outcome {
    let mut expected: Vec<Vec<u8>> = (0..200).map(|number| numbered("entry-with-a-long-name-", number)).collect();
    expected.sort();
    same!(context.me.names(b"many")?, expected);
    same!(context.me.names(b"empty")?.len(), 0);
    ensure!(context.me.names(b".")?.contains(&b"readme".to_vec()), "a name is not listed");
    Ok(())
}

fn attributes(context: &TestContext<'_>) -> Outcome {
    let stat = context.me.stat(b"readme")?;
    same!((stat.kind, stat.mode, stat.size, stat.links, stat.modified), (Kind::Regular, 0o644, 8, 1, OLD));
    same!(context.me.stat(b"d")?.kind, Kind::Directory);
    same!(context.me.open(b"readme", libc::O_RDONLY, 0)?.stat()?.inode, stat.inode);
    Ok(())
}

fn symlinks(context: &TestContext<'_>) -> Outcome {
    same!(context.me.readlink(b"s")?, b"d/f");
    same!(context.me.get(b"s")?, b"below");
    same!(context.me.lstat(b"s")?.kind, Kind::Symlink);
    refused!(context.me.symlink(b"t", b"new"), EROFS);
    Ok(())
}

fn opening_to_write(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    for flags in [libc::O_WRONLY, libc::O_RDWR, libc::O_WRONLY | libc::O_APPEND, libc::O_RDONLY | libc::O_TRUNC] {
        refused!(me.open(b"open", flags, 0), EROFS);
    }
    refused!(me.open(b"open", libc::O_RDWR | libc::O_CREAT, 0o644), EROFS);
    refused!(me.open(b"open", libc::O_RDONLY | libc::O_CREAT | libc::O_EXCL, 0o644), EEXIST);
    same!(me.get(b"open")?, b"to all");
    Ok(())
}

fn creation(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    refused!(me.create(b"empty/new"), EROFS);
    refused!(me.mkdir(b"empty/new", 0o755), EROFS);
    refused!(me.symlink(b"t", b"empty/new"), EROFS);
    refused!(me.mknod(b"empty/new", libc::S_IFREG | 0o644, (0, 0)), EROFS);
    refused!(me.mknod(b"empty/new", libc::S_IFIFO | 0o644, (0, 0)), EROFS);
    refused!(me.open(b"empty", libc::O_TMPFILE | libc::O_RDWR, 0o600), EROFS | EOPNOTSUPP);
    same!(me.names(b"empty")?.len(), 0);
    Ok(())
}

fn removal(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    refused!(me.unlink(b"readme"), EROFS);
    refused!(me.unlink(b"s"), EROFS);
    refused!(me.rmdir(b"empty"), EROFS);
    me.stat(b"readme")?;
    me.stat(b"empty")?;
    Ok(())
}

fn renaming(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    refused!(me.rename(b"readme", b"new"), EROFS);
    refused!(me.rename(b"readme", b"open"), EROFS);
    refused!(me.rename(b"d", b"empty"), EROFS);
    refused!(me.rename_with(b"readme", b"new", libc::RENAME_NOREPLACE), EROFS);
    refused!(me.rename_with(b"readme", b"open", libc::RENAME_EXCHANGE), EROFS);
    me.stat(b"readme")?;
    Ok(())
}

fn links(context: &TestContext<'_>) -> Outcome {
    refused!(context.me.link(b"readme", b"new"), EROFS);
    same!(context.me.stat(b"readme")?.links, 1);
    Ok(())
}

fn changes_of_attributes(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let before = me.stat(b"open")?;
    refused!(me.chmod(b"open", 0o600), EROFS);
    refused!(me.chown(b"open", Some(1), Some(1)), EROFS);
    refused!(me.lchown(b"s", Some(1), Some(1)), EROFS);
    refused!(me.truncate(b"open", 0), EROFS);
    refused!(me.truncate(b"open", 1000), EROFS);
    refused!(me.set_times(b"open", TimeChange::Now, TimeChange::Now, true), EROFS);
    refused!(me.set_times(b"open", TimeChange::To(OLD), TimeChange::To(OLD), true), EROFS);
    let after = me.stat(b"open")?;
    same!((after.mode, after.uid, after.size, after.modified), (before.mode, before.uid, before.size, before.modified));
    Ok(())
}

fn changes_through_an_open_file(context: &TestContext<'_>) -> Outcome {
    let file = context.me.open(b"open", libc::O_RDONLY, 0)?;
    refused!(file.write_at(b"x", 0), EBADF | EROFS);
    refused!(file.truncate(0), EINVAL | EBADF | EROFS);
    refused!(file.chmod(0o600), EROFS);
    refused!(file.chown(Some(1), None), EROFS);
    refused!(file.set_times(TimeChange::Now, TimeChange::Keep), EROFS);
    refused!(file.allocate(0, 0, 100), EBADF | EROFS);
    refused!(file.link(b"new"), EROFS);
    file.sync(false)?;
    Ok(())
}

fn extended_attributes(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    same!(me.attribute(b"readme", b"user.a")?, b"value");
    ensure!(me.attributes(b"readme")?.contains(&b"user.a".to_vec()), "the attribute is not listed");
    refused!(me.setxattr(b"readme", b"user.a", b"other", 0), EROFS);
    refused!(me.setxattr(b"readme", b"user.b", b"new", 0), EROFS);
    refused!(me.removexattr(b"readme", b"user.a"), EROFS);
    same!(me.attribute(b"readme", b"user.a")?, b"value");
    Ok(())
}

fn access_of_writers(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.access(b"open", libc::R_OK)?;
    refused!(me.access(b"open", libc::W_OK), EROFS);
    refused!(me.access(b"empty", libc::W_OK), EROFS);
    me.access(b"empty", libc::R_OK | libc::X_OK)?;
    Ok(())
}

fn permissions_still_hold(context: &TestContext<'_>) -> Outcome {
    let user = context.user(1001)?;
    same!(user.get(b"open")?, b"to all");
    refused!(user.get(b"secret"), EACCES);
    refused!(user.open(b"open", libc::O_WRONLY, 0), EROFS);
    refused!(user.open(b"secret", libc::O_WRONLY, 0), EROFS | EACCES);
    refused!(user.create(b"empty/new"), EROFS);
    refused!(user.create(b"d/new"), EROFS | EACCES);
    refused!(user.chmod(b"open", 0o600), EROFS | EPERM);
    Ok(())
}

fn locks(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let (mine, theirs) = (context.me.open(b"open", libc::O_RDONLY, 0)?, other.open(b"open", libc::O_RDONLY, 0)?);
    mine.lock(Lock::new(LockKind::Read, 0, 0), false)?;
    theirs.lock(Lock::new(LockKind::Read, 0, 0), false)?;
    refused!(theirs.lock(Lock::new(LockKind::Write, 0, 0), false), EBADF);
    Ok(())
}

fn maps(context: &TestContext<'_>) -> Outcome {
    let file = context.me.open(b"large", libc::O_RDONLY, 0)?;
    let map = file.map(1_000_003, true, false)?;
    ensure!(map.load(0, 1_000_003) == pattern(), "the mapping shows other data");
    refused!(file.map(4096, true, true), EACCES);
    Ok(())
}

fn large_file(context: &TestContext<'_>) -> Outcome {
    ensure!(context.me.get(b"large")? == pattern(), "the data differs");
    let file = context.me.open(b"large", libc::O_RDONLY, 0)?;
    same!(file.get_at(999_999, 100)?, pattern()[999_999..]);
    same!(file.seek(0, libc::SEEK_END)?, 1_000_003);
    Ok(())
}

fn many_readers(context: &TestContext<'_>) -> Outcome {
    run_concurrently(4, |thread| {
        let (client, mut random) = (context.another()?, context.random_of(thread as u64));
        let (file, expected) = (client.open(b"large", libc::O_RDONLY, 0)?, pattern());
        for _ in 0..100 {
            let offset = random.usize(..1_000_000);
            let end = expected.len().min(offset + 10_000);
            ensure!(file.get_at(offset as u64, 10_000)? == expected[offset..end], "other data at {offset}");
            same!(client.names(b"many")?.len(), 200);
        }
        Ok(())
    })
}

fn seeking_in_a_directory(context: &TestContext<'_>) -> Outcome {
    let listing = context.me.open_directory(b"many")?;
    let entries = listing.rest()?;
    for index in (0..entries.len()).step_by(11) {
        listing.seek(entries[index].cookie)?;
        same!(listing.rest()?.len(), entries.len() - index - 1);
    }
    Ok(())
}

fn special_files(context: &TestContext<'_>) -> Outcome {
    same!(context.me.stat(b"fifo")?.kind, Kind::Fifo);
    refused!(context.me.chmod(b"fifo", 0o666), EROFS);
    refused!(context.me.unlink(b"fifo"), EROFS);
    Ok(())
}
