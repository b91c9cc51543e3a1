//! A vnode: one object of a file system, and every operation on it by name or attribute.
//!
//! Methods are named after system calls and mean what their man pages say, but for paths: a name is one component in
//! the directory that the method is called on. Errors not listed are those of the storage (`EIO`, `ENOSPC`, `EDQUOT`,
//! `ENOMEM`, `EMFILE`) and `ESTALE` for an object that has vanished; admission errors (`EACCES`, `EPERM`) may come from
//! any operation and are decided by the base from the [`Caller`]. Each operation succeeds or fails as a whole.

use std::any::Any;
use std::sync::Arc;

use crate::{
    AccessMode, Attributes, Caller, Device, Errno, FileKind, Handle, Name, OpenDirectoryRef, OpenFileRef, OpenFlags,
    RenameMode, Result, SetAttributes, StatFs, XattrMode,
};

/// A shared vnode.
pub type VnodeRef = Arc<dyn Vnode>;

/// What a look-up finds: the vnode, and its attributes as of the same moment.
#[derive(Clone)]
pub struct Entry {
    /// The object.
    pub vnode: VnodeRef,
    /// Its attributes; [provisional](Attributes::is_provisional) ones where another server would have to be asked for them.
    pub attributes: Attributes,
}

/// What a creation makes: the entry and the file, open as asked.
pub struct Created {
    /// The new object, or for a creation that is not exclusive perhaps an old one.
    pub entry: Entry,
    /// The file, open.
    pub file: OpenFileRef,
}

/// How a file is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creation {
    /// Permission bits before the umask: the base applies [`Caller::umask`], or the directory's default ACL instead.
    pub mode: u32,
    /// How the file is opened. Opening the new file never fails for want of permission.
    pub flags: OpenFlags,
}

