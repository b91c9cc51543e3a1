//! Reading and writing: offsets, end of file, truncation, and a model for random operations.

use super::common::{group, run_concurrently};
use crate::check::{ensure, refused, same};
use crate::{Outcome, TestContext};

group! { "data":
    what_is_written_is_read;
    reading_at_the_end;
    writing_past_the_end_leaves_zeros;
    overwriting_in_the_middle;
    truncating_down_and_up;
    truncating_by_path_and_by_file;
    nothing_written_changes_nothing;
    positions_are_of_each_open;
    position_moves;
    appending;
    appending_ignores_positions [Kernel];
    reading_what_is_open_for_writing;
    directories_have_no_data;
    odd_sizes;
    one_mebibyte_in_one_call;
    random_operations_match_a_model;
    random_operations_through_two_files;
    two_writers_of_one_block;
    truncation_errors;
    data_survives_reopening;
}

fn what_is_written_is_read(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    same!(file.write_at(b"hello", 0)?, 5);
    same!(file.get_at(0, 100)?, b"hello");
    same!(file.get_at(1, 3)?, b"ell");
    same!(me.get(b"f")?, b"hello");
    let all: Vec<u8> = (0..=255).collect();
    file.put_at(&all, 0)?;
    same!(me.get(b"f")?, all);
    Ok(())
}

fn reading_at_the_end(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    let mut buffer = [1; 10];
    same!(file.read_at(&mut buffer, 0)?, 0);
    file.put_at(b"12345", 0)?;
    same!(file.read_at(&mut buffer, 3)?, 2);
    same!(buffer[..3], [b'4', b'5', 1]);
    same!(file.read_at(&mut buffer, 5)?, 0);
    same!(file.read_at(&mut buffer, 1 << 40)?, 0);
    same!(file.read_at(&mut [], 0)?, 0);
    Ok(())
}

fn writing_past_the_end_leaves_zeros(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    file.put_at(b"a", 0)?;
    file.put_at(b"b", 10_000)?;
    let mut expected = vec![0; 10_001];
    (expected[0], expected[10_000]) = (b'a', b'b');
    same!(me.get(b"f")?, expected);
    Ok(())
}

fn overwriting_in_the_middle(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let mut expected: Vec<u8> = (0..20_000_u32).map(|n| (n % 251) as u8).collect();
    me.put(b"f", &expected)?;
    let file = me.edit(b"f")?;
    for (offset, length) in [(4095, 2), (0, 1), (8192, 4096), (4000, 9000), (19_999, 1)] {
        let data = vec![(offset % 256) as u8; length];
        file.put_at(&data, offset as u64)?;
        expected[offset..offset + length].copy_from_slice(&data);
        ensure!(file.contents()? == expected, "wrong after {length} bytes at {offset}");
    }
    Ok(())
}

fn truncating_down_and_up(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    file.put_at(&[9; 10_000], 0)?;
    file.truncate(5000)?;
    file.truncate(10_000)?;
    let data = file.contents()?;
    same!(data.len(), 10_000);
    ensure!(data[..5000].iter().all(|b| *b == 9), "data before the cut changed");
    ensure!(data[5000..].iter().all(|b| *b == 0), "old data came back after the cut");
    file.truncate(0)?;
    same!(file.contents()?.len(), 0);
    file.truncate(3)?;
    same!(file.contents()?, [0; 3]);
    Ok(())
}

fn truncating_by_path_and_by_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"0123456789")?;
    me.symlink(b"f", b"s")?;
    let file = me.edit(b"f")?;
    me.truncate(b"s", 4)?;
    same!(file.contents()?, b"0123");
    file.truncate(6)?;
    same!(me.get(b"f")?, b"0123\0\0");
    // Another open file of the same object sees the truncation.
    let reader = context.another()?.open(b"f", libc::O_RDONLY, 0)?;
    file.truncate(2)?;
    same!(reader.get_at(0, 10)?, b"01");
    Ok(())
}

fn nothing_written_changes_nothing(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    same!(file.write_at(b"", 100)?, 0);
    same!(file.stat()?.size, 0);
    file.put_at(b"x", 0)?;
    same!(file.write_at(b"", 0)?, 0);
    same!(file.contents()?, b"x");
    Ok(())
}

fn positions_are_of_each_open(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"abcdef")?;
    let (one, two) = (me.edit(b"f")?, me.edit(b"f")?);
    let mut buffer = [0; 2];
    same!((one.read(&mut buffer)?, buffer), (2, *b"ab"));
    same!((one.read(&mut buffer)?, buffer), (2, *b"cd"));
    same!((two.read(&mut buffer)?, buffer), (2, *b"ab"));
    one.write(b"EF")?;
    same!(two.get_at(0, 10)?, b"abcdEF");
    // Positioned calls do not change the file offset.
    same!((two.read(&mut buffer)?, buffer), (2, *b"cd"));
    Ok(())
}

fn position_moves(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    same!(file.write(b"0123456789")?, 10);
    same!(file.seek(0, libc::SEEK_CUR)?, 10);
    same!(file.seek(-3, libc::SEEK_END)?, 7);
    let mut buffer = [0; 8];
    same!(file.read(&mut buffer)?, 3);
    same!(file.seek(-5, libc::SEEK_CUR)?, 5);
    same!(file.seek(20, libc::SEEK_SET)?, 20);
    same!(file.read(&mut buffer)?, 0);
    file.write(b"x")?;
    same!(file.stat()?.size, 21);
    refused!(file.seek(-1, libc::SEEK_SET), EINVAL);
    refused!(file.seek(-22, libc::SEEK_END), EINVAL);
    Ok(())
}

