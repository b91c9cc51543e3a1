//! The directories of one probe, on file systems of its own, and the union that is mounted over them.

use std::borrow::Cow;
use std::cell::RefCell;
use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags};
use tempfile::TempDir;

use crate::subject::{Change, Subject, Wish};
use crate::{Outcome, eventually};

/// A branch: its path, and whether it may be written.
#[derive(Clone)]
pub(crate) struct Branch<'a> {
    pub path: Cow<'a, str>,
    pub writable: bool,
}

/// A branch that may be written.
pub(crate) fn rw(path: &str) -> Branch<'_> {
    Branch { path: Cow::Borrowed(path), writable: true }
}

/// A branch that may only be read.
pub(crate) fn ro(path: &str) -> Branch<'_> {
    Branch { path: Cow::Borrowed(path), writable: false }
}

impl Branch<'_> {
    /// `PATH=MODE`.
    pub(crate) fn equals(&self, writable: &str, readable: &str) -> String {
        format!("{}={}", self.path, if self.writable { writable } else { readable })
    }
}

/// Directories for one probe of one subject, in a new tmpfs. What is prepared here must succeed.
pub(crate) struct Scene {
    pub subject: Subject,
    directory: TempDir,
}

impl Scene {
    pub(crate) fn new(subject: Subject) -> Self {
        let directory = tempfile::Builder::new().prefix("plyfs-compared-").tempdir().expect("a directory is made");
        let scene = Self { subject, directory };
        open_to_all(scene.directory.path());
        mount_kernel("tmpfs", scene.directory.path(), "mode=755");
        scene
    }

    /// A path in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The same as text.
    pub(crate) fn name(&self, name: &str) -> String {
        self.path(name).to_str().expect("scratch paths are text").to_owned()
    }

