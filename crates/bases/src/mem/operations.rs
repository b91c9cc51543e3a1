//! The vnode operations of an inode, each delegated to the module of its group.

use std::any::Any;
use std::sync::Arc;

use vnode::profile::{self, Part};
use vnode::{
    AccessMode, Attributes, Caller, Created, Creation, Device, Entry, Errno, FileKind, Handle, Name, OpenDirectoryRef,
    OpenFileRef, OpenFlags, RenameMode, Result, SetAttributes, StatFs, Vnode, VnodeRef, XattrMode,
};

use crate::unix::permissions;

use super::KIND;

use super::inode::{Content, Inode};
use super::open_directory::MemoryDirectory;
use super::remove::find;

/// Maximum number of attempts to follow a path upwards after a rename moved a part of it.
const PATH_ATTEMPTS: usize = 100;

impl Part for Inode {
    const PART: &'static str = KIND;
}

impl Vnode for Inode {
    fn handle(&self) -> Handle {
        self.identity()
    }

    fn kind(&self) -> FileKind {
        self.kind
    }

    fn path(&self) -> Result<Vec<u8>> {
        (0..PATH_ATTEMPTS).find_map(|_| self.path_now().transpose()).unwrap_or(Err(Errno::ENOENT))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn getattr(&self, _caller: &Caller) -> Result<Attributes> {
        Ok(self.attributes())
    }

    fn setattr(&self, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        self.change_attributes(caller, changes)
    }

    fn access(&self, caller: &Caller, mode: AccessMode) -> Result<()> {
        permissions::check(&self.read().metadata.protection, caller, mode.bits())
    }

    fn lookup(&self, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        let inode = find(&self.read(), caller, name)?;
        let attributes = inode.attributes();
        Ok(Entry { vnode: profile::vnode(inode), attributes })
    }

    fn parent(&self, _caller: &Caller) -> Result<VnodeRef> {
        self.read().directory()?;
        if self.is_root() {
            return Ok(profile::vnode(self.to_arc()));
        }
        Ok(profile::vnode(self.parent_directory().ok_or(Errno::ENOENT)?))
    }

    fn create(&self, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        self.create_file(caller, name, how)
    }

    fn mkdir(&self, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        self.create_named(caller, name, FileKind::Directory, mode, Device::default())
    }

    fn mknod(&self, caller: &Caller, name: Name<'_>, kind: FileKind, mode: u32, device: Device) -> Result<Entry> {
        match kind {
            FileKind::Directory | FileKind::Symlink => Err(Errno::EINVAL),
            _ => self.create_named(caller, name, kind, mode, device),
        }
    }

    fn symlink(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        self.create_symlink(caller, name, target)
    }

    fn link(&self, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        self.add_link_to(caller, target, name)
    }

    fn unlink(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.remove_file(caller, name)
    }

    fn rmdir(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.remove_directory(caller, name)
    }

    fn rename(
        &self,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        self.move_entry(caller, name, self.of_same_volume(to)?, to_name, mode)
    }

    fn readlink(&self, _caller: &Caller) -> Result<Vec<u8>> {
        let target = match &self.read().content {
            Content::Symlink(target) => target.to_vec(),
            _ => return Err(Errno::EINVAL),
        };
        self.update_access_time();
        Ok(target)
    }

    fn open(&self, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        self.open_file(caller, flags)
    }

    fn open_directory(&self, caller: &Caller) -> Result<OpenDirectoryRef> {
        let state = self.read();
        state.directory()?;
        permissions::check(&state.metadata.protection, caller, permissions::READ)?;
        Ok(profile::open_directory(Arc::new(MemoryDirectory { inode: self.to_arc() })))
    }

    fn statfs(&self, _caller: &Caller) -> Result<StatFs> {
        Ok(self.volume.statfs())
    }

    fn getxattr(&self, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        self.get_xattr(caller, name)
    }

    fn setxattr(&self, caller: &Caller, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.set_xattr(caller, name, value, mode)
    }

    fn listxattr(&self, caller: &Caller) -> Result<Vec<u8>> {
        Ok(self.list_xattrs(caller))
    }

    fn removexattr(&self, caller: &Caller, name: &[u8]) -> Result<()> {
        self.remove_xattr(caller, name)
    }

    fn tmpfile(&self, caller: &Caller, how: &Creation) -> Result<Created> {
        self.create_unnamed(caller, how)
    }
}

impl Inode {
    /// Returns the path by any one of the names; `None` if a rename moved a part of it meanwhile.
    fn path_now(&self) -> Result<Option<Vec<u8>>> {
        let mut names: Vec<Arc<[u8]>> = Vec::new();
        let mut current = self.to_arc();
        while !current.is_root() {
            let Some(link) = current.read().links.first().cloned() else { return Err(Errno::ENOENT) };
            let parent = link.parent.upgrade().ok_or(Errno::ENOENT)?;
            let Some(name) = parent.read().directory()?.name_of(link.cookie) else { return Ok(None) };
            names.push(name);
            current = parent;
        }
        names.reverse();
        Ok(Some(names.join(&b'/')))
    }
}