/// One object of a file system. Objects of one file system are equal if their handles are.
///
/// Operations that a kind of object does not have answer as the defaults here do; a base implements those it has. Each begins
/// with [`enter`](crate::profile::enter), so that its time is told apart.
pub trait Vnode: Send + Sync + 'static {
    /// The persistent identity. Cheap: no system call.
    fn handle(&self) -> Handle;

    /// The kind, which never changes.
    fn kind(&self) -> FileKind;

    /// Where the object is now: components from the root joined by `/`, empty for the root. For messages and for rules
    /// by path; a hard link has any one of its paths.
    ///
    /// # Errors
    /// `ENOENT` for an object without a name, `EOPNOTSUPP` (the default) where paths are not known.
    fn path(&self) -> Result<Vec<u8>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A number of the storage that keeps the names in this directory. Changes of names in directories with the same number
    /// reach storage in the order in which they are made, as through one journal; so nothing has to be synchronized to keep
    /// that order. `None` (the default) where nothing is known of it. Cheap: no system call.
    fn storage(&self) -> Option<u64> {
        None
    }

    /// The object itself, for the file system that made it to know its own vnodes again in link and rename.
    fn as_any(&self) -> &dyn Any;

    /// The attributes now, as statx(2) with all fields. Works for unlinked objects too, with `nlink` 0.
    ///
    /// # Errors
    /// `ESTALE`.
    fn getattr(&self, caller: &Caller) -> Result<Attributes>;

    /// Changes attributes, all or none, and answers the new ones. Default: `EROFS`.
    ///
    /// # Errors
    /// As chmod(2), chown(2), truncate(2), utimensat(2).
    fn setattr(&self, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        let _ = (caller, changes);
        Err(Errno::EROFS)
    }

    /// Whether the caller may do this to the object, as faccessat(2) with `AT_EACCESS`.
    ///
    /// # Errors
    /// `EACCES`; `EROFS` for writing where nothing can be written.
    fn access(&self, caller: &Caller, mode: AccessMode) -> Result<()>;

    /// The object by that name in this directory; a symlink itself, not its target. The caller needs search permission.
    /// Default: `ENOTDIR`.
    ///
    /// # Errors
    /// `ENOENT`, `EACCES`, `ENOTDIR`.
    fn lookup(&self, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        let _ = (caller, name);
        Err(Errno::ENOTDIR)
    }

    /// The directory that this directory is in; the root's is the root. Default: `ENOTDIR`.
    ///
    /// # Errors
    /// `ENOENT` for a removed directory, `ENOTDIR`.
    fn parent(&self, caller: &Caller) -> Result<VnodeRef> {
        let _ = caller;
        Err(Errno::ENOTDIR)
    }

    /// Creates and opens a regular file in one step. If the name exists: `EEXIST` when the flags say exclusive, else it
    /// is opened as [`Vnode::open`] would (a symlink is not followed: `ELOOP`). Default: `EROFS`.
    ///
    /// # Errors
    /// As open(2) with `O_CREAT`.
    fn create(&self, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        let _ = (caller, name, how);
        Err(Errno::EROFS)
    }

    /// Makes a directory; `mode` as in [`Creation`], with the sticky bit as mkdir(2) treats it. Default: `EROFS`.
    ///
    /// # Errors
    /// As mkdir(2).
    fn mkdir(&self, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        let _ = (caller, name, mode);
        Err(Errno::EROFS)
    }

    /// Makes a regular file, fifo, socket or device, as mknod(2). `device` counts for devices only. Default: `EPERM`.
    ///
    /// # Errors
    /// As mknod(2); `EINVAL` for a directory or symlink.
    fn mknod(&self, caller: &Caller, name: Name<'_>, kind: FileKind, mode: u32, device: Device) -> Result<Entry> {
        let _ = (caller, name, kind, mode, device);
        Err(Errno::EPERM)
    }

    /// Makes a symlink to `target`: 1 to 4,095 bytes, not looked at. Default: `EPERM`.
    ///
    /// # Errors
    /// As symlink(2).
    fn symlink(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        let _ = (caller, name, target);
        Err(Errno::EPERM)
    }

    /// Gives `target`, a vnode of the same file system, one more name in this directory; also an unnamed file of
    /// [`Vnode::tmpfile`], its first. Default: `EPERM`.
    ///
    /// # Errors
    /// As link(2); `EXDEV` for a vnode of another file system.
    fn link(&self, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        let _ = (caller, target, name);
        Err(Errno::EPERM)
    }

    /// Takes the name of something that is no directory away. Open files and vnodes of it stay usable. Default: `EROFS`.
    ///
    /// # Errors
    /// As unlink(2); `EISDIR` for a directory.
    fn unlink(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        let _ = (caller, name);
        Err(Errno::EROFS)
    }

    /// Removes an empty directory. Default: `EROFS`.
    ///
    /// # Errors
    /// As rmdir(2).
    fn rmdir(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        let _ = (caller, name);
        Err(Errno::EROFS)
    }

    /// Renames atomically, into the directory `to`, of the same file system. Default: `EROFS`.
    ///
    /// # Errors
    /// As renameat2(2); `EXDEV` for a directory of another file system, `EINVAL` for a mode that is not supported.
    fn rename(
        &self,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        let _ = (caller, name, to, to_name, mode);
        Err(Errno::EROFS)
    }

    /// The target of a symlink. Default: `EINVAL`.
    ///
    /// # Errors
    /// As readlink(2).
    fn readlink(&self, caller: &Caller) -> Result<Vec<u8>> {
        let _ = caller;
        Err(Errno::EINVAL)
    }

    /// Opens a regular file; release is dropping the last reference. Default: `EISDIR` for a directory, `ELOOP` for a
    /// symlink, else `ENXIO` (the kernel opens devices, fifos and sockets itself).
    ///
    /// # Errors
    /// As open(2).
    fn open(&self, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        let _ = (caller, flags);
        Err(match self.kind() {
            FileKind::Directory => Errno::EISDIR,
            FileKind::Symlink => Errno::ELOOP,
            _ => Errno::ENXIO,
        })
    }

    /// Opens a directory for reading its entries. Default: `ENOTDIR`.
    ///
    /// # Errors
    /// As opendir(3).
    fn open_directory(&self, caller: &Caller) -> Result<OpenDirectoryRef> {
        let _ = caller;
        Err(Errno::ENOTDIR)
    }

    /// The state of the file system that the object is on.
    ///
    /// # Errors
    /// As statfs(2).
    fn statfs(&self, caller: &Caller) -> Result<StatFs>;

    /// The value of an extended attribute, names with their namespace (`user.x`). Default: `EOPNOTSUPP`.
    ///
    /// # Errors
    /// `ENODATA` if there is none by that name; as getxattr(2).
    fn getxattr(&self, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        let _ = (caller, name);
        Err(Errno::EOPNOTSUPP)
    }

    /// Sets an extended attribute. Default: `EOPNOTSUPP`.
    ///
    /// # Errors
    /// As setxattr(2).
    fn setxattr(&self, caller: &Caller, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let _ = (caller, name, value, mode);
        Err(Errno::EOPNOTSUPP)
    }

    /// The names of all extended attributes that the caller may see, each ended by a NUL, as listxattr(2) writes them.
    /// Default: none.
    ///
    /// # Errors
    /// As listxattr(2).
    fn listxattr(&self, caller: &Caller) -> Result<Vec<u8>> {
        let _ = caller;
        Ok(Vec::new())
    }

    /// Removes an extended attribute. Default: `EOPNOTSUPP`.
    ///
    /// # Errors
    /// `ENODATA`; as removexattr(2).
    fn removexattr(&self, caller: &Caller, name: &[u8]) -> Result<()> {
        let _ = (caller, name);
        Err(Errno::EOPNOTSUPP)
    }

    /// Makes an unnamed file in this directory and opens it, as open(2) with `O_TMPFILE`; exclusive means that it can
    /// never be linked. Default: `EOPNOTSUPP`.
    ///
    /// # Errors
    /// As open(2).
    fn tmpfile(&self, caller: &Caller, how: &Creation) -> Result<Created> {
        let _ = (caller, how);
        Err(Errno::EOPNOTSUPP)
    }

    /// A command to the object that no other operation expresses, as ioctl(2) on an open file or directory. The input
    /// and the room for output have the sizes that the command number encodes. Default: `ENOTTY`.
    ///
    /// # Errors
    /// `ENOTTY` for a command that nobody here knows.
    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        let _ = (caller, command, input, output);
        Err(Errno::ENOTTY)
    }
}
