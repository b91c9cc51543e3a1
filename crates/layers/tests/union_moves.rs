//! Moves of objects between the branches of a union: drain, balance, full branches.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use common::{contents, layer, list, memory, name, small_memory, walk};
use plyfs_layers::{Branch, BranchMode};
use vnode::{
    Caller, Control, ControlError, Creation, Errno, FileSystemRef, OpenFlags, SetAttributes, VnodeRef, XattrMode,
};

use BranchMode::{ReadOnly, ReadWrite};

fn server() -> Caller {
    Caller::server()
}

fn join(options: &[(&str, &str)], branches: &[(&FileSystemRef, BranchMode)]) -> FileSystemRef {
    let options: Vec<_> = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let branch = |(index, (file_system, mode)): (usize, &(&FileSystemRef, BranchMode))| Branch {
        file_system: (*file_system).clone(),
        mode: Some(*mode),
        label: format!("/{index}"),
        minimum_free: None,
    };
    let branches = branches.iter().enumerate().map(branch).collect();
    plyfs_layers::kind("union").unwrap().join(&options, branches, None).unwrap_or_else(|error| panic!("{error}"))
}

fn tell(union: &FileSystemRef, command: &str, arguments: &[(&str, &str)]) -> Result<String, ControlError> {
    let arguments = arguments.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    union.control(&Control { target: "union".to_owned(), command: command.to_owned(), arguments })
}

fn drain(union: &FileSystemRef, branch: &str) -> String {
    tell(union, "drain", &[("branch", branch)]).unwrap()
}

/// Creates a file, with the directories above it, in a branch; a path that ends with a slash is a directory.
fn fill(file_system: &FileSystemRef, path: &str, data: &str) {
    let (above, file) = path.rsplit_once('/').unwrap_or(("", path));
    let mut directory = file_system.root();
    for part in above.split('/').filter(|part| !part.is_empty()) {
        directory = match directory.mkdir(&server(), name(part), 0o755) {
            Ok(entry) => entry.vnode,
            Err(Errno::EEXIST) => directory.lookup(&server(), name(part)).unwrap().vnode,
            Err(error) => panic!("{path}: {error}"),
        };
    }
    if !file.is_empty() {
        let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
        let created = directory.create(&server(), name(file), &how).unwrap();
        created.file.write_at(&server(), 0, data.as_bytes()).unwrap();
    }
}

fn at(file_system: &FileSystemRef, path: &str) -> VnodeRef {
    walk(file_system, &server(), path).unwrap_or_else(|error| panic!("{path}: {error}")).vnode
}

fn read(file_system: &FileSystemRef, path: &str) -> String {
    String::from_utf8(contents(&at(file_system, path), &server())).unwrap()
}

/// Numbers of the branches that have an object.
fn having(branches: &[&FileSystemRef], path: &str) -> Vec<usize> {
    (0..branches.len()).filter(|index| walk(branches[*index], &server(), path).is_ok()).collect()
}

