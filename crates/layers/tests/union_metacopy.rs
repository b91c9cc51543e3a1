//! Metadata-only copies of a union: what they are in a branch, where they are read, when their data come, and what happens
//! where these are gone. The kernel's overlayfs understands them, and the union those of the kernel.

mod common;

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bases::dir::{DirectoryFileSystem, Options};
use common::{contents, memory, name, small_memory, user, walk};
use plyfs_layers::union::{CheckOptions, Finding, Problem, check};
use plyfs_layers::{Branch, BranchMode};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use tempfile::TempDir;
use vnode::{
    Caller, Control, ControlError, Errno, FileSystemRef, Lock, LockFamily, LockKind, LockOwner, OpenFlags, RenameMode,
    Result, SeekTarget, SetAttributes, Timestamp, VnodeRef, XattrMode,
};

use BranchMode::{ReadOnly, ReadWrite};

const DATA: &[u8] = &[7; 20_000];
const METACOPY_XATTR: &str = "trusted.plyfs.metacopy";

fn server() -> Caller {
    Caller::server()
}

/// Directories `left` to be written and `right` to be read, and a union of them.
struct Scene {
    directory: TempDir,
    union: FileSystemRef,
}

impl Scene {
    /// With `d/f` on the right.
    fn new(options: &[(&str, &str)]) -> Self {
        Self::of(options, |_| {})
    }

    fn of(options: &[(&str, &str)], prepare: impl FnOnce(&Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for branch in ["left", "right"] {
            fs::create_dir(directory.path().join(branch)).unwrap();
        }
        fs::create_dir(directory.path().join("right/d")).unwrap();
        fs::write(directory.path().join("right/d/f"), DATA).unwrap();
        prepare(directory.path());
        let union = join(directory.path(), options, &[("left", ReadWrite), ("right", ReadOnly)]);
        Self { directory, union }
    }

    /// The same branches in another union.
    fn again(&mut self, options: &[(&str, &str)]) {
        self.again_of(options, &[("left", ReadWrite), ("right", ReadOnly)]);
    }

    fn again_of(&mut self, options: &[(&str, &str)], branches: &[(&str, BranchMode)]) {
        self.union = memory();
        self.union = join(self.directory.path(), options, branches);
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn at(&self, path: &str) -> VnodeRef {
        walk(&self.union, &server(), path).unwrap().vnode
    }

    fn chmod(&self, path: &str) {
        let changes = SetAttributes { mode: Some(0o640), ..SetAttributes::default() };
        self.at(path).setattr(&server(), &changes).unwrap();
    }

    fn read(&self, path: &str) -> Result<Vec<u8>> {
        read(&self.at(path))
    }

    fn tell(&self, command: &str, arguments: &[(&str, &str)]) -> std::result::Result<String, ControlError> {
        let arguments = arguments.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        self.union.control(&Control { target: "union".into(), command: command.into(), arguments })
    }

    fn check(&self, options: CheckOptions) -> Vec<Finding> {
        let mut findings = Vec::new();
        let branches = branches(self.directory.path(), &[("left", ReadWrite), ("right", ReadOnly)]);
        check(branches, &options, &mut |finding| findings.push(finding)).unwrap();
        findings
    }

    /// Whether the file on the left has a mark and no data.
    fn has_only_metadata(&self, path: &str) -> bool {
        let file = self.path(path);
        has_attribute(&file, METACOPY_XATTR) && has_no_data(&file)
    }
}

fn branches(directory: &Path, branches: &[(&str, BranchMode)]) -> Vec<Branch> {
    let branch = |(name, mode): &(&str, BranchMode)| Branch {
        file_system: Arc::new(DirectoryFileSystem::open(&directory.join(name), Options::default()).unwrap()),
        mode: Some(*mode),
        label: name.to_string(),
        minimum_free: None,
    };
    branches.iter().map(branch).collect()
}

fn join(directory: &Path, options: &[(&str, &str)], of: &[(&str, BranchMode)]) -> FileSystemRef {
    let options: Vec<_> = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let directory = directory.to_owned();
    let joined = branches(&directory, of);
    let opener = Arc::new(move |text: &str| Ok(branches(&directory, &[(text, ReadOnly)]).remove(0)));
    plyfs_layers::kind("union").unwrap().join(&options, joined, Some(opener)).unwrap_or_else(|error| panic!("{error}"))
}

fn read(file: &VnodeRef) -> Result<Vec<u8>> {
    let file = file.open(&server(), OpenFlags::READ)?;
    let mut data = vec![0; file.getattr(&server())?.size as usize];
    let length = file.read_at(&server(), 0, &mut data)?;
    data.truncate(length);
    Ok(data)
}

/// Whether the file is one hole. Its attributes may take room.
fn has_no_data(file: &Path) -> bool {
    let file = fs::File::open(file).unwrap();
    rustix::fs::seek(file, rustix::fs::SeekFrom::Data(0)) == Err(rustix::io::Errno::NXIO)
}

fn has_attribute(file: &Path, attribute: &str) -> bool {
    getxattr(file, attribute, &mut [0; 4200][..]).is_ok()
}

/// Metadata-only copies are marked by attributes that only the superuser sets.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: this needs root");
    }
    is_root
}

