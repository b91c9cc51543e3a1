//! The options of the union, by its vnodes: what each leaves in the branches.

mod common;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bases::dir;
use common::{list, memory, name, walk};
use plyfs_layers::{Branch, BranchMode};
use vnode::layer::{Layer, LayerVnode, Operation};
use vnode::{
    Caller, Creation, Device, Errno, FileKind, FileSystemRef, OpenFlags, Promises, RenameMode, Result, SetAttributes,
    Vnode, VnodeRef,
};

use BranchMode::{NoCreate, ReadOnly, ReadWrite};

/// Branches and the union of them.
struct Scene {
    branches: Vec<FileSystemRef>,
    union: FileSystemRef,
}

fn server() -> Caller {
    Caller::server()
}

/// A union with these options, of branches in memory with these modes, each filled with these paths: a directory where
/// one ends with a slash, and else a file that holds the number of its branch.
fn scene(options: &[(&str, &str)], branches: &[(BranchMode, &[&str])]) -> Scene {
    let made: Vec<FileSystemRef> = branches.iter().map(|_| memory()).collect();
    for (index, (branch, (_, paths))) in made.iter().zip(branches).enumerate() {
        paths.iter().for_each(|path| fill(branch, path, &index.to_string()));
    }
    let modes: Vec<_> = made.iter().cloned().zip(branches.iter().map(|(mode, _)| *mode)).collect();
    Scene { union: join(options, &modes), branches: made }
}

fn join(options: &[(&str, &str)], branches: &[(FileSystemRef, BranchMode)]) -> FileSystemRef {
    let options: Vec<_> = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let branch = |(index, (file_system, mode)): (usize, &(FileSystemRef, BranchMode))| Branch {
        file_system: file_system.clone(),
        mode: Some(*mode),
        label: format!("branch {index}"),
        minimum_free: None,
    };
    let branches = branches.iter().enumerate().map(branch).collect();
    plyfs_layers::kind("union").unwrap().join(&options, branches, None).unwrap_or_else(|error| panic!("{error}"))
}

fn fill(file_system: &FileSystemRef, path: &str, data: &str) {
    let mut directory = file_system.root();
    let (above, last) = path.rsplit_once('/').unwrap_or(("", path));
    for part in above.split('/').filter(|part| !part.is_empty()) {
        directory = match directory.mkdir(&server(), name(part), 0o755) {
            Ok(entry) => entry.vnode,
            Err(Errno::EEXIST) => directory.lookup(&server(), name(part)).unwrap().vnode,
            Err(error) => panic!("{path}: {error}"),
        };
    }
    if !last.is_empty() {
        write(&directory, last, data);
    }
}

fn write(directory: &VnodeRef, file: &str, data: &str) {
    let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
    let created = directory.create(&server(), name(file), &how).unwrap();
    created.file.write_at(&server(), 0, data.as_bytes()).unwrap();
}

fn at(file_system: &FileSystemRef, path: &str) -> Result<VnodeRef> {
    Ok(walk(file_system, &server(), path)?.vnode)
}

fn read(file_system: &FileSystemRef, path: &str) -> Result<String> {
    Ok(String::from_utf8(common::contents(&at(file_system, path)?, &server())).unwrap())
}

/// The names in a directory of a branch, without those of the union's own directory.
fn names(file_system: &FileSystemRef, path: &str) -> Vec<String> {
    let mut names = list(&at(file_system, path).unwrap(), &server());
    names.retain(|name| name != ".wh..wh.plyfs");
    names
}

const EMPTY: [&str; 0] = [];

#[test]
fn delete_all_removes_file_from_every_branch() {
    let modes = [(ReadWrite, &["x", "y"][..]), (ReadWrite, &["x", "d/"]), (NoCreate, &["x", "y"])];
    let all = scene(&[("delete", "all")], &modes);
    all.union.root().unlink(&server(), name("x")).unwrap();
    all.union.root().unlink(&server(), name("y")).unwrap();
    assert_eq!(list(&all.union.root(), &server()), ["d"]);
    assert_eq!((names(&all.branches[0], ""), names(&all.branches[2], "")), (vec![], vec![]));
    assert_eq!(names(&all.branches[1], ""), ["d"]);

    let whiteout = scene(&[], &modes);
    whiteout.union.root().unlink(&server(), name("x")).unwrap();
    assert_eq!(names(&whiteout.branches[0], ""), [".wh.x", "y"]);
    assert_eq!(names(&whiteout.branches[1], ""), ["d", "x"], "by default nothing is removed on the right");
}

/// Counts how often the root is synchronized, in which files are deleted.
struct SyncCounter(Arc<AtomicUsize>);

impl Layer for SyncCounter {
    type State = ();

    fn kind(&self) -> &'static str {
        "synchronized"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn observe(&self, node: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>, _: Result<()>) {
        let is_counted = matches!(operation, Operation::Fsync { .. }) && node.path() == Ok(Vec::new());
        self.0.fetch_add(usize::from(is_counted), Ordering::SeqCst);
    }
}

