//! Commits of forks: after a cut the file system is as before, or the commit can be done again and makes it what it was to be.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bases::dir::{DirectoryFileSystem, Options};
use fastrand::Rng;
use plyfs_layers::fork::{CommitOptions, Fork};
use plyfs_layers::{Branch, BranchMode};
use vnode::{FileSystemRef, Timestamp};

use super::commits::with_random_syncs;
use super::operations::{DiskScenario, Layout};
use super::scene::{Operation, Scenario};
use super::state::{CheckedAttributes, Object, State, state_of};
use super::steps::Step::{self, Chmod, Create, Link, Mkdir, Rename, Rmdir, Unlink, Write};
use super::steps::UnionUser;

/// The file system, and the branch of changes.
const SCENARIO: Scenario = Scenario {
    name: "the commit of a fork",
    branches: &[("rw", &["a/f", "a/g", "a/h=a/g", "d/x/f", "d/g", "gone/f", "other"]), ("rw", &[])],
    earlier: &[],
    operation: Operation::Create("unused"),
};

const FORK_STEPS: &[Step] = &[
    Write("/a/f", b'f'),
    Create("/a/new", b'n'),
    Write("/a/h", b'h'),
    Rename("/d", "/e"),
    Rename("/e/x", "/x"),
    Write("/x/f", b'x'),
    Unlink("/gone/f"),
    Rmdir("/gone"),
    Mkdir("/m"),
    Create("/m/one", b'o'),
    Link("/m/one", "/m/two"),
    Chmod("/other"),
];

/// Commits once, and cuts the power at points that the random numbers choose.
///
/// # Errors
/// In words, what is wrong after a cut.
pub(crate) fn cut_commit(layout: Layout, cuts: usize, random: &mut Rng) -> Result<(), String> {
    let mut scenario_disks = DiskScenario::new(&SCENARIO, "", layout);
    let base_path = scenario_disks.branch(0).parent().unwrap().to_owned();
    let before = contents(state_of(&*directory(&base_path, 0))?);
    let since = {
        let fork = Fork::new(directory(&base_path, 1), directory(&base_path, 0)).map_err(|error| error.to_string())?;
        fork.hold(true).map_err(|error| error.to_string())?;
        Timestamp::now()
    };
    // Files have the time of the last tick.
    std::thread::sleep(Duration::from_millis(12));
    scenario_disks.disks.begin();
    {
        let [stack, changes] = open_file_systems(&scenario_disks, &base_path, random);
        let fork = Fork::new(changes, stack).map_err(|error| error.to_string())?;
        fork.hold(false).map_err(|error| error.to_string())?;
        let mut user = UnionUser::of(fork.file_system(), false);
        FORK_STEPS.iter().try_for_each(|step| user.perform(*step))?;
    }
    {
        let [stack, changes] = open_file_systems(&scenario_disks, &base_path, random);
        commit(changes, stack, since)?;
    }
    let committed = scenario_disks.disks.requests();
    let after = contents(state_of(&*directory(&base_path, 0))?);
    scenario_disks.cut(cuts, random, |_, point| {
        let found = contents(state_of(&*directory(&base_path, 0))?);
        if point < committed && found != before {
            commit(directory(&base_path, 1), directory(&base_path, 0), since)?;
        } else if point < committed {
            return Ok(());
        }
        let found = contents(state_of(&*directory(&base_path, 0))?);
        if found == after { Ok(()) } else { Err(format!("found {found:#?}\nnot {after:#?}")) }
    })
}

fn commit(changes: FileSystemRef, stack: FileSystemRef, since: Timestamp) -> Result<(), String> {
    let fork = Fork::new(changes, stack).map_err(|error| error.to_string())?;
    fork.hold(false).map_err(|error| error.to_string())?;
    fork.commit(&CommitOptions { since, force: false }).map(drop).map_err(|error| format!("{error}: {error:?}"))
}

/// The file system and the branch of changes, each written at times that the random numbers choose.
fn open_file_systems(scenario_disks: &DiskScenario<'_>, base_path: &Path, random: &mut Rng) -> [FileSystemRef; 2] {
    let branch = |index| Branch {
        file_system: directory(base_path, index),
        mode: Some(BranchMode::ReadWrite),
        label: String::new(),
        minimum_free: None,
    };
    let branches = with_random_syncs(vec![branch(0), branch(1)], |index| scenario_disks.branch(index), random);
    let both: Vec<FileSystemRef> = branches.into_iter().map(|branch| branch.file_system).collect();
    both.try_into().unwrap_or_else(|_| unreachable!("there are two"))
}

fn directory(base_path: &Path, index: usize) -> FileSystemRef {
    Arc::new(DirectoryFileSystem::open(&base_path.join(index.to_string()), Options::default()).unwrap())
}

/// What a tree has, whichever objects that are.
fn contents(state: State) -> BTreeMap<String, (CheckedAttributes, String)> {
    let summary = |Object { attributes, data, .. }: Object| {
        let start = String::from_utf8_lossy(&data[..data.len().min(8)]).into_owned();
        (attributes, format!("{} bytes {start}", data.len()))
    };
    state.into_iter().map(|(path, object)| (path, summary(object))).collect()
}
