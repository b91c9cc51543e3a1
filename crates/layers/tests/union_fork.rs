//! Forks: whatever is done in one, a commit has the file system look as the fork did, also one that is stopped and done
//! again; what others have changed meanwhile is not lost.
//!
//! `MODEL_SEED` replays a failure of a random test, `MODEL_STEPS` says how many operations are done in each fork.

mod common;
#[path = "../../bases/tests/model/operation.rs"]
mod operation;
#[path = "../../bases/tests/model/side.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod side;

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::memory;
use common::unions::{at, fill, list, name, read, server, write};
use fastrand::Rng;
use operation::Operation;
use plyfs_layers::fork::{CommitError, CommitOptions, Conflict, ForeignChange, Fork};
use side::Side;
use vnode::layer::{self, Layer, LayerVnode};
use vnode::{
    Attributes, Caller, Cookie, Errno, FileKind, FileSystemRef, InodeNumber, OpenFlags, Promises, RenameMode, Result,
    SetAttributes, SetTime, Timestamp, VnodeRef, XattrMode,
};

const STEPS: usize = 60;
const FORK_COUNT: u64 = 100;
const DISK_FORK_COUNT: u64 = 10;

/// A fork of a file system, and when it began.
struct Scene {
    stack: FileSystemRef,
    changes: FileSystemRef,
    since: Timestamp,
    /// What both are on, if not in memory.
    directory: Option<tempfile::TempDir>,
}

impl Scene {
    /// A new fork of this.
    fn of(stack: FileSystemRef) -> Self {
        Self::on(stack, memory(), None)
    }

    fn on(stack: FileSystemRef, changes: FileSystemRef, directory: Option<tempfile::TempDir>) -> Self {
        Fork::new(changes.clone(), stack.clone()).unwrap().hold(true).unwrap();
        let since = Timestamp::now();
        // Files of a disk have the time of the last tick.
        std::thread::sleep(if directory.is_some() { Duration::from_millis(12) } else { Duration::from_millis(1) });
        Self { stack, changes, since, directory }
    }

    /// A new fork of a file system, on disk, on which the work has been done.
    fn on_disk(work: impl FnOnce(&FileSystemRef)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            let path = directory.path().join(name);
            std::fs::create_dir(&path).unwrap();
            Arc::new(bases::dir::DirectoryFileSystem::open(&path, bases::dir::Options::default()).unwrap())
                as FileSystemRef
        };
        let (stack, changes) = (open("stack"), open("changes"));
        work(&stack);
        Self::on(stack, changes, Some(directory))
    }

    /// A new fork of a file system with these files.
    fn with(paths: &[&str]) -> Self {
        let stack = memory();
        paths.iter().for_each(|path| fill(&stack, 0, path));
        Self::of(stack)
    }

    fn fork(&self) -> Fork {
        Fork::new(self.changes.clone(), self.stack.clone()).unwrap()
    }

    fn seen(&self) -> FileSystemRef {
        self.fork().file_system()
    }

    fn options(&self, force: bool) -> CommitOptions {
        CommitOptions { since: self.since, force }
    }

    fn commit(&self) -> std::result::Result<u64, CommitError> {
        self.fork().commit(&self.options(false)).map(|committed| committed.changes)
    }
}

/// Everything that users see of a file system but access times: a line for each object, and which names are links.
fn tree(file_system: &FileSystemRef) -> Vec<String> {
    let mut lines = vec![describe("", &file_system.root(), &mut HashMap::new())];
    let mut links = HashMap::new();
    let mut open = vec![(String::new(), file_system.root())];
    while let Some((path, directory)) = open.pop() {
        for name in acl_of(&directory) {
            let entry = directory.lookup(&server(), common::unions::name(&name)).unwrap();
            let path = format!("{path}/{name}");
            lines.push(describe(&path, &entry.vnode, &mut links));
            if entry.attributes.is_directory() {
                open.push((path, entry.vnode));
            }
        }
    }
    lines.sort();
    lines
}