    /// Makes a directory and all above it.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).expect("a directory is made");
        path
    }

    /// Makes files, each with its own path as text, and the directories that they are in.
    pub(crate) fn files(&self, names: &[&str]) {
        for name in names {
            self.directory(Path::new(name).parent().and_then(Path::to_str).expect("a path of text"));
            fs::write(self.path(name), name).expect("a file is made");
        }
    }

    /// Mounts a new file system of the kernel on a directory.
    pub(crate) fn file_system(&self, kind: &str, name: &str, options: &str) {
        mount_kernel(kind, &self.directory(name), options);
    }

    /// The text of a file in a branch.
    pub(crate) fn read(&self, name: &str) -> Result<String, Box<dyn Error>> {
        Ok(fs::read_to_string(self.path(name)).map_err(|error| format!("{name} in the branch: {error}"))?)
    }

    /// Whether something is there in a branch.
    pub(crate) fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.path(name)).is_ok()
    }

    /// The union of these branches, mounted; it has to be possible.
    pub(crate) fn mount(&self, branches: &[Branch<'_>]) -> Union<'_> {
        self.try_mount(branches, None).unwrap_or_else(|error| panic!("{} cannot be mounted: {error}", self.subject))
    }

    /// The union of these branches, mounted if the subject can.
    pub(crate) fn try_mount(&self, branches: &[Branch<'_>], wish: Option<Wish>) -> Result<Union<'_>, Box<dyn Error>> {
        for branch in branches {
            self.directory(&branch.path);
            self.directory(&format!("{}.work", branch.path));
        }
        self.mount_as_is(branches, wish)
    }

    /// As [`try_mount`](Self::try_mount), without making directories for branches that are not there.
    pub(crate) fn mount_as_is(&self, branches: &[Branch<'_>], wish: Option<Wish>) -> Result<Union<'_>, Box<dyn Error>> {
        let whole: Vec<_> = branches.iter().map(|branch| self.whole(branch)).collect();
        let path = self.directory("mount");
        self.subject.mount(&whole, wish, &path)?;
        Ok(Union { scene: self, path, branches: RefCell::new(whole), wish })
    }

    fn whole(&self, branch: &Branch<'_>) -> Branch<'static> {
        Branch { path: Cow::Owned(self.name(&branch.path)), writable: branch.writable }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let root = self.directory.path().to_str().expect("scratch paths are text").to_owned();
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let inside = |path: &&str| **path == root || path.strip_prefix(&root).is_some_and(|rest| rest.starts_with('/'));
        let mounts: Vec<_> = table.lines().filter_map(|line| line.split(' ').nth(4)).filter(inside).collect();
        for path in mounts.into_iter().rev() {
            let _ = rustix::mount::unmount(path, UnmountFlags::DETACH);
        }
    }
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode is set");
}

fn mount_kernel(kind: &str, path: &Path, options: &str) {
    let options = std::ffi::CString::new(options).expect("options have no zero bytes");
    let mounted = rustix::mount::mount(kind, path, kind, MountFlags::empty(), Some(options.as_c_str()));
    mounted.unwrap_or_else(|error| panic!("{kind} cannot be mounted: {error}"));
}

/// A mounted union. What is asked of it may fail: that is what is probed.
pub(crate) struct Union<'a> {
    pub scene: &'a Scene,
    path: PathBuf,
    branches: RefCell<Vec<Branch<'static>>>,
    wish: Option<Wish>,
}

impl Union<'_> {
    /// A path in the mount.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Where it is mounted, as text.
    pub(crate) fn mount_point(&self) -> String {
        self.scene.name("mount")
    }

    /// The text of a file.
    pub(crate) fn read(&self, name: &str) -> Result<String, Box<dyn Error>> {
        Ok(fs::read_to_string(self.path(name)).map_err(|error| format!("{name}: {error}"))?)
    }

    /// Writes a file anew.
    pub(crate) fn write(&self, name: &str, text: &str) -> Outcome {
        Ok(fs::write(self.path(name), text).map_err(|error| format!("writing {name}: {error}"))?)
    }

    /// Whether a name is there, to look-ups or in the listing of its directory.
    pub(crate) fn has(&self, name: &str) -> Result<bool, Box<dyn Error>> {
        let path = Path::new(name);
        let directory = path.parent().and_then(Path::to_str).unwrap_or_default();
        let listed = self.list(directory)?.iter().any(|listed| Some(listed.as_ref()) == path.file_name());
        Ok(listed || fs::symlink_metadata(self.path(name)).is_ok())
    }

    /// The names in a directory, as often as they are listed, in the order of names.
    pub(crate) fn list(&self, name: &str) -> Result<Vec<String>, Box<dyn Error>> {
        let entries = fs::read_dir(self.path(name)).map_err(|error| format!("listing {name:?}: {error}"))?;
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry?.file_name().into_string().map_err(|name| format!("{name:?}"))?);
        }
        names.sort();
        Ok(names)
    }

    /// Unmounts, and mounts the same branches.
    pub(crate) fn remount(&self) -> Outcome {
        self.unmount()?;
        eventually(|| self.scene.subject.mount(&self.branches.borrow(), self.wish, &self.path))
    }

    /// Unmounts. A process that another probe is just starting may keep the mount, or what is open in it, for a moment.
    pub(crate) fn unmount(&self) -> Outcome {
        eventually(|| self.scene.subject.unmount(&self.path))
    }

    /// Puts a branch at this place.
    pub(crate) fn insert(&self, at: usize, branch: &Branch<'_>) -> Outcome {
        self.scene.directory(&branch.path);
        let branch = self.scene.whole(branch);
        self.branches.borrow_mut().insert(at, branch.clone());
        self.scene.subject.change(&Change::Insert(at, branch), &self.branches.borrow(), &self.path)
    }

    /// Takes a branch out.
    pub(crate) fn remove(&self, name: &str) -> Outcome {
        let name = self.scene.name(name);
        self.branches.borrow_mut().retain(|branch| branch.path != name);
        self.scene.subject.change(&Change::Remove(&name), &self.branches.borrow(), &self.path)
    }

    /// Changes whether a branch may be written.
    pub(crate) fn set_mode(&self, branch: &Branch<'_>) -> Outcome {
        let branch = self.scene.whole(branch);
        for other in self.branches.borrow_mut().iter_mut().filter(|other| other.path == branch.path) {
            other.writable = branch.writable;
        }
        self.scene.subject.change(&Change::Mode(branch), &self.branches.borrow(), &self.path)
    }
}
