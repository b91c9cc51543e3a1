//! Snapshots of a union: what they keep while the union goes on changing.
//!
//! `MODEL_SEED` replays a failure of the random test, `MODEL_STEPS` says how many steps are made.

mod common;
#[path = "../../bases/tests/model/operation.rs"]
mod operation;
#[path = "../../bases/tests/model/side.rs"]
mod side;

use common::memory;
use common::unions::{Scene, at, fill, joined, joined_with, list, name, read, scene, server, write};
use fastrand::Rng;
use operation::{Action, Operation};
use plyfs_layers::BranchMode::{ReadOnly, ReadWrite};
use side::Side;
use vnode::{Errno, FileSystemRef, OpenFlags, RenameMode};

const STEPS: usize = 20_000;
/// How many steps are made between two commands.
const STEPS_PER_COMMAND: usize = 60;

fn take(scene: &Scene, snapshot: &str) {
    scene.tell("snapshot-take", &[("name", snapshot)]).unwrap();
}

/// `added path`, one a line.
fn diff(scene: &Scene, from: &str, to: Option<&str>) -> Vec<String> {
    let to = to.map(|to| ("to", to));
    let arguments: Vec<_> = [("from", from)].into_iter().chain(to).collect();
    let answer: serde_json::Value = serde_json::from_str(&scene.tell("snapshot-diff", &arguments).unwrap()).unwrap();
    let word = |entry: &serde_json::Value, key: &str| entry[key].as_str().unwrap().to_owned();
    answer
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| format!("{} {}", word(entry, "change"), word(entry, "path")))
        .collect()
}

