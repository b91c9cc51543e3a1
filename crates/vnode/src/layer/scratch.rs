//! Memory that an operation needs for a moment: each thread keeps what it has had, so that none is made for each block.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

thread_local! {
    static IDLE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A thread keeps so many: as many data layers of a stack may be at work at once.
const KEPT: usize = 4;
/// Larger ones are given back at once, bytes.
const KEPT_BYTES: usize = 2 << 20;

/// Bytes of which nobody knows what they hold.
pub(super) struct Scratch {
    bytes: Vec<u8>,
    length: usize,
}

impl Scratch {
    /// `length` bytes.
    pub(super) fn take(length: usize) -> Scratch {
        let mut bytes = IDLE.with_borrow_mut(Vec::pop).unwrap_or_default();
        if bytes.len() < length {
            bytes.resize(length, 0);
        }
        Scratch { bytes, length }
    }
}

impl Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // The thread may be ending.
        let _ = IDLE.try_with(|idle| {
            let mut idle = idle.borrow_mut();
            if idle.len() < KEPT && bytes.len() <= KEPT_BYTES {
                idle.push(bytes);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_never_by_two_at_once() {
        let mut first = Scratch::take(100);
        let mut second = Scratch::take(50);
        first.fill(1);
        second.fill(2);
        assert!(first.len() == 100 && first.iter().all(|&byte| byte == 1));
        let place = second.as_ptr();
        drop(second);
        let third = Scratch::take(40);
        assert_eq!((third.as_ptr(), third.len()), (place, 40));
    }

    #[test]
    fn little_is_kept() {
        drop(Scratch::take(KEPT_BYTES + 1));
        assert_eq!(IDLE.with_borrow(Vec::len), 0);
        drop((0..2 * KEPT).map(|_| Scratch::take(10)).collect::<Vec<_>>());
        assert_eq!(IDLE.with_borrow(Vec::len), KEPT);
    }
}