/// How often something is synchronized when a file is deleted from three branches, or another takes its name.
fn synchronized(trees: [FileSystemRef; 3]) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = |tree: FileSystemRef| {
        ["x", "y"].iter().for_each(|file| fill(&tree, file, "data"));
        (vnode::layer::stack(SyncCounter(count.clone()), tree) as FileSystemRef, ReadWrite)
    };
    let branches = trees.map(counted);
    let union = join(&[("delete", "all")], &branches);
    let root = union.root();
    root.unlink(&server(), name("x")).unwrap();
    root.rename(&server(), name("y"), &root, name("z"), RenameMode::Replace).unwrap();
    for (branch, _) in &branches {
        let mut left = list(&branch.root(), &server());
        left.retain(|name| name != ".wh..wh.plyfs");
        assert!(left.iter().all(|name| name == "z"), "{left:?}");
    }
    count.load(Ordering::SeqCst)
}

#[test]
fn deletion_on_one_disk_needs_no_sync() {
    let directory = tempfile::tempdir().unwrap();
    let on_disk = ["a", "b", "c"].map(|name| {
        let path = directory.path().join(name);
        fs::create_dir(&path).unwrap();
        Arc::new(dir::DirectoryFileSystem::open(&path, dir::Options::default()).unwrap()) as FileSystemRef
    });
    assert_eq!(synchronized(on_disk), 0);
    assert!(synchronized([memory(), memory(), memory()]) >= 2, "of several, what is removed first is first on a disk");
}

#[test]
fn undeletable_objects_are_hidden_in_a_higher_branch() {
    let modes =
        [(ReadWrite, &["x"][..]), (ReadOnly, &["x", "z"]), (ReadWrite, &["x", "z", "e/f"]), (ReadWrite, &["e"])];
    let all = scene(&[("delete", "all")], &modes);
    let root = all.union.root();
    for gone in ["x", "z"] {
        root.unlink(&server(), name(gone)).unwrap();
        assert_eq!(at(&all.union, gone).err(), Some(Errno::ENOENT));
    }
    assert_eq!(names(&all.branches[0], ""), [".wh.x", ".wh.z"]);
    assert_eq!(names(&all.branches[1], ""), ["x", "z"], "a read-only branch stays as it is");
    assert_eq!(names(&all.branches[2], ""), ["e"]);
    // A directory is not deleted with a file that hid it.
    let over = scene(&[("delete", "all")], &[(ReadWrite, &["e"]), (ReadWrite, &["e/f"])]);
    over.union.root().unlink(&server(), name("e")).unwrap();
    assert_eq!(at(&over.union, "e").err(), Some(Errno::ENOENT));
    assert_eq!(read(&over.branches[1], "e/f").unwrap(), "1");
}

#[test]
fn delete_all_removes_directory_from_every_branch() {
    for format in ["names", "overlay"] {
        let options = [("delete", "all"), ("whiteouts", format)];
        let all = scene(&options, &[(ReadWrite, &["d/"]), (ReadWrite, &["d/x"]), (ReadWrite, &["d/"])]);
        let root = all.union.root();
        assert_eq!(root.rmdir(&server(), name("d")).err(), Some(Errno::ENOTEMPTY));
        at(&all.union, "d").unwrap().unlink(&server(), name("x")).unwrap();
        root.rmdir(&server(), name("d")).unwrap();
        for branch in &all.branches {
            assert_eq!(names(branch, ""), EMPTY, "{format}");
        }
        let some = scene(&options, &[(ReadWrite, &["d/"]), (ReadOnly, &["d/"]), (ReadWrite, &["d/"])]);
        some.union.root().rmdir(&server(), name("d")).unwrap();
        assert_eq!(names(&some.branches[2], ""), EMPTY);
        assert_eq!(list(&some.union.root(), &server()), EMPTY);
    }
}

#[test]
fn delete_all_keeps_objects_hidden_by_a_directory() {
    let hidden = scene(&[("delete", "all")], &[(ReadWrite, &[".wh.x"]), (ReadWrite, &["x/kept"])]);
    let root = hidden.union.root();
    root.mkdir(&server(), name("x"), 0o755).unwrap();
    root.rmdir(&server(), name("x")).unwrap();
    assert_eq!(at(&hidden.union, "x").err(), Some(Errno::ENOENT));
    assert_eq!(read(&hidden.branches[1], "x/kept").unwrap(), "1");
}

