//! copy_file_range(2).

use super::common::group;
use crate::check::{ensure, refused, same};
use crate::{File, Outcome, TestContext};

group! { "copy":
    whole_file [CopyRange];
    into_the_middle [CopyRange];
    beyond_the_end [CopyRange];
    past_the_end_of_the_target [CopyRange];
    within_one_file [CopyRange];
    overlapping_ranges [CopyRange];
    wrong_access [CopyRange];
    to_an_appending_file [CopyRange, Kernel];
    large_file [CopyRange];
    sparse_file [CopyRange];
    is_a_copy [CopyRange];
    of_unlinked_files [CopyRange];
}

/// Copies everything: one call may copy less than requested.
fn copy_all(from: &dyn File, offset: u64, to: &dyn File, to_offset: u64, length: u64) -> Outcome<u64> {
    let mut copied = 0;
    while copied < length {
        match from.copy_range(offset + copied, to, to_offset + copied, length - copied)? {
            0 => break,
            more => copied += more,
        }
    }
    Ok(copied)
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 31 % 251) as u8).collect()
}

fn whole_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let (from, to) = (me.create(b"f")?, me.create(b"g")?);
    from.put_at(&pattern(100_000), 0)?;
    same!(copy_all(&*from, 0, &*to, 0, 100_000)?, 100_000);
    ensure!(me.get(b"g")? == pattern(100_000), "the copy differs");
    ensure!(me.get(b"f")? == pattern(100_000), "the source changed");
    Ok(())
}

fn into_the_middle(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let (from, to) = (me.create(b"f")?, me.create(b"g")?);
    from.put_at(b"0123456789", 0)?;
    to.put_at(b"abcdefghij", 0)?;
    same!(copy_all(&*from, 2, &*to, 5, 3)?, 3);
    same!(me.get(b"g")?, b"abcde234ij");
    Ok(())
}

fn beyond_the_end(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let (from, to) = (me.create(b"f")?, me.create(b"g")?);
    from.put_at(b"0123456789", 0)?;
    same!(copy_all(&*from, 7, &*to, 0, 100)?, 3);
    same!(from.copy_range(10, &*to, 0, 100)?, 0);
    same!(from.copy_range(1000, &*to, 0, 100)?, 0);
    same!(me.get(b"g")?, b"789");
    Ok(())
}

fn past_the_end_of_the_target(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let (from, to) = (me.create(b"f")?, me.create(b"g")?);
    from.put_at(b"data", 0)?;
    same!(copy_all(&*from, 0, &*to, 10_000, 4)?, 4);
    let data = me.get(b"g")?;
    same!(data.len(), 10_004);
    ensure!(data[..10_000].iter().all(|b| *b == 0), "contents before the copy");
    same!(data[10_000..], *b"data");
    Ok(())
}

fn within_one_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    file.put_at(b"0123456789", 0)?;
    let again = me.edit(b"f")?;
    same!(copy_all(&*file, 0, &*again, 10, 5)?, 5);
    same!(copy_all(&*file, 0, &*file, 15, 2)?, 2);
    same!(me.get(b"f")?, b"01234567890123401");
    Ok(())
}

fn overlapping_ranges(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(b"0123456789", 0)?;
    refused!(file.copy_range(0, &*file, 5, 6), EINVAL);
    same!(file.contents()?, b"0123456789");
    Ok(())
}

fn wrong_access(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    me.put(b"g", b"kept")?;
    let reader = me.open(b"g", libc::O_RDONLY, 0)?;
    let writer = me.open(b"f", libc::O_WRONLY, 0)?;
    refused!(me.edit(b"f")?.copy_range(0, &*reader, 0, 4), EBADF);
    refused!(writer.copy_range(0, &*me.edit(b"g")?, 0, 4), EBADF);
    same!(me.get(b"g")?, b"kept");
    Ok(())
}

fn to_an_appending_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    me.put(b"g", b"kept")?;
    let append = me.open(b"g", libc::O_WRONLY | libc::O_APPEND, 0)?;
    refused!(me.edit(b"f")?.copy_range(0, &*append, 0, 4), EBADF);
    same!(me.get(b"g")?, b"kept");
    Ok(())
}

fn large_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let (from, to) = (me.create(b"f")?, me.create(b"g")?);
    let data = pattern(5_000_003);
    from.put_at(&data, 0)?;
    same!(copy_all(&*from, 1, &*to, 3, 5_000_002)?, 5_000_002);
    let copied = me.get(b"g")?;
    ensure!(copied[3..] == data[1..], "the copy differs");
    Ok(())
}

fn sparse_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let (from, to) = (me.create(b"f")?, me.create(b"g")?);
    from.put_at(b"start", 0)?;
    from.put_at(b"end", 3_000_000)?;
    to.put_at(&vec![9; 3_000_003], 0)?;
    same!(copy_all(&*from, 0, &*to, 0, 3_000_003)?, 3_000_003);
    // Holes in the source overwrite data of the target.
    ensure!(me.get(b"g")? == me.get(b"f")?, "the copy differs");
    Ok(())
}

fn is_a_copy(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let (from, to) = (me.create(b"f")?, me.create(b"g")?);
    from.put_at(&pattern(65_536), 0)?;
    copy_all(&*from, 0, &*to, 0, 65_536)?;
    from.put_at(b"changed", 0)?;
    to.put_at(b"otherwise", 60_000)?;
    same!(to.get_at(0, 7)?, pattern(7));
    same!(from.get_at(60_000, 9)?, pattern(65_536)[60_000..60_009]);
    Ok(())
}

fn of_unlinked_files(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let (from, to) = (me.create(b"f")?, me.create(b"g")?);
    from.put_at(b"data", 0)?;
    me.unlink(b"f")?;
    me.unlink(b"g")?;
    same!(copy_all(&*from, 0, &*to, 0, 4)?, 4);
    same!(to.contents()?, b"data");
    Ok(())
}
