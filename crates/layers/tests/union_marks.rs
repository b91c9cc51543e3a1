//! Marks in the branches of a union that the server did not set: they show nobody anything, make no object another, and what
//! others can have written of a branch's state is not used.

mod common;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bases::dir::{DirectoryFileSystem, Options};
use common::{contents, list, numbered, user, walk};
use plyfs_layers::union::{CheckError, CheckOptions, Problem, check};
use plyfs_layers::{Branch, BranchMode, OptionProblem, Refusal};
use rustix::fs::{CWD, FileType, XattrFlags, getxattr, setxattr};
use tempfile::TempDir;
use vnode::layer::{Layer, LayerVnode, stack};
use vnode::{Caller, Control, Entry, FileSystemRef, Name, SetAttributes};

use BranchMode::{ReadOnly, ReadWrite};

/// Directories `left` to be written and `right` to be read; `None` for who is not root, and has one kind of marks only.
struct Scene(TempDir);

impl Scene {
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: to be the superuser, and others, needs root");
            return None;
        }
        let scene = Self(tempfile::tempdir().unwrap());
        for directory in ["left", "right", "right/private"] {
            fs::create_dir(scene.path(directory)).unwrap();
        }
        fs::write(scene.path("right/private/secret"), "secret").unwrap();
        Some(scene)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn branches(&self, mode: BranchMode) -> Vec<Branch> {
        let branch = |name: &str, mode| Branch {
            file_system: Arc::new(DirectoryFileSystem::open(&self.path(name), Options::default()).unwrap()),
            mode: Some(mode),
            label: name.to_owned(),
            minimum_free: None,
        };
        vec![branch("left", mode), branch("right", ReadOnly)]
    }

    fn join(&self) -> FileSystemRef {
        self.try_join(ReadWrite).unwrap_or_else(|problem| panic!("{problem:?}"))
    }

    fn try_join(&self, mode: BranchMode) -> Result<FileSystemRef, OptionProblem> {
        plyfs_layers::kind("union").unwrap().join(&[], self.branches(mode), None).map_err(|error| error.problem)
    }

    fn problems(&self) -> Result<Vec<(String, Problem)>, CheckError> {
        let mut found = Vec::new();
        check(self.branches(ReadWrite), &CheckOptions::default(), &mut |finding| {
            found.push((String::from_utf8(finding.path).unwrap(), finding.problem));
        })?;
        found.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(found)
    }
}

fn set(path: &Path, attribute: &str, value: &[u8]) {
    setxattr(path, attribute, value, XattrFlags::empty()).unwrap();
}

fn at(union: &FileSystemRef, path: &str) -> Entry {
    walk(union, &Caller::server(), path).unwrap()
}

fn names(union: &FileSystemRef, path: &str) -> Vec<String> {
    list(&at(union, path).vnode, &Caller::server())
}

fn text(union: &FileSystemRef, path: &str) -> String {
    String::from_utf8(contents(&at(union, path).vnode, &Caller::server())).unwrap()
}

#[test]
fn user_set_marks_reveal_nothing() {
    for is_superusers in [false, true] {
        let Some(scene) = Scene::new() else { return };
        let prefix = if is_superusers { "trusted" } else { "user" };
        for (directory, mark, value) in [("moved", "redirect", "/private"), ("opaque", "opaque", "y")] {
            fs::create_dir(scene.path(&format!("left/{directory}"))).unwrap();
            fs::create_dir(scene.path(&format!("right/{directory}"))).unwrap();
            fs::write(scene.path(&format!("right/{directory}/seen")), "").unwrap();
            let marked = scene.path(&format!("left/{directory}"));
            set(&marked, &format!("{prefix}.overlay.{mark}"), value.as_bytes());
            chown(marked, Some(7), Some(7)).unwrap();
        }
        let union = scene.join();
        let expected = if is_superusers { [vec!["secret"], vec![]] } else { [vec!["seen"], vec!["seen"]] };
        assert_eq!(["moved", "opaque"].map(|path| names(&union, path)), expected.clone(), "{prefix}");
        drop(union);
        let doubtful = ["moved", "opaque"].map(|path| (path.to_owned(), Problem::Unbelieved));
        assert_eq!(scene.problems().unwrap(), if is_superusers { vec![] } else { doubtful.to_vec() }, "{prefix}");
        // What is set through the union means nothing in the branches.
        let (union, owner, set) = (scene.join(), user(7), vnode::XattrMode::Set);
        let moved = at(&union, "moved").vnode;
        moved.setxattr(&owner, b"user.plyfs.origin", b"/private", set).unwrap_err();
        for (mark, value) in [("redirect", &b"/private"[..]), ("opaque", b"y")] {
            let (of_user, of_superuser) = (format!("user.overlay.{mark}"), format!("trusted.overlay.{mark}"));
            moved.setxattr(&owner, of_superuser.as_bytes(), value, set).unwrap_err();
            for (attribute, caller) in [(of_user, owner.clone()), (of_superuser, Caller::server())] {
                moved.setxattr(&caller, attribute.as_bytes(), value, set).unwrap();
                assert_eq!(moved.getxattr(&caller, attribute.as_bytes()).unwrap(), value);
                let listed = moved.listxattr(&caller).unwrap();
                assert!(listed.split(|&byte| byte == 0).any(|name| name == attribute.as_bytes()), "{listed:?}");
            }
        }
        drop((moved, union));
        let union = scene.join();
        assert_eq!(["moved", "opaque"].map(|path| names(&union, path)), expected, "{prefix}");
    }
}

