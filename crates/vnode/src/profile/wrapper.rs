//! Time accounting around the objects of a part: every operation on them is charged to it.

use std::any::Any;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bytemuck::{TransparentWrapper, TransparentWrapperAlloc};

use super::accounting::enter;
use crate::{
    AccessMode, AllocateMode, Attributes, Caller, Cookie, Created, Creation, Device, DirectoryEntry, Entry, FileKind,
    Handle, InodeNumber, Lock, LockOwner, Name, OpenDirectory, OpenDirectoryRef, OpenFile, OpenFileRef, OpenFlags,
    RenameMode, Result, SeekTarget, SetAttributes, StatFs, Vnode, VnodeRef, XattrMode,
};

/// An object that belongs to a part of the stack.
pub trait Part {
    /// Kind of the part, as in a stack expression: `dir`, `union`.
    const PART: &'static str;
}

/// An object whose operations are charged to its part. In memory it is the object itself: wrapping a reference allocates
/// nothing, and both are references to one object.
#[derive(TransparentWrapper)]
#[repr(transparent)]
struct Accounted<T>(T);

/// Returns a vnode as others see it, with its operations accounted.
pub fn vnode<T: Vnode + Part>(vnode: Arc<T>) -> VnodeRef {
    Accounted::wrap_arc(vnode)
}

/// Returns an open file as others see it, with its operations accounted.
pub fn open_file<T: OpenFile + Part>(file: Arc<T>) -> OpenFileRef {
    Accounted::wrap_arc(file)
}

/// Returns an open directory as others see it, with its operations accounted.
pub fn open_directory<T: OpenDirectory + Part>(directory: Arc<T>) -> OpenDirectoryRef {
    Accounted::wrap_arc(directory)
}

impl<T: Vnode + Part> Vnode for Accounted<T> {
    fn handle(&self) -> Handle {
        self.0.handle()
    }

    fn kind(&self) -> FileKind {
        self.0.kind()
    }

    fn path(&self) -> Result<Vec<u8>> {
        let _working = enter(T::PART);
        self.0.path()
    }

    fn storage(&self) -> Option<u64> {
        self.0.storage()
    }

    fn as_any(&self) -> &dyn Any {
        self.0.as_any()
    }

    fn getattr(&self, caller: &Caller) -> Result<Attributes> {
        let _working = enter(T::PART);
        self.0.getattr(caller)
    }

    fn setattr(&self, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        let _working = enter(T::PART);
        self.0.setattr(caller, changes)
    }

    fn access(&self, caller: &Caller, mode: AccessMode) -> Result<()> {
        let _working = enter(T::PART);
        self.0.access(caller, mode)
    }

    fn lookup(&self, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        let _working = enter(T::PART);
        self.0.lookup(caller, name)
    }

    fn parent(&self, caller: &Caller) -> Result<VnodeRef> {
        let _working = enter(T::PART);
        self.0.parent(caller)
    }

    fn create(&self, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        let _working = enter(T::PART);
        self.0.create(caller, name, how)
    }

    fn mkdir(&self, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        let _working = enter(T::PART);
        self.0.mkdir(caller, name, mode)
    }

    fn mknod(&self, caller: &Caller, name: Name<'_>, kind: FileKind, mode: u32, device: Device) -> Result<Entry> {
        let _working = enter(T::PART);
        self.0.mknod(caller, name, kind, mode, device)
    }

    fn symlink(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        let _working = enter(T::PART);
        self.0.symlink(caller, name, target)
    }

    fn link(&self, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        let _working = enter(T::PART);
        self.0.link(caller, target, name)
    }

    fn unlink(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        let _working = enter(T::PART);
        self.0.unlink(caller, name)
    }

    fn rmdir(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        let _working = enter(T::PART);
        self.0.rmdir(caller, name)
    }

    fn rename(
        &self,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        let _working = enter(T::PART);
        self.0.rename(caller, name, to, to_name, mode)
    }

    fn readlink(&self, caller: &Caller) -> Result<Vec<u8>> {
        let _working = enter(T::PART);
        self.0.readlink(caller)
    }

    fn open(&self, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        let _working = enter(T::PART);
        self.0.open(caller, flags)
    }

    fn open_directory(&self, caller: &Caller) -> Result<OpenDirectoryRef> {
        let _working = enter(T::PART);
        self.0.open_directory(caller)
    }

    fn statfs(&self, caller: &Caller) -> Result<StatFs> {
        let _working = enter(T::PART);
        self.0.statfs(caller)
    }

    fn getxattr(&self, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        let _working = enter(T::PART);
        self.0.getxattr(caller, name)
    }

