//! Kept images of the branches of unions: what a version has written is shown by every later one, which leaves it as it is.
//!
//! `PLYFS_WRITE_IMAGE=1` writes those of the present versions again; those of former ones stay.

mod common;

use std::collections::HashMap;
use std::path::PathBuf;

use common::image::{dump, restore};
use common::interrupted::Interrupted;
use common::plain::{Lacks, NOTHING, without};
use common::unions::{Scene, at, fill, joined_with, list, name, server, write};
use common::{contents, memory};
use plyfs_layers::Branch;
use plyfs_layers::BranchMode::{ReadOnly, ReadWrite};
use plyfs_layers::union::{CheckOptions, check};
use vnode::{Attributes, FileKind, FileSystemRef, InodeNumber, RenameMode, SetAttributes, XattrMode};

type Options = &'static [(&'static str, &'static str)];

/// Images of the present versions, with the options of the union.
const PRESENT: [(&str, Options); 5] = [
    ("union", &[]),
    ("union-metacopy", &[("metacopy", "on")]),
    ("union-overlay", &[("whiteouts", "overlay"), ("metacopy", "on")]),
    ("union-stopped-rename", &[]),
    ("union-stopped-copy", &[]),
];

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
    scene.tell("snapshot-take", &[("name", "first one")]).unwrap();
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
        let scene = join(&[], &vnode::layer::stack(interrupted.clone(), restored[0].clone()), &restored[1]);
        interrupted.stop(call, true);
        operation(&scene.union);
        drop(scene);
        is_left(&restored[0]).then_some(restored)
    });
    stopped.unwrap()
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
    let rename = |union: &FileSystemRef| {
        let root = union.root();
        let _ = root.rename(&server(), name("made"), &root, name("hidden"), RenameMode::Replace);
    };
    // The rename is made, and what it replaces is still to be removed.
    stop(&branches, rename, |left| has_work(left, "record.") && at(left, "hidden/inside").is_ok())
}

/// What users see: a line for each name, and the snapshots.
fn seen(scene: &Scene) -> String {
    let mut lines = Vec::new();
    let mut first_names: HashMap<InodeNumber, String> = HashMap::new();
    let mut open = vec![(String::new(), scene.union.root())];
    while let Some((path, directory)) = open.pop() {
        for entry in list(&scene.union, &path) {
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
    lines.push(scene.tell("snapshots", &[]).unwrap());
    lines.join("\n") + "\n"
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

/// What the check finds in the branches.
fn problems(branches: &[FileSystemRef]) -> Vec<String> {
    let branch = |(index, mode): (usize, _)| Branch {
        file_system: branches[index].clone(),
        mode: Some(mode),
        label: format!("branch {index}"),
    };
    let mut found = Vec::new();
    check([(0, ReadWrite), (1, ReadOnly)].map(branch).into(), &CheckOptions::default(), &mut |finding| {
        found.push(format!("{}: {:?}", finding.path.escape_ascii(), finding.problem));
    })
    .unwrap();
    found
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
