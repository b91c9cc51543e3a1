//! Source or target of a rename: a name in a directory of the union.

use std::sync::Arc;

use vnode::{Caller, Errno, Name, Result, VnodeRef};

use crate::union::branch::branches::BranchMember;
use crate::union::lookup::search::SearchResult;
use crate::union::state::Node;
use crate::union::state::instance::Instance;

/// A name in a directory of the union.
#[derive(Clone, Copy)]
pub(crate) struct RenameEndpoint<'a> {
    pub(crate) directory: &'a Arc<Node>,
    pub(crate) stored: Name<'a>,
}

impl RenameEndpoint<'_> {
    pub(crate) fn search(&self, caller: &Caller) -> Result<SearchResult> {
        self.directory.search(caller, self.stored)
    }

    /// The present object, as a hint.
    pub(crate) fn search_node(&self, caller: &Caller) -> Result<(SearchResult, Option<Arc<Node>>)> {
        self.directory.search_node(caller, self.stored)
    }

    /// Prepares the object to be moved or replaced: links up the name, and has it counted. Returns whether the name was not the
    /// object's own before: then it may be in another branch now.
    pub(crate) fn prepare_name(
        &self,
        caller: &Caller,
        search: &SearchResult,
        node: Option<&Arc<Node>>,
    ) -> Result<bool> {
        let (Some(found), Some(node)) = (&search.found, node) else { return Ok(false) };
        if found.is_copied_under_other_name {
            self.directory.link_up(caller, found, node, self.stored)?;
        }
        self.directory.union.ensure_names_counted(caller, found, node)?;
        Ok(found.is_copied_under_other_name)
    }

    pub(crate) fn position(&self, member: &BranchMember) -> Result<usize> {
        self.directory.union.branches.position(member).ok_or(Errno::ESTALE)
    }

    pub(crate) fn may_change(&self, member: &BranchMember) -> bool {
        self.directory.union.branches.may_change(member)
    }

    /// The directory's instances in the branches below one.
    pub(crate) fn right_of(&self, member: &BranchMember) -> Result<Vec<Instance>> {
        let own = self.position(member)?;
        let is_right = |instance: &&Instance| self.position(&instance.member).is_ok_and(|slot| slot > own);
        Ok(self.directory.instances().iter().filter(is_right).cloned().collect())
    }

    /// Returns whether there is an object of that name below a branch.
    pub(crate) fn reveals_lower(&self, member: &BranchMember) -> Result<bool> {
        Ok(self.directory.union.search(&self.right_of(member)?, &Caller::server(), self.stored)?.found.is_some())
    }

    /// The directory in a branch that has it.
    pub(crate) fn directory_in(&self, member: &BranchMember) -> Result<VnodeRef> {
        self.directory.instance_in(member).ok_or(Errno::ESTALE)
    }
}