/// Whatever is done to a locked file between, who has locked it keeps the lock and can use it, and nobody else gets one.
#[test]
fn locks_survive_copies_and_layer_changes() {
    let chmod = |scene: &Scene| scene.chmod("d/f");
    let fill = |scene: &Scene| {
        let writer = scene.at("d/f").open(&server(), OpenFlags::READ_WRITE).unwrap();
        writer.write_at(&server(), 0, b"new").unwrap();
    };
    let snapshot = |scene: &Scene| drop(scene.tell("snapshot-take", &[("name", "s")]).unwrap());
    let second_snapshot = |scene: &Scene| drop(scene.tell("snapshot-take", &[("name", "t")]).unwrap());
    let restore = |scene: &Scene| drop(scene.tell("snapshot-restore", &[("name", "s")]).unwrap());
    let merge = |scene: &Scene| drop(scene.tell("snapshot-merge", &[]).unwrap());
    let histories: [&[FileChange<'_>]; 9] = [
        &[&chmod],
        &[&fill],
        &[&chmod, &fill],
        &[&chmod, &snapshot, &fill],
        &[&snapshot, &chmod, &fill, &merge],
        &[&chmod, &snapshot, &fill, &restore],
        &[&snapshot, &chmod, &restore, &chmod, &fill],
        &[&chmod, &snapshot, &chmod, &second_snapshot, &fill, &merge],
        &[&snapshot, &fill, &restore, &chmod, &restore],
    ];
    use {LockFamily::*, LockKind::*};
    for (number, history) in histories.into_iter().enumerate() {
        for metacopy in ["on", "off"] {
            // An exclusive lock of bytes needs a file opened for writing, which is copied with its data.
            for (family, kind) in [(Flock, Shared), (Flock, Exclusive), (Posix, Shared)] {
                for asks_between in [false, true] {
                    let case = format!("history {number}, metacopy={metacopy}, {family:?}, {kind:?}, {asks_between}");
                    let held = Lock { family, kind, start: 0, end: u64::MAX, pid: 1 };
                    locks_stay(history, metacopy, &held, asks_between, &case);
                }
            }
        }
    }
}

/// What happens to the file between.
type FileChange<'a> = &'a dyn Fn(&Scene);

fn locks_stay(history: &[FileChange<'_>], metacopy: &str, held: &Lock, asks_between: bool, case: &str) {
    let scene = Scene::new(&[("metacopy", metacopy)]);
    let lock = |kind| Lock { kind, ..*held };
    let open = |flags| scene.at("d/f").open(&server(), flags).unwrap();
    let (holder, before) = (open(OpenFlags::READ), open(OpenFlags::READ));
    let is_as_expected = |step: &str| {
        let expected = if held.kind == LockKind::Shared { Ok(()) } else { Err(Errno::EAGAIN) };
        assert_eq!(before.lock(&server(), &LockOwner::Number(2), &lock(LockKind::Shared)), expected, "{case}, {step}");
        before.lock(&server(), &LockOwner::Number(2), &lock(LockKind::Unlock)).unwrap();
    };
    holder.lock(&server(), &LockOwner::Number(1), held).unwrap();
    for (step, change) in history.iter().enumerate() {
        change(&scene);
        if asks_between {
            is_as_expected(&step.to_string());
        }
    }
    let after = open(OpenFlags::READ_WRITE);
    assert_eq!(after.lock(&server(), &LockOwner::Number(3), &lock(LockKind::Exclusive)), Err(Errno::EAGAIN), "{case}");
    let mut byte = [0];
    assert_eq!(holder.read_at(&server(), 9, &mut byte), Ok(1), "{case}");
    is_as_expected("at the end");
    drop(before);
    assert_eq!(after.lock(&server(), &LockOwner::Number(3), &lock(LockKind::Exclusive)), Err(Errno::EAGAIN), "{case}");
    drop(holder);
    assert_eq!(after.lock(&server(), &LockOwner::Number(3), &lock(LockKind::Exclusive)), Ok(()), "{case}");
}

#[test]
fn copy_from_metadata_only_file_writes_as_the_caller() {
    if !is_root() {
        return;
    }
    let scene = Scene::new(&[("metacopy", "on")]);
    scene.chmod("d/f");
    assert!(scene.has_only_metadata("left/d/f"));
    let target = scene.path("left/d/to");
    fs::write(&target, "").unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o4755)).unwrap();
    let from = scene.at("d/f").open(&server(), OpenFlags::READ).unwrap();
    let to = scene.at("d/to").open(&server(), OpenFlags::READ_WRITE).unwrap();
    let user = Caller::with_groups(1_000, 1_000, &[], 0o022);
    assert_eq!(from.copy_range(&user, 0, &to, 0, 8), Ok(8));
    bases::dir::restore_thread_credentials();
    assert!(scene.has_only_metadata("left/d/f"));
    assert_eq!(fs::read(&target).unwrap(), DATA[..8]);
    assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, 0o755, "a user makes no program of somebody else's");
}

#[test]
fn attribute_changes_copy_no_data() {
    if !is_root() {
        return;
    }
    let scene = Scene::new(&[("metacopy", "on")]);
    let before = scene.at("d/f").getattr(&server()).unwrap();
    scene.chmod("d/f");
    scene.at("d/f").setxattr(&server(), b"user.a", b"1", XattrMode::Set).unwrap();
    let left = fs::metadata(scene.path("left/d/f")).unwrap();
    assert_eq!((left.size(), left.mode() & 0o777), (DATA.len() as u64, 0o640));
    assert!(scene.has_only_metadata("left/d/f"));
    let after = scene.at("d/f").getattr(&server()).unwrap();
    assert_eq!((after.ino, after.blocks, after.mtime), (before.ino, before.blocks, before.mtime));
    assert_eq!(scene.read("d/f").unwrap(), DATA);
    let file = scene.at("d/f").open(&server(), OpenFlags::READ).unwrap();
    assert_eq!(file.seek(&server(), 0, SeekTarget::Data), Ok(0), "no hole is seen");
    assert_eq!(file.seek(&server(), 0, SeekTarget::Hole), Ok(DATA.len() as u64));
    assert!(file.backing().is_none(), "the kernel is not to read the original by itself");
    assert_eq!(scene.at("d/f").listxattr(&server()).unwrap(), b"user.a\0", "the mark is not shown");
    assert_eq!(fs::metadata(scene.path("right/d/f")).unwrap().mode() & 0o777, 0o644);

    let whole = Scene::new(&[]);
    whole.chmod("d/f");
    assert!(!has_attribute(&whole.path("left/d/f"), METACOPY_XATTR), "by default everything is copied");
}

