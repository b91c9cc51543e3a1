//! Source or target of a rename: a name in a directory of the union.

use std::sync::Arc;

use vnode::{Caller, Errno, Name, Result, VnodeRef};

use crate::union::branch::branches::Member;
use crate::union::node::{Instance, Node};
use crate::union::operations::lookup::Search;

/// A name in a directory of the union.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'a> {
    pub(crate) directory: &'a Arc<Node>,
    pub(crate) stored: Name<'a>,
}

impl Spot<'_> {
    pub(crate) fn search(&self, caller: &Caller) -> Result<Search> {
        self.directory.search(caller, self.stored)
    }

    /// The present object, as a hint.
    pub(crate) fn look(&self, caller: &Caller) -> Result<(Search, Option<Arc<Node>>)> {
        self.directory.look(caller, self.stored)
    }

    /// Prepares the object to be moved or replaced: links up the name, and has it counted. Returns whether the name was not the
    /// object's own before: then it may be in another branch now.
    pub(crate) fn settle(&self, caller: &Caller, search: &Search, node: Option<&Arc<Node>>) -> Result<bool> {
        let (Some(found), Some(node)) = (&search.found, node) else { return Ok(false) };
        if found.is_borrowed {
            self.directory.settle(caller, found, node, self.stored)?;
        }
        self.directory.union.counts_names(caller, found, node)?;
        Ok(found.is_borrowed)
    }

    pub(crate) fn position(&self, member: &Member) -> Result<usize> {
        self.directory.union.branches.position(member).ok_or(Errno::ESTALE)
    }

    pub(crate) fn may_change(&self, member: &Member) -> bool {
        self.directory.union.branches.may_change(member)
    }

    /// The directory's instances in the branches below one.
    pub(crate) fn right_of(&self, member: &Member) -> Result<Vec<Instance>> {
        let own = self.position(member)?;
        let is_right = |place: &&Instance| self.position(&place.member).is_ok_and(|slot| slot > own);
        Ok(self.directory.instances().iter().filter(is_right).cloned().collect())
    }

    /// Returns whether there is an object of that name below a branch.
    pub(crate) fn shows_more(&self, member: &Member) -> Result<bool> {
        Ok(self.directory.union.search(&self.right_of(member)?, &Caller::server(), self.stored)?.found.is_some())
    }

    /// The directory in a branch that has it.
    pub(crate) fn place(&self, member: &Member) -> Result<VnodeRef> {
        self.directory.instance_in(member).ok_or(Errno::ESTALE)
    }
}
