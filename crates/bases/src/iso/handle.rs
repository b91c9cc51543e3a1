//! Handles: where an object's records are, and in which image.

use vnode::{Errno, Handle, Result};

use super::object::RecordPosition;

/// The decoded content of a handle. The first byte encodes the form, a hash of the image follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandleTarget {
    /// A directory, by the first logical block of its data (form 1).
    Directory(u32),
    /// Any other object, by the position of its record (form 2).
    Object(RecordPosition),
    /// The directory of boot files (form 3).
    BootDirectory,
    /// A boot file, by its index (form 4).
    BootFile(u32),
}

impl HandleTarget {
    /// Returns the handle in the image with this hash.
    pub(crate) fn encode(self, hash: u64) -> Handle {
        let (form, numbers) = match self {
            Self::Directory(block) => (1, [block, 0]),
            Self::Object(RecordPosition { directory, offset }) => (2, [directory, offset]),
            Self::BootDirectory => (3, [0, 0]),
            Self::BootFile(index) => (4, [index, 0]),
        };
        let mut bytes = [form; 17];
        bytes[1..9].copy_from_slice(&hash.to_le_bytes());
        bytes[9..13].copy_from_slice(&numbers[0].to_le_bytes());
        bytes[13..].copy_from_slice(&numbers[1].to_le_bytes());
        Handle::new(&bytes).expect("17 bytes fit")
    }

    /// Decodes a handle in the image with this hash.
    ///
    /// # Errors
    /// `ESTALE` if it is no handle of this image.
    pub(crate) fn decode(handle: &Handle, hash: u64) -> Result<Self> {
        let bytes: &[u8; 17] = handle.as_bytes().try_into().map_err(|_| Errno::ESTALE)?;
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
        let target = match (bytes[0], number(9), number(13)) {
            (1, block, 0) => Self::Directory(block),
            (2, directory, offset) => Self::Object(RecordPosition { directory, offset }),
            (3, 0, 0) => Self::BootDirectory,
            (4, index, 0) => Self::BootFile(index),
            _ => return Err(Errno::ESTALE),
        };
        // What is encoded otherwise is of another image.
        if target.encode(hash) == *handle { Ok(target) } else { Err(Errno::ESTALE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_survives_encoding() {
        for target in [
            HandleTarget::Directory(20),
            HandleTarget::Object(RecordPosition { directory: u32::MAX, offset: 68 }),
            HandleTarget::BootDirectory,
            HandleTarget::BootFile(3),
        ] {
            let handle = target.encode(0x0123_4567_89ab_cdef);
            assert_eq!(HandleTarget::decode(&handle, 0x0123_4567_89ab_cdef), Ok(target));
            assert_eq!(HandleTarget::decode(&handle, 0x0123_4567_89ab_cdee), Err(Errno::ESTALE));
        }
    }

    #[test]
    fn foreign_bytes_are_stale() {
        for bytes in [&[][..], &[1], &[0; 17], &[1; 17], &[3; 17], &[5; 17], &[1; 18], &[9; 48]] {
            assert_eq!(HandleTarget::decode(&Handle::new(bytes).unwrap(), 0), Err(Errno::ESTALE), "{bytes:?}");
        }
    }
}
