//! The hook mask of a layer, in one word: operations that it does not hook pass without a look at its collapsed
//! members.

use std::sync::atomic::{AtomicU64, Ordering};

use vnode::layer::Operation;

/// Hooks other than rules.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Duty {
    /// Operations are logged.
    Traces = 59,
    /// Operations are refused.
    Admission = 60,
    /// Names are encoded.
    Names = 61,
    /// Data are encoded.
    Data = 62,
    /// Lookup locations of objects are kept.
    Places = 63,
}

impl Duty {
    /// Returns the mask of this hook alone if `is_one`, otherwise an empty mask.
    pub(crate) fn of(self, is_one: bool) -> u64 {
        u64::from(is_one) << self as u64
    }
}

/// The hook mask: a bit for each operation that has rules, and for each other hook.
pub(crate) struct Duties(AtomicU64);

impl Duties {
    pub(crate) fn new(all: u64) -> Duties {
        Duties(AtomicU64::new(all))
    }

    /// Replaces the mask. The members with these hooks are already in place.
    pub(crate) fn set(&self, all: u64) {
        self.0.store(all, Ordering::Release);
    }

    pub(crate) fn have(&self, duty: Duty) -> bool {
        self.0.load(Ordering::Acquire) >> duty as u64 & 1 != 0
    }

    /// Returns whether an operation other than a declared ioctl has rules to run, or is to be logged.
    pub(crate) fn concern(&self, operation: &Operation<'_>) -> bool {
        let all = self.0.load(Ordering::Acquire);
        (all >> operation.index() | all >> Duty::Traces as u64) & 1 != 0
    }

    /// Returns whether an operation other than a declared ioctl has rules to run.
    pub(crate) fn have_rules(&self, operation: &Operation<'_>) -> bool {
        self.0.load(Ordering::Acquire) >> operation.index() & 1 != 0
    }
}

// The bits of operations are below those of the other hooks.
const _: () = assert!(Operation::NAMES.len() <= Duty::Traces as usize);
