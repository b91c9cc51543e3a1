//! open(2) with its flags.

use super::common::{group, numbered, run_concurrently};
use crate::check::{ensure, refused, same};
use crate::{Kind, Outcome, TestContext};

group! { "open":
    exclusive;
    exclusive_on_a_symlink;
    create_finds_what_exists;
    create_through_a_dangling_symlink;
    create_on_a_directory;
    truncate;
    truncate_a_new_file;
    directory_only;
    no_follow;
    path_only [Kernel];
    path_only_of_a_symlink [Kernel];
    a_directory_to_read [Kernel];
    missing;
    in_a_removed_directory [Kernel];
    mode_of_an_existing_file_stays;
    create_read_only;
    many_times;
    many_files;
    close_answers;
    exclusive_among_many;
}

const CREATE: i32 = libc::O_CREAT | libc::O_RDWR;

fn exclusive(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.open(b"f", CREATE | libc::O_EXCL, 0o600)?.put_at(b"first", 0)?;
    refused!(me.open(b"f", CREATE | libc::O_EXCL, 0o600), EEXIST);
    refused!(me.open(b"f", CREATE | libc::O_EXCL | libc::O_TRUNC, 0o600), EEXIST);
    same!(me.get(b"f")?, b"first");
    me.mkdir(b"d", 0o755)?;
    refused!(me.open(b"d", CREATE | libc::O_EXCL, 0o600), EEXIST);
    Ok(())
}

fn exclusive_on_a_symlink(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.symlink(b"f", b"s")?;
    me.symlink(b"none", b"dangling")?;
    refused!(me.open(b"s", CREATE | libc::O_EXCL, 0o600), EEXIST);
    refused!(me.open(b"dangling", CREATE | libc::O_EXCL, 0o600), EEXIST);
    refused!(me.stat(b"none"), ENOENT);
    Ok(())
}

fn create_finds_what_exists(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"contents")?;
    me.symlink(b"f", b"s")?;
    same!(me.open(b"f", CREATE, 0o600)?.contents()?, b"contents");
    same!(me.open(b"s", CREATE, 0o600)?.contents()?, b"contents");
    Ok(())
}

fn create_through_a_dangling_symlink(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.symlink(b"d/new", b"s")?;
    me.open(b"s", CREATE, 0o644)?.put_at(b"made", 0)?;
    same!(me.get(b"d/new")?, b"made");
    same!(me.lstat(b"s")?.kind, Kind::Symlink);
    me.symlink(b"none/new", b"t")?;
    refused!(me.open(b"t", CREATE, 0o644), ENOENT);
    Ok(())
}

fn create_on_a_directory(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    refused!(me.open(b"d", libc::O_CREAT | libc::O_RDONLY, 0o600), EISDIR);
    refused!(me.open(b"d", CREATE, 0o600), EISDIR);
    refused!(me.open(b".", CREATE, 0o600), EISDIR);
    Ok(())
}

fn truncate(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"contents")?;
    let reader = me.open(b"f", libc::O_RDONLY, 0)?;
    me.open(b"f", libc::O_WRONLY | libc::O_TRUNC, 0)?;
    same!(me.stat(b"f")?.size, 0);
    same!(reader.contents()?, b"");
    me.put(b"f", b"new")?;
    same!(reader.contents()?, b"new");
    Ok(())
}

fn truncate_a_new_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.open(b"f", CREATE | libc::O_TRUNC, 0o640)?.put_at(b"x", 0)?;
    same!((me.stat(b"f")?.size, me.stat(b"f")?.mode), (1, 0o640));
    Ok(())
}

fn directory_only(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.mkdir(b"d", 0o755)?;
    me.symlink(b"d", b"s")?;
    refused!(me.open(b"f", libc::O_DIRECTORY, 0), ENOTDIR);
    refused!(me.open(b"none", libc::O_DIRECTORY, 0), ENOENT);
    refused!(me.open(b"s", libc::O_DIRECTORY | libc::O_NOFOLLOW, 0), ENOTDIR);
    refused!(me.open_directory(b"f"), ENOTDIR);
    me.open_directory(b"s")?;
    Ok(())
}

fn no_follow(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.mkdir(b"d", 0o755)?;
    me.put(b"d/f", b"below")?;
    me.symlink(b"f", b"s")?;
    me.symlink(b"d", b"t")?;
    refused!(me.open(b"s", libc::O_RDONLY | libc::O_NOFOLLOW, 0), ELOOP);
    refused!(me.open(b"s", CREATE | libc::O_NOFOLLOW, 0o600), ELOOP);
    me.open(b"f", libc::O_RDONLY | libc::O_NOFOLLOW, 0)?;
    // Only the last component matters.
    same!(me.open(b"t/f", libc::O_RDONLY | libc::O_NOFOLLOW, 0)?.contents()?, b"below");
    Ok(())
}