/// The kernel would synchronize a mapping by itself, without the file's arrival: after a power cut its data would be lost.
#[test]
fn copies_are_used_directly_only_after_they_were_synchronized() {
    if !is_root() {
        return;
    }
    const LONG: usize = 16 << 20;
    let mut scene = Scene::of(&[], |directory| fs::write(directory.join("right/d/long"), vec![7; LONG]).unwrap());
    for path in ["d/f", "d/long"] {
        let open = |scene: &Scene, flags| scene.at(path).open(&server(), flags).unwrap();
        let writer = open(&scene, OpenFlags::READ_WRITE);
        assert!(writer.backing().is_none() && open(&scene, OpenFlags::READ).backing().is_none(), "{path}");
        drop(writer);
        scene.again(&[]);
        // Whether it was synchronized meanwhile is not known; what is long is, so that it can be used directly.
        let is_long = path == "d/long";
        assert!(open(&scene, OpenFlags::READ).backing().is_none(), "{path}");
        let writer = open(&scene, OpenFlags::READ_WRITE);
        assert_eq!(writer.backing().is_some(), is_long, "{path}");
        writer.fsync(&server(), true).unwrap();
        assert!(open(&scene, OpenFlags::READ_WRITE).backing().is_some(), "{path}");
    }
}

/// A program may map a file and close it; the kernel then tells nobody how long it is mapped.
#[test]
fn files_that_may_be_mapped_are_treated_as_open() {
    if !is_root() {
        return;
    }
    for closes in [false, true] {
        let scene = Scene::of(&[], |directory| fs::write(directory.join("left/f"), "before").unwrap());
        let file = scene.at("f").open(&server(), OpenFlags::READ_WRITE).unwrap();
        let backing = file.backing().expect("the kernel can write it").as_raw_fd();
        // As the kernel opens it for the mapping.
        let mapping = fs::File::options().read(true).write(true).open(format!("/proc/self/fd/{backing}")).unwrap();
        let file = (!closes).then_some(file);
        let refused = scene.tell("mode", &[("branch", "left"), ("mode", "ro")]);
        assert!(matches!(refused, Err(ControlError::Refused(_))), "{closes}: {refused:?}");
        scene.tell("snapshot-take", &[("name", "one")]).unwrap();
        mapping.write_all_at(b"after ", 0).unwrap();
        assert_eq!(scene.read("f").unwrap(), b"after ", "{closes}");
        assert_eq!(fs::read(scene.path("left/f")).unwrap(), b"before", "{closes}: the frozen layer");
        drop((file, mapping));
        // Now it is neither open nor mapped.
        scene.tell("mode", &[("branch", "left"), ("mode", "ro")]).unwrap();
    }
}

#[test]
fn files_that_were_open_more_than_once_are_closed_in_the_end() {
    if !is_root() {
        return;
    }
    let scene = Scene::of(&[], |directory| {
        fs::write(directory.join("left/f"), "f").unwrap();
        std::os::unix::fs::chown(directory.join("left/f"), Some(1_000), Some(1_000)).unwrap();
    });
    let open = || {
        let file = scene.at("f").open(&user(1_000), OpenFlags::READ_WRITE).unwrap();
        assert!(file.backing().is_some(), "the kernel can write it");
        file
    };
    let set_read_only = || scene.tell("mode", &[("branch", "left"), ("mode", "ro")]);
    let files = [open(), open(), open()];
    assert!(matches!(set_read_only(), Err(ControlError::Refused(_))));
    for file in files {
        assert!(matches!(set_read_only(), Err(ControlError::Refused(_))));
        drop(file);
    }
    set_read_only().unwrap();
}

#[test]
fn opening_for_writing_fills_in_data() {
    if !is_root() {
        return;
    }
    let scene = Scene::new(&[("metacopy", "on")]);
    scene.chmod("d/f");
    let reader = scene.at("d/f").open(&server(), OpenFlags::READ).unwrap();
    let before = scene.at("d/f").getattr(&server()).unwrap();
    let ino = fs::metadata(scene.path("left/d/f")).unwrap().ino();
    let writer = scene.at("d/f").open(&server(), OpenFlags::WRITE).unwrap();
    let after = scene.at("d/f").getattr(&server()).unwrap();
    assert_eq!((after.mtime, after.mode, after.ino), (before.mtime, before.mode, before.ino), "nobody sees them come");
    assert!(!has_attribute(&scene.path("left/d/f"), METACOPY_XATTR));
    assert_eq!(fs::read(scene.path("left/d/f")).unwrap(), DATA);
    assert_eq!(fs::metadata(scene.path("left/d/f")).unwrap().ino(), ino, "it is the same file");
    assert_eq!(fs::read_dir(scene.path("left/.wh..wh.plyfs/work")).unwrap().count(), 0);
    writer.write_at(&server(), 3, b"new").unwrap();
    let mut found = [0; 6];
    reader.read_at(&server(), 1, &mut found).unwrap();
    assert_eq!(&found, b"\x07\x07new\x07");
    assert_eq!(fs::read(scene.path("right/d/f")).unwrap(), DATA);
}

