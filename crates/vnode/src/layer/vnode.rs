//! A vnode of a layer: access control, the layer's operation, observation; and the operations that forward.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::block_map::file::plain_size;
use super::block_map::log::Log;
use super::block_map::losses::Loss;
use super::operation::Operation;
use super::own_entries::EntryOrigin;
use super::path;
use super::state::LayerState;
use super::template::{Layer, LayerDirectory, LayerFile, LayerVnode, Mount, declared, encodes};
use crate::profile::enter_with;
use crate::{
    AccessMode, Attributes, Caller, Created, Creation, Device, Entry, Errno, FileKind, Handle, KeyedGuard, Name,
    OpenDirectoryRef, OpenFileRef, OpenFlags, RenameMode, Result, SetAttributes, StatFs, Vnode, VnodeRef, XattrMode,
    open_for_rewriting,
};

impl<L: Layer> LayerVnode<L> {
    pub(crate) fn new(mount: Arc<Mount<L>>, lower: VnodeRef) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            mount,
            lower,
            state: Default::default(),
            log: Mutex::default(),
            this: Weak::clone(this),
        })
    }

    /// Returns the layer.
    pub fn layer(&self) -> &L {
        &self.mount.layer
    }

    /// Returns the lower vnode.
    pub fn lower(&self) -> &VnodeRef {
        &self.lower
    }

    /// Returns the state that the layer keeps for this vnode.
    pub fn state(&self) -> &<L::State as LayerState>::Vnode {
        &self.state
    }

    /// Returns a shared reference to this vnode; if it is being dropped, to an equal one.
    pub fn shared(&self) -> Arc<Self> {
        self.this.upgrade().unwrap_or_else(|| self.mount.wrap(Arc::clone(&self.lower)))
    }

    /// Returns this layer's vnode over a vnode of the lower file system: for layers that perform lookups by themselves.
    pub fn wrap(&self, lower: VnodeRef) -> Arc<Self> {
        self.mount.wrap(lower)
    }

    /// Checks that the caller finds the object in this layer by looking up its path from the root, whatever the
    /// permissions below: each lookup runs as [`Caller::server_for`] the caller, so that the layer's own rules apply to
    /// it. For [`Layer::admit_handle`]; of an object with several names, one is looked up.
    ///
    /// # Errors
    /// That of the lookup that fails; `ENOENT` if the name is hidden, refers to something else, or does not exist any
    /// more; `EOPNOTSUPP` if the lower file system does not know the path.
    pub fn check_lookup(&self, caller: &Caller) -> Result<()> {
        path::check_lookup(self, caller)
    }

    /// Runs an operation through the layer's `around`, with its time accounted to the layer.
    pub(crate) fn run<T>(
        &self,
        caller: &Caller,
        operation: Operation<'_>,
        body: impl FnOnce(&L) -> Result<T>,
    ) -> Result<T> {
        let layer = self.layer();
        let _working = enter_with(|| layer.kind());
        layer.around(self, caller, &operation, || body(layer))
    }

    /// Converts lower attributes of this object to those seen above.
    ///
    /// # Errors
    /// Those of reading the block map of the file, if it has one. One that cannot be understood, or that the server may not read,
    /// leaves the size as it is below: the file has to be seen to be removed.
    pub(crate) fn attributes(&self, caller: &Caller, mut attributes: Attributes) -> Result<Attributes> {
        let layer = self.layer();
        if attributes.kind == FileKind::Regular {
            if let Some(shape) = layer.data_shape() {
                attributes.size = shape.plain_size(attributes.size);
            } else if let Some(block_size) = layer.block_map() {
                attributes.size = match plain_size(self, block_size, attributes.size) {
                    Err(Errno::EBADMSG | Errno::EACCES | Errno::EPERM) => attributes.size,
                    size => size?,
                };
            }
        }
        if attributes.kind == FileKind::Symlink && layer.encodes_targets() {
            match self
                .lower
                .readlink(Caller::shared_server())
                .and_then(|target| layer.decode_target(self, caller, target))
            {
                Ok(target) => attributes.size = target.len() as u64,
                Err(error) => self.report_once(format_args!("the target cannot be decoded: {error}")),
            }
        }
        layer.map_attributes(caller, &mut attributes);
        Ok(attributes)
    }

    fn entry(&self, caller: &Caller, lower: Entry) -> Result<Entry> {
        let node = self.mount.wrap(lower.vnode);
        Ok(Entry { attributes: node.attributes(caller, lower.attributes)?, vnode: node })
    }

    fn created(&self, caller: &Caller, lower: Created, flags: OpenFlags) -> Result<Created> {
        let node = self.mount.wrap(lower.entry.vnode);
        let attributes = node.attributes(caller, lower.entry.attributes)?;
        let file = Arc::new(LayerFile::new(Arc::clone(&node), lower.file, flags));
        self.layer().opened(&file, caller)?;
        Ok(Created { entry: Entry { vnode: node, attributes }, file })
    }

    /// Returns the lower vnode of another vnode of this layer on this file system.
    ///
    /// # Errors
    /// `EXDEV` for any other vnode.
    pub fn lower_of<'a>(&self, other: &'a VnodeRef) -> Result<&'a VnodeRef> {
        match other.as_any().downcast_ref::<Self>() {
            Some(other) if Arc::ptr_eq(&self.mount, &other.mount) => Ok(&other.lower),
            _ => Err(Errno::EXDEV),
        }
    }

    /// Returns the block map of the file.
    pub(crate) fn log(&self) -> MutexGuard<'_, Option<Box<Log>>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the block map of the file, whose lower file was truncated to nothing.
    pub(crate) fn forget_log(&self) {
        let mut slot = self.log();
        *slot = None;
        self.note_loss(None);
    }

    /// Notes what failed synchronizations mean for the file, for as long as this server runs. The caller holds its block map.
    pub(crate) fn note_loss(&self, loss: Option<Loss>) {
        self.mount.losses.set(self.lower.handle(), loss);
    }

    /// Returns what failed synchronizations mean for the file.
    pub(crate) fn noted_loss(&self) -> Option<Loss> {
        self.mount.losses.of(&self.lower.handle())
    }

    /// Locks the encoded data of the file against reads and writes.
    ///
    /// # Errors
    /// Those of the caller's cancellation.
    pub(crate) fn lock_data(&self, caller: &Caller) -> Result<KeyedGuard<'_, Handle>> {
        self.mount.data_locks.write_unless(caller.cancellation(), self.lower.handle())
    }

    fn node_of<'a>(&self, other: &'a VnodeRef) -> Result<&'a Self> {
        self.lower_of(other)?;
        other.as_any().downcast_ref::<Self>().ok_or(Errno::EXDEV)
    }
}

