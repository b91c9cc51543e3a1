//! An open file of a layer: access control, the layer's operation, observation; and the operations that forward.

use std::any::Any;
use std::borrow::Cow;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::block_map::file::MappedFile;
use super::blocks::Blocks;
use super::operation::Operation;
use super::state::LayerState;
use super::template::{Layer, LayerFile, LayerVnode, declared, encodes};
use crate::{
    AllocateMode, Attributes, Caller, Errno, Lock, LockOwner, OpenFile, OpenFileRef, OpenFlags, Result, SeekTarget,
};

impl<L: Layer> LayerFile<L> {
    /// Creates the open file of `node`, opened from above with `flags`, over an open lower file. If data is encoded and
    /// this file is open for writing, the lower file must be open for reading and writing, and not for appending.
    pub fn new(node: Arc<LayerVnode<L>>, lower: OpenFileRef, flags: OpenFlags) -> Self {
        Self { node, lower, flags, state: Default::default() }
    }

    /// Returns the vnode that is open.
    pub fn node(&self) -> &Arc<LayerVnode<L>> {
        &self.node
    }

    /// Returns the open lower file.
    pub fn lower(&self) -> &OpenFileRef {
        &self.lower
    }

    /// Returns the state that the layer keeps for this open file.
    pub fn state(&self) -> &<L::State as LayerState>::File {
        &self.state
    }

    /// Returns the flags with which it was opened from above.
    pub fn flags(&self) -> OpenFlags {
        self.flags
    }

    /// Returns the data of the file, as the layer stores them.
    fn data<'a>(&'a self, caller: &'a Caller) -> Data<'a, L> {
        let (node, lower, lower_caller) = (&*self.node, &*self.lower, self.caller(caller));
        if let Some(shape) = node.layer().data_shape() {
            return Data::Blocks(Blocks { node, lower, caller, lower_caller, shape });
        }
        match node.layer().block_map() {
            Some(block_size) => Data::Mapped(MappedFile { node, lower, caller, lower_caller, block_size }),
            None => Data::Untouched(lower_caller),
        }
    }

    fn caller<'a>(&'a self, caller: &'a Caller) -> Cow<'a, Caller> {
        self.node.layer().map_caller(caller)
    }
}

