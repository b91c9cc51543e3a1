//! The file system of a directory: how it is opened, and what it declares.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, OFlags};
use vnode::{
    Caller, Claim, Description, FileSystem, Handle, KeptAccessTimes, Needs, Promises, Properties, Result, VnodeRef,
    profile,
};

use super::attached::{AttachedDirectory, Attachment};
use super::credentials::Credentials;
use super::error::OpenError;
use super::handle::WireHandle;
use super::node::{LookupLocation, Node};
use super::tree::Tree;
use super::{KIND, claim, errno, fsid, own_mount, shares};

/// Options for serving a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether only this stack can reach the directory: it is mounted over, or in a location of its own.
    pub exclusive: bool,
    /// Whether to identify objects by the kernel's file handles where the file system and our permissions allow it.
    /// Otherwise objects are identified by device, inode number and creation time: then handles do not survive a restart,
    /// and an object that others move without our knowledge is lost to its holders.
    pub file_handles: bool,
    /// Whether requests to synchronize, and `O_SYNC`, do nothing: faster, but what was written within the last minute may be lost or
    /// half-written after a crash of the machine. For what can be made again, as the `volatile` of overlayfs.
    pub volatile: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { exclusive: false, file_handles: true, volatile: false }
    }
}

/// A directory of this machine as a file system.
///
/// - As root with the usual capabilities it acts with the caller's credentials, so the lower file system performs the
///   permission checks; otherwise it acts as the user that it runs as, and [`Promises::checks_credentials`] is false. A
///   thread keeps the credentials of its last operation until the next: see [`crate::dir::restore_thread_credentials`].
/// - File systems mounted below the directory are crossed. Their inode numbers are mixed with the device number, so that
///   none collides with one of the directory's own file system. They stay busy once they have been visited. The stack's own
///   mount is not crossed: if it is below the directory, the covered directory is served.
/// - Handles reach every object of the file systems concerned, even outside the directory: a front end that accepts handles
///   from outside must authenticate them. If the kernel knows the object's path and that is outside, the handle is stale.
/// - `O_DIRECT` is not passed on, `O_NOATIME` only where it is allowed; `O_SYNC` and `O_DSYNC` are passed on,
///   unless [`Options::volatile`].
pub struct DirectoryFileSystem {
    pub(crate) tree: Arc<Tree<Node>>,
    pub(crate) root: Arc<Node>,
    path: PathBuf,
    options: Options,
}

impl DirectoryFileSystem {
    /// Opens the directory immediately, so that anything mounted over it later does not hide it.
    ///
    /// Raises the process's limit of open files as far as allowed, and uses at most a quarter of it for open directories. No
    /// user may hold so many open files that others cannot open any: see `EMFILE` in open(2).
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &Path, options: Options) -> std::result::Result<Self, OpenError> {
        Self::open_with(path, options, None)
    }

    /// As [`DirectoryFileSystem::open`], with a directory that appears in the root by a name that is not listed there. Objects can
    /// be renamed and linked between the two.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_with(
        path: &Path,
        options: Options,
        attachment: Option<&Attachment>,
    ) -> std::result::Result<Self, OpenError> {
        if !procfs::is_mounted() {
            return Err(OpenError::NoProc);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut thread = Credentials::probe().thread();
        let acting = thread.act_as_server().map_err(|error| OpenError::of(path, error))?;
        let descriptor = acting.open_at(CWD, path, flags).map_err(|error| OpenError::of(path, errno(error)))?;
        if own_mount::has(descriptor.as_fd()).map_err(|error| OpenError::of(path, error))? {
            return Err(OpenError::OwnMount(path.to_owned()));
        }
        let attached = attachment.map(|attachment| AttachedDirectory::open(&acting, descriptor.as_fd(), attachment));
        let attached = attached.transpose()?;
        let mut tree = Tree::new(descriptor, options.file_handles, descriptor_limit())
            .map_err(|error| OpenError::of(path, error))?;
        tree.attached = attached;
        tree.volatile = options.volatile;
        let tree = Arc::new(tree);
        let root = tree
            .entry_of(&mut tree.credentials.thread(), tree.root().as_fd(), LookupLocation::Unnamed)
            .map_err(|error| OpenError::of(path, error))?
            .0;
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        Ok(Self { tree, root, path, options })
    }

    /// Returns the path of the directory when it was opened, with symlinks resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl FileSystem for DirectoryFileSystem {
    fn root(&self) -> VnodeRef {
        profile::vnode(Arc::clone(&self.root))
    }

    fn resolve(&self, _caller: &Caller, handle: &Handle) -> Result<VnodeRef> {
        Ok(profile::vnode(self.tree.resolve(&WireHandle::decode(handle)?)?))
    }

    fn sync(&self) -> Result<()> {
        if self.tree.volatile {
            return Ok(());
        }
        let mut thread = self.tree.credentials.thread();
        let acting = thread.act_as_server()?;
        for mount in self.tree.mounts.all() {
            if let Some(descriptor) = mount.handles() {
                rustix::fs::syncfs(descriptor).map_err(errno)?;
            }
        }
        if self.tree.mounts.root().handles().is_none() {
            let root = acting.reopen(self.tree.root(), OFlags::RDONLY | OFlags::DIRECTORY).map_err(errno)?;
            rustix::fs::syncfs(root).map_err(errno)?;
        }
        Ok(())
    }

    fn fsid(&self) -> Option<u64> {
        fsid::of(self.tree.mounts.root().handles()?)
    }

    fn directory(&self) -> Option<(u64, u64)> {
        rustix::fs::fstat(self.tree.root()).map(|status| (status.st_dev, status.st_ino)).ok()
    }

    fn claim(&self) -> Result<Claim> {
        claim::of(&self.tree)
    }

    fn properties(&self) -> Properties {
        let root = self.tree.mounts.root();
        Properties {
            promises: Promises {
                exact_names: !root.folds_names(),
                exclusive: self.options.exclusive,
                checks_credentials: self.tree.credentials.assumes_callers(),
                persistent_handles: root.handles().is_some(),
                ..Promises::TRANSPARENT
            },
            needs: Needs {
                // A file system below this one, mounted now or later, may report errors at close.
                every_close: true,
                access_times: root.keeps_access_times() && !self.tree.preserves_file_access_times(),
                ..Needs::NONE
            },
        }
    }

    fn keep_access_times(&self, kept: KeptAccessTimes) {
        self.tree.keep_access_times(kept);
    }

    fn set_mount_point(&self, directory: BorrowedFd<'_>) {
        self.tree.set_mount_point(directory);
    }

    fn describe(&self) -> Vec<Description> {
        let details = self.path.to_string_lossy().into_owned();
        vec![Description { kind: KIND.to_owned(), details, properties: self.properties() }]
    }
}

/// Returns the maximum number of directories kept open.
fn descriptor_limit() -> usize {
    const CACHED_DESCRIPTORS_MAX: usize = 4_096;
    (shares::limit() / 4).clamp(16, CACHED_DESCRIPTORS_MAX)
}
