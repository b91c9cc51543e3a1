//! A branch that may be changed is changed by one union only: others are refused, or read it.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bases::dir::{DirectoryFileSystem, Options};
use common::unions::{Scene, at, fill, joined, list, server, write};
use common::{layer, memory};
use plyfs_layers::only_described;
use plyfs_layers::union::{CheckError, CheckOptions, check};
use plyfs_layers::{Branch, BranchMode, OptionError, OptionProblem, Refusal};
use tempfile::TempDir;
use vnode::{Control, ControlError, FileSystemRef, OpenFlags, SetAttributes};

use BranchMode::{NoCreate, ReadOnly, ReadWrite};

/// How a branch is opened: anew each time, where it is on a disk.
type OpenBranch<'a> = &'a dyn Fn() -> FileSystemRef;

fn branch(file_system: FileSystemRef, mode: BranchMode, label: &str) -> Branch {
    Branch { file_system, mode: Some(mode), label: label.to_owned(), minimum_free: None }
}

fn union(branches: Vec<Branch>) -> Result<FileSystemRef, OptionError> {
    plyfs_layers::kind("union").unwrap().join(&[], branches, None)
}

fn send_command(union: &FileSystemRef, command: &str, arguments: &[(&str, &str)]) -> Result<String, ControlError> {
    let arguments = arguments.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    union.control(&Control { target: "union".to_owned(), command: command.to_owned(), arguments })
}

fn directory(place: &TempDir) -> FileSystemRef {
    Arc::new(DirectoryFileSystem::open(place.path(), Options::default()).unwrap())
}

fn chmod(union: &FileSystemRef, path: &str) -> vnode::Result<()> {
    let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    at(union, path)?.setattr(&server(), &mode).map(drop)
}

/// Does so with each kind of branch: on a disk, in memory, below layers, and a union.
fn for_each_base(test: impl Fn(&str, OpenBranch<'_>)) {
    let place = tempfile::tempdir().unwrap();
    test("dir", &|| directory(&place));
    test("dir below layers", &|| layer("longnames", &[], layer("rot13", &[], directory(&place))));
    let below = memory();
    test("mem", &|| below.clone());
    let inner = union(vec![branch(memory(), ReadWrite, "inner")]).unwrap();
    test("union", &|| inner.clone());
}

fn refusal_of(made: Result<FileSystemRef, OptionError>) -> Option<(String, Refusal)> {
    match made.err()? {
        OptionError { key, problem: OptionProblem::RefusedBranch(why), .. } => Some((key, why)),
        other => panic!("{other}"),
    }
}

#[test]
fn claimed_branch_is_refused_to_other_unions() {
    for_each_base(|kind, open| {
        let one = union(vec![branch(open(), ReadWrite, "shared")]).unwrap();
        let mode = if kind == "mem" { NoCreate } else { ReadWrite };
        let other = union(vec![branch(memory(), ReadWrite, "own"), branch(open(), mode, "shared")]);
        assert_eq!(refusal_of(other), Some(("shared".to_owned(), Refusal::InUse)), "{kind}");
        let options = CheckOptions::default();
        let checked = check(vec![branch(open(), ReadWrite, "shared")], &options, &mut |_| {});
        assert_eq!(checked, Err(CheckError::InUse("shared".to_owned())), "{kind}");
        assert_eq!(list(&open(), ""), Vec::<String>::new(), "{kind}: nothing is written for that");
        let reading = union(vec![branch(memory(), ReadWrite, "own"), branch(open(), ReadOnly, "shared")]);
        assert!(reading.is_ok(), "{kind}: it may be read");
        let described = only_described(|| union(vec![branch(open(), ReadWrite, "shared")]));
        assert!(described.is_ok(), "{kind}: it may be described");
        drop(one);
        assert!(union(vec![branch(open(), ReadWrite, "shared")]).is_ok(), "{kind}");
    });
}

#[test]
fn union_cannot_write_one_branch_twice() {
    for_each_base(|kind, open| {
        let twice = |mode| union(vec![branch(open(), ReadWrite, "one"), branch(open(), mode, "other")]);
        assert_eq!(refusal_of(twice(ReadWrite)), Some(("other".to_owned(), Refusal::InUse)), "{kind}");
        assert!(twice(ReadOnly).is_ok(), "{kind}");
    });
}

#[test]
fn new_union_waits_for_an_ending_one() {
    for_each_base(|kind, open| {
        let ending = union(vec![branch(open(), ReadWrite, "shared")]).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                drop(ending);
            });
            assert!(union(vec![branch(open(), ReadWrite, "shared")]).is_ok(), "{kind}");
        });
    });
}