#[test]
fn delete_all_renames_every_instance() {
    for format in ["names", "overlay"] {
        let options = [("delete", "all"), ("whiteouts", format)];
        let modes = [(ReadWrite, &["a"][..]), (ReadWrite, &["a", "b"]), (ReadWrite, &["a"])];
        let all = scene(&options, &modes);
        let root = all.union.root();
        root.rename(&server(), name("a"), &root, name("b"), RenameMode::Replace).unwrap();
        for (index, branch) in all.branches.iter().enumerate() {
            assert_eq!(names(branch, ""), ["b"], "{format}");
            assert_eq!(read(branch, "b").unwrap(), index.to_string());
        }
        let some = scene(&options, &[(ReadWrite, &["a"]), (ReadOnly, &["a"]), (ReadWrite, &["a"])]);
        let root = some.union.root();
        root.rename(&server(), name("a"), &root, name("b"), RenameMode::Replace).unwrap();
        assert_eq!(list(&root, &server()), ["b"]);
        assert_eq!(read(&some.union, "b").unwrap(), "0");
        assert_eq!(names(&some.branches[2], ""), ["b"]);
        assert_eq!(names(&some.branches[1], ""), ["a"]);
    }
}

#[test]
fn overlayfs_whiteouts_replace_the_name() {
    let long = "l".repeat(255);
    let modes = [(ReadWrite, &["both", long.as_str(), "e/"][..]), (ReadOnly, &["both", "low", &long, "d/x", "e/"])];
    let scene = scene(&[("whiteouts", "overlay")], &modes);
    let root = scene.union.root();
    for gone in ["both", "low", &long] {
        root.unlink(&server(), name(gone)).unwrap();
    }
    at(&scene.union, "d").unwrap().unlink(&server(), name("x")).unwrap();
    root.rmdir(&server(), name("d")).unwrap();
    root.rmdir(&server(), name("e")).unwrap();
    assert_eq!(list(&root, &server()), EMPTY);
    assert_eq!(names(&scene.branches[0], ""), ["both", "d", "e", long.as_str(), "low"]);
    for gone in ["both", "d", "e", "low", &long] {
        let attributes = walk(&scene.branches[0], &server(), gone).unwrap().attributes;
        assert_eq!((attributes.kind, attributes.rdev), (FileKind::CharacterDevice, Device::default()), "{gone}");
    }
    root.mkdir(&server(), name("d"), 0o755).unwrap();
    assert_eq!(list(&at(&scene.union, "d").unwrap(), &server()), EMPTY);
    let made = at(&scene.branches[0], "d").unwrap();
    assert_eq!(list(&made, &server()), EMPTY, "no mark in it but an attribute");
    assert_eq!(made.getxattr(&server(), b"trusted.overlay.opaque").unwrap(), b"y");
    // Made anew where it was deleted, and refused there.
    write(&root, &long, "new");
    assert_eq!(read(&scene.union, &long).unwrap(), "new");
    let nobody = common::user(4000);
    root.setattr(&server(), &SetAttributes { mode: Some(0o755), ..SetAttributes::default() }).unwrap();
    assert_eq!(root.mkdir(&nobody, name("low"), 0o755).err(), Some(Errno::EACCES));
    assert_eq!(names(&scene.branches[0], ""), ["both", "d", "e", long.as_str(), "low"]);
}

/// A tmpfs, until it is dropped.
struct TmpfsMount(tempfile::TempDir);

impl TmpfsMount {
    /// `None`, with a word about it, where nothing can be mounted.
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = rustix::process::geteuid().is_root() && run("mount", &["-t", "tmpfs", "none"], directory.path());
        if !mounted {
            println!("skipped: a tmpfs cannot be mounted");
        }
        mounted.then(|| Self(directory))
    }

    fn directory(&self, name: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }
}

