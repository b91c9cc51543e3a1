//! Operations on a union that are cancelled at each of their steps: the tree is as it was, or as it is to be, and nothing is left
//! half-way.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::steps::{Steps, Stepwise};
use common::unions::{joined_with, name, server};
use common::{contents, create, layer, list, memory, root, walk};
use plyfs_layers::BranchMode::{ReadOnly, ReadWrite};
use vnode::layer::stack;
use vnode::{
    Caller, CancellationSource, Control, Errno, FileKind, FileSystemRef, OpenFlags, RenameMode, Result, SetAttributes,
    XattrMode,
};

/// Several parts of what is copied at a time.
const FILE_BYTES: usize = 600 << 10;

/// A union of an empty branch and two that are only read, with `d/file` in the left one of these.
fn scene(options: &[(&str, &str)]) -> (FileSystemRef, FileSystemRef, Arc<Steps>) {
    let (steps, upper) = (Arc::new(Steps::default()), memory());
    let lower = || {
        let tree = memory();
        let d = tree.root().mkdir(&server(), name("d"), 0o755).unwrap().vnode;
        (tree, d)
    };
    let ((left, d), (right, beside)) = (lower(), lower());
    let (vnode, file) = create(&d, &root(), "file", 0o640);
    let data: Vec<u8> = (0..FILE_BYTES).map(|number| (number % 251) as u8).collect();
    file.write_at(&root(), 0, &data).unwrap();
    vnode.setxattr(&root(), b"user.note", b"value", XattrMode::Set).unwrap();
    create(&d, &root(), "small", 0o644).1.write_at(&root(), 0, b"small").unwrap();
    d.mkdir(&root(), name("empty"), 0o755).unwrap();
    create(&beside, &root(), "far", 0o644).1.write_at(&root(), 0, b"far").unwrap();
    let stepwise = |tree| stack(Stepwise(Arc::clone(&steps)), tree) as FileSystemRef;
    let branches =
        vec![(ReadWrite, stepwise(Arc::clone(&upper))), (ReadOnly, stepwise(left)), (ReadOnly, stepwise(right))];
    (joined_with(options, branches).union, upper, steps)
}

/// What is seen of a tree: the kind, mode, number of names, attributes and data of each path.
fn visible_tree(file_system: &FileSystemRef, path: &str) -> Vec<String> {
    let caller = root();
    let entry = walk(file_system, &caller, path).unwrap();
    let note = entry.vnode.getxattr(&caller, b"user.note");
    let (attributes, kind) = (&entry.attributes, entry.vnode.kind());
    let mut lines = vec![format!("{path} {kind:?} {:o} {} {note:?}", attributes.mode, attributes.nlink)];
    match kind {
        FileKind::Regular => {
            let data = contents(&entry.vnode, &caller);
            let sum = data.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
            lines.push(format!("{path} {} bytes {sum:x}", data.len()));
        }
        FileKind::Directory => {
            let names = list(&entry.vnode, &caller);
            let below = names.iter().filter(|name| !name.starts_with('.'));
            lines.extend(below.flat_map(|name| visible_tree(file_system, &format!("{path}/{name}"))));
        }
        _ => {}
    }
    lines
}

/// What is left in the work directory of a branch.
fn work_leftovers(branch: &FileSystemRef) -> Vec<String> {
    match walk(branch, &server(), ".wh..wh.plyfs/work") {
        Ok(work) => list(&work.vnode, &server()),
        Err(_) => Vec::new(),
    }
}

type Operation = fn(&FileSystemRef, &Caller) -> Result<()>;

const OPERATIONS: [(&str, Operation); 11] = [
    ("append", |union, caller| {
        let file = walk(union, caller, "d/file")?.vnode.open(caller, OpenFlags::READ_WRITE)?;
        file.write_at(caller, FILE_BYTES as u64, b"more").map(drop)
    }),
    ("mode", |union, caller| {
        let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        walk(union, caller, "d/file")?.vnode.setattr(caller, &mode).map(drop)
    }),
    ("truncate", |union, caller| {
        let size = SetAttributes { size: Some(400 << 10), ..SetAttributes::default() };
        walk(union, caller, "d/file")?.vnode.setattr(caller, &size).map(drop)
    }),
    ("open to truncate", |union, caller| {
        let flags = OpenFlags::WRITE.with(OpenFlags::TRUNCATE);
        walk(union, caller, "d/file")?.vnode.open(caller, flags).map(drop)
    }),
    ("attribute", |union, caller| {
        walk(union, caller, "d/file")?.vnode.setxattr(caller, b"user.note", b"another", XattrMode::Set)
    }),
    ("rename", |union, caller| {
        let d = walk(union, caller, "d")?.vnode;
        d.rename(caller, name("file"), &d, name("renamed"), RenameMode::NoReplace)
    }),
    ("link", |union, caller| {
        let (d, file) = (walk(union, caller, "d")?.vnode, walk(union, caller, "d/file")?.vnode);
        d.link(caller, &file, name("linked")).map(drop)
    }),
    ("unlink", |union, caller| walk(union, caller, "d")?.vnode.unlink(caller, name("file"))),
    ("rmdir", |union, caller| walk(union, caller, "d")?.vnode.rmdir(caller, name("empty"))),
    ("mkdir", |union, caller| walk(union, caller, "d")?.vnode.mkdir(caller, name("made"), 0o755).map(drop)),
    ("replace", |union, caller| {
        let d = walk(union, caller, "d")?.vnode;
        d.rename(caller, name("small"), &d, name("file"), RenameMode::Replace)
    }),
];

