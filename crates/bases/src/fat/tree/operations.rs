//! The vnode operations of an inode, each delegated to the module of its group.

use std::any::Any;
use std::sync::Arc;

use vnode::profile;
use vnode::{
    AccessMode, Attributes, Caller, Created, Creation, Device, Entry, Errno, FileKind, Handle, Name, OpenDirectoryRef,
    OpenFileRef, OpenFlags, RenameMode, Result, SetAttributes, StatFs, Vnode, VnodeRef, XattrMode,
};

use crate::unix::permissions;

use super::create::{FileCreation, NewObject};
use super::inode::Inode;
use super::open_directory::FatDirectory;

/// Maximum number of attempts to follow a path upwards after a rename moved a part of it.
const PATH_ATTEMPTS: usize = 100;

impl Vnode for Inode {
    fn handle(&self) -> Handle {
        self.handle
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
        self.prepare_attributes(caller, changes)?;
        self.volume.change(|change| self.change_attributes(change, caller, changes))?;
        Ok(self.attributes())
    }

    fn access(&self, caller: &Caller, mode: AccessMode) -> Result<()> {
        if mode.contains(AccessMode::WRITE) && matches!(self.kind, FileKind::Regular | FileKind::Directory) {
            self.volume.check_writable()?;
        }
        permissions::check(&self.read().metadata.protection, caller, mode.bits())
    }

    fn lookup(&self, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        let inode = {
            let state = self.read_loaded()?;
            let slot = self.find_slot(&state, caller, name)?;
            self.child(&state, slot)?
        };
        self.volume.forget_contents();
        Ok(inode.found())
    }

    fn parent(&self, _caller: &Caller) -> Result<VnodeRef> {
        if self.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        if self.is_root() {
            return Ok(profile::vnode(self.to_arc()));
        }
        Ok(profile::vnode(self.parent_directory().ok_or(Errno::ENOENT)?))
    }

    fn create(&self, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        match self.volume.change(|change| self.create_file(change, caller, name, how))? {
            FileCreation::New(created) => Ok(created),
            FileCreation::Existing(inode) => {
                let file = inode.open_file(caller, how.flags)?;
                Ok(Created { entry: inode.found(), file })
            }
        }
    }

    fn mkdir(&self, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        let new = NewObject { kind: FileKind::Directory, mode, device: Device::default(), target: &[] };
        self.volume.change(|change| self.create_named(change, caller, name, &new))
    }

    fn mknod(&self, caller: &Caller, name: Name<'_>, kind: FileKind, mode: u32, device: Device) -> Result<Entry> {
        let device = match kind {
            FileKind::Directory | FileKind::Symlink => return Err(Errno::EINVAL),
            FileKind::CharacterDevice | FileKind::BlockDevice => device,
            FileKind::Regular | FileKind::Fifo | FileKind::Socket => Device::default(),
        };
        let new = NewObject { kind, mode, device, target: &[] };
        self.volume.change(|change| self.create_named(change, caller, name, &new))
    }

    fn symlink(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        let new = NewObject { kind: FileKind::Symlink, mode: 0o777, device: Device::default(), target };
        self.volume.change(|change| self.create_named(change, caller, name, &new))
    }

    fn link(&self, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        self.volume.change(|change| self.add_link_to(change, caller, target, name))
    }

    fn unlink(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.volume.change(|change| self.remove_file(change, caller, name))
    }

    fn rmdir(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.volume.change(|change| self.remove_directory(change, caller, name))
    }

    fn rename(
        &self,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        let to = self.of_same_volume(to)?;
        if self.volume.has_sidecars && !self.volume.has_journal() {
            return self.rename_without_journal(caller, (name, to, to_name), mode);
        }
        self.volume.change(|change| self.move_entry(change, caller, (name, to, to_name), mode))
    }

    fn readlink(&self, _caller: &Caller) -> Result<Vec<u8>> {
        if self.kind != FileKind::Symlink {
            return Err(Errno::EINVAL);
        }
        let target = {
            let state = self.read();
            let length = usize::try_from(state.size).map_err(|_| Errno::EIO)?;
            if length > crate::unix::creation::TARGET_MAX {
                return Err(Errno::EIO);
            }
            let mut target = vec![0; length];
            self.volume.access().read(&self.chain, 0, &mut target)?;
            target
        };
        self.update_access_time();
        Ok(target)
    }

    fn open(&self, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        self.open_file(caller, flags)
    }

    fn open_directory(&self, caller: &Caller) -> Result<OpenDirectoryRef> {
        if self.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        permissions::check(&self.read().metadata.protection, caller, permissions::READ)?;
        Ok(profile::open_directory(Arc::new(FatDirectory { inode: self.to_arc() })))
    }

    fn statfs(&self, _caller: &Caller) -> Result<StatFs> {
        self.volume.statfs()
    }

    fn getxattr(&self, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        self.get_xattr(caller, name)
    }

    fn setxattr(&self, caller: &Caller, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.volume.change(|change| self.set_xattr(change, caller, (name, value), mode))
    }

    fn listxattr(&self, caller: &Caller) -> Result<Vec<u8>> {
        Ok(self.list_xattrs(caller))
    }

    fn removexattr(&self, caller: &Caller, name: &[u8]) -> Result<()> {
        self.volume.change(|change| self.remove_xattr(change, caller, name))
    }

    fn tmpfile(&self, caller: &Caller, how: &Creation) -> Result<Created> {
        self.volume.change(|change| self.create_unnamed(change, caller, how))
    }
}

impl Inode {
    /// Returns a name of this object, which is in the store, and the directory of the name; `None` if no name was seen.
    fn seen_path_name(&self) -> Option<(Vec<u8>, Arc<Inode>)> {
        let number = self.read().stored?.number;
        self.seen_names().into_iter().find_map(|(directory, slot)| {
            let state = directory.read_loaded().ok()?;
            let contents = state.contents().ok()?;
            let is_name = contents.entry(slot).is_some_and(|entry| directory.link_number(&entry) == Some(number));
            let name = contents.shown_name(slot).filter(|_| is_name)?;
            drop(state);
            Some((name, directory))
        })
    }

    /// Returns the path; `None` if a rename moved a part of it meanwhile.
    fn path_now(&self) -> Result<Option<Vec<u8>>> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut current = self.to_arc();
        while !current.is_root() {
            let Some(link) = current.read().link.clone() else { return Err(Errno::ENOENT) };
            let (name, parent) = match link.parent.is_store() {
                true => current.seen_path_name().ok_or(Errno::EOPNOTSUPP)?,
                false => {
                    let state = link.parent.read_loaded()?;
                    let is_here = current.is_in(&link.parent, link.slot);
                    let name = state.contents()?.shown_name(link.slot).filter(|_| is_here);
                    drop(state);
                    let Some(name) = name else { return Ok(None) };
                    (name, link.parent)
                }
            };
            names.push(name);
            current = parent;
        }
        names.reverse();
        Ok(Some(names.join(&b'/')))
    }
}