#[test]
fn branch_is_claimed_and_released_with_its_mode() {
    let (shared, other) = (memory(), memory());
    let reader = joined(vec![(ReadWrite, memory()), (ReadOnly, shared.clone())]);
    let writer = joined(vec![(ReadWrite, shared.clone()), (ReadOnly, other.clone())]);
    let is_refused = |answer: Result<String, ControlError>, label: &str| match answer {
        Err(ControlError::Refused(why)) => assert!(why.contains(label) && why.contains("another union"), "{why}"),
        other => panic!("{other:?}"),
    };
    is_refused(reader.tell("mode", &[("branch", "branch 1"), ("mode", "rw")]), "branch 1");
    reader.offer("more", &shared);
    is_refused(reader.tell("add", &[("branch", "more=rw")]), "more");
    reader.tell("add", &[("branch", "more=ro")]).unwrap();
    reader.tell("remove", &[("branch", "more")]).unwrap();
    is_refused(reader.tell("view-add", &[("branch", "more=rw"), ("uid", "7")]), "more");
    // Left, and taken over.
    writer.tell("mode", &[("branch", "branch 0"), ("mode", "ro")]).unwrap();
    reader.tell("mode", &[("branch", "branch 1"), ("mode", "rw")]).unwrap();
    is_refused(writer.tell("mode", &[("branch", "branch 0"), ("mode", "rw")]), "branch 0");
    reader.tell("remove", &[("branch", "branch 1")]).unwrap();
    writer.tell("mode", &[("branch", "branch 0"), ("mode", "nc")]).unwrap();
    writer.tell("mode", &[("branch", "branch 0"), ("mode", "rw")]).unwrap();
    is_refused(reader.tell("add", &[("branch", "more=rw")]), "more");
    // A command that is refused for something else leaves no claim.
    reader.offer("free", &other);
    reader.tell("add", &[("branch", "free=rw"), ("at", "7")]).unwrap_err();
    writer.tell("mode", &[("branch", "branch 1"), ("mode", "rw")]).unwrap();
    drop(writer);
    reader.tell("view-add", &[("branch", "more=rw"), ("uid", "7")]).unwrap();
    assert!(union(vec![branch(shared.clone(), ReadWrite, "shared")]).is_err(), "a view writes it");
    reader.tell("view-remove", &[("branch", "more")]).unwrap();
    assert!(union(vec![branch(shared, ReadWrite, "shared")]).is_ok());
}

#[test]
fn foreign_state_is_reread_when_a_branch_becomes_writable() {
    let shared = memory();
    fill(&shared, 0, "d/kept");
    let first = joined(vec![(ReadWrite, shared.clone()), (ReadOnly, memory())]);
    fill(&first.branches[1], 1, "low/file");
    first.tell("mode", &[("branch", "branch 0"), ("mode", "ro")]).unwrap();
    let low = memory();
    fill(&low, 2, "low/file");
    let second = joined(vec![(ReadWrite, shared.clone()), (ReadOnly, low)]);
    chmod(&second.union, "low/file").unwrap();
    second.tell("snapshot-take", &[("name", "s")]).unwrap();
    drop(second);
    let refused = first.tell("mode", &[("branch", "branch 0"), ("mode", "rw")]);
    assert!(matches!(&refused, Err(ControlError::Refused(why)) if why.contains("snapshots")), "{refused:?}");
    let third = joined(vec![(ReadWrite, shared), (ReadOnly, memory())]);
    third.tell("snapshot-drop", &[("name", "s")]).unwrap();
    drop(third);
}

#[test]
fn reader_notices_first_write_by_another_union() {
    let (shared, low) = (memory(), memory());
    fill(&low, 1, "d/f");
    let directory = at(&low, "d").unwrap();
    directory.link(&server(), &at(&low, "d/f").unwrap(), common::unions::name("g")).unwrap();
    let reader = joined(vec![(ReadOnly, shared.clone()), (ReadOnly, low.clone())]);
    let seen = || {
        let seen = |path: &str| at(&reader.union, path).unwrap().getattr(&server()).unwrap();
        ["d/f", "d/g"].map(seen).map(|file| (file.ino, file.mode & 0o777, file.nlink))
    };
    let before = seen();
    assert_eq!(before, [(before[0].0, 0o644, 2); 2]);
    let writer = joined(vec![(ReadWrite, shared), (ReadOnly, low)]);
    chmod(&writer.union, "d/f").unwrap();
    // One file by both names, and the one that it was.
    let (expected, deadline) = ([(before[0].0, 0o600, 2); 2], Instant::now() + Duration::from_secs(10));
    while seen() != expected && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(seen(), expected);
}

