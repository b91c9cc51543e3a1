//! Whole transfers: reads and writes repeated until everything has been moved.

use crate::{Caller, Errno, OpenFile, Result};

/// Repeats a transfer until it has moved `length` bytes, or makes no more progress; returns the number of bytes moved.
/// `part` receives the number of bytes moved so far, and returns the number of bytes that it moved.
///
/// # Errors
/// The first error of `part`, whatever has been moved before: a count would be mistaken for the end.
pub fn transfer_fully(length: usize, mut part: impl FnMut(usize) -> Result<usize>) -> Result<usize> {
    let mut done = 0;
    while done < length {
        match part(done)? {
            0 => break,
            more => done += more,
        }
    }
    Ok(done)
}

/// Reads at `offset` until the buffer is full or the file ends, whatever single reads return.
///
/// # Errors
/// As [`OpenFile::read_at`].
pub fn read_fully(file: &dyn OpenFile, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    transfer_fully(buffer.len(), |done| file.read_at(caller, offset + done as u64, &mut buffer[done..]))
}

/// Writes all of the data at `offset`, whatever single writes return.
///
/// # Errors
/// As [`OpenFile::write_at`]; part of the data may have been written then. `ENOSPC` if a write writes nothing.
pub fn write_fully(file: &dyn OpenFile, caller: &Caller, offset: u64, data: &[u8]) -> Result<()> {
    let part = |done| file.write_at(caller, offset + done as u64, &data[done..]);
    if transfer_fully(data.len(), part)? == data.len() { Ok(()) } else { Err(Errno::ENOSPC) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_added_up_to_the_end_or_to_an_error() {
        let parts = |answers: &'static [Result<usize>], length| {
            let mut answers = answers.iter();
            transfer_fully(length, |_| *answers.next().unwrap())
        };
        assert_eq!(parts(&[Ok(3), Ok(4), Ok(3)], 10), Ok(10));
        assert_eq!(parts(&[Ok(3), Ok(0)], 10), Ok(3));
        assert_eq!(parts(&[Ok(3), Err(Errno::EIO)], 10), Err(Errno::EIO));
        assert_eq!(parts(&[], 0), Ok(0));
    }
}
