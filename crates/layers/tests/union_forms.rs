//! What another version says in the records of a branch: what a later one says stays as it is, whichever branch it is and whenever
//! that comes; what an earlier one says is read, and written anew when it changes.

mod common;

use common::memory;
use common::plain::{Lacks, NOTHING, without};
use common::unions::{at, fill, list, name, server, write};
use plyfs_layers::union::{CheckError, CheckOptions, Problem, check};
use plyfs_layers::{Branch, BranchMode, Refusal};
use vnode::{Control, ControlError, FileSystemRef, OpenFlags, SetAttributes, SetTime, VnodeRef};

use BranchMode::{ReadOnly, ReadWrite};

/// A union of two branches of these modes.
fn join(branches: &[FileSystemRef; 2], modes: [BranchMode; 2]) -> Result<FileSystemRef, String> {
    let branch = |(index, mode): (usize, BranchMode)| Branch {
        file_system: branches[index].clone(),
        mode: Some(mode),
        label: format!("branch {index}"),
        minimum_free: None,
    };
    let named = modes.into_iter().enumerate().map(branch).collect();
    plyfs_layers::kind("union").unwrap().join(&[], named, None).map_err(|error| error.to_string())
}

/// Two branches, to each of which a file of the other has come.
fn written() -> [FileSystemRef; 2] {
    let branches = [memory(), memory()];
    for (to, file) in [(0, "first"), (1, "second")] {
        fill(&branches[1 - to], 1 - to, file);
        let union = join(&[branches[to].clone(), branches[1 - to].clone()], [ReadWrite, ReadOnly]).unwrap();
        let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        at(&union, file).unwrap().setattr(&server(), &mode).unwrap();
    }
    branches
}

fn state(branch: &FileSystemRef, path: &str) -> VnodeRef {
    at(branch, &format!(".wh..wh.plyfs/{path}")).unwrap()
}

/// Has a file of the state directory say this.
fn say(branch: &FileSystemRef, file: &str, text: &[u8]) {
    let directory = state(branch, "");
    let _ = directory.unlink(&server(), name(file));
    write(&directory, file, text);
}

fn said(branch: &FileSystemRef, path: &str) -> Vec<u8> {
    let file = state(branch, path).open(&server(), OpenFlags::READ).unwrap();
    let mut data = vec![0; 1 << 10];
    let length = file.read_at(&server(), 0, &mut data).unwrap();
    data.truncate(length);
    data
}

/// A register that nobody knows how to read.
const LATER_REGISTER: &[u8] = b"plyfs branches 77\nsomething\n";

const MODES: [[BranchMode; 2]; 3] = [[ReadWrite, ReadOnly], [ReadWrite, ReadWrite], [ReadOnly, ReadOnly]];

#[test]
fn register_of_later_version_is_refused_in_any_branch() {
    for (branch, modes) in (0..2).flat_map(|branch| MODES.map(|modes| (branch, modes))) {
        let branches = written();
        say(&branches[branch], "branches", LATER_REGISTER);
        assert!(join(&branches, modes).is_err(), "branch {branch}, {modes:?}");
        assert_eq!(said(&branches[branch], "branches"), LATER_REGISTER, "branch {branch}, {modes:?}");
    }
}

#[test]
fn binary_register_is_refused_in_any_branch() {
    const BINARY_REGISTER: &[u8] = b"plyfs branches 2\n\xff\xfe\n";
    for (branch, modes) in (0..2).flat_map(|branch| MODES.map(|modes| (branch, modes))) {
        let branches = written();
        say(&branches[branch], "branches", BINARY_REGISTER);
        let refused = join(&branches, modes).err().unwrap_or_else(|| panic!("branch {branch}, {modes:?}"));
        assert!(refused.contains(&format!("branch {branch}")) && refused.contains("branches"), "{refused}");
        assert_eq!(said(&branches[branch], "branches"), BINARY_REGISTER, "branch {branch}, {modes:?}");
    }
}

#[test]
fn register_of_later_version_is_refused_at_run_time() {
    let branches = [memory(), memory()];
    fill(&branches[1], 1, "third");
    let union = join(&branches, [ReadWrite, ReadOnly]).unwrap();
    branches[0].root().mkdir(&server(), name(".wh..wh.plyfs"), 0o700).unwrap();
    say(&branches[0], "branches", LATER_REGISTER);
    let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    let changed = at(&union, "third").unwrap().setattr(&server(), &mode);
    assert!(changed.is_err());
    assert_eq!(said(&branches[0], "branches"), LATER_REGISTER);
}