#[test]
fn data_of_foreign_metadata_only_copies_become_read_only() {
    let (shared, low, top) = (memory(), memory(), memory());
    fill(&low, 2, "f");
    fill(&low, 2, "more");
    let reader = joined(vec![(ReadWrite, top), (ReadOnly, shared.clone()), (ReadWrite, low.clone())]);
    let mode = SetAttributes { mode: Some(0o640), ..SetAttributes::default() };
    at(&reader.union, "more").unwrap().setattr(&server(), &mode).unwrap();
    assert_eq!(at(&low, "more").unwrap().getattr(&server()).unwrap().mode & 0o777, 0o640, "it is changed where it is");
    let options = [("metacopy", "on")];
    let writer = common::unions::joined_with(&options, vec![(ReadWrite, shared.clone()), (ReadOnly, low.clone())]);
    chmod(&writer.union, "f").unwrap();
    assert!(list(&shared, ".wh..wh.plyfs").contains(&"metacopies".to_owned()));
    let deadline = Instant::now() + Duration::from_secs(10);
    let is_kept = || {
        chmod(&reader.union, "more").unwrap();
        at(&reader.branches[0], "more").is_ok()
    };
    while !is_kept() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(is_kept(), "it is copied");
}

/// A union that writes `low` where files are, and another that makes a metadata-only copy whose data are there.
fn unions_sharing_data(low_files: &[&str]) -> (Scene, Scene) {
    let (shared, low, top) = (memory(), memory(), memory());
    low_files.iter().for_each(|file| fill(&low, 2, file));
    let reader = joined(vec![(ReadWrite, top), (ReadOnly, shared.clone()), (ReadWrite, low.clone())]);
    list(&reader.union, "");
    let options = [("metacopy", "on")];
    let writer = common::unions::joined_with(&options, vec![(ReadWrite, shared), (ReadOnly, low)]);
    chmod(&writer.union, "f").unwrap();
    (reader, writer)
}

#[test]
fn open_file_continues_in_a_copy_once_its_branch_holds_foreign_data() {
    let (reader, _writer) = unions_sharing_data(&["f", "more"]);
    let file = at(&reader.union, "more").unwrap().open(&server(), OpenFlags::READ_WRITE).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    // Only written to: nothing that is asked by its name makes the union look.
    while at(&reader.branches[0], "more").is_err() && Instant::now() < deadline {
        list(&reader.union, "");
        file.write_at(&server(), 0, b"new").unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(at(&reader.branches[0], "more").is_ok(), "it is copied");
}

#[test]
fn foreign_changes_seen_by_a_view_reach_the_mount_union() {
    const VIEWER: u32 = 7;
    let (reader, writer) = unions_sharing_data(&["f", "more"]);
    reader.offer("private", &memory());
    reader.tell("view-add", &[("branch", "private=rw"), ("uid", &VIEWER.to_string())]).unwrap();
    // From now on, for longer than anything is believed, only who has the view asks.
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        common::list(&reader.union.root(), &common::user(VIEWER));
        std::thread::sleep(Duration::from_millis(50));
    }
    chmod(&reader.union, "more").unwrap();
    assert!(at(&reader.branches[0], "more").is_ok(), "it is copied");
    drop(writer);
}

#[test]
fn written_branch_without_claims_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let silent = || -> FileSystemRef { Arc::new(common::Shared(directory(&place))) };
    let left = memory();
    let open = || vec![branch(left.clone(), ReadOnly, "left"), branch(silent(), ReadWrite, "silent")];
    let (one, other) = (union(open()).unwrap(), union(open()).unwrap());
    drop(other);
    // What needs the work directory locks it.
    send_command(&one, "snapshot-take", &[("name", "s")]).unwrap();
    let begin = Instant::now();
    assert_eq!(refusal_of(union(open())), Some(("silent".to_owned(), Refusal::InUse)));
    assert!(begin.elapsed() < Duration::from_secs(10));
    drop(one);
    assert!(union(open()).is_ok());
}

#[test]
fn failed_layer_recovery_is_retried() {
    let below = memory();
    let right = memory();
    fill(&right, 1, "low");
    let make = |branch: FileSystemRef| joined(vec![(ReadWrite, branch), (ReadOnly, right.clone())]);
    let first = make(below.clone());
    chmod(&first.union, "low").unwrap();
    first.tell("snapshot-take", &[("name", "s")]).unwrap();
    drop(first);
    write(&at(&below, ".wh..wh.plyfs/work").unwrap(), "7", b"left over");
    let faulty = layer("faulty", &[("operations", "create"), ("error", "EIO")], below.clone());
    let union = make(faulty);
    assert_eq!(list(&below, ".wh..wh.plyfs/work"), ["7"], "it could not be done");
    let off = Control { target: "faulty".to_owned(), command: "off".to_owned(), arguments: Vec::new() };
    union.union.control(&off).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !list(&below, ".wh..wh.plyfs/work").is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
        chmod(&union.union, "low").unwrap();
    }
    assert_eq!(list(&below, ".wh..wh.plyfs/work"), Vec::<String>::new());
}