/// The template's operations: they apply hooks, call the lower vnode and wrap its result.
#[allow(missing_docs)]
impl<L: Layer> LayerVnode<L> {
    pub fn forward_getattr(&self, caller: &Caller) -> Result<Attributes> {
        self.attributes(caller, self.lower.getattr(&self.layer().map_caller(caller))?)
    }

    pub fn forward_setattr(&self, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        let layer = self.layer();
        let mut changes = *changes;
        layer.map_changes(&mut changes)?;
        let lower_caller = layer.map_caller(caller);
        let is_encoded = encodes(layer) && self.kind() == FileKind::Regular;
        if let (true, Some(size)) = (is_encoded, changes.size) {
            let lower = open_for_rewriting(&*self.lower, &lower_caller, OpenFlags::WRITE)?;
            let file = LayerFile::new(self.shared(), lower, OpenFlags::READ_WRITE);
            file.forward_truncate(caller, size)?;
            changes.size = None;
        }
        if changes.is_empty() {
            return self.forward_getattr(caller);
        }
        // What is given back below when a file is closed changes its times, and then restores them.
        let is_mapped = is_encoded && layer.block_map().is_some();
        let _guard = is_mapped.then(|| self.lock_data(caller)).transpose()?;
        self.attributes(caller, self.lower.setattr(&lower_caller, &changes)?)
    }

