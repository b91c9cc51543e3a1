//! Offsets and sizes beyond 2 and 4 GiB.

use super::common::group;
use crate::check::{ensure, same};
use crate::{Outcome, TestContext};

group! { "large":
    write_past_4_gib [LargeFiles];
    over_the_boundaries [LargeFiles];
    truncate_past_4_gib [LargeFiles];
    seek_past_4_gib [LargeFiles];
    append_past_4_gib [LargeFiles];
    holes_past_4_gib [LargeFiles, Holes];
    map_past_4_gib_of_size [LargeFiles, Map];
    locks_past_4_gib [LargeFiles, RangeLocks];
    copy_past_4_gib [LargeFiles, CopyRange];
    allocate_past_4_gib [LargeFiles, Punch];
}

const GIB: u64 = 1 << 30;

fn write_past_4_gib(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    file.put_at(b"far out", 5 * GIB + 3)?;
    same!(me.stat(b"f")?.size, 5 * GIB + 10);
    same!(file.get_at(5 * GIB + 3, 100)?, b"far out");
    // The offset less 4 GiB is a different location.
    same!(file.get_at(GIB + 3, 7)?, [0; 7]);
    file.put_at(b"close by", GIB + 3)?;
    same!(file.get_at(5 * GIB + 3, 7)?, b"far out");
    Ok(())
}

fn over_the_boundaries(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    let data: Vec<u8> = (0..100_000_u32).map(|n| (n % 249) as u8).collect();
    for boundary in [2 * GIB, 4 * GIB, 1 << 40] {
        file.put_at(&data, boundary - 50_000)?;
        ensure!(file.get_at(boundary - 50_000, data.len())? == data, "data around {boundary} differs");
    }
    ensure!(file.get_at(2 * GIB - 50_000, data.len())? == data, "later writes changed earlier data");
    Ok(())
}

fn truncate_past_4_gib(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    file.put_at(b"start", 0)?;
    me.truncate(b"f", 6 * GIB)?;
    same!(file.stat()?.size, 6 * GIB);
    file.put_at(b"end", 6 * GIB)?;
    file.truncate(6 * GIB + 1)?;
    same!(file.get_at(6 * GIB - 1, 10)?, b"\0e");
    file.truncate(3)?;
    same!(me.get(b"f")?, b"sta");
    Ok(())
}

fn seek_past_4_gib(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    same!(file.seek(5 * GIB as i64, libc::SEEK_SET)?, 5 * GIB);
    file.write(b"here")?;
    same!(file.seek(0, libc::SEEK_CUR)?, 5 * GIB + 4);
    same!(file.seek(-4, libc::SEEK_END)?, 5 * GIB);
    let mut data = [0; 4];
    file.read(&mut data)?;
    same!(&data, b"here");
    Ok(())
}

fn append_past_4_gib(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.truncate(b"f", 5 * GIB)?;
    me.open(b"f", libc::O_WRONLY | libc::O_APPEND, 0)?.write(b"appended")?;
    same!(me.edit(b"f")?.get_at(5 * GIB, 100)?, b"appended");
    Ok(())
}

fn holes_past_4_gib(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(&[1; 65_536], 5 * GIB)?;
    file.truncate(7 * GIB)?;
    same!(file.seek(0, libc::SEEK_DATA)?, 5 * GIB);
    same!(file.seek(5 * GIB as i64, libc::SEEK_HOLE)?, 5 * GIB + 65_536);
    ensure!(file.stat()?.blocks < 2048, "{} blocks for 64 KiB", file.stat()?.blocks);
    Ok(())
}

fn map_past_4_gib_of_size(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.truncate(5 * GIB)?;
    let map = file.map(4 * GIB as usize + 8192, true, true)?;
    map.store(4 * GIB as usize + 5000, b"stored");
    same!(file.get_at(4 * GIB + 5000, 6)?, b"stored");
    same!(file.get_at(5000, 6)?, [0; 6]);
    Ok(())
}

fn locks_past_4_gib(context: &TestContext<'_>) -> Outcome {
    use crate::{Lock, LockKind};
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    let theirs = other.edit(b"f")?;
    let far = Lock::new(LockKind::Write, 5 * GIB, 10);
    mine.lock(far, false)?;
    theirs.lock(Lock::new(LockKind::Write, GIB, 10), false)?;
    same!(theirs.test_lock(Lock::new(LockKind::Read, 5 * GIB + 9, 1))?, Some(far));
    Ok(())
}

fn copy_past_4_gib(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let (from, to) = (me.create(b"f")?, me.create(b"g")?);
    from.put_at(b"far data", 5 * GIB)?;
    same!(from.copy_range(5 * GIB, &*to, 6 * GIB, 8)?, 8);
    same!(to.get_at(6 * GIB, 100)?, b"far data");
    same!(to.stat()?.size, 6 * GIB + 8);
    Ok(())
}

fn allocate_past_4_gib(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(&[1; 8192], 5 * GIB)?;
    file.allocate(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, 5 * GIB, 4096)?;
    same!(file.get_at(5 * GIB + 4095, 2)?, [0, 1]);
    Ok(())
}