#[test]
fn concurrent_readers_see_data_while_they_are_filled_in() {
    if !is_root() {
        return;
    }
    for _ in 0..10 {
        let scene = &Scene::new(&[("metacopy", "on")]);
        scene.chmod("d/f");
        let check = |data: &[u8]| assert!(data.len() == DATA.len() && data.iter().all(|byte| [7, 9].contains(byte)));
        let early = scene.at("d/f").open(&server(), OpenFlags::READ).unwrap();
        std::thread::scope(|threads| {
            for index in 0..2 {
                threads.spawn(move || {
                    let file = scene.at("d/f").open(&server(), OpenFlags::READ_WRITE).unwrap();
                    assert_eq!(file.write_at(&server(), 5000 * (index + 1), &[9; 5000]), Ok(5000));
                });
                threads.spawn(move || (0..20).for_each(|_| check(&scene.read("d/f").unwrap())));
                threads.spawn(|| {
                    for _ in 0..20 {
                        let mut data = vec![0; DATA.len()];
                        let length = early.read_at(&server(), 0, &mut data).unwrap();
                        check(&data[..length]);
                    }
                });
                threads.spawn(move || scene.chmod("d/f"));
            }
        });
        let expected = [&[7; 5000][..], &[9; 10_000], &[7; 5000]].concat();
        assert_eq!((scene.read("d/f").unwrap(), read(&scene.at("d/f")).unwrap()), (expected.clone(), expected.clone()));
        assert_eq!(fs::read(scene.path("left/d/f")).unwrap(), expected);
    }
}

#[test]
fn filling_in_data_keeps_holes_and_attributes() {
    if !is_root() {
        return;
    }
    let scene = Scene::of(&[("metacopy", "on")], |directory| {
        let file = fs::File::create(directory.join("right/holes")).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(&[1; 4096], 1 << 19).unwrap();
        fs::set_permissions(directory.join("right/holes"), fs::Permissions::from_mode(0o444)).unwrap();
    });
    let owner = SetAttributes { uid: Some(7), gid: Some(8), ..SetAttributes::default() };
    scene.at("holes").setattr(&server(), &owner).unwrap();
    assert!(scene.has_only_metadata("left/holes"));
    let file = scene.at("holes").open(&server(), OpenFlags::READ).unwrap();
    assert_eq!(file.seek(&server(), 0, SeekTarget::Data), Ok(1 << 19));
    drop(scene.at("holes").open(&server(), OpenFlags::WRITE).unwrap());
    let left = fs::metadata(scene.path("left/holes")).unwrap();
    assert_eq!((left.uid(), left.gid(), left.mode() & 0o7777), (7, 8, 0o444));
    assert!(left.blocks() * 512 < 1 << 16, "holes take no room");
    assert_eq!(fs::read(scene.path("left/holes")).unwrap(), fs::read(scene.path("right/holes")).unwrap());
}

#[test]
fn truncation_fills_in_only_remaining_data() {
    if !is_root() {
        return;
    }
    let scene = Scene::new(&[("metacopy", "on")]);
    let resize = |size, caller: &Caller| {
        scene.at("d/f").setattr(caller, &SetAttributes { size: Some(size), ..SetAttributes::default() }).map(drop)
    };
    scene.chmod("d/f");
    assert_eq!(resize(0, &user(1001)), Err(Errno::EACCES));
    assert_eq!(
        scene.at("d/f").open(&user(1001), OpenFlags::WRITE.with(OpenFlags::TRUNCATE)).err(),
        Some(Errno::EACCES)
    );
    assert_eq!(scene.read("d/f").unwrap(), DATA, "who may not, changes nothing");
    assert!(scene.has_only_metadata("left/d/f"));
    resize(5000, &server()).unwrap();
    assert_eq!(fs::read(scene.path("left/d/f")).unwrap(), &DATA[..5000]);
    assert!(!has_attribute(&scene.path("left/d/f"), METACOPY_XATTR));

    let scene = Scene::new(&[("metacopy", "on")]);
    scene.chmod("d/f");
    fs::remove_file(scene.path("right/d/f")).unwrap();
    drop(scene.at("d/f").open(&server(), OpenFlags::WRITE.with(OpenFlags::TRUNCATE)).unwrap());
    assert_eq!(scene.read("d/f").unwrap(), b"", "to be emptied a file needs no data");
}

#[test]
fn metadata_only_file_keeps_data_under_any_name() {
    if !is_root() {
        return;
    }
    for format in ["names", "overlay"] {
        let options = [("metacopy", "on"), ("whiteouts", format)];
        let mut scene = Scene::new(&options);
        let root = scene.union.root();
        scene.at("d").rename(&server(), name("f"), &root, name("g"), RenameMode::Replace).unwrap();
        assert!(has_no_data(&scene.path("left/g")), "a rename copies no data");
        root.link(&server(), &scene.at("g"), name("h")).unwrap();
        root.rename(&server(), name("d"), &root, name("e"), RenameMode::Replace).unwrap();
        root.mkdir(&server(), name("d"), 0o755).unwrap();
        scene.at("d").rename(&server(), name("x"), &root, name("y"), RenameMode::Replace).unwrap_err();
        scene.at("d").create(&server(), name("f"), &creation()).unwrap();
        assert_eq!((scene.read("g").unwrap(), scene.read("h").unwrap()), (DATA.into(), DATA.into()));
        drop(root);
        scene.again(&[("whiteouts", format)]);
        assert_eq!((scene.read("g").unwrap(), scene.read("h").unwrap()), (DATA.into(), DATA.into()));
        drop(scene.at("h").open(&server(), OpenFlags::WRITE).unwrap());
        assert_eq!(fs::read(scene.path("left/g")).unwrap(), DATA, "all names lead to one file");
        assert_eq!(scene.at("g").getattr(&server()).unwrap().nlink, 2);
        scene.union = memory();
        assert_eq!(scene.check(CheckOptions::default()), []);
    }
}

fn creation() -> vnode::Creation {
    vnode::Creation { mode: 0o644, flags: OpenFlags::READ_WRITE }
}