/// How the data of a file are stored below.
enum Data<'a, L: Layer> {
    /// As they are.
    Untouched(Cow<'a, Caller>),
    /// In blocks of one size.
    Blocks(Blocks<'a, L>),
    /// In blocks of any size, with a map.
    Mapped(MappedFile<'a, L>),
}

/// The template's operations: they encode and decode data if the layer requests it, and forward all else.
#[allow(missing_docs)]
impl<L: Layer> LayerFile<L> {
    pub fn forward_read_at(&self, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        match self.data(caller) {
            Data::Untouched(lower_caller) => self.lower.read_at(&lower_caller, offset, buffer),
            _ if !self.flags.reads() => Err(Errno::EBADF),
            Data::Blocks(blocks) => blocks.read(offset, buffer),
            Data::Mapped(file) => file.read(offset, buffer),
        }
    }

    pub fn forward_write_at(&self, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        let at = (!self.flags.appends()).then_some(offset);
        match self.data(caller) {
            Data::Untouched(lower_caller) => self.lower.write_at(&lower_caller, offset, data),
            _ if !self.flags.writes() => Err(Errno::EBADF),
            Data::Blocks(blocks) => blocks.write(at, data),
            Data::Mapped(file) => file.write(at, data),
        }
    }

    pub fn forward_truncate(&self, caller: &Caller, size: u64) -> Result<()> {
        match self.data(caller) {
            Data::Untouched(lower_caller) => self.lower.truncate(&lower_caller, size),
            _ if !self.flags.writes() => Err(Errno::EINVAL),
            Data::Blocks(blocks) => blocks.truncate(size),
            Data::Mapped(file) => file.truncate(size),
        }
    }

    pub fn forward_flush(&self, caller: &Caller, owner: &LockOwner) -> Result<()> {
        self.lower.flush(&self.caller(caller), owner)
    }

    pub fn forward_fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        match self.data(caller) {
            Data::Mapped(file) => file.fsync(data_only),
            Data::Untouched(lower_caller) => self.lower.fsync(&lower_caller, data_only),
            Data::Blocks(blocks) => self.lower.fsync(&blocks.lower_caller, data_only),
        }
    }

    pub fn forward_allocate(&self, caller: &Caller, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        match self.data(caller) {
            Data::Untouched(lower_caller) => self.lower.allocate(&lower_caller, mode, offset, length),
            _ if !self.flags.writes() => Err(Errno::EBADF),
            Data::Blocks(blocks) => blocks.allocate(mode, offset, length),
            Data::Mapped(file) => file.allocate(mode, offset, length),
        }
    }

    pub fn forward_seek(&self, caller: &Caller, offset: u64, target: SeekTarget) -> Result<u64> {
        match self.data(caller) {
            Data::Untouched(lower_caller) => self.lower.seek(&lower_caller, offset, target),
            Data::Blocks(blocks) => blocks.seek(offset, target),
            Data::Mapped(file) => file.seek(offset, target),
        }
    }

    pub fn forward_copy_range(
        &self,
        caller: &Caller,
        offset: u64,
        to: &OpenFileRef,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        let Some(to) = to.as_any().downcast_ref::<Self>() else { return Err(Errno::EXDEV) };
        if encodes(self.node.layer()) || !Arc::ptr_eq(&self.node.mount, &to.node.mount) {
            return Err(Errno::EXDEV);
        }
        self.lower.copy_range(&self.caller(caller), offset, &to.lower, to_offset, length)
    }

    pub fn forward_lock(&self, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<()> {
        self.lower.lock(&self.caller(caller), owner, lock)
    }

    pub fn forward_getattr(&self, caller: &Caller) -> Result<Attributes> {
        self.node.attributes(caller, self.lower.getattr(&self.caller(caller))?)
    }

    pub fn forward_test_lock(&self, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        self.lower.test_lock(&self.caller(caller), owner, lock)
    }

    pub fn forward_poll(&self, caller: &Caller, events: u32) -> Result<u32> {
        self.lower.poll(&self.caller(caller), events)
    }

    pub fn forward_ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        self.lower.ioctl(&self.caller(caller), command, input, output)
    }
}

impl<L: Layer> OpenFile for LayerFile<L> {
    fn read_at(&self, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.node.run(caller, Operation::Read { offset, length: buffer.len() }, |layer| {
            layer.read_at(self, caller, offset, buffer)
        })
    }

    fn write_at(&self, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        self.node.run(caller, Operation::Write { offset, length: data.len() }, |layer| {
            layer.write_at(self, caller, offset, data)
        })
    }

    fn getattr(&self, caller: &Caller) -> Result<Attributes> {
        self.node.run(caller, Operation::GetAttributes, |layer| layer.getattr_open(self, caller))
    }

    fn truncate(&self, caller: &Caller, size: u64) -> Result<()> {
        self.node.run(caller, Operation::Truncate { size }, |layer| layer.truncate(self, caller, size))
    }

    fn flush(&self, caller: &Caller, owner: &LockOwner) -> Result<()> {
        self.node.run(caller, Operation::Flush, |layer| layer.flush(self, caller, owner))
    }

    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        self.node.run(caller, Operation::Fsync { data_only }, |layer| layer.fsync(self, caller, data_only))
    }

    fn allocate(&self, caller: &Caller, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        self.node.run(caller, Operation::Allocate { mode, offset, length }, |layer| {
            layer.allocate(self, caller, mode, offset, length)
        })
    }

    fn seek(&self, caller: &Caller, offset: u64, target: SeekTarget) -> Result<u64> {
        self.node.run(caller, Operation::Seek { offset, target }, |layer| layer.seek(self, caller, offset, target))
    }

    fn copy_range(&self, caller: &Caller, offset: u64, to: &OpenFileRef, to_offset: u64, length: u64) -> Result<u64> {
        self.node.run(caller, Operation::CopyRange { offset, to_offset, length }, |layer| {
            layer.copy_range(self, caller, offset, to, to_offset, length)
        })
    }

    fn lock(&self, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<()> {
        self.node.run(caller, Operation::Lock(lock), |layer| layer.lock(self, caller, owner, lock))
    }

    fn test_lock(&self, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        self.node.run(caller, Operation::TestLock(lock), |layer| layer.test_lock(self, caller, owner, lock))
    }

    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        self.node.run(caller, Operation::Ioctl { command }, |layer| {
            layer.ioctl(&self.node, Some(self), caller, command, input, output)
        })
    }

    fn poll(&self, caller: &Caller, events: u32) -> Result<u32> {
        self.node.run(caller, Operation::Poll, |layer| layer.poll(self, caller, events))
    }

    fn closing_tells(&self) -> bool {
        self.node.layer().needs().every_close || self.lower.closing_tells()
    }

    fn times_tell_changes(&self) -> bool {
        self.lower.times_tell_changes()
    }

    fn backing(&self) -> Option<BorrowedFd<'_>> {
        declared(self.node.layer()).allows_bypass().then(|| self.lower.backing()).flatten()
    }

    fn is_open_elsewhere(&self) -> bool {
        self.lower.is_open_elsewhere()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<L: Layer> Drop for LayerFile<L> {
    fn drop(&mut self) {
        let layer = self.node.layer();
        // There is no one to report the result to.
        let _ = layer.around(&self.node, Caller::shared_server(), &Operation::Release, || {
            layer.release(self);
            Ok(())
        });
        if self.flags.writes()
            && let Data::Mapped(file) = self.data(Caller::shared_server())
        {
            file.finish();
        }
    }
}
