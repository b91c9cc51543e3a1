//! The trait that a layer implements, each of its methods with a default that changes nothing, and the objects that it is given.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::block_map::log::Log;
use super::block_map::losses::Losses;
use super::operation::Operation;
use super::own_entries::{EntryOrigin, OwnEntries};
use super::shape::{Block, BlockForm, DataShape, MappedBlock};
use super::state::LayerState;
use crate::{
    AccessMode, AllocateMode, Attributes, Caller, Control, ControlError, Cookie, Created, Creation, Description,
    Device, DirectoryEntry, Entry, Errno, FileKind, FileSystemRef, Handle, KeyedLocks, LiveTable, Lock, LockOwner,
    Name, Needs, Notifier, Notifiers, OpenDirectoryRef, OpenFileRef, OpenFlags, Promises, Properties, RenameMode,
    Result, SeekTarget, SetAttributes, StatFs, VnodeRef, XattrMode,
};

/// Returns what a layer by itself leaves untouched and needs.
pub(crate) fn declared<L: Layer>(layer: &L) -> Properties {
    let promises = layer.promises();
    let promises = Promises {
        data_untouched: promises.data_untouched && !encodes(layer),
        names_untouched: promises.names_untouched && !layer.own_entries().exist,
        attributes_untouched: promises.attributes_untouched && !layer.encodes_targets(),
        ..promises
    };
    Properties { promises, needs: layer.needs() }
}

/// Returns whether a layer encodes data.
pub(crate) fn encodes<L: Layer>(layer: &L) -> bool {
    layer.data_shape().is_some() || layer.block_map().is_some()
}

