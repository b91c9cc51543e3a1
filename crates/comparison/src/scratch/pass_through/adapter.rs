//! Operations as the requests and replies of FUSE.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};

use super::{Listed, Operations, Result, SetAttributes};

/// How long the kernel may keep attributes.
const ATTRIBUTES_KEPT: Duration = Duration::from_secs(1);
/// How long it may keep names: not at all, since a search that it does not ask about is not checked.
const NAMES_KEPT: Duration = Duration::ZERO;
/// Numbers are not used for two objects at a time.
const GENERATION: Generation = Generation(0);

/// A file system that the FUSE crate can mount.
pub struct Adapter<T> {
    operations: T,
    /// What was listed of directories that are being read.
    listings: Mutex<HashMap<u64, Arc<Vec<Listed>>>>,
}

/// An error as the FUSE crate takes it.
fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
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

    fn entry(&self, found: Result<FileAttr>, reply: ReplyEntry) {
        match found {
            Ok(found) => {
                let attributes = self.operations.present(found);
                reply.entry_with_ttls(&ATTRIBUTES_KEPT, &NAMES_KEPT, &attributes, GENERATION);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn attributes(&self, found: Result<FileAttr>, reply: ReplyAttr) {
        match found {
            Ok(found) => reply.attr(&ATTRIBUTES_KEPT, &self.operations.present(found)),
            Err(error) => reply.error(errno(error)),
        }
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

fn empty(done: Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

fn opened(handle: Result<u64>, flags: FopenFlags, reply: ReplyOpen) {
    match handle {
        Ok(handle) => reply.opened(FileHandle(handle), flags),
        Err(error) => reply.error(errno(error)),
    }
}

fn data(found: Result<Vec<u8>>, reply: ReplyData) {
    match found {
        Ok(found) => reply.data(&found),
        Err(error) => reply.error(errno(error)),
    }
}

/// Answers a value, or how long it is if there is no room to write it to.
fn value(found: Result<Vec<u8>>, room: u32, reply: ReplyXattr) {
    match found {
        Ok(found) if room == 0 => reply.size(found.len() as u32),
        Ok(found) if found.len() > room as usize => reply.error(Errno::ERANGE),
        Ok(found) => reply.data(&found),
        Err(error) => reply.error(errno(error)),
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
        self.entry(found, reply);
    }

    fn forget(&self, _request: &Request, number: INodeNo, lookups: u64) {
        self.operations.forget(number.0, lookups);
    }

    fn getattr(&self, _request: &Request, number: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        self.attributes(self.operations.getattr(number.0), reply);
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
        self.attributes(self.operations.setattr(&request.into(), number.0, &changes), reply);
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        data(self.operations.readlink(number.0), reply);
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
        self.entry(made, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let made = self.named(name, |name| self.operations.mkdir(&request.into(), parent.0, name, mode));
        self.entry(made, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let made = self.named(name, |name| self.operations.symlink(&request.into(), parent.0, name, target));
        self.entry(made, reply);
    }

    fn link(&self, request: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let made = self.named(name, |name| self.operations.link(&request.into(), number.0, parent.0, name));
        self.entry(made, reply);
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
        match self.named(name, |name| self.operations.create(&request.into(), parent.0, name, mode, flags)) {
            Ok((made, handle)) => {
                // One time is for both, names and attributes.
                let (attributes, flags) = (self.operations.present(made), self.operations.open_flags());
                reply.created(&NAMES_KEPT, &attributes, GENERATION, FileHandle(handle), flags);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.named(name, |name| self.operations.unlink(&request.into(), parent.0, name)), reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.named(name, |name| self.operations.rmdir(&request.into(), parent.0, name)), reply);
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
        empty(renamed, reply);
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let handle = self.operations.open(&request.into(), number.0, flags.0);
        opened(handle, self.operations.open_flags(), reply);
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
        data(self.operations.read(number.0, handle.0, offset, length as usize), reply);
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
        empty(self.operations.fsync(handle.0, is_data_only), reply);
    }

    fn opendir(&self, request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        opened(self.operations.opendir(&request.into(), number.0), FopenFlags::empty(), reply);
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
        empty(self.operations.fsyncdir(handle.0, is_data_only), reply);
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
        empty(self.operations.setxattr(&request.into(), number.0, name, value, flags), reply);
    }

    fn getxattr(&self, request: &Request, number: INodeNo, name: &OsStr, room: u32, reply: ReplyXattr) {
        value(self.operations.getxattr(&request.into(), number.0, name), room, reply);
    }

    fn listxattr(&self, request: &Request, number: INodeNo, room: u32, reply: ReplyXattr) {
        value(self.operations.listxattr(&request.into(), number.0), room, reply);
    }

    fn removexattr(&self, request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.operations.removexattr(&request.into(), number.0, name), reply);
    }

    fn access(&self, request: &Request, number: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        empty(self.operations.access(&request.into(), number.0, mask.bits()), reply);
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
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        empty(self.operations.fallocate(handle.0, mode, offset, length), reply);
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
