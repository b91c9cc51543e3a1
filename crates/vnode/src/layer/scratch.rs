//! Scratch buffers of operations: each thread caches its own, so that processing a block allocates nothing.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Errno, Result};

thread_local! {
    static IDLE: RefCell<Idle> = const { RefCell::new(Idle(Vec::new())) };
}

/// Maximum number of scratch buffers cached per thread; also the maximum depth of data layers that run without
/// allocating.
const KEPT: usize = 6;
/// Maximum size of a cached buffer in bytes; larger ones are freed at once.
const KEPT_BYTES: usize = 2 << 20;
/// Maximum size of the buffers cached by all threads together, in bytes.
const KEPT_BYTES_OF_ALL: usize = 32 << 20;

/// Size of the buffers cached by all threads, in bytes.
static KEPT_BY_ALL: AtomicUsize = AtomicUsize::new(0);

/// Buffers cached by a thread.
struct Idle(Vec<Vec<u8>>);

/// A buffer with unspecified content. Default: empty.
#[derive(Default)]
pub(crate) struct Scratch {
    bytes: Vec<u8>,
    length: usize,
}

impl Scratch {
    /// Returns a buffer of `length` bytes.
    ///
    /// # Errors
    /// `ENOMEM` if the allocation fails.
    pub(crate) fn take(length: usize) -> Result<Scratch> {
        let mut bytes = IDLE.with_borrow_mut(Idle::take);
        if bytes.len() < length {
            bytes.clear();
            bytes.try_reserve_exact(length).map_err(|_| Errno::ENOMEM)?;
            bytes.resize(length, 0);
        }
        Ok(Scratch { bytes, length })
    }

    /// Returns a buffer of `length` zeros.
    ///
    /// # Errors
    /// As [`Scratch::take`].
    pub(crate) fn zeros(length: usize) -> Result<Scratch> {
        let mut zeros = Scratch::take(length)?;
        zeros.fill(0);
        Ok(zeros)
    }
}

impl Idle {
    fn take(&mut self) -> Vec<u8> {
        let bytes = self.0.pop().unwrap_or_default();
        KEPT_BY_ALL.fetch_sub(bytes.capacity(), Ordering::Relaxed);
        bytes
    }

    fn keep(&mut self, bytes: Vec<u8>) {
        let length = bytes.capacity();
        let with_it = |kept: usize| kept.checked_add(length).filter(|&kept| kept <= KEPT_BYTES_OF_ALL);
        if self.0.len() < KEPT
            && (1..=KEPT_BYTES).contains(&length)
            && KEPT_BY_ALL.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_it).is_ok()
        {
            self.0.push(bytes);
        }
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        while !self.0.is_empty() {
            self.take();
        }
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
        let _ = IDLE.try_with(|idle| idle.borrow_mut().keep(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_never_by_two_at_once() {
        let mut first = Scratch::take(100).unwrap();
        let mut second = Scratch::take(50).unwrap();
        first.fill(1);
        second.fill(2);
        assert!(first.len() == 100 && first.iter().all(|&byte| byte == 1));
        let place = second.as_ptr();
        drop(second);
        let third = Scratch::take(40).unwrap();
        assert_eq!((third.as_ptr(), third.len()), (place, 40));
    }

    fn kept() -> usize {
        IDLE.with_borrow(|idle| idle.0.len())
    }

    #[test]
    fn little_is_kept() {
        drop(Scratch::take(KEPT_BYTES + 1));
        assert_eq!(kept(), 0);
        drop((0..2 * KEPT).map(|_| Scratch::take(10).unwrap()).collect::<Vec<_>>());
        assert_eq!(kept(), KEPT);
    }

    #[test]
    fn what_cannot_be_had_is_an_error_and_zeros_are_zeros() {
        assert_eq!(Scratch::take(isize::MAX as usize).err(), Some(Errno::ENOMEM));
        Scratch::take(100).unwrap().fill(1);
        assert!(Scratch::zeros(50).unwrap().iter().all(|&byte| byte == 0));
    }

    #[test]
    fn all_threads_together_keep_no_more_than_a_bound() {
        let mut all = (0..2 * KEPT_BYTES_OF_ALL / KEPT_BYTES).map(|_| Idle(Vec::new())).collect::<Vec<_>>();
        all.iter_mut().for_each(|idle| idle.keep(vec![0; KEPT_BYTES]));
        let kept = all.iter().filter(|idle| !idle.0.is_empty()).count();
        assert!((1..=KEPT_BYTES_OF_ALL / KEPT_BYTES).contains(&kept), "{kept}");
        drop(all);
        let mut again = Idle(Vec::new());
        again.keep(vec![0; KEPT_BYTES]);
        assert_eq!(again.0.len(), 1, "threads that end give back what they kept");
    }
}
