//! Claims: a branch that may be changed is changed by one union only, from when it may until it may not any more.
//!
//! The branch itself tells whether another has claimed it ([`vnode::FileSystem::claim`]), for which nothing is written there. Where
//! it cannot tell, and of unions of earlier versions, the lock in its state directory does, once it has been written.

use std::cell::Cell;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use vnode::{Claim, Errno, Result};

use super::Union;
use super::branches::{BadBranch, Base, Slot, WhyBad};
use super::history::History;
use crate::{Branch, BranchMode, Refusal};

/// How long a new union waits for one that is ending.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

thread_local! {
    static IS_ONLY_DESCRIBED: Cell<bool> = const { Cell::new(false) };
}

/// Makes stacks that are only to be described, on this thread: unions in them leave their branches as they are, and to whoever is
/// using them. Nothing is to be changed through them.
pub fn only_described<T>(make: impl FnOnce() -> T) -> T {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            IS_ONLY_DESCRIBED.set(self.0);
        }
    }
    let _reset = Reset(IS_ONLY_DESCRIBED.replace(true));
    make()
}

/// Whether what is made on this thread is only to be described.
pub(super) fn is_only_described() -> bool {
    IS_ONLY_DESCRIBED.get()
}

/// Claims a branch that is about to come, before anything is read in it; `None` for one that is only to be read.
///
/// # Errors
/// [`Refusal::InUse`] if another union has claimed it, and keeps it for longer than `patience`.
pub(super) fn of(
    branch: &Branch,
    default: BranchMode,
    patience: Duration,
) -> std::result::Result<Option<Claim>, BadBranch> {
    let mode = branch.mode.unwrap_or(default);
    if mode == BranchMode::ReadOnly || branch.file_system.properties().read_only || is_only_described() {
        return Ok(None);
    }
    let claim = patiently(patience, || branch.file_system.claim());
    claim.map(Some).map_err(|error| bad(&branch.label, error))
}

/// Those of the branches of a new union, in their order.
pub(super) fn of_all(branches: &[Branch], patience: Duration) -> std::result::Result<Vec<Option<Claim>>, BadBranch> {
    let default = |index| if index == 0 { BranchMode::ReadWrite } else { BranchMode::ReadOnly };
    branches.iter().enumerate().map(|(index, branch)| of(branch, default(index), patience)).collect()
}

/// Has the branch of these layers keep its claim until [`Base::let_go`].
///
/// # Errors
/// [`Refusal::InUse`] if a union that the branch does not know of has locked it, and keeps it so for longer than `patience`.
pub(super) fn hold(layers: &[Slot], claim: Option<Claim>, patience: Duration) -> std::result::Result<(), BadBranch> {
    let (Some(claim), base) = (claim, &layers[0].member.base) else { return Ok(()) };
    let is_locked = |slot: &Slot| matches!(slot.member.work.lock(), Err(Errno::EBUSY));
    let probe = || if layers.iter().any(is_locked) { Err(Errno::EBUSY) } else { Ok(()) };
    patiently(patience, probe).map_err(|error| bad(&base.label, error))?;
    base.hold(claim);
    Ok(())
}

/// Claims a branch that has been read only; `None` for one that is claimed here.
///
/// # Errors
/// As [`of`].
pub(super) fn of_base(base: &Base) -> std::result::Result<Option<Claim>, BadBranch> {
    if base.is_claimed() {
        return Ok(None);
    }
    let claim = patiently(PATIENCE, || base.file_system.claim());
    claim.map(Some).map_err(|error| bad(&base.label, error))
}

/// Has a branch that has been read only, whose layers these are, keep its claim, and learns what others have written to it.
///
/// # Errors
/// As [`hold`], and [`Refusal::OtherSnapshots`].
pub(super) fn again(layers: &[Slot], claim: Claim) -> std::result::Result<(), BadBranch> {
    let base = &layers[0].member.base;
    let bad = |error| bad(&base.label, error);
    if History::of(&base.root).map_err(bad)? != *base.history() {
        return Err(BadBranch { label: base.label.clone(), why: WhyBad::Refused(Refusal::OtherSnapshots) });
    }
    layers.iter().try_for_each(|slot| slot.member.work.look_again().map(drop)).map_err(bad)?;
    hold(layers, Some(claim), Duration::ZERO)
}

fn bad(label: &str, error: Errno) -> BadBranch {
    let why = match error {
        Errno::EBUSY => WhyBad::Refused(Refusal::InUse),
        error => WhyBad::Error(error),
    };
    BadBranch { label: label.to_owned(), why }
}

/// Attempts something until it does not answer `EBUSY`, or for so long.
fn patiently<T>(patience: Duration, attempt: impl Fn() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        match attempt() {
            Err(Errno::EBUSY) if Instant::now() < deadline => thread::sleep(PAUSE),
            done => return done,
        }
    }
}

impl Union {
    /// Has the branches, in their order, keep these claims.
    pub(super) fn hold(&self, claims: Vec<Option<Claim>>, patience: Duration) -> std::result::Result<(), BadBranch> {
        let slots = self.branches.slots();
        let branches = slots.chunk_by(Slot::is_beside);
        branches.zip(claims).try_for_each(|(layers, claim)| hold(layers, claim, patience))
    }

    /// Leaves those of these branches to others that it may not change any more.
    pub(super) fn let_go_of(&self, before: &[Slot]) {
        let now = self.branches.slots();
        for slot in before {
            let base = &slot.member.base;
            let is_there = now.iter().any(|other| Arc::ptr_eq(&other.member.base, base));
            if !is_there || base.mode() == BranchMode::ReadOnly {
                slot.member.work.close();
                base.let_go();
            }
        }
    }
}
