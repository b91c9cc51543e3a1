//! A whole file system: its root, its handles, its properties, its run-time control.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::{Caller, Claim, Errno, Handle, Name, Properties, Result, VnodeRef};

/// A file system: a base, or a layer over others. Used as [`FileSystemRef`].
pub trait FileSystem: Send + Sync + 'static {
    /// Returns the root directory, which always exists while the file system does.
    fn root(&self) -> VnodeRef;

    /// Returns the vnode for a handle issued by this file system, also by an earlier instance if
    /// [`crate::Promises::persistent_handles`] is declared. A front end that accepts handles from outside authenticates
    /// them, and passes the caller of each request: a layer that hides objects from the caller, or shows it others,
    /// does so here too. The caller needs no permission on the way to the object, which operations on the vnode do not
    /// check either. What the server resolves for itself, it resolves as [`Caller::server`].
    ///
    /// # Errors
    /// `ESTALE` if the object is gone, this file system never issued the handle, or the caller is not shown the object;
    /// the error of a rule of a layer that refuses the caller the object by name, such as `EACCES`.
    fn resolve(&self, caller: &Caller, handle: &Handle) -> Result<VnodeRef>;

    /// Flushes everything written to stable storage, as syncfs(2). Default: does nothing.
    ///
    /// # Errors
    /// Those of the storage, such as `EIO`.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Ends the use of the file system: flushes everything as [`FileSystem::sync`], and marks the storage as no longer in use where
    /// it has such a mark, as unmounting does. Called once, after the last operation of the last front end; changes after that may
    /// fail with `EROFS`, and open files of unlinked objects with any error. A file system that is dropped without this call does
    /// the same, but reports errors only to the log. Layers over other file systems pass it down. Default: as
    /// [`FileSystem::sync`].
    ///
    /// # Errors
    /// Those of the storage, such as `EIO`: what was not synced before may be lost.
    fn end_of_use(&self) -> Result<()> {
        self.sync()
    }

    /// Returns the identifier of the file system that stores the objects (`f_fsid` of statfs(2), where it is derived
    /// from the UUID): unique, and the same whenever and wherever that file system is mounted. Layers over another file
    /// system pass it on. Default: `None`, for a file system that has no such identifier or several.
    fn fsid(&self) -> Option<u64> {
        None
    }

    /// Returns the device and inode numbers (stat(2)) of the directory that the root stands for: nothing else has them while this file
    /// system is in use. Default: `None`, for a root that is not a directory of another file system as it is.
    fn directory(&self) -> Option<(u64, u64)> {
        None
    }

    /// Claims the file system exclusively for the lifetime of the result: a writer that treats all of it as its own,
    /// such as a union that keeps records in it, claims it first. Writes nothing to the file system. Layers over
    /// another file system pass the call down. Default: the file system cannot tell who writes it, and excludes nobody.
    ///
    /// # Errors
    /// `EBUSY` if the file system is already claimed.
    fn claim(&self) -> Result<Claim> {
        Ok(Claim::unknown())
    }

    /// Returns the declared properties of this file system and everything below it. They may change only through
    /// [`FileSystem::control`].
    fn properties(&self) -> Properties;

    /// Returns the members of the stack, base first: for `--explain`, `status` and messages.
    fn describe(&self) -> Vec<Description>;

    /// Sends a command to a running layer or base, such as the papers' debug ioctl. Default: no member has that name.
    ///
    /// # Errors
    /// [`ControlError`], to be shown to the user who sent the command.
    fn control(&self, command: &Control) -> std::result::Result<String, ControlError> {
        Err(ControlError::UnknownTarget(command.target.clone()))
    }

    /// Adds a receiver of notifications about changes that did not come from above. Each front end that serves the file
    /// system adds its own, before its first operation, and all are told; one is a receiver as long as whoever added it
    /// refers to it. Layers over other file systems keep their receivers, and are receivers below, where names or handles
    /// change by translating. [`Notifiers`](crate::Notifiers) are such a list. Default: reports nothing.
    fn add_notifier(&self, notifier: &Arc<dyn Notifier>) {
        let _ = notifier;
    }

    /// Sets the directory on which the stack is about to be mounted, opened while it is still visible. Called before
    /// mounting. A base whose tree contains it continues to serve what the mount covers, and never enters its own mount
    /// from below. Layers over other file systems pass it down. Default: ignores it.
    fn set_mount_point(&self, directory: BorrowedFd<'_>) {
        let _ = directory;
    }

    /// Sets the objects whose access times reading no longer updates from now on, according to the mount flags. Bases
    /// that update access times apply this to objects opened later. Layers over other file systems pass it down.
    /// Default: ignores it, since access times are not updated, or are updated elsewhere.
    fn keep_access_times(&self, kept: KeptAccessTimes) {
        let _ = kept;
    }
}

