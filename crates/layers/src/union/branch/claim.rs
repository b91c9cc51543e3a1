//! Claims: a branch that may be changed is changed by one union only, from when it may be until it may no longer be.
//!
//! The branch itself knows whether another union has claimed it ([`vnode::FileSystem::claim`]), for which nothing is written
//! there. Where it does not, and for unions of earlier versions, the lock in its state directory serves, once the branch has
//! been written.

use std::thread;
use std::time::{Duration, Instant};

use vnode::{Claim, Errno, Result};

use super::branches::{BranchBase, BranchSlot, UnusableBranch, UnusableReason};
use super::history::History;
use super::state_directory::LATER_VERSION;
use crate::is_only_described;
use crate::{Branch, BranchMode, Refusal};

/// Upper bound on how long a new union waits for one that is ending.
pub(crate) const CLAIM_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Claims a branch that is about to be added, before anything in it is read; `None` for a read-only one.
///
/// # Errors
/// [`Refusal::InUse`] if another union has claimed it, and keeps it for longer than `timeout`.
pub(crate) fn claim_branch(
    branch: &Branch,
    default: BranchMode,
    timeout: Duration,
) -> std::result::Result<Option<Claim>, UnusableBranch> {
    let mode = branch.mode.unwrap_or(default);
    if mode == BranchMode::ReadOnly || branch.file_system.properties().needs.read_only || is_only_described() {
        return Ok(None);
    }
    let claim = retry_while_busy(timeout, || branch.file_system.claim());
    claim.map(Some).map_err(|error| claim_error(&branch.label, error))
}

/// Claims of a new union's branches, in their order.
pub(crate) fn claim_branches(
    branches: &[Branch],
    timeout: Duration,
) -> std::result::Result<Vec<Option<Claim>>, UnusableBranch> {
    let default = |index| if index == 0 { BranchMode::ReadWrite } else { BranchMode::ReadOnly };
    branches.iter().enumerate().map(|(index, branch)| claim_branch(branch, default(index), timeout)).collect()
}

/// Stores the claim in the branch of these layers until [`BranchBase::release_claim`].
///
/// # Errors
/// [`Refusal::InUse`] if a union that the branch does not know of holds its lock for longer than `timeout`.
pub(crate) fn store(
    layers: &[BranchSlot],
    claim: Option<Claim>,
    timeout: Duration,
) -> std::result::Result<(), UnusableBranch> {
    let (Some(claim), base) = (claim, &layers[0].member.base) else { return Ok(()) };
    let is_locked = |slot: &BranchSlot| matches!(slot.member.work.lock(), Err(Errno::EBUSY));
    let probe = || if layers.iter().any(is_locked) { Err(Errno::EBUSY) } else { Ok(()) };
    retry_while_busy(timeout, probe).map_err(|error| claim_error(&base.label, error))?;
    base.set_claim(claim);
    Ok(())
}

/// Claims a branch that has been read-only; `None` if it is already claimed here.
///
/// # Errors
/// As [`claim_branch`].
pub(crate) fn claim_base(base: &BranchBase) -> std::result::Result<Option<Claim>, UnusableBranch> {
    if base.is_claimed() {
        return Ok(None);
    }
    let claim = retry_while_busy(CLAIM_TIMEOUT, || base.file_system.claim());
    claim.map(Some).map_err(|error| claim_error(&base.label, error))
}

/// Stores the claim in the formerly read-only branch of these layers, and rereads what others have written to it.
///
/// # Errors
/// As [`store`], and [`Refusal::OtherSnapshots`].
pub(crate) fn reclaim(layers: &[BranchSlot], claim: Claim) -> std::result::Result<(), UnusableBranch> {
    let base = &layers[0].member.base;
    let bad = |error| claim_error(&base.label, error);
    if History::of(&base.root).map_err(bad)? != *base.history() {
        return Err(UnusableBranch {
            label: base.label.clone(),
            reason: UnusableReason::Refused(Refusal::OtherSnapshots),
        });
    }
    layers.iter().try_for_each(|slot| slot.member.work.reread().map(drop)).map_err(bad)?;
    store(layers, Some(claim), Duration::ZERO)
}

fn claim_error(label: &str, error: Errno) -> UnusableBranch {
    let reason = match error {
        Errno::EBUSY => UnusableReason::Refused(Refusal::InUse),
        LATER_VERSION => UnusableReason::Refused(Refusal::LaterVersion),
        error => UnusableReason::Error(error),
    };
    UnusableBranch { label: label.to_owned(), reason }
}

/// Retries something until it does not return `EBUSY`, at most for the given time.
fn retry_while_busy<T>(timeout: Duration, attempt: impl Fn() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + timeout;
    loop {
        match attempt() {
            Err(Errno::EBUSY) if Instant::now() < deadline => thread::sleep(RETRY_INTERVAL),
            done => return done,
        }
    }
}
