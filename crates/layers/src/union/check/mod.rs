//! Finds and repairs problems in the branches of a union: unfinished work, marks that contradict each other or lead nowhere,
//! and records that nothing needs.
//!
//! Only branches that may be changed are checked, with all layers into which snapshots have divided them; the others are
//! consulted where those refer to them. A repair changes nothing that users see. Nor does it change any snapshot: each shows a
//! layer together with everything below it, and that is what a repair is judged by.

mod problem;
mod state;
mod tree;

use std::fmt;
use std::sync::Arc;

use vnode::{Errno, OpenFileRef, Result};

use super::branch::branches::{BranchMember, BranchSlot, UnusableBranch, UnusableReason};
use super::branch::claim;
use super::branch::state_directory::{self, LATER_VERSION};
use super::branch::whiteout::STATE_DIRECTORY;
use super::file_system::UnionFileSystem;
use super::settings::UnionSettings;
use super::state::Union;
use crate::{Branch, BranchMode, OptionProblem, Refusal};
pub use problem::Problem;

/// Actions of a check besides finding problems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Repair the findings.
    pub repair: bool,
    /// Report also harmless leftovers: whiteouts that hide nothing, and identities of files whose originals are gone.
    pub idle: bool,
    /// Report also what copies lack because the branch could not preserve it.
    pub losses: bool,
}

/// A problem found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Stack expression of the branch.
    pub branch: String,
    /// Path in the branch, from its root.
    pub path: Vec<u8>,
    /// The problem.
    pub problem: Problem,
    /// Result of its repair; `None` if none was requested.
    pub repair: Option<Result<()>>,
}

/// Reason why branches could not be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckError {
    /// A union is writing to this branch.
    InUse(String),
    /// Reading this branch failed.
    Branch(String, Errno),
    /// The use of this branch was refused.
    Refused(String, Refusal),
}

impl CheckError {
    fn of(UnusableBranch { label, reason }: UnusableBranch) -> Self {
        match reason {
            UnusableReason::Refused(Refusal::InUse) => Self::InUse(label),
            UnusableReason::Refused(reason) => Self::Refused(label, reason),
            UnusableReason::Error(error) => Self::Branch(label, error),
        }
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(label) => write!(formatter, "a mount is using the branch {label}; unmount it first"),
            Self::Branch(label, errno) => write!(formatter, "cannot read the branch {label}: {errno}"),
            Self::Refused(label, reason) => write!(formatter, "cannot check the branch {label}: {reason}"),
        }
    }
}

impl std::error::Error for CheckError {}

/// Checks the branches of a union, highest priority first, and reports each finding as it is made.
///
/// # Errors
/// If a branch is in use or cannot be read.
///
/// # Panics
/// If there are no branches.
pub fn check(
    branches: Vec<Branch>,
    options: &CheckOptions,
    report: &mut dyn FnMut(Finding),
) -> std::result::Result<(), CheckError> {
    let claims = claim::claim_branches(&branches, claim::CLAIM_TIMEOUT).map_err(CheckError::of)?;
    let union =
        UnionFileSystem::assemble(branches, None, UnionSettings::default()).map_err(|bad| match bad.problem {
            OptionProblem::Branch { error } => CheckError::Branch(bad.key, error),
            OptionProblem::RefusedBranch(reason) => CheckError::Refused(bad.key, reason),
            _ => CheckError::Branch(bad.key, Errno::EIO),
        })?;
    union.store_claims(claims, claim::CLAIM_TIMEOUT).map_err(CheckError::of)?;
    // Includes the frozen layers of those that may be changed, and those that must not change because higher ones depend on
    // them.
    let changeable = || -> Vec<BranchSlot> {
        union.branches.slots().iter().filter(|slot| slot.member.base.mode() != BranchMode::ReadOnly).cloned().collect()
    };
    let slots = changeable();
    let failed = |slot: &BranchSlot, errno| match errno {
        Errno::EBUSY => CheckError::InUse(slot.member.base.label.clone()),
        LATER_VERSION => CheckError::Refused(slot.member.base.label.clone(), Refusal::LaterVersion),
        errno => CheckError::Branch(slot.member.base.label.clone(), errno),
    };
    // Prevents others from beginning to write meanwhile.
    let lock = |slot: &BranchSlot| slot.member.work.lock().map_err(|errno| failed(slot, errno));
    let locks = slots.iter().map(lock).collect::<std::result::Result<Vec<BranchLock>, _>>()?;
    if options.repair {
        // From here on the union itself holds the locks.
        drop(locks);
    }
    // All unfinished work is finished before anything else is judged.
    for slot in &slots {
        let mut check = BranchCheck::of(&union, &slot.member, *options, &mut *report);
        check.check_work().map_err(|errno| failed(slot, errno))?;
    }
    let mut half_merged = false;
    for slot in &slots {
        let mut check = BranchCheck::of(&union, &slot.member, *options, &mut *report);
        half_merged |= check.check_merge();
    }
    if half_merged {
        // The state between two layers is neither right nor wrong.
        return Ok(());
    }
    for slot in &changeable() {
        let mut check = BranchCheck::of(&union, &slot.member, *options, &mut *report);
        check.check_tree().and_then(|()| check.check_state()).map_err(|errno| failed(slot, errno))?;
    }
    Ok(())
}

/// The check of one branch.
struct BranchCheck<'a> {
    union: &'a Arc<Union>,
    member: &'a Arc<BranchMember>,
    options: CheckOptions,
    /// Whether metadata-only copies have been found.
    has_metacopies: bool,
    report: &'a mut dyn FnMut(Finding),
}

/// Lock that prevents other unions from writing to a branch.
type BranchLock = Option<OpenFileRef>;

impl<'a> BranchCheck<'a> {
    fn of(
        union: &'a Arc<Union>,
        member: &'a Arc<BranchMember>,
        options: CheckOptions,
        report: &'a mut dyn FnMut(Finding),
    ) -> Self {
        Self { union, member, options, has_metacopies: false, report }
    }

    /// Reports a problem, and repairs it if requested.
    fn report_problem(&mut self, path: Vec<u8>, problem: Problem, repair: impl FnOnce() -> Result<()>) {
        let repair = self.options.repair.then(repair);
        self.report_finding(path, problem, repair);
    }

    /// Reports a problem that is repaired only in a layer that is not frozen.
    fn report_in_newest(&mut self, path: Vec<u8>, problem: Problem, repair: impl FnOnce() -> Result<()>) {
        let is_frozen = self.is_frozen();
        self.report_problem(path, problem, || if is_frozen { Err(Errno::EROFS) } else { repair() });
    }

    /// Returns whether this layer belongs to a snapshot, or must not change because higher ones depend on it.
    fn is_frozen(&self) -> bool {
        !self.union.branches.may_change(self.member)
    }

    fn report_finding(&mut self, path: Vec<u8>, problem: Problem, repair: Option<Result<()>>) {
        let path = match self.member.layer {
            0 => path,
            layer => below(
                &[STATE_DIRECTORY, b"/", state_directory::LAYERS, b"/", layer.to_string().as_bytes()].concat(),
                &path,
            ),
        };
        (self.report)(Finding { branch: self.member.base.label.clone(), path, problem, repair });
    }
}

/// Path of an entry of a directory.
fn below(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}
