//! Ioctls that give data.

/// The number of the command that gives so many bytes, the first of those that a file system has.
pub(crate) const fn giving(bytes: usize) -> u32 {
    1 << 30 | (bytes as u32) << 16 | (b'F' as u32) << 8 | 1
}