fn acl_of(directory: &VnodeRef) -> Vec<String> {
    let mut names = Vec::new();
    let mut see = |entry: vnode::DirectoryEntry<'_>| {
        names.push(String::from_utf8(entry.name.as_bytes().to_vec()).unwrap());
        std::ops::ControlFlow::Continue(())
    };
    directory.open_directory(&server()).unwrap().read(&server(), Cookie::START, &mut see).unwrap();
    names.sort();
    names
}

fn describe(path: &str, object: &VnodeRef, links: &mut HashMap<InodeNumber, String>) -> String {
    let Attributes { kind, mode, uid, gid, rdev, nlink, size, mtime, ino, .. } = object.getattr(&server()).unwrap();
    let (size, nlink) = if kind == FileKind::Directory { (0, 0) } else { (size, nlink) };
    let first = links.entry(ino).or_insert_with(|| path.to_owned());
    let content = match kind {
        FileKind::Regular => {
            let mut bytes = vec![0; size as usize];
            object.open(&server(), OpenFlags::READ).unwrap().read_at(&server(), 0, &mut bytes).unwrap();
            bytes.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
        }
        FileKind::Symlink => object.readlink(&server()).unwrap().len() as u64,
        _ => 0,
    };
    let names = object.listxattr(&server()).unwrap();
    let mut xattrs: Vec<_> = names
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| (String::from_utf8_lossy(name).into_owned(), object.getxattr(&server(), name)))
        .collect();
    xattrs.sort_by(|one, other| one.0.cmp(&other.0));
    format!(
        "{path}: {kind:?} {mode:o} {uid}:{gid} {}:{} links {nlink} with {first} size {size} {mtime:?} {content:x} {xattrs:x?}",
        rdev.major, rdev.minor
    )
}

fn assert_same(expected: &[String], found: &[String], when: &str) {
    let missing = expected.iter().find(|line| !found.contains(line));
    let surplus = found.iter().find(|line| !expected.contains(line));
    assert!(missing.is_none() && surplus.is_none(), "{when}:\nexpected {missing:?}\nfound    {surplus:?}");
}