#[test]
fn objects_with_the_same_claimed_identity_stay_distinct() {
    // As a user forges it, and as `cp -a` by root copies it.
    for (prefix, is_found) in [("user", false), ("trusted", true)] {
        for first in ["one", "other"] {
            let Some(scene) = Scene::new() else { return };
            for path in ["one", "directory", "directory/inside"] {
                let path = scene.path(&format!("right/{path}"));
                if path.ends_with("directory") {
                    fs::create_dir(path).unwrap()
                } else {
                    fs::write(path, "one").unwrap()
                }
            }
            let change = SetAttributes { mode: Some(0o711), ..SetAttributes::default() };
            let union = scene.join();
            at(&union, "one").vnode.setattr(&Caller::server(), &change).unwrap();
            drop(union);
            let mut origin = [0; 256];
            let length = getxattr(scene.path("left/one"), "trusted.plyfs.origin", &mut origin).unwrap();
            fs::write(scene.path("left/other"), "other").unwrap();
            set(&scene.path("left/other"), &format!("{prefix}.plyfs.origin"), &origin[..length]);
            let union = scene.join();
            let second = if first == "one" { "other" } else { "one" };
            // While the first is known, and again by whatever is known then.
            let held = at(&union, first);
            for path in [second, first, second] {
                assert_eq!(text(&union, path), path, "{prefix}, {first} first");
            }
            let found = at(&union, second);
            assert_ne!(found.vnode.handle(), held.vnode.handle());
            assert_ne!(found.attributes.ino, held.attributes.ino);
            for path in [second, first] {
                let file = at(&union, path).vnode.open(&Caller::server(), vnode::OpenFlags::READ_WRITE).unwrap();
                file.write_at(&Caller::server(), 0, b"new").unwrap();
                at(&union, path).vnode.setattr(&Caller::server(), &change).unwrap();
            }
            drop((union, held, found));
            assert_eq!(fs::read_to_string(scene.path("left/one")).unwrap(), "new");
            assert_eq!(fs::read_to_string(scene.path("left/other")).unwrap(), "newer");
            let named = scene.problems().unwrap();
            let is_named = named.iter().any(|(_, problem)| matches!(problem, Problem::SameIdentity(_)));
            assert_eq!(is_named, is_found, "{prefix}: {named:?}");
        }
    }
}