#[test]
fn files_that_need_data_are_copied_completely() {
    if !is_root() {
        return;
    }
    let scene = Scene::of(&[("metacopy", "on")], |directory| {
        fs::hard_link(directory.join("right/d/f"), directory.join("right/d/g")).unwrap();
        fs::write(directory.join("right/set-id"), DATA).unwrap();
        fs::set_permissions(directory.join("right/set-id"), fs::Permissions::from_mode(0o4755)).unwrap();
        fs::write(directory.join("right/empty"), b"").unwrap();
    });
    for path in ["d/f", "set-id", "empty"] {
        scene.chmod(path);
        let (left, right) = (scene.path("left").join(path), scene.path("right").join(path));
        assert!(!has_attribute(&left, METACOPY_XATTR), "{path}");
        assert_eq!(fs::read(left).unwrap(), fs::read(right).unwrap());
    }
    assert_eq!(scene.read("d/g").unwrap(), DATA);

    // A branch between that may be changed: what is on the right of the copy would not stay.
    let mut scene = Scene::of(&[], |directory| fs::create_dir(directory.join("middle")).unwrap());
    scene
        .again_of(&[("metacopy", "on")], &[("left", ReadWrite), ("middle", BranchMode::NoCreate), ("right", ReadOnly)]);
    scene.chmod("d/f");
    assert_eq!(fs::read(scene.path("left/d/f")).unwrap(), DATA);
}

#[test]
fn missing_data_are_an_error() {
    if !is_root() {
        return;
    }
    let damages: [fn(&Path); 4] = [
        |right| fs::remove_file(right.join("d/f")).unwrap(),
        |right| fs::rename(right.join("d"), right.join("e")).unwrap(),
        |right| fs::write(right.join("d/f"), b"shorter").unwrap(),
        |right| {
            fs::remove_file(right.join("d/f")).unwrap();
            fs::create_dir(right.join("d/f")).unwrap();
        },
    ];
    for damage in damages {
        for option in ["on", "off"] {
            let mut scene = Scene::new(&[("metacopy", "on")]);
            scene.chmod("d/f");
            let open = scene.at("d/f").open(&server(), OpenFlags::READ).unwrap();
            damage(&scene.path("right"));
            let mut buffer = [0; 20_000];
            let read = open.read_at(&server(), 0, &mut buffer);
            assert!(read == Err(Errno::EIO) || buffer == DATA, "never zeros");
            drop(open);
            scene.again(&[("metacopy", option)]);
            assert_eq!(scene.at("d/f").getattr(&server()).unwrap().size, DATA.len() as u64);
            assert_eq!(scene.read("d/f"), Err(Errno::EIO));
            assert_eq!(scene.at("d/f").open(&server(), OpenFlags::WRITE).err(), Some(Errno::EIO));
            scene.union = memory();
            let gone = Problem::DataGone(Some(b"/d/f".to_vec()));
            let found = |repair| scene.check(CheckOptions { repair, idle: false, losses: false });
            assert_eq!(found(false).into_iter().map(|finding| finding.problem).collect::<Vec<_>>(), [gone]);
            assert_eq!(found(true)[0].repair, Some(Err(Errno::EIO)), "nothing can be repaired");
        }
    }
}

#[test]
fn reads_stop_at_the_size_of_the_copy_and_reject_replaced_originals() {
    if !is_root() {
        return;
    }
    // The owner of a directory can put a file there that only others may read, and make one of its own look as old and as long.
    let mut scene = Scene::new(&[("metacopy", "on")]);
    let original = fs::metadata(scene.path("right/d/f")).unwrap();
    scene.chmod("d/f");
    fs::write(scene.path("right/d/new"), vec![9; DATA.len()]).unwrap();
    fs::File::options()
        .write(true)
        .open(scene.path("right/d/new"))
        .unwrap()
        .set_modified(original.modified().unwrap())
        .unwrap();
    fs::rename(scene.path("right/d/new"), scene.path("right/d/f")).unwrap();
    scene.again(&[]);
    assert_eq!(scene.read("d/f"), Err(Errno::EIO));
    assert_eq!(scene.at("d/f").open(&server(), OpenFlags::WRITE).err(), Some(Errno::EIO));
    assert!(scene.has_only_metadata("left/d/f"));

    let mut scene = Scene::new(&[("metacopy", "on")]);
    scene.chmod("d/f");
    fs::write(scene.path("right/d/f"), vec![9; 30_000]).unwrap();
    scene.again(&[]);
    assert_eq!(scene.read("d/f").unwrap(), vec![9; DATA.len()]);
    drop(scene.at("d/f").open(&server(), OpenFlags::WRITE).unwrap());
    assert_eq!(fs::read(scene.path("left/d/f")).unwrap(), vec![9; DATA.len()]);
}

#[test]
fn superuser_trusts_only_superuser_marks() {
    if !is_root() {
        return;
    }
    for format in ["plyfs", "overlay"] {
        let mut scene = Scene::of(&[], |directory| {
            let file = directory.join("left/f");
            fs::write(&file, b"").unwrap();
            fs::File::options().write(true).open(&file).unwrap().set_len(100).unwrap();
            let flags = XattrFlags::empty();
            match format {
                "plyfs" => setxattr(&file, "user.plyfs.metacopy", b"1.0 20000 /d/f", flags).unwrap(),
                _ => {
                    setxattr(&file, "user.overlay.redirect", b"/d/f", flags).unwrap();
                    setxattr(&file, "user.overlay.metacopy", b"", flags).unwrap();
                }
            }
        });
        assert_eq!(scene.read("f"), Err(Errno::EIO));
        scene.union = memory();
        let found = scene.check(CheckOptions::default());
        assert_eq!(found.into_iter().map(|finding| finding.problem).collect::<Vec<_>>(), [Problem::DataUnbelieved]);
    }
}