    pub fn forward_access(&self, caller: &Caller, mode: AccessMode) -> Result<()> {
        self.lower.access(&self.layer().map_caller(caller), mode)
    }

    pub fn forward_lookup(&self, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        let entry = self.locate(caller, name)?;
        self.entry(caller, entry.directory().lookup(&self.layer().map_caller(caller), entry.name())?)
    }

    pub fn forward_parent(&self, caller: &Caller) -> Result<VnodeRef> {
        let parent = self.lower.parent(&self.layer().map_caller(caller))?;
        Ok(self.mount.wrap(self.layer().upper_directory(caller, &parent)?.unwrap_or(parent)))
    }

    pub fn forward_create(&self, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        let mut lower_how = *how;
        if encodes(self.layer()) {
            lower_how.flags = how.flags.for_rewriting().without(OpenFlags::TRUNCATE);
        }
        let created = self.make_entry(caller, name, EntryOrigin::New, |entry, lower_caller| {
            entry.directory().create(lower_caller, entry.name(), &lower_how)
        })?;
        let mut created = self.created(caller, created, how.flags)?;
        if encodes(self.layer()) && how.flags.truncates() && created.entry.attributes.size > 0 {
            // The file existed before, and others may be writing: it is truncated under their lock, as the caller.
            let cut = SetAttributes { size: Some(0), ..SetAttributes::default() };
            let node = self.node_of(&created.entry.vnode)?;
            let _guard = node.lock_data(caller)?;
            let attributes = node.lower.setattr(&self.layer().map_caller(caller), &cut)?;
            node.forget_log();
            created.entry.attributes = node.attributes(caller, attributes)?;
        }
        Ok(created)
    }

    pub fn forward_mkdir(&self, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        let made = self.make_entry(caller, name, EntryOrigin::New, |entry, _| self.make_filled(caller, entry, mode))?;
        self.entry(caller, made)
    }

    pub fn forward_mknod(
        &self,
        caller: &Caller,
        name: Name<'_>,
        kind: FileKind,
        mode: u32,
        device: Device,
    ) -> Result<Entry> {
        let made = self.make_entry(caller, name, EntryOrigin::New, |entry, lower_caller| {
            entry.directory().mknod(lower_caller, entry.name(), kind, mode, device)
        })?;
        self.entry(caller, made)
    }

    pub fn forward_symlink(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        let target = self.layer().encode_target(self, caller, target)?;
        let made = self.make_entry(caller, name, EntryOrigin::New, |entry, lower_caller| {
            entry.directory().symlink(lower_caller, entry.name(), &target)
        })?;
        self.entry(caller, made)
    }

    pub fn forward_link(&self, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        let target = self.node_of(target)?;
        let made = self.make_entry(caller, name, EntryOrigin::Linked(target), |entry, lower_caller| {
            entry.directory().link(lower_caller, &target.lower, entry.name())
        })?;
        self.entry(caller, made)
    }

    pub fn forward_unlink(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.remove_entry(caller, name)
    }

    pub fn forward_rmdir(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.remove_directory(caller, name)
    }

    pub fn forward_rename(
        &self,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        self.rename_entry(caller, name, self.node_of(to)?, to_name, mode)
    }

    pub fn forward_readlink(&self, caller: &Caller) -> Result<Vec<u8>> {
        let target = self.lower.readlink(&self.layer().map_caller(caller))?;
        if self.layer().encodes_targets() { self.layer().decode_target(self, caller, target) } else { Ok(target) }
    }

