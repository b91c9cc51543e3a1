//! Locks of directories: what a name stands for stays so from the check of who may remove it until it is gone.

use std::sync::{Mutex, MutexGuard, PoisonError};

use vnode::Handle;
use vnode::Vnode;
use vnode::layer::{LayerVnode, Operation};

use super::Map;

/// One lock for many directories, by hash. Only operations that take names away from where they were hold one: a name
/// that nobody takes away stays what it is.
#[derive(Debug)]
pub(super) struct NameLocks([Mutex<()>; SHARDS]);

const SHARDS: usize = 64;

/// Locks held, of one directory or two.
pub(super) type NameGuards<'a> = [Option<MutexGuard<'a, ()>>; 2];

impl Default for NameLocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl NameLocks {
    /// Locks the directories from which the operation takes names away.
    pub(super) fn lock(&self, node: &LayerVnode<Map>, operation: &Operation<'_>) -> NameGuards<'_> {
        let (one, other) = match operation {
            Operation::Unlink(_) | Operation::RemoveDirectory(_) => (shard(&node.handle()), None),
            Operation::Rename { to, .. } => (shard(&node.handle()), Some(shard(&to.handle()))),
            _ => return [None, None],
        };
        // In one order for all, so that nobody waits in a circle; directories may share a lock.
        match other {
            Some(other) if other < one => [Some(self.one(other)), Some(self.one(one))],
            Some(other) if other > one => [Some(self.one(one)), Some(self.one(other))],
            _ => [Some(self.one(one)), None],
        }
    }

    fn one(&self, shard: usize) -> MutexGuard<'_, ()> {
        self.0[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shard(handle: &Handle) -> usize {
    let bytes = handle.as_bytes().iter();
    bytes.fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte))) % SHARDS
}