#[test]
fn redirect_never_leaves_the_branches() {
    if !is_root() {
        return;
    }
    for path in ["/../secret", "/d/../../secret", "../secret", "/d/link", "/secret", "secret"] {
        let scene = Scene::of(&[], |directory| {
            fs::write(directory.join("secret"), DATA).unwrap();
            std::os::unix::fs::symlink(directory.join("secret"), directory.join("right/d/link")).unwrap();
            let file = directory.join("left/f");
            fs::write(&file, b"").unwrap();
            fs::File::options().write(true).open(&file).unwrap().set_len(100).unwrap();
            setxattr(&file, "trusted.overlay.redirect", path.as_bytes(), XattrFlags::empty()).unwrap();
            setxattr(&file, "trusted.overlay.metacopy", b"", XattrFlags::empty()).unwrap();
        });
        assert_eq!(scene.read("f"), Err(Errno::EIO), "{path}");
    }
}

#[test]
fn hard_linked_copy_without_path_has_no_data() {
    if !is_root() {
        return;
    }
    for redirect in [None, Some("f")] {
        for originals_are_one in [false, true] {
            let scene = Scene::of(&[], |directory| {
                let file = directory.join("left/a");
                fs::write(&file, b"").unwrap();
                fs::File::options().write(true).open(&file).unwrap().set_len(100).unwrap();
                setxattr(&file, "trusted.overlay.metacopy", b"", XattrFlags::empty()).unwrap();
                if let Some(redirect) = redirect {
                    setxattr(&file, "trusted.overlay.redirect", redirect.as_bytes(), XattrFlags::empty()).unwrap();
                }
                fs::create_dir(directory.join("left/d")).unwrap();
                for name in ["b", "d/f"] {
                    fs::hard_link(&file, directory.join("left").join(name)).unwrap();
                }
                for (number, name) in ["a", "b", "f"].into_iter().enumerate() {
                    fs::write(directory.join("right").join(name), vec![number as u8; 100]).unwrap();
                }
                if originals_are_one {
                    for name in ["a", "b", "f"] {
                        let name = directory.join("right").join(name);
                        fs::remove_file(&name).unwrap();
                        fs::hard_link(directory.join("right/d/f"), name).unwrap();
                    }
                }
            });
            for name in ["a", "b", "d/f", "a"] {
                let expected = if originals_are_one { Ok(DATA[..100].to_vec()) } else { Err(Errno::EIO) };
                assert_eq!(scene.read(name), expected, "{name}, {redirect:?}");
            }
        }
    }
}

#[test]
fn branches_come_and_go() {
    if !is_root() {
        return;
    }
    let scene = Scene::of(&[("metacopy", "on")], |directory| {
        fs::create_dir_all(directory.join("other/d")).unwrap();
        fs::write(directory.join("other/d/f"), vec![1; 40_000]).unwrap();
    });
    scene.chmod("d/f");
    scene.tell("add", &[("branch", "other"), ("at", "1")]).unwrap();
    assert_eq!(scene.read("d/f").unwrap(), DATA, "the data are those of the branch that it came from");
    let refused = scene.tell("mode", &[("branch", "right"), ("mode", "rw")]);
    assert!(matches!(refused, Err(ControlError::Refused(_))), "{refused:?}");
    let open = scene.at("d/f").open(&server(), OpenFlags::READ).unwrap();
    scene.tell("remove", &[("branch", "right")]).unwrap();
    assert_eq!(scene.read("d/f"), Err(Errno::EIO));
    let mut found = [0; 10];
    assert_eq!(open.read_at(&server(), 0, &mut found), Ok(10), "what is open stays open");
    assert_eq!(found, [7; 10]);
    scene.tell("add", &[("branch", "right")]).unwrap();
    assert_eq!(scene.read("d/f").unwrap(), DATA);
    drop(scene.at("d/f").open(&server(), OpenFlags::WRITE).unwrap());
    assert_eq!(fs::read(scene.path("left/d/f")).unwrap(), DATA);
}

#[test]
fn branches_with_data_stay_read_only_in_later_unions() {
    if !is_root() {
        return;
    }
    let mut scene = Scene::new(&[("metacopy", "on")]);
    scene.chmod("d/f");
    scene.again_of(&[], &[("left", ReadWrite), ("right", ReadWrite)]);
    assert!(scene.tell("branches", &[]).unwrap().contains("right=ro"));
    scene.at("d").unlink(&server(), name("f")).unwrap();
    assert!(scene.path("right/d/f").exists());
    scene.union = memory();
    let idle = CheckOptions { repair: true, idle: true, losses: false };
    let found = scene.check(idle).into_iter().map(|finding| finding.problem).collect::<Vec<_>>();
    assert_eq!(found, [Problem::NoMetacopies], "when there are no such copies any more it can be changed again");
    scene.again_of(&[], &[("left", ReadWrite), ("right", ReadWrite)]);
    assert!(scene.tell("branches", &[]).unwrap().contains("right=rw"));
}

