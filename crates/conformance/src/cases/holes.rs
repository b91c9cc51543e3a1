//! Holes: sparse files, SEEK_HOLE and SEEK_DATA, allocation and punching.

use super::common::group;
use crate::check::{ensure, refused, same};
use crate::{File, Outcome, TestContext};

group! { "holes":
    seek_in_a_file_without_holes;
    seek_past_the_end;
    seek_finds_holes [Holes];
    holes_take_no_space [Holes];
    holes_read_as_zeros;
    truncation_makes_a_hole [Holes];
    allocate_extends [Allocate];
    allocate_keeps_size [Allocate];
    allocate_keeps_data [Allocate];
    punch [Punch];
    punch_odd_range [Punch];
    punch_past_the_end [Punch];
    punch_frees_space [Punch];
    zero_range [ZeroRange];
    allocate_errors [Allocate];
    random_punches_match_a_model [Punch];
    walking_all_segments [Holes];
}

const MIB: u64 = 1 << 20;

fn seek(file: &dyn File, offset: u64, whence: i32) -> vnode::Result<u64> {
    file.seek(offset as i64, whence)
}

fn seek_in_a_file_without_holes(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(&[1; 10_000], 0)?;
    same!(seek(&*file, 0, libc::SEEK_DATA)?, 0);
    same!(seek(&*file, 5000, libc::SEEK_DATA)?, 5000);
    same!(seek(&*file, 0, libc::SEEK_HOLE)?, 10_000);
    same!(seek(&*file, 9999, libc::SEEK_HOLE)?, 10_000);
    Ok(())
}

fn seek_past_the_end(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    refused!(seek(&*file, 0, libc::SEEK_DATA), ENXIO);
    refused!(seek(&*file, 0, libc::SEEK_HOLE), ENXIO);
    file.put_at(b"12345", 0)?;
    refused!(seek(&*file, 5, libc::SEEK_DATA), ENXIO);
    refused!(seek(&*file, 5, libc::SEEK_HOLE), ENXIO);
    refused!(seek(&*file, 100, libc::SEEK_HOLE), ENXIO);
    Ok(())
}

fn seek_finds_holes(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(&[1; 65_536], MIB)?;
    file.put_at(&[2; 65_536], 3 * MIB)?;
    file.truncate(5 * MIB)?;
    same!(seek(&*file, 0, libc::SEEK_HOLE)?, 0);
    same!(seek(&*file, 0, libc::SEEK_DATA)?, MIB);
    same!(seek(&*file, MIB, libc::SEEK_HOLE)?, MIB + 65_536);
    same!(seek(&*file, MIB + 65_536, libc::SEEK_DATA)?, 3 * MIB);
    same!(seek(&*file, MIB + 100, libc::SEEK_DATA)?, MIB + 100);
    same!(seek(&*file, 2 * MIB, libc::SEEK_HOLE)?, 2 * MIB);
    refused!(seek(&*file, 4 * MIB, libc::SEEK_DATA), ENXIO);
    Ok(())
}

fn holes_take_no_space(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(b"end", 100 * MIB)?;
    file.sync(false)?;
    let stat = file.stat()?;
    same!(stat.size, 100 * MIB + 3);
    ensure!(stat.blocks * 512 < MIB, "{} blocks for one byte", stat.blocks);
    Ok(())
}

fn holes_read_as_zeros(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(b"x", MIB)?;
    ensure!(file.get_at(0, MIB as usize)?.iter().all(|b| *b == 0), "a hole has contents");
    same!(file.get_at(MIB - 2, 10)?, b"\0\0x");
    // Data in the middle of a hole leaves the rest of the hole unchanged.
    file.put_at(b"y", 5000)?;
    let data = file.get_at(0, 10_000)?;
    ensure!(data.iter().enumerate().all(|(at, b)| *b == if at == 5000 { b'y' } else { 0 }), "around data in a hole");
    Ok(())
}

fn truncation_makes_a_hole(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(&[1; 65_536], 0)?;
    file.truncate(2 * MIB)?;
    same!(seek(&*file, 0, libc::SEEK_HOLE)?, 65_536);
    refused!(seek(&*file, MIB, libc::SEEK_DATA), ENXIO);
    file.truncate(0)?;
    file.truncate(MIB)?;
    refused!(seek(&*file, 0, libc::SEEK_DATA), ENXIO);
    same!(seek(&*file, 0, libc::SEEK_HOLE)?, 0);
    Ok(())
}

fn allocate_extends(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(b"data", 0)?;
    file.allocate(0, 0, 100_000)?;
    same!(file.stat()?.size, 100_000);
    let data = file.contents()?;
    same!(data[..4], *b"data");
    ensure!(data[4..].iter().all(|b| *b == 0), "allocated space has contents");
    ensure!(file.stat()?.blocks * 512 >= 100_000, "{} blocks", file.stat()?.blocks);
    Ok(())
}