#[test]
fn directories_with_the_same_redirect_stay_distinct() {
    for first in ["one", "other", "one/inner"] {
        let Some(scene) = Scene::new() else { return };
        fs::create_dir(scene.path("right/d")).unwrap();
        fs::write(scene.path("right/d/file"), "right").unwrap();
        for (path, rest) in [("one", "/d"), ("other", "/d"), ("one/inner", "/d"), ("one/inner/root", "/")] {
            fs::create_dir(scene.path(&format!("left/{path}"))).unwrap();
            set(&scene.path(&format!("left/{path}")), "trusted.overlay.redirect", rest.as_bytes());
            fs::write(scene.path(&format!("left/{path}/own {}", path.replace('/', " "))), path).unwrap();
        }
        let union = scene.join();
        let _held = at(&union, first);
        for _ in 0..2 {
            assert_eq!(names(&union, "one"), ["file", "inner", "own one"], "{first} first");
            assert_eq!(names(&union, "other"), ["file", "own other"], "{first} first");
            assert_eq!(names(&union, "one/inner"), ["file", "own one inner", "root"], "{first} first");
            assert_eq!(names(&union, "one/inner/root"), ["own one inner root"], "{first} first");
            assert_eq!(names(&union, "d"), ["file"], "{first} first");
        }
        let held: Vec<_> = ["", "d", "one", "other", "one/inner", "one/inner/root"].map(|path| at(&union, path)).into();
        let numbers: std::collections::HashSet<_> = held.iter().map(|entry| entry.attributes.ino).collect();
        assert_eq!(numbers.len(), held.len(), "{first} first");
        fs::remove_file(scene.path("left/other/own other")).unwrap();
        at(&union, "other").vnode.unlink(&Caller::server(), common::name("file")).unwrap();
        assert_eq!(names(&union, "one"), ["file", "inner", "own one"], "{first} first");
    }
}

/// The layers of a branch's snapshots share its handles: what is only the rest of one directory is no name of that directory.
#[test]
fn self_referencing_redirect_makes_no_cycle() {
    for first in ["", "a", "d/d", "a/f/d"] {
        let Some(scene) = Scene::new() else { return };
        fs::create_dir_all(scene.path("left/d/d/f")).unwrap();
        fs::write(scene.path("left/d/d/file"), "d").unwrap();
        let arguments = vec![("name".to_owned(), "one".to_owned())];
        let control = Control { target: "union".to_owned(), command: "snapshot-take".to_owned(), arguments };
        scene.join().control(&control).unwrap();
        let newest = scene.path("left/.wh..wh.plyfs/layers/1");
        for (path, rest) in [("a", "/d/d"), ("a/f", "/d"), ("b", "/d/d")] {
            fs::create_dir(newest.join(path)).unwrap();
            set(&newest.join(path), "trusted.overlay.redirect", rest.as_bytes());
        }
        let union = scene.join();
        let _held = at(&union, first);
        for _ in 0..2 {
            for (path, there) in [
                ("a", &["f", "file"][..]),
                ("a/f", &["d"]),
                ("a/f/d", &["f", "file"]),
                ("a/f/d/f", &[]),
                ("b", &["f", "file"]),
                ("d/d", &["f", "file"]),
                ("d/d/f", &[]),
            ] {
                assert_eq!(names(&union, path), there, "{path}, {first} first");
                let (directory, server) = (at(&union, path).vnode, Caller::server());
                for (below, ino) in numbered(&directory.open_directory(&server).unwrap(), &server) {
                    let looked_up = directory.lookup(&server, below.as_name()).unwrap().attributes.ino;
                    assert_eq!(ino, looked_up, "{path}: {below:?}, {first} first");
                }
            }
        }
        let held: Vec<_> =
            ["a", "a/f", "a/f/d", "a/f/d/f", "b", "b/f", "d", "d/d", "d/d/f"].map(|path| at(&union, path)).into();
        let numbers: std::collections::HashSet<_> = held.iter().map(|entry| entry.attributes.ino).collect();
        assert_eq!(numbers.len(), held.len(), "{first} first");
    }
}

/// As in an archive or an image: nobody else can make them, and the directory beside them is to be listed and removed.
#[test]
fn malformed_redirects_hide_what_is_below_and_nothing_else() {
    for wrong in ["../x", "..", ".", "/a/../d", "/./d", "a/b", "d\0"] {
        let Some(scene) = Scene::new() else { return };
        fs::create_dir_all(scene.path("left/d/own")).unwrap();
        fs::create_dir_all(scene.path("right/d/below")).unwrap();
        fs::write(scene.path("left/f"), "f").unwrap();
        set(&scene.path("left/d"), "trusted.overlay.redirect", wrong.as_bytes());
        let problems = scene.problems().unwrap();
        assert!(matches!(&problems[..], [(_, Problem::MovedFromNowhere(_))]), "{wrong:?}: {problems:?}");
        let union = scene.join();
        assert_eq!(names(&union, ""), ["d", "f", "private"], "{wrong:?}");
        assert_eq!(names(&union, "d"), ["own"], "{wrong:?}");
        let (root, server) = (union.root(), Caller::server());
        at(&union, "d").vnode.rmdir(&server, Name::new(b"own").unwrap()).unwrap();
        root.rmdir(&server, Name::new(b"d").unwrap()).unwrap();
        assert_eq!(names(&union, ""), ["f", "private"], "{wrong:?}");
    }
}

