//! Trees of 100,000 nested directories, as any user can plant one: whatever walks through them ends, on the stack of a thread,
//! with the memory of any tree of as many objects, and in time for each level that does not depend on the depth.
//!
//! `DEEP_LEVELS` is the number of levels if not 100,000.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bases::mem::{MemoryFileSystem, Options};
use common::unions::{at, joined, name, server, write};
use plyfs_layers::fork::{CommitOptions, Fork};
use plyfs_layers::union::{CheckOptions, Problem, check, remove_tree};
use plyfs_layers::{Branch, BranchMode};
use rustix::time::{ClockId, clock_gettime};
use vnode::{Errno, FileSystemRef, Name, OpenFlags, RenameMode, Timestamp, VnodeRef};

use BranchMode::{ReadOnly, ReadWrite};

/// The number of levels.
fn tree_depth() -> usize {
    std::env::var("DEEP_LEVELS").map_or(100_000, |tree_depth| tree_depth.parse().expect("DEEP_LEVELS is a number"))
}

/// A file system in memory for as many objects as these tests make.
fn large() -> FileSystemRef {
    Arc::new(MemoryFileSystem::new(Options { size: 1 << 32, inodes: 2_000_000, mode: 0o755, uid: 0, gid: 0 }))
}

/// Makes that many directories, each in the one before: the last.
fn create_chain(directory: &VnodeRef, name: Name<'_>, depth: usize) -> VnodeRef {
    (0..depth).fold(directory.clone(), |directory, _| directory.mkdir(&server(), name, 0o755).unwrap().vnode)
}

/// The last of the directories that are in each other by one name, and how many there are.
fn find_deepest(directory: &VnodeRef, name: Name<'_>) -> (VnodeRef, usize) {
    let (mut last, mut depth) = (directory.clone(), 0);
    while let Ok(found) = last.lookup(&server(), name) {
        (last, depth) = (found.vnode, depth + 1);
    }
    (last, depth)
}

/// Does the work on a tenth of the levels and on all of them, which takes ten times as long if each costs the same, and a hundred
/// times if each costs as much as all above it. What counts is the time that this thread computes: others may be busy too.
fn assert_linear_time<T>(depth: usize, prepare: impl Fn(usize) -> T, work: impl Fn(usize, T)) {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
    };
    let time = |depth| {
        let prepared = prepare(depth);
        let (begin, clock) = (now(), Instant::now());
        work(depth, prepared);
        println!("{depth} levels: {:?} of {:?}", now() - begin, clock.elapsed());
        now() - begin
    };
    // What others do takes the processor's caches away now and then: what is not linear is too slow each time.
    let slow: Vec<_> =
        (0..3).map(|_| (time(depth / 10), time(depth))).take_while(|&(tenth, whole)| whole >= 40 * tenth).collect();
    assert!(slow.len() < 3, "of a tenth of the levels, and of all: {slow:?}");
}

/// The layer that the last snapshot has put on a branch.
fn newest_layer(branch: &FileSystemRef) -> VnodeRef {
    let layers = at(branch, ".wh..wh.plyfs/layers").unwrap();
    let numbers = common::list(&layers, &server()).into_iter().map(|number| number.parse::<u32>().unwrap());
    layers.lookup(&server(), name(&numbers.max().unwrap().to_string())).unwrap().vnode
}

/// The trees are planted in the layers: to copy directories there takes renames, each of which has the file system look at all
/// directories above.
#[test]
fn snapshots_of_deep_trees_work() {
    assert_linear_time(tree_depth(), drop, |depth, ()| {
        let branch = large();
        let union = || joined(vec![(ReadWrite, branch.clone())]);
        let (d, scene) = (name("d"), union());
        let differences = |from: &str| -> Vec<serde_json::Value> {
            serde_json::from_str(&union().tell("snapshot-diff", &[("from", from)]).unwrap()).unwrap()
        };
        scene.tell("snapshot-take", &[("name", "empty")]).unwrap();
        write(&create_chain(&scene.union.root(), d, depth), "f", b"old");
        scene.tell("snapshot-take", &[("name", "1")]).unwrap();
        drop(scene);
        // What is deeper than a path can say is not listed one by one.
        let added = differences("empty");
        assert!((1_000..2_100).contains(&added.len()), "{}", added.len());
        write(&create_chain(&newest_layer(&branch), d, depth), "g", b"new");
        assert_eq!(differences("1").len(), 1);

        let scene = union();
        let root = scene.union.root();
        root.rename(&server(), d, &root, name("top"), RenameMode::Replace).unwrap();
        scene.tell("snapshot-drop", &[("name", "1")]).unwrap();
        let (last, tree_depth) = find_deepest(&at(&scene.union, "top").unwrap(), d);
        assert_eq!((common::list(&last, &server()), tree_depth), (vec!["f".to_owned(), "g".to_owned()], depth - 1));
        drop(last);
        root.rename(&server(), name("top"), &root, d, RenameMode::Replace).unwrap();
        scene.tell("snapshot-take", &[("name", "2")]).unwrap();
        drop((scene, root));
        create_chain(&newest_layer(&branch), d, depth);
        let scene = union();
        scene.tell("snapshot-restore", &[("name", "2")]).unwrap();
        scene.tell("snapshot-merge", &[]).unwrap();
        let (last, tree_depth) = find_deepest(&branch.root(), d);
        assert_eq!((common::list(&last, &server()), tree_depth), (vec!["f".to_owned(), "g".to_owned()], depth));
    });
}

