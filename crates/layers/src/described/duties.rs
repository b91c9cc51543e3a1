//! What a layer has to do at all, in one word: operations that are no concern of it pass without looking at its levels.

use std::sync::atomic::{AtomicU64, Ordering};

use vnode::layer::Operation;

/// What there may be to do besides rules.
#[derive(Clone, Copy, Debug)]
pub(super) enum Duty {
    /// Operations are logged.
    Traces = 59,
    /// Operations are refused.
    Admission = 60,
    /// Names are encoded.
    Names = 61,
    /// Data are encoded.
    Data = 62,
    /// Where objects were looked up is kept.
    Places = 63,
}

impl Duty {
    /// The duty alone, if there is one.
    pub(super) fn of(self, is_one: bool) -> u64 {
        u64::from(is_one) << self as u64
    }
}

/// A bit for each operation that there are rules for, and for each other duty.
pub(super) struct Duties(AtomicU64);

impl Duties {
    pub(super) fn new(all: u64) -> Duties {
        Duties(AtomicU64::new(all))
    }

    /// From now on there are these. The levels that have them are there already.
    pub(super) fn set(&self, all: u64) {
        self.0.store(all, Ordering::Release);
    }

    pub(super) fn have(&self, duty: Duty) -> bool {
        self.0.load(Ordering::Acquire) >> duty as u64 & 1 != 0
    }

    /// Whether rules are to run at an operation that is no declared ioctl, or it is to be logged.
    pub(super) fn concern(&self, operation: &Operation<'_>) -> bool {
        let all = self.0.load(Ordering::Acquire);
        (all >> operation.index() | all >> Duty::Traces as u64) & 1 != 0
    }

    /// Whether anything is to be done at an operation that is no declared ioctl.
    pub(super) fn have_rules(&self, operation: &Operation<'_>) -> bool {
        self.0.load(Ordering::Acquire) >> operation.index() & 1 != 0
    }
}

// The operations have their bits below those of the other duties.
const _: () = assert!(Operation::NAMES.len() <= Duty::Traces as usize);