fn names(scene: &Scene) -> Vec<String> {
    let answer: serde_json::Value = serde_json::from_str(&scene.tell("snapshots", &[]).unwrap()).unwrap();
    answer.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn snapshot_is_preserved_and_restored() {
    let scene = scene(&[(ReadWrite, &["a", "d/x", "d/y"]), (ReadOnly, &["b", "d/z"])]);
    let ino = at(&scene.union, "d/x").unwrap().getattr(&server()).unwrap().ino;
    take(&scene, "first");
    let root = scene.union.root();
    write(&at(&scene.union, "d").unwrap(), "x", b"new");
    write(&root, "n", b"new");
    root.unlink(&server(), name("b")).unwrap();
    root.rename(&server(), name("a"), &at(&scene.union, "d").unwrap(), name("a"), RenameMode::Replace).unwrap();
    assert_eq!(
        diff(&scene, "first", None),
        ["deleted a", "deleted b", "added d/a", "changed d/x", "added n"].map(str::to_owned)
    );
    assert_eq!(read(&scene.branches[0], "d/x").unwrap(), "0:d/x", "the frozen layer stays as it is");
    assert_eq!(at(&scene.union, "d/x").unwrap().getattr(&server()).unwrap().ino, ino);
    take(&scene, "second");
    root.unlink(&server(), name("n")).unwrap();
    assert_eq!(diff(&scene, "second", None), ["deleted n".to_owned()]);
    assert_eq!(diff(&scene, "first", Some("second")).len(), 5);
    assert_eq!(names(&scene), ["first", "second"]);
    scene.tell("snapshot-restore", &[("name", "first")]).unwrap();
    assert_eq!(names(&scene), ["first"]);
    assert_eq!((list(&scene.union, ""), list(&scene.union, "d")), (v(&["a", "b", "d"]), v(&["x", "y", "z"])));
    assert_eq!(read(&scene.union, "d/x").unwrap(), "0:d/x");
    assert_eq!(at(&scene.union, "d/x").unwrap().getattr(&server()).unwrap().ino, ino);
    assert!(diff(&scene, "first", None).is_empty());
}

#[test]
fn writes_to_open_files_do_not_reach_the_snapshot() {
    let scene = scene(&[(ReadWrite, &["d/x"])]);
    let file = at(&scene.union, "d/x").unwrap().open(&server(), OpenFlags::READ_WRITE).unwrap();
    take(&scene, "s");
    file.write_at(&server(), 0, b"new").unwrap();
    assert_eq!(read(&scene.union, "d/x").unwrap(), "new/x");
    scene.tell("snapshot-restore", &[("name", "s")]).unwrap();
    assert_eq!(read(&scene.union, "d/x").unwrap(), "0:d/x");
    let mut buffer = [0; 3];
    file.read_at(&server(), 0, &mut buffer).unwrap();
    assert_eq!(&buffer, b"0:d", "whoever has it open goes back as well");
}

#[test]
fn open_file_shows_restored_state() {
    for branches in [&[(ReadWrite, &["d/x"][..])][..], &[(ReadWrite, &[]), (ReadOnly, &["d/x"])]] {
        let scene = scene(branches);
        let original = read(&scene.union, "d/x").unwrap();
        let open = |flags| at(&scene.union, "d/x").unwrap().open(&server(), flags).unwrap();
        let (reads, writes) = (open(OpenFlags::READ), open(OpenFlags::READ_WRITE));
        take(&scene, "s");
        writes.write_at(&server(), 0, b"new").unwrap();
        scene.tell("snapshot-restore", &[("name", "s")]).unwrap();
        for file in [reads, writes] {
            let mut buffer = [0; 5];
            file.read_at(&server(), 0, &mut buffer).unwrap();
            assert_eq!(std::str::from_utf8(&buffer).unwrap(), original);
        }
    }
}

#[test]
fn deep_trees_are_merged() {
    const DEPTH: usize = 5_000;
    let scene = scene(&[(ReadWrite, &[])]);
    let deepest = |file_system: &FileSystemRef| {
        let mut directory = file_system.root();
        while let Ok(found) = directory.lookup(&server(), name("d")) {
            directory = found.vnode;
        }
        directory
    };
    let mut directory = scene.union.root();
    for _ in 0..DEPTH {
        directory = directory.mkdir(&server(), name("d"), 0o755).unwrap().vnode;
    }
    write(&directory, "f", b"old");
    drop(directory);
    take(&scene, "1");
    // All directories above it come to the new layer.
    write(&deepest(&scene.union), "g", b"new");
    take(&scene, "2");
    write(&deepest(&scene.union), "h", b"newest");
    take(&scene, "3");
    scene.union.root().rename(&server(), name("d"), &scene.union.root(), name("e"), RenameMode::Replace).unwrap();
    scene.union.root().rename(&server(), name("e"), &scene.union.root(), name("d"), RenameMode::Replace).unwrap();
    assert_eq!(diff(&scene, "1", None).len(), 2);
    scene.tell("snapshot-drop", &[("name", "2")]).unwrap();
    scene.tell("snapshot-merge", &[]).unwrap();
    assert_eq!(common::list(&deepest(&scene.branches[0]), &server()), ["f", "g", "h"]);
}

#[test]
fn drop_and_merge_keep_the_visible_state() {
    let scene = scene(&[(ReadWrite, &["d/x", "e/y"]), (ReadOnly, &["d/z", "f/g"])]);
    let root = scene.union.root();
    take(&scene, "1");
    root.rename(&server(), name("d"), &root, name("moved"), RenameMode::Replace).unwrap();
    root.unlink(&server(), name("f")).err();
    at(&scene.union, "f").unwrap().unlink(&server(), name("g")).unwrap();
    take(&scene, "2");
    write(&at(&scene.union, "moved").unwrap(), "new", b"n");
    root.rmdir(&server(), name("f")).unwrap();
    take(&scene, "3");
    root.mkdir(&server(), name("f"), 0o755).unwrap();
    let seen = || (list(&scene.union, ""), list(&scene.union, "moved"), list(&scene.union, "f"));
    let before = seen();
    assert_eq!(before, (v(&["e", "f", "moved"]), v(&["new", "x", "z"]), v(&[])));
    scene.tell("snapshot-drop", &[("name", "2")]).unwrap();
    assert_eq!((names(&scene), seen()), (v(&["1", "3"]), before.clone()));
    scene.tell("snapshot-merge", &[]).unwrap();
    assert_eq!((names(&scene), seen()), (v(&[]), before));
    assert_eq!(list(&scene.branches[0], "moved"), v(&["new", "x"]));
    root.unlink(&server(), name("nothing")).unwrap_err();
}

/// Forgetting a snapshot changes nothing that users see, wherever the rest of a moved directory lies, and whatever hides what
/// is on the right of the way to it.
#[test]
fn moved_directories_are_complete_after_drop() {
    struct SnapshotCase {
        name: &'static str,
        upper: &'static [&'static str],
        lower: &'static [&'static str],
        before: &'static [&'static str],
        after: &'static [&'static str],
    }
    let cases = [
        SnapshotCase {
            name: "the rest is in a directory that has been moved before",
            upper: &[],
            lower: &["x/b/f", "x/g"],
            before: &["mv x a"],
            after: &["mv a/b c"],
        },
        SnapshotCase {
            name: "the same, and it moves into another that was moved",
            upper: &["y/h"],
            lower: &["x/b/f", "y/z/i"],
            before: &["mv x a", "mv y e"],
            after: &["mv a/b e/b", "mv e/z a/z", "mv e k"],
        },
        SnapshotCase {
            name: "it moves into a directory that was made anew",
            upper: &["a/old", "x/y/u"],
            lower: &["a/older", "x/y/f"],
            before: &[],
            after: &["rm a/old", "rm a/older", "rmdir a", "mkdir a", "mv x/y a/y"],
        },
        SnapshotCase {
            name: "two such directories, one in the other",
            upper: &["a/old", "x/y/u", "b/c/o"],
            lower: &["a/older", "x/y/f", "b/c/p"],
            before: &["mv b q"],
            after: &["rm a/old", "rm a/older", "rmdir a", "mkdir a", "mkdir a/n", "mv x/y a/n/y", "mv q/c a/n/y/c"],
        },
        SnapshotCase {
            name: "a name is removed from one that was moved beside its whiteout",
            upper: &[],
            lower: &["e/f", "e/g", "d"],
            before: &["rm d", "mv e d"],
            after: &["rm d/f"],
        },
        SnapshotCase {
            name: "directories change places",
            upper: &["a/u", "b/v"],
            lower: &["a/f", "b/g", "b/c/h"],
            before: &["mv a t", "mv b a", "mv t b"],
            after: &["mv a/c t", "mv a s", "mv b a", "mv s b", "mv t b/c"],
        },
        SnapshotCase {
            name: "the rest is gone below",
            upper: &["a/u/w"],
            lower: &["a/f"],
            before: &["rm a/f", "mv a b"],
            after: &["mv b/u c", "mv b d", "mv d c/d"],
        },
    ];
    for SnapshotCase { name: case, upper, lower, before, after } in cases {
        for whiteouts in ["names", "overlay"] {
            let (left, right) = (memory(), memory());
            upper.iter().for_each(|path| fill(&left, 0, path));
            lower.iter().for_each(|path| fill(&right, 1, path));
            let scene = joined_with(&[("whiteouts", whiteouts)], vec![(ReadWrite, left), (ReadOnly, right)]);
            before.iter().for_each(|command| change(&scene, command));
            take(&scene, "s");
            let kept = seen(&scene);
            after.iter().for_each(|command| change(&scene, command));
            let expected = seen(&scene);
            assert_ne!(kept, expected);
            scene.tell("snapshot-drop", &[("name", "s")]).unwrap();
            assert_eq!(seen(&scene), expected, "{case}, whiteouts={whiteouts}");
            let branches = [ReadWrite, ReadOnly].into_iter().zip(scene.branches.clone()).collect();
            drop(scene);
            let again = joined_with(&[("whiteouts", whiteouts)], branches);
            assert_eq!(seen(&again), expected, "{case}, whiteouts={whiteouts}, in another union");
        }
    }
}