/// Objects whose access times reading does not update, as selected by the mount options `noatime` and `nodiratime`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptAccessTimes {
    /// Files. Default: reading updates their access times as the base does.
    pub files: bool,
    /// Directories. Default: reading updates their access times as the base does.
    pub directories: bool,
}

/// A shared file system.
pub type FileSystemRef = Arc<dyn FileSystem>;

/// Description of one member of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The kind, as in a stack expression: `dir`, `audit`.
    pub kind: String,
    /// Its location and options, as in a stack expression, or empty.
    pub details: String,
    /// Properties that it declares itself, without those of members below.
    pub properties: Properties,
}

/// A command to one member of a running stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// The kind of the member, such as `audit`; the topmost member of that kind handles the command.
    pub target: String,
    /// The command's name.
    pub command: String,
    /// Its arguments by key.
    pub arguments: Vec<(String, String)>,
}

impl Control {
    /// Returns the error of a member of this kind, the lowest one, that knows no commands.
    pub fn unknown_to(&self, kind: &str) -> ControlError {
        let target = self.target.clone();
        match target == kind {
            true => ControlError::UnknownCommand { target, command: self.command.clone() },
            false => ControlError::UnknownTarget(target),
        }
    }
}

/// Reason why a [`Control`] failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlError {
    /// The stack has no member of that kind.
    UnknownTarget(String),
    /// The member does not know the command.
    UnknownCommand {
        /// The member's kind.
        target: String,
        /// The unknown command.
        command: String,
    },
    /// An argument is missing or invalid; the text says which and why.
    BadArgument(String),
    /// The command is not possible in the current state; the text gives the reason.
    Refused(String),
    /// The command failed.
    Failed(Errno),
}

impl fmt::Display for ControlError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownTarget(target) => write!(formatter, "the stack has no layer `{target}`"),
            Self::UnknownCommand { target, command } => write!(formatter, "`{target}` has no command `{command}`"),
            Self::BadArgument(what) | Self::Refused(what) => formatter.write_str(what),
            Self::Failed(errno) => fmt::Display::fmt(errno, formatter),
        }
    }
}

impl std::error::Error for ControlError {}

/// Receiver of a base's or layer's notifications about changes that did not come from above, so that caches above can
/// be invalidated.
///
/// Must never be called from inside an operation: a front end may have to wait for the kernel, and the kernel for us.
pub trait Notifier: Send + Sync {
    /// Reports that the attributes of the object changed.
    fn attributes_changed(&self, handle: &Handle);
    /// Reports that the object's data changed, from `offset` for `length` bytes (`u64::MAX`: to the end), and its
    /// attributes.
    fn data_changed(&self, handle: &Handle, offset: u64, length: u64);
    /// Reports that the name in the directory now refers to another object, or to none.
    fn entry_changed(&self, directory: &Handle, name: Name<'_>);
    /// Reports that anything may have changed.
    fn everything_changed(&self);
    /// Writes back dirty data cached above, by operations on the file system; returns whether all of it was written.
    /// Must not be called from a thread that these operations wait for. Default: nothing is cached.
    fn write_back(&self) -> bool {
        true
    }
}
