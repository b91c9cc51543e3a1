//! Kept images of the branches of unions: what a version has written is shown by every later one, which leaves it as it is.
//!
//! `PLYFS_WRITE_IMAGE=1` writes those of the present versions again; those of former ones stay.

mod common;

use std::any::Any;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

use common::image::{dump, restore};
use common::interrupted::Interrupted;
use common::plain::{Lacks, NOTHING, without};
use common::unions::{Scene, at, fill, joined_with, list, name, server, write};
use common::{contents, memory};
use plyfs_layers::Branch;
use plyfs_layers::BranchMode::{ReadOnly, ReadWrite};
use plyfs_layers::fork::{CommitOptions, Fork};
use plyfs_layers::union::{CheckOptions, check};
use vnode::layer::{Layer, LayerVnode, stack};
use vnode::{
    Attributes, Caller, Control, FileKind, FileSystemRef, InodeNumber, OpenFile, OpenFileRef, OpenFlags, Promises,
    RenameMode, Result, SetAttributes, Timestamp, XattrMode,
};

type Options = &'static [(&'static str, &'static str)];

/// Images of the present versions, with the options of the union.
const PRESENT: [(&str, Options); 6] = [
    ("union", &[]),
    ("union-metacopy", &[("metacopy", "on")]),
    ("union-overlay", &[("whiteouts", "overlay"), ("metacopy", "on")]),
    ("union-stopped-rename", &[]),
    ("union-stopped-copy", &[]),
    ("union-stopped-snapshot", &[]),
];

/// Image of a fork whose commit was stopped: the branch of changes, then the stack.
const FORK: &str = "fork-stopped-commit";

/// Images of former versions: their registers had no roots, their histories and losses no version.
const FORMER: [(&str, Options); 1] = [("union-before-versions", &[])];

fn path(image: &str) -> PathBuf {
    PathBuf::from(format!("{}/tests/images/{image}", env!("CARGO_MANIFEST_DIR")))
}

/// Two branches: what comes from the right one loses its owner in the left one.
fn branches() -> [FileSystemRef; 2] {
    let branches = [memory(), memory()];
    let rights = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
    branches[0].root().setattr(&server(), &rights).unwrap();
    for file in ["kept", "changed", "removed", "named", "d/x", "d/y", "moved/below", "gone/x", "owned", "hidden/x"] {
        fill(&branches[1], 1, file);
    }
    let root = branches[1].root();
    root.link(&server(), &at(&branches[1], "named").unwrap(), name("named again")).unwrap();
    let owner = SetAttributes { uid: Some(5), ..SetAttributes::default() };
    at(&branches[1], "owned").unwrap().setattr(&server(), &owner).unwrap();
    branches
}

/// A union of these branches.
fn join(options: Options, left: &FileSystemRef, right: &FileSystemRef) -> Scene {
    joined_with(options, vec![(ReadWrite, left.clone()), (ReadOnly, right.clone())])
}

fn set_mode(union: &FileSystemRef, file: &str) {
    let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    at(union, file).unwrap().setattr(&server(), &mode).unwrap();
}

/// Changes some of everything, with snapshots in between.
fn change(scene: &Scene) {
    let (union, root) = (&scene.union, scene.union.root());
    write(&root, "changed", b"new");
    at(union, "changed").unwrap().setxattr(&server(), b"user.note", b"1", XattrMode::Set).unwrap();
    root.unlink(&server(), name("removed")).unwrap();
    set_mode(union, "named");
    set_mode(union, "owned");
    root.symlink(&server(), name("link"), b"changed").unwrap();
    write(&root, ".wh.mine", b"not a whiteout");
    at(union, "gone").unwrap().unlink(&server(), name("x")).unwrap();
    root.rmdir(&server(), name("gone")).unwrap();
    root.mkdir(&server(), name("gone"), 0o755).unwrap();
    scene.tell("snapshot-take", &[("name", "first-one")]).unwrap();
    root.rename(&server(), name("moved"), &at(union, "d").unwrap(), name("here"), RenameMode::Replace).unwrap();
    at(union, "d").unwrap().unlink(&server(), name("x")).unwrap();
    scene.tell("snapshot-take", &[("name", "second")]).unwrap();
    write(&root, "new", b"new");
}