/// Random operations on a file system.
fn make_random_changes(file_system: &FileSystemRef, random: &mut Rng, steps: usize) {
    let mut side = Side::new(Box::new(common::Shared(file_system.clone())), false);
    for _ in 0..steps {
        let operation = Operation::random(random);
        side.apply(&operation);
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The seeds of a random test, and how many operations are done.
fn seeds(forks: u64) -> (Vec<u64>, usize) {
    let steps = number("MODEL_STEPS").map_or(STEPS, |steps| steps as usize);
    let seeds = match number("MODEL_SEED") {
        Some(seed) => vec![seed],
        None => {
            let first = fastrand::u64(..1 << 32);
            (first..first + forks).collect()
        }
    };
    (seeds, steps)
}

#[test]
fn commit_reproduces_fork_changes() {
    commit_random_changes(FORK_COUNT, |random, steps| {
        let stack = memory();
        make_random_changes(&stack, random, steps * 4);
        Scene::of(stack)
    });
}

#[test]
fn commit_reproduces_fork_changes_on_disk() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    commit_random_changes(DISK_FORK_COUNT, |random, steps| {
        Scene::on_disk(|stack| make_random_changes(stack, random, steps * 4))
    });
}

fn commit_random_changes(forks: u64, begin: impl Fn(&mut Rng, usize) -> Scene) {
    let (seeds, steps) = seeds(forks);
    for seed in seeds {
        let mut random = Rng::with_seed(seed);
        let scene = begin(&mut random, steps);
        let before = tree(&scene.stack);
        make_random_changes(&scene.seen(), &mut random, steps);
        assert_same(&before, &tree(&scene.stack), &format!("MODEL_SEED={seed} MODEL_STEPS={steps}, in the fork"));
        let seen = tree(&scene.seen());
        let committed = scene.commit();
        assert!(committed.is_ok(), "MODEL_SEED={seed} MODEL_STEPS={steps}: {committed:?}");
        assert_same(&seen, &tree(&scene.stack), &format!("MODEL_SEED={seed} MODEL_STEPS={steps}, committed"));
        if scene.directory.is_none() {
            // On disk, what is new may have the number of what it has replaced.
            assert_same(
                &seen,
                &tree(&scene.seen()),
                &format!("MODEL_SEED={seed} MODEL_STEPS={steps}, the fork afterwards"),
            );
        }
        assert_eq!(scene.commit(), Ok(0), "MODEL_SEED={seed} MODEL_STEPS={steps}: nothing is left to do");
    }
}

/// Refuses to change anything after some changes, as a full or failing disk, or a process that is gone.
struct FailAfter(Arc<AtomicU64>);

impl Layer for FailAfter {
    type State = ();

    fn kind(&self) -> &'static str {
        "failing"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn admit(&self, _: &LayerVnode<Self>, _: &Caller, operation: &layer::Operation<'_>) -> Result<()> {
        let counts = operation.modifies() && !matches!(operation, layer::Operation::Open(_));
        let left = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if !counts {
            self.0.fetch_add(u64::from(left.is_ok()), Ordering::SeqCst);
            return Ok(());
        }
        left.map(drop).map_err(|_| Errno::EIO)
    }
}

#[test]
fn interrupted_commit_is_completed_by_the_next() {
    commit_with_stops(
        |left, file_system| layer::stack(FailAfter(Arc::clone(left)), file_system),
        |_, file| file,
        |tree| tree,
    );
}

/// Where the fork itself can no longer be changed either, times of its directories may not have been put back.
#[test]
fn interrupted_commit_on_disk_is_completed_by_the_next() {
    let failing =
        |left: &Arc<AtomicU64>, file_system: FileSystemRef| layer::stack(FailAfter(Arc::clone(left)), file_system);
    commit_with_stops(failing, failing, |tree| {
        let line = |line: &String| match line.split_once("Timestamp") {
            Some((before, after)) if line.contains(": Directory ") => {
                format!("{before}{}", after.split_once('}').map_or("", |(_, rest)| rest))
            }
            _ => line.clone(),
        };
        tree.iter().map(line).collect()
    });
}

fn commit_with_stops(
    stack_of: impl Fn(&Arc<AtomicU64>, FileSystemRef) -> FileSystemRef,
    changes_of: impl Fn(&Arc<AtomicU64>, FileSystemRef) -> FileSystemRef,
    comparable: impl Fn(Vec<String>) -> Vec<String>,
) {
    let (seeds, steps) = seeds(FORK_COUNT);
    for seed in seeds {
        let mut random = Rng::with_seed(seed);
        let stack = memory();
        make_random_changes(&stack, &mut random, steps * 4);
        let left = Arc::new(AtomicU64::new(u64::MAX));
        let scene = Scene::on(stack_of(&left, stack), changes_of(&left, memory()), None);
        make_random_changes(&scene.seen(), &mut random, steps);
        let mut seen = comparable(tree(&scene.seen()));
        let mut stops = 0;
        loop {
            if stops < 5 && random.bool() && comparable(tree(&scene.seen())) == seen {
                // Nothing is half-way: the fork goes on.
                make_random_changes(&scene.seen(), &mut random, 10);
                seen = comparable(tree(&scene.seen()));
            }
            // In the end, more are let through.
            left.store(random.u64(..40 + stops * 10), Ordering::SeqCst);
            let committed = scene.commit();
            left.store(u64::MAX, Ordering::SeqCst);
            match committed {
                Ok(_) => break,
                Err(
                    CommitError::Stopped { errno: Errno::EIO, .. } | CommitError::Records { errno: Errno::EIO, .. },
                ) => {
                    stops += 1;
                }
                Err(_) => panic!("MODEL_SEED={seed} MODEL_STEPS={steps}, stop {stops}: {committed:?}"),
            }
        }
        let found = comparable(tree(&scene.stack));
        assert_same(&seen, &found, &format!("MODEL_SEED={seed} MODEL_STEPS={steps}, after {stops} stops"));
    }
}

/// Several file systems, one in each directory at the root.
struct SplitFileSystem;

impl SplitFileSystem {
    fn is_one(one: &LayerVnode<Self>, other: &VnodeRef) -> bool {
        let first = |path: Result<Vec<u8>>| path.unwrap().split(|&byte| byte == b'/').next().unwrap().to_vec();
        first(one.lower().path()) == first(other.path())
    }
}

impl Layer for SplitFileSystem {
    type State = ();

    fn kind(&self) -> &'static str {
        "split"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn admit(&self, node: &LayerVnode<Self>, _: &Caller, operation: &layer::Operation<'_>) -> Result<()> {
        match operation {
            layer::Operation::Rename { to, .. } if !Self::is_one(node, to) => Err(Errno::EXDEV),
            layer::Operation::Link { target, .. } if !Self::is_one(node, target) => Err(Errno::EXDEV),
            _ => Ok(()),
        }
    }
}

#[test]
fn cross_device_moves_are_committed_as_copies() {
    let stack = memory();
    ["a/d/x", "a/d/e/y", "a/d/g/1", "a/s/z", "b/t/w", "b/s/"].iter().for_each(|path| fill(&stack, 0, path));
    let one = at(&stack, "a/d/g/1").unwrap();
    at(&stack, "a/d").unwrap().link(&server(), &one, name("2")).unwrap();
    at(&stack, "a/s").unwrap().link(&server(), &one, name("3")).unwrap();
    let scene = Scene::of(layer::stack(SplitFileSystem, stack));
    let seen = scene.seen();
    let (a, b) = (at(&seen, "a").unwrap(), at(&seen, "b").unwrap());
    a.rename(&server(), name("d"), &b, name("d"), RenameMode::Replace).unwrap();
    write(&at(&seen, "b/d/e").unwrap(), "y", b"new");
    at(&seen, "b/d").unwrap().rename(&server(), name("e"), &a, name("back"), RenameMode::Replace).unwrap();
    a.rename(&server(), name("s"), &b, name("t"), RenameMode::Exchange).unwrap();
    let before = tree(&seen);
    drop((seen, a, b));
    let (a, b) = (at(&scene.stack, "a").unwrap(), at(&scene.stack, "b").unwrap());
    let refused = a.rename(&server(), name("d"), &b, name("d"), RenameMode::Replace);
    assert_eq!(refused, Err(Errno::EXDEV));
    scene.commit().unwrap();
    assert_same(&before, &tree(&scene.stack), "committed");
}

#[test]
fn interrupted_commit_to_several_file_systems_is_completed() {
    let split = |left: &Arc<AtomicU64>, file_system| {
        layer::stack(SplitFileSystem, layer::stack(FailAfter(Arc::clone(left)), file_system))
    };
    // Links from one to another become files of their own.
    let without_links = |tree: Vec<String>| {
        let line = |line: &String| match (line.split_once(" links "), line.split_once(" size ")) {
            (Some((before, _)), Some((_, after))) => format!("{before} {after}"),
            _ => line.clone(),
        };
        tree.iter().map(line).collect()
    };
    commit_with_stops(split, |_, file_system| file_system, without_links);
}

fn paths(conflicts: &[Conflict]) -> Vec<(String, ForeignChange)> {
    conflicts.iter().map(|conflict| (String::from_utf8_lossy(&conflict.path).into_owned(), conflict.change)).collect()
}

fn conflicts(scene: &Scene) -> Vec<(String, ForeignChange)> {
    let before = tree(&scene.stack);
    match scene.commit() {
        Err(CommitError::Conflicts { conflicts, done: 0 }) => {
            assert_same(&before, &tree(&scene.stack), "with conflicts nothing is done");
            paths(&conflicts)
        }
        committed => panic!("{committed:?}"),
    }
}

#[test]
fn foreign_changes_are_conflicts() {
    if !rustix::process::geteuid().is_root() {
        // That something was removed is seen by its handle.
        eprintln!("skipped: needs root");
        return;
    }
    let files = ["a", "b", "c", "d/x", "d/y", "e/z", "g/h", "same", "other"];
    let scene = Scene::on_disk(|stack| files.iter().for_each(|path| fill(stack, 0, path)));
    let seen = scene.seen();
    let root = seen.root();
    let stack = scene.stack.root();
    write(&root, "a", b"fork");
    root.unlink(&server(), name("b")).unwrap();
    write(&root, "c", b"fork");
    write(&root, "n", b"fork");
    let d = at(&seen, "d").unwrap();
    d.unlink(&server(), name("x")).unwrap();
    d.unlink(&server(), name("y")).unwrap();
    root.rmdir(&server(), name("d")).unwrap();
    root.rename(&server(), name("g"), &root, name("moved"), RenameMode::Replace).unwrap();
    write(&root, "same", b"fork");
    drop((seen, root, d));
    write(&stack, "a", b"others");
    write(&stack, "b", b"others");
    stack.unlink(&server(), name("c")).unwrap();
    write(&stack, "n", b"others");
    write(&at(&scene.stack, "d").unwrap(), "new", b"others");
    stack.rename(&server(), name("g"), &stack, name("elsewhere"), RenameMode::Replace).unwrap();
    write(&stack, "other", b"others");
    write(&at(&scene.stack, "e").unwrap(), "new", b"others");
    let expected = [
        ("a", ForeignChange::Changed),
        ("b", ForeignChange::Changed),
        ("c", ForeignChange::Removed),
        ("d/new", ForeignChange::Changed),
        ("moved", ForeignChange::Removed),
        ("n", ForeignChange::Changed),
    ];
    assert_eq!(conflicts(&scene), expected.map(|(path, change)| (path.to_owned(), change)));
    let done = scene.fork().commit(&scene.options(true)).unwrap().changes;
    assert!(done > 0);
    assert_eq!(list(&scene.stack, ""), ["a", "c", "e", "elsewhere", "moved", "n", "other", "same"]);
    for (path, content) in [("a", "fork"), ("c", "forkc"), ("n", "fork"), ("same", "fork"), ("other", "others")] {
        assert!(read(&scene.stack, path).unwrap().starts_with(&content[..4]), "{path}");
    }
    assert_eq!((list(&scene.stack, "e"), list(&scene.stack, "moved")), (vec!["new".into(), "z".into()], vec![]));
}

#[test]
fn hard_linked_files_conflict_by_any_name() {
    let scene = Scene::with(&["a", "d/x"]);
    let (stack, server) = (scene.stack.root(), server());
    let a = at(&scene.stack, "a").unwrap();
    at(&scene.stack, "d").unwrap().link(&server, &a, name("b")).unwrap();
    let scene = Scene::of(scene.stack.clone());
    write(&scene.seen().root(), "a", b"fork");
    write(&at(&scene.stack, "d").unwrap(), "b", b"others");
    assert_eq!(
        conflicts(&scene),
        [("a".to_owned(), ForeignChange::Changed), ("d/b".to_owned(), ForeignChange::Changed)]
    );
    scene.fork().commit(&scene.options(true)).unwrap();
    assert_eq!(read(&scene.stack, "d/b").unwrap(), read(&scene.stack, "a").unwrap());
    assert_eq!(stack.lookup(&server, name("a")).unwrap().attributes.nlink, 2);
}

#[test]
fn unrelated_foreign_changes_stay() {
    let scene = Scene::with(&["d/mine", "d/theirs", "m/x"]);
    let seen = scene.seen();
    write(&at(&seen, "d").unwrap(), "mine", b"fork");
    seen.root().rename(&server(), name("m"), &at(&seen, "d").unwrap(), name("m"), RenameMode::Replace).unwrap();
    drop(seen);
    let d = at(&scene.stack, "d").unwrap();
    write(&d, "theirs", b"others");
    write(&d, "new", b"others");
    write(&at(&scene.stack, "m").unwrap(), "new", b"others");
    let changed = d.getattr(&server()).unwrap().mtime;
    scene.commit().unwrap();
    assert_eq!((list(&scene.stack, ""), list(&scene.stack, "d")), (v(&["d"]), v(&["m", "mine", "new", "theirs"])));
    assert_eq!(list(&scene.stack, "d/m"), v(&["new", "x"]));
    assert!(read(&scene.stack, "d/theirs").unwrap().starts_with("others"));
    assert!(d.getattr(&server()).unwrap().mtime >= changed);
}

#[test]
fn directories_are_swapped_and_nested() {
    let scene = Scene::with(&["a/1", "b/2", "c/d/e/3", "f"]);
    let seen = scene.seen();
    let (root, at) = (seen.root(), |path: &str| at(&seen, path).unwrap());
    let rename = |from: &VnodeRef, old, to: &VnodeRef, new, mode| {
        from.rename(&server(), name(old), to, name(new), mode).unwrap();
    };
    rename(&root, "a", &root, "b", RenameMode::Exchange);
    rename(&at("c/d"), "e", &root, "e", RenameMode::Replace);
    rename(&root, "c", &at("e"), "c", RenameMode::Replace);
    rename(&root, "f", &at("e/c"), "f", RenameMode::Replace);
    root.mkdir(&server(), name("f"), 0o700).unwrap();
    rename(&at("e"), "c", &at("f"), "c", RenameMode::Replace);
    let before = tree(&seen);
    drop((root, seen));
    scene.commit().unwrap();
    assert_same(&before, &tree(&scene.stack), "committed");
    assert_eq!((list(&scene.stack, "a"), list(&scene.stack, "b")), (v(&["2"]), v(&["1"])));
}

/// Such a program has nothing of the mount open, and can still change the file.
#[test]
fn a_fork_is_known_to_be_mapped_after_its_files_were_closed() {
    let scene = Scene::on_disk(|_| {});
    let fork = scene.fork();
    write(&fork.file_system().root(), "f", b"fork");
    let file = at(&fork.file_system(), "f").unwrap().open(&server(), OpenFlags::READ_WRITE).unwrap();
    let backing = file.backing().expect("the kernel can write it").as_raw_fd();
    // As the kernel opens it for the mapping.
    let mapping = std::fs::File::options().read(true).write(true).open(format!("/proc/self/fd/{backing}")).unwrap();
    drop(file);
    fork.file_system().end_of_use().unwrap();
    assert!(fork.is_mapped());
    drop(mapping);
    assert!(!fork.is_mapped());
}

#[test]
fn mark_names_are_ordinary_names_in_a_fork() {
    let scene = Scene::with(&[".wh.a", "a", ".wh..wh..opq", "d/.wh..wh.plyfs", "d/.wh.x"]);
    let seen = scene.seen();
    assert_eq!(list(&seen, ""), v(&[".wh..wh..opq", ".wh.a", "a", "d"]));
    write(&seen.root(), ".wh.b", b"fork");
    write(&at(&seen, "d").unwrap(), ".wh.x", b"fork");
    at(&seen, "d").unwrap().unlink(&server(), name(".wh..wh.plyfs")).unwrap();
    let before = tree(&seen);
    drop(seen);
    scene.commit().unwrap();
    assert_same(&before, &tree(&scene.stack), "committed");
    assert_eq!(list(&scene.stack, ""), v(&[".wh..wh..opq", ".wh.a", ".wh.b", "a", "d"]));
    assert_eq!(list(&scene.stack, "d"), v(&[".wh.x"]));
}

#[test]
fn fork_changed_after_interrupted_commit_is_committed() {
    let stack = memory();
    ["a", "b", "c"].iter().for_each(|path| fill(&stack, 0, path));
    let left = Arc::new(AtomicU64::new(u64::MAX));
    let scene = Scene::of(layer::stack(FailAfter(Arc::clone(&left)), stack));
    for file in ["a", "b", "c"] {
        write(&scene.seen().root(), file, b"first");
    }
    left.store(11, Ordering::SeqCst);
    assert!(matches!(scene.commit(), Err(CommitError::Stopped { done: 1.., .. })));
    left.store(u64::MAX, Ordering::SeqCst);
    for file in ["a", "b", "c"] {
        write(&scene.seen().root(), file, b"again");
    }
    scene.commit().unwrap();
    for file in ["a", "b", "c"] {
        assert!(read(&scene.stack, file).unwrap().starts_with("again"), "{file}");
    }
}

#[test]
fn foreign_changes_after_interrupted_commit_are_conflicts() {
    let stack = memory();
    ["a", "b", "c"].iter().for_each(|path| fill(&stack, 0, path));
    let left = Arc::new(AtomicU64::new(u64::MAX));
    let scene = Scene::of(layer::stack(FailAfter(Arc::clone(&left)), stack));
    let write_all = |file_system: &FileSystemRef, data: &[u8]| {
        ["a", "b", "c"].iter().for_each(|file| write(&file_system.root(), file, data));
    };
    write_all(&scene.seen(), b"first");
    left.store(11, Ordering::SeqCst);
    assert!(matches!(scene.commit(), Err(CommitError::Stopped { done: 1.., .. })));
    left.store(u64::MAX, Ordering::SeqCst);
    write_all(&scene.stack, b"others");
    write_all(&scene.seen(), b"again");
    let changed = ["a", "b", "c"].map(|path| (path.to_owned(), ForeignChange::Changed));
    assert_eq!(conflicts(&scene), changed);
}

#[test]
fn differences_include_attributes() {
    let scene = Scene::with(&["a", "d/x", "t"]);
    let seen = scene.seen();
    at(&seen, "a").unwrap().setxattr(&server(), b"user.x", b"1", XattrMode::Set).unwrap();
    at(&seen, "d").unwrap().setxattr(&server(), b"user.x", b"1", XattrMode::Set).unwrap();
    let time = SetTime::To(Timestamp { seconds: 1, nanoseconds: 2 });
    at(&seen, "t")
        .unwrap()
        .setattr(&server(), &SetAttributes { mtime: Some(time), ..SetAttributes::default() })
        .unwrap();
    drop(seen);
    let differences = scene.fork().differences().unwrap();
    let lines: Vec<String> = differences
        .iter()
        .map(|difference| format!("{} {}", difference.change.name(), String::from_utf8_lossy(&difference.path)))
        .collect();
    assert_eq!(lines, ["changed a", "changed d", "changed t"]);
}

fn v(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn foreign_changes_are_no_differences() {
    let scene = Scene::with(&["f"]);
    let fork = scene.fork();
    fill(&fork.file_system(), 1, "new");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // What changes faster than it can be looked at is told as it was seen.
                for number in 0..8 {
                    fill(&scene.stack, 0, &format!("theirs{number}"));
                }
                std::thread::sleep(Duration::from_micros(200));
                for number in 0..8 {
                    scene.stack.root().unlink(&server(), name(&format!("theirs{number}"))).unwrap();
                }
            }
        });
        let compare = || {
            for _ in 0..300 {
                let differences = fork.differences()?;
                let paths: Vec<_> = differences.iter().map(|one| String::from_utf8_lossy(&one.path)).collect();
                assert_eq!(paths, ["new"]);
            }
            Ok::<_, Errno>(())
        };
        let compared = std::panic::catch_unwind(std::panic::AssertUnwindSafe(compare));
        is_over.store(true, Ordering::Relaxed);
        assert!(matches!(compared, Ok(Ok(()))), "{compared:?}");
    });
}