fn appending(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"start")?;
    let one = me.open(b"f", libc::O_WRONLY | libc::O_APPEND, 0)?;
    let two = me.open(b"f", libc::O_WRONLY | libc::O_APPEND, 0)?;
    one.write(b"-one")?;
    two.write(b"-two")?;
    one.write(b"-three")?;
    same!(me.get(b"f")?, b"start-one-two-three");
    me.truncate(b"f", 2)?;
    two.write(b"!")?;
    same!(me.get(b"f")?, b"st!");
    Ok(())
}

fn appending_ignores_positions(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"start")?;
    let file = me.open(b"f", libc::O_RDWR | libc::O_APPEND, 0)?;
    // Linux appends for pwrite(2) too.
    file.write_at(b"-end", 0)?;
    file.seek(1, libc::SEEK_SET)?;
    file.write(b"!")?;
    same!(me.get(b"f")?, b"start-end!");
    Ok(())
}

fn reading_what_is_open_for_writing(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    let writer = me.open(b"f", libc::O_WRONLY, 0)?;
    refused!(writer.read_at(&mut [0; 4], 0), EBADF);
    let reader = me.open(b"f", libc::O_RDONLY, 0)?;
    refused!(reader.write_at(b"x", 0), EBADF);
    refused!(reader.truncate(0), EINVAL | EBADF);
    same!(me.get(b"f")?, b"data");
    Ok(())
}

fn directories_have_no_data(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    refused!(me.open(b"d", libc::O_WRONLY, 0), EISDIR);
    refused!(me.open(b"d", libc::O_RDWR, 0), EISDIR);
    refused!(me.truncate(b"d", 0), EISDIR);
    refused!(me.open(b"d", libc::O_RDONLY | libc::O_TRUNC, 0), EISDIR);
    Ok(())
}

fn odd_sizes(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    for size in [1, 511, 512, 513, 4095, 4096, 4097, 65_535, 65_536, 65_537, 131_073] {
        let data: Vec<u8> = (0..size).map(|n| (n * 7 + n / 256) as u8).collect();
        me.put(b"f", &data)?;
        ensure!(me.get(b"f")? == data, "{size} bytes came back changed");
        same!(me.stat(b"f")?.size, size as u64);
    }
    Ok(())
}

fn one_mebibyte_in_one_call(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let data: Vec<u8> = (0..(3 << 20) + 17_u32).map(|n| (n ^ n >> 8 ^ n >> 16) as u8).collect();
    let file = me.create(b"f")?;
    same!(file.write_at(&data, 0)?, data.len());
    let mut found = vec![0; data.len()];
    same!(file.read_at(&mut found, 0)?, data.len());
    ensure!(found == data, "the data came back changed");
    Ok(())
}

/// Performs random writes, truncations and reads of one file, compared with a vector that undergoes the same changes.
fn random_operations(context: &TestContext<'_>, files: usize, rounds: usize) -> Outcome {
    let me = &context.me;
    let mut random = context.random();
    me.create(b"f")?;
    let mut open = Vec::new();
    for _ in 0..files {
        open.push(me.edit(b"f")?);
    }
    let mut model: Vec<u8> = Vec::new();
    for round in 0..rounds {
        let file = &open[random.usize(..files)];
        let (offset, length) = (random.usize(..100_000), random.usize(1..20_000));
        match random.u8(..8) {
            0 => {
                file.truncate(offset as u64)?;
                model.resize(offset, 0);
            }
            1..=4 => {
                let data = vec![random.u8(1..); length];
                file.put_at(&data, offset as u64)?;
                model.resize(model.len().max(offset + length), 0);
                model[offset..offset + length].copy_from_slice(&data);
            }
            _ => {
                let end = model.len().min(offset + length);
                let expected = model.get(offset..end).unwrap_or_default();
                ensure!(
                    file.get_at(offset as u64, length)? == expected,
                    "round {round}: {length} bytes at {offset} differ"
                );
            }
        }
    }
    same!(me.stat(b"f")?.size, model.len() as u64);
    ensure!(me.get(b"f")? == model, "the file differs from the model at the end");
    Ok(())
}

fn random_operations_match_a_model(context: &TestContext<'_>) -> Outcome {
    random_operations(context, 1, 400)
}

fn random_operations_through_two_files(context: &TestContext<'_>) -> Outcome {
    random_operations(context, 3, 400)
}

fn two_writers_of_one_block(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", &[0; 4096])?;
    // Each thread writes every other byte: no write may undo the other's.
    run_concurrently(2, |thread| {
        let file = context.another()?.edit(b"f")?;
        for offset in (thread as u64..4096).step_by(2) {
            file.put_at(&[1 + thread as u8], offset)?;
        }
        Ok(())
    })?;
    let expected: Vec<u8> = (0..4096).map(|n| 1 + (n % 2) as u8).collect();
    ensure!(me.get(b"f")? == expected, "a write undid another's");
    Ok(())
}

fn truncation_errors(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    refused!(me.truncate(b"f", 1 << 63), EINVAL | EFBIG);
    refused!(me.truncate(b"none", 0), ENOENT);
    refused!(me.truncate(b"f/x", 0), ENOTDIR);
    same!(me.get(b"f")?, b"data");
    Ok(())
}

fn data_survives_reopening(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    for round in 0..50_u8 {
        let file = me.open(b"f", libc::O_CREAT | libc::O_RDWR, 0o644)?;
        same!(file.stat()?.size, u64::from(round) * 1000);
        file.put_at(&[round; 1000], u64::from(round) * 1000)?;
        file.close()?;
        same!(context.another()?.get(b"f")?[usize::from(round) * 1000], round);
    }
    Ok(())
}