#[test]
fn drained_branch_has_nothing_that_users_see() {
    for drained in 0..3 {
        let branches = [memory(), memory(), memory()];
        let (one, other) = ((drained + 1) % 3, (drained + 2) % 3);
        fill(&branches[drained], "d/e/file", "data");
        fill(&branches[drained], "top", "top");
        fill(&branches[drained], "empty/", "");
        fill(&branches[one], "d/old", "old");
        fill(&branches[other], "x", "x");
        at(&branches[drained], "d/e").symlink(&server(), name("link"), b"target").unwrap();
        let mode = SetAttributes { mode: Some(0o4711), ..SetAttributes::default() };
        at(&branches[drained], "d/e/file").setattr(&server(), &mode).unwrap();
        let closed = SetAttributes { mode: Some(0o700), ..SetAttributes::default() };
        at(&branches[drained], "empty").setattr(&server(), &closed).unwrap();

        let [first, second, third] = &branches;
        let union = join(&[], &[(first, ReadWrite), (second, ReadWrite), (third, ReadWrite)]);
        let before = at(&union, "d/e/file").getattr(&server()).unwrap();
        let open = at(&union, "d/e/file").open(&server(), OpenFlags::READ_WRITE).unwrap();
        let report = drain(&union, &drained.to_string());
        assert!(report.starts_with("objects moved: 3 ") && report.ends_with("stay: 0\n"), "{drained}: {report}");
        open.write_at(&server(), 4, b" and more").unwrap();
        assert_eq!(read(&union, "d/e/file"), "data and more", "{drained}: an open file follows");
        let after = at(&union, "d/e/file").getattr(&server()).unwrap();
        assert_eq!(
            (after.ino, after.uid, after.mode & 0o111),
            (before.ino, before.uid, before.mode & 0o111),
            "{drained}"
        );
        assert_eq!(drain(&union, &drained.to_string()), "objects moved: 0 (0 bytes); objects that stay: 0\n");

        tell(&union, "remove", &[("branch", &format!("/{drained}"))]).unwrap();
        assert_eq!(read(&union, "d/e/file"), "data and more");
        assert_eq!(
            (read(&union, "top"), read(&union, "d/old"), read(&union, "x")),
            ("top".into(), "old".into(), "x".into())
        );
        assert_eq!(at(&union, "d/e/link").readlink(&server()).unwrap(), b"target");
        assert_eq!(at(&union, "empty").getattr(&server()).unwrap().mode & 0o777, 0o700, "{drained}");
        assert_eq!(at(&union, "d/e/file").getattr(&server()).unwrap().ino, before.ino, "{drained}");
        let left: Vec<String> = list(&branches[drained].root(), &server());
        assert!(!left.contains(&"top".to_owned()), "{left:?}");
    }
}

#[test]
fn drain_reports_what_stays_and_loses_nothing() {
    let (drained, other) = (memory(), memory());
    fill(&drained, "both", "above");
    fill(&other, "both", "below");
    fill(&drained, "d/one", "linked");
    at(&drained, "d").link(&server(), &at(&drained, "d/one"), name("two")).unwrap();
    fill(&drained, "free", "free");
    fill(&drained, ".wh.gone", "");
    fill(&other, "gone", "hidden");
    let union = join(&[], &[(&drained, ReadWrite), (&other, ReadWrite)]);
    let report = drain(&union, "/0");
    let stays: Vec<&str> = report.lines().filter_map(|line| line.strip_prefix("stays ")?.split(':').next()).collect();
    let mut sorted = stays.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [".wh.gone", "both", "d/one", "d/two"], "{report}");
    assert!(report.ends_with("objects moved: 1 (4 bytes); objects that stay: 4\n"), "{report}");
    assert_eq!(
        (read(&union, "both"), read(&union, "d/two"), read(&union, "free")),
        ("above".into(), "linked".into(), "free".into())
    );
    assert_eq!(walk(&union, &server(), "gone").map(drop), Err(Errno::ENOENT));
    let list = tell(&union, "branches", &[]).unwrap();
    assert!(list.starts_with("/0=nc\n"), "nothing is created in it: {list}");
}

/// Sets an attribute of an object.
fn mark(object: &VnodeRef) {
    object.setxattr(&server(), b"user.mark", b"1", XattrMode::Set).unwrap();
}

#[test]
fn what_another_branch_cannot_have_in_full_stays() {
    for drained in [0, 1] {
        let without = layer("faulty", &[("operations", "setxattr"), ("error", "EOPNOTSUPP")], memory());
        let branches = if drained == 0 { [memory(), without] } else { [without, memory()] };
        fill(&branches[drained], "marked", "marked");
        fill(&branches[drained], "plain", "plain");
        mark(&at(&branches[drained], "marked"));
        let union = join(&[], &[(&branches[0], ReadWrite), (&branches[1], ReadWrite)]);
        let report = drain(&union, &drained.to_string());
        assert!(report.starts_with("stays marked: ") && report.ends_with("stay: 1\n"), "{drained}: {report}");
        assert_eq!(having(&[&branches[0], &branches[1]], "marked"), [drained]);
        assert_eq!(having(&[&branches[0], &branches[1]], "plain"), [1 - drained]);
        assert!(at(&union, "marked").getxattr(&server(), b"user.mark").is_ok());
    }
}