/// Where overlayfs has noted that the rest of a directory is beside it, that is so wherever the directory then moves.
#[test]
fn overlayfs_moves_are_complete_after_drop() {
    for after in [&["mv d q/d"][..], &["mv d/e q/e"], &["mv d/e e", "mv d q/d", "mv e q/d/e"]] {
        let (left, right) = (memory(), memory());
        fill(&left, 0, "q/h");
        ["x/f", "x/e/g"].iter().for_each(|path| fill(&right, 1, path));
        let moved = left.root().mkdir(&server(), name("d"), 0o755).unwrap().vnode;
        moved.setxattr(&server(), b"trusted.overlay.redirect", b"x", vnode::XattrMode::Set).unwrap();
        fill(&left, 0, ".wh.x");
        let scene = joined(vec![(ReadWrite, left), (ReadOnly, right)]);
        assert_eq!(seen(&scene).len(), 6, "{:?}", seen(&scene));
        take(&scene, "s");
        after.iter().for_each(|command| change(&scene, command));
        let expected = seen(&scene);
        scene.tell("snapshot-drop", &[("name", "s")]).unwrap();
        assert_eq!(seen(&scene), expected, "{after:?}");
    }
}

/// A file with several names that was copied before a snapshot can be renamed, replaced and removed by each of them after it.
#[test]
fn hard_links_of_copied_file_can_be_changed_after_a_snapshot() {
    for command in ["mv n d/g", "mv d/g n", "mv d/g d/h", "mv d/h d/g", "mv f d/g", "mv d/g f", "rm d/g"] {
        let right = memory();
        ["f", "d/h", "n"].iter().for_each(|path| fill(&right, 1, path));
        let directory = at(&right, "d").unwrap();
        directory.link(&server(), &at(&right, "f").unwrap(), name("g")).unwrap();
        let scene = joined_with(&[], vec![(ReadWrite, memory()), (ReadOnly, right)]);
        let root = scene.union.root();
        write(&root, "f", b"0");
        take(&scene, "s");
        let before = seen(&scene);
        change(&scene, command);
        let words: Vec<&str> = command.split(' ').collect();
        let line = |path: &str| before.iter().find_map(|line| line.strip_prefix(&format!("/{path}: "))).unwrap();
        // rename(2) does nothing if both are names of one file.
        let is_same = words.len() == 3 && line(words[1]) == line(words[2]);
        let moved = words.get(2).map(|to| format!("/{to}: {}", line(words[1])));
        let is_other =
            |line: &&String| is_same || !words[1..].iter().any(|path| line.starts_with(&format!("/{path}: ")));
        let mut expected: Vec<String> = before.iter().filter(is_other).cloned().chain(moved).collect();
        expected.sort();
        expected.dedup();
        let now = || {
            let mut now = seen(&scene);
            now.sort();
            now
        };
        assert_eq!(now(), expected, "{command}");
        scene.tell("snapshot-merge", &[]).unwrap();
        assert_eq!(now(), expected, "{command}, after a merge");
    }
}

