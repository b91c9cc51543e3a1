//! Branches in directories, the union of them, and the operations whose end half-way is looked at.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bases::dir::{DirectoryFileSystem, Options};
use plyfs_layers::{Branch, BranchMode};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, makedev, mknodat, setxattr, utimensat,
};
use rustix::mount::{MountFlags, UnmountFlags};
use vnode::{
    Caller, Control, ControlError, Creation, Errno, FileKind, FileSystem, FileSystemRef, Name, NameBuf, OpenFlags,
    RenameMode, Result, SetAttributes, VnodeRef, XattrMode,
};

use super::view::at;

/// What is changed, and what of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    OpenToWrite(&'static str),
    OpenAndTruncate(&'static str),
    /// A write behind the end of the file.
    Append(&'static str),
    Resize(&'static str, u64),
    Chmod(&'static str),
    SetXattr(&'static str),
    Create(&'static str),
    Mkdir(&'static str),
    Symlink(&'static str),
    Fifo(&'static str),
    /// A device with the number of overlayfs's whiteouts.
    Device(&'static str),
    /// From, to.
    Link(&'static str, &'static str),
    Unlink(&'static str),
    Rmdir(&'static str),
    /// From, to.
    Rename(&'static str, &'static str),
    /// From, to.
    Exchange(&'static str, &'static str),
    /// From, where a device that is a whiteout stays, to.
    RenameWhiteout(&'static str, &'static str),
    /// Of a branch, by its name.
    Drain(&'static str),
    /// A command on snapshots, and the snapshot's name.
    Snapshot(&'static str, &'static str),
    /// The same while files are open for writing: those that the kernel writes by itself, and others.
    SnapshotOfOpen(&'static str, &'static str, &'static [&'static str], &'static [&'static str]),
}

/// A union before an operation, and the operation.
pub(crate) struct Scenario {
    pub name: &'static str,
    /// From the left: `rw`, `ro`, `nc`, or `full` for one that may be written but has no room, and what is there. A path that ends with a slash is a directory, `a=b` a hard
    /// link of `b`, `a>b` a symlink to `b`, `a!` a device 0:0, `a*` a file
    /// with the set-user-id bit, and any other path a file.
    pub branches: &'static [(&'static str, &'static [&'static str])],
    /// What users have done already.
    pub earlier: &'static [Operation],
    pub operation: Operation,
}

/// The mode of a branch without room.
const FULL: &str = "full";

/// Options of a union, with commas between them: `delete=all`, say, or none.
pub(crate) type UnionOptions = &'static str;

/// The branches of a scenario, in directories.
pub(crate) struct Scene<'a> {
    scenario: &'a Scenario,
    options: UnionOptions,
    directory: PathBuf,
    /// File systems that are unmounted at the end.
    mounts: Vec<PathBuf>,
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        for mount in &self.mounts {
            let _ = rustix::mount::unmount(mount, UnmountFlags::DETACH);
        }
    }
}

impl<'a> Scene<'a> {
    /// Makes them, with all that users have done earlier.
    pub(crate) fn make(scenario: &'a Scenario, options: UnionOptions, directory: &Path) -> Self {
        let mut scene = Self::made(scenario, options, directory);
        let mut full = Vec::new();
        for (index, (mode, paths)) in scenario.branches.iter().enumerate() {
            let branch = scene.branch(index);
            if *mode == FULL {
                let mount = scene.directory.join(index.to_string());
                if !mount.exists() {
                    fs::create_dir(&mount).unwrap();
                    rustix::mount::mount("none", &mount, "tmpfs", MountFlags::empty(), Some(c"size=64k")).unwrap();
                    scene.mounts.push(mount.clone());
                }
                full.push(mount);
            }
            // A file system may be mounted there already.
            fs::create_dir_all(&branch).unwrap();
            // The mask is one of the whole process, which other tests change.
            fs::set_permissions(&branch, fs::Permissions::from_mode(0o755)).unwrap();
            paths.iter().for_each(|path| fill(&branch, index, path));
        }
        for operation in scenario.earlier {
            perform(&*scene.union(), *operation).unwrap();
        }
        for mount in &full {
            let room = fs::write(mount.join("filler"), vec![1; 1 << 24]);
            assert_eq!(room.unwrap_err().kind(), ErrorKind::StorageFull);
        }
        scene
    }

    /// Those that were made already.
    pub(crate) fn made(scenario: &'a Scenario, options: UnionOptions, directory: &Path) -> Self {
        Self { scenario, options, directory: directory.to_owned(), mounts: Vec::new() }
    }

    /// A new union of them.
    pub(crate) fn union(&self) -> FileSystemRef {
        let options = self.options.split(',').filter_map(|option| option.split_once('='));
        let options: Vec<_> = options.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        plyfs_layers::kind("union").unwrap().join(&options, self.branches(), None).unwrap()
    }

    /// What is in the work directories, without the numbers.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        let of_branch = |index| {
            let entries = fs::read_dir(self.branch(index).join(".wh..wh.plyfs/work")).into_iter().flatten();
            entries.map(move |entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                format!("{index} {}", name.trim_end_matches(|letter: char| letter.is_ascii_digit()))
            })
        };
        let mut all: Vec<String> = (0..self.scenario.branches.len()).flat_map(of_branch).collect();
        all.sort();
        all
    }

    /// Them.
    pub(crate) fn branches(&self) -> Vec<Branch> {
        let branch = |(index, (mode, _)): (usize, &(&str, &[&str]))| Branch {
            file_system: Arc::new(DirectoryFileSystem::open(&self.branch(index), Options::default()).unwrap()),
            mode: Some(match *mode {
                "rw" | FULL => BranchMode::ReadWrite,
                "nc" => BranchMode::NoCreate,
                _ => BranchMode::ReadOnly,
            }),
            label: format!("branch {index}"),
            minimum_free: None,
        };
        self.scenario.branches.iter().enumerate().map(branch).collect()
    }

    fn branch(&self, index: usize) -> PathBuf {
        let place = self.directory.join(index.to_string());
        if self.scenario.branches[index].0 == FULL { place.join("branch") } else { place }
    }
}

/// Does it, by vnode calls, as the superuser. `ready` is called when everything is found that it is done with.
pub(crate) fn perform_from(union: &dyn FileSystem, operation: Operation, ready: impl FnOnce()) -> Result<()> {
    let (caller, server) = (Caller::with_groups(0, 0, &[], 0o022), Caller::server());
    let file = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE) };
    let path = |path: &'static str| at(union, path);
    match operation {
        Operation::OpenToWrite(name) => {
            let vnode = path(name);
            ready();
            vnode.open(&caller, OpenFlags::READ_WRITE).map(drop)
        }
        Operation::OpenAndTruncate(name) => {
            let vnode = path(name);
            ready();
            vnode.open(&caller, OpenFlags::READ_WRITE.with(OpenFlags::TRUNCATE)).map(drop)
        }
        Operation::Append(name) => {
            let file = path(name).open(&caller, OpenFlags::READ_WRITE)?;
            ready();
            file.write_at(&caller, 10_000, b"end").map(drop)
        }
        Operation::Resize(name, size) => {
            let vnode = path(name);
            ready();
            vnode.setattr(&caller, &SetAttributes { size: Some(size), ..SetAttributes::default() }).map(drop)
        }
        Operation::Chmod(name) => {
            let vnode = path(name);
            ready();
            vnode.setattr(&caller, &SetAttributes { mode: Some(0o4711), ..SetAttributes::default() }).map(drop)
        }
        Operation::SetXattr(name) => {
            let vnode = path(name);
            ready();
            vnode.setxattr(&server, b"user.new", b"value", XattrMode::Set)
        }
        Operation::Create(name) => {
            let (place, name) = split(union, name);
            ready();
            place.create(&caller, name.as_name(), &file).map(drop)
        }
        Operation::Mkdir(name) => {
            let (place, name) = split(union, name);
            ready();
            place.mkdir(&caller, name.as_name(), 0o751).map(drop)
        }
        Operation::Symlink(name) => {
            let (place, name) = split(union, name);
            ready();
            place.symlink(&caller, name.as_name(), b"somewhere").map(drop)
        }
        Operation::Fifo(name) => {
            let (place, name) = split(union, name);
            ready();
            place.mknod(&caller, name.as_name(), FileKind::Fifo, 0o600, vnode::Device::default()).map(drop)
        }
        Operation::Device(name) => {
            let (place, name) = split(union, name);
            ready();
            place.mknod(&caller, name.as_name(), FileKind::CharacterDevice, 0o600, vnode::Device::default()).map(drop)
        }
        Operation::Link(from, to) => {
            let (target, (place, name)) = (path(from), split(union, to));
            ready();
            place.link(&caller, &target, name.as_name()).map(drop)
        }
        Operation::Unlink(name) => {
            let (place, name) = split(union, name);
            ready();
            place.unlink(&caller, name.as_name())
        }
        Operation::Rmdir(name) => {
            let (place, name) = split(union, name);
            ready();
            place.rmdir(&caller, name.as_name())
        }
        Operation::Rename(from, to) => rename(union, from, to, RenameMode::Replace, ready),
        Operation::Drain(branch) => {
            ready();
            tell(union, "drain", ("branch", branch))
        }
        Operation::Snapshot(command, name) => {
            ready();
            tell(union, command, ("name", name))
        }
        Operation::SnapshotOfOpen(command, name, direct, others) => {
            let open = |name: &&'static str| path(name).open(&caller, OpenFlags::READ_WRITE).unwrap();
            let (direct, _others): (Vec<_>, Vec<_>) =
                (direct.iter().map(open).collect(), others.iter().map(open).collect());
            // Copies are not written directly before that.
            direct.iter().for_each(|file| file.fsync(&caller, false).unwrap());
            assert!(direct.iter().all(|file| file.backing().is_some()), "the kernel can write them");
            ready();
            tell(union, command, ("name", name))
        }
        Operation::Exchange(from, to) => rename(union, from, to, RenameMode::Exchange, ready),
        Operation::RenameWhiteout(from, to) => rename(union, from, to, RenameMode::Whiteout, ready),
    }
}

