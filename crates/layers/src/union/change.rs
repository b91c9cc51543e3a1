//! Changes of the set of branches while programs run (Unionfs, section 3.7): no operation is in progress meanwhile, and objects
//! are revalidated when they are next used. A change of the mount's union changes its views too.

use std::sync::{Arc, MutexGuard, PoisonError, RwLockWriteGuard};
use std::time::Duration;

use vnode::{AccessMode, Caller, ControlError, Errno, Notifier};

use super::branch::branches::{BranchMember, BranchSlot, assign_modes};
use super::branch::register::BranchRegister;
use super::control_arguments::refused;
use super::lookup::revalidation::revalidate_all;
use super::state::{Node, Union};
use crate::BranchMode;

/// Maximum number of blocking files that a message names.
const MAX_NAMED_FILES: usize = 3;

/// Upper bound on how long a change waits for operations in progress; the sender of the command waits a little longer.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(4);

type CommandResult = Result<String, ControlError>;

/// Layers grouped by branch, newest first.
pub(crate) type Groups = Vec<Vec<BranchSlot>>;

/// Exclusive access to the branches.
pub(crate) struct BranchChange<'a> {
    union: &'a Union,
    pub(crate) register: MutexGuard<'a, BranchRegister>,
    _guard: RwLockWriteGuard<'a, ()>,
}