#[test]
fn directories_of_a_drained_branch_leave_others_nothing_that_they_had_lost() {
    let (drained, other) = (memory(), memory());
    fill(&drained, "d/", "");
    fill(&other, "d/", "");
    mark(&at(&other, "d"));
    let union = join(&[], &[(&drained, ReadWrite), (&other, ReadWrite)]);
    assert_eq!(at(&union, "d").getxattr(&server(), b"user.mark"), Err(Errno::ENODATA));
    drain(&union, "/0");
    tell(&union, "remove", &[("branch", "/0")]).unwrap();
    assert_eq!(at(&union, "d").getxattr(&server(), b"user.mark"), Err(Errno::ENODATA));
}

/// A hidden object with the identity of the moved one need not be the rest of an interrupted move.
#[test]
fn hidden_data_that_differ_are_never_removed() {
    let (one, other) = (memory(), memory());
    fill(&one, "f", "old");
    let union = join(&[], &[(&other, ReadWrite), (&one, ReadOnly)]);
    let file = at(&union, "f").open(&server(), OpenFlags::READ_WRITE).unwrap();
    file.write_at(&server(), 0, b"changed").unwrap();
    drop((file, union));
    let union = join(&[], &[(&one, ReadWrite), (&other, ReadWrite)]);
    let report = drain(&union, "/0");
    assert!(report.starts_with("stays f: "), "{report}");
    assert_eq!((read(&one, "f"), read(&other, "f")), ("old".into(), "changed".into()));
}

#[test]
fn drain_is_refused_without_a_branch_that_could_receive() {
    let (one, other) = (memory(), memory());
    let union = join(&[], &[(&one, ReadWrite), (&other, ReadOnly)]);
    for (branch, reason) in [("/0", "no other rw branch"), ("/1", "may not be changed"), ("/7", "there is no branch")] {
        let error = tell(&union, "drain", &[("branch", branch)]).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert!(tell(&union, "branches", &[]).unwrap().starts_with("/0=rw\n"), "nothing was changed");
}

#[test]
fn drained_files_stay_readable_and_writable_meanwhile() {
    const FILES: usize = 60;
    let branches = [memory(), memory()];
    for file in 0..FILES {
        fill(&branches[0], &format!("d{}/f{file}", file % 7), &format!("{file}:"));
    }
    let union = join(&[], &[(&branches[0], ReadWrite), (&branches[1], ReadWrite)]);
    let written = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        for worker in 0..3 {
            let (union, written) = (&union, &written);
            scope.spawn(move || {
                for round in 0..4 {
                    for file in (worker..FILES).step_by(3) {
                        let path = format!("d{}/f{file}", file % 7);
                        let open = at(union, &path).open(&server(), OpenFlags::READ_WRITE).unwrap();
                        let offset = 3 + round;
                        open.write_at(&server(), offset, b"x").unwrap();
                        written.fetch_add(1, Ordering::Relaxed);
                        assert!(read(union, &path).starts_with(&format!("{file}:")), "{path}");
                    }
                }
            });
        }
        scope.spawn(|| while drain(&union, "/0") != "objects moved: 0 (0 bytes); objects that stay: 0\n" {});
    });
    assert_eq!(written.load(Ordering::Relaxed), FILES * 4);
    for file in 0..FILES {
        let path = format!("d{}/f{file}", file % 7);
        let data = read(&union, &path);
        assert!(data.starts_with(&format!("{file}:")) && data.ends_with("xxxx"), "{path}: {data:?}");
        assert_eq!(having(&[&branches[0], &branches[1]], &path), [1]);
    }
}

