//! An object of a fan-out: its branch objects, and every operation on the primary one.

use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock};

use vnode::{
    AccessMode, Attributes, Caller, Created, Creation, Device, Entry, Errno, FileKind, Handle, Name, OpenDirectoryRef,
    OpenFileRef, OpenFlags, RenameMode, Result, SetAttributes, StatFs, Vnode, VnodeRef, XattrMode,
};

use super::file::{FanOutDirectory, FanOutFile};
use super::{BranchObjects, FanOut, handle, inode};

/// An object of a fan-out.
pub(crate) struct FanOutVnode {
    fan_out: Arc<FanOut>,
    /// Index of the branch with the primary branch object.
    primary_branch: usize,
    primary_object: VnodeRef,
    handle: Handle,
    branch_objects: RwLock<BranchObjects>,
}

impl FanOutVnode {
    pub(crate) fn new(
        fan_out: Arc<FanOut>,
        primary_branch: usize,
        branch_objects: BranchObjects,
    ) -> Result<FanOutVnode> {
        let primary_object = branch_objects.get(primary_branch).cloned().flatten().ok_or(Errno::ENOENT)?;
        let handle = handle(primary_branch, &primary_object.handle())?;
        Ok(FanOutVnode { fan_out, primary_branch, primary_object, handle, branch_objects: RwLock::new(branch_objects) })
    }

    pub(crate) fn identity(&self) -> Handle {
        self.handle
    }

    pub(crate) fn branch_objects(&self) -> BranchObjects {
        self.branch_objects.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces what is known of the other branch objects.
    pub(crate) fn update_branch_objects(&self, branch_objects: BranchObjects) {
        *self.branch_objects.write().unwrap_or_else(PoisonError::into_inner) = branch_objects;
    }

    /// Returns the index of the branch that the object is in.
    pub(crate) fn primary_branch(&self) -> usize {
        self.primary_branch
    }

    /// Returns the branch object in a branch, as an object of its own.
    pub(crate) fn object_in_branch(&self, branch: usize) -> Option<VnodeRef> {
        let node: VnodeRef = self.fan_out.node(branch, self.branch_objects()).ok()?;
        Some(node)
    }

    fn branch_object_of(&self, other: &VnodeRef) -> Result<VnodeRef> {
        let other = other.as_any().downcast_ref::<FanOutVnode>().ok_or(Errno::EXDEV)?;
        if !Arc::ptr_eq(&self.fan_out, &other.fan_out) {
            return Err(Errno::EXDEV);
        }
        other.branch_objects().get(self.primary_branch).cloned().flatten().ok_or(Errno::EXDEV)
    }

    fn attributes(&self, attributes: Attributes) -> Attributes {
        Attributes { ino: inode(self.primary_branch, attributes.ino), ..attributes }
    }

    /// Builds the entry for an object found or created by a name here, with the branch objects of the name in other
    /// branches.
    fn entry(&self, name: Name<'_>, primary_entry: Entry) -> Result<Entry> {
        let server = Caller::server();
        let kind = primary_entry.vnode.kind();
        let mut branch_objects: BranchObjects = Vec::with_capacity(self.fan_out.branches.len());
        for (branch, directory) in self.branch_objects().iter().enumerate() {
            let other = match directory {
                _ if branch == self.primary_branch => Some(Arc::clone(&primary_entry.vnode)),
                Some(directory) => directory.lookup(&server, name).ok().map(|entry| entry.vnode),
                None => None,
            };
            // An object by this name in another branch is a branch object only if it is of the same kind.
            branch_objects.push(other.filter(|other| other.kind() == kind));
        }
        Ok(Entry {
            attributes: self.attributes(primary_entry.attributes),
            vnode: self.fan_out.node(self.primary_branch, branch_objects)?,
        })
    }

    fn created(&self, entry: Entry, file: OpenFileRef) -> Created {
        Created { entry, file: FanOutFile::wrap(self.primary_branch, file) }
    }
}

impl Vnode for FanOutVnode {
    fn handle(&self) -> Handle {
        self.handle
    }

