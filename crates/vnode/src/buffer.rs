//! Memory for data, which may exceed what is available.

use crate::{Errno, Result};

/// Copied to fill memory: a loop over single bytes takes a hundred times as long where it is not optimised.
const ZEROS: [u8; 4096] = [0; 4096];

/// Returns `length` zeros.
///
/// # Errors
/// `ENOMEM` if the allocation fails: only the caller's operation fails then.
pub fn zeros(length: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| Errno::ENOMEM)?;
    while bytes.len() < length {
        bytes.extend_from_slice(&ZEROS[..ZEROS.len().min(length - bytes.len())]);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_as_asked_for_or_an_error() {
        for length in [0, 3, 4096, 10_000] {
            assert_eq!(zeros(length), Ok(vec![0; length]));
        }
        assert_eq!(zeros(isize::MAX as usize), Err(Errno::ENOMEM));
    }
}
