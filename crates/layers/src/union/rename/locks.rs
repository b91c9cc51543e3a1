//! The locks of a rename.

use std::sync::{Arc, MutexGuard, PoisonError};

use vnode::Result;

use super::super::Union;
use super::super::node::{Alone, Node};

/// The locks of both directories, and before them that of all moves, so that no directory is moved into itself.
pub(super) struct Locks<'a> {
    _names: (Alone<'a>, Option<Alone<'a>>),
    _moves: Option<MutexGuard<'a, ()>>,
}

impl<'a> Locks<'a> {
    pub(super) fn take(union: &'a Union, from: &'a Arc<Node>, to: &'a Arc<Node>) -> Result<Self> {
        if Arc::ptr_eq(from, to) {
            return Ok(Self { _names: (from.alone(), None), _moves: None });
        }
        let moves = union.moves.lock().unwrap_or_else(PoisonError::into_inner);
        let to_first = from.is_below(to) || (!to.is_below(from) && Arc::as_ptr(to) < Arc::as_ptr(from));
        let (first, second) = if to_first { (to, from) } else { (from, to) };
        Ok(Self { _names: (first.alone(), Some(second.alone())), _moves: Some(moves) })
    }
}