#[test]
fn history_of_later_version_is_refused_in_any_branch() {
    for (branch, modes) in (0..2).flat_map(|branch| MODES.map(|modes| (branch, modes))) {
        let branches = written();
        say(&branches[branch], "history", LATER_HISTORY);
        let refused = join(&branches, modes).err().unwrap_or_else(|| panic!("branch {branch}, {modes:?}"));
        assert!(refused.contains("later version"), "{refused}");
        assert_eq!(said(&branches[branch], "history"), LATER_HISTORY, "branch {branch}, {modes:?}");
    }
}

/// A history that nobody knows how to read.
const LATER_HISTORY: &[u8] = b"plyfs history 2\nsomething\n";

#[test]
fn history_of_later_version_is_refused_when_a_branch_becomes_writable() {
    let branches = written();
    let union = join(&branches, [ReadWrite, ReadOnly]).unwrap();
    say(&branches[1], "history", LATER_HISTORY);
    let refused = command(&union, "mode", &[("branch", "branch 1"), ("mode", "rw")]).unwrap_err().to_string();
    assert!(refused.contains("later version"), "{refused}");
    assert_eq!(said(&branches[1], "history"), LATER_HISTORY);
}

/// The text without its first line, as it was before records had a version.
fn without_version(text: &[u8]) -> &[u8] {
    &text[text.iter().position(|&byte| byte == b'\n').unwrap() + 1..]
}

#[test]
fn history_without_a_version_is_read_and_gets_one_when_it_changes() {
    let branches = written();
    let union = join(&branches, [ReadWrite, ReadOnly]).unwrap();
    command(&union, "snapshot-take", &[("name", "first")]).unwrap();
    let listed = command(&union, "snapshots", &[]).unwrap();
    drop(union);
    let new = said(&branches[0], "history");
    let old = without_version(&new);
    assert_eq!([b"plyfs history 1\n", old].concat(), new);
    say(&branches[0], "history", old);
    let union = join(&branches, [ReadWrite, ReadOnly]).unwrap();
    assert_eq!(command(&union, "snapshots", &[]).unwrap(), listed);
    assert_eq!(said(&branches[0], "history"), old, "what is only read stays");
    command(&union, "snapshot-take", &[("name", "second")]).unwrap();
    let changed = said(&branches[0], "history");
    assert!(changed.starts_with(b"plyfs history 1\n0 "), "{}", changed.escape_ascii());
    drop(union);
    let union = join(&branches, [ReadWrite, ReadOnly]).unwrap();
    let listed = command(&union, "snapshots", &[]).unwrap();
    assert!(listed.contains("first") && listed.contains("second"), "{listed}");
}

/// A union over a branch that cannot keep owners: what comes there loses its own.
fn with_losses(branches: &[FileSystemRef; 2]) -> FileSystemRef {
    let upper = without(Lacks { owners: true, ..NOTHING }, branches[0].clone());
    join(&[upper, branches[1].clone()], [ReadWrite, ReadOnly]).unwrap()
}

/// Two branches: what comes from the right one, files of a user, loses its owner in the left one.
fn owned() -> [FileSystemRef; 2] {
    let branches = [memory(), memory()];
    let rights = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
    branches[0].root().setattr(&server(), &rights).unwrap();
    let owner = SetAttributes { uid: Some(5), gid: Some(5), ..SetAttributes::default() };
    for file in ["first", "second", "third"] {
        fill(&branches[1], 1, file);
        at(&branches[1], file).unwrap().setattr(&server(), &owner).unwrap();
    }
    branches
}

fn touch(union: &FileSystemRef, file: &str) {
    let mtime = SetAttributes { mtime: Some(SetTime::Now), ..SetAttributes::default() };
    at(union, file).unwrap().setattr(&server(), &mtime).unwrap();
}

#[test]
fn losses_without_a_version_are_read_and_get_one_when_one_is_added() {
    let branches = owned();
    let union = with_losses(&branches);
    touch(&union, "first");
    assert_eq!(said(&branches[0], "losses"), b"plyfs losses 1\nowner 6669727374\n");
    touch(&union, "second");
    drop(union);
    let new = said(&branches[0], "losses");
    assert_eq!(new, b"plyfs losses 1\nowner 6669727374\nowner 7365636f6e64\n");
    say(&branches[0], "losses", without_version(&new));
    let union = with_losses(&branches);
    assert_eq!(said(&branches[0], "losses"), without_version(&new), "what is only read stays");
    touch(&union, "third");
    assert_eq!(said(&branches[0], "losses"), [&new[..], b"owner 7468697264\n"].concat());
    touch(&union, "third");
    assert_eq!(list(&branches[0], ".wh..wh.plyfs/work"), [""; 0]);
}

