//! The directory under test: on an ext4 image, in a tmpfs, or at the path given in the environment.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::operation::{Action, Operation};

/// A directory accessible to everybody, created for one test and cleaned up when dropped.
pub(crate) struct TestDirectory {
    path: PathBuf,
    mounted: bool,
    is_tmpfs: bool,
    scratch: tempfile::TempDir,
}

impl TestDirectory {
    /// Creates a directory on a new ext4 image; prints the reason and returns `None` if that is not possible.
    pub(crate) fn image() -> Option<Self> {
        let scratch = scratch_in(&std::env::temp_dir())?;
        let image = scratch.path().join("image");
        let mount = scratch.path().join("mount");
        std::fs::create_dir(&mount).ok()?;
        std::fs::File::create(&image).and_then(|file| file.set_len(256 << 20)).ok()?;
        let is_mounted = run("mkfs.ext4", [OsStr::new("-qFb4096"), image.as_os_str()])
            && run("mount", [OsStr::new("-oloop,acl,user_xattr"), image.as_os_str(), mount.as_os_str()]);
        if !is_mounted {
            println!("skipped: no ext4 image can be made and mounted here");
            return None;
        }
        Some(Self::within(mount, true, false, scratch))
    }

    /// Creates a directory in the machine's tmpfs.
    pub(crate) fn tmpfs() -> Option<Self> {
        let scratch = scratch_in(Path::new("/dev/shm"))?;
        Some(Self::within(scratch.path().to_owned(), false, true, scratch))
    }

    /// Creates a directory below the path in `MODEL_DIRECTORY`, if that is set.
    pub(crate) fn from_environment() -> Option<Self> {
        let scratch = scratch_in(Path::new(&std::env::var_os("MODEL_DIRECTORY")?))?;
        Some(Self::within(scratch.path().to_owned(), false, false, scratch))
    }

    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether every change is visible in the timestamps: the coarse clock that tmpfs takes for a directory may
    /// stand still.
    pub(crate) fn has_fine_times(&self) -> bool {
        !self.is_tmpfs
    }

    /// Returns whether the operation behaves as on other file systems. tmpfs cannot zero ranges, cut them out or put
    /// them in, and taking the ACL from a directory of a group that one is not in takes its set-group-id bit too.
    pub(crate) fn supports(&self, operation: &Operation) -> bool {
        const ACCESS: &str = "system.posix_acl_access";
        const EMPTY_ACL: usize = 4;
        let differs = match &operation.action {
            Action::Allocate { mode, .. } => *mode > 3,
            Action::RemoveXattr { name } => *name == ACCESS,
            Action::SetXattr { name, value, .. } => *name == ACCESS && value.len() <= EMPTY_ACL,
            _ => false,
        };
        !(self.is_tmpfs && differs)
    }

    fn within(parent: PathBuf, mounted: bool, is_tmpfs: bool, scratch: tempfile::TempDir) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let path = parent.join("tree");
        std::fs::create_dir(&path).expect("the directory is made");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).expect("the directory is opened to all");
        Self { path, mounted, is_tmpfs, scratch }
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        if self.mounted {
            run("umount", [OsStr::new("-l"), self.scratch.path().join("mount").as_os_str()]);
        }
    }
}

fn scratch_in(directory: &Path) -> Option<tempfile::TempDir> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: acting as several users needs root");
        return None;
    }
    tempfile::Builder::new().prefix("plyfs-model-").tempdir_in(directory).ok()
}

fn run<const N: usize>(program: &str, arguments: [&OsStr; N]) -> bool {
    Command::new(program).args(arguments).status().is_ok_and(|status| status.success())
}
