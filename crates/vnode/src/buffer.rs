//! Memory for data, which may exceed what is available.

use crate::{Errno, Result};

/// Returns `length` zeros.
///
/// # Errors
/// `ENOMEM` if the allocation fails: only the caller's operation fails then.
pub fn zeros(length: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| Errno::ENOMEM)?;
    bytes.resize(length, 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_an_error() {
        assert_eq!(zeros(3), Ok(vec![0; 3]));
        assert_eq!(zeros(isize::MAX as usize), Err(Errno::ENOMEM));
    }
}
