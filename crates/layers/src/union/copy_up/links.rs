//! Hard links of copied files: all names of a file lead to its one copy.
//!
//! The copy of a file with several names gets one more name, in `.wh..wh.plyfs/links`, made of its identity. A look-up of the
//! original by another of its names finds the copy there. The copy stores the number of names that still lead to the original;
//! each is made a name of the copy before it is removed or moved.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vnode::{Caller, Name, NameBuf, RenameMode, Result, VnodeRef};

use super::DataExtent;
use crate::union::branch::branches::BranchMember;
use crate::union::branch::entry_purpose::EntryPurpose;
use crate::union::branch::identity::{Identity, UNCOUNTED_NAMES};
use crate::union::branch::objects::keeping_times;
use crate::union::branch::verified::VerifiedOperations;
use crate::union::lookup::search::{LookupResult, SearchResult};
use crate::union::lookup::shared_copies;
use crate::union::state::guards::NameChanges;
use crate::union::state::instance::Instance;
use crate::union::state::{Node, ParentEntry};

/// Creates the link entry of a finished copy of a file with several names, for look-ups of the others.
pub(crate) fn add_link_entry(
    writer: &Caller,
    identity: &Identity,
    target: &BranchMember,
    copy: &VnodeRef,
) -> Result<()> {
    let links = target.work.links()?;
    links.link_verified(writer, copy, shared_copies::link_name(identity).as_name()).map(drop)
}

/// Removes that link entry.
pub(crate) fn remove_link_entry(identity: &Identity, target: &BranchMember) {
    // An entry that stays by mistake only counts names that do not exist.
    let _ = target
        .work
        .links()
        .and_then(|links| links.unlink_verified(&Caller::server(), shared_copies::link_name(identity).as_name()));
}

impl Node {
    /// Links up a name that leads to the original: makes it a name of the copy. The caller holds no lock.
    pub(crate) fn link_up(
        self: &Arc<Self>,
        caller: &Caller,
        found: &LookupResult,
        node: &Arc<Node>,
        stored: Name<'_>,
    ) -> Result<()> {
        let Instance { member, vnode, .. } = &found.instances[0];
        if !self.union.branches.may_change(member) {
            // The next copy is made at this name itself.
            return node.writable_within(caller, DataExtent::Nothing, usize::MAX).map(drop);
        }
        let directory = self.ensure_directory_in(caller, member)?;
        let names = [stored];
        let _names = self.write_guard_for(NameChanges::Names(&names, Some(member)));
        let still_so =
            self.search(&Caller::server(), stored)?.found.is_some_and(|found| found.is_copied_under_other_name);
        if !still_so {
            return Ok(());
        }
        let names = node.original_names.load(Ordering::Relaxed);
        let writer = Caller::server().at_expense_of(caller);
        if names == UNCOUNTED_NAMES {
            return keeping_times(&directory, || directory.link_verified(&writer, vnode, stored).map(drop));
        }
        node.add_counted_name(&writer, member, vnode, names, |work, name| {
            keeping_times(&directory, || {
                work.rename_verified(&writer, name.as_name(), &directory, stored, RenameMode::NoReplace)
            })
        })
    }

    /// Links up the names by which it was seen, since it is about to be changed by one of them: others that read the branch, as
    /// overlayfs or an archiver does, know nothing of the entry in `links`. Where that is not possible, it is tried again at the
    /// next change.
    pub(crate) fn link_up_seen_names(self: &Arc<Self>, caller: &Caller) {
        if matches!(self.original_names.load(Ordering::Relaxed), 0 | UNCOUNTED_NAMES) {
            return;
        }
        for ParentEntry { directory, stored } in self.seen_names() {
            let Ok(searched) = directory.search_node(&Caller::server(), stored.as_name()) else { continue };
            if let (SearchResult { found: Some(found), .. }, Some(node)) = searched
                && found.is_copied_under_other_name
                && Arc::ptr_eq(&node, self)
            {
                let _ = directory.link_up(caller, &found, self, stored.as_name());
            }
        }
    }

    /// Creates one more name of the copy in the work directory, decrements the original's count, and has the name placed. The
    /// name of an entry that a crash leaves in the work directory encodes the count to restore.
    fn add_counted_name(
        &self,
        writer: &Caller,
        member: &BranchMember,
        copy: &VnodeRef,
        names: u32,
        place: impl FnOnce(&VnodeRef, &NameBuf) -> Result<()>,
    ) -> Result<()> {
        // Of two such names one would encode the wrong count.
        member.work.retry_undo()?;
        let (work, name) = (member.work.directory()?, member.work.unused_name_for(EntryPurpose::Name(names)));
        let left = names.saturating_sub(1);
        let placed = work
            .link_verified(writer, copy, name.as_name())
            .and_then(|_| self.identity.store_origin(writer, copy, left))
            .and_then(|_| place(&work, &name));
        match placed {
            Ok(()) => self.original_names.store(left, Ordering::Relaxed),
            Err(_) => {
                member.work.undo_entry(&name);
                // If it is in place all the same, it is counted.
                if let Ok(Some((_, names))) = Identity::stored_origin(copy) {
                    self.original_names.store(names, Ordering::Relaxed);
                }
            }
        }
        placed
    }

    /// Records that a name is gone: after the last one, the link entry of the copy is removed too.
    pub(crate) fn record_lost_name(&self) {
        if self.original_names.load(Ordering::Relaxed) != 0 {
            return;
        }
        let Instance { member, vnode, .. } = self.leftmost();
        let is_last = vnode.getattr(&Caller::server()).is_ok_and(|attributes| attributes.nlink == 1);
        if is_last {
            remove_link_entry(&self.identity, &member);
        }
    }
}
