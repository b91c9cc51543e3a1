//! Changes of the branches while programs run (Unionfs, section 3.7): no operation is in progress meanwhile, and objects are
//! revalidated when they are next used.

use std::sync::{Arc, MutexGuard, PoisonError, RwLockWriteGuard};
use std::time::Duration;

use vnode::{AccessMode, Caller, Claim, Control, ControlError, Errno, KeptAccessTimes};

use super::branch::branches::{BranchBase, BranchMember, BranchSlot, UnusableBranch, UnusableReason, open_branch};
use super::branch::claim;
use super::branch::register::BranchRegister;
use super::file_system::ChangeForwarder;
use super::state::{Node, Union};
use crate::{BranchMode, Refusal};

/// Maximum number of blocking files that a message names.
const MAX_NAMED_FILES: usize = 3;

/// Upper bound on how long a change waits for operations in progress; the sender of the command waits a little longer.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(4);

type CommandResult = Result<String, ControlError>;

impl Union {
    /// Executes a command to the union.
    pub(crate) fn command(self: &Arc<Self>, control: &Control) -> CommandResult {
        let arguments = CommandArguments(control);
        if let Some(answer) = self.view_command(&arguments) {
            return answer;
        }
        match control.command.as_str() {
            "branches" => {
                self.check_all_branches();
                Ok(self.list_branches())
            }
            "add" => self.add_branch(arguments.required("branch")?, arguments.position()?),
            "remove" => self.remove_branch(arguments.required("branch")?),
            "mode" => self.set_mode(arguments.required("branch")?, arguments.mode()?),
            "move" => {
                let at = arguments.position()?.ok_or_else(|| missing_argument("at"))?;
                self.move_branch(arguments.required("branch")?, at)
            }
            _ => self.snapshot_command(control),
        }
    }

