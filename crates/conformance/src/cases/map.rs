//! Memory-mapped files: mappings agree with reads, writes and truncation.

use super::common::group;
use crate::check::{ensure, refused, same};
use crate::{Outcome, TestContext};

group! { "map":
    shows_what_is_written [Map];
    stores_are_read [Map];
    shows_later_writes [Map];
    shared_between_clients [Map];
    private_stays_private [Map];
    survives_close_and_unlink [Map];
    truncation_takes_pages_away [Map];
    growth_gives_pages [Map];
    holes_are_zeros [Map];
    storing_into_a_hole [Map];
    read_only_file [Map];
    sync_writes_through [Map];
    coherence_over_many_rounds [Map];
    random_stores_and_writes_match_a_model [Map];
    stores_change_the_modification_time [Map];
    append_shows [Map];
    two_mappings_of_two_links [Map, HardLinks];
}

const PAGE: usize = 4096;

fn shows_what_is_written(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    let data: Vec<u8> = (0..3 * PAGE + 100).map(|n| (n % 251) as u8).collect();
    file.put_at(&data, 0)?;
    let map = file.map(data.len(), true, false)?;
    ensure!(map.load(0, data.len()) == data, "the mapping shows other data");
    // The rest of the last page is zeros.
    let map = file.map(4 * PAGE, true, false)?;
    ensure!(map.load(data.len(), 4 * PAGE - data.len()).iter().all(|b| *b == 0), "contents past the end");
    Ok(())
}

fn stores_are_read(context: &TestContext<'_>) -> Outcome {
    let (me, other) = (&context.me, context.another()?);
    let file = me.create(b"f")?;
    file.truncate(2 * PAGE as u64)?;
    let map = file.map(2 * PAGE, true, true)?;
    map.store(PAGE - 2, b"over the edge");
    same!(file.get_at(PAGE as u64 - 2, 13)?, b"over the edge");
    same!(other.open(b"f", libc::O_RDONLY, 0)?.get_at(PAGE as u64 - 2, 13)?, b"over the edge");
    Ok(())
}

fn shows_later_writes(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(&[1; 2 * PAGE], 0)?;
    let map = file.map(2 * PAGE, true, true)?;
    same!(map.load(0, 4), [1; 4]);
    file.put_at(&[2; 100], 50)?;
    same!(map.load(49, 3), [1, 2, 2]);
    map.store(60, &[3]);
    same!(file.get_at(59, 3)?, [2, 3, 2]);
    Ok(())
}

fn shared_between_clients(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    mine.put_at(&[0; PAGE], 0)?;
    let theirs = other.edit(b"f")?;
    let (one, two) = (mine.map(PAGE, true, true)?, theirs.map(PAGE, true, true)?);
    for round in 0..100_u8 {
        one.store(usize::from(round), &[round]);
        same!(two.load(usize::from(round), 1), [round]);
        two.store(1000 + usize::from(round), &[round]);
        same!(one.load(1000 + usize::from(round), 1), [round]);
    }
    Ok(())
}

fn private_stays_private(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(&[1; PAGE], 0)?;
    let map = file.map(PAGE, false, true)?;
    map.store(0, &[9; 100]);
    same!(map.load(0, 1), [9]);
    same!(file.get_at(0, 1)?, [1]);
    Ok(())
}

fn survives_close_and_unlink(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    file.put_at(&[1; PAGE], 0)?;
    let map = file.map(PAGE, true, true)?;
    file.close()?;
    map.store(0, b"stored after close");
    same!(me.open(b"f", libc::O_RDONLY, 0)?.get_at(0, 18)?, b"stored after close");
    me.unlink(b"f")?;
    map.store(0, b"and after unlink..");
    same!(map.load(0, 16), b"and after unlink");
    map.sync()?;
    Ok(())
}

fn truncation_takes_pages_away(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    file.put_at(&[7; 4 * PAGE], 0)?;
    let map = file.map(4 * PAGE, true, true)?;
    same!(map.load(3 * PAGE, 1), [7]);
    me.truncate(b"f", PAGE as u64 + 100)?;
    ensure!(map.is_backed(0) && map.is_backed(PAGE), "pages before the cut are gone");
    ensure!(!map.is_backed(2 * PAGE) && !map.is_backed(3 * PAGE), "pages past the cut are there");
    same!(map.load(PAGE + 99, 2), [7, 0]);
    Ok(())
}

fn growth_gives_pages(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(&[7; PAGE], 0)?;
    let map = file.map(3 * PAGE, true, true)?;
    ensure!(!map.is_backed(PAGE), "a page past the end is there");
    file.truncate(3 * PAGE as u64)?;
    same!(map.load(PAGE, 2), [0, 0]);
    map.store(2 * PAGE, b"new");
    same!(file.get_at(2 * PAGE as u64, 3)?, b"new");
    Ok(())
}

fn holes_are_zeros(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(b"x", 10 * PAGE as u64)?;
    let map = file.map(11 * PAGE, true, false)?;
    ensure!(map.load(0, 10 * PAGE).iter().all(|b| *b == 0), "a hole has contents");
    same!(map.load(10 * PAGE, 2), [b'x', 0]);
    Ok(())
}