#[test]
fn foreign_state_directory_is_refused() {
    type MakeMarks = fn(&Path);
    let wrong: [(&str, MakeMarks); 12] = [
        ("of another user", |state| {
            fs::create_dir(state).unwrap();
            chown(state, Some(7), Some(7)).unwrap();
        }),
        ("for a group", |state| {
            fs::create_dir(state).unwrap();
            fs::set_permissions(state, fs::Permissions::from_mode(0o770)).unwrap();
        }),
        ("for all", |state| {
            fs::create_dir(state).unwrap();
            fs::set_permissions(state, fs::Permissions::from_mode(0o1777)).unwrap();
        }),
        ("a file", |state| fs::write(state, "").unwrap()),
        ("a symlink", |state| symlink("/tmp", state).unwrap()),
        ("a FIFO", |state| {
            rustix::fs::mknodat(rustix::fs::CWD, state, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        }),
        // A directory of the server's that somebody has moved there.
        ("with another user's work", |state| {
            fs::create_dir_all(state.join("work")).unwrap();
            chown(state.join("work"), Some(7), Some(7)).unwrap();
        }),
        ("with layers for all", |state| {
            fs::create_dir_all(state.join("layers")).unwrap();
            fs::set_permissions(state.join("layers"), fs::Permissions::from_mode(0o1777)).unwrap();
        }),
        ("with a file for links", |state| {
            fs::create_dir(state).unwrap();
            fs::write(state.join("links"), "").unwrap();
        }),
        ("with another user's register", |state| {
            fs::create_dir(state).unwrap();
            fs::write(state.join("branches"), "").unwrap();
            chown(state.join("branches"), Some(7), Some(7)).unwrap();
        }),
        ("with a history for a group", |state| {
            fs::create_dir(state).unwrap();
            fs::write(state.join("history"), "").unwrap();
            fs::set_permissions(state.join("history"), fs::Permissions::from_mode(0o660)).unwrap();
        }),
        ("with a symlink for a lock", |state| {
            fs::create_dir(state).unwrap();
            symlink("/tmp/lock", state.join("lock")).unwrap();
        }),
    ];
    for (what, make) in wrong {
        for mode in [ReadWrite, ReadOnly] {
            let Some(scene) = Scene::new() else { return };
            let state = scene.path("left/.wh..wh.plyfs");
            make(&state);
            let before = fs::symlink_metadata(&state).unwrap().modified().unwrap();
            assert_eq!(
                scene.try_join(mode).err(),
                Some(OptionProblem::RefusedBranch(Refusal::StateOfOthers)),
                "{what}"
            );
            assert_eq!(scene.problems(), Err(CheckError::Refused("left".to_owned(), Refusal::StateOfOthers)), "{what}");
            assert_eq!(fs::symlink_metadata(&state).unwrap().modified().unwrap(), before, "{what}");
        }
    }
}

/// Files of the server's that a layer below gives another mode are out of everybody's reach in a directory that is the server's.
#[test]
fn a_layer_below_may_give_state_files_a_mode_of_its_own() {
    let Some(scene) = Scene::new() else { return };
    let join = || {
        let mut branches = scene.branches(ReadWrite);
        let map = plyfs_layers::kind("map").unwrap();
        let options = [("create-perms".to_owned(), "0666:a+X".to_owned())];
        branches[0].file_system = map.stack(&options, branches[0].file_system.clone()).unwrap();
        plyfs_layers::kind("union").unwrap().join(&[], branches, None).map_err(|error| error.problem).unwrap()
    };
    for mode in [0o700, 0o750, 0o755] {
        let change = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        at(&join(), "private/secret").vnode.setattr(&Caller::server(), &change).unwrap();
    }
    let lock = fs::metadata(scene.path("left/.wh..wh.plyfs/lock")).unwrap();
    assert_eq!(lock.permissions().mode() & 0o777, 0o666);
}

/// Gives each new directory to somebody else before it is looked up, as the owner of its parent can.
struct Swapping(PathBuf);

impl Layer for Swapping {
    type State = ();

    fn kind(&self) -> &'static str {
        "swapping"
    }

    fn mkdir(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, mode: u32) -> vnode::Result<Entry> {
        node.forward_mkdir(caller, name, mode)?;
        chown(self.0.join(std::ffi::OsStr::from_bytes(name.as_bytes())), Some(7), Some(7)).unwrap();
        node.forward_lookup(caller, name)
    }
}