fn tell(union: &dyn FileSystem, command: &str, (key, value): (&str, &str)) -> Result<()> {
    let arguments = vec![(key.to_owned(), value.to_owned())];
    match union.control(&Control { target: "union".to_owned(), command: command.to_owned(), arguments }) {
        Ok(_) => Ok(()),
        Err(ControlError::Failed(errno)) => Err(errno),
        // There is, or there is no such snapshot.
        Err(_) => Err(Errno::EINVAL),
    }
}

/// Does it.
pub(crate) fn perform(union: &dyn FileSystem, operation: Operation) -> Result<()> {
    perform_from(union, operation, || {})
}

fn rename(union: &dyn FileSystem, from: &str, to: &str, mode: RenameMode, ready: impl FnOnce()) -> Result<()> {
    let ((from, from_name), (to, to_name)) = (split(union, from), split(union, to));
    ready();
    let caller = Caller::with_groups(0, 0, &[], 0o022);
    from.rename(&caller, from_name.as_name(), &to, to_name.as_name(), mode)
}

/// The directory that the path's last component is in, and that component.
fn split(union: &dyn FileSystem, path: &str) -> (VnodeRef, NameBuf) {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    (at(union, above), Name::new(name.as_bytes()).unwrap().to_owned())
}

/// Makes one object and the directories above it, each with attributes of its own.
fn fill(branch: &Path, index: usize, text: &str) {
    let (path, target) = text.split_once(['=', '>']).unwrap_or((text, ""));
    let place = branch.join(path.trim_end_matches(['/', '!', '*']));
    let mut directory = branch.to_owned();
    for part in Path::new(path.trim_end_matches('/')).parent().unwrap().components() {
        directory.push(part);
        make_directory(&directory, index);
    }
    match text.chars().find(|&letter| matches!(letter, '=' | '>' | '!')) {
        Some('=') => fs::hard_link(branch.join(target), &place).unwrap(),
        Some('>') => symlink(target, &place).unwrap(),
        Some(_) => {
            mknodat(CWD, &place, FileType::CharacterDevice, Mode::empty(), makedev(0, 0)).unwrap();
        }
        None if path.ends_with('/') => make_directory(&place, index),
        None => {
            fs::write(&place, format!("{index}:{path}")).unwrap();
            dress(&place, if path.ends_with('*') { 0o4755 } else { 0o640 }, index);
        }
    }
}

fn make_directory(place: &Path, index: usize) {
    match fs::create_dir(place) {
        Ok(()) => dress(place, 0o750, index),
        Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{}: {error}", place.display()),
    }
}

/// Gives an object an owner, a mode, an attribute and a time.
fn dress(place: &Path, mode: u32, index: usize) {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(place, Some(1000 + index as u32), Some(2000)).unwrap();
    }
    fs::set_permissions(place, fs::Permissions::from_mode(mode)).unwrap();
    setxattr(place, "user.note", format!("of {index}").as_bytes(), XattrFlags::empty()).unwrap();
    let time = Timespec { tv_sec: 1_000_000 + index as i64, tv_nsec: 0 };
    utimensat(CWD, place, &Timestamps { last_access: time, last_modification: time }, AtFlags::empty()).unwrap();
}