impl Union {
    /// Changes the branches completely or not at all. Returns the list of branches.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut Groups, &mut BranchRegister) -> Result<(), ControlError>,
    ) -> CommandResult {
        self.change_within(CHANGE_TIMEOUT, change)
    }

    /// Like [`Union::change`], with another bound on the wait for operations in progress.
    pub(crate) fn change_within(
        &self,
        timeout: Duration,
        change: impl FnOnce(&mut Groups, &mut BranchRegister) -> Result<(), ControlError>,
    ) -> CommandResult {
        let mut branches = self.begin_change_within(timeout)?;
        let mut groups = branches.groups();
        let mut register = branches.register.clone();
        change(&mut groups, &mut register)?;
        let before = self.branches.slots().to_vec();
        *branches.register = register;
        branches.install(groups);
        self.release_lost_claims(&before);
        branches.finish();
        Ok(self.list_branches())
    }

    /// Waits for all operations in progress, and blocks new ones until the result is dropped.
    ///
    /// # Errors
    /// `Refused` if one does not end; nobody else waits for it meanwhile.
    pub(crate) fn begin_change(&self) -> Result<BranchChange<'_>, ControlError> {
        self.begin_change_within(CHANGE_TIMEOUT)
    }

    fn begin_change_within(&self, timeout: Duration) -> Result<BranchChange<'_>, ControlError> {
        let guard = self.mount_state.exclusive_guard(timeout).ok_or_else(|| {
            refused("an operation under way does not end, as where a branch does not answer; nothing was changed")
        })?;
        let register = self.register.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(BranchChange { union: self, register, _guard: guard })
    }

    /// Releases those of these branches that the union may no longer change.
    fn release_lost_claims(&self, before: &[BranchSlot]) {
        let now = self.branches.slots();
        for slot in before {
            let base = &slot.member.base;
            let is_there = now.iter().any(|other| Arc::ptr_eq(&other.member.base, base));
            if !is_there || base.mode() == BranchMode::ReadOnly {
                slot.member.work.close();
                base.release_claim();
            }
        }
    }

    /// Finds read-write branches that have become read-only underneath, and treats them as such from now on; returns whether
    /// there were any. No operation guard may be held.
    pub(crate) fn detect_read_only_branches(&self) -> bool {
        let is_read_only = |slot: &&BranchSlot| {
            let wanted = AccessMode::WRITE;
            slot.mode != BranchMode::ReadOnly && slot.member.root.access(&Caller::server(), wanted) == Err(Errno::EROFS)
        };
        let found: Vec<BranchSlot> = self.branches.slots().iter().filter(is_read_only).cloned().collect();
        if found.is_empty() {
            return false;
        }
        let changed = self.change(|_, _| {
            found.iter().for_each(|slot| slot.member.base.set_mode(BranchMode::ReadOnly));
            Ok(())
        });
        changed.is_ok()
    }

    /// Flushes what programs have written to the branches, including the front end's caches.
    pub(crate) fn flush_to_branches(&self) -> Result<(), ControlError> {
        match self.notifications.receivers().write_back() {
            true => Ok(()),
            false => Err(refused("what programs have written does not arrive in the branches; nothing was changed")),
        }
    }

    /// `Refused` if the kernel may be reading or writing files of the branch directly: it would not notice that they are
    /// copied, or must not be written.
    pub(crate) fn check_no_direct_files(&self, member: &Arc<BranchMember>) -> Result<(), ControlError> {
        let files = self.direct_files_in(member);
        if files.is_empty() {
            return Ok(());
        }
        let name = |node: &Arc<Node>| {
            let path = vnode::Vnode::path(&**node).unwrap_or_default();
            String::from_utf8_lossy(&path).into_owned()
        };
        let names: Vec<String> = files.iter().take(MAX_NAMED_FILES).map(name).collect();
        let more = if files.len() > MAX_NAMED_FILES { ", …" } else { "" };
        Err(refused(&format!("{} files of {} are open: {}{more}", files.len(), member.base.label, names.join(", "))))
    }

    /// Objects of a branch with files that the kernel may be reading and writing directly, once for each file.
    pub(crate) fn direct_files_in(&self, member: &Arc<BranchMember>) -> Vec<Arc<Node>> {
        self.direct_files.nodes().into_iter().filter(|node| Arc::ptr_eq(&node.leftmost().member, member)).collect()
    }

    /// Notifies the front end that everything that it caches may be outdated. No operation may be waiting for this thread.
    pub(crate) fn notify_everything_changed(&self) {
        self.notifications.receivers().everything_changed();
    }

    /// The branches, one a line, highest priority first, followed by the missing ones.
    pub(crate) fn list_branches(&self) -> String {
        let slots = self.branches.slots();
        let newest = slots.chunk_by(BranchSlot::is_same_branch).map(|group| &group[0]);
        let lines = newest.map(|slot| format!("{}={}", slot.member.base.label, slot.state()));
        lines.chain(self.missing_lines()).map(|line| line + "\n").collect()
    }

    /// The missing branches, one line each, for the list.
    pub(crate) fn missing_lines(&self) -> Vec<String> {
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.iter().map(|label| format!("{label}=missing")).collect()
    }

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
    fn install(&self, groups: Groups, register: &BranchRegister) {
        let mut slots = groups.concat();
        self.assign_modes(&mut slots);
        self.replace_branches(slots, register);
        if self.view_state.is_none() {
            self.mount_state.views().iter().for_each(|view| view.union.adopt_branches(self, register));
        }
    }

    /// Takes over the branches of the mount's union.
    pub(crate) fn adopt_branches(&self, common: &Union, shared: &BranchRegister) {
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

    pub(crate) fn replace_branches(&self, slots: Vec<BranchSlot>, register: &BranchRegister) {
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

impl BranchChange<'_> {
    /// The present branches.
    pub(crate) fn groups(&self) -> Groups {
        self.union.branches.slots().chunk_by(BranchSlot::is_same_branch).map(<[BranchSlot]>::to_vec).collect()
    }

    /// Replaces the branches.
    pub(crate) fn install(&self, groups: Groups) {
        self.union.install(groups, &self.register);
    }

    /// Allows operations again, and notifies the front end.
    pub(crate) fn finish(self) {
        // In branches that may be changed from now on.
        self.union.recover();
        let union = self.union;
        drop(self);
        union.notify_everything_changed();
    }
}

/// The branches of a view: its own, and below them, read-only, those of the mount's union.
pub(crate) fn with_shared(own: Vec<BranchSlot>, shared: &[BranchSlot]) -> Vec<BranchSlot> {
    own.into_iter().chain(shared.iter().map(|slot| BranchSlot::read_only(&slot.member))).collect()
}