/// The names of a file that was copied while its branch was frozen, or only read, stay names of one file when the branch is written
/// again.
#[test]
fn hard_links_lead_to_the_copy_when_the_branch_is_writable_again() {
    let all = [&[][..], &[("delete", "all")], &[("whiteouts", "overlay")]];
    for (options, by_mode) in all.into_iter().flat_map(|options| [(options, false), (options, true)]) {
        for command in ["", "mv d/g n", "mv n d/g", "mv d/g d/h", "mv f d/g", "mv d/g f", "rm d/g", "rm f", "mv n f"] {
            let case = format!("{options:?}, {by_mode}, {command}");
            let right = memory();
            ["f", "d/h", "n"].iter().for_each(|path| fill(&right, 1, path));
            at(&right, "d").unwrap().link(&server(), &at(&right, "f").unwrap(), name("g")).unwrap();
            let mode = if by_mode { ReadOnly } else { ReadWrite };
            let scene = joined_with(options, vec![(ReadWrite, memory()), (mode, right)]);
            take(&scene, "s");
            write(&scene.union.root(), "f", b"new");
            scene.tell("snapshot-drop", &[("name", "s")]).unwrap();
            if by_mode {
                scene.tell("mode", &[("branch", "branch 1"), ("mode", "rw")]).unwrap();
            }
            let number =
                |path: &str| at(&scene.union, path).unwrap().getattr(&server()).map(|one| (one.ino, one.nlink));
            assert_eq!(read(&scene.union, "d/g").unwrap(), "new", "{case}");
            assert_eq!(number("d/g"), number("f"), "{case}");
            assert_eq!(number("f").unwrap().1, 2, "{case}");
            if !command.is_empty() {
                change(&scene, command);
            }
            // What is written by one name is read by each that is left.
            let left: Vec<_> = ["f", "d/g", "d/h", "n"]
                .into_iter()
                .filter(|path| read(&scene.union, path).is_ok_and(|text| text == "new"))
                .collect();
            assert!(!left.is_empty(), "{case}: {:?}", seen(&scene));
            let files = at(&scene.union, left[0]).unwrap().open(&server(), OpenFlags::READ_WRITE).unwrap();
            files.write_at(&server(), 0, b"more").unwrap();
            for path in &left {
                assert_eq!(read(&scene.union, path).unwrap(), "more", "{case}: {left:?}, {path}");
                assert_eq!(number(path).unwrap().1 as usize, left.len(), "{case}: {left:?}, {path}");
            }
            assert_eq!(
                left.len(),
                if command.starts_with("rm") || command.starts_with("mv n") { 1 } else { 2 },
                "{case}: {left:?}"
            );
        }
    }
}