#[test]
fn metadata_only_copies_are_committed_with_data() {
    let stack = memory();
    fill(&stack, 0, "d/f");
    let scene = Scene::of(stack);
    let branch = |file_system: &FileSystemRef, mode, label: &str| plyfs_layers::Branch {
        file_system: file_system.clone(),
        mode: Some(mode),
        label: label.to_owned(),
        minimum_free: None,
    };
    let branches = vec![
        branch(&scene.changes, plyfs_layers::BranchMode::ReadWrite, "changes"),
        branch(&scene.stack, plyfs_layers::BranchMode::ReadOnly, "stack"),
    ];
    let options = [("metacopy".to_owned(), "on".to_owned())];
    let union = plyfs_layers::kind("union").unwrap().join(&options, branches, None).unwrap();
    let root = union.root();
    at(&union, "d").unwrap().rename(&server(), name("f"), &root, name("g"), RenameMode::Replace).unwrap();
    assert_eq!(read(&scene.changes, "g").unwrap(), "\0\0\0\0\0");
    drop((root, union));
    let fork = Fork::new(scene.changes.clone(), scene.stack.clone()).unwrap();
    fork.commit(&CommitOptions { since: scene.since, force: false }).unwrap();
    assert_eq!(read(&scene.stack, "g").unwrap(), "0:d/f");
    assert_eq!(at(&scene.stack, "d/f").err(), Some(Errno::ENOENT));
}

