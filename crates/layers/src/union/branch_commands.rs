//! Commands on single branches of a running union (Unionfs, section 3.7): no operation is in progress meanwhile, and objects are
//! revalidated when they are next used.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use vnode::{Claim, ControlError, KeptAccessTimes};

use super::branch::branches::{BranchBase, BranchMember, BranchSlot, open_branch};
use super::branch::claim;
use super::change::Groups;
use super::control_arguments::{cannot_be_used, refused};
use super::state::Union;
use crate::BranchMode;

type CommandResult = Result<String, ControlError>;

impl Union {
    /// Kinds of reading that leave access times unchanged.
    pub(crate) fn kept_access_times(&self) -> KeptAccessTimes {
        *self.kept_access_times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records missing branches.
    pub(crate) fn record_missing(&self, labels: Vec<String>) {
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = labels;
    }

    /// Forgets a missing branch; returns whether it was one.
    pub(crate) fn forget_missing(&self, which: &str) -> bool {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = missing.len();
        missing.retain(|label| label != which);
        missing.len() < before
    }

    /// Adds a branch at a position, or as the last.
    pub(crate) fn add_branch(self: &Arc<Self>, text: &str, at: Option<usize>) -> CommandResult {
        let opener = self.opener.as_ref().ok_or_else(|| refused("this union cannot open branches"))?;
        let branch = opener.open(text).map_err(ControlError::BadArgument)?;
        let claim = claim::claim_branch(&branch, BranchMode::ReadOnly, claim::CLAIM_TIMEOUT)
            .map_err(|bad| cannot_be_used(&bad))?;
        self.change(|groups, register| {
            if groups.iter().any(|group| group[0].member.base.label == branch.label) {
                return Err(refused(&format!("{} is a branch already", branch.label)));
            }
            if self.mount_state.views().iter().any(|view| view.label() == branch.label) {
                return Err(refused(&format!("{} is the private branch of a view", branch.label)));
            }
            let needs_polls = |base: &vnode::FileSystemRef| base.properties().needs.every_poll;
            if needs_polls(&branch.file_system)
                && !groups.iter().flatten().any(|slot| needs_polls(&slot.member.base.file_system))
            {
                return Err(refused(&format!(
                    "{} has rules for polling files, of which the kernel does not tell now; mount the union with it",
                    branch.label
                )));
            }
            let at = at.unwrap_or(groups.len());
            if at > groups.len() {
                return Err(bad_position(groups));
            }
            self.notifications.forward_from(&*branch.file_system);
            if let Some(directory) = self.mount_point.get() {
                branch.file_system.set_mount_point(std::os::fd::AsFd::as_fd(directory));
            }
            branch.file_system.keep_access_times(self.kept_access_times());
            let label = branch.label.clone();
            let added = open_branch(branch, BranchMode::ReadOnly, register).map_err(|bad| cannot_be_used(&bad))?;
            claim::store(&added, claim, Duration::ZERO).map_err(|bad| cannot_be_used(&bad))?;
            groups.insert(at, added);
            self.forget_missing(&label);
            Ok(())
        })?;
        self.finish_merges().map(|()| self.list_branches())
    }

    /// Removes a branch. Files that are open in it stay open.
    pub(crate) fn remove_branch(&self, which: &str) -> CommandResult {
        if self.forget_missing(which) {
            return Ok(self.list_branches());
        }
        self.change(|groups, register| {
            let position = find_group(groups, which)?;
            if groups.len() == 1 {
                return Err(refused("the last branch of a union cannot be removed"));
            }
            register.release(groups.remove(position)[0].member.base.numbers.tag);
            Ok(())
        })
    }

    /// Changes the mode of a branch.
    pub(crate) fn set_mode(self: &Arc<Self>, which: &str, mode: BranchMode) -> CommandResult {
        let claim = match mode {
            BranchMode::ReadOnly => self.flush_to_branches().map(|()| None)?,
            _ => self.claim_branch(which)?,
        };
        self.change(|groups, _| {
            let at = find_group(groups, which)?;
            let newest = &groups[at][0].member;
            if mode != BranchMode::ReadOnly && newest.base.file_system.properties().needs.read_only {
                return Err(refused(&format!("{} can only be read", newest.base.label)));
            }
            if mode == BranchMode::ReadOnly {
                self.check_no_direct_files(newest)?;
            } else if let Some(left) = groups[..at].iter().flatten().find(|slot| slot.member.work.has_metacopies()) {
                let (left, label) = (&left.member.base.label, &newest.base.label);
                return Err(refused(&format!("{label} has data of files in {left} (metacopy)")));
            }
            match claim {
                Some((base, claim)) if Arc::ptr_eq(&base, &newest.base) => {
                    claim::reclaim(&groups[at], claim).map_err(|bad| cannot_be_used(&bad))?;
                }
                None if mode == BranchMode::ReadOnly || newest.base.is_claimed() => {}
                _ => return Err(refused("the branches have changed meanwhile; nothing was changed")),
            }
            newest.base.set_mode(mode);
            newest.base.check_pending_merge();
            Ok(())
        })?;
        self.finish_merges().map(|()| self.list_branches())
    }

    /// The newest layer of a branch, which is named by its stack expression or its number.
    pub(crate) fn branch_named(&self, which: &str) -> Result<Arc<BranchMember>, ControlError> {
        let groups: Groups =
            self.branches.slots().chunk_by(BranchSlot::is_same_branch).map(<[BranchSlot]>::to_vec).collect();
        Ok(Arc::clone(&groups[find_group(&groups, which)?][0].member))
    }

    /// Claims a branch that has been read-only, while operations continue.
    fn claim_branch(&self, which: &str) -> Result<Option<(Arc<BranchBase>, Claim)>, ControlError> {
        let base = Arc::clone(&self.branch_named(which)?.base);
        let claim = claim::claim_base(&base).map_err(|bad| cannot_be_used(&bad))?;
        Ok(claim.map(|claim| (base, claim)))
    }

    /// Moves a branch to another position.
    pub(crate) fn move_branch(&self, which: &str, at: usize) -> CommandResult {
        self.change(|groups, _| {
            let position = find_group(groups, which)?;
            if at >= groups.len() {
                return Err(bad_position(groups));
            }
            let group = groups.remove(position);
            groups.insert(at, group);
            Ok(())
        })
    }
}

/// Position of the branch that is named by its stack expression or its number from 0.
fn find_group(groups: &[Vec<BranchSlot>], which: &str) -> Result<usize, ControlError> {
    let by_label = groups.iter().position(|group| group[0].member.base.label == which);
    let by_number = || which.parse().ok().filter(|number| *number < groups.len());
    by_label.or_else(by_number).ok_or_else(|| {
        let known: Vec<&str> = groups.iter().map(|group| group[0].member.base.label.as_str()).collect();
        ControlError::BadArgument(format!("there is no branch {which}; there are {}", known.join(", ")))
    })
}

fn bad_position(groups: &[Vec<BranchSlot>]) -> ControlError {
    ControlError::BadArgument(format!("there are {} branches, counted from 0", groups.len()))
}