fn path_only(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    me.chmod(b"f", 0)?;
    let file = me.open(b"f", libc::O_PATH, 0)?;
    same!(file.stat()?.size, 4);
    refused!(file.read_at(&mut [0; 4], 0), EBADF);
    refused!(file.write_at(b"x", 0), EBADF);
    refused!(file.chmod(0o644), EBADF);
    me.rename(b"f", b"g")?;
    same!(file.stat()?.inode, me.stat(b"g")?.inode);
    me.unlink(b"g")?;
    same!(file.stat()?.links, 0);
    Ok(())
}

fn path_only_of_a_symlink(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.symlink(b"nowhere", b"s")?;
    let link = me.open(b"s", libc::O_PATH | libc::O_NOFOLLOW, 0)?;
    same!((link.stat()?.kind, link.stat()?.size), (Kind::Symlink, 7));
    refused!(me.open(b"s", libc::O_PATH, 0), ENOENT);
    Ok(())
}

fn a_directory_to_read(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    let directory = me.open(b"d", libc::O_RDONLY, 0)?;
    refused!(directory.read_at(&mut [0; 4], 0), EISDIR);
    same!(directory.stat()?.kind, Kind::Directory);
    directory.chmod(0o711)?;
    same!(me.stat(b"d")?.mode, 0o711);
    directory.sync(false)?;
    Ok(())
}

fn missing(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    refused!(me.open(b"none", libc::O_RDONLY, 0), ENOENT);
    refused!(me.open(b"none", libc::O_RDWR | libc::O_TRUNC, 0), ENOENT);
    refused!(me.open(b"none/none", CREATE, 0o600), ENOENT);
    // A missing name can be created, and is missing again once it is removed.
    for _ in 0..10 {
        refused!(me.stat(b"f"), ENOENT);
        me.put(b"f", b"")?;
        me.stat(b"f")?;
        me.unlink(b"f")?;
    }
    Ok(())
}

fn in_a_removed_directory(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    other.mkdir(b"d", 0o755)?;
    other.chdir(b"d")?;
    context.me.rmdir(b"d")?;
    refused!(other.create(b"f"), ENOENT);
    refused!(other.mkdir(b"e", 0o755), ENOENT);
    refused!(other.stat(b"f"), ENOENT);
    same!(other.names(b".").unwrap_or_default().len(), 0);
    same!(other.stat(b".")?.links, 0);
    Ok(())
}

fn mode_of_an_existing_file_stays(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.chmod(b"f", 0o640)?;
    me.open(b"f", CREATE | libc::O_TRUNC, 0o777)?;
    same!(me.stat(b"f")?.mode, 0o640);
    Ok(())
}

fn create_read_only(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.open(b"f", libc::O_CREAT | libc::O_RDONLY, 0o600)?;
    refused!(file.write_at(b"x", 0), EBADF);
    same!(file.contents()?, b"");
    same!(me.stat(b"f")?.mode, 0o600);
    Ok(())
}

fn many_times(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"0")?;
    let mut open = Vec::new();
    for number in 0..200_u8 {
        let file = me.edit(b"f")?;
        file.put_at(&[number], 0)?;
        open.push(file);
    }
    for file in &open {
        same!(file.get_at(0, 1)?, [199]);
    }
    me.unlink(b"f")?;
    for file in open {
        same!(file.get_at(0, 1)?, [199]);
        file.close()?;
    }
    Ok(())
}

fn many_files(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let mut open = Vec::new();
    for number in 0..300 {
        let file = me.create(&numbered("f", number))?;
        file.put_at(&(number as u32).to_le_bytes(), 0)?;
        open.push(file);
    }
    for (number, file) in open.iter().enumerate() {
        same!(file.contents()?, (number as u32).to_le_bytes());
    }
    Ok(())
}

fn close_answers(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    file.put_at(b"data", 0)?;
    file.close()?;
    me.open(b"f", libc::O_RDONLY, 0)?.close()?;
    same!(me.get(b"f")?, b"data");
    Ok(())
}

fn exclusive_among_many(context: &TestContext<'_>) -> Outcome {
    let winners = std::sync::atomic::AtomicUsize::new(0);
    for round in 0..20 {
        winners.store(0, std::sync::atomic::Ordering::SeqCst);
        let name = numbered("f", round);
        run_concurrently(4, |_| {
            let created = context.another()?.open(&name, CREATE | libc::O_EXCL, 0o600);
            if created.is_ok() {
                winners.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            } else {
                refused!(created, EEXIST);
            }
            Ok(())
        })?;
        let count = winners.load(std::sync::atomic::Ordering::SeqCst);
        ensure!(count == 1, "{count} clients created the same file");
    }
    Ok(())
}