fn storing_into_a_hole(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.truncate(100 * PAGE as u64)?;
    let map = file.map(100 * PAGE, true, true)?;
    for page in (0..100).step_by(9) {
        map.store(page * PAGE + page, &[1 + page as u8]);
    }
    map.sync()?;
    let data = file.contents()?;
    for (at, byte) in data.iter().enumerate() {
        let (page, rest) = (at / PAGE, at % PAGE);
        let expected = if page % 9 == 0 && rest == page { 1 + page as u8 } else { 0 };
        ensure!(*byte == expected, "byte {at} is {byte}");
    }
    Ok(())
}

fn read_only_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", &[5; PAGE])?;
    let file = me.open(b"f", libc::O_RDONLY, 0)?;
    refused!(file.map(PAGE, true, true), EACCES);
    same!(file.map(PAGE, true, false)?.load(0, 1), [5]);
    file.map(PAGE, false, true)?.store(0, &[6]);
    let writer = me.open(b"f", libc::O_WRONLY, 0)?;
    refused!(writer.map(PAGE, true, false), EACCES);
    same!(me.get(b"f")?[0], 5);
    Ok(())
}

fn sync_writes_through(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.truncate(8 * PAGE as u64)?;
    let map = file.map(8 * PAGE, true, true)?;
    map.store(0, &[1; 8 * PAGE]);
    map.sync()?;
    file.sync(false)?;
    drop(map);
    ensure!(context.another()?.get(b"f")? == [1; 8 * PAGE], "the stores are lost");
    Ok(())
}

fn coherence_over_many_rounds(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    let reader = context.another()?.open(b"f", libc::O_RDONLY, 0);
    let reader = reader?;
    file.truncate(16 * PAGE as u64)?;
    let map = file.map(16 * PAGE, true, true)?;
    for round in 0..200_usize {
        let at = round * 307 % (16 * PAGE - 2);
        let value = [round as u8, (round >> 8) as u8 + 1];
        if round % 2 == 0 {
            map.store(at, &value);
        } else {
            file.put_at(&value, at as u64)?;
        }
        same!(map.load(at, 2), value, "mapping in round {round}");
        same!(reader.get_at(at as u64, 2)?, value, "reader in round {round}");
    }
    Ok(())
}

fn random_stores_and_writes_match_a_model(context: &TestContext<'_>) -> Outcome {
    const SIZE: usize = 40 * PAGE;
    let me = &context.me;
    let file = me.create(b"f")?;
    file.truncate(SIZE as u64)?;
    let mut model = vec![0; SIZE];
    let mut random = context.random();
    let mut map = file.map(SIZE, true, true)?;
    for round in 0..300 {
        let length = random.usize(1..3 * PAGE);
        let at = random.usize(..SIZE - length);
        let data = vec![random.u8(..); length];
        match random.u8(..10) {
            0..=3 => map.store(at, &data),
            4..=6 => file.put_at(&data, at as u64)?,
            7 => {
                // Truncate and grow again: the data past the truncation is gone, also in the mapping.
                file.truncate(at as u64)?;
                file.truncate(SIZE as u64)?;
                model[at..].fill(0);
                continue;
            }
            8 => {
                map = file.map(SIZE, true, true)?;
                continue;
            }
            _ => {
                ensure!(map.load(at, length) == model[at..at + length], "the mapping differs in round {round}");
                ensure!(file.get_at(at as u64, length)? == model[at..at + length], "the file differs in round {round}");
                continue;
            }
        }
        model[at..at + length].copy_from_slice(&data);
    }
    drop(map);
    ensure!(me.get(b"f")? == model, "the file differs at the end");
    Ok(())
}

fn stores_change_the_modification_time(context: &TestContext<'_>) -> Outcome {
    use crate::{Time, TimeChange};
    let file = context.me.create(b"f")?;
    file.put_at(&[1; PAGE], 0)?;
    file.sync(false)?;
    file.set_times(TimeChange::Keep, TimeChange::To(Time::new(5, 5)))?;
    let map = file.map(PAGE, true, true)?;
    map.store(0, b"x");
    map.sync()?;
    file.sync(false)?;
    let modified = file.stat()?.modified;
    ensure!(modified > Time::new(1_000_000_000, 0), "the modification time is still {modified:?}");
    Ok(())
}

fn append_shows(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", &[1; 100])?;
    let file = me.edit(b"f")?;
    let map = file.map(2 * PAGE, true, false)?;
    same!(map.load(99, 2), [1, 0]);
    let append = context.another()?.open(b"f", libc::O_WRONLY | libc::O_APPEND, 0)?;
    append.write(&[2; PAGE])?;
    same!(map.load(99, 3), [1, 2, 2]);
    same!(map.load(PAGE, 1), [2]);
    Ok(())
}

fn two_mappings_of_two_links(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", &[0; PAGE])?;
    me.link(b"f", b"g")?;
    let (one, two) = (me.edit(b"f")?.map(PAGE, true, true)?, me.edit(b"g")?.map(PAGE, true, true)?);
    one.store(10, b"shared");
    same!(two.load(10, 6), b"shared");
    me.edit(b"g")?.put_at(b"SHARED", 10)?;
    same!(one.load(10, 6), b"SHARED");
    Ok(())
}
