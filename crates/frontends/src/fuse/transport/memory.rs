//! The memory of a queue: taken from the system page by page as it is used, and returned to it.
//!
//! Memory from an allocator would be zeroed where it has been used before, and stay with the process.

use memmap2::{MmapMut, UncheckedAdvice};
use std::io;
use std::ops::{Deref, DerefMut};

/// A buffer that is zero until it is written to.
pub(crate) struct Memory(MmapMut);

impl Memory {
    /// Maps a buffer of this size in bytes.
    ///
    /// # Errors
    /// Fails if the process may have no more memory.
    pub(crate) fn of(bytes: usize) -> io::Result<Memory> {
        MmapMut::map_anon(bytes).map(Memory)
    }

    /// Returns the pages from an offset on to the system, where they read as zeros again. The offset is a multiple of the page
    /// size.
    pub(crate) fn give_back_from(&mut self, offset: usize) -> io::Result<()> {
        let length = self.0.len() - offset;
        // SAFETY: nothing borrows the memory, which is this value's alone, and any contents of it are valid bytes.
        unsafe { self.0.unchecked_advise_range(UncheckedAdvice::DontNeed, offset, length) }
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_zeros_and_what_is_before_it_stays() {
        let page = rustix::param::page_size();
        let mut memory = Memory::of(3 * page + 100).unwrap();
        memory.fill(7);
        memory.give_back_from(page).unwrap();
        assert!(memory[..page].iter().all(|&byte| byte == 7));
        assert!(memory[page..].iter().all(|&byte| byte == 0));
    }
}
