//! Concurrent appends to one file.

use super::common::{group, run_concurrently};
use crate::check::{ensure, same};
use crate::{Outcome, TestContext};

group! { "append":
    by_several_clients;
    by_several_clients_odd_sizes;
    through_one_open_file;
    while_another_reads [GrowingFiles];
    while_another_truncates;
    beside_a_positioned_writer;
}

const APPEND: i32 = libc::O_WRONLY | libc::O_APPEND;

/// Checks that a file consists of whole records of each writer, in the order in which each wrote them.
fn check_records(contents: &[u8], size: impl Fn(u8) -> usize, writers: u8, each: usize) -> Outcome {
    let mut seen = vec![0_usize; usize::from(writers)];
    let mut at = 0;
    while at < contents.len() {
        let writer = contents[at];
        ensure!(writer >= 1 && writer <= writers, "byte {at} is {writer}, no writer's");
        let record = contents.get(at..at + size(writer)).unwrap_or_default();
        ensure!(!record.is_empty() && record.iter().all(|byte| *byte == writer), "a torn record at byte {at}");
        at += record.len();
        seen[usize::from(writer - 1)] += 1;
    }
    same!(seen, vec![each; usize::from(writers)], "records of each writer");
    Ok(())
}

fn by_several_clients(context: &TestContext<'_>) -> Outcome {
    context.me.put(b"log", b"")?;
    run_concurrently(4, |thread| {
        let file = context.another()?.open(b"log", APPEND, 0)?;
        for _ in 0..200 {
            same!(file.write(&[thread as u8 + 1; 100])?, 100);
        }
        Ok(())
    })?;
    check_records(&context.me.get(b"log")?, |_| 100, 4, 200)
}

fn by_several_clients_odd_sizes(context: &TestContext<'_>) -> Outcome {
    context.me.put(b"log", b"")?;
    let size = |writer: u8| [1, 513, 4097, 10_000][usize::from(writer - 1)];
    run_concurrently(4, |thread| {
        let writer = thread as u8 + 1;
        let client = context.another()?;
        for _ in 0..50 {
            // Opened again for every record, as with >> in a shell.
            let file = client.open(b"log", APPEND, 0)?;
            same!(file.write(&vec![writer; size(writer)])?, size(writer));
        }
        Ok(())
    })?;
    check_records(&context.me.get(b"log")?, size, 4, 50)
}

fn through_one_open_file(context: &TestContext<'_>) -> Outcome {
    let file = context.me.open(b"log", APPEND | libc::O_CREAT, 0o644)?;
    run_concurrently(4, |thread| {
        for _ in 0..100 {
            same!(file.write(&[thread as u8 + 1; 777])?, 777);
        }
        Ok(())
    })?;
    check_records(&context.me.get(b"log")?, |_| 777, 4, 100)
}

fn while_another_reads(context: &TestContext<'_>) -> Outcome {
    context.me.put(b"log", b"")?;
    run_concurrently(2, |thread| {
        let client = context.another()?;
        if thread == 0 {
            let file = client.open(b"log", APPEND, 0)?;
            for _ in 0..200 {
                file.write(&[1; 500])?;
            }
            return Ok(());
        }
        let reader = client.open(b"log", libc::O_RDONLY, 0)?;
        let mut known = 0;
        for _ in 0..100 {
            let size = reader.stat()?.size;
            ensure!(size >= known, "the file shrank from {known} to {size}");
            let data = reader.get_at(known, (size - known) as usize)?;
            ensure!(data.len() as u64 == size - known, "{} of {} new bytes", data.len(), size - known);
            ensure!(data.iter().all(|byte| *byte == 1), "appended data reads as something else");
            known = size;
        }
        Ok(())
    })?;
    check_records(&context.me.get(b"log")?, |_| 500, 1, 200)
}

fn while_another_truncates(context: &TestContext<'_>) -> Outcome {
    context.me.put(b"log", b"")?;
    run_concurrently(2, |thread| {
        let client = context.another()?;
        for _ in 0..100 {
            if thread == 0 {
                client.open(b"log", APPEND, 0)?.write(&[1; 1000])?;
            } else {
                client.truncate(b"log", 0)?;
            }
        }
        Ok(())
    })?;
    let contents = context.me.get(b"log")?;
    ensure!(contents.len() % 1000 == 0, "{} bytes are not whole records", contents.len());
    ensure!(contents.iter().all(|byte| *byte == 1), "a record landed past the end");
    Ok(())
}

fn beside_a_positioned_writer(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"log", &[0; 1000])?;
    run_concurrently(2, |thread| {
        let client = context.another()?;
        for round in 0..100_u64 {
            if thread == 0 {
                client.open(b"log", APPEND, 0)?.write(&[1; 100])?;
            } else {
                client.edit(b"log")?.put_at(&[2; 10], round % 100 * 10)?;
            }
        }
        Ok(())
    })?;
    let contents = me.get(b"log")?;
    same!(contents.len(), 11_000);
    ensure!(contents[..1000].iter().all(|byte| *byte == 2), "positioned writes were lost");
    ensure!(contents[1000..].iter().all(|byte| *byte == 1), "appended records were lost");
    Ok(())
}