/// Runs a check for losses; returns what it finds in the losses of the first branch, and at which paths copies lack something.
fn checked_losses(branches: &[FileSystemRef; 2], repair: bool) -> (Vec<Problem>, Vec<Vec<u8>>) {
    let branch = |(index, mode): (usize, BranchMode)| Branch {
        file_system: branches[index].clone(),
        mode: Some(mode),
        label: format!("branch {index}"),
        minimum_free: None,
    };
    let options = CheckOptions { losses: true, repair, ..CheckOptions::default() };
    let (mut problems, mut paths) = (Vec::new(), Vec::new());
    check([(0, ReadWrite), (1, ReadOnly)].map(branch).into(), &options, &mut |finding| match finding.problem {
        Problem::NotKept(_) => paths.push(finding.path),
        problem => {
            assert_eq!((&finding.path[..], repair), (&b".wh..wh.plyfs/losses"[..], finding.repair == Some(Ok(()))));
            problems.push(problem);
        }
    })
    .unwrap();
    (problems, paths)
}

#[test]
fn losses_after_a_line_that_a_crash_cut_off_are_kept_and_the_line_is_reported() {
    for (has_version, cut) in [(true, 1), (true, 2), (true, 5), (false, 1), (false, 2)] {
        let branches = owned();
        let union = with_losses(&branches);
        touch(&union, "first");
        touch(&union, "second");
        drop(union);
        let whole = said(&branches[0], "losses");
        let text = &whole[..whole.len() - cut];
        say(&branches[0], "losses", if has_version { text } else { without_version(text) });
        let cut_line = text.rsplit(|byte| *byte == b'\n').next().unwrap();
        let unreadable = |line: &[u8]| vec![Problem::UnreadableLoss(line.to_vec())];
        let first = b"first".to_vec();
        assert_eq!(
            checked_losses(&branches, false),
            (unreadable(cut_line), vec![first.clone()]),
            "{has_version} {cut}"
        );
        let union = with_losses(&branches);
        touch(&union, "third");
        drop(union);
        let ended = [cut_line, b"?"].concat();
        let expected = [text, b"?\nowner 7468697264\n"].concat();
        assert_eq!(said(&branches[0], "losses"), expected);
        let both = vec![first, b"third".to_vec()];
        assert_eq!(checked_losses(&branches, false), (unreadable(&ended), both.clone()));
        assert_eq!(checked_losses(&branches, true), (unreadable(&ended), both.clone()));
        assert_eq!(said(&branches[0], "losses"), b"plyfs losses 1\nowner 6669727374\nowner 7468697264\n");
        assert_eq!(checked_losses(&branches, false), (vec![], both));
    }
}

/// As documented in docs/formats/union-branch.md.
#[test]
fn documented_losses_with_a_line_that_was_cut_off_are_read() {
    const FORMAT_DOCUMENTATION: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/union-branch.md"));
    let text = FORMAT_DOCUMENTATION.split("```\n").find(|block| block.contains("612f?")).unwrap();
    let branches = owned();
    let union = with_losses(&branches);
    touch(&union, "first");
    drop(union);
    fill(&branches[0], 0, "a/c");
    say(&branches[0], "losses", text.as_bytes());
    let expected = vec![Problem::UnreadableLoss(b"owner,mode 612f?".to_vec())];
    assert_eq!((checked_losses(&branches, false), text.len()), ((expected, vec![b"a/c".to_vec()]), 45));
}

#[test]
fn losses_of_later_version_stay_and_the_copy_is_made() {
    const LATER_LOSSES: &[u8] = b"plyfs losses 2\nsomething\n";
    let branches = owned();
    let union = with_losses(&branches);
    touch(&union, "first");
    say(&branches[0], "losses", LATER_LOSSES);
    touch(&union, "second");
    assert!(at(&branches[0], "second").is_ok());
    assert_eq!(said(&branches[0], "losses"), LATER_LOSSES);
    drop(union);
    let label = |index: usize| format!("branch {index}");
    let branch = |(index, mode): (usize, BranchMode)| Branch {
        file_system: branches[index].clone(),
        mode: Some(mode),
        label: label(index),
        minimum_free: None,
    };
    let checked = |losses| {
        let options = CheckOptions { losses, ..CheckOptions::default() };
        check([(0, ReadWrite), (1, ReadOnly)].map(branch).into(), &options, &mut |_| {})
    };
    assert!(matches!(checked(true), Err(CheckError::Refused(_, Refusal::LaterVersion))));
    assert!(checked(false).is_ok());
    assert_eq!(said(&branches[0], "losses"), LATER_LOSSES);
}

/// Sends a union a command.
fn command(union: &FileSystemRef, command: &str, arguments: &[(&str, &str)]) -> Result<String, ControlError> {
    let arguments = arguments.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    union.control(&Control { target: "union".to_owned(), command: command.to_owned(), arguments })
}
