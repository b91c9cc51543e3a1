//! A vnode: one object of a file system, and every operation on it by name or attribute.
//!
//! Methods are named after system calls and behave as their man pages describe, except for paths: a name is one
//! component in the directory that the method is called on. Errors not listed are those of the storage (`EIO`,
//! `ENOSPC`, `EDQUOT`, `ENOMEM`, `EMFILE`) and `ESTALE` for an object that has vanished; permission errors (`EACCES`,
//! `EPERM`) may come from any operation, and the base decides them from the [`Caller`]. Each operation succeeds or
//! fails as a whole.

use std::any::Any;
use std::sync::Arc;

use crate::{
    AccessMode, Attributes, Caller, Device, Errno, FileKind, Handle, Name, OpenDirectoryRef, OpenFileRef, OpenFlags,
    RenameMode, Result, SetAttributes, StatFs, XattrMode,
};

/// A shared vnode.
pub type VnodeRef = Arc<dyn Vnode>;

/// Result of a lookup: the vnode, and its attributes as of the same moment.
#[derive(Clone)]
pub struct Entry {
    /// The object.
    pub vnode: VnodeRef,
    /// Its attributes; [provisional](Attributes::is_provisional) ones where obtaining them would require a query to
    /// another server.
    pub attributes: Attributes,
}

/// Result of a creation: the entry and the file, opened as requested.
pub struct Created {
    /// The new object, or possibly an existing one if the creation was not exclusive.
    pub entry: Entry,
    /// The open file.
    pub file: OpenFileRef,
}

/// Parameters of a file creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creation {
    /// Permission bits before the umask is applied: the base applies [`Caller::umask`], or the directory's default ACL
    /// instead.
    pub mode: u32,
    /// Flags with which the file is opened. Opening the new file never fails for lack of permission.
    pub flags: OpenFlags,
}

