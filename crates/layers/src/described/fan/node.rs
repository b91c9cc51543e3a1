//! An object of a fan-out: its branch objects, and every operation on the primary one.

use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock};

use vnode::{
    AccessMode, Attributes, Caller, Created, Creation, Device, Entry, Errno, FileKind, Handle, Name, OpenDirectoryRef,
    OpenFileRef, OpenFlags, RenameMode, Result, SetAttributes, StatFs, Vnode, VnodeRef, XattrMode,
};

use super::file::{FanDirectory, FanFile};
use super::{Fan, Parts, handle, inode};

/// An object of a fan-out.
pub(crate) struct FanVnode {
    fan: Arc<Fan>,
    /// Index of the branch with the primary branch object.
    primary: usize,
    part: VnodeRef,
    handle: Handle,
    parts: RwLock<Parts>,
}

impl FanVnode {
    pub(crate) fn new(fan: Arc<Fan>, primary: usize, parts: Parts) -> Result<FanVnode> {
        let part = parts.get(primary).cloned().flatten().ok_or(Errno::ENOENT)?;
        let handle = handle(primary, &part.handle())?;
        Ok(FanVnode { fan, primary, part, handle, parts: RwLock::new(parts) })
    }

    pub(crate) fn identity(&self) -> Handle {
        self.handle
    }

    pub(crate) fn parts(&self) -> Parts {
        self.parts.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces what is known of the other branch objects.
    pub(crate) fn learn(&self, parts: Parts) {
        *self.parts.write().unwrap_or_else(PoisonError::into_inner) = parts;
    }

    /// Returns the index of the branch that the object is in.
    pub(crate) fn primary(&self) -> usize {
        self.primary
    }

    /// Returns the branch object in a branch, as an object of its own.
    pub(crate) fn in_branch(&self, branch: usize) -> Option<VnodeRef> {
        let node: VnodeRef = self.fan.node(branch, self.parts()).ok()?;
        Some(node)
    }

    fn part_of(&self, other: &VnodeRef) -> Result<VnodeRef> {
        let other = other.as_any().downcast_ref::<FanVnode>().ok_or(Errno::EXDEV)?;
        if !Arc::ptr_eq(&self.fan, &other.fan) {
            return Err(Errno::EXDEV);
        }
        other.parts().get(self.primary).cloned().flatten().ok_or(Errno::EXDEV)
    }

    fn attributes(&self, attributes: Attributes) -> Attributes {
        Attributes { ino: inode(self.primary, attributes.ino), ..attributes }
    }

    /// Builds the entry for an object found or created by a name here, with the branch objects of the name in other
    /// branches.
    fn entry(&self, name: Name<'_>, found: Entry) -> Result<Entry> {
        let server = Caller::server();
        let kind = found.vnode.kind();
        let mut parts: Parts = Vec::with_capacity(self.fan.branches.len());
        for (branch, directory) in self.parts().iter().enumerate() {
            let other = match directory {
                _ if branch == self.primary => Some(Arc::clone(&found.vnode)),
                Some(directory) => directory.lookup(&server, name).ok().map(|entry| entry.vnode),
                None => None,
            };
            // An object by this name in another branch is a branch object only if it is of the same kind.
            parts.push(other.filter(|other| other.kind() == kind));
        }
        Ok(Entry { attributes: self.attributes(found.attributes), vnode: self.fan.node(self.primary, parts)? })
    }

    fn created(&self, entry: Entry, file: OpenFileRef) -> Created {
        Created { entry, file: FanFile::over(self.primary, file) }
    }
}

impl Vnode for FanVnode {
    fn handle(&self) -> Handle {
        self.handle
    }

    fn kind(&self) -> FileKind {
        self.part.kind()
    }

    fn path(&self) -> Result<Vec<u8>> {
        self.part.path()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn getattr(&self, caller: &Caller) -> Result<Attributes> {
        Ok(self.attributes(self.part.getattr(caller)?))
    }

    fn setattr(&self, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        Ok(self.attributes(self.part.setattr(caller, changes)?))
    }

    fn access(&self, caller: &Caller, mode: AccessMode) -> Result<()> {
        self.part.access(caller, mode)
    }

    fn lookup(&self, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        self.entry(name, self.part.lookup(caller, name)?)
    }

    fn parent(&self, caller: &Caller) -> Result<VnodeRef> {
        let parent = self.part.parent(caller)?;
        let parts = self.fan.parts_at(self.primary, &parent);
        Ok(self.fan.node(self.primary, parts)?)
    }

    fn create(&self, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        let made = self.part.create(caller, name, how)?;
        Ok(self.created(self.entry(name, made.entry)?, made.file))
    }

    fn mkdir(&self, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        self.entry(name, self.part.mkdir(caller, name, mode)?)
    }

    fn mknod(&self, caller: &Caller, name: Name<'_>, kind: FileKind, mode: u32, device: Device) -> Result<Entry> {
        self.entry(name, self.part.mknod(caller, name, kind, mode, device)?)
    }

    fn symlink(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        self.entry(name, self.part.symlink(caller, name, target)?)
    }

    fn link(&self, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        self.entry(name, self.part.link(caller, &self.part_of(target)?, name)?)
    }

    fn unlink(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.part.unlink(caller, name)
    }

    fn rmdir(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.part.rmdir(caller, name)
    }

    fn rename(
        &self,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        self.part.rename(caller, name, &self.part_of(to)?, to_name, mode)
    }

    fn readlink(&self, caller: &Caller) -> Result<Vec<u8>> {
        self.part.readlink(caller)
    }

    fn open(&self, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        Ok(FanFile::over(self.primary, self.part.open(caller, flags)?))
    }

    fn open_directory(&self, caller: &Caller) -> Result<OpenDirectoryRef> {
        Ok(FanDirectory::over(self.primary, self.part.open_directory(caller)?))
    }

    fn statfs(&self, caller: &Caller) -> Result<StatFs> {
        self.part.statfs(caller)
    }

    fn getxattr(&self, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        self.part.getxattr(caller, name)
    }

    fn setxattr(&self, caller: &Caller, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.part.setxattr(caller, name, value, mode)
    }

    fn listxattr(&self, caller: &Caller) -> Result<Vec<u8>> {
        self.part.listxattr(caller)
    }

    fn removexattr(&self, caller: &Caller, name: &[u8]) -> Result<()> {
        self.part.removexattr(caller, name)
    }

    fn tmpfile(&self, caller: &Caller, how: &Creation) -> Result<Created> {
        let made = self.part.tmpfile(caller, how)?;
        let mut parts = vec![None; self.fan.branches.len()];
        parts[self.primary] = Some(made.entry.vnode);
        let entry =
            Entry { vnode: self.fan.node(self.primary, parts)?, attributes: self.attributes(made.entry.attributes) };
        Ok(self.created(entry, made.file))
    }

    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        self.part.ioctl(caller, command, input, output)
    }
}

impl Drop for FanVnode {
    fn drop(&mut self) {
        self.fan.forget(&self.handle);
    }
}
