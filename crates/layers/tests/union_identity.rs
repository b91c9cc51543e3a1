//! What a branch and its objects are known by: another disk at its place, copies that another union made, a register of a later
//! version, and a branch that was copied without its extended attributes.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bases::dir::{DirectoryFileSystem, Options};
use common::{contents, walk};
use plyfs_layers::union::{CheckError, CheckOptions, check};
use plyfs_layers::{Branch, BranchMode, OptionProblem, Refusal};
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;
use vnode::{Caller, Entry, FileSystemRef, OpenFlags, SetAttributes};

use BranchMode::{ReadOnly, ReadWrite};

/// Directories that become branches, and disks that are mounted on some.
struct Scene {
    directory: TempDir,
    mounted: Vec<PathBuf>,
}

impl Scene {
    /// `None` for who is not root.
    fn new(directories: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: to mount disks and to set trusted attributes needs root");
            return None;
        }
        let scene = Self { directory: tempfile::tempdir().unwrap(), mounted: Vec::new() };
        directories.iter().for_each(|directory| fs::create_dir(scene.path(directory)).unwrap());
        Some(scene)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// Makes a disk with one file under these names. The file has the same inode number and the same generation on all of them.
    fn make_disk(&self, disk: &str, names: &[&str], text: &str) {
        let (tree, first) = (tempfile::tempdir().unwrap(), names[0]);
        fs::write(tree.path().join(first), text).unwrap();
        for name in &names[1..] {
            fs::hard_link(tree.path().join(first), tree.path().join(name)).unwrap();
        }
        let image = self.path(disk);
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-d"]).arg(tree.path()).arg(image).arg("8M"));
    }

    fn mount(&mut self, disk: &str, directory: &str) {
        let directory = self.path(directory);
        run(Command::new("mount").args(["-o", "loop"]).arg(self.path(disk)).arg(&directory));
        self.mounted.push(directory);
    }