    /// Kinds of reading that leave access times unchanged.
    pub(crate) fn kept_access_times(&self) -> KeptAccessTimes {
        *self.kept_access_times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records missing branches.
    pub(crate) fn record_missing(&self, labels: Vec<String>) {
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = labels;
    }

    /// The missing branches, one line each, for the list.
    pub(crate) fn missing_lines(&self) -> Vec<String> {
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.iter().map(|label| format!("{label}=missing")).collect()
    }

    /// Forgets a missing branch; returns whether it was one.
    fn forget_missing(&self, which: &str) -> bool {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = missing.len();
        missing.retain(|label| label != which);
        missing.len() < before
    }

    /// The branches, one a line, highest priority first, followed by the missing ones.
    fn list_branches(&self) -> String {
        let slots = self.branches.slots();
        let newest = slots.chunk_by(BranchSlot::is_same_branch).map(|group| &group[0]);
        let lines = newest.map(|slot| format!("{}={}", slot.member.base.label, slot.state()));
        lines.chain(self.missing_lines()).map(|line| line + "\n").collect()
    }

    /// Adds a branch at a position, or as the last.
    fn add_branch(self: &Arc<Self>, text: &str, at: Option<usize>) -> CommandResult {
        let opener = self.opener.as_ref().ok_or_else(|| refused("this union cannot open branches"))?;
        let branch = opener(text).map_err(ControlError::BadArgument)?;
        let claim = claim::claim_branch(&branch, BranchMode::ReadOnly, claim::CLAIM_TIMEOUT)
            .map_err(|bad| cannot_be_used(&bad))?;
        self.change(|groups, register| {
            if groups.iter().any(|group| group[0].member.base.label == branch.label) {
                return Err(refused(&format!("{} is a branch already", branch.label)));
            }
            if self.mount_state.views().iter().any(|view| view.label() == branch.label) {
                return Err(refused(&format!("{} is the private branch of a view", branch.label)));
            }
            let at = at.unwrap_or(groups.len());
            if at > groups.len() {
                return Err(bad_position(groups));
            }
            if let Some(notifier) = &*self.notifier.lock().unwrap_or_else(PoisonError::into_inner) {
                branch.file_system.set_notifier(Arc::new(ChangeForwarder(Arc::clone(notifier))));
            }
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
    fn remove_branch(&self, which: &str) -> CommandResult {
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
    fn set_mode(self: &Arc<Self>, which: &str, mode: BranchMode) -> CommandResult {
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

    /// Claims a branch that has been read-only, while operations continue.
    fn claim_branch(&self, which: &str) -> Result<Option<(Arc<BranchBase>, Claim)>, ControlError> {
        let groups: Groups =
            self.branches.slots().chunk_by(BranchSlot::is_same_branch).map(<[BranchSlot]>::to_vec).collect();
        let base = Arc::clone(&groups[find_group(&groups, which)?][0].member.base);
        let claim = claim::claim_base(&base).map_err(|bad| cannot_be_used(&bad))?;
        Ok(claim.map(|claim| (base, claim)))
    }

    /// Moves a branch to another position.
    fn move_branch(&self, which: &str, at: usize) -> CommandResult {
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
        let notifier = self.notifier.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match notifier.is_none_or(|notifier| notifier.write_back()) {
            true => Ok(()),
            false => Err(refused("what programs have written does not arrive in the branches; nothing was changed")),
        }
    }

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

    /// Objects of a branch with open files that the kernel may be reading and writing directly, once for each file.
    pub(crate) fn direct_files_in(&self, member: &Arc<BranchMember>) -> Vec<Arc<Node>> {
        let files: Vec<Arc<Node>> = self.direct_files().values().filter_map(std::sync::Weak::upgrade).collect();
        files.into_iter().filter(|node| Arc::ptr_eq(&node.leftmost().member, member)).collect()
    }
}

/// Layers grouped by branch, newest first.
pub(crate) type Groups = Vec<Vec<BranchSlot>>;

/// Exclusive access to the branches.
pub(crate) struct BranchChange<'a> {
    union: &'a Union,
    pub(crate) register: MutexGuard<'a, BranchRegister>,
    _guard: RwLockWriteGuard<'a, ()>,
}

impl Union {
    /// Notifies the front end that everything that it caches may be outdated. No operation may be waiting for this thread.
    pub(crate) fn notify_everything_changed(&self) {
        let notifier = self.notifier.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(notifier) = notifier {
            notifier.everything_changed();
        }
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

/// Arguments of a command.
pub(crate) struct CommandArguments<'a>(pub(crate) &'a Control);

impl CommandArguments<'_> {
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.arguments.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    pub(crate) fn required(&self, key: &str) -> Result<&str, ControlError> {
        self.get(key).ok_or_else(|| missing_argument(key))
    }

    fn position(&self) -> Result<Option<usize>, ControlError> {
        let parse = |text: &str| text.parse().map_err(|_| ControlError::BadArgument(format!("at={text} is no place")));
        self.get("at").map(parse).transpose()
    }

    fn mode(&self) -> Result<BranchMode, ControlError> {
        let text = self.required("mode")?;
        let modes = [BranchMode::ReadWrite, BranchMode::ReadOnly, BranchMode::NoCreate];
        let found = modes.into_iter().find(|mode| mode.to_string() == text);
        found.ok_or_else(|| ControlError::BadArgument(format!("mode={text}: a branch is rw, ro or nc")))
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

fn missing_argument(key: &str) -> ControlError {
    ControlError::BadArgument(format!("{key}= is missing"))
}

/// Error for an unusable branch.
pub(crate) fn cannot_be_used(UnusableBranch { label, reason }: &UnusableBranch) -> ControlError {
    let remedy = match reason {
        UnusableReason::Refused(Refusal::InUse) => "; unmount the other, or use it here as `ro`",
        UnusableReason::Refused(Refusal::OtherSnapshots) => "; remove it and add it again",
        _ => "",
    };
    refused(&format!("{label} cannot be used: {reason}{remedy}"))
}

pub(crate) fn refused(reason: &str) -> ControlError {
    ControlError::Refused(reason.to_owned())
}
