//! A name in a directory of the union, as a rename asks for it.

use std::sync::Arc;

use vnode::{Caller, Errno, Name, Result, VnodeRef};

use super::super::branches::Member;
use super::super::lookup::Search;
use super::super::node::{Instance, Node};

/// A name in a directory of the union.
#[derive(Clone, Copy)]
pub(super) struct Spot<'a> {
    pub(super) directory: &'a Arc<Node>,
    pub(super) stored: Name<'a>,
}

impl Spot<'_> {
    pub(super) fn search(&self, caller: &Caller) -> Result<Search> {
        self.directory.search(caller, self.stored)
    }

    /// What is there now, for a plan.
    pub(super) fn look(&self, caller: &Caller) -> Result<(Search, Option<Arc<Node>>)> {
        self.directory.look(caller, self.stored)
    }

    /// Makes what is there ready to be moved or replaced: the name is its own, and is counted. Whether it was not its own
    /// before: then it may be in another branch now.
    pub(super) fn settle(&self, caller: &Caller, search: &Search, node: Option<&Arc<Node>>) -> Result<bool> {
        let (Some(found), Some(node)) = (&search.found, node) else { return Ok(false) };
        if found.is_borrowed {
            self.directory.settle(caller, found, node, self.stored)?;
        }
        self.directory.union.counts_names(caller, found, node)?;
        Ok(found.is_borrowed)
    }

    pub(super) fn position(&self, member: &Member) -> Result<usize> {
        self.directory.union.branches.position(member).ok_or(Errno::ESTALE)
    }

    pub(super) fn may_change(&self, member: &Member) -> bool {
        self.directory.union.branches.may_change(member)
    }

    /// The directory in the branches on the right of one.
    pub(super) fn right_of(&self, member: &Member) -> Result<Vec<Instance>> {
        let own = self.position(member)?;
        let is_right = |place: &&Instance| self.position(&place.member).is_ok_and(|slot| slot > own);
        Ok(self.directory.instances().iter().filter(is_right).cloned().collect())
    }

    /// Whether there is something by that name on the right of a branch.
    pub(super) fn shows_more(&self, member: &Member) -> Result<bool> {
        Ok(self.directory.union.search(&self.right_of(member)?, &Caller::server(), self.stored)?.found.is_some())
    }

    /// The directory in a branch, which has it.
    pub(super) fn place(&self, member: &Member) -> Result<VnodeRef> {
        self.directory.instance_in(member).ok_or(Errno::ESTALE)
    }
}
