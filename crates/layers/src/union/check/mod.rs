//! Finds what is wrong in the branches of a union, and repairs it: what was left half-way, marks that contradict each
//! other or lead nowhere, and records that nothing needs.
//!
//! Only branches that may be changed are looked through, with all layers that snapshots have made of them; the others are
//! looked at where those refer to them. Nothing that users see changes by a repair. Nor does any snapshot: each shows a
//! layer together with all that is on the right of it, and that is what a repair is judged by.

mod problem;
mod state;
mod tree;

use std::fmt;
use std::sync::Arc;

use vnode::{Errno, OpenFileRef, Result};

use super::branches::{BadBranch, Member, Slot, WhyBad};
use super::claim;
use super::settings::Settings;
use super::whiteout::STATE;
use super::work::Work;
use super::{Union, UnionFileSystem};
use crate::{Branch, BranchMode, OptionProblem, Refusal};
pub use problem::Problem;

/// What a check does beside finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Repair what is found.
    pub repair: bool,
    /// Find also what is in nobody's way: whiteouts that hide nothing, and identities of files whose originals are gone.
    pub idle: bool,
    /// Find also what copies are without because the branch could not keep it.
    pub losses: bool,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The branch: its stack expression.
    pub branch: String,
    /// Where in the branch, from its root.
    pub path: Vec<u8>,
    /// What.
    pub problem: Problem,
    /// What came of its repair; `None` if that was not asked for.
    pub repair: Option<Result<()>>,
}

/// Why branches could not be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckError {
    /// A union is writing to this branch.
    InUse(String),
    /// This branch cannot be read.
    Branch(String, Errno),
    /// This branch is refused.
    Refused(String, Refusal),
}

impl CheckError {
    fn of(BadBranch { label, why }: BadBranch) -> Self {
        match why {
            WhyBad::Refused(Refusal::InUse) => Self::InUse(label),
            WhyBad::Refused(why) => Self::Refused(label, why),
            WhyBad::Error(error) => Self::Branch(label, error),
        }
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(label) => write!(formatter, "a mount is using the branch {label}; unmount it first"),
            Self::Branch(label, errno) => write!(formatter, "cannot read the branch {label}: {errno}"),
            Self::Refused(label, why) => write!(formatter, "cannot check the branch {label}: {why}"),
        }
    }
}

impl std::error::Error for CheckError {}

/// Looks through the branches of a union, the one of highest priority first, and tells of each finding as it is made.
///
/// # Errors
/// If a branch is in use or cannot be read.
///
/// # Panics
/// If there is no branch.
pub fn check(
    branches: Vec<Branch>,
    options: &CheckOptions,
    report: &mut dyn FnMut(Finding),
) -> std::result::Result<(), CheckError> {
    let claims = claim::of_all(&branches, claim::PATIENCE).map_err(CheckError::of)?;
    let union = UnionFileSystem::assemble(branches, None, Settings::default()).map_err(|bad| match bad.problem {
        OptionProblem::Branch { error } => CheckError::Branch(bad.key, error),
        OptionProblem::RefusedBranch(why) => CheckError::Refused(bad.key, why),
        _ => CheckError::Branch(bad.key, Errno::EIO),
    })?;
    union.hold(claims, claim::PATIENCE).map_err(CheckError::of)?;
    // With the frozen layers of those that may be changed, and those that are kept as they are for what is on their left.
    let changeable = || -> Vec<Slot> {
        union.branches.slots().iter().filter(|slot| slot.member.base.mode() != BranchMode::ReadOnly).cloned().collect()
    };
    let slots = changeable();
    let failed = |slot: &Slot, errno| match errno {
        Errno::EBUSY => CheckError::InUse(slot.member.base.label.clone()),
        errno => CheckError::Branch(slot.member.base.label.clone(), errno),
    };
    // Nobody else begins to write meanwhile.
    let lock = |slot: &Slot| slot.member.work.lock().map_err(|errno| failed(slot, errno));
    let locks = slots.iter().map(lock).collect::<std::result::Result<Vec<BranchLock>, _>>()?;
    if options.repair {
        // From here on the union itself holds them.
        drop(locks);
    }
    // All that was not finished is, before anything else is judged.
    for slot in &slots {
        let mut check = Check::of(&union, &slot.member, *options, &mut *report);
        check.work().map_err(|errno| failed(slot, errno))?;
    }
    let mut half_merged = false;
    for slot in &slots {
        let mut check = Check::of(&union, &slot.member, *options, &mut *report);
        half_merged |= check.merge();
    }
    if half_merged {
        // What is between two layers is neither right nor wrong.
        return Ok(());
    }
    for slot in &changeable() {
        let mut check = Check::of(&union, &slot.member, *options, &mut *report);
        check.tree().and_then(|()| check.state()).map_err(|errno| failed(slot, errno))?;
    }
    Ok(())
}

/// The check of one branch.
struct Check<'a> {
    union: &'a Arc<Union>,
    member: &'a Arc<Member>,
    options: CheckOptions,
    /// Metadata-only copies have been found.
    has_metacopies: bool,
    report: &'a mut dyn FnMut(Finding),
}

/// Keeps other unions from writing to a branch.
type BranchLock = Option<OpenFileRef>;

impl<'a> Check<'a> {
    fn of(
        union: &'a Arc<Union>,
        member: &'a Arc<Member>,
        options: CheckOptions,
        report: &'a mut dyn FnMut(Finding),
    ) -> Self {
        Self { union, member, options, has_metacopies: false, report }
    }

    /// Tells of something, and repairs it if asked to.
    fn found(&mut self, path: Vec<u8>, problem: Problem, repair: impl FnOnce() -> Result<()>) {
        let repair = self.options.repair.then(repair);
        self.tell(path, problem, repair);
    }

    /// The same of something that a frozen layer keeps as it is.
    fn found_in_newest(&mut self, path: Vec<u8>, problem: Problem, repair: impl FnOnce() -> Result<()>) {
        let is_frozen = self.is_frozen();
        self.found(path, problem, || if is_frozen { Err(Errno::EROFS) } else { repair() });
    }

    /// Whether this is a layer that a snapshot keeps, or is kept for what is on its left.
    fn is_frozen(&self) -> bool {
        !self.union.branches.may_change(self.member)
    }

    fn tell(&mut self, path: Vec<u8>, problem: Problem, repair: Option<Result<()>>) {
        let path = match self.member.layer {
            0 => path,
            layer => below(&[STATE, b"/", Work::LAYERS, b"/", layer.to_string().as_bytes()].concat(), &path),
        };
        (self.report)(Finding { branch: self.member.base.label.clone(), path, problem, repair });
    }
}

/// The path of something in a directory.
fn below(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}
