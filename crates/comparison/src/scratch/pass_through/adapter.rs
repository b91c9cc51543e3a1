//! Operations as the requests and replies of FUSE.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, FileAttr, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::replies::{
    errno, reply_attributes, reply_created, reply_data, reply_empty, reply_entry, reply_opened, reply_value,
};
use super::{Listed, Operations, Result, SetAttributes};

/// A file system that the FUSE crate can mount.
pub struct Adapter<T> {
    operations: T,
    /// What was listed of directories that are being read.
    listings: Mutex<HashMap<u64, Arc<Vec<Listed>>>>,
}

impl<T: Operations> Adapter<T> {
    /// Shows those operations.
    pub fn new(operations: T) -> Self {
        Self { operations, listings: Mutex::default() }
    }

    fn listings(&self) -> MutexGuard<'_, HashMap<u64, Arc<Vec<Listed>>>> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the name below of a name.
    fn named<R>(&self, name: &OsStr, work: impl FnOnce(&OsStr) -> Result<R>) -> Result<R> {
        work(&self.operations.encode_name(name)?)
    }

    /// Attributes as users see them.
    fn presented(&self, found: Result<FileAttr>) -> Result<FileAttr> {
        found.map(|found| self.operations.present(found))
    }

    /// The names of an open directory, as they were when its beginning was read.
    fn listing(&self, request: &Request, number: u64, handle: u64, is_start: bool) -> Result<Arc<Vec<Listed>>> {
        let kept = self.listings().get(&handle).cloned();
        if let Some(listed) = kept.filter(|_| !is_start) {
            return Ok(listed);
        }
        let listed = self.operations.list(&request.into(), number, handle)?.into_iter();
        let decoded = listed.filter_map(|Listed { number, kind, name }| {
            let is_encoded = name != "." && name != "..";
            let name = if is_encoded { self.operations.decode_name(name)? } else { name };
            Some(Listed { number, kind, name })
        });
        let listed = Arc::new(decoded.collect::<Vec<_>>());
        self.listings().insert(handle, listed.clone());
        Ok(listed)
    }
}

impl<T: Operations> Filesystem for Adapter<T> {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Writing as the caller takes set-user-id bits away below; what the kernel lacks it does itself.
        let _ = config.add_capabilities(InitFlags::FUSE_HANDLE_KILLPRIV);
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.named(name, |name| self.operations.lookup(&request.into(), parent.0, name));
        reply_entry(self.presented(found), reply);
    }

    fn forget(&self, _request: &Request, number: INodeNo, lookups: u64) {
        self.operations.forget(number.0, lookups);
    }

    fn getattr(&self, _request: &Request, number: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        reply_attributes(self.presented(self.operations.getattr(number.0)), reply);
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _all_changed: Option<SystemTime>,
        _saved: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let handle = handle.map(|handle| handle.0);
        let changes = SetAttributes { mode, user, group, size, accessed, modified, handle };
        reply_attributes(self.presented(self.operations.setattr(&request.into(), number.0, &changes)), reply);
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        reply_data(self.operations.readlink(number.0), reply);
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let made = self.named(name, |name| self.operations.mknod(&request.into(), parent.0, name, mode, device));
        reply_entry(self.presented(made), reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let made = self.named(name, |name| self.operations.mkdir(&request.into(), parent.0, name, mode));
        reply_entry(self.presented(made), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let made = self.named(name, |name| self.operations.symlink(&request.into(), parent.0, name, target));
        reply_entry(self.presented(made), reply);
    }

    fn link(&self, request: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let made = self.named(name, |name| self.operations.link(&request.into(), number.0, parent.0, name));
        reply_entry(self.presented(made), reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.named(name, |name| self.operations.create(&request.into(), parent.0, name, mode, flags));
        let made = made.map(|(made, handle)| (self.operations.present(made), handle));
        reply_created(made, self.operations.open_flags(), reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.named(name, |name| self.operations.unlink(&request.into(), parent.0, name)), reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.named(name, |name| self.operations.rmdir(&request.into(), parent.0, name)), reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        to_parent: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let renamed = self.named(name, |name| {
            self.named(to_name, |to_name| {
                self.operations.rename(&request.into(), (parent.0, name), (to_parent.0, to_name), flags)
            })
        });
        reply_empty(renamed, reply);
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let handle = self.operations.open(&request.into(), number.0, flags.0);
        reply_opened(handle, self.operations.open_flags(), reply);
    }

    fn read(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        reply_data(self.operations.read(number.0, handle.0, offset, length as usize), reply);
    }

    fn write(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.operations.write(&request.into(), number.0, handle.0, offset, data) {
            Ok(written) => reply.written(written as u32),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn flush(&self, _request: &Request, _number: INodeNo, _handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        // Nothing is kept back: each write was answered when it was done below.
        reply.ok();
    }

    fn release(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.operations.release(handle.0);
        reply.ok();
    }

    fn fsync(&self, _request: &Request, _number: INodeNo, handle: FileHandle, is_data_only: bool, reply: ReplyEmpty) {
        reply_empty(self.operations.fsync(handle.0, is_data_only), reply);
    }

    fn opendir(&self, request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply_opened(self.operations.opendir(&request.into(), number.0), FopenFlags::empty(), reply);
    }

    fn readdir(&self, request: &Request, number: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listed = match self.listing(request, number.0, handle.0, offset == 0) {
            Ok(listed) => listed,
            Err(error) => return reply.error(errno(error)),
        };
        for (index, entry) in listed.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(entry.number), index as u64 + 1, entry.kind, &entry.name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.listings().remove(&handle.0);
        self.operations.releasedir(handle.0);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        is_data_only: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty(self.operations.fsyncdir(handle.0, is_data_only), reply);
    }

    fn statfs(&self, _request: &Request, number: INodeNo, reply: ReplyStatfs) {
        match self.operations.statfs(number.0) {
            Ok(of) => reply.statfs(
                of.f_blocks,
                of.f_bfree,
                of.f_bavail,
                of.f_files,
                of.f_ffree,
                of.f_bsize as u32,
                of.f_namemax as u32,
                of.f_frsize as u32,
            ),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        reply_empty(self.operations.setxattr(&request.into(), number.0, name, value, flags), reply);
    }

    fn getxattr(&self, request: &Request, number: INodeNo, name: &OsStr, room: u32, reply: ReplyXattr) {
        reply_value(self.operations.getxattr(&request.into(), number.0, name), room, reply);
    }

    fn listxattr(&self, request: &Request, number: INodeNo, room: u32, reply: ReplyXattr) {
        reply_value(self.operations.listxattr(&request.into(), number.0), room, reply);
    }

    fn removexattr(&self, request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.operations.removexattr(&request.into(), number.0, name), reply);
    }

    fn access(&self, request: &Request, number: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        reply_empty(self.operations.access(&request.into(), number.0, mask.bits()), reply);
    }

    fn ioctl(
        &self,
        request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        command: u32,
        data: &[u8],
        _room: u32,
        reply: ReplyIoctl,
    ) {
        match self.operations.ioctl(&request.into(), number.0, command, data) {
            Ok(answer) => reply.ioctl(0, &answer),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn fallocate(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        reply_empty(self.operations.fallocate(number.0, handle.0, mode, offset, length), reply);
    }

    fn lseek(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.operations.lseek(number.0, handle.0, offset as u64, whence) {
            Ok(found) => reply.offset(found as i64),
            Err(error) => reply.error(errno(error)),
        }
    }
}