#[test]
fn consolidated_directories_are_in_one_branch_each() {
    let branches = [memory(), memory(), memory()];
    fill(&branches[0], "a/short", "1");
    fill(&branches[1], "a/long", &"1".repeat(9000));
    fill(&branches[0], "a/b/long", &"2".repeat(9000));
    fill(&branches[1], "a/b/short", "2");
    fill(&branches[2], "a/b/kept", &"3".repeat(99_000));
    fill(&branches[0], "other/1", "1");
    fill(&branches[1], "other/2", "2");
    let [first, second, third] = &branches;
    let union = join(&[], &[(first, ReadWrite), (second, ReadWrite), (third, ReadOnly)]);
    let report = tell(&union, "consolidate", &[("path", "a")]).unwrap();
    assert_eq!(report, "objects moved: 2 (2 bytes); objects that stay: 0\n");
    let having = |path| having(&[first, second, third], path);
    assert_eq!(["a/short", "a/long", "a/b/long", "a/b/short", "a/b/kept"].map(having), [[1], [1], [0], [0], [2]]);
    assert_eq!([having("other/1"), having("other/2")], [[0], [1]]);
    assert_eq!((read(&union, "a/short"), read(&union, "a/b/short")), ("1".into(), "2".into()));
    assert!(tell(&union, "consolidate", &[("path", "a/short")]).is_err());
}

#[test]
fn balance_moves_files_from_the_fullest_branch() {
    let branches = [small_memory(8 << 20), small_memory(8 << 20)];
    for file in 0..24 {
        fill(&branches[1], &format!("d/{file}"), &"x".repeat(256 << 10));
    }
    let union = join(&[("create", "most-free")], &[(&branches[0], ReadWrite), (&branches[1], ReadWrite)]);
    let report = tell(&union, "balance", &[("within", "10")]).unwrap();
    assert!(report.starts_with("objects moved: "), "{report}");
    let used = |branch: &FileSystemRef| {
        let space = branch.root().statfs(&server()).unwrap();
        (space.blocks - space.blocks_free) * 100 / space.blocks
    };
    assert!(used(&branches[0]).abs_diff(used(&branches[1])) <= 11, "{} {}", used(&branches[0]), used(&branches[1]));
    assert_eq!(list(&at(&union, "d"), &server()).len(), 24);
    assert_eq!(
        tell(&union, "balance", &[("within", "10")]).unwrap(),
        "objects moved: 0 (0 bytes); objects that stay: 0\n"
    );
    let error = tell(&union, "balance", &[("within", "0")]).unwrap_err().to_string();
    assert!(error.contains("percentage"), "{error}");
}

#[test]
fn written_file_moves_from_a_full_branch_to_the_best_other() {
    let branches = [small_memory(2 << 20), small_memory(1 << 20), small_memory(8 << 20)];
    for (when_full, expected) in
        [("move-most-free", Some(2)), ("move-leftmost", Some(0)), ("move", Some(0)), ("fail", None)]
    {
        let branches: Vec<FileSystemRef> = branches
            .iter()
            .map(|branch| {
                let space = branch.root().statfs(&server()).unwrap();
                small_memory(space.blocks * u64::from(space.fragment_size))
            })
            .collect();
        fill(&branches[1], "file", "start");
        let union = join(
            &[("when-full", when_full)],
            &[(&branches[0], ReadWrite), (&branches[1], ReadWrite), (&branches[2], ReadWrite)],
        );
        let open = at(&union, "file").open(&server(), OpenFlags::READ_WRITE).unwrap();
        let data = vec![b'x'; 1200 << 10];
        let written = (0..12).try_for_each(|part| {
            let piece = &data[part * (100 << 10)..(part + 1) * (100 << 10)];
            vnode::write_fully(&*open, &server(), 5 + (part * (100 << 10)) as u64, piece)
        });
        let found = having(&[&branches[0], &branches[1], &branches[2]], "file");
        match expected {
            Some(branch) => assert_eq!((written, found), (Ok(()), vec![branch]), "{when_full}"),
            None => assert_eq!((written, found), (Err(Errno::ENOSPC), vec![1]), "{when_full}"),
        }
        assert!(read(&union, "file").starts_with("start"), "{when_full}");
    }
}