    fn kind(&self) -> FileKind {
        self.primary_object.kind()
    }

    fn path(&self) -> Result<Vec<u8>> {
        self.primary_object.path()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn getattr(&self, caller: &Caller) -> Result<Attributes> {
        Ok(self.attributes(self.primary_object.getattr(caller)?))
    }

    fn setattr(&self, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        Ok(self.attributes(self.primary_object.setattr(caller, changes)?))
    }

    fn access(&self, caller: &Caller, mode: AccessMode) -> Result<()> {
        self.primary_object.access(caller, mode)
    }

    fn lookup(&self, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        self.entry(name, self.primary_object.lookup(caller, name)?)
    }

    fn parent(&self, caller: &Caller) -> Result<VnodeRef> {
        let parent = self.primary_object.parent(caller)?;
        let branch_objects = self.fan_out.branch_objects_at(self.primary_branch, &parent);
        Ok(self.fan_out.node(self.primary_branch, branch_objects)?)
    }

    fn create(&self, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        let created = self.primary_object.create(caller, name, how)?;
        Ok(self.created(self.entry(name, created.entry)?, created.file))
    }

    fn mkdir(&self, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        self.entry(name, self.primary_object.mkdir(caller, name, mode)?)
    }

    fn mknod(&self, caller: &Caller, name: Name<'_>, kind: FileKind, mode: u32, device: Device) -> Result<Entry> {
        self.entry(name, self.primary_object.mknod(caller, name, kind, mode, device)?)
    }

    fn symlink(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        self.entry(name, self.primary_object.symlink(caller, name, target)?)
    }

    fn link(&self, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        self.entry(name, self.primary_object.link(caller, &self.branch_object_of(target)?, name)?)
    }

    fn unlink(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.primary_object.unlink(caller, name)
    }

    fn rmdir(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.primary_object.rmdir(caller, name)
    }

    fn rename(
        &self,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        self.primary_object.rename(caller, name, &self.branch_object_of(to)?, to_name, mode)
    }

    fn readlink(&self, caller: &Caller) -> Result<Vec<u8>> {
        self.primary_object.readlink(caller)
    }

    fn open(&self, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        Ok(FanOutFile::wrap(self.primary_branch, self.primary_object.open(caller, flags)?))
    }

    fn open_directory(&self, caller: &Caller) -> Result<OpenDirectoryRef> {
        Ok(FanOutDirectory::wrap(self.primary_branch, self.primary_object.open_directory(caller)?))
    }

    fn statfs(&self, caller: &Caller) -> Result<StatFs> {
        self.primary_object.statfs(caller)
    }

    fn getxattr(&self, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        self.primary_object.getxattr(caller, name)
    }

    fn setxattr(&self, caller: &Caller, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.primary_object.setxattr(caller, name, value, mode)
    }

    fn listxattr(&self, caller: &Caller) -> Result<Vec<u8>> {
        self.primary_object.listxattr(caller)
    }

    fn removexattr(&self, caller: &Caller, name: &[u8]) -> Result<()> {
        self.primary_object.removexattr(caller, name)
    }

    fn tmpfile(&self, caller: &Caller, how: &Creation) -> Result<Created> {
        let created = self.primary_object.tmpfile(caller, how)?;
        let mut branch_objects = vec![None; self.fan_out.branches.len()];
        branch_objects[self.primary_branch] = Some(created.entry.vnode);
        let entry = Entry {
            vnode: self.fan_out.node(self.primary_branch, branch_objects)?,
            attributes: self.attributes(created.entry.attributes),
        };
        Ok(self.created(entry, created.file))
    }

    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        self.primary_object.ioctl(caller, command, input, output)
    }
}

impl Drop for FanOutVnode {
    fn drop(&mut self) {
        self.fan_out.forget(&self.handle);
    }
}
