//! A whole file system: its root, its handles, its properties, its run-time control.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::{Claim, Errno, Handle, Name, Properties, Result, VnodeRef};

/// A file system: a base, or a layer over others. Used as [`FileSystemRef`].
pub trait FileSystem: Send + Sync + 'static {
    /// The root directory. It always exists while the file system does.
    fn root(&self) -> VnodeRef;

    /// The vnode of a handle that this file system made, also in an earlier life where
    /// [`Properties::persistent_handles`] is declared. Nothing is checked but existence: a front end that takes handles
    /// from outside authenticates them.
    ///
    /// # Errors
    /// `ESTALE` if the object is gone or the handle was never one of ours.
    fn resolve(&self, handle: &Handle) -> Result<VnodeRef>;

    /// Everything written reaches stable storage, as syncfs(2). Default: nothing to do.
    ///
    /// # Errors
    /// Those of the storage, such as `EIO`.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// The identifier of the file system that the objects are stored in (`f_fsid` of statfs(2), where that is made of its UUID):
    /// the same whenever and wherever it is mounted, and no other's. Layers over another pass it on. Default: it has none, or
    /// several.
    fn fsid(&self) -> Option<u64> {
        None
    }

    /// Keeps others from claiming the file system for as long as the result lives: whoever writes all of it as its own, such as a
    /// union that keeps records in it, claims it first. Nothing is written for that. Layers over another pass it down. Default: it
    /// cannot tell who writes it, and keeps nobody out.
    ///
    /// # Errors
    /// `EBUSY` if it is claimed.
    fn claim(&self) -> Result<Claim> {
        Ok(Claim::unknown())
    }

    /// What this file system, with all below it, declares. It may change only through [`FileSystem::control`].
    fn properties(&self) -> Properties;

    /// What the stack is made of, base first: for `--explain`, `status` and messages.
    fn describe(&self) -> Vec<Description>;

    /// A command to a running layer or base, such as the papers' debug ioctl. Default: nobody by that name.
    ///
    /// # Errors
    /// [`ControlError`], to be shown to the person who asked.
    fn control(&self, command: &Control) -> std::result::Result<String, ControlError> {
        Err(ControlError::UnknownTarget(command.target.clone()))
    }

    /// Where to tell of changes that did not come from above. Called once, before the first operation. Layers over
    /// others pass it down, wrapped where names or handles change. Default: nobody to tell.
    fn set_notifier(&self, notifier: Arc<dyn Notifier>) {
        drop(notifier);
    }

    /// The directory that the stack is about to be mounted on, open while it can still be seen. Called before mounting.
    /// A base whose tree contains it goes on serving what the mount covers, and never enters its own mount from below.
    /// Layers over others pass it down. Default: nothing to know.
    fn set_mount_point(&self, directory: BorrowedFd<'_>) {
        let _ = directory;
    }

    /// Of what reading is to change no access times from now on, by the flags of the mount. Bases that change them go by it for
    /// what is opened later. Layers over others pass it down. Default: nothing is changed, or what changes it is elsewhere.
    fn keep_access_times(&self, kept: KeptAccessTimes) {
        let _ = kept;
    }
}

/// Of what reading changes no access times, as the mount options `noatime` and `nodiratime` say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptAccessTimes {
    /// Of files. Default: it changes them as the base does.
    pub files: bool,
    /// Of directories. Default: it changes them as the base does.
    pub directories: bool,
}

/// A shared file system.
pub type FileSystemRef = Arc<dyn FileSystem>;

/// One member of a stack, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The kind, as in a stack expression: `dir`, `audit`.
    pub kind: String,
    /// Its location and options, as in a stack expression, or empty.
    pub details: String,
    /// What it declares by itself, without what lies below.
    pub properties: Properties,
}

/// A command to one member of a running stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// The kind of the member, such as `audit`; the topmost of that kind takes it.
    pub target: String,
    /// The command's name.
    pub command: String,
    /// Its arguments by key.
    pub arguments: Vec<(String, String)>,
}

/// Why a [`Control`] failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlError {
    /// The stack has no member of that kind.
    UnknownTarget(String),
    /// The member does not know the command.
    UnknownCommand {
        /// The member's kind.
        target: String,
        /// The command it does not know.
        command: String,
    },
    /// An argument is missing or wrong, in words.
    BadArgument(String),
    /// It cannot be done as things are, in words.
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

/// Where a base or layer tells of changes that did not come from above, so that caches above can be dropped.
///
/// Never to be called from inside an operation: a front end may have to wait for the kernel, and the kernel for us.
pub trait Notifier: Send + Sync {
    /// The attributes of the object changed.
    fn attributes_changed(&self, handle: &Handle);
    /// The data of the object changed, from `offset` for `length` bytes (`u64::MAX`: to the end), and its attributes.
    fn data_changed(&self, handle: &Handle, offset: u64, length: u64);
    /// The name in the directory now stands for something else, or nothing.
    fn entry_changed(&self, directory: &Handle, name: Name<'_>);
    /// Anything may have changed.
    fn everything_changed(&self);
    /// Has what is kept above of data that were written handed down, by operations: whether all has been. Not from a thread that
    /// these wait for. Default: nothing is kept.
    fn write_back(&self) -> bool {
        true
    }
}
