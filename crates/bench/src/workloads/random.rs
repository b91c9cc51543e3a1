//! Small reads and writes at random offsets of a large cached file.
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;

use anyhow::{Result, bail};

use super::sizes::Sizes;
use crate::session::Session;

const BLOCK_BYTES: usize = 4 << 10;

/// Steps: read, write.
pub(crate) fn run(session: &mut Session<'_>, sizes: &Sizes) -> Result<()> {
    let blocks = sizes.file_bytes / BLOCK_BYTES as u64;
    prepare(File::create(session.data().join("file"))?, blocks)?;
    session.mount()?;
    let file = OpenOptions::new().read(true).write(true).open(session.directory().join("file"))?;
    let mut block = vec![0; BLOCK_BYTES];
    for number in 0..blocks {
        read(&file, number, &mut block)?;
    }
    let operations = sizes.random_operations;
    // Every subject gets the same offsets.
    let mut random = fastrand::Rng::with_seed(1);
    let numbers: Vec<u64> = (0..operations).map(|_| random.u64(..blocks)).collect();
    session.time_operations("read", operations, |_| {
        numbers.iter().try_for_each(|number| read(&file, *number, &mut block))
    })?;
    let mut block = vec![0xa5; BLOCK_BYTES];
    session.time_operations("write", operations, |_| {
        numbers.iter().try_for_each(|number| {
            block[..8].copy_from_slice(&number.to_le_bytes());
            Ok(file.write_all_at(&block, number * BLOCK_BYTES as u64)?)
        })
    })?;
    drop(file);
    session.unmount()?;
    let file = File::open(session.data().join("file"))?;
    numbers.iter().try_for_each(|number| {
        read(&file, *number, &mut block)?;
        if block[8] != 0xa5 { bail!("the write to block {number} is lost") } else { Ok(()) }
    })
}

fn prepare(mut file: File, blocks: u64) -> Result<()> {
    let mut block = vec![0x5a; BLOCK_BYTES];
    for number in 0..blocks {
        block[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all(&block)?;
    }
    Ok(())
}

fn read(file: &File, number: u64, block: &mut [u8]) -> Result<()> {
    file.read_exact_at(block, number * BLOCK_BYTES as u64)?;
    if block[..8] != number.to_le_bytes() {
        bail!("block {number} is not what was written");
    }
    Ok(())
}
