//! The hook mask of a layer, in one word: operations that it does not hook pass without a look at its collapsed
//! members.

use std::sync::atomic::{AtomicU64, Ordering};

use vnode::layer::Operation;

/// Hooks other than rules.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hook {
    /// Operations are logged.
    Trace = 59,
    /// Operations are refused.
    AccessCheck = 60,
    /// Names are encoded.
    NameFilter = 61,
    /// Data are encoded.
    DataFilter = 62,
    /// Lookup locations of objects are kept.
    LookupLocation = 63,
}

impl Hook {
    /// Returns the mask of this hook alone if `condition`, otherwise an empty mask.
    pub(crate) fn bit_if(self, condition: bool) -> u64 {
        u64::from(condition) << self as u64
    }
}

/// The hook mask: a bit for each operation that has rules, and for each other hook.
pub(crate) struct HookMask(AtomicU64);

impl HookMask {
    pub(crate) fn new(mask: u64) -> HookMask {
        HookMask(AtomicU64::new(mask))
    }

    /// Replaces the mask. The members with these hooks are already in place.
    pub(crate) fn set(&self, mask: u64) {
        self.0.store(mask, Ordering::Release);
    }

    pub(crate) fn contains(&self, hook: Hook) -> bool {
        self.0.load(Ordering::Acquire) >> hook as u64 & 1 != 0
    }

    /// Returns whether an operation other than a declared ioctl has rules to run, or is to be logged.
    pub(crate) fn intercepts(&self, operation: &Operation<'_>) -> bool {
        let mask = self.0.load(Ordering::Acquire);
        (mask >> operation.index() | mask >> Hook::Trace as u64) & 1 != 0
    }

    /// Returns whether an operation other than a declared ioctl has rules to run.
    pub(crate) fn has_rules(&self, operation: &Operation<'_>) -> bool {
        self.0.load(Ordering::Acquire) >> operation.index() & 1 != 0
    }
}

// The bits of operations are below those of the other hooks.
const _: () = assert!(Operation::NAMES.len() <= Hook::Trace as usize);
