//! Counters: requests by operation.

use super::wire::Opcode;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many requests of one operation were served since the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationCount {
    /// The operation, as Linux names it: `LOOKUP`, `READ`.
    pub operation: &'static str,
    /// Requests served, failed ones included.
    pub requests: u64,
    /// Those that failed.
    pub failures: u64,
}

#[derive(Debug)]
pub(crate) struct Counters {
    requests: [AtomicU64; Opcode::COUNT],
    failures: [AtomicU64; Opcode::COUNT],
}

impl Counters {
    pub(crate) fn new() -> Counters {
        Counters {
            requests: [const { AtomicU64::new(0) }; Opcode::COUNT],
            failures: [const { AtomicU64::new(0) }; Opcode::COUNT],
        }
    }

    pub(crate) fn count(&self, opcode: Opcode, failed: bool) {
        self.requests[opcode as usize].fetch_add(1, Ordering::Relaxed);
        if failed {
            self.failures[opcode as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The operations that occurred, in the order of their numbers.
    pub(crate) fn snapshot(&self) -> Vec<OperationCount> {
        (0..Opcode::COUNT)
            .filter_map(|number| {
                let requests = self.requests[number].load(Ordering::Relaxed);
                let failures = self.failures[number].load(Ordering::Relaxed);
                let operation = Opcode::from_number(number as u32)?.name();
                (requests > 0).then_some(OperationCount { operation, requests, failures })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_operations_that_occurred_are_listed() {
        let counters = Counters::new();
        counters.count(Opcode::Read, false);
        counters.count(Opcode::Read, true);
        let expected = OperationCount { operation: "READ", requests: 2, failures: 1 };
        assert_eq!(counters.snapshot(), [expected]);
    }
}