    fn setxattr(&self, caller: &Caller, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let _working = enter(T::PART);
        self.0.setxattr(caller, name, value, mode)
    }

    fn listxattr(&self, caller: &Caller) -> Result<Vec<u8>> {
        let _working = enter(T::PART);
        self.0.listxattr(caller)
    }

    fn removexattr(&self, caller: &Caller, name: &[u8]) -> Result<()> {
        let _working = enter(T::PART);
        self.0.removexattr(caller, name)
    }

    fn tmpfile(&self, caller: &Caller, how: &Creation) -> Result<Created> {
        let _working = enter(T::PART);
        self.0.tmpfile(caller, how)
    }

    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        let _working = enter(T::PART);
        self.0.ioctl(caller, command, input, output)
    }
}

impl<T: OpenFile + Part> OpenFile for Accounted<T> {
    fn read_at(&self, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let _working = enter(T::PART);
        self.0.read_at(caller, offset, buffer)
    }

    fn write_at(&self, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        let _working = enter(T::PART);
        self.0.write_at(caller, offset, data)
    }

    fn getattr(&self, caller: &Caller) -> Result<Attributes> {
        let _working = enter(T::PART);
        self.0.getattr(caller)
    }

    fn truncate(&self, caller: &Caller, size: u64) -> Result<()> {
        let _working = enter(T::PART);
        self.0.truncate(caller, size)
    }

    fn flush(&self, caller: &Caller, owner: &LockOwner) -> Result<()> {
        let _working = enter(T::PART);
        self.0.flush(caller, owner)
    }

    fn closing_tells(&self) -> bool {
        self.0.closing_tells()
    }

    fn times_tell_changes(&self) -> bool {
        self.0.times_tell_changes()
    }

    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        let _working = enter(T::PART);
        self.0.fsync(caller, data_only)
    }

    fn allocate(&self, caller: &Caller, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        let _working = enter(T::PART);
        self.0.allocate(caller, mode, offset, length)
    }

    fn seek(&self, caller: &Caller, offset: u64, target: SeekTarget) -> Result<u64> {
        let _working = enter(T::PART);
        self.0.seek(caller, offset, target)
    }

    fn copy_range(&self, caller: &Caller, offset: u64, to: &OpenFileRef, to_offset: u64, length: u64) -> Result<u64> {
        let _working = enter(T::PART);
        self.0.copy_range(caller, offset, to, to_offset, length)
    }

    fn lock(&self, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<()> {
        let _working = enter(T::PART);
        self.0.lock(caller, owner, lock)
    }

    fn test_lock(&self, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        let _working = enter(T::PART);
        self.0.test_lock(caller, owner, lock)
    }

    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        let _working = enter(T::PART);
        self.0.ioctl(caller, command, input, output)
    }

    fn poll(&self, caller: &Caller, events: u32) -> Result<u32> {
        let _working = enter(T::PART);
        self.0.poll(caller, events)
    }

    fn backing(&self) -> Option<BorrowedFd<'_>> {
        self.0.backing()
    }

    fn is_open_elsewhere(&self) -> bool {
        self.0.is_open_elsewhere()
    }

    fn as_any(&self) -> &dyn Any {
        self.0.as_any()
    }
}

impl<T: OpenDirectory + Part> OpenDirectory for Accounted<T> {
    fn read(
        &self,
        caller: &Caller,
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let _working = enter(T::PART);
        self.0.read(caller, cookie, sink)
    }

    fn dots(&self) -> Option<[InodeNumber; 2]> {
        self.0.dots()
    }

    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        let _working = enter(T::PART);
        self.0.fsync(caller, data_only)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// Returns the names of the methods in the block of a source that begins with this line.
    fn methods<'a>(source: &'a str, head: &str) -> BTreeSet<&'a str> {
        let block = source.split_once(head).expect(head).1;
        let lines = block.lines().take_while(|line| *line != "}");
        lines.filter_map(|line| line.strip_prefix("    fn ")?.split(['(', '<']).next()).collect()
    }

    #[test]
    fn wrapper_has_every_operation() {
        let wrapper = include_str!("wrapper.rs");
        for (source, name) in [
            (include_str!("../vnode.rs"), "Vnode"),
            (include_str!("../open_file.rs"), "OpenFile"),
            (include_str!("../open_directory.rs"), "OpenDirectory"),
        ] {
            let declared = methods(source, &format!("\npub trait {name}: "));
            assert!(declared.len() >= 3, "{name}: {declared:?}");
            assert_eq!(methods(wrapper, &format!("\nimpl<T: {name} + Part> {name} for ")), declared);
        }
    }
}
