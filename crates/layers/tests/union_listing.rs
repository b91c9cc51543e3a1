//! Listings while names come and go: each name once, all that stay, and none that was gone before.

mod common;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bases::dir::{DirectoryFileSystem, Options};
use common::unions::{fill, joined};
use common::{memory, name, random};
use plyfs_layers::{Branch, BranchMode};
use vnode::{Caller, Cookie, Creation, FileSystemRef, OpenFlags, RenameMode, VnodeRef};

/// So many names stay, and so many are taken away: another number in `LISTING_NAMES`.
const NAMES: usize = 500;
const ROUNDS: usize = 2;

fn count_of_names() -> usize {
    std::env::var("LISTING_NAMES").ok().and_then(|count| count.parse().ok()).unwrap_or(NAMES)
}

/// What a branch is made of.
type NewBranch = fn() -> (FileSystemRef, Option<tempfile::TempDir>);

const BASES: [(&str, NewBranch); 2] = [("mem", || (memory(), None)), ("dir", in_directory)];

fn in_directory() -> (FileSystemRef, Option<tempfile::TempDir>) {
    let scratch = tempfile::tempdir().unwrap();
    let opened = DirectoryFileSystem::open(scratch.path(), Options::default()).unwrap();
    (Arc::new(opened), Some(scratch))
}

fn create(directory: &VnodeRef, text: &str) {
    let how = Creation { mode: 0o644, flags: OpenFlags::WRITE };
    directory.create(&Caller::server(), name(text), &how).unwrap();
}

/// The names of a directory, read in pieces of random lengths, each from where the last one ended.
fn list_in_pieces(directory: &VnodeRef, random: &mut fastrand::Rng) -> Vec<String> {
    let server = Caller::server();
    let mut listing = directory.open_directory(&server).unwrap();
    let (mut names, mut cookie) = (Vec::new(), Cookie::START);
    loop {
        let (mut room, before) = (random.usize(1..400), names.len());
        listing
            .read(&server, cookie, &mut |entry| {
                if room == 0 {
                    return ControlFlow::Break(());
                }
                room -= 1;
                cookie = entry.cookie;
                names.push(String::from_utf8(entry.name.as_bytes().to_vec()).unwrap());
                ControlFlow::Continue(())
            })
            .unwrap();
        if names.len() == before {
            return names;
        }
        if random.u8(..) < 20 {
            // As a server of NFS does, which has restarted.
            listing = directory.open_directory(&server).unwrap();
        }
    }
}

/// Takes away the names that go, and makes, moves and removes those that come.
fn change(directory: &VnodeRef, mut random: fastrand::Rng, is_over: &AtomicBool) {
    let server = Caller::server();
    let mut goes: Vec<usize> = (0..count_of_names()).collect();
    random.shuffle(&mut goes);
    while !is_over.load(Ordering::Relaxed) {
        if let Some(gone) = goes.pop() {
            directory.unlink(&server, name(&format!("goes {gone}"))).unwrap();
        }
        let (one, other) = (format!("comes {}", random.u16(..)), format!("moved {}", random.u16(..)));
        create(directory, &one);
        if random.bool() {
            directory.rename(&server, name(&one), directory, name(&other), RenameMode::Replace).unwrap();
        } else {
            directory.unlink(&server, name(&one)).unwrap();
        }
    }
}

#[test]
fn created_and_removed_names_do_not_shift_others() {
    let mut random = random();
    for (base, new) in BASES {
        for count in [1, 2, 3] {
            for _ in 0..ROUNDS {
                listed_while_changing(&format!("{count} branches, {base}"), new, count, &mut random);
            }
        }
    }
}

/// Lists a directory of this many branches while its names change.
fn listed_while_changing(what: &str, new: NewBranch, count: usize, random: &mut fastrand::Rng) {
    let server = Caller::server();
    let (branches, _kept): (Vec<FileSystemRef>, Vec<_>) = (0..count).map(|_| new()).unzip();
    for branch in &branches {
        branch.root().mkdir(&server, name("d"), 0o755).unwrap();
    }
    for number in 0..count_of_names() {
        for prefix in ["stays", "goes"] {
            // Some are in two branches.
            for branch in [number % count, number % 5 % count] {
                let directory = branches[branch].root().lookup(&server, name("d")).unwrap().vnode;
                let text = format!("{prefix} {number}");
                if directory.lookup(&server, name(&text)).is_err() {
                    create(&directory, &text);
                }
            }
        }
    }
    let branches = branches.into_iter().enumerate().map(|(index, file_system)| {
        let mode = Some(if index == 0 { BranchMode::ReadWrite } else { BranchMode::ReadOnly });
        Branch { file_system, mode, label: format!("branch {index}"), minimum_free: None }
    });
    let union = plyfs_layers::kind("union").unwrap().join(&[], branches.collect(), None).unwrap();
    let directory = union.root().lookup(&server, name("d")).unwrap().vnode;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let changes = random.fork();
        scope.spawn(|| change(&directory, changes, &is_over));
        for _ in 0..2 {
            let gone = |number: &usize| directory.lookup(&server, name(&format!("goes {number}"))).is_err();
            let before: Vec<usize> = (0..count_of_names()).step_by(10).filter(gone).collect();
            let names = list_in_pieces(&directory, random);
            let known: HashSet<&str> = names.iter().map(String::as_str).collect();
            let lost =
                (0..count_of_names()).filter(|number| !known.contains(format!("stays {number}").as_str())).count();
            let late = before.iter().filter(|number| known.contains(format!("goes {number}").as_str())).count();
            let twice = names.len() - known.len();
            is_over.store(twice + lost + late > 0, Ordering::Relaxed);
            assert_eq!((twice, lost, late), (0, 0, 0), "names twice, lost, and listed after they were removed: {what}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn unsearchable_directory_is_listed() {
    for also_on_the_right in [false, true] {
        let left = common::layer("faulty", &[], memory());
        let below = conformance::faults::Below::of(vec![left.clone()]);
        below.off();
        let right = memory();
        fill(&left, 0, "d/sub/");
        fill(&left, 0, "d/f");
        if also_on_the_right {
            fill(&right, 1, "d/g");
        }
        let scene = joined(vec![(BranchMode::ReadWrite, left), (BranchMode::ReadOnly, right)]);
        let directory = scene.union.root().lookup(&Caller::server(), name("d")).unwrap().vnode;
        below.set(0, &[("operations", "lookup"), ("error", "EACCES"), ("from", "1"), ("times", "100")]);
        let names = common::list(&directory, &Caller::server());
        let expected: &[&str] = if also_on_the_right { &["f", "g", "sub"] } else { &["f", "sub"] };
        assert_eq!(names, expected);
        below.off();
    }
}