/// Stops a union in the middle of an operation, at the first call that leaves the left branch so.
fn stop(
    branches: &[FileSystemRef],
    operation: impl Fn(&FileSystemRef),
    is_left: impl Fn(&FileSystemRef) -> bool,
) -> Vec<FileSystemRef> {
    let image: String = branches.iter().map(dump).collect();
    let stopped = (1..1_000).find_map(|call| {
        let (restored, interrupted) = (restore(&image), Interrupted::default());
        let left = stack(DirectlyWritten, stack(interrupted.clone(), restored[0].clone()));
        let scene = join(&[], &left, &restored[1]);
        interrupted.stop(call, true);
        operation(&scene.union);
        drop(scene);
        is_left(&restored[0]).then_some(restored)
    });
    stopped.unwrap()
}

/// A layer whose open files the kernel may write directly, as it takes them to be in a file system on a disk.
struct DirectlyWritten;

impl Layer for DirectlyWritten {
    type State = ();

    fn kind(&self) -> &'static str {
        "directly-written"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn open(&self, node: &LayerVnode<Self>, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        let file = node.forward_open(caller, flags)?;
        Ok(Arc::new(DirectFile { file, backing: std::fs::File::open("/dev/null").unwrap() }))
    }
}

/// A file that the kernel may write directly; here it does not.
struct DirectFile {
    file: OpenFileRef,
    backing: std::fs::File,
}

impl OpenFile for DirectFile {
    fn read_at(&self, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.file.read_at(caller, offset, buffer)
    }

    fn getattr(&self, caller: &Caller) -> Result<Attributes> {
        self.file.getattr(caller)
    }