/// A layer: one value per mount, shared by all its operations; its fields hold the layer's state of the mount.
///
/// The operations have the semantics of those of [`crate::Vnode`] and [`crate::OpenFile`].
#[allow(unused_variables, reason = "defaults name what they are given, and need little of it")]
pub trait Layer: Send + Sync + Sized + 'static {
    /// State that the layer keeps for each vnode and each open file, `()` for none.
    type State: LayerState;

    /// Returns whether the layer keeps state for vnodes at all: a layer that needs state only with some options avoids the table
    /// of live vnodes with the others, where [`LayerVnode::state`] is then of no use. Called often, and must always
    /// return the same value. Default: true unless the type is zero-sized.
    fn keeps_state(&self) -> bool {
        size_of::<<Self::State as LayerState>::Vnode>() != 0
    }

    /// Returns the layer's kind, as a stack expression names it.
    fn kind(&self) -> &'static str;

    /// Returns the layer's options, as a stack expression writes them; for `--explain` and `status`. Default: none.
    fn details(&self) -> String {
        String::new()
    }

    /// Returns what the layer by itself promises; data are touched in any case if they have a
    /// [shape](Layer::data_shape). Default: leaves neither data nor names nor attributes untouched, and keeps the other
    /// promises, as a layer does unless it admits callers by rules of its own or changes objects by itself.
    fn promises(&self) -> Promises {
        Promises::OPAQUE
    }

    /// Returns what the layer by itself needs. Default: nothing.
    fn needs(&self) -> Needs {
        Needs::NONE
    }

    /// Returns the members that the layer consists of, the lowest first, for the description of the stack. Default: the
    /// layer alone, with its kind, its details and its properties.
    fn describe(&self) -> Vec<Description> {
        vec![Description { kind: self.kind().to_owned(), details: self.details(), properties: declared(self) }]
    }

    /// Returns whether commands to this target are for this layer. Default: whether the target is its kind.
    fn answers_to(&self, target: &str) -> bool {
        target == self.kind()
    }

    /// Executes a command sent to the running layer. Default: no command is known.
    ///
    /// # Errors
    /// [`ControlError::UnknownCommand`], [`ControlError::BadArgument`], [`ControlError::Failed`].
    fn control(&self, command: &Control) -> std::result::Result<String, ControlError> {
        let (target, command) = (command.target.clone(), command.command.clone());
        Err(ControlError::UnknownCommand { target, command })
    }

    /// Sets the receiver of notifications about changes that did not come from above, which passes them on to all that
    /// [`crate::FileSystem::add_notifier`] adds: for a layer whose commands change what it shows. Called once, before the
    /// first operation. Default: reports nothing.
    fn set_notifier(&self, notifier: &Arc<dyn Notifier>) {}

    // Hooks.

    /// Decides whether this caller may perform this operation on this object (a directory, for operations on a name).
    /// Called first; if it refuses, nothing happens below. Declare an [`AccessControl`](crate::AccessControl) unless it
    /// only refuses all callers alike to open or change something. Default: permits everything.
    ///
    /// # Errors
    /// The error that the caller is to see.
    fn admit(&self, node: &LayerVnode<Self>, caller: &Caller, operation: &Operation<'_>) -> Result<()> {
        Ok(())
    }

    /// Decides whether this caller may get the object by its handle; see [`crate::FileSystem::resolve`]. Called for every
    /// handle that the lower file system has resolved, unless the object is one of the layer's
    /// [own entries](Layer::is_own_entry), or in one, which the template refuses, or the caller is
    /// [the server alone](Caller::is_server_alone), which finds what it has recorded. Operations on the object go through
    /// [`Layer::admit`] as always; a layer that hides objects, or refuses to look up some of them, refuses their handles too,
    /// as by [`LayerVnode::check_lookup`]. Default: permits everything.
    ///
    /// # Errors
    /// The error that the caller is to see; `ENOENT` for an object that is hidden, and `EOPNOTSUPP` for one whose name is
    /// not known, become `ESTALE`.
    fn admit_handle(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<()> {
        Ok(())
    }

    /// Observes every operation after it has completed or been refused. Cannot change the result. Default: does
    /// nothing.
    fn observe(&self, node: &LayerVnode<Self>, caller: &Caller, operation: &Operation<'_>, result: Result<()>) {}

    /// Wraps every operation, whatever its kind, to act before, after or instead of it. Default: `admit`, the
    /// operation, `observe`. An override decides by itself whether to call `body`, and which error to return.
    ///
    /// # Errors
    /// The error that the caller is to see.
    fn around<T>(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        operation: &Operation<'_>,
        body: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let result = self.admit(node, caller, operation).and_then(|()| body());
        self.observe(node, caller, operation, result.as_ref().map(drop).map_err(|error| *error));
        result
    }

    /// Returns the caller as the layers below are to see it. Default: unchanged.
    fn map_caller<'a>(&'a self, caller: &'a Caller) -> Cow<'a, Caller> {
        Cow::Borrowed(caller)
    }

    /// Returns the lower name of `name` in `directory`. Default: unchanged.
    ///
    /// # Errors
    /// `ENOENT` for a name that must not exist; a result that is not a valid name below fails as in [`Name::new`].
    fn encode_name<'a>(&self, directory: &LayerVnode<Self>, caller: &Caller, name: Name<'a>) -> Result<Cow<'a, [u8]>> {
        Ok(Cow::Borrowed(name.as_bytes()))
    }

    /// Returns the upper name of the lower `name` in `directory`; `None` hides the entry. Must be the inverse of
    /// `encode_name`. Default: unchanged.
    ///
    /// # Errors
    /// An entry whose name cannot be decoded is hidden; the template logs the first such error of each directory.
    fn decode_name<'a>(
        &self,
        directory: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'a>,
    ) -> Result<Option<Cow<'a, [u8]>>> {
        Ok(Some(Cow::Borrowed(name.as_bytes())))
    }

    /// Returns the lower directory that has the entry `name` of `directory`, if it is another than the one below `directory`:
    /// for layers that distribute the entries of a directory, which do not promise `names_untouched`, and override
    /// [`Layer::read_directory`], which lists one. Default: the one below.
    ///
    /// # Errors
    /// The operation on the name fails with this error.
    fn lower_directory(
        &self,
        directory: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
    ) -> Result<Option<VnodeRef>> {
        Ok(None)
    }

    /// Returns the lower vnode of the directory that shows the entries of `lower`, if it is another than `lower`: the inverse of
    /// [`Layer::lower_directory`]. Default: the same.
    ///
    /// # Errors
    /// What needs the parent of an object fails with this error.
    fn upper_directory(&self, caller: &Caller, lower: &VnodeRef) -> Result<Option<VnodeRef>> {
        Ok(None)
    }

    /// Returns which entries below are the layer's own. Called often, and must always return the same value. Default: none.
    fn own_entries(&self) -> OwnEntries {
        OwnEntries::NONE
    }

    /// Returns whether lower entries of this name are the layer's own, in any directory. They are not shown, cannot be made from
    /// above, and do not keep a directory from being removed or replaced: they are removed with it. Only with
    /// [`OwnEntries::exist`]. Default: none.
    fn is_own_entry(&self, name: Name<'_>) -> bool {
        false
    }

    /// Makes the layer's own entries in a new lower directory, which nobody sees yet and `caller` has asked for. What has to be
    /// there with the directory after a power cut is synchronized, as [`super::write_own_file`] does. One that fails, or a server that ends, leaves
    /// nothing that is shown. Only with [`OwnEntries::in_new_directories`]. Default: makes none.
    ///
    /// # Errors
    /// The directory is not made, and mkdir(2) fails with this error.
    fn fill_directory(&self, lower: &VnodeRef, caller: &Caller) -> Result<()> {
        Ok(())
    }

    /// Makes the layer's own entries that belong to the entry `name` of `directory`, which is about to be made, and may be there
    /// already. Nobody else changes names of the directory meanwhile. Only with [`OwnEntries::beside_others`]. Default: makes none.
    ///
    /// # Errors
    /// The entry is not made, and the operation fails with this error.
    fn prepare_entry(
        &self,
        directory: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        origin: EntryOrigin<'_, LayerVnode<Self>>,
    ) -> Result<()> {
        Ok(())
    }

    /// Removes the layer's own entries that belonged to the entry `name` of `directory`, which is gone or was not made. Nobody
    /// else changes names of the directory meanwhile. Only with [`OwnEntries::beside_others`]. Default: removes none.
    ///
    /// # Errors
    /// The template logs it, unless it is `ENOENT`: the entry is gone in any case.
    fn forget_entry(&self, directory: &LayerVnode<Self>, name: Name<'_>) -> Result<()> {
        Ok(())
    }

    /// Returns whether targets of symlinks are encoded: `encode_target` and `decode_target` are then called for each that is
    /// made or read, and a symlink's size is that of its decoded target. Default: no.
    fn encodes_targets(&self) -> bool {
        false
    }

    /// Returns the lower target of a symlink that is made in `directory`. Default: unchanged.
    ///
    /// # Errors
    /// The symlink is not made, and symlink(2) fails with this error.
    fn encode_target<'a>(
        &self,
        directory: &LayerVnode<Self>,
        caller: &Caller,
        target: &'a [u8],
    ) -> Result<Cow<'a, [u8]>> {
        Ok(Cow::Borrowed(target))
    }

    /// Returns the upper target of a symlink: the inverse of `encode_target`. Default: unchanged.
    ///
    /// # Errors
    /// readlink(2) fails with this error; the symlink's size is then that of its lower target.
    fn decode_target(&self, symlink: &LayerVnode<Self>, caller: &Caller, target: Vec<u8>) -> Result<Vec<u8>> {
        Ok(target)
    }

    /// Returns whether names or values of extended attributes are encoded: the four hooks below are then called for each that is
    /// set, read, listed or removed. What the kernel understands, `system.posix_acl_*` and `security.*`, is best left as it is.
    /// Default: no.
    fn encodes_xattrs(&self) -> bool {
        false
    }

    /// Returns the lower name of an extended attribute. Default: unchanged.
    ///
    /// # Errors
    /// The operation fails with this error: `ENODATA` for one that must not exist.
    fn encode_xattr_name<'a>(&self, node: &LayerVnode<Self>, caller: &Caller, name: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        Ok(Cow::Borrowed(name))
    }

    /// Returns the upper name of the lower extended attribute `name`; `None` hides it. Must be the inverse of
    /// `encode_xattr_name`. Default: unchanged.
    ///
    /// # Errors
    /// One whose name cannot be decoded is hidden; the template logs the first such error of each object.
    fn decode_xattr_name<'a>(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: &'a [u8],
    ) -> Result<Option<Cow<'a, [u8]>>> {
        Ok(Some(Cow::Borrowed(name)))
    }

    /// Returns the lower value of the extended attribute `name`. Default: unchanged.
    ///
    /// # Errors
    /// setxattr(2) fails with this error.
    fn encode_xattr_value<'a>(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: &[u8],
        value: &'a [u8],
    ) -> Result<Cow<'a, [u8]>> {
        Ok(Cow::Borrowed(value))
    }

    /// Returns the upper value of the extended attribute `name`: the inverse of `encode_xattr_value`. Default: unchanged.
    ///
    /// # Errors
    /// getxattr(2) fails with this error.
    fn decode_xattr_value(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: &[u8],
        value: Vec<u8>,
    ) -> Result<Vec<u8>> {
        Ok(value)
    }

    /// Changes attributes on their way up. The template translates sizes of encoded data. Declare
    /// [`Needs::fresh_attributes`] if they depend on the caller, and
    /// [`AccessControl::NotShown`](crate::AccessControl::NotShown) if owner or mode change and the lower ones still
    /// decide. Default: unchanged.
    fn map_attributes(&self, caller: &Caller, attributes: &mut Attributes) {}

    /// Changes new attributes on their way down: the inverse of `map_attributes`. Default: unchanged.
    ///
    /// # Errors
    /// For a change that cannot be expressed below.
    fn map_changes(&self, changes: &mut SetAttributes) -> Result<()> {
        Ok(())
    }

    /// Changes file system totals on their way up. A layer that lengthens names lowers `name_max`. Default: unchanged.
    fn map_statfs(&self, statfs: &mut StatFs) {}

    /// Returns the encoding of data, if there is one: `encode_data` and `decode_data` are then called for every block
    /// that is written or read, by whatever path. Default: data is not touched.
    fn data_shape(&self) -> Option<DataShape> {
        None
    }

    /// Returns whether the last block of a file is encoded differently from the same bytes followed by others
    /// ([`Block::is_last`]): a block is then re-encoded when it becomes the last, or another follows. Only with
    /// [`super::Holes::Filled`]: a hole has one form. Default: no.
    fn marks_last_block(&self) -> bool {
        false
    }

    /// Encodes a block of a file: `plain` is a whole block, or the shorter last block of the file; `encoded` is longer
    /// by [`DataShape::overhead`] bytes and must be filled: its previous content is meaningless. Default: a copy.
    ///
    /// # Errors
    /// The write fails with this error; nothing is written.
    fn encode_data(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        block: Block,
        plain: &[u8],
        encoded: &mut [u8],
    ) -> Result<()> {
        encoded[..plain.len()].copy_from_slice(plain);
        Ok(())
    }

    /// Decodes a block: the inverse of `encode_data`. Default: a copy.
    ///
    /// # Errors
    /// The read fails with this error, for instance `EBADMSG` for data that this layer did not encode.
    fn decode_data(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        block: Block,
        encoded: &[u8],
        plain: &mut [u8],
    ) -> Result<()> {
        plain.copy_from_slice(&encoded[..plain.len()]);
        Ok(())
    }

    /// Returns the size in bytes of the blocks of a new file, at most 16 MiB, if the files of this layer have block maps:
    /// `encode_block` and `decode_block` are then called for every block that is written or read, by whatever path, and
    /// blocks may have any length below. Nothing is overwritten below; a write is made as a whole or not at all, whenever the
    /// power is cut. A layer has a [shape](Layer::data_shape) or a block map, not both. Default: no block map.
    fn block_map(&self) -> Option<usize> {
        None
    }

    /// Returns bytes of the layer's own for a new file with a block map, at most 4,096, such as a key: they are stored with the file,
    /// with a checksum, and given to each encoding and decoding. Called again when a file that was truncated to nothing gets
    /// data. Default: none.
    ///
    /// # Errors
    /// The write fails with this error; nothing is written.
    fn new_file_header(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    /// Appends the encoding of a block to `encoded`, at most twice as long and 4,096 bytes more, or refuses: the block is then stored as
    /// it is. `plain` is a whole block, or a shorter one, which zeros may follow. Default: refuses.
    ///
    /// # Errors
    /// The write fails with this error; nothing is written.
    fn encode_block(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        block: MappedBlock<'_>,
        plain: &[u8],
        encoded: &mut Vec<u8>,
    ) -> Result<BlockForm> {
        Ok(BlockForm::Verbatim)
    }

    /// Decodes a block: the inverse of `encode_block`. `plain` has the length that was encoded. What is stored has the checksum that was
    /// recorded, which tells damage, but not malice. Default: a copy.
    ///
    /// # Errors
    /// The read fails with this error, for instance `EBADMSG` for data that this layer did not encode.
    fn decode_block(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        block: MappedBlock<'_>,
        form: BlockForm,
        stored: &[u8],
        plain: &mut [u8],
    ) -> Result<()> {
        plain.copy_from_slice(stored.get(..plain.len()).ok_or(Errno::EBADMSG)?);
        Ok(())
    }

    // Operations on vnodes. Each is forwarded by default.

    /// See [`crate::Vnode::getattr`].
    fn getattr(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Attributes> {
        node.forward_getattr(caller)
    }

    /// See [`crate::Vnode::setattr`].
    fn setattr(&self, node: &LayerVnode<Self>, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        node.forward_setattr(caller, changes)
    }

    /// See [`crate::Vnode::access`].
    fn access(&self, node: &LayerVnode<Self>, caller: &Caller, mode: AccessMode) -> Result<()> {
        node.forward_access(caller, mode)
    }

    /// See [`crate::Vnode::lookup`].
    fn lookup(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        node.forward_lookup(caller, name)
    }

    /// See [`crate::Vnode::parent`].
    fn parent(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<VnodeRef> {
        node.forward_parent(caller)
    }

    /// See [`crate::Vnode::create`].
    fn create(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        node.forward_create(caller, name, how)
    }

    /// See [`crate::Vnode::mkdir`].
    fn mkdir(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        node.forward_mkdir(caller, name, mode)
    }

    /// See [`crate::Vnode::mknod`].
    fn mknod(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        kind: FileKind,
        mode: u32,
        device: Device,
    ) -> Result<Entry> {
        node.forward_mknod(caller, name, kind, mode, device)
    }

    /// See [`crate::Vnode::symlink`].
    fn symlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        node.forward_symlink(caller, name, target)
    }

    /// See [`crate::Vnode::link`].
    fn link(&self, node: &LayerVnode<Self>, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        node.forward_link(caller, target, name)
    }

    /// See [`crate::Vnode::unlink`].
    fn unlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        node.forward_unlink(caller, name)
    }

    /// See [`crate::Vnode::rmdir`].
    fn rmdir(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        node.forward_rmdir(caller, name)
    }

    /// See [`crate::Vnode::rename`].
    fn rename(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        node.forward_rename(caller, name, to, to_name, mode)
    }

    /// See [`crate::Vnode::readlink`].
    fn readlink(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Vec<u8>> {
        node.forward_readlink(caller)
    }

    /// See [`crate::Vnode::open`].
    fn open(&self, node: &LayerVnode<Self>, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        node.forward_open(caller, flags)
    }

    /// See [`crate::Vnode::open_directory`].
    fn open_directory(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<OpenDirectoryRef> {
        node.forward_open_directory(caller)
    }

    /// See [`crate::Vnode::statfs`].
    fn statfs(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<StatFs> {
        node.forward_statfs(caller)
    }

    /// See [`crate::Vnode::getxattr`].
    fn getxattr(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        node.forward_getxattr(caller, name)
    }

    /// See [`crate::Vnode::setxattr`].
    fn setxattr(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        node.forward_setxattr(caller, name, value, mode)
    }

    /// See [`crate::Vnode::listxattr`].
    fn listxattr(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Vec<u8>> {
        node.forward_listxattr(caller)
    }

    /// See [`crate::Vnode::removexattr`].
    fn removexattr(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<()> {
        node.forward_removexattr(caller, name)
    }

    /// See [`crate::Vnode::tmpfile`].
    fn tmpfile(&self, node: &LayerVnode<Self>, caller: &Caller, how: &Creation) -> Result<Created> {
        node.forward_tmpfile(caller, how)
    }

    /// See [`crate::Vnode::ioctl`]. `file` is the open file through which the command came, if any.
    fn ioctl(
        &self,
        node: &LayerVnode<Self>,
        file: Option<&LayerFile<Self>>,
        caller: &Caller,
        command: u32,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<i32> {
        match file {
            Some(file) => file.forward_ioctl(caller, command, input, output),
            None => node.forward_ioctl(caller, command, input, output),
        }
    }

    // Operations on open files and directories. Each is forwarded by default.

    /// See [`crate::OpenDirectory::read`].
    fn read_directory(
        &self,
        directory: &LayerDirectory<Self>,
        caller: &Caller,
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        directory.forward_read(caller, cookie, sink)
    }

    /// See [`crate::OpenFile::read_at`].
    fn read_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        file.forward_read_at(caller, offset, buffer)
    }

    /// See [`crate::OpenFile::write_at`].
    fn write_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        file.forward_write_at(caller, offset, data)
    }

    /// See [`crate::OpenFile::getattr`].
    fn getattr_open(&self, file: &LayerFile<Self>, caller: &Caller) -> Result<Attributes> {
        file.forward_getattr(caller)
    }

    /// See [`crate::OpenFile::truncate`].
    fn truncate(&self, file: &LayerFile<Self>, caller: &Caller, size: u64) -> Result<()> {
        file.forward_truncate(caller, size)
    }

    /// See [`crate::OpenFile::flush`]. A layer that does something here declares [`Needs::every_close`].
    fn flush(&self, file: &LayerFile<Self>, caller: &Caller, owner: &LockOwner) -> Result<()> {
        file.forward_flush(caller, owner)
    }

    /// See [`crate::OpenFile::fsync`].
    fn fsync(&self, file: &LayerFile<Self>, caller: &Caller, data_only: bool) -> Result<()> {
        file.forward_fsync(caller, data_only)
    }

    /// See [`crate::OpenFile::allocate`].
    fn allocate(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        mode: AllocateMode,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        file.forward_allocate(caller, mode, offset, length)
    }

    /// See [`crate::OpenFile::seek`].
    fn seek(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, target: SeekTarget) -> Result<u64> {
        file.forward_seek(caller, offset, target)
    }

    /// See [`crate::OpenFile::copy_range`].
    fn copy_range(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        offset: u64,
        to: &OpenFileRef,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        file.forward_copy_range(caller, offset, to, to_offset, length)
    }

    /// See [`crate::OpenFile::lock`].
    fn lock(&self, file: &LayerFile<Self>, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<()> {
        file.forward_lock(caller, owner, lock)
    }

    /// See [`crate::OpenFile::test_lock`].
    fn test_lock(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        owner: &LockOwner,
        lock: &Lock,
    ) -> Result<Option<Lock>> {
        file.forward_test_lock(caller, owner, lock)
    }

    /// See [`crate::OpenFile::poll`]. A layer that does something here declares [`Needs::every_poll`].
    fn poll(&self, file: &LayerFile<Self>, caller: &Caller, events: u32) -> Result<u32> {
        file.forward_poll(caller, events)
    }

    /// Prepares a file that was opened or created, and that nobody uses yet. Default: does nothing.
    ///
    /// # Errors
    /// Opening fails with this error; a file that was created stays. [`Layer::release`] is called in any case.
    fn opened(&self, file: &LayerFile<Self>, caller: &Caller) -> Result<()> {
        Ok(())
    }

    /// Handles the release of the open file. Default: does nothing.
    fn release(&self, file: &LayerFile<Self>) {}
}

/// State shared by all vnodes of one layer on one file system.
pub(crate) struct Mount<L: Layer> {
    pub(crate) layer: L,
    pub(crate) lower: FileSystemRef,
    /// Live vnodes, so that all references to one see the same state. Unused for layers without state.
    pub(crate) vnodes: LiveTable<Handle, LayerVnode<L>>,
    /// Locks on the blocks of each encoded file, since a write is a read-modify-write.
    pub(crate) data_locks: KeyedLocks<Handle>,
    /// Held during the synchronization of a file with a block map, until its result is noted; after a lock of the data.
    pub(crate) sync_locks: KeyedLocks<Handle>,
    /// Files with a block map of which a failed synchronization may have lost data.
    pub(crate) losses: Losses,
    /// Locks on the names of each directory. Unused by layers without own entries.
    pub(crate) name_locks: KeyedLocks<Handle>,
    /// Lower objects of which an error was logged.
    pub(crate) reported: Mutex<HashSet<Handle>>,
    /// Receivers of notifications.
    pub(crate) notifiers: Arc<Notifiers>,
    /// The layer as a receiver of the lower file system's notifications, once there are receivers above.
    pub(crate) translator: OnceLock<Arc<dyn Notifier>>,
}

/// A vnode of the layer `L` over a vnode of the lower file system.
pub struct LayerVnode<L: Layer> {
    pub(crate) mount: Arc<Mount<L>>,
    pub(crate) lower: VnodeRef,
    pub(crate) state: <L::State as LayerState>::Vnode,
    /// Block map of the file, if the layer gives files one and it was read.
    pub(crate) log: Mutex<Option<Box<Log>>>,
    /// This vnode.
    pub(crate) this: Weak<Self>,
}

/// An open file of the layer `L` over one of the lower file system.
pub struct LayerFile<L: Layer> {
    pub(crate) node: Arc<LayerVnode<L>>,
    pub(crate) lower: OpenFileRef,
    pub(crate) flags: OpenFlags,
    pub(crate) state: <L::State as LayerState>::File,
}

/// An open directory of the layer `L` over one of the lower file system.
pub struct LayerDirectory<L: Layer> {
    pub(crate) node: Arc<LayerVnode<L>>,
    pub(crate) lower: OpenDirectoryRef,
}
