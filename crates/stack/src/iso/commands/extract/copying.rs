//! Copies the contents of a file out of an image. Zeros become holes, which take no space however many an image claims to have.

use std::os::fd::AsFd;

use rustix::io::Errno as SystemError;
use vnode::{Caller, Errno, OpenFile, zeros};

use super::error::ExtractionError;

/// Bytes that are read at once.
const READ_AT_ONCE: usize = 1 << 20;
/// Zeros become a hole if a piece of this size, aligned to it, has nothing else.
const PIECE: usize = 64 << 10;

/// Copies a file of `size` bytes into one that is empty.
///
/// # Errors
/// [`ExtractionError`].
pub(crate) fn copy(source: &dyn OpenFile, file: impl AsFd, size: u64) -> Result<(), ExtractionError> {
    let length = size.min(READ_AT_ONCE as u64) as usize;
    let mut buffer = zeros(length)?;
    let mut offset = 0;
    while offset < size {
        let count = source.read_at(&Caller::server(), offset, &mut buffer)?;
        let read = buffer.get(..count).filter(|read| !read.is_empty()).ok_or(Errno::EIO)?;
        for (index, piece) in read.chunks(PIECE).enumerate() {
            if piece.iter().any(|byte| *byte != 0) {
                write(&file, piece, offset + (index * PIECE) as u64)?;
            }
        }
        offset += count as u64;
    }
    Ok(rustix::fs::ftruncate(file, size)?)
}

fn write(file: impl AsFd, data: &[u8], offset: u64) -> Result<(), SystemError> {
    let mut done = 0;
    while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pwrite(&file, rest, offset + done as u64) {
            Ok(0) => return Err(SystemError::IO),
            Ok(count) => done += count,
            Err(SystemError::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
