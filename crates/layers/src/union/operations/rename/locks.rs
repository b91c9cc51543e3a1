//! The locks of a rename.

use std::sync::{Arc, MutexGuard, PoisonError};

use vnode::{Name, Result};

use super::endpoint::RenameEndpoint;
use crate::union::state::guards::{NameChanges, NodeWriteGuard};

/// Locks of both directories, and before them the one that serializes moves, so that no directory is moved into itself.
pub(crate) struct RenameLocks<'a> {
    _names: (NodeWriteGuard<'a>, Option<NodeWriteGuard<'a>>),
    _moves: Option<MutexGuard<'a, ()>>,
}

impl<'a> RenameLocks<'a> {
    /// Takes the locks to change the objects of these names.
    pub(crate) fn take(
        source: RenameEndpoint<'a>,
        target: RenameEndpoint<'a>,
        names: &'a [Name<'a>; 2],
    ) -> Result<Self> {
        let (from, to, changes) = (source.directory, target.directory, NameChanges::Names(names, None));
        if Arc::ptr_eq(from, to) {
            return Ok(Self { _names: (from.write_guard_for(changes), None), _moves: None });
        }
        let moves = from.union.directory_moves.lock().unwrap_or_else(PoisonError::into_inner);
        let to_first = from.is_below(to) || (!to.is_below(from) && Arc::as_ptr(to) < Arc::as_ptr(from));
        let (first, second) = if to_first { (to, from) } else { (from, to) };
        Ok(Self {
            _names: (first.write_guard_for(changes), Some(second.write_guard_for(changes))),
            _moves: Some(moves),
        })
    }
}
