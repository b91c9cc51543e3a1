//! Budgets, taken at the start: how many workers there may be, and how much address space the allocator reserves.
//!
//! A limit of address space (RLIMIT_AS) counts what is reserved as well as what is used. Half of it is for workers, with their
//! stacks, messages and what layers need for a request; requests beyond that wait in the kernel until a worker is free. Of the
//! other half the allocator may reserve a part, so that there is some for what is too small to be refused.

use rustix::process::{Resource, getrlimit};
use std::sync::LazyLock;

/// Maximum number of workers, however many requests are stuck (waiting for locks, mostly).
const WORKERS_MAX: usize = 2048;
/// Minimum: one may wait for what another serves.
const WORKERS_MIN: usize = 4;
/// Address space that a worker takes with the largest request that several data layers have a part in.
const WORKER_BYTES: u64 = 12 << 20;
/// Address space that an arena of the allocator reserves.
const ARENA_BYTES: u64 = 64 << 20;

/// Maximum number of workers of this process, by the limit that it had when it was first asked for.
pub(crate) fn workers_max() -> usize {
    static MAX: LazyLock<usize> = LazyLock::new(|| workers_of(address_space()));
    *MAX
}

/// Keeps the allocator from reserving address space for each thread where there is little. To be called before there are many.
pub(crate) fn bound_arenas() {
    if let Some(arenas) = arenas_of(address_space()) {
        set_arenas(arenas);
    }
}

fn address_space() -> Option<u64> {
    getrlimit(Resource::As).current
}

fn workers_of(address_space: Option<u64>) -> usize {
    let affordable = address_space.map_or(WORKERS_MAX, |bytes| (bytes / 2 / WORKER_BYTES) as usize);
    affordable.clamp(WORKERS_MIN, WORKERS_MAX)
}

/// The maximum number of arenas; `None` where the allocator's own does.
fn arenas_of(address_space: Option<u64>) -> Option<i32> {
    const ENOUGH: u64 = 64;
    let affordable = address_space? / 4 / ARENA_BYTES;
    (affordable < ENOUGH).then(|| affordable.max(1) as i32)
}

#[cfg(target_env = "gnu")]
fn set_arenas(arenas: i32) {
    // SAFETY: it sets a number that the allocator looks at when a thread allocates for the first time.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
}

/// Other allocators reserve little.
#[cfg(not(target_env = "gnu"))]
fn set_arenas(_: i32) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_shared_out_and_without_one_nothing_is() {
        assert_eq!((workers_of(None), arenas_of(None)), (WORKERS_MAX, None));
        assert_eq!((workers_of(Some(1 << 40)), arenas_of(Some(1 << 40))), (WORKERS_MAX, None));
        assert_eq!((workers_of(Some(1 << 20)), arenas_of(Some(1 << 20))), (WORKERS_MIN, Some(1)));
        for bytes in [256 << 20, 700_000 << 10, 2 << 30] {
            let (workers, arenas) = (workers_of(Some(bytes)) as u64, arenas_of(Some(bytes)).unwrap() as u64);
            assert!(workers * WORKER_BYTES + arenas * ARENA_BYTES <= bytes, "{bytes}: {workers} {arenas}");
        }
    }
}