#[test]
fn snapshots_keep_and_fill_in_data() {
    if !is_root() {
        return;
    }
    let take = |scene: &Scene, snapshot| scene.tell("snapshot-take", &[("name", snapshot)]).unwrap();
    for end in ["merge", "drop", "restore"] {
        let mut scene = Scene::new(&[("metacopy", "on")]);
        fs::write(scene.path("left/own"), DATA).unwrap();
        let mode = scene.at("own").getattr(&server()).unwrap().mode;
        scene.chmod("d/f");
        take(&scene, "one");
        let writer = scene.at("own").open(&server(), OpenFlags::READ_WRITE).unwrap();
        take(&scene, "two");
        scene.chmod("own");
        let own = scene.path("left/.wh..wh.plyfs/layers/2/own");
        assert!(has_attribute(&own, METACOPY_XATTR) && has_no_data(&own));
        let mut found = [0; 4];
        writer.read_at(&server(), 0, &mut found).unwrap();
        assert_eq!(found, [7; 4], "a file that was open for writing reads what is below");
        let changes = scene.tell("snapshot-diff", &[("from", "two")]).unwrap();
        assert!(changes.contains("own") && !changes.contains("d/f"), "{changes}");
        match end {
            "merge" => drop(scene.tell("snapshot-merge", &[]).unwrap()),
            "drop" => drop(scene.tell("snapshot-drop", &[("name", "two")]).unwrap()),
            _ => drop(scene.tell("snapshot-restore", &[("name", "one")]).unwrap()),
        }
        assert_eq!((scene.read("own").unwrap(), scene.read("d/f").unwrap()), (DATA.into(), DATA.into()));
        if end != "restore" {
            let own = ["left/own", "left/.wh..wh.plyfs/layers/1/own"].map(|path| scene.path(path));
            let own =
                own.iter().find(|path| path.exists() && path.metadata().unwrap().mode() & 0o777 == 0o640).unwrap();
            assert_eq!((fs::read(own).unwrap(), has_attribute(own, METACOPY_XATTR)), (DATA.into(), false));
            writer.write_at(&server(), 0, b"new").unwrap();
            assert_eq!(&scene.read("own").unwrap()[..4], b"new\x07");
        }
        assert_eq!(scene.at("own").getattr(&server()).unwrap().mode, if end == "restore" { mode } else { 0o640 });
        drop(writer);
        scene.union = memory();
        assert_eq!(scene.check(CheckOptions::default()), []);
    }
}

#[test]
fn layer_with_missing_data_is_not_merged() {
    if !is_root() {
        return;
    }
    let mut scene = Scene::new(&[("metacopy", "on")]);
    fs::write(scene.path("left/own"), DATA).unwrap();
    scene.tell("snapshot-take", &[("name", "one")]).unwrap();
    scene.chmod("own");
    fs::remove_file(scene.path("left/own")).unwrap();
    assert_eq!(scene.tell("snapshot-merge", &[]), Err(ControlError::Failed(Errno::EIO)));
    scene.again(&[]);
    assert_eq!(scene.read("own"), Err(Errno::EIO), "the union can be used as before");
}

#[test]
fn copy_without_room_for_data_moves_to_another_branch() {
    let (large, small, lower) = (memory(), small_memory(16 << 10), memory());
    let file = lower.root().create(&server(), name("f"), &creation()).unwrap().file;
    file.write_at(&server(), 0, &[7; 100_000]).unwrap();
    for when_full in ["fail", "move"] {
        let branch = |file_system: &FileSystemRef, mode, label: &str| Branch {
            file_system: file_system.clone(),
            mode: Some(mode),
            label: label.to_owned(),
            minimum_free: None,
        };
        let branches =
            vec![branch(&large, ReadWrite, "a"), branch(&small, ReadWrite, "b"), branch(&lower, ReadOnly, "c")];
        let options = [("metacopy", "on"), ("when-full", when_full)];
        let options: Vec<_> = options.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let union = plyfs_layers::kind("union").unwrap().join(&options, branches, None).unwrap();
        let node = walk(&union, &server(), "f").unwrap().vnode;
        node.setattr(&server(), &SetAttributes { mode: Some(0o600), ..SetAttributes::default() }).unwrap();
        assert!(walk(&small, &server(), "f").is_ok(), "there is room for attributes");
        let before = node.getattr(&server()).unwrap();
        let opened = node.open(&server(), OpenFlags::WRITE).map(drop);
        assert_eq!(opened, if when_full == "fail" { Err(Errno::ENOSPC) } else { Ok(()) });
        assert_eq!(node.getattr(&server()).unwrap().mtime, before.mtime);
        assert_eq!(contents(&node, &server()), [7; 100_000]);
        assert_eq!(walk(&large, &server(), "f").is_ok(), when_full == "move");
    }
}

/// The kernel's overlayfs of both branches, mounted while this lives.
struct KernelOverlay<'a>(&'a Scene);

impl<'a> KernelOverlay<'a> {
    fn mount(scene: &'a Scene) -> Self {
        for made in ["work", "mnt"] {
            fs::create_dir_all(scene.path(made)).unwrap();
        }
        let path = |path: &str| scene.path(path).display().to_string();
        let layers = format!("lowerdir={},upperdir={},workdir={}", path("right"), path("left"), path("work"));
        let options = format!("{layers},metacopy=on,redirect_dir=on,index=off");
        let mount = ["-t", "overlay", "overlay", "-o", &options, &path("mnt")].map(str::to_owned);
        assert!(Command::new("mount").args(mount).status().unwrap().success());
        Self(scene)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path("mnt").join(path)
    }
}

impl Drop for KernelOverlay<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path("mnt")).status();
    }
}

fn can_mount_overlay() -> bool {
    let is_known = fs::read_to_string("/proc/filesystems").unwrap_or_default().contains("overlay")
        || Command::new("modprobe").arg("overlay").status().is_ok_and(|status| status.success());
    if !is_known {
        println!("skipped: there is no overlayfs here");
    }
    is_root() && is_known
}

