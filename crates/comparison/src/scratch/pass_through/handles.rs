//! Numbers for what is open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::Result;

/// What is open, by number.
#[derive(Debug)]
pub struct Handles<T> {
    open: Mutex<(u64, HashMap<u64, Arc<T>>)>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { open: Mutex::new((0, HashMap::new())) }
    }
}

impl<T> Handles<T> {
    /// Keeps something, and answers its number.
    pub fn insert(&self, item: T) -> u64 {
        let mut open = self.open();
        open.0 += 1;
        let number = open.0;
        open.1.insert(number, Arc::new(item));
        number
    }

    /// Puts something in the place of what has that number.
    pub fn replace(&self, number: u64, item: T) {
        self.open().1.insert(number, Arc::new(item));
    }

    /// What has that number.
    ///
    /// # Errors
    /// `EBADF` if nothing has.
    pub fn get(&self, number: u64) -> Result<Arc<T>> {
        self.open().1.get(&number).cloned().ok_or(Errno::BADF)
    }

    /// Keeps it no longer.
    pub fn remove(&self, number: u64) -> Option<Arc<T>> {
        self.open().1.remove(&number)
    }

    fn open(&self) -> MutexGuard<'_, (u64, HashMap<u64, Arc<T>>)> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
