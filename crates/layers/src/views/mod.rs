//! Split views (Unionfs, section 3.9): inside one mount, chosen processes see and write a branch of their own.
//!
//! Each view is an almost independent union: of a private branch, the only one that it writes, and the branches of the
//! mount's union, which it only reads. All share one lock for operations, so that branches change for all at once;
//! changes that the mount's union makes below a view make the view revalidate ([`Union::invalidate_views`]).
//!
//! **Invariants.** An object other than a directory has a vnode in each view, through which only that view opens and
//! changes it, and an open file stays in the view in which it was opened. A directory that several have at one location
//! is one vnode ([`merged_directory`]), which serves each caller from the caller's view. No view writes to anything but
//! its private branch.

mod commands;
mod listing;
pub(crate) mod merged_directory;
mod process;
pub(crate) mod process_events;
mod process_tree;
mod rule;
mod session;

use std::sync::PoisonError;

use crate::BranchMode;
use crate::union::branch::branches::{BranchSlot, assign_modes};
use crate::union::branch::register::BranchRegister;
use crate::union::commands::Groups;
use crate::union::operations::revalidation::revalidate_all;
use crate::union::state::Union;
pub(crate) use commands::ViewDefinition;
pub(crate) use listing::PerViewListing;
pub(crate) use rule::ViewRule;

impl Union {
    /// Sets the mode of each branch.
    pub(crate) fn assign_modes(&self, slots: &mut [BranchSlot]) {
        assign_modes(slots);
        for slot in slots {
            if !self.is_own(&slot.member.base) {
                slot.mode = BranchMode::ReadOnly;
            }
        }
    }

    /// Replaces the branches, also in the views. No operation may be in progress.
    pub(crate) fn install(&self, groups: Groups, register: &BranchRegister) {
        let mut slots = groups.concat();
        self.assign_modes(&mut slots);
        self.replace_branches(slots, register);
        if self.view_state.is_none() {
            self.mount_state.views().iter().for_each(|view| view.union.adopt_branches(self, register));
        }
    }

    /// Takes over the branches of the mount's union.
    fn adopt_branches(&self, common: &Union, shared: &BranchRegister) {
        let Some(view_state) = &self.view_state else { return };
        let own = self.branches.slots().iter().filter(|slot| self.is_own(&slot.member.base)).cloned().collect();
        let slots = with_shared(own, &common.branches.slots());
        let mut register = shared.clone();
        let mut own = self.register.lock().unwrap_or_else(PoisonError::into_inner);
        register.import(&own, view_state.base.numbers.tag);
        *own = register.clone();
        drop(own);
        self.replace_branches(slots, &register);
    }

    fn replace_branches(&self, slots: Vec<BranchSlot>, register: &BranchRegister) {
        for slot in slots.iter().filter(|slot| self.is_own(&slot.member.base)) {
            slot.member.work.set_register(register.to_text());
        }
        self.branches.replace(slots, register);
        self.recent_directories.clear();
        // Directories have the identity of the oldest branch: if that is now another one, those in use have to be found by both
        // identities.
        let directories = self.directories();
        directories.iter().for_each(|directory| directory.invalidate_names());
        revalidate_all(directories);
    }
}

/// The branches of a view: its own, and below them, read-only, those of the mount's union.
fn with_shared(own: Vec<BranchSlot>, shared: &[BranchSlot]) -> Vec<BranchSlot> {
    own.into_iter().chain(shared.iter().map(|slot| BranchSlot::read_only(&slot.member))).collect()
}
