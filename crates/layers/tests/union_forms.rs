//! What a later version says in a branch of what the branch is known by: whichever branch it is, and whenever that comes, a union
//! leaves it as it is.

mod common;

use common::memory;
use common::unions::{at, fill, name, server, write};
use plyfs_layers::{Branch, BranchMode};
use vnode::{FileSystemRef, OpenFlags, SetAttributes, VnodeRef};

use BranchMode::{ReadOnly, ReadWrite};

/// A union of two branches of these modes.
fn join(branches: &[FileSystemRef; 2], modes: [BranchMode; 2]) -> Result<FileSystemRef, String> {
    let branch = |(index, mode): (usize, BranchMode)| Branch {
        file_system: branches[index].clone(),
        mode: Some(mode),
        label: format!("branch {index}"),
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
