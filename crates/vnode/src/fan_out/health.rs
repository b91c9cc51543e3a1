//! Health of the branches: which have failed, and how long each takes to answer.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Errno, Latency};

/// Health of the branches of a fan-out.
#[derive(Debug)]
pub struct BranchHealth(Vec<Branch>);

#[derive(Debug, Default)]
struct Branch {
    has_failed: AtomicBool,
    latency: Latency,
}

impl BranchHealth {
    pub(crate) fn new(branches: usize) -> Self {
        Self((0..branches).map(|_| Branch::default()).collect())
    }

    /// Returns whether a branch has failed, and is used no more.
    pub fn has_failed(&self, branch: usize) -> bool {
        self.0[branch].has_failed.load(Ordering::Acquire)
    }

    /// Returns the branches that have not failed.
    pub fn healthy(&self) -> impl Iterator<Item = usize> {
        (0..self.0.len()).filter(|branch| !self.has_failed(*branch))
    }

    /// Returns the average [latency](Latency) of recent operations on a branch, in microseconds; 0 if none has been measured.
    pub fn latency(&self, branch: usize) -> u32 {
        self.0[branch].latency.micros()
    }

    /// Runs an operation on a branch, and records its latency.
    pub(crate) fn measure<T>(&self, branch: usize, operation: impl FnOnce() -> T) -> T {
        self.0[branch].latency.measure(operation)
    }

    /// Records that a branch has failed.
    pub(crate) fn fail(&self, branch: usize) {
        self.0[branch].has_failed.store(true, Ordering::Release);
    }
}

/// Returns whether an error is that of broken storage or a lost server, rather than of the object or the caller.
pub(crate) fn is_of_storage(error: Errno) -> bool {
    const OF_STORAGE: &[i32] = &[
        libc::EIO,
        libc::ESTALE,
        libc::ENODEV,
        libc::ENXIO,
        libc::ETIMEDOUT,
        libc::ENOTCONN,
        libc::ECONNABORTED,
        libc::ECONNREFUSED,
        libc::EHOSTDOWN,
        libc::EHOSTUNREACH,
        libc::EUCLEAN,
        libc::EBADMSG,
    ];
    OF_STORAGE.iter().any(|number| error == Errno::new(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_branch_is_not_healthy() {
        let health = BranchHealth::new(3);
        health.fail(1);
        assert_eq!(health.healthy().collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn each_branch_has_a_latency_of_its_own() {
        let health = BranchHealth::new(2);
        health.measure(1, || std::thread::sleep(std::time::Duration::from_millis(1)));
        assert_eq!((health.latency(0), health.latency(1) > 0), (0, true));
    }
}