#[test]
fn a_state_directory_that_is_swapped_while_it_is_made_is_not_used() {
    let Some(scene) = Scene::new() else { return };
    let mut branches = scene.branches(ReadWrite);
    branches[0].file_system = stack(Swapping(scene.path("left")), branches[0].file_system.clone());
    let union = plyfs_layers::kind("union").unwrap().join(&[], branches, None).map_err(|error| error.problem).unwrap();
    let change = SetAttributes { mode: Some(0o700), ..SetAttributes::default() };
    let changed = at(&union, "private/secret").vnode.setattr(&Caller::server(), &change);
    assert_eq!(changed.err(), Some(vnode::Errno::EPERM));
    let state = scene.path("left/.wh..wh.plyfs");
    assert_eq!((fs::read_dir(&state).unwrap().count(), fs::metadata(&state).unwrap().uid()), (0, 7));
}

#[test]
fn foreign_state_directory_is_refused_at_run_time() {
    for foreign in [".wh..wh.plyfs", ".wh..wh.plyfs/work"] {
        let Some(scene) = Scene::new() else { return };
        let union = scene.join();
        let foreign = scene.path("left").join(foreign);
        fs::create_dir_all(&foreign).unwrap();
        chown(&foreign, Some(7), Some(7)).unwrap();
        let change = SetAttributes { mode: Some(0o700), ..SetAttributes::default() };
        let changed = at(&union, "private/secret").vnode.setattr(&Caller::server(), &change);
        assert_eq!(changed.err(), Some(vnode::Errno::EPERM), "{foreign:?}");
        assert_eq!(fs::read_dir(&foreign).unwrap().count(), 0, "{foreign:?}");
    }
}

#[test]
fn work_that_is_no_record_by_its_kind_is_left_over() {
    type Make = fn(&Path);
    let kinds: [(&str, Make); 3] = [
        ("symlink", |path| symlink("/etc/passwd", path).unwrap()),
        ("FIFO", |path| rustix::fs::mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0).unwrap()),
        ("directory", |path| fs::create_dir(path).unwrap()),
    ];
    for (kind, make) in kinds {
        for name in ["record.7", "kept.7", "record.x", "copy.3", "name.2.5", "times.1.2.3"] {
            let Some(scene) = Scene::new() else { return };
            let change = SetAttributes { mode: Some(0o700), ..SetAttributes::default() };
            at(&scene.join(), "private/secret").vnode.setattr(&Caller::server(), &change).unwrap();
            let entry = scene.path("left/.wh..wh.plyfs/work").join(name);
            make(&entry);
            let problems = scene.problems().unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
            assert_eq!(problems.len(), 1, "{kind} {name}: {problems:?}");
            scene.join();
            let change = SetAttributes { mode: Some(0o750), ..SetAttributes::default() };
            at(&scene.join(), "private/secret").vnode.setattr(&Caller::server(), &change).unwrap();
            // A later version may know what its name says.
            assert_eq!(fs::symlink_metadata(&entry).is_ok(), name == "record.x", "{kind} {name}");
        }
    }
}

#[test]
fn unfinished_work_in_read_only_branch_is_left() {
    let Some(scene) = Scene::new() else { return };
    let union = scene.join();
    let change = SetAttributes { mode: Some(0o700), ..SetAttributes::default() };
    at(&union, "private/secret").vnode.setattr(&Caller::server(), &change).unwrap();
    drop(union);
    let work = scene.path("left/.wh..wh.plyfs/work");
    for name in ["1", "copy.2", "name.3.3", "times.1.0.4", "record.5", "record.6"] {
        fs::write(work.join(name), if name == "record.6" { "plyfs rename 1\nend\n" } else { "" }).unwrap();
    }
    let all = |directory: PathBuf| {
        let mut names: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = (all(work.clone()), all(scene.path("left/.wh..wh.plyfs")));
    let union = scene.try_join(ReadOnly).unwrap();
    assert_eq!(text(&union, "private/secret"), "secret");
    drop(union);
    assert_eq!((all(work.clone()), all(scene.path("left/.wh..wh.plyfs"))), before);
    let union = scene.join();
    at(&union, "private").vnode.setattr(&Caller::server(), &change).unwrap();
    drop(union);
    assert_eq!(all(work).len(), 0);
}
