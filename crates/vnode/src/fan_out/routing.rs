//! Routing: which branches an operation goes to.

use super::health::BranchHealth;
use crate::Errno;

/// Branches in which changes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Only that of the primary branch object; layers above change the others.
    InPrimary,
    /// All branches that are healthy. A branch that refuses a change which another has made has
    /// [failed](Routing::branch_failed): it no longer has what the others have.
    InAll,
}

/// Decides where the operations on a fan-out go. The defaults send everything to the primary branch object.
pub trait Routing: Send + Sync + 'static {
    /// Returns the branches in which changes are made. Must always return the same value.
    fn changes(&self) -> Changes {
        Changes::InPrimary
    }

    /// Returns the branch that an operation which changes nothing goes to first, one of `candidates`: the healthy branches
    /// that have the object, never empty. If it then fails as broken storage does, the others are tried. Only called if changes
    /// are made in all. Default: the first.
    fn reads_from(&self, candidates: &[usize], health: &BranchHealth) -> usize {
        let _ = health;
        candidates[0]
    }

    /// Reports that a branch is failing: it refused a change with this error that another branch has made, and nothing is read
    /// from it or changed in it from now on. Nobody is told that the change is made before this returns, and the last healthy
    /// branch never fails. Default: does nothing.
    fn branch_failed(&self, branch: usize, error: Errno, health: &BranchHealth) {
        let _ = (branch, error, health);
    }
}

/// The routing of a layer that decides by itself: everything goes to the primary branch object.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrimaryOnly;

impl Routing for PrimaryOnly {}
