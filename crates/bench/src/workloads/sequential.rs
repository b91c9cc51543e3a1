//! A large file, written, overwritten, read from the device and read from the cache, from beginning to end.
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Result, bail};
use rustix::fs::{Advice, fadvise};

use super::sizes::Sizes;
use crate::session::Session;

/// Number of bytes per read or write call.
pub(crate) const BLOCK_BYTES: usize = 128 << 10;

/// Steps: write (a new file), rewrite (its blocks exist), read cold, read cached.
pub(crate) fn run(session: &mut Session<'_>, sizes: &Sizes) -> Result<()> {
    session.mount()?;
    let blocks = sizes.file_bytes / BLOCK_BYTES as u64;
    session.time("write", |directory| write_blocks(&File::create(directory.join("file"))?, blocks))?;
    session.time("rewrite", |directory| {
        write_blocks(&OpenOptions::new().write(true).open(directory.join("file"))?, blocks)
    })?;
    session.write_back()?;
    drop_cached(&session.directory().join("file"))?;
    drop_cached(&session.data().join("file"))?;
    session.time("read, cold", |directory| read(&directory.join("file"), blocks))?;
    session.time("read, cached", |directory| read(&directory.join("file"), blocks))?;
    // Data on the lower file system is checked through a new mount: a layer may store it in another form there.
    session.remount()?;
    read(&session.directory().join("file"), blocks)
}

/// Writes blocks that begin with their number, so that reading can verify their position.
pub(crate) fn write_blocks(mut file: &File, blocks: u64) -> Result<()> {
    let mut block = vec![0x5a; BLOCK_BYTES];
    for number in 0..blocks {
        block[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all(&block)?;
    }
    Ok(())
}

/// Reads a file of exactly these blocks, and verifies their positions.
pub(crate) fn read(path: &Path, blocks: u64) -> Result<()> {
    let mut file = File::open(path)?;
    read_blocks(&file, blocks)?;
    if file.read(&mut [0])? != 0 {
        bail!("the file is longer than what was written");
    }
    Ok(())
}

/// Reads blocks, and verifies their positions.
pub(crate) fn read_blocks(mut file: &File, blocks: u64) -> Result<()> {
    let mut block = vec![0; BLOCK_BYTES];
    for number in 0..blocks {
        file.read_exact(&mut block)?;
        if block[..8] != number.to_le_bytes() {
            bail!("block {number} is not what was written");
        }
    }
    Ok(())
}

/// Drops the cached pages of the file. Only clean pages are dropped, so it must be written back first.
fn drop_cached(path: &Path) -> Result<()> {
    Ok(fadvise(&File::open(path)?, 0, None, Advice::DontNeed)?)
}
