//! Files that the kernel may be reading and writing directly: open ones, and closed ones that programs may still have mapped.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use vnode::{Caller, Handle, OpenFileRef};

/// Number of mapped files of which each close finds out whether they still are.
const MAX_CHECKS: usize = 4;

/// The files of a union that the kernel may be reading and writing directly, whose objects are of type `N`.
pub(crate) struct DirectFiles<N> {
    /// Objects with such files, by the addresses of the files.
    open: Mutex<HashMap<usize, Weak<N>>>,
    /// The kernel does not report the end of a mapping.
    mapped: Mutex<VecDeque<MappedFile<N>>>,
}

/// A closed file that a program may have mapped for writing.
pub(crate) struct MappedFile<N> {
    pub(crate) node: Arc<N>,
    /// The file of the branch: its handle, and as it was opened.
    pub(crate) handle: Handle,
    pub(crate) file: OpenFileRef,
}

impl<N> MappedFile<N> {
    /// Returns whether it is open elsewhere, and can still be reached.
    fn is_in_use(&self) -> bool {
        self.file.is_open_elsewhere()
            && self.file.getattr(&Caller::server()).is_ok_and(|attributes| attributes.nlink > 0)
    }
}

impl<N> Clone for MappedFile<N> {
    fn clone(&self) -> Self {
        Self { node: Arc::clone(&self.node), handle: self.handle, file: Arc::clone(&self.file) }
    }
}

impl<N> Default for DirectFiles<N> {
    fn default() -> Self {
        Self { open: Mutex::default(), mapped: Mutex::default() }
    }
}

impl<N> DirectFiles<N> {
    /// Adds a file at this address.
    pub(crate) fn record_open(&self, address: usize, node: &Arc<N>) {
        self.open().insert(address, Arc::downgrade(node));
    }

    /// Removes a file that was closed, which may be mapped.
    pub(crate) fn record_closed(&self, address: usize, mapped: Option<MappedFile<N>>) {
        if let Some(closed) = mapped.filter(MappedFile::is_in_use) {
            let mut mapped = self.mapped();
            // Of several for one file, each would be what has it open for the others.
            if !mapped.iter().any(|one| one.handle == closed.handle) {
                mapped.push_back(closed);
            }
        }
        self.open().remove(&address);
        self.check_mapped(MAX_CHECKS);
    }

    /// Returns the objects, once for each file.
    pub(crate) fn nodes(&self) -> Vec<Arc<N>> {
        self.forget_unmapped();
        let mut nodes: Vec<Arc<N>> = self.open().values().filter_map(Weak::upgrade).collect();
        nodes.extend(self.mapped().iter().map(|mapped| Arc::clone(&mapped.node)));
        nodes
    }

    /// Forgets closed files that no program has mapped any more, of at most that many, those first that were checked longest ago.
    fn check_mapped(&self, count: usize) {
        let checked: Vec<MappedFile<N>> = {
            let mut mapped = self.mapped();
            let count = count.min(mapped.len());
            mapped.rotate_left(count);
            mapped.iter().rev().take(count).cloned().collect()
        };
        let unmapped: Vec<MappedFile<N>> = checked.into_iter().filter(|mapped| !mapped.is_in_use()).collect();
        if !unmapped.is_empty() {
            let is_unmapped = |one: &MappedFile<N>| unmapped.iter().any(|gone| Arc::ptr_eq(&gone.file, &one.file));
            self.mapped().retain(|one| !is_unmapped(one));
        }
    }

    /// Forgets all closed files that no program has mapped any more.
    pub(crate) fn forget_unmapped(&self) {
        self.check_mapped(usize::MAX);
    }

    /// Forgets all closed files, whose objects keep the union in memory: nobody uses it any more.
    pub(crate) fn forget_mapped(&self) {
        let mapped = std::mem::take(&mut *self.mapped());
        drop(mapped);
    }

    fn open(&self) -> MutexGuard<'_, HashMap<usize, Weak<N>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mapped(&self) -> MutexGuard<'_, VecDeque<MappedFile<N>>> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