fn allocate_keeps_size(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(b"data", 0)?;
    file.allocate(libc::FALLOC_FL_KEEP_SIZE, 0, 200_000)?;
    same!(file.stat()?.size, 4);
    same!(file.contents()?, b"data");
    Ok(())
}

fn allocate_keeps_data(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(&[7; 10_000], 5000)?;
    file.allocate(0, 0, 12_000)?;
    let data = file.contents()?;
    same!(data.len(), 15_000);
    ensure!(data[..5000].iter().all(|b| *b == 0) && data[5000..].iter().all(|b| *b == 7), "data changed");
    Ok(())
}

const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

fn punch(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(&vec![5; MIB as usize], 0)?;
    file.allocate(PUNCH, 262_144, 262_144)?;
    same!(file.stat()?.size, MIB);
    let data = file.contents()?;
    for (at, byte) in data.iter().enumerate() {
        let punched = (262_144..524_288).contains(&at);
        ensure!(*byte == if punched { 0 } else { 5 }, "byte {at} is {byte}");
    }
    if context.can(crate::Ability::Holes) {
        same!(seek(&*file, 0, libc::SEEK_HOLE)?, 262_144);
        same!(seek(&*file, 262_144, libc::SEEK_DATA)?, 524_288);
    }
    Ok(())
}

fn punch_odd_range(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(&[5; 20_000], 0)?;
    file.allocate(PUNCH, 1001, 10_003)?;
    let data = file.contents()?;
    for (at, byte) in data.iter().enumerate() {
        let punched = (1001..11_004).contains(&at);
        ensure!(*byte == if punched { 0 } else { 5 }, "byte {at} is {byte}");
    }
    Ok(())
}

fn punch_past_the_end(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(&[5; 10_000], 0)?;
    file.allocate(PUNCH, 8000, 100_000)?;
    file.allocate(PUNCH, MIB, 4096)?;
    same!(file.stat()?.size, 10_000);
    same!(file.get_at(7999, 3)?, [5, 0, 0]);
    file.truncate(12_000)?;
    same!(file.get_at(9999, 3)?, [0, 0, 0]);
    Ok(())
}

fn punch_frees_space(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(&context.noise(4 * MIB as usize, 0), 0)?;
    file.sync(false)?;
    let before = file.stat()?.blocks;
    file.allocate(PUNCH, 0, 3 * MIB)?;
    file.sync(false)?;
    let after = file.stat()?.blocks;
    ensure!(after < before / 2, "{before} blocks before, {after} after");
    Ok(())
}

fn zero_range(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(&[5; 20_000], 0)?;
    file.allocate(libc::FALLOC_FL_ZERO_RANGE, 5000, 5000)?;
    file.allocate(libc::FALLOC_FL_ZERO_RANGE, 19_000, 3000)?;
    let data = file.contents()?;
    same!(data.len(), 22_000);
    for (at, byte) in data.iter().enumerate() {
        let kept = at < 5000 || (10_000..19_000).contains(&at);
        ensure!(*byte == if kept { 5 } else { 0 }, "byte {at} is {byte}");
    }
    Ok(())
}

fn allocate_errors(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    let file = me.edit(b"f")?;
    refused!(file.allocate(0, 0, 0), EINVAL);
    refused!(file.allocate(libc::FALLOC_FL_PUNCH_HOLE, 0, 1), EOPNOTSUPP | EINVAL);
    let reader = me.open(b"f", libc::O_RDONLY, 0)?;
    refused!(reader.allocate(0, 0, 100), EBADF);
    same!(me.get(b"f")?, b"data");
    Ok(())
}

fn random_punches_match_a_model(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    let mut random = context.random();
    let mut model: Vec<u8> = Vec::new();
    for round in 0..200 {
        let (offset, length) = (random.usize(..300_000), random.usize(1..60_000));
        if random.bool() {
            let byte = random.u8(1..);
            file.put_at(&vec![byte; length], offset as u64)?;
            model.resize(model.len().max(offset + length), 0);
            model[offset..offset + length].fill(byte);
        } else {
            file.allocate(PUNCH, offset as u64, length as u64)?;
            let end = model.len().min(offset + length);
            if offset < end {
                model[offset..end].fill(0);
            }
        }
        if round % 20 == 19 {
            ensure!(file.contents()? == model, "the file differs from the model after round {round}");
        }
    }
    Ok(())
}

fn walking_all_segments(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    for segment in 0..20 {
        file.put_at(&[segment as u8 + 1; 65_536], segment * 262_144)?;
    }
    // As cp does: from data to hole to data, up to the end.
    let mut found = Vec::new();
    let mut offset = 0;
    while let Ok(data) = seek(&*file, offset, libc::SEEK_DATA) {
        let hole = seek(&*file, data, libc::SEEK_HOLE)?;
        ensure!(hole > data, "a hole at {hole} where data is");
        found.push((data, hole));
        offset = hole;
    }
    let expected: Vec<(u64, u64)> = (0..20).map(|s| (s * 262_144, s * 262_144 + 65_536)).collect();
    same!(found, expected);
    Ok(())
}