#[test]
fn commit_with_unknown_journal_changes_nothing() {
    for line in [&b"begun 1-2\nexchange 1 2\n"[..], b"begun 1-2\nmove x y\n", b"\xff\n"] {
        let scene = Scene::with(&["a"]);
        write(&scene.seen().root(), "a", b"new");
        let state = at(&scene.changes, ".wh..wh.plyfs").unwrap();
        write(&state, "commit", line);
        let before = tree(&scene.stack);
        assert!(matches!(scene.commit(), Err(CommitError::Stopped { done: 0, .. })), "{}", line.escape_ascii());
        assert_same(&before, &tree(&scene.stack), "nothing is committed");
        let file = state.lookup(&server(), name("commit")).unwrap();
        assert_eq!(file.attributes.size, line.len() as u64, "the journal stays as it was");
    }
}

/// A file system whose disk may not take what was written.
struct UnsyncedFileSystem {
    below: FileSystemRef,
    /// How many more times it does.
    syncs: AtomicU64,
}

impl vnode::FileSystem for UnsyncedFileSystem {
    fn root(&self) -> VnodeRef {
        self.below.root()
    }

    fn resolve(&self, caller: &Caller, handle: &vnode::Handle) -> Result<VnodeRef> {
        self.below.resolve(caller, handle)
    }