    fn backing(&self) -> Option<BorrowedFd<'_>> {
        Some(self.backing.as_fd())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Takes a snapshot while the kernel may be writing a file.
fn take_beside_writer(union: &FileSystemRef) {
    let Ok(file) = at(union, "made/inside").and_then(|file| file.open(&server(), OpenFlags::READ_WRITE)) else {
        return;
    };
    if file.backing().is_some() {
        let arguments = [("name".to_owned(), "stopped".to_owned())].into();
        let take = Control { target: "union".to_owned(), command: "snapshot-take".to_owned(), arguments };
        let _ = union.control(&take);
    }
}

/// Returns whether a branch has a record of files in use, and one of them in the work directory in the place of its copy.
fn has_kept(branch: &FileSystemRef) -> bool {
    let number = |path: &str| Some(at(branch, path).ok()?.getattr(&server()).ok()?.ino);
    let copies = list(branch, ".wh..wh.plyfs/work").into_iter().filter(|entry| entry.starts_with("copy."));
    let mut numbers = copies.map(|entry| number(&format!(".wh..wh.plyfs/work/{entry}")));
    // The copy is younger.
    has_work(branch, "kept.") && numbers.any(|of_file| of_file.is_some() && of_file < number("made/inside"))
}

/// Returns whether an entry that begins so is in the work directory of a branch.
fn has_work(branch: &FileSystemRef, beginning: &str) -> bool {
    list(branch, ".wh..wh.plyfs/work").iter().any(|entry| entry.starts_with(beginning))
}

/// The branches of an image, as the present version leaves them.
fn written(image: &str, options: Options) -> Vec<FileSystemRef> {
    let [left, right] = branches();
    let scene = join(options, &without(Lacks { owners: true, ..NOTHING }, left.clone()), &right);
    if !image.starts_with("union-stopped") {
        change(&scene);
        return vec![left, right];
    }
    at(&scene.union, "hidden").unwrap().unlink(&server(), name("x")).unwrap();
    scene.union.root().mkdir(&server(), name("made"), 0o755).unwrap();
    write(&at(&scene.union, "made").unwrap(), "inside", b"made");
    drop(scene);
    let branches = [left, right];
    if image == "union-stopped-copy" {
        let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        let copy = |union: &FileSystemRef| {
            let _ = at(union, "changed").and_then(|file| file.setattr(&server(), &mode));
        };
        return stop(&branches, copy, |left| has_work(left, "copy."));
    }
    if image == "union-stopped-snapshot" {
        return stop(&branches, take_beside_writer, has_kept);
    }
    let rename = |union: &FileSystemRef| {
        let root = union.root();
        let _ = root.rename(&server(), name("made"), &root, name("hidden"), RenameMode::Replace);
    };
    // The rename is made, and what it replaces is still to be removed.
    stop(&branches, rename, |left| has_work(left, "record.") && at(left, "hidden/inside").is_ok())
}

/// What users see of a union: a line for each name, and the snapshots.
fn seen(scene: &Scene) -> String {
    format!("{}\n{}\n", seen_tree(&scene.union), scene.tell("snapshots", &[]).unwrap())
}

/// What users see of a file system: a line for each name.
fn seen_tree(file_system: &FileSystemRef) -> String {
    let mut lines = Vec::new();
    let mut first_names: HashMap<InodeNumber, String> = HashMap::new();
    let mut open = vec![(String::new(), file_system.root())];
    while let Some((path, directory)) = open.pop() {
        for entry in list(file_system, &path) {
            let path = format!("{path}/{entry}");
            let vnode = directory.lookup(&server(), name(&entry)).unwrap().vnode;
            let Attributes { kind, mode, uid, nlink, ino, .. } = vnode.getattr(&server()).unwrap();
            let first = first_names.entry(ino).or_insert_with(|| path.clone());
            let content = match kind {
                FileKind::Regular => contents(&vnode, &server()),
                FileKind::Symlink => vnode.readlink(&server()).unwrap(),
                _ => Vec::new(),
            };
            let xattrs = vnode.listxattr(&server()).unwrap().escape_ascii().to_string();
            lines.push(match kind {
                FileKind::Directory => format!("{path}: {kind:?} {mode:o} {uid}"),
                _ => format!("{path}: {kind:?} {mode:o} {uid} {nlink} {first} {} {xattrs}", content.escape_ascii()),
            });
            if kind == FileKind::Directory {
                open.push((path, vnode));
            }
        }
    }
    lines.sort();
    lines.join("\n")
}

/// Writes an image: what users see, then each branch.
fn write_image(image: &str, options: Options) {
    let written: String = written(image, options).iter().map(dump).collect();
    let branches = restore(&written);
    let seen = seen(&join(options, &branches[0], &branches[1]));
    std::fs::create_dir_all(path("")).unwrap();
    std::fs::write(path(image), seen + &written).unwrap();
}

#[test]
fn images_of_each_version_show_what_they_did_and_stay() {
    if std::env::var_os("PLYFS_WRITE_IMAGE").is_some() {
        PRESENT.iter().for_each(|(image, options)| write_image(image, options));
    }
    for (image, options) in PRESENT.into_iter().chain(FORMER) {
        let text = std::fs::read_to_string(path(image)).unwrap();
        let expected = &text[..text.find("file-system ").unwrap()];
        let branches = restore(&text);
        let state = || branches.iter().map(dump).collect::<String>();
        let restored = state();
        let seen_once = || seen(&join(options, &branches[0], &branches[1]));
        assert_eq!(seen_once(), expected, "{image}");
        let opened = state();
        let is_changed = image.contains("stopped") || FORMER.contains(&(image, options));
        assert!(is_changed || opened == restored, "{image}: opening it has changed it");
        assert_eq!(seen_once(), expected, "{image}, again");
        assert_eq!(state(), opened, "{image}: opening it again has changed it");
        assert_eq!(problems(&branches), [""; 0], "{image}");
    }
}

/// Returns a fork that has its changes in the first of these file systems.
fn fork(file_systems: &[FileSystemRef]) -> Fork {
    Fork::new(file_systems[0].clone(), file_systems[1].clone()).unwrap()
}

/// Commits whatever others have changed: what is restored from an image is as new.
fn commit(fork: &Fork) -> bool {
    fork.commit(&CommitOptions { since: Timestamp::now(), force: true }).is_ok()
}

/// What users saw in a fork, and its file systems, the commit of which was stopped when some of it was done.
fn written_fork() -> (String, Vec<FileSystemRef>) {
    let begun = branches();
    fork(&begun).hold(true).unwrap();
    {
        let union = fork(&begun).file_system();
        let root = union.root();
        write(&root, "changed", b"new");
        root.unlink(&server(), name("removed")).unwrap();
        root.rename(&server(), name("moved"), &at(&union, "d").unwrap(), name("here"), RenameMode::Replace).unwrap();
        set_mode(&union, "named");
        write(&root, "new", b"new");
    }
    let (expected, image) = (seen_tree(&fork(&begun).file_system()), begun.iter().map(dump).collect::<String>());
    let stopped = (1..1_000).find_map(|call| {
        let (restored, interrupted) = (restore(&image), Interrupted::default());
        let below = stack(interrupted.clone(), restored[1].clone());
        interrupted.stop(call, true);
        assert!(!commit(&Fork::new(restored[0].clone(), below).unwrap()), "it is over before it is stopped");
        let is_begun = at(&restored[0], ".wh..wh.plyfs/commit").is_ok();
        (is_begun && at(&restored[1], "d/here").is_ok() && at(&restored[1], "removed").is_ok()).then_some(restored)
    });
    (expected, stopped.unwrap())
}

#[test]
fn image_of_a_fork_stays_and_its_commit_is_finished() {
    if std::env::var_os("PLYFS_WRITE_IMAGE").is_some() {
        let (expected, written) = written_fork();
        std::fs::write(path(FORK), expected + "\n" + &written.iter().map(dump).collect::<String>()).unwrap();
    }
    let text = std::fs::read_to_string(path(FORK)).unwrap();
    let expected = text[..text.find("file-system ").unwrap()].strip_suffix('\n').unwrap();
    let restored = restore(&text);
    let state = || restored.iter().map(dump).collect::<String>();
    let before = state();
    seen_tree(&fork(&restored).file_system());
    assert_eq!(state(), before, "opening it has changed it");
    assert!(commit(&fork(&restored)));
    assert_eq!(seen_tree(&restored[1]), expected);
}

/// What the check finds in the branches.
fn problems(branches: &[FileSystemRef]) -> Vec<String> {
    let branch = |(index, mode): (usize, _)| Branch {
        file_system: branches[index].clone(),
        mode: Some(mode),
        label: format!("branch {index}"),
        minimum_free: None,
    };
    let mut found = Vec::new();
    check([(0, ReadWrite), (1, ReadOnly)].map(branch).into(), &CheckOptions::default(), &mut |finding| {
        found.push(format!("{}: {:?}", finding.path.escape_ascii(), finding.problem));
    })
    .unwrap();
    found
}

/// As documented in docs/formats/union-branch.md.
#[test]
fn documented_record_of_files_in_use_is_that_of_the_image() {
    const FORMAT_DOCUMENTATION: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/union-branch.md"));
    let documented = FORMAT_DOCUMENTATION.split("```\n").find(|block| block.starts_with("plyfs kept 1\n")).unwrap();
    let branches = restore(&std::fs::read_to_string(path("union-stopped-snapshot")).unwrap());
    let record = contents(&at(&branches[0], ".wh..wh.plyfs/work/kept.1").unwrap(), &server());
    assert_eq!((documented.as_bytes(), documented.len()), (&record[..], 55));
}

/// What a union of the present version changes, it writes in the present form; nothing of the former is lost.
#[test]
fn image_of_a_former_version_is_written_anew_when_it_changes() {
    let (image, options) = FORMER[0];
    let branches = restore(&std::fs::read_to_string(path(image)).unwrap());
    let first_line = |file: &str| {
        let text = contents(&at(&branches[0], &format!(".wh..wh.plyfs/{file}")).unwrap(), &server());
        String::from_utf8(text).unwrap().lines().next().unwrap().to_owned()
    };
    assert_eq!(first_line("branches"), "plyfs branches 1");
    assert!(first_line("history").ends_with(" first one"));
    let scene = join(options, &branches[0], &branches[1]);
    let before = seen(&scene);
    scene.tell("snapshot-take", &[("name", "third")]).unwrap();
    let after = seen(&scene);
    assert_eq!(["branches", "history"].map(first_line), ["plyfs branches 2", "plyfs history 1"]);
    let tree = |seen: &str| seen.lines().filter(|line| line.starts_with('/')).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(tree(&before), tree(&after));
    drop(scene);
    assert_eq!(seen(&join(options, &branches[0], &branches[1])), after);
}