#[test]
fn deep_differences_are_listed_within_the_limit() {
    const DEPTH: usize = 20_000;
    let (branch, d) = (large(), name("d"));
    let scene = joined(vec![(ReadWrite, branch.clone())]);
    create_chain(&scene.union.root(), d, DEPTH);
    scene.tell("snapshot-take", &[("name", "s")]).unwrap();
    drop(scene);
    (0..DEPTH).fold(newest_layer(&branch), |directory, _| directory.mkdir(&server(), d, 0o700).unwrap().vnode);
    let scene = joined(vec![(ReadWrite, branch)]);
    let listed = scene.tell("snapshot-diff", &[("from", "s")]).unwrap();
    assert!((32 << 20..100 << 20).contains(&listed.len()), "{} bytes", listed.len());
    let listed: Vec<serde_json::Value> = serde_json::from_str(&listed).unwrap();
    assert!(listed.iter().all(|one| one["change"] == "changed"));
    assert!((4_000..DEPTH).contains(&listed.len()), "{}", listed.len());
}

/// Directories that are moved into each other: each has a rest that has to move along.
#[test]
fn merge_moves_lower_parts_of_mutually_moved_directories() {
    let prepare = |count: usize| {
        let scene = joined(vec![(ReadWrite, large())]);
        let root = scene.union.root();
        for index in 0..count {
            let directory = root.mkdir(&server(), name(&format!("{index}")), 0o755).unwrap().vnode;
            write(&directory, "f", b"old");
        }
        scene.tell("snapshot-take", &[("name", "s")]).unwrap();
        let mut above = at(&scene.union, "0").unwrap();
        for index in 1..count {
            let moved = format!("{index}");
            root.rename(&server(), name(&moved), &above, name("d"), RenameMode::Replace).unwrap();
            above = above.lookup(&server(), name("d")).unwrap().vnode;
        }
        scene
    };
    assert_linear_time(4_000, prepare, |count, scene| {
        scene.tell("snapshot-merge", &[]).unwrap();
        for tree in [&scene.union, &scene.branches[0]] {
            let (last, tree_depth) = find_deepest(&at(tree, "0").unwrap(), name("d"));
            let mut left = common::list(&last, &server());
            left.retain(|name| !name.starts_with(".wh."));
            assert_eq!((tree_depth, left), (count - 1, vec!["f".to_owned()]));
        }
        assert_eq!(common::list(&scene.union.root(), &server()), ["0"]);
    });
}

/// Branches of a union, the first to be written.
fn branches(trees: &[FileSystemRef]) -> Vec<Branch> {
    let branch = |(index, tree): (usize, &FileSystemRef)| Branch {
        file_system: tree.clone(),
        mode: Some(if index == 0 { ReadWrite } else { ReadOnly }),
        label: format!("branch {index}"),
        minimum_free: None,
    };
    trees.iter().enumerate().map(branch).collect()
}

#[test]
fn deep_trees_are_checked() {
    let long = "d".repeat(100);
    assert_linear_time(tree_depth(), drop, |depth, ()| {
        let trees = [large(), large()];
        let last = create_chain(&trees[0].root(), name(&long), depth);
        create_chain(&trees[1].root(), name(&long), depth);
        write(&last, "f", b"data");
        write(&last, ".wh.f", b"");
        drop(last);
        let mut findings = Vec::new();
        let options = CheckOptions { repair: true, idle: true, ..CheckOptions::default() };
        check(branches(&trees), &options, &mut |finding| findings.push(finding)).unwrap();
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].path.len(), &findings[0].problem), (depth * 101 + 1, &Problem::BesideWhiteout));
        assert_eq!(findings[0].repair, Some(Ok(())));
    });
}

#[test]
fn deep_leftovers_are_removed() {
    assert_linear_time(tree_depth(), drop, |depth, ()| {
        let (tree, lower) = (large(), large());
        write(&lower.root(), "f", b"data");
        let union = || joined(vec![(ReadWrite, tree.clone()), (ReadOnly, lower.clone())]).union;
        // Work begins in the branch: the file is copied.
        let copy = || drop(at(&union(), "f").unwrap().open(&server(), OpenFlags::READ_WRITE).unwrap());
        copy();
        let state = tree.root().lookup(&server(), name(".wh..wh.plyfs")).unwrap().vnode;
        let work = state.lookup(&server(), name("work")).unwrap().vnode;
        create_chain(&work, name("1"), depth);
        tree.root().unlink(&server(), name("f")).unwrap();
        copy();
        assert_eq!(work.lookup(&server(), name("1")).map(drop), Err(Errno::ENOENT));
    });
}

#[test]
fn deep_forks_are_compared_and_committed() {
    let long = "d".repeat(100);
    assert_linear_time(tree_depth(), drop, |depth, ()| {
        let (changes, stack) = (large(), large());
        let fork = || Fork::new(changes.clone(), stack.clone()).unwrap();
        fork().hold(true).unwrap();
        let since = Timestamp::now();
        write(&create_chain(&fork().file_system().root(), name(&long), depth), "f", b"data");
        assert!(fork().differences().unwrap().len() < 100);
        assert!(fork().commit(&CommitOptions { since, force: false }).unwrap().changes >= depth as u64);
        let (last, tree_depth) = find_deepest(&stack.root(), name(&long));
        assert_eq!((common::list(&last, &server()), tree_depth), (vec!["f".to_owned()], depth));
        drop(last);
        remove_tree(&stack.root(), name(&long)).unwrap();
        assert!(common::list(&stack.root(), &server()).is_empty());
    });
}
