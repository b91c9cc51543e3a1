//! The locks of a rename.

use std::sync::{Arc, MutexGuard, PoisonError};

use vnode::{Name, Result};

use super::endpoint::Spot;
use crate::union::node::{Alone, Changes};

/// Locks of both directories, and before them the one that serializes moves, so that no directory is moved into itself.
pub(crate) struct Locks<'a> {
    _names: (Alone<'a>, Option<Alone<'a>>),
    _moves: Option<MutexGuard<'a, ()>>,
}

impl<'a> Locks<'a> {
    /// Takes the locks to change the objects of these names.
    pub(crate) fn take(source: Spot<'a>, target: Spot<'a>, names: &'a [Name<'a>; 2]) -> Result<Self> {
        let (from, to, changes) = (source.directory, target.directory, Changes::Names(names, None));
        if Arc::ptr_eq(from, to) {
            return Ok(Self { _names: (from.alone_for(changes), None), _moves: None });
        }
        let moves = from.union.moves.lock().unwrap_or_else(PoisonError::into_inner);
        let to_first = from.is_below(to) || (!to.is_below(from) && Arc::as_ptr(to) < Arc::as_ptr(from));
        let (first, second) = if to_first { (to, from) } else { (from, to) };
        Ok(Self { _names: (first.alone_for(changes), Some(second.alone_for(changes))), _moves: Some(moves) })
    }
}
