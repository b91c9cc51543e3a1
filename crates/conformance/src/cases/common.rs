//! Utilities shared by the tests: the list of a group's tests, and common operations.

use std::sync::Barrier;

use crate::{Failure, Outcome};

/// Lists the tests of a module: the name, then the abilities that each needs besides writing.
macro_rules! group {
    ($group:literal: $($name:ident $([$($need:ident),*])?;)+) => {
        pub(crate) fn tests() -> Vec<$crate::Test> {
            vec![$($crate::test::Test {
                group: $group,
                name: stringify!($name),
                needs: &[$crate::Ability::Write $($(, $crate::Ability::$need)*)?],
                body: $name,
            }),+]
        }
    };
}

/// Waits until the clock for file timestamps has advanced twice: a server may have read it one tick later.
pub(crate) fn pause() {
    const INTERVAL: std::time::Duration = std::time::Duration::from_millis(12);
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        (time.tv_sec, time.tv_nsec)
    };
    for _ in 0..2 {
        let before = now();
        std::thread::sleep(INTERVAL / 2);
        while now() == before {
            std::thread::sleep(INTERVAL / 6);
        }
    }
}

/// Runs a function in several threads that start together; returns the first failure.
pub(crate) fn run_concurrently(threads: usize, body: impl Fn(usize) -> Outcome + Sync) -> Outcome {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        let run = |thread| {
            let (start, body) = (&start, &body);
            scope.spawn(move || {
                start.wait();
                body(thread)
            })
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        let outcomes = running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("a thread of the test panicked"))));
        // All threads end before the first failure is returned.
        outcomes.collect::<Vec<_>>().into_iter().collect()
    })
}

/// Returns a name with a number appended.
pub(crate) fn numbered(name: &str, number: usize) -> Vec<u8> {
    format!("{name}{number}").into_bytes()
}

pub(crate) use group;
