//! Guards of the objects' locks: a directory's guards its names, a file's its place while it is copied.

use std::sync::atomic::Ordering;
use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use vnode::{Caller, FileKind, KeyedGuard, Name, Result};

use super::Node;
use crate::union::branch::branches::BranchMember;
use crate::union::branch::encoding::hash;

/// Write guard of a file's lock, held while it is copied.
pub(crate) struct CopyGuard<'a> {
    _guard: NodeWriteGuard<'a>,
    _copy_lock: KeyedGuard<'a, usize>,
}

/// Write guard of an object's lock; held while names in a directory change.
pub(crate) struct NodeWriteGuard<'a> {
    node: &'a Node,
    changes: NameChanges<'a>,
    _lock: RwLockWriteGuard<'a, ()>,
}

/// Changes that a holder of a directory's write guard makes in it.
#[derive(Clone, Copy)]
pub(crate) enum NameChanges<'a> {
    /// Any change. Also used for everything but directories.
    Anything,
    /// The objects of these names and their whiteouts, in one branch or in any.
    Names(&'a [Name<'a>], Option<&'a BranchMember>),
}

impl Drop for NodeWriteGuard<'_> {
    fn drop(&mut self) {
        if self.node.kind != FileKind::Directory {
            return;
        }
        self.node.change_count.fetch_add(1, Ordering::Release);
        for instance in self.node.instances().iter() {
            if !self.node.union.branches.may_change(&instance.member) {
                continue;
            }
            match self.changes {
                NameChanges::Anything => instance.names.forget(),
                NameChanges::Names(names, member) => {
                    if member.is_none_or(|member| std::ptr::eq(&raw const *instance.member, member)) {
                        names.iter().for_each(|name| instance.names.record_change(hash(name.as_bytes())));
                    }
                }
            }
            self.node.union.invalidate_views();
        }
    }
}

impl Node {
    /// Takes the lock for reading.
    pub(crate) fn read_guard(&self) -> RwLockReadGuard<'_, ()> {
        self.lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock of a file for reading. This may block for long while the file is being copied.
    ///
    /// # Errors
    /// Cancellation of the waiting caller.
    pub(crate) fn read_guard_unless_cancelled(&self, caller: &Caller) -> Result<RwLockReadGuard<'_, ()>> {
        match self.lock.try_read() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                drop(self.union.copy_locks.read_range_unless(caller.cancellation(), self.address(), 0..1)?);
                Ok(self.read_guard())
            }
        }
    }

    /// Takes the lock of a file for writing, to copy it.
    ///
    /// # Errors
    /// Cancellation of the waiting caller.
    pub(crate) fn copy_guard(&self, caller: &Caller) -> Result<CopyGuard<'_>> {
        let turn = self.union.copy_locks.write_unless(caller.cancellation(), self.address())?;
        Ok(CopyGuard { _guard: self.write_guard(), _copy_lock: turn })
    }

    /// Returns whether it is being copied now.
    pub(crate) fn is_being_copied(&self) -> bool {
        self.union.copy_locks.is_held(self.address())
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Takes the lock for writing.
    pub(crate) fn write_guard(&self) -> NodeWriteGuard<'_> {
        self.write_guard_for(NameChanges::Anything)
    }

    /// Takes the lock for writing, to make only these changes.
    pub(crate) fn write_guard_for<'a>(&'a self, changes: NameChanges<'a>) -> NodeWriteGuard<'a> {
        NodeWriteGuard { node: self, changes, _lock: self.lock.write().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Number of times the lock was taken for writing. Earlier findings are valid as long as this has not changed.
    pub(crate) fn change_count(&self) -> u64 {
        self.change_count.load(Ordering::Acquire)
    }

    /// Invalidates the cached names in this directory.
    pub(crate) fn invalidate_names(&self) {
        for instance in self.instances().iter() {
            instance.names.forget();
        }
    }
}
