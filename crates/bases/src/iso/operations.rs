//! The vnode operations: those that read, and `EROFS` for all others.

use std::any::Any;
use std::sync::Arc;

use vnode::profile;
use vnode::{
    AccessMode, Attributes, Caller, Created, Creation, Device, Entry, Errno, FileKind, Handle, Name, OpenDirectoryRef,
    OpenFileRef, OpenFlags, Result, StatFs, Vnode, VnodeRef, XattrMode,
};

use super::file::IsoFile;
use super::node::IsoNode;
use super::object::Content;
use super::open_directory::IsoDirectory;
use crate::unix::permissions;

impl Vnode for IsoNode {
    fn handle(&self) -> Handle {
        self.handle()
    }

    fn kind(&self) -> FileKind {
        self.kind()
    }

    fn path(&self) -> Result<Vec<u8>> {
        Ok(self.path())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn getattr(&self, _caller: &Caller) -> Result<Attributes> {
        Ok(self.attributes())
    }

    fn access(&self, caller: &Caller, mode: AccessMode) -> Result<()> {
        // What is written to the others is not stored here.
        let is_stored = matches!(self.kind(), FileKind::Regular | FileKind::Directory | FileKind::Symlink);
        if is_stored && mode.contains(AccessMode::WRITE) {
            return Err(Errno::EROFS);
        }
        permissions::check(&self.metadata().protection(), caller, mode.bits())
    }

    fn lookup(&self, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        Ok(self.find(caller, name)?.entry())
    }

    fn parent(&self, _caller: &Caller) -> Result<VnodeRef> {
        Ok(IsoNode::parent(self)?.vnode())
    }

    fn create(&self, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        self.find_existing(caller, name)?;
        if how.flags.is_exclusive() {
            return Err(Errno::EEXIST);
        }
        let entry = self.lookup(caller, name)?;
        let file = entry.vnode.open(caller, how.flags)?;
        Ok(Created { entry, file })
    }

    fn mkdir(&self, caller: &Caller, name: Name<'_>, _mode: u32) -> Result<Entry> {
        self.find_existing(caller, name)?;
        Err(Errno::EEXIST)
    }

    fn mknod(&self, caller: &Caller, name: Name<'_>, _: FileKind, _mode: u32, _: Device) -> Result<Entry> {
        self.find_existing(caller, name)?;
        Err(Errno::EEXIST)
    }

    fn symlink(&self, caller: &Caller, name: Name<'_>, _target: &[u8]) -> Result<Entry> {
        self.find_existing(caller, name)?;
        Err(Errno::EEXIST)
    }

    fn link(&self, caller: &Caller, _target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        self.find_existing(caller, name)?;
        Err(Errno::EEXIST)
    }

    fn readlink(&self, _caller: &Caller) -> Result<Vec<u8>> {
        match self {
            Self::Object { named, parent } => match &named.object.content {
                Content::Symlink(Some(target)) => Ok(target.to_vec()),
                Content::Symlink(None) => Err(Errno::EIO),
                Content::LongSymlink(_) => {
                    let directory = parent.directory()?;
                    let listed = directory.at(named.object.position.offset).map(|named| &named.object.content);
                    match listed {
                        Some(Content::Symlink(Some(target))) => Ok(target.to_vec()),
                        _ => Err(Errno::EIO),
                    }
                }
                _ => Err(Errno::EINVAL),
            },
            _ => Err(Errno::EINVAL),
        }
    }

    fn open(&self, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        match self.kind() {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno::EISDIR),
            FileKind::Symlink => return Err(Errno::ELOOP),
            _ => return Err(Errno::ENXIO),
        }
        if flags.writes() || flags.truncates() {
            return Err(Errno::EROFS);
        }
        permissions::check_open(&self.metadata().protection(), caller, flags)?;
        Ok(profile::open_file(Arc::new(IsoFile::open(self)?)))
    }

    fn open_directory(&self, caller: &Caller) -> Result<OpenDirectoryRef> {
        if self.kind() != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        permissions::check(&self.metadata().protection(), caller, permissions::READ)?;
        Ok(profile::open_directory(Arc::new(IsoDirectory::open(self)?)))
    }

    fn statfs(&self, _caller: &Caller) -> Result<StatFs> {
        Ok(self.volume().statfs())
    }

    fn setxattr(&self, _caller: &Caller, _name: &[u8], _value: &[u8], _mode: XattrMode) -> Result<()> {
        Err(Errno::EROFS)
    }

    fn removexattr(&self, _caller: &Caller, _name: &[u8]) -> Result<()> {
        Err(Errno::EROFS)
    }

    fn tmpfile(&self, _caller: &Caller, _how: &Creation) -> Result<Created> {
        Err(Errno::EROFS)
    }
}

impl IsoNode {
    /// Checks that a name that is to be created exists: Linux says so even where nothing can be created.
    ///
    /// # Errors
    /// `EROFS` if it does not exist; as [`IsoNode::find`].
    fn find_existing(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        match self.find(caller, name) {
            Err(Errno::ENOENT) => Err(Errno::EROFS),
            found => found.map(drop),
        }
    }
}