    pub fn forward_open(&self, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        let lower_caller = self.layer().map_caller(caller);
        let lower = if encodes(self.layer()) {
            // Truncation must not come between the reading and the writing of a block.
            let _guard = flags.truncates().then(|| self.lock_data(caller)).transpose()?;
            let lower = open_for_rewriting(&*self.lower, &lower_caller, flags)?;
            if flags.truncates() {
                self.forget_log();
            }
            lower
        } else {
            self.lower.open(&lower_caller, flags)?
        };
        let file = Arc::new(LayerFile::new(self.shared(), lower, flags));
        self.layer().opened(&file, caller)?;
        Ok(file)
    }

    pub fn forward_open_directory(&self, caller: &Caller) -> Result<OpenDirectoryRef> {
        let lower = self.lower.open_directory(&self.layer().map_caller(caller))?;
        Ok(Arc::new(LayerDirectory::new(self.shared(), lower)))
    }

    pub fn forward_statfs(&self, caller: &Caller) -> Result<StatFs> {
        let mut statfs = self.lower.statfs(&self.layer().map_caller(caller))?;
        self.layer().map_statfs(&mut statfs);
        Ok(statfs)
    }

    pub fn forward_getxattr(&self, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        let (layer, lower_caller) = (self.layer(), self.layer().map_caller(caller));
        if !layer.encodes_xattrs() {
            return self.lower.getxattr(&lower_caller, name);
        }
        let value = self.lower.getxattr(&lower_caller, &layer.encode_xattr_name(self, caller, name)?)?;
        layer.decode_xattr_value(self, caller, name, value)
    }

    pub fn forward_setxattr(&self, caller: &Caller, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let (layer, lower_caller) = (self.layer(), self.layer().map_caller(caller));
        if !layer.encodes_xattrs() {
            return self.lower.setxattr(&lower_caller, name, value, mode);
        }
        let lower_name = layer.encode_xattr_name(self, caller, name)?;
        self.lower.setxattr(&lower_caller, &lower_name, &layer.encode_xattr_value(self, caller, name, value)?, mode)
    }

    pub fn forward_listxattr(&self, caller: &Caller) -> Result<Vec<u8>> {
        let names = self.lower.listxattr(&self.layer().map_caller(caller))?;
        if !self.layer().encodes_xattrs() {
            return Ok(names);
        }
        let mut decoded = Vec::with_capacity(names.len());
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            match self.layer().decode_xattr_name(self, caller, name) {
                Ok(Some(name)) => {
                    decoded.extend_from_slice(&name);
                    decoded.push(0);
                }
                Ok(None) => {}
                Err(error) => self.report_once(format_args!(
                    "the extended attribute {} cannot be decoded and is not shown: {error}",
                    String::from_utf8_lossy(name)
                )),
            }
        }
        Ok(decoded)
    }

    pub fn forward_removexattr(&self, caller: &Caller, name: &[u8]) -> Result<()> {
        let (layer, lower_caller) = (self.layer(), self.layer().map_caller(caller));
        if !layer.encodes_xattrs() {
            return self.lower.removexattr(&lower_caller, name);
        }
        self.lower.removexattr(&lower_caller, &layer.encode_xattr_name(self, caller, name)?)
    }

    pub fn forward_tmpfile(&self, caller: &Caller, how: &Creation) -> Result<Created> {
        let mut lower_how = *how;
        if encodes(self.layer()) {
            lower_how.flags = how.flags.for_rewriting();
        }
        self.created(caller, self.lower.tmpfile(&self.layer().map_caller(caller), &lower_how)?, how.flags)
    }

    pub fn forward_ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        self.lower.ioctl(&self.layer().map_caller(caller), command, input, output)
    }
}

impl<L: Layer> Vnode for LayerVnode<L> {
    fn handle(&self) -> Handle {
        self.lower.handle()
    }

    fn kind(&self) -> FileKind {
        self.lower.kind()
    }

    fn path(&self) -> Result<Vec<u8>> {
        if declared(self.layer()).promises.names_untouched {
            return self.lower.path();
        }
        path::decoded(self)
    }