/// Does what a command of a shell does.
fn change(scene: &Scene, command: &str) {
    let words: Vec<&str> = command.split(' ').collect();
    let place = |path: &str| {
        let (above, last) = path.rsplit_once('/').unwrap_or(("", path));
        (at(&scene.union, above).unwrap(), last.to_owned())
    };
    let (directory, last) = place(words[1]);
    let done = match words[0] {
        "rm" => directory.unlink(&server(), name(&last)),
        "rmdir" => directory.rmdir(&server(), name(&last)),
        "mkdir" => directory.mkdir(&server(), name(&last), 0o755).map(drop),
        "mv" => {
            let (to, to_last) = place(words[2]);
            directory.rename(&server(), name(&last), &to, name(&to_last), RenameMode::Replace)
        }
        other => panic!("no command {other}"),
    };
    done.unwrap_or_else(|error| panic!("{command}: {error}"));
}

/// The paths that users see, and what files hold.
fn seen(scene: &Scene) -> Vec<String> {
    fn walk(scene: &Scene, path: &str, lines: &mut Vec<String>) {
        for name in list(&scene.union, path) {
            let path = format!("{path}/{name}");
            if at(&scene.union, &path).unwrap().kind() == vnode::FileKind::Directory {
                lines.push(path.clone());
                walk(scene, &path, lines);
            } else {
                lines.push(format!("{path}: {}", read(&scene.union, &path).unwrap()));
            }
        }
    }
    let mut lines = Vec::new();
    walk(scene, "", &mut lines);
    lines
}

#[test]
fn failed_snapshot_commands_report_the_reason() {
    let scene = scene(&[(ReadWrite, &["a"])]);
    let error = |command: &str, arguments: &[(&str, &str)]| scene.tell(command, arguments).unwrap_err().to_string();
    assert_eq!(error("snapshot-merge", &[]), "there is no snapshot");
    let unknown = "there is no snapshot x; plyfs snapshot list tells which there are";
    assert_eq!(error("snapshot-drop", &[("name", "x")]), unknown);
    assert_eq!(error("snapshot-diff", &[("from", "x")]), unknown);
    let refused = "the name of a snapshot has no spaces and no control characters; write";
    for (name, proposal) in [
        ("a\nb", "a-b"),
        (" before  the upgrade", "before-the-upgrade"),
        ("\u{1b}[31m", "[31m"),
        ("\t", "before-upgrade"),
    ] {
        assert_eq!(error("snapshot-take", &[("name", name)]), format!("{refused} {proposal}"));
    }
    let length = "the name of a snapshot has 1 to 255 bytes; choose another, such as before-upgrade";
    for name in ["", &"x".repeat(256)] {
        assert_eq!(error("snapshot-take", &[("name", name)]), length);
    }
    take(&scene, "x");
    assert_eq!(error("snapshot-take", &[("name", "x")]), "there is a snapshot x already");
    let read_only = common::unions::scene(&[(ReadOnly, &["a"])]);
    let refused = read_only.tell("snapshot-take", &[("name", "x")]).unwrap_err().to_string();
    assert_eq!(refused, "no branch can be written, so nothing will change");
}

