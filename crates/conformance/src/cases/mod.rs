//! The tests, one module a group.

mod acls;
mod append;
mod attributes;
mod copy;
mod data;
mod directories;
mod holes;
mod large;
mod links;
mod locks;
mod map;
mod names;
mod open;
mod permissions;
mod readonly;
mod rename;
mod space;
mod special;
mod storm;
mod times;
mod unlinked;
mod xattrs;

use std::sync::{Barrier, LazyLock};

use crate::subject::Result;
use crate::{Abilities, Client, Failure, Outcome, Test};

/// Every test, in groups.
pub fn all() -> &'static [Test] {
    static ALL: LazyLock<Vec<Test>> = LazyLock::new(|| GROUPS.iter().flat_map(|group| group()).collect());
    &ALL
}

/// One function a group.
const GROUPS: &[fn() -> Vec<Test>] = &[
    names::tests,
    attributes::tests,
    times::tests,
    data::tests,
    open::tests,
    permissions::tests,
    links::tests,
    rename::tests,
    directories::tests,
    unlinked::tests,
    holes::tests,
    append::tests,
    locks::tests,
    xattrs::tests,
    acls::tests,
    map::tests,
    copy::tests,
    special::tests,
    large::tests,
    space::tests,
    storm::tests,
    readonly::tests,
];

/// Makes the tree that read-only subjects are tested over.
pub(crate) fn prepare(client: &dyn Client, abilities: Abilities) -> Result<()> {
    readonly::prepare(client, abilities)
}

/// Lists the tests of a module: name, then what each needs besides being able to write.
macro_rules! group {
    ($group:literal: $($name:ident $([$($need:ident),*])?;)+) => {
        pub(super) fn tests() -> Vec<$crate::Test> {
            vec![$($crate::Test {
                group: $group,
                name: stringify!($name),
                needs: &[$crate::Ability::Write $($(, $crate::Ability::$need)*)?],
                body: $name,
            }),+]
        }
    };
}

/// Waits until the clock that file systems take times from has advanced, twice: a server may have read it a tick later.
fn pause() {
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

/// Runs a function in several threads that start together; answers the first failure.
fn together(threads: usize, body: impl Fn(usize) -> Outcome + Sync) -> Outcome {
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
        // All threads end before the first failure is answered.
        outcomes.collect::<Vec<_>>().into_iter().collect()
    })
}

/// A name with a number.
fn numbered(name: &str, number: usize) -> Vec<u8> {
    format!("{name}{number}").into_bytes()
}

use group;
