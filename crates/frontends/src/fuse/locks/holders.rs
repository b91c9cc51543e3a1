//! Who may hold a lock of a file: everybody who does, perhaps more.
//!
//! Whoever took a lock is known as long as an open file by which that was done. An owner of locks by open file (`F_OFD_SETLK`) is
//! never said to have closed anything, and there are as many of them as files are opened.

use std::collections::{HashMap, HashSet};

use vnode::{LockFamily, LockOwner};

pub(super) type Holder = (LockFamily, LockOwner);

/// The holders of all files.
#[derive(Default)]
pub(super) struct Holders {
    /// By node, with the open files by which they took locks.
    files: HashMap<u64, HashMap<Holder, HashSet<usize>>>,
    /// By open file.
    taken: HashMap<usize, HashSet<Holder>>,
}

impl Holders {
    /// A lock was taken by an open file of the node.
    pub(super) fn add(&mut self, node: u64, opened: usize, holder: Holder) {
        self.files.entry(node).or_default().entry(holder).or_default().insert(opened);
        self.taken.entry(opened).or_default().insert(holder);
    }

    /// The holder has no lock of the file any more.
    pub(super) fn remove(&mut self, node: u64, holder: Holder) {
        let Some(of_file) = self.files.get_mut(&node) else { return };
        for opened in of_file.remove(&holder).into_iter().flatten() {
            if let Some(taken) = self.taken.get_mut(&opened) {
                taken.remove(&holder);
                if taken.is_empty() {
                    self.taken.remove(&opened);
                }
            }
        }
        if of_file.is_empty() {
            self.files.remove(&node);
        }
    }

    /// The open file of the node is gone, and with it the locks that were taken by it. Tells whether there may have been some.
    pub(super) fn release(&mut self, node: u64, opened: usize) -> bool {
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

    /// Whether the holder may hold a lock of the file.
    pub(super) fn has(&self, node: u64, holder: Holder) -> bool {
        self.files.get(&node).is_some_and(|of_file| of_file.contains_key(&holder))
    }

    /// Number of entries.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.files.len() + self.taken.len()
    }
}