impl Drop for TmpfsMount {
    fn drop(&mut self) {
        run("umount", &["-l"], self.0.path());
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) -> bool {
    Command::new(program).args(arguments).arg(path).status().is_ok_and(|status| status.success())
}

fn open(path: &Path) -> FileSystemRef {
    Arc::new(dir::DirectoryFileSystem::open(path, dir::Options::default()).unwrap())
}

/// What the union shows, a line for each object.
fn tree_of_union(directory: &VnodeRef, path: &str, lines: &mut Vec<String>) {
    for entry in list(directory, &server()) {
        let found = directory.lookup(&server(), name(&entry)).unwrap();
        let kind = found.attributes.kind;
        let content = match kind {
            FileKind::Regular => String::from_utf8(common::contents(&found.vnode, &server())).unwrap(),
            FileKind::Symlink => String::from_utf8(found.vnode.readlink(&server()).unwrap()).unwrap(),
            _ => String::new(),
        };
        let path = format!("{path}/{entry}");
        lines.push(format!("{path} {kind:?} {:o} {content}", found.attributes.mode));
        if kind == FileKind::Directory {
            tree_of_union(&found.vnode, &path, lines);
        }
    }
}

/// The same of what the kernel shows, without the union's own directory.
fn tree_of_kernel(directory: &Path, path: &str, lines: &mut Vec<String>) {
    let mut entries: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for entry in entries {
        let shown = entry.file_name().unwrap().to_str().unwrap();
        if shown == ".wh..wh.plyfs" {
            continue;
        }
        let attributes = fs::symlink_metadata(&entry).unwrap();
        let (kind, content) = match attributes.file_type() {
            kind if kind.is_dir() => (FileKind::Directory, String::new()),
            kind if kind.is_symlink() => {
                (FileKind::Symlink, fs::read_link(&entry).unwrap().into_os_string().into_string().unwrap())
            }
            kind if kind.is_fifo() => (FileKind::Fifo, String::new()),
            kind if kind.is_file() => (FileKind::Regular, fs::read_to_string(&entry).unwrap()),
            kind => panic!("{}: {kind:?} is not a kind that the test makes", entry.display()),
        };
        let path = format!("{path}/{shown}");
        lines.push(format!("{path} {kind:?} {:o} {content}", attributes.mode() & 0o7777));
        if kind == FileKind::Directory {
            tree_of_kernel(&entry, &path, lines);
        }
    }
}

/// Changes of a tree in which every mark of a branch is needed.
fn change(random: &mut fastrand::Rng, directory: &VnodeRef) {
    let pick = |random: &mut fastrand::Rng| ["a", "b", "c"][random.usize(..3)];
    let place = |random: &mut fastrand::Rng| {
        let mut place = directory.clone();
        for _ in 0..random.usize(..3) {
            match place.lookup(&server(), name(pick(random))) {
                Ok(entry) if entry.attributes.is_directory() => place = entry.vnode,
                _ => break,
            }
        }
        place
    };
    let (from, to) = (place(random), place(random));
    let (one, other) = (name(pick(random)), name(pick(random)));
    // Most of these fail, as some are meant to.
    let _ = match random.u32(..9) {
        0 | 1 => from.create(&server(), one, &Creation { mode: 0o644, flags: OpenFlags::WRITE }).map(drop),
        2 | 3 => from.mkdir(&server(), one, 0o755).map(drop),
        4 => from.unlink(&server(), one),
        5 => from.rmdir(&server(), one),
        6 => from.symlink(&server(), one, b"target").map(drop),
        _ => from.rename(&server(), one, &to, other, RenameMode::Replace),
    };
}

/// The same by the kernel.
fn change_by_kernel(random: &mut fastrand::Rng, root: &Path) {
    let path = |random: &mut fastrand::Rng| {
        let parts = (0..random.usize(1..4)).map(|_| ["a", "b", "c"][random.usize(..3)]);
        parts.fold(root.to_owned(), |path, part| path.join(part))
    };
    let (one, other) = (path(random), path(random));
    let _ = match random.u32(..9) {
        0 | 1 => fs::write(one, "of the kernel"),
        2 | 3 => fs::create_dir(one),
        4 => fs::remove_file(one),
        5 => fs::remove_dir(one),
        6 => std::os::unix::fs::symlink("target", one),
        _ => fs::rename(one, other),
    };
}

fn mount_overlay(lower: &[&Path], upper: Option<(&Path, &Path)>, at: &Path) -> bool {
    let lower: Vec<String> = lower.iter().map(|path| path.display().to_string()).collect();
    let mut options = format!("redirect_dir=on,lowerdir={}", lower.join(":"));
    if let Some((upper, work)) = upper {
        options += &format!(",upperdir={},workdir={}", upper.display(), work.display());
    }
    run("mount", &["-t", "overlay", "none", "-o", &options], at)
}

#[test]
fn overlayfs_trees_are_interchangeable() {
    let Some(scratch) = TmpfsMount::new() else { return };
    let mut random = common::random();
    for round in 0..12 {
        let place = |name: &str| scratch.directory(&format!("{round}/{name}"));
        let (top, middle, bottom, mount) = (place("top"), place("middle"), place("bottom"), place("mount"));
        for (path, count) in [(&bottom, 60), (&middle, 30)] {
            (0..count).for_each(|_| change_by_kernel(&mut random, path));
        }
        let branches = || [(open(&top), ReadWrite), (open(&middle), ReadOnly), (open(&bottom), ReadOnly)];
        let deletion = ["whiteout", "all"][random.usize(..2)];
        let options = [("whiteouts", "overlay"), ("delete", deletion)];
        for turn in 0..4 {
            let union = join(&options, &branches());
            let mut expected = Vec::new();
            if turn > 0 {
                // What overlayfs left there.
                tree_of_union(&union.root(), "", &mut expected);
                let mut seen = Vec::new();
                if !mount_overlay(&[&top, &middle, &bottom], None, &mount) {
                    println!("skipped: overlayfs cannot be mounted");
                    return;
                }
                tree_of_kernel(&mount, "", &mut seen);
                run("umount", &["--lazy"], &mount);
                assert_eq!(expected, seen, "round {round}, turn {turn}: what the kernel wrote");
            }
            (0..40).for_each(|_| change(&mut random, &union.root()));
            expected.clear();
            tree_of_union(&union.root(), "", &mut expected);
            drop(union);
            if !mount_overlay(&[&middle, &bottom], Some((&top, &place("work"))), &mount) {
                println!("skipped: overlayfs cannot be mounted");
                return;
            }
            let mut seen = Vec::new();
            tree_of_kernel(&mount, "", &mut seen);
            if expected == seen {
                (0..40).for_each(|_| change_by_kernel(&mut random, &mount));
            }
            run("umount", &["--lazy"], &mount);
            assert_eq!(expected, seen, "round {round}, turn {turn}: what the union wrote");
        }
    }
}

/// Which branches have a path.
fn having(branches: &[FileSystemRef], path: &str) -> Vec<usize> {
    (0..branches.len()).filter(|index| at(&branches[*index], path).is_ok()).collect()
}

#[test]
fn round_robin_creates_parent_directories() {
    let scene = scene(&[("create", "round-robin")], &[(ReadWrite, &[]), (ReadOnly, &[]), (ReadWrite, &[])]);
    let root = scene.union.root();
    root.mkdir(&server(), name("d"), 0o750).unwrap();
    let directory = at(&scene.union, "d").unwrap();
    let number = directory.getattr(&server()).unwrap().ino;
    for file in ["a", "b", "c", "e"] {
        write(&directory, file, file);
    }
    assert_eq!(list(&directory, &server()), ["a", "b", "c", "e"]);
    assert_eq!((names(&scene.branches[0], "d").len(), names(&scene.branches[2], "d").len()), (2, 2));
    for branch in [0, 2] {
        assert_eq!(walk(&scene.branches[branch], &server(), "d").unwrap().attributes.mode, 0o750);
    }
    assert_eq!(names(&scene.branches[1], ""), EMPTY);
    assert_eq!(walk(&scene.union, &server(), "d").unwrap().attributes.ino, number, "it is the directory that it was");
    assert_eq!(at(&scene.union, "d").unwrap().handle(), directory.handle());
    let handle = directory.handle();
    let joined = [(scene.branches[0].clone(), ReadWrite), (scene.branches[2].clone(), ReadWrite)];
    drop((scene.union, directory, root));
    let later = join(&[], &joined);
    assert_eq!(walk(&later, &server(), "d").unwrap().attributes.ino, number, "after a restart too");
    assert_eq!(at(&later, "d").unwrap().handle(), handle);
}

#[test]
fn permissions_of_leftmost_directory_apply_in_other_branches() {
    let scene = scene(&[("create", "most-free")], &[(ReadWrite, &["d/"]), (ReadWrite, &["d/old"])]);
    fill(&scene.branches[0], "ballast", &"x".repeat(100_000));
    let directory = at(&scene.union, "d").unwrap();
    let (owner, stranger) = (common::user(1000), common::user(1001));
    let owned = SetAttributes { uid: Some(1000), gid: Some(7), mode: Some(0o2770), ..SetAttributes::default() };
    directory.setattr(&server(), &owned).unwrap();
    let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
    assert_eq!(directory.create(&stranger, name("new"), &how).err(), Some(Errno::EACCES));
    assert_eq!(directory.unlink(&stranger, name("old")), Err(Errno::EACCES));
    let before = directory.getattr(&server()).unwrap();
    let made = directory.create(&owner, name("new"), &how).unwrap().entry.attributes;
    assert_eq!((made.uid, made.gid), (1000, 7), "as in a directory with the set-group-id bit");
    assert_eq!(having(&scene.branches, "d/new"), [1]);
    let after = directory.getattr(&server()).unwrap();
    assert!(after.mtime > before.mtime, "the directory has changed where it is seen");
    directory.unlink(&owner, name("old")).unwrap();
    assert!(directory.getattr(&server()).unwrap().mtime > after.mtime);
    assert_eq!(list(&directory, &server()), ["new"]);
}

#[test]
fn each_create_policy_selects_its_branch() {
    let small = |size: u64, used: usize| {
        let branch = common::small_memory(size);
        fill(&branch, "ballast", &"x".repeat(used));
        branch
    };
    let branches = || vec![small(4 << 20, 3 << 20), small(8 << 20, 5 << 20), small(3 << 20, 1 << 20)];
    let chosen = |options: &[(&str, &str)]| {
        let branches = branches();
        fill(&branches[2], "only/x", "");
        let joined: Vec<_> = branches.iter().map(|branch| (branch.clone(), ReadWrite)).collect();
        let union = join(options, &joined);
        write(&at(&union, "only").unwrap(), "new", "");
        write(&union.root(), "new", "");
        (having(&branches, "only/new"), having(&branches, "new"))
    };
    assert_eq!(chosen(&[]), (vec![2], vec![0]));
    assert_eq!(chosen(&[("create", "first")]), (vec![2], vec![0]));
    assert_eq!(chosen(&[("create", "existing-path")]), (vec![2], vec![0]));
    assert_eq!(chosen(&[("create", "most-free")]), (vec![1], vec![1]));
    assert_eq!(chosen(&[("create", "least-used")]), (vec![2], vec![2]));
    assert_eq!(chosen(&[("create", "first"), ("minimum-free", "2m")]).1, [1], "a branch with less is passed over");
    assert_eq!(chosen(&[("create", "first"), ("minimum-free", "9g")]).1, [0], "unless all have less");
    let (mut at_random, all) = ([0; 3], branches());
    let joined: Vec<_> = all.iter().map(|branch| (branch.clone(), ReadWrite)).collect();
    let union = join(&[("create", "random")], &joined);
    for file in 0..200 {
        write(&union.root(), &file.to_string(), "");
        at_random[having(&all, &file.to_string())[0]] += 1;
    }
    assert!(at_random.iter().all(|count| *count > 20), "{at_random:?}");
}

#[test]
fn new_objects_are_never_placed_below_hiding_objects() {
    let modes = [
        (ReadWrite, &["d/.wh..wh..opq", "e/.wh.x", "f/"][..]),
        (ReadWrite, &["e/x", "e/y", "f"]),
        (ReadWrite, &["f/z"]),
    ];
    let scene = scene(&[("create", "least-used")], &modes);
    fill(&scene.branches[0], "ballast", &"x".repeat(10_000));
    write(&at(&scene.union, "d").unwrap(), "new", "");
    assert_eq!(having(&scene.branches, "d/new"), [0], "an opaque directory is in no branch on the right");
    let e = at(&scene.union, "e").unwrap();
    write(&e, "x", "new");
    assert_eq!(having(&scene.branches, "e/x"), [0, 1], "a whiteout hides the name on the right");
    assert_eq!(read(&scene.union, "e/x").unwrap(), "new");
    write(&at(&scene.union, "f").unwrap(), "new", "");
    assert_eq!(having(&scene.branches, "f/new"), [0], "behind a file there is no directory");
    for path in ["d/new", "e/x", "f/new"] {
        assert!(at(&scene.union, path).is_ok(), "{path}");
    }
}

#[test]
fn renamed_file_moves_up_when_its_new_name_is_hidden() {
    let modes = [(ReadWrite, &["d/.wh..wh..opq", ".wh.gone"][..]), (ReadWrite, &["file", "two"])];
    let scene = scene(&[], &modes);
    let (root, d) = (scene.union.root(), at(&scene.union, "d").unwrap());
    let file = at(&scene.union, "file").unwrap();
    let open = file.open(&server(), OpenFlags::READ_WRITE).unwrap();
    let number = file.getattr(&server()).unwrap().ino;
    root.rename(&server(), name("file"), &d, name("file"), RenameMode::Replace).unwrap();
    open.write_at(&server(), 0, b"later").unwrap();
    assert_eq!(read(&scene.union, "d/file").unwrap(), "later", "an open file follows");
    assert_eq!((having(&scene.branches, "d/file"), having(&scene.branches, "file")), (vec![0], vec![]));
    assert_eq!(walk(&scene.union, &server(), "d/file").unwrap().attributes.ino, number);
    let two = at(&scene.union, "two").unwrap();
    root.link(&server(), &two, name("gone")).unwrap();
    assert_eq!(read(&scene.union, "gone").unwrap(), "1");
    // A file with several names stays where they are: then programs copy.
    fill(&scene.branches[1], "first", "linked");
    let first = at(&scene.union, "first").unwrap();
    root.link(&server(), &first, name("second")).unwrap();
    let moved = root.rename(&server(), name("first"), &d, name("first"), RenameMode::Replace);
    assert_eq!(moved, Err(Errno::EXDEV));
    assert_eq!(read(&scene.union, "second").unwrap(), "linked");
}

#[test]
fn replaced_name_reveals_nothing() {
    // Behind the file that is replaced: a directory, a whiteout.
    let modes = [(ReadWrite, &["a", "b"][..]), (ReadWrite, &["a/kept", ".wh.b"]), (ReadWrite, &["x", "y", "b"])];
    let scene = scene(&[], &modes);
    let root = scene.union.root();
    root.rename(&server(), name("x"), &root, name("a"), RenameMode::Replace).unwrap();
    root.rename(&server(), name("y"), &root, name("b"), RenameMode::Replace).unwrap();
    assert_eq!((read(&scene.union, "a").unwrap(), read(&scene.union, "b").unwrap()), ("2".to_owned(), "2".to_owned()));
    assert_eq!(list(&root, &server()), ["a", "b"]);
    assert_eq!(read(&scene.branches[1], "a/kept").unwrap(), "1", "nothing below a hidden directory is lost");
}

#[test]
fn copyup_option_sets_owner() {
    let caller = Caller::with_groups(1000, 1001, &[], 0o027);
    let copied = |options: &[(&str, &str)]| {
        let scene = scene(options, &[(ReadWrite, &[]), (ReadOnly, &["d/x"])]);
        for (path, mode) in [("d", 0o777), ("d/x", 0o646)] {
            let changes = SetAttributes { uid: Some(5), gid: Some(6), mode: Some(mode), ..SetAttributes::default() };
            at(&scene.branches[1], path).unwrap().setattr(&server(), &changes).unwrap();
        }
        at(&scene.branches[1], "d/x").unwrap().setxattr(&server(), b"user.a", b"1", vnode::XattrMode::Set).unwrap();
        let node = at(&scene.union, "d/x").unwrap();
        node.open(&caller, OpenFlags::WRITE).unwrap().write_at(&caller, 0, b"9").unwrap();
        assert_eq!(read(&scene.union, "d/x").unwrap(), "9");
        assert_eq!(node.getxattr(&server(), b"user.a").unwrap(), b"1");
        ["d", "d/x"].map(|path| {
            let attributes = walk(&scene.branches[0], &server(), path).unwrap().attributes;
            (attributes.uid, attributes.gid, attributes.mode)
        })
    };
    assert_eq!(copied(&[]), [(5, 6, 0o777), (5, 6, 0o646)], "as the original");
    assert_eq!(copied(&[("copyup", "owner")]), copied(&[]));
    let constant = [("copyup", "const"), ("copyup-owner", "7:8"), ("copyup-mode", "640")];
    assert_eq!(copied(&constant), [(7, 8, 0o750), (7, 8, 0o640)]);
    // What lies above gives the caller no say in who gets at what else is there.
    assert_eq!(copied(&[("copyup", "current")]), [(5, 6, 0o777), (1000, 1001, 0o640)]);
}

#[test]
fn copied_parent_directories_keep_their_owner() {
    let scene = scene(&[("copyup", "current")], &[(ReadWrite, &[]), (ReadOnly, &["shared/mine/x", "shared/other"])]);
    for (path, uid, mode) in
        [("shared", 0, 0o1777), ("shared/mine", 5, 0o711), ("shared/mine/x", 5, 0o646), ("shared/other", 6, 0o600)]
    {
        let changes = SetAttributes { uid: Some(uid), gid: Some(uid), mode: Some(mode), ..SetAttributes::default() };
        at(&scene.branches[1], path).unwrap().setattr(&server(), &changes).unwrap();
    }
    let caller = Caller::with_groups(1000, 1000, &[], 0o022);
    let file = at(&scene.union, "shared/mine/x").unwrap().open(&caller, OpenFlags::WRITE).unwrap();
    file.write_at(&caller, 0, b"9").unwrap();
    let owned = |path: &str| {
        let attributes = walk(&scene.union, &server(), path).unwrap().attributes;
        (attributes.uid, attributes.mode)
    };
    assert_eq!(["shared", "shared/mine", "shared/mine/x"].map(owned), [(0, 0o1777), (5, 0o711), (1000, 0o644)]);
    let shared = at(&scene.union, "shared").unwrap();
    assert_eq!(shared.unlink(&caller, name("other")), Err(Errno::EPERM));
    let open = SetAttributes { mode: Some(0o777), ..SetAttributes::default() };
    assert_eq!(shared.setattr(&caller, &open).err(), Some(Errno::EPERM));
}

#[test]
fn invalid_options_are_refused() {
    let refused = |options: &[(&str, &str)]| {
        let options: Vec<_> = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let branch = Branch { file_system: memory(), mode: None, label: String::new(), minimum_free: None };
        plyfs_layers::kind("union").unwrap().join(&options, vec![branch], None).map(drop).unwrap_err().to_string()
    };
    for (options, words) in [
        (&[("delete", "some")][..], "expected whiteout or all"),
        (&[("whiteouts", "")], "expected names or overlay"),
        (&[("create", "last")], "random"),
        (&[("minimum-free", "12x")], "512m"),
        (&[("minimum-free", "99999999999t")], "512m"),
        (&[("copyup", "const")], "needs the option `copyup-owner`"),
        (&[("copyup", "const"), ("copyup-owner", "1:2")], "needs the option `copyup-mode`"),
        (&[("copyup-mode", "644")], "only together with copyup=const"),
        (&[("copyup", "const"), ("copyup-owner", "1"), ("copyup-mode", "644")], "1000:1000"),
        (&[("copyup", "const"), ("copyup-owner", "1:2"), ("copyup-mode", "77777")], "0640"),
    ] {
        let error = refused(options);
        assert!(error.contains(words), "{options:?}: {error}");
    }
}

#[test]
fn written_file_moves_from_full_branch() {
    let part = vec![b'p'; 100_000];
    let fill_up = |when_full: &str| {
        let branches =
            [common::small_memory(2 << 20), memory(), common::small_memory(1 << 20), common::small_memory(1 << 20)];
        fill(&branches[3], "d/x", "begin");
        let modes = [ReadWrite, ReadWrite, ReadWrite, ReadWrite];
        let joined: Vec<_> = branches.iter().cloned().zip(modes).collect();
        let union = join(&[("when-full", when_full)], &joined);
        let node = at(&union, "d/x").unwrap();
        let number = node.getattr(&server()).unwrap().ino;
        let reader = node.open(&server(), OpenFlags::READ).unwrap();
        let writer = node.open(&server(), OpenFlags::READ_WRITE).unwrap();
        let mut end = 0;
        let written = loop {
            if end >= 3 << 20 {
                break Ok(());
            }
            match writer.write_at(&server(), end, &part) {
                Ok(length) => end += length as u64,
                Err(error) => break Err(error),
            }
        };
        let mut byte = [0];
        if end > 0 {
            reader.read_at(&server(), end - 1, &mut byte).unwrap();
            assert_eq!(&byte, b"p", "whoever had it open sees what was written last");
        }
        assert_eq!(node.getattr(&server()).unwrap().size, end);
        assert_eq!(walk(&union, &server(), "d/x").unwrap().attributes.ino, number);
        (written, having(&branches, "d/x"))
    };
    assert_eq!(fill_up("fail"), (Err(Errno::ENOSPC), vec![3]));
    assert_eq!(fill_up("move"), (Ok(()), vec![1]), "past the branch that is as small");
}

#[test]
fn new_objects_and_copies_skip_full_branches() {
    let few = || -> FileSystemRef {
        let options = bases::mem::Options { size: 1 << 20, inodes: 8, mode: 0o777, uid: 0, gid: 0 };
        Arc::new(bases::mem::MemoryFileSystem::new(options))
    };
    for (when_full, expected) in [("fail", Err(Errno::ENOSPC)), ("move", Ok(()))] {
        let branches = [memory(), few(), few()];
        (0..7).for_each(|file| fill(&branches[1], &file.to_string(), ""));
        let joined = [(branches[1].clone(), ReadWrite), (branches[0].clone(), ReadWrite)];
        let union = join(&[("when-full", when_full)], &joined);
        let made = union.root().mkdir(&server(), name("new"), 0o755).map(drop);
        assert_eq!(made, expected, "{when_full}");
        if made.is_ok() {
            assert_eq!(having(&branches, "new"), [0]);
        }
        drop(union);
        let lower = memory();
        fill(&lower, "big", &"x".repeat(2 << 20));
        let joined = [(branches[0].clone(), ReadWrite), (branches[2].clone(), ReadWrite), (lower, ReadOnly)];
        let union = join(&[("when-full", when_full)], &joined);
        let changes = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        let changed = at(&union, "big").unwrap().setattr(&server(), &changes).map(drop);
        assert_eq!(changed, expected, "{when_full}");
        if changed.is_ok() {
            assert_eq!(having(&branches, "big"), [0]);
        }
        assert_eq!(walk(&union, &server(), "big").unwrap().attributes.size, 2 << 20);
    }
}

#[test]
fn read_only_branch_triggers_copy_up() {
    let (Some(scratch), upper) = (TmpfsMount::new(), memory()) else { return };
    let place = scratch.directory("");
    fs::create_dir(place.join("d")).unwrap();
    fs::write(place.join("d/x"), "lower").unwrap();
    fs::write(place.join("y"), "lower").unwrap();
    fs::write(place.join("z"), "lower").unwrap();
    let union = join(&[], &[(upper.clone(), ReadWrite), (open(&place), ReadWrite)]);
    let (x, root) = (at(&union, "d/x").unwrap(), union.root());
    let file = x.open(&server(), OpenFlags::READ).unwrap();
    assert!(run("mount", &["-o", "remount,ro"], &place));
    x.open(&server(), OpenFlags::WRITE).unwrap().write_at(&server(), 0, b"upper").unwrap();
    let mut data = [0; 5];
    file.read_at(&server(), 0, &mut data).unwrap();
    assert_eq!(&data, b"upper");
    root.rename(&server(), name("y"), &at(&union, "d").unwrap(), name("y"), RenameMode::Replace).unwrap();
    root.unlink(&server(), name("z")).unwrap();
    assert_eq!((read(&union, "d/x").unwrap(), read(&union, "d/y").unwrap()), ("upper".to_owned(), "lower".to_owned()));
    assert_eq!(list(&root, &server()), ["d"]);
    assert_eq!(fs::read_to_string(place.join("d/x")).unwrap(), "lower");
    assert!(union.describe().last().unwrap().details.ends_with("=ro"), "it is shown as what it is now");
}

#[test]
fn delete_all_reveals_no_foreign_objects() {
    let modes = [(ReadWrite, &["d/a"][..]), (ReadWrite, &["d/a"]), (ReadWrite, &["d/c"])];
    let scene = scene(&[("delete", "all")], &modes);
    let d = at(&scene.union, "d").unwrap();
    for missing in 0..64 {
        assert_eq!(d.lookup(&server(), name(&format!("missing {missing}"))).map(drop), Err(Errno::ENOENT));
    }
    fill(&scene.branches[2], "d/a", "behind");
    d.unlink(&server(), name("a")).unwrap();
    assert_eq!(read(&scene.union, "d/a").map(drop), Err(Errno::ENOENT));
}