/// One object of a file system. Objects of one file system are equal if their handles are.
///
/// Operations that a kind of object does not support return what the defaults here return; a base implements those that
/// it supports. Others get the object from [`profile::vnode`](crate::profile::vnode), so that its time is accounted.
pub trait Vnode: Send + Sync + 'static {
    /// The persistent identity. Cheap: no system call.
    fn handle(&self) -> Handle;

    /// The kind, which never changes.
    fn kind(&self) -> FileKind;

    /// Returns the current path of the object: components from the root joined by `/`, empty for the root. For messages
    /// and for rules by path; for a hard link, any one of its paths.
    ///
    /// # Errors
    /// `ENOENT` for an object without a name, `EOPNOTSUPP` (the default) where paths are not known.
    fn path(&self) -> Result<Vec<u8>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Number of the storage that holds the names in this directory. Name changes in directories with the same number
    /// reach storage in the order in which they are made, as through one journal; nothing needs to be synchronized to
    /// preserve that order. `None` (the default) if the storage is unknown. Cheap: no system call.
    fn storage(&self) -> Option<u64> {
        None
    }

    /// The object itself, so that the file system that created it recognizes its own vnodes in link and rename.
    fn as_any(&self) -> &dyn Any;

    /// Returns the current attributes, as statx(2) with all fields. Works for unlinked objects too, with `nlink` 0.
    ///
    /// # Errors
    /// `ESTALE`.
    fn getattr(&self, caller: &Caller) -> Result<Attributes>;

    /// Changes attributes, all or none, and returns the new ones. Default: `EROFS`.
    ///
    /// # Errors
    /// As chmod(2), chown(2), truncate(2), utimensat(2).
    fn setattr(&self, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        let _ = (caller, changes);
        Err(Errno::EROFS)
    }

    /// Checks whether the caller may access the object in this mode, as faccessat(2) with `AT_EACCESS`.
    ///
    /// # Errors
    /// `EACCES`; `EROFS` for writing where nothing can be written.
    fn access(&self, caller: &Caller, mode: AccessMode) -> Result<()>;

    /// Returns the object with this name in this directory; for a symlink, the symlink itself and not its target. The
    /// caller needs search permission. Default: `ENOTDIR`.
    ///
    /// # Errors
    /// `ENOENT`, `EACCES`, `ENOTDIR`.
    fn lookup(&self, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        let _ = (caller, name);
        Err(Errno::ENOTDIR)
    }

    /// Returns the parent of this directory; the root's parent is the root. Default: `ENOTDIR`.
    ///
    /// # Errors
    /// `ENOENT` for a removed directory, `ENOTDIR`.
    fn parent(&self, caller: &Caller) -> Result<VnodeRef> {
        let _ = caller;
        Err(Errno::ENOTDIR)
    }

    /// Creates and opens a regular file in one step. If the name exists: `EEXIST` if the flags request exclusive
    /// creation, otherwise the object is opened as by [`Vnode::open`] (a symlink is not followed: `ELOOP`). Default:
    /// `EROFS`.
    ///
    /// # Errors
    /// As open(2) with `O_CREAT`.
    fn create(&self, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        let _ = (caller, name, how);
        Err(Errno::EROFS)
    }

    /// Creates a directory; `mode` as in [`Creation`], with the sticky bit as mkdir(2) treats it. Default: `EROFS`.
    ///
    /// # Errors
    /// As mkdir(2).
    fn mkdir(&self, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        let _ = (caller, name, mode);
        Err(Errno::EROFS)
    }

    /// Creates a regular file, FIFO, socket or device node, as mknod(2). `device` is used for device nodes only.
    /// Default: `EPERM`.
    ///
    /// # Errors
    /// As mknod(2); `EINVAL` for a directory or symlink.
    fn mknod(&self, caller: &Caller, name: Name<'_>, kind: FileKind, mode: u32, device: Device) -> Result<Entry> {
        let _ = (caller, name, kind, mode, device);
        Err(Errno::EPERM)
    }

    /// Creates a symlink to `target`: 1 to 4,095 bytes, not interpreted. Default: `EPERM`.
    ///
    /// # Errors
    /// As symlink(2).
    fn symlink(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        let _ = (caller, name, target);
        Err(Errno::EPERM)
    }

    /// Creates a hard link in this directory to `target`, a vnode of the same file system; for an unnamed file created
    /// by [`Vnode::tmpfile`], its first name. Default: `EPERM`.
    ///
    /// # Errors
    /// As link(2); `EXDEV` for a vnode of another file system.
    fn link(&self, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        let _ = (caller, target, name);
        Err(Errno::EPERM)
    }

    /// Removes the name of an object that is not a directory. Open files and vnodes of the object stay usable. Default:
    /// `EROFS`.
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

    /// Renames atomically into the directory `to` of the same file system. Default: `EROFS`.
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

    /// Returns the target of a symlink. Default: `EINVAL`.
    ///
    /// # Errors
    /// As readlink(2).
    fn readlink(&self, caller: &Caller) -> Result<Vec<u8>> {
        let _ = caller;
        Err(Errno::EINVAL)
    }

    /// Opens a regular file; dropping the last reference releases it. Default: `EISDIR` for a directory, `ELOOP` for a
    /// symlink, otherwise `ENXIO` (the kernel opens devices, FIFOs and sockets itself).
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

    /// Returns the statistics of the file system that contains the object.
    ///
    /// # Errors
    /// As statfs(2).
    fn statfs(&self, caller: &Caller) -> Result<StatFs>;

    /// Returns the value of an extended attribute; names include their namespace (`user.x`). Default: `EOPNOTSUPP`.
    ///
    /// # Errors
    /// `ENODATA` if no attribute has that name; as getxattr(2).
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

    /// Returns the names of all extended attributes that the caller may see, each terminated by a NUL, as listxattr(2)
    /// writes them. Default: none.
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

    /// Creates an unnamed file in this directory and opens it, as open(2) with `O_TMPFILE`; a file created with the
    /// exclusive flag can never be linked. Default: `EOPNOTSUPP`.
    ///
    /// # Errors
    /// As open(2).
    fn tmpfile(&self, caller: &Caller, how: &Creation) -> Result<Created> {
        let _ = (caller, how);
        Err(Errno::EOPNOTSUPP)
    }

    /// Sends the object a command that no other operation expresses, as ioctl(2) on an open file or directory. The
    /// input and output buffers have the sizes that the command number encodes. Default: `ENOTTY`.
    ///
    /// # Errors
    /// `ENOTTY` for an unknown command.
    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        let _ = (caller, command, input, output);
        Err(Errno::ENOTTY)
    }
}