    fn storage(&self) -> Option<u64> {
        self.lower.storage()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn getattr(&self, caller: &Caller) -> Result<Attributes> {
        self.run(caller, Operation::GetAttributes, |layer| layer.getattr(self, caller))
    }

    fn setattr(&self, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        self.run(caller, Operation::SetAttributes(changes), |layer| layer.setattr(self, caller, changes))
    }

    fn access(&self, caller: &Caller, mode: AccessMode) -> Result<()> {
        self.run(caller, Operation::Access(mode), |layer| layer.access(self, caller, mode))
    }

    fn lookup(&self, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        self.run(caller, Operation::Lookup(name), |layer| layer.lookup(self, caller, name))
    }

    fn parent(&self, caller: &Caller) -> Result<VnodeRef> {
        self.run(caller, Operation::Parent, |layer| layer.parent(self, caller))
    }

    fn create(&self, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        self.run(caller, Operation::Create { name, how }, |layer| layer.create(self, caller, name, how))
    }

    fn mkdir(&self, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        self.run(caller, Operation::MakeDirectory { name, mode }, |layer| layer.mkdir(self, caller, name, mode))
    }

    fn mknod(&self, caller: &Caller, name: Name<'_>, kind: FileKind, mode: u32, device: Device) -> Result<Entry> {
        self.run(caller, Operation::MakeNode { name, kind, mode }, |layer| {
            layer.mknod(self, caller, name, kind, mode, device)
        })
    }

    fn symlink(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        self.run(caller, Operation::MakeSymlink { name, target }, |layer| layer.symlink(self, caller, name, target))
    }

    fn link(&self, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        self.run(caller, Operation::Link { name, target }, |layer| layer.link(self, caller, target, name))
    }

    fn unlink(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.run(caller, Operation::Unlink(name), |layer| layer.unlink(self, caller, name))
    }

    fn rmdir(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.run(caller, Operation::RemoveDirectory(name), |layer| layer.rmdir(self, caller, name))
    }

    fn rename(
        &self,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        self.run(caller, Operation::Rename { name, to, to_name, mode }, |layer| {
            layer.rename(self, caller, name, to, to_name, mode)
        })
    }

    fn readlink(&self, caller: &Caller) -> Result<Vec<u8>> {
        self.run(caller, Operation::ReadLink, |layer| layer.readlink(self, caller))
    }

    fn open(&self, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        self.run(caller, Operation::Open(flags), |layer| layer.open(self, caller, flags))
    }

    fn open_directory(&self, caller: &Caller) -> Result<OpenDirectoryRef> {
        self.run(caller, Operation::OpenDirectory, |layer| layer.open_directory(self, caller))
    }

    fn statfs(&self, caller: &Caller) -> Result<StatFs> {
        self.run(caller, Operation::StatFs, |layer| layer.statfs(self, caller))
    }

    fn getxattr(&self, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        self.run(caller, Operation::GetXattr(name), |layer| layer.getxattr(self, caller, name))
    }

    fn setxattr(&self, caller: &Caller, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.run(caller, Operation::SetXattr { name, value }, |layer| layer.setxattr(self, caller, name, value, mode))
    }

    fn listxattr(&self, caller: &Caller) -> Result<Vec<u8>> {
        self.run(caller, Operation::ListXattr, |layer| layer.listxattr(self, caller))
    }

    fn removexattr(&self, caller: &Caller, name: &[u8]) -> Result<()> {
        self.run(caller, Operation::RemoveXattr(name), |layer| layer.removexattr(self, caller, name))
    }

    fn tmpfile(&self, caller: &Caller, how: &Creation) -> Result<Created> {
        self.run(caller, Operation::TemporaryFile(how), |layer| layer.tmpfile(self, caller, how))
    }

    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        self.run(caller, Operation::Ioctl { command }, |layer| layer.ioctl(self, None, caller, command, input, output))
    }
}

impl<L: Layer> Drop for LayerVnode<L> {
    fn drop(&mut self) {
        self.mount.forget(&self.lower);
    }
}