    fn unmount(&mut self) {
        for directory in self.mounted.drain(..) {
            // A process that another test starts has all that is open for a moment.
            let mut left = 500;
            while let Err(error) = unmount(&directory, UnmountFlags::empty()) {
                left -= 1;
                assert!(error == rustix::io::Errno::BUSY && left > 0, "{}: {error}", directory.display());
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }

    fn branches(&self, branches: &[(&str, BranchMode)]) -> Vec<Branch> {
        let branch = |(name, mode): &(&str, BranchMode)| Branch {
            file_system: Arc::new(DirectoryFileSystem::open(&self.path(name), Options::default()).unwrap()),
            mode: Some(*mode),
            label: name.to_string(),
            minimum_free: None,
        };
        branches.iter().map(branch).collect()
    }

    fn try_join(
        &self,
        options: &[(&str, &str)],
        branches: &[(&str, BranchMode)],
    ) -> Result<FileSystemRef, OptionProblem> {
        let options: Vec<_> = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let union = plyfs_layers::kind("union").unwrap().join(&options, self.branches(branches), None);
        union.map_err(|error| error.problem)
    }

    fn join(&self, branches: &[(&str, BranchMode)]) -> FileSystemRef {
        self.try_join(&[], branches).unwrap_or_else(|problem| panic!("{problem:?}"))
    }

    fn check(&self, branches: &[(&str, BranchMode)]) -> Result<(), CheckError> {
        check(self.branches(branches), &CheckOptions::default(), &mut |_| {})
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for directory in self.mounted.drain(..) {
            let _ = unmount(directory, UnmountFlags::DETACH);
        }
    }
}

fn run(command: &mut Command) {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn at(union: &FileSystemRef, path: &str) -> Entry {
    walk(union, &Caller::server(), path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn text(union: &FileSystemRef, path: &str) -> String {
    String::from_utf8(contents(&at(union, path).vnode, &Caller::server())).unwrap()
}

/// Has the file copied to the left.
fn change(union: &FileSystemRef, path: &str) {
    let change = SetAttributes { mode: Some(0o604), ..SetAttributes::default() };
    at(union, path).vnode.setattr(&Caller::server(), &change).unwrap();
}

#[test]
fn another_disk_at_the_path_of_a_branch_is_another_branch() {
    let Some(mut scene) = Scene::new(&["left", "right"]) else { return };
    let branches = [("left", ReadWrite), ("right", ReadOnly)];
    scene.make_disk("first", &["one", "also one"], "first");
    scene.make_disk("second", &["two", "also two"], "second");
    scene.mount("first", "right");
    let union = scene.join(&branches);
    let original = at(&union, "one").attributes.ino;
    change(&union, "one");
    assert_eq!(text(&union, "also one"), "first");
    drop(union);
    scene.unmount();

    scene.mount("second", "right");
    let union = scene.join(&branches);
    for path in ["two", "also two"] {
        assert_eq!(text(&union, path), "second", "{path}");
        assert_ne!(at(&union, path).attributes.ino, original, "{path}");
    }
    assert_eq!(text(&union, "one"), "first");
    change(&union, "two");
    assert_eq!([text(&union, "two"), text(&union, "also two")], ["second", "second"]);
    drop(union);
    scene.unmount();

    // The first is known again.
    scene.mount("first", "right");
    let union = scene.join(&branches);
    for path in ["one", "also one"] {
        let found = at(&union, path).attributes;
        assert_eq!((found.ino, found.mode & 0o777), (original, 0o604), "{path}");
    }
    drop(union);
    scene.unmount();
}

#[test]
fn copy_of_another_union_has_its_own_identity() {
    for held_first in ["one", "two"] {
        let Some(mut scene) = Scene::new(&["left", "first", "other", "second"]) else { return };
        scene.make_disk("first.image", &["one"], "first");
        scene.make_disk("second.image", &["two"], "second");
        scene.mount("first.image", "first");
        scene.mount("second.image", "second");
        // Each union knows the disk as its first branch.
        let union = scene.join(&[("left", ReadWrite), ("first", ReadOnly)]);
        change(&union, "one");
        drop(union);
        let union = scene.join(&[("other", ReadWrite), ("second", ReadOnly)]);
        union.root().mkdir(&Caller::server(), common::name("made"), 0o755).unwrap();
        drop(union);

        let union = scene.join(&[("other", ReadWrite), ("left", ReadOnly), ("second", ReadOnly)]);
        let held = at(&union, held_first);
        assert_eq!([text(&union, "one"), text(&union, "two")], ["first", "second"]);
        for path in ["one", "two"].into_iter().filter(|path| *path != held_first) {
            let other = at(&union, path);
            assert_ne!((other.attributes.ino, other.vnode.handle()), (held.attributes.ino, held.vnode.handle()));
        }
        drop((held, union));
        scene.unmount();
    }
}

#[test]
fn branch_is_recognized_by_any_spelling_of_its_path() {
    let Some(scene) = Scene::new(&["left", "right"]) else { return };
    fs::write(scene.path("right/one"), "original").unwrap();
    fs::hard_link(scene.path("right/one"), scene.path("right/other")).unwrap();
    let append = |union: &FileSystemRef, path: &str| {
        let file = at(union, path).vnode.open(&Caller::server(), OpenFlags::READ_WRITE).unwrap();
        file.write_at(&Caller::server(), 0, b"CHANGED!").unwrap();
    };
    let union = scene.join(&[("left", ReadWrite), ("right", ReadOnly)]);
    append(&union, "one");
    let ino = at(&union, "one").attributes.ino;
    drop(union);
    std::os::unix::fs::symlink("right", scene.path("link")).unwrap();
    for path in ["right/", "./right", "./left/../right", "link", "right"] {
        let union = scene.join(&[("left", ReadWrite), (path, ReadOnly)]);
        let found = ["one", "other"].map(|name| (text(&union, name), at(&union, name).attributes.ino));
        assert_eq!(found, [("CHANGED!".to_owned(), ino), ("CHANGED!".to_owned(), ino)], "{path}");
    }
    fs::rename(scene.path("right"), scene.path("moved")).unwrap();
    let union = scene.join(&[("left", ReadWrite), ("moved", ReadOnly)]);
    assert_eq!(text(&union, "other"), "CHANGED!");
}

#[test]
fn data_of_later_versions_are_left_alone() {
    let Some(scene) = Scene::new(&["left", "right"]) else { return };
    fs::write(scene.path("right/f"), "f").unwrap();
    let branches = [("left", ReadWrite), ("right", ReadOnly)];
    change(&scene.join(&branches), "f");
    let register = scene.path("left/.wh..wh.plyfs/branches");
    let later = "plyfs branches 77\nanything";
    fs::write(&register, later).unwrap();
    assert_eq!(scene.try_join(&[], &branches).err(), Some(OptionProblem::RefusedBranch(Refusal::LaterVersion)));
    assert_eq!(scene.check(&branches), Err(CheckError::Refused("left".to_owned(), Refusal::LaterVersion)));
    assert_eq!(fs::read_to_string(&register).unwrap(), later);
}

#[test]
fn metadata_only_copies_without_marks_are_refused() {
    const DATA: &[u8] = &[7; 20_000];
    let Some(scene) = Scene::new(&["left", "right"]) else { return };
    fs::write(scene.path("right/f"), DATA).unwrap();
    let options = [("metacopy", "on")];
    let copied = |copy: &str, how: &[&str]| {
        let mut command = Command::new("cp");
        run(command.args(how).args(["--sparse=always", "-rT"]).arg(scene.path("left")).arg(scene.path(copy)));
    };
    change(&scene.try_join(&options, &[("left", ReadWrite), ("right", ReadOnly)]).unwrap(), "f");
    copied("whole", &["-a"]);
    copied("plain", &["--preserve=mode,ownership,timestamps"]);

    let union = scene.try_join(&options, &[("whole", ReadWrite), ("right", ReadOnly)]).unwrap();
    assert!(contents(&at(&union, "f").vnode, &Caller::server()) == DATA, "a whole copy has its data");
    drop(union);
    for mode in [ReadWrite, ReadOnly] {
        let branches = [("plain", mode), ("right", ReadOnly)];
        for options in [&options[..], &[]] {
            assert_eq!(
                scene.try_join(options, &branches).err(),
                Some(OptionProblem::RefusedBranch(Refusal::WithoutMarks))
            );
        }
        assert_eq!(scene.check(&branches), Err(CheckError::Refused("plain".to_owned(), Refusal::WithoutMarks)));
    }
    // As the message says.
    fs::remove_file(scene.path("plain/.wh..wh.plyfs/metacopies")).unwrap();
    scene.join(&[("plain", ReadWrite), ("right", ReadOnly)]);
    assert!(Path::new(&scene.path("plain/f")).exists());
}
