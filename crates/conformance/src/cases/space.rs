//! Space: statfs, and behaviour when the file system is full.

use super::common::{group, numbered, pause};
use crate::check::{ensure, refused, same};
use crate::{Outcome, TestContext};

group! { "space":
    numbers_make_sense;
    same_everywhere;
    name_length [FullNames];
    of_nothing;
    sync_everything;
    file_sync;
    file_sync_of_a_reader;
    directory_sync [Kernel];
    writing_takes_space [SmallSpace];
    full [SmallSpace];
    full_for_new_files [SmallSpace];
    full_while_appending [SmallSpace];
    full_allocation [SmallSpace, Allocate];
    space_comes_back_when_closed [SmallSpace];
    overwriting_needs_no_space [SmallSpace];
}

fn numbers_make_sense(context: &TestContext<'_>) -> Outcome {
    let space = context.me.statfs(b".")?;
    ensure!(space.block_size >= 512 && space.block_size.is_power_of_two(), "block size {}", space.block_size);
    ensure!(space.blocks_free <= space.blocks, "more free than there is: {space:?}");
    ensure!(space.blocks_available <= space.blocks_free, "more available than free: {space:?}");
    ensure!(space.files_free <= space.files, "more free files than there are: {space:?}");
    ensure!(space.blocks > 0, "no blocks: {space:?}");
    Ok(())
}

fn same_everywhere(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.put(b"d/f", b"")?;
    let (here, below, file) = (me.statfs(b".")?, me.statfs(b"d")?, me.statfs(b"d/f")?);
    same!((below.block_size, below.blocks, below.name_max), (here.block_size, here.blocks, here.name_max));
    same!((file.block_size, file.blocks, file.name_max), (here.block_size, here.blocks, here.name_max));
    Ok(())
}

fn name_length(context: &TestContext<'_>) -> Outcome {
    same!(context.me.statfs(b".")?.name_max, 255);
    Ok(())
}

fn of_nothing(context: &TestContext<'_>) -> Outcome {
    refused!(context.me.statfs(b"none"), ENOENT);
    Ok(())
}

fn sync_everything(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", &[1; 100_000])?;
    me.sync()?;
    same!(me.get(b"f")?.len(), 100_000);
    Ok(())
}

fn file_sync(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    for round in 0..10_u64 {
        file.put_at(&context.noise(5000, round), round * 5000)?;
        file.sync(round % 2 == 0)?;
    }
    same!(file.stat()?.size, 50_000);
    same!(file.stat()?.blocks >= 97, true);
    Ok(())
}

fn file_sync_of_a_reader(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    let reader = me.open(b"f", libc::O_RDONLY, 0)?;
    reader.sync(false)?;
    reader.sync(true)?;
    Ok(())
}

