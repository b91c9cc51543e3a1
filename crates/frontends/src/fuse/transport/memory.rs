//! The memory of a queue: taken from the system page by page as it is used, and returned to it.
//!
//! Memory from an allocator would be zeroed where it has been used before, and stay with the process.

use memmap2::{MmapMut, UncheckedAdvice};
use std::io;
use std::ops::{Deref, DerefMut};

/// A buffer that is zero until it is written to.
pub(crate) struct MappedBuffer(MmapMut);

impl MappedBuffer {
    /// Maps a buffer of this size in bytes.
    ///
    /// # Errors
    /// Fails if the process may have no more memory.
    pub(crate) fn of(bytes: usize) -> io::Result<MappedBuffer> {
        MmapMut::map_anon(bytes).map(MappedBuffer)
    }

    /// Returns the pages from an offset on to the system, where they read as zeros again. The offset is a multiple of the page
    /// size.
    pub(crate) fn release_from(&mut self, offset: usize) -> io::Result<()> {
        let length = self.0.len() - offset;
        // SAFETY: nothing borrows the memory, which is this value's alone, and any contents of it are valid bytes.
        unsafe { self.0.unchecked_advise_range(UncheckedAdvice::DontNeed, offset, length) }
    }
}

impl Deref for MappedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for MappedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_pages_are_zero_and_others_stay() {
        let page = rustix::param::page_size();
        let mut memory = MappedBuffer::of(3 * page + 100).unwrap();
        memory.fill(7);
        memory.release_from(page).unwrap();
        assert!(memory[..page].iter().all(|&byte| byte == 7));
        assert!(memory[page..].iter().all(|&byte| byte == 0));
    }
}