    fn properties(&self) -> vnode::Properties {
        self.below.properties()
    }

    fn describe(&self) -> Vec<vnode::Description> {
        self.below.describe()
    }

    fn sync(&self) -> Result<()> {
        let left = self.syncs.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map(drop).or(Err(Errno::EIO))
    }
}

#[test]
fn unsynchronized_permission_change_is_no_conflict() {
    const ALWAYS_SYNCED: u64 = u64::MAX;
    for syncs in 0.. {
        let below = memory();
        fill(&below, 0, "d/x");
        let disk = Arc::new(UnsyncedFileSystem { below: below.clone(), syncs: AtomicU64::new(ALWAYS_SYNCED) });
        let scene = Scene::of(disk.clone());
        let mode = |mode| SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        at(&scene.seen(), "d").unwrap().setattr(&server(), &mode(0o750)).unwrap();
        let mode_now = || at(&below, "d").unwrap().getattr(&server()).unwrap().mode;
        let before = mode_now();
        disk.syncs.store(syncs, Ordering::SeqCst);
        let is_whole = scene.commit().is_ok();
        disk.syncs.store(ALWAYS_SYNCED, Ordering::SeqCst);
        if !is_whole {
            if mode_now() != before {
                // What a power cut leaves.
                at(&below, "d").unwrap().setattr(&server(), &mode(before)).unwrap();
            }
            scene.commit().unwrap_or_else(|error| panic!("the disk failed after {syncs} times: {error:?}"));
        }
        assert_eq!(mode_now(), 0o750, "{syncs} times");
        if is_whole {
            break;
        }
    }
}