fn directory_sync(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.put(b"d/f", b"")?;
    let directory = me.open(b"d", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    directory.sync(false)?;
    directory.sync(true)?;
    Ok(())
}

/// Returns the number of bytes available to this client.
fn available(context: &TestContext<'_>) -> Outcome<u64> {
    let space = context.me.statfs(b".")?;
    Ok(space.blocks_available * space.block_size)
}

/// Returns the available bytes once all space freed before has been reclaimed.
fn available_when_settled(context: &TestContext<'_>) -> Outcome<u64> {
    const STABLE_READINGS: usize = 5;
    let (mut last, mut same) = (available(context)?, 0);
    for _ in 0..200 {
        context.me.sync()?;
        pause();
        let now = available(context)?;
        same = if now == last { same + 1 } else { 0 };
        last = now;
        if same == STABLE_READINGS {
            break;
        }
    }
    Ok(last)
}

fn writing_takes_space(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let before = available_when_settled(context)?;
    let file = me.create(b"f")?;
    file.put_at(&vec![1; 4 << 20], 0)?;
    file.sync(false)?;
    let taken = before.saturating_sub(available(context)?);
    // What a file system keeps beside files may shrink meanwhile, such as a log that is written anew.
    ensure!(((4 << 20) - (64 << 10)..5 << 20).contains(&taken), "4 MiB took {taken} bytes");
    drop(file);
    me.unlink(b"f")?;
    wait_for_space(context, before - (1 << 20))
}

/// Writes to a file until no more fits; returns its length.
fn fill(context: &TestContext<'_>, name: &[u8]) -> Outcome<u64> {
    let file = context.me.open(name, libc::O_CREAT | libc::O_WRONLY | libc::O_APPEND, 0o644)?;
    let mut length = 0;
    for chunk in [1 << 20, 65_536, 4096, 512, 1] {
        loop {
            match file.write(&vec![0xaa; chunk]) {
                Ok(written) => length += written as u64,
                Err(error) => {
                    same!(error.number(), libc::ENOSPC);
                    break;
                }
            }
            ensure!(length < 1 << 27, "{length} bytes fit into a small space");
        }
    }
    Ok(length)
}

/// Waits until the space of removed files has been reclaimed, which may happen a moment after they are closed.
fn wait_for_space(context: &TestContext<'_>, bytes: u64) -> Outcome {
    for _ in 0..200 {
        context.me.sync()?;
        if available(context)? >= bytes {
            return Ok(());
        }
        pause();
    }
    Err(crate::Failure::new(format!("{} bytes are left, not {bytes}", available(context)?)))
}

fn full(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"before", b"untouched")?;
    let length = fill(context, b"f")?;
    same!(me.stat(b"f")?.size, length);
    same!(me.get(b"before")?, b"untouched");
    let tail = me.open(b"f", libc::O_RDONLY, 0)?.get_at(length - 1000, 2000)?;
    same!(tail, [0xaa; 1000]);
    me.unlink(b"f")?;
    wait_for_space(context, 4 << 20)?;
    me.put(b"after", &vec![1; 1 << 20])?;
    same!(me.stat(b"after")?.size, 1 << 20);
    Ok(())
}

fn full_for_new_files(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    fill(context, b"f")?;
    let file = me.open(b"new", libc::O_CREAT | libc::O_RDWR, 0o644);
    match file {
        Ok(file) => refused!(file.put_at(&[1; 100_000], 0), ENOSPC),
        Err(error) => same!(error.number(), libc::ENOSPC),
    }
    // Removal works when nothing else does.
    me.unlink(b"f")?;
    wait_for_space(context, 4 << 20)?;
    for number in 0..10 {
        me.put(&numbered("n", number), &[1; 1000])?;
    }
    Ok(())
}

fn full_while_appending(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    fill(context, b"f")?;
    let size = me.stat(b"f")?.size;
    let file = me.open(b"f", libc::O_WRONLY | libc::O_APPEND, 0)?;
    refused!(file.write(&[1; 1 << 20]), ENOSPC);
    same!(me.stat(b"f")?.size, size);
    me.truncate(b"f", 1 << 20)?;
    wait_for_space(context, 4 << 20)?;
    file.write(b"again")?;
    same!(me.stat(b"f")?.size, (1 << 20) + 5);
    Ok(())
}

fn full_allocation(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    let space = context.me.statfs(b".")?;
    refused!(file.allocate(0, 0, (space.blocks + 1000) * space.block_size), ENOSPC);
    file.truncate(0)?;
    file.put_at(b"works", 0)?;
    Ok(())
}

fn space_comes_back_when_closed(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    file.put_at(&vec![1; 8 << 20], 0)?;
    file.sync(false)?;
    me.unlink(b"f")?;
    let held = available(context)?;
    file.close()?;
    wait_for_space(context, held + (7 << 20))
}

fn overwriting_needs_no_space(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", &[1; 65_536])?;
    me.edit(b"f")?.sync(false)?;
    fill(context, b"g")?;
    let file = me.edit(b"f")?;
    file.put_at(&[2; 65_536], 0)?;
    file.sync(false)?;
    ensure!(me.get(b"f")? == [2; 65_536], "the overwritten data differs");
    Ok(())
}
