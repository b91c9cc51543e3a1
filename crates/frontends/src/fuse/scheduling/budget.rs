//! Budgets, computed once at the start: the maximum number of workers, and how much address space the allocator reserves.
//!
//! An address-space limit (RLIMIT_AS) counts reserved as well as used memory. Half of what the stack leaves is for workers, with their stacks,
//! messages and what layers need for a request; requests beyond that wait in the kernel until a worker is free. The allocator
//! may reserve part of the other half, so that some is left for allocations that are too small to be refused.

use rustix::process::{Resource, getrlimit};
use std::sync::LazyLock;

/// Maximum number of workers, however many requests are stuck (mostly waiting for locks).
const WORKERS_MAX: usize = 2048;
/// Minimum number of workers: one may wait for what another serves.
const WORKERS_MIN: usize = 4;
/// Address space in bytes that a worker takes with the largest request that several data layers process.
const WORKER_BYTES: u64 = 12 << 20;
/// Address space in bytes that an allocator arena reserves.
const ARENA_BYTES: u64 = 64 << 20;

/// Returns the maximum number of workers of this process, by the limit in force at the first call.
pub(crate) fn max_workers() -> usize {
    static MAX: LazyLock<usize> = LazyLock::new(|| workers_within(address_space()));
    *MAX
}

/// Keeps the allocator from reserving address space for each thread where it is scarce. Must be called before there are many
/// threads.
pub(crate) fn limit_arenas() {
    if let Some(arenas) = arenas_within(address_space()) {
        set_arenas(arenas);
    }
}

/// Returns how much address space is left; `None` without a limit.
fn address_space() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    let status = procfs::Process::Own.status().ok().flatten();
    Some(limit.saturating_sub(status.and_then(|status| status.address_space_bytes()).unwrap_or_default()))
}

fn workers_within(address_space: Option<u64>) -> usize {
    let affordable = address_space.map_or(WORKERS_MAX, |bytes| (bytes / 2 / WORKER_BYTES) as usize);
    affordable.clamp(WORKERS_MIN, WORKERS_MAX)
}

/// Returns the maximum number of arenas; `None` where the allocator's default is fine.
fn arenas_within(address_space: Option<u64>) -> Option<i32> {
    const ARENAS_UNLIMITED: u64 = 64;
    let affordable = address_space? / 4 / ARENA_BYTES;
    (affordable < ARENAS_UNLIMITED).then(|| affordable.max(1) as i32)
}

#[cfg(target_env = "gnu")]
fn set_arenas(arenas: i32) {
    // SAFETY: it sets a number that the allocator reads when a thread allocates for the first time.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
}

/// Does nothing: other allocators reserve little.
#[cfg(not(target_env = "gnu"))]
fn set_arenas(_: i32) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_follow_the_address_space_limit() {
        assert_eq!((workers_within(None), arenas_within(None)), (WORKERS_MAX, None));
        assert_eq!((workers_within(Some(1 << 40)), arenas_within(Some(1 << 40))), (WORKERS_MAX, None));
        assert_eq!((workers_within(Some(1 << 20)), arenas_within(Some(1 << 20))), (WORKERS_MIN, Some(1)));
        for bytes in [256 << 20, 700_000 << 10, 2 << 30] {
            let (workers, arenas) = (workers_within(Some(bytes)) as u64, arenas_within(Some(bytes)).unwrap() as u64);
            assert!(workers * WORKER_BYTES + arenas * ARENA_BYTES <= bytes, "{bytes}: {workers} {arenas}");
        }
    }
}