/// Enough for the operations that have most steps.
const MAX_STEPS: u64 = 2_000;

fn cancel_at_each_step(options: &[(&str, &str)]) {
    for (title, act) in OPERATIONS {
        let (union, _, steps) = scene(options);
        let before = visible_tree(&union, "d");
        assert_eq!(steps.run(0, |caller| act(&union, caller)).0, Ok(()), "{title}");
        let after = visible_tree(&union, "d");
        let mut interrupted = 0;
        for step in 1..MAX_STEPS {
            let (union, upper, steps) = scene(options);
            let (result, has_step) = steps.run(step, |caller| act(&union, caller));
            let expected = match result {
                Ok(()) => &after,
                Err(error) => {
                    assert_eq!(error, Errno::EINTR, "{title} at {step}");
                    interrupted += 1;
                    &before
                }
            };
            assert_eq!(&visible_tree(&union, "d"), expected, "{title} at {step}: {result:?}");
            assert_eq!(work_leftovers(&upper), [""; 0], "{title} at {step}: {result:?}");
            if result.is_err() {
                assert_eq!(steps.run(0, |caller| act(&union, caller)).0, Ok(()), "{title} after {step}");
                assert_eq!(visible_tree(&union, "d"), after, "{title} after {step}");
            }
            if !has_step {
                break;
            }
            assert!(step + 1 < MAX_STEPS, "{title} has no end");
        }
        assert!(interrupted > 0, "{title} is never cancelled");
    }
}

#[test]
fn cancellation_at_any_step_is_atomic() {
    cancel_at_each_step(&[]);
}

#[test]
fn metadata_only_copies_are_cancelled_at_any_step() {
    cancel_at_each_step(&[("metacopy", "on")]);
}

/// A union whose file takes long to be copied, with the branch that it is copied to.
fn slow_scene(rule: &str) -> (FileSystemRef, FileSystemRef, FileSystemRef) {
    let (upper, lower) = (memory(), memory());
    create(&lower.root(), &root(), "file", 0o644).1.write_at(&root(), 0, &vec![7; FILE_BYTES]).unwrap();
    let slow = layer("faulty", &[("operations", "read"), (rule, if rule == "stop" { "yes" } else { "200" })], lower);
    let scene = joined_with(&[], vec![(ReadWrite, Arc::clone(&upper)), (ReadOnly, Arc::clone(&slow))]);
    (scene.union, upper, slow)
}

#[test]
fn cancelled_waiter_does_not_stop_the_copy_of_another_caller() {
    let (union, upper, slow) = slow_scene("stop");
    let file = walk(&union, &root(), "file").unwrap().vnode;
    let (source, others) = (CancellationSource::new(), CancellationSource::new());
    let cancelled = root().cancelled_by(source.begin(1, 0));
    let also_cancelled = root().cancelled_by(others.begin(1, 0));
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| file.open(&root(), OpenFlags::READ_WRITE).map(drop));
        let is_stopped = || {
            let stats = Control { target: "faulty".to_owned(), command: "stats".to_owned(), arguments: Vec::new() };
            slow.control(&stats).unwrap().ends_with("stopped=1")
        };
        let end = Instant::now() + Duration::from_secs(60);
        while !is_stopped() {
            assert!(Instant::now() < end, "nobody copies");
            std::thread::sleep(Duration::from_millis(1));
        }
        let waiting = scope.spawn(|| file.open(&cancelled, OpenFlags::READ_WRITE).map(drop));
        let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        let (changed, waiting_too) = (&file, &also_cancelled);
        let changing = scope.spawn(move || changed.setattr(waiting_too, &mode).map(drop));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished() && !changing.is_finished());
        assert!(source.cancel(1) && others.cancel(1));
        assert_eq!((waiting.join().unwrap(), changing.join().unwrap()), (Err(Errno::EINTR), Err(Errno::EINTR)));
        assert!(!copying.is_finished());
        let off = Control { target: "faulty".to_owned(), command: "off".to_owned(), arguments: Vec::new() };
        slow.control(&off).unwrap();
        assert_eq!(copying.join().unwrap(), Ok(()));
    });
    assert_eq!(contents(&walk(&upper, &root(), "file").unwrap().vnode, &root()), vec![7; FILE_BYTES]);
}

#[test]
fn copy_from_slow_branch_is_cancelled() {
    for rule in ["stop", "delay"] {
        let (union, upper, slow) = slow_scene(rule);
        let file = walk(&union, &root(), "file").unwrap().vnode;
        let source = CancellationSource::new();
        let caller = root().cancelled_by(source.begin(1, 0));
        std::thread::scope(|scope| {
            let copying = scope.spawn(|| file.open(&caller, OpenFlags::READ_WRITE).map(drop));
            std::thread::sleep(Duration::from_millis(100));
            assert!(!copying.is_finished(), "{rule}");
            source.cancel(1);
            assert_eq!(copying.join().unwrap(), Err(Errno::EINTR), "{rule}");
        });
        assert_eq!(walk(&upper, &root(), "file").map(drop), Err(Errno::ENOENT), "{rule}");
        assert_eq!(work_leftovers(&upper), [""; 0], "{rule}");
        drop((union, slow));
    }
}