#[test]
fn snapshots_survive_a_restart() {
    let upper = memory();
    let join = || {
        let branch = plyfs_layers::Branch {
            file_system: upper.clone(),
            mode: Some(ReadWrite),
            label: "upper".to_owned(),
            minimum_free: None,
        };
        plyfs_layers::kind("union").unwrap().join(&[], vec![branch], None).unwrap()
    };
    let tell = |union: &FileSystemRef, command: &str, name: &str| {
        let arguments = vec![("name".to_owned(), name.to_owned())];
        let (target, command) = ("union".to_owned(), command.to_owned());
        union.control(&vnode::Control { target, command, arguments }).unwrap()
    };
    let union = join();
    write(&union.root(), "a", b"1");
    tell(&union, "snapshot-take", "s");
    write(&union.root(), "a", b"2");
    drop(union);
    let union = join();
    assert_eq!(read(&union, "a").unwrap(), "2");
    tell(&union, "snapshot-restore", "s");
    assert_eq!(read(&union, "a").unwrap(), "1");
    write(&union.root(), "a", b"3");
    tell(&union, "snapshot-drop", "s");
    drop(union);
    assert_eq!(read(&upper, "a").unwrap(), "3");
    assert_eq!((read(&join(), "a").unwrap(), at(&upper, "b").err()), ("3".to_owned(), Some(Errno::ENOENT)));
}

