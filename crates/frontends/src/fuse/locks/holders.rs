//! The possible lock holders of each file: everybody who holds a lock, perhaps more.
//!
//! The owner of a lock is recorded as long as an open file exists through which it took one. For an owner of open file
//! description locks (`F_OFD_SETLK`) the kernel never reports a close, and there are as many such owners as opens.

use std::collections::{HashMap, HashSet};

use vnode::{LockFamily, LockOwner};

pub(crate) type Holder = (LockFamily, LockOwner);

/// The holders of all files.
#[derive(Default)]
pub(crate) struct Holders {
    /// By node, with the open files through which they took locks.
    files: HashMap<u64, HashMap<Holder, HashSet<usize>>>,
    /// By open file.
    taken: HashMap<usize, HashSet<Holder>>,
}

impl Holders {
    /// Records a lock that was taken through an open file of the node.
    pub(crate) fn add(&mut self, node: u64, opened: usize, holder: Holder) {
        self.files.entry(node).or_default().entry(holder.clone()).or_default().insert(opened);
        self.taken.entry(opened).or_default().insert(holder);
    }

    /// Removes a holder that has no lock on the file any more.
    pub(crate) fn remove(&mut self, node: u64, holder: &Holder) {
        let Some(of_file) = self.files.get_mut(&node) else { return };
        for opened in of_file.remove(holder).into_iter().flatten() {
            if let Some(taken) = self.taken.get_mut(&opened) {
                taken.remove(holder);
                if taken.is_empty() {
                    self.taken.remove(&opened);
                }
            }
        }
        if of_file.is_empty() {
            self.files.remove(&node);
        }
    }

    /// Releases an open file of the node, and with it the locks that were taken through it. Returns whether there may have
    /// been any.
    pub(crate) fn release(&mut self, node: u64, opened: usize) -> bool {
        let Some(taken) = self.taken.remove(&opened) else { return false };
        let Some(of_file) = self.files.get_mut(&node) else { return true };
        for holder in taken {
            if let Some(by) = of_file.get_mut(&holder) {
                by.remove(&opened);
                if by.is_empty() {
                    of_file.remove(&holder);
                }
            }
        }
        if of_file.is_empty() {
            self.files.remove(&node);
        }
        true
    }

    /// Returns whether the holder may hold a lock on the file.
    pub(crate) fn has(&self, node: u64, holder: &Holder) -> bool {
        self.files.get(&node).is_some_and(|of_file| of_file.contains_key(holder))
    }

    /// Returns the number of entries.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.files.len() + self.taken.len()
    }
}