#[test]
fn kernel_overlay_reads_metadata_only_copies() {
    if !can_mount_overlay() {
        return;
    }
    let mut scene = Scene::of(&[("metacopy", "on"), ("whiteouts", "overlay")], |directory| {
        fs::write(directory.join("right/d/g"), DATA).unwrap();
        fs::write(directory.join("right/moved"), DATA).unwrap();
    });
    scene.chmod("d/f");
    scene.chmod("d/g");
    let root = scene.union.root();
    root.rename(&server(), name("moved"), &scene.at("d"), name("here"), RenameMode::Replace).unwrap();
    root.rename(&server(), name("d"), &root, name("e"), RenameMode::Replace).unwrap();
    drop(root);
    scene.union = memory();
    {
        let overlay = KernelOverlay::mount(&scene);
        for path in ["e/f", "e/g", "e/here"] {
            assert_eq!(fs::read(overlay.path(path)).unwrap(), DATA, "{path}");
            assert!(has_no_data(&scene.path("left").join(path)), "{path}");
        }
        assert_eq!(fs::metadata(overlay.path("e/f")).unwrap().mode() & 0o777, 0o640);
        assert!(!overlay.path("moved").exists());
        fs::File::options().write(true).open(overlay.path("e/g")).unwrap().write_all_at(b"new", 0).unwrap();
        fs::rename(overlay.path("e/here"), overlay.path("again")).unwrap();
    }
    scene.again(&[]);
    assert_eq!((scene.read("e/f").unwrap(), scene.read("again").unwrap()), (DATA.into(), DATA.into()));
    assert_eq!(&scene.read("e/g").unwrap()[..4], b"new\x07");
    scene.union = memory();
    let found = scene.check(CheckOptions { repair: true, idle: false, losses: false });
    assert_eq!(found.len(), 1, "the kernel leaves the path when it has brought the data: {found:?}");
    assert_eq!((&found[0].problem, found[0].repair), (&Problem::MovedFile, Some(Ok(()))));
}

#[test]
fn kernel_metadata_only_copies_are_read() {
    if !can_mount_overlay() {
        return;
    }
    let prepare = |directory: &Path| {
        for file in ["g", "h", "linked"] {
            fs::write(directory.join("right/d").join(file), DATA).unwrap();
        }
        fs::hard_link(directory.join("right/d/linked"), directory.join("right/other")).unwrap();
    };
    let mut scene = Scene::of(&[], prepare);
    scene.union = memory();
    {
        let overlay = KernelOverlay::mount(&scene);
        let mode = || fs::Permissions::from_mode(0o640);
        for path in ["d/f", "d/g", "d/h", "d/linked"] {
            fs::set_permissions(overlay.path(path), mode()).unwrap();
        }
        fs::rename(overlay.path("d/g"), overlay.path("d/renamed")).unwrap();
        fs::rename(overlay.path("d/h"), overlay.path("moved")).unwrap();
        fs::rename(overlay.path("d"), overlay.path("e")).unwrap();
    }
    let paths = ["e/f", "e/renamed", "moved", "e/linked"];
    for path in paths {
        assert!(has_attribute(&scene.path("left").join(path), "trusted.overlay.metacopy"), "{path}");
    }
    for option in ["on", "off"] {
        scene.again(&[("whiteouts", "overlay"), ("metacopy", option)]);
        for path in paths {
            assert_eq!(scene.read(path).unwrap(), DATA, "{path}");
            let attributes = scene.at(path).getattr(&server()).unwrap();
            assert_eq!((attributes.mode, attributes.blocks > 0), (0o640, true), "{path}");
        }
    }
    let root = scene.union.root();
    // Marks that tell no path, or a name, are made to tell one.
    for (from, to) in [("f", "f2"), ("renamed", "r2")] {
        scene.at("e").rename(&server(), name(from), &root, name(to), RenameMode::Replace).unwrap();
        assert_eq!(scene.read(to).unwrap(), DATA, "{to}");
        assert!(has_no_data(&scene.path("left").join(to)), "{to}");
    }
    drop(root);
    scene.union = memory();
    {
        let overlay = KernelOverlay::mount(&scene);
        for path in ["f2", "r2", "moved", "e/linked"] {
            assert_eq!(fs::read(overlay.path(path)).unwrap(), DATA, "{path}");
        }
    }
    scene.again(&[]);
    for path in ["f2", "r2", "moved", "e/linked"] {
        scene.at(path).open(&server(), OpenFlags::WRITE).unwrap().write_at(&server(), 0, b"new").unwrap();
        assert_eq!(&fs::read(scene.path("left").join(path)).unwrap()[..4], b"new\x07", "{path}");
        assert!(!has_attribute(&scene.path("left").join(path), "trusted.overlay.metacopy"), "{path}");
    }
    assert_eq!(fs::read(scene.path("right/d/linked")).unwrap(), DATA);
    let mtime = scene.at("f2").getattr(&server()).unwrap().mtime;
    assert!(mtime > Timestamp { seconds: 0, nanoseconds: 0 });
    scene.union = memory();
    assert_eq!(scene.check(CheckOptions::default()), []);
}

/// By each of its names a copy of overlayfs that tells no path has its data at that name. Where these are several files, it is none
/// of them by one name and another by the next.
#[test]
fn hard_linked_copy_has_data_of_one_file() {
    use common::unions::{at, joined, name, read, write};
    let [left, right] = [common::memory(), common::memory()];
    let linked = |branch: &FileSystemRef, from: &str, to: &str| {
        let file = at(branch, from).unwrap();
        branch.root().link(&Caller::server(), &file, name(to)).unwrap();
        file
    };
    write(&left.root(), "one", b"   ");
    let copy = linked(&left, "one", "other");
    copy.setxattr(&Caller::server(), b"trusted.overlay.metacopy", b"", vnode::XattrMode::Set).unwrap();
    for (file, second) in [("one", "first"), ("other", "second")] {
        write(&right.root(), file, file.as_bytes());
        linked(&right, file, second);
    }
    let scene = joined(vec![(BranchMode::ReadWrite, left), (BranchMode::ReadOnly, right)]);
    let held = at(&scene.union, "one").unwrap();
    assert_eq!(read(&scene.union, "one").as_deref(), Ok("one"));
    assert_eq!(read(&scene.union, "other").err(), Some(Errno::EIO));
    drop(held);
}