fn v(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Random operations beside the same on `mem`, with snapshots that come and go: users see no difference, and each snapshot
/// is what was seen when it was taken.
#[test]
fn random_operations_keep_snapshots() {
    let number = |variable| std::env::var(variable).ok()?.parse::<u64>().ok();
    let seed = number("MODEL_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    snapshots_keep_what_was_seen(seed, number("MODEL_STEPS").map_or(STEPS, |steps| steps as usize));
}

/// Seeds with which something was wrong once: a lock was lost with a metadata-only copy's data, and what was known of the
/// names in a layer was believed after another was folded into it.
#[test]
fn failed_seeds_keep_snapshots() {
    snapshots_keep_what_was_seen(1_453_506_809, 600);
    snapshots_keep_what_was_seen(3_709_219_521, 6200);
}

fn snapshots_keep_what_was_seen(seed: u64, steps: usize) {
    let mut random = Rng::with_seed(seed);
    let options = [
        ("metacopy", ["on", "off"][random.usize(..2)]),
        ("whiteouts", ["names", "overlay"][random.usize(..2)]),
        ("delete", ["whiteout", "all"][random.usize(..2)]),
    ];
    println!("MODEL_SEED={seed} MODEL_STEPS={steps} {options:?}");
    let scene = joined_with(&options, vec![(ReadWrite, memory()), (ReadOnly, memory())]);
    let plain = memory();
    let mut model = Side::new(Box::new(common::Shared(plain)), false);
    let mut union = Side::new(Box::new(common::Shared(scene.union.clone())), false);
    let mut kept: Vec<(String, Vec<String>)> = Vec::new();
    for step in 0..steps {
        if step % STEPS_PER_COMMAND == STEPS_PER_COMMAND - 1 {
            command(&scene, &union, &mut kept, &mut random, step);
            let (expected, found) = (comparable(&model.tree()), comparable(&union.tree()));
            same(&expected, &found, &format!("MODEL_SEED={seed}, step {step}, after a command"));
        }
        let operation = Operation::random(&mut random);
        if is_comparable(&operation) {
            let (expected, found) = (model.apply(&operation), union.apply(&operation));
            let (expected, found) = (comparable(&[expected]), comparable(&[found]));
            same(&expected, &found, &format!("MODEL_SEED={seed}, step {step}: {operation:?}"));
        }
    }
    drop(union);
    while let Some((snapshot, seen)) = kept.pop() {
        scene.tell("snapshot-restore", &[("name", &snapshot)]).unwrap();
        let union = Side::new(Box::new(common::Shared(scene.union.clone())), false);
        same(&seen, &comparable(&union.tree()), &format!("MODEL_SEED={seed}, {snapshot}"));
        drop(union);
    }
}

/// The same, and in the end nothing is wrong in any layer.
#[test]
fn random_operations_leave_snapshots_consistent() {
    let number = |variable| std::env::var(variable).ok()?.parse::<u64>().ok();
    let seed = number("MODEL_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let mut random = Rng::with_seed(seed);
    let options = [("metacopy", ["on", "off"][random.usize(..2)])];
    let branches = vec![(ReadWrite, memory()), (ReadOnly, memory())];
    let scene = joined_with(&options, branches.clone());
    let mut union = Side::new(Box::new(common::Shared(scene.union.clone())), false);
    let mut kept = Vec::new();
    for step in 0..900 {
        if step % STEPS_PER_COMMAND == STEPS_PER_COMMAND - 1 {
            command(&scene, &union, &mut kept, &mut random, step);
        }
        let operation = Operation::random(&mut random);
        if is_comparable(&operation) {
            union.apply(&operation);
        }
    }
    drop((union, scene));
    let mut findings = Vec::new();
    let branch = |(index, (mode, file_system)): (usize, (_, FileSystemRef))| plyfs_layers::Branch {
        file_system,
        mode: Some(mode),
        label: format!("branch {index}"),
        minimum_free: None,
    };
    let branches = branches.into_iter().enumerate().map(branch).collect();
    plyfs_layers::union::check(branches, &Default::default(), &mut |finding| findings.push(finding)).unwrap();
    assert_eq!(findings, [], "MODEL_SEED={seed}");
}

fn same(expected: &[String], found: &[String], when: &str) {
    let end = String::from("the end");
    let longer = expected.len().max(found.len());
    let lines = (0..longer).map(|line| (expected.get(line).unwrap_or(&end), found.get(line).unwrap_or(&end)));
    let difference = lines.into_iter().find(|(expected, found)| expected != found);
    assert!(difference.is_none(), "{when}: {difference:?}");
}

/// Takes a snapshot, drops one, or forgets the older.
fn command(scene: &Scene, union: &Side, kept: &mut Vec<(String, Vec<String>)>, random: &mut Rng, step: usize) {
    match random.u8(..5) {
        0 if !kept.is_empty() => {
            let (snapshot, _) = kept.remove(random.usize(..kept.len()));
            scene.tell("snapshot-drop", &[("name", &snapshot)]).unwrap();
        }
        1 if !kept.is_empty() => {
            let position = random.usize(..kept.len());
            scene.tell("snapshot-merge", &[("name", &kept[position].0)]).unwrap();
            kept.drain(..position);
        }
        _ => {
            let snapshot = format!("step-{step}");
            take(scene, &snapshot);
            kept.push((snapshot, comparable(&union.tree())));
        }
    }
}

fn is_comparable(operation: &Operation) -> bool {
    !matches!(
        operation.action,
        Action::Hold { .. } | Action::LinkHeld { .. } | Action::InHeld { .. } | Action::Copy { .. }
    )
}

/// Without the link counts of directories, which nobody counts for a directory of several branches.
fn comparable(lines: &[String]) -> Vec<String> {
    let line = |line: &str| match line.split_once(" nlink ") {
        Some((before, after)) if before.contains("Directory") => {
            format!("{before} {}", after.split_once(' ').map_or("", |(_, rest)| rest))
        }
        _ => line.to_owned(),
    };
    lines.iter().flat_map(|text| text.lines()).map(line).collect()
}
