//! Open files and directories of a fan-out.

use std::any::Any;
use std::cell::Cell;
use std::ops::{ControlFlow, Range};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use super::handle::inode_number;
use super::object::{FanOutVnode, ReadOrder};
use crate::{
    AllocateMode, Attributes, Caller, Cookie, DirectoryEntry, Errno, Handle, KeyedGuard, Lock, LockOwner,
    OpenDirectory, OpenDirectoryRef, OpenFile, OpenFileRef, OpenFlags, Result, SeekTarget, Vnode, VnodeRef,
};

/// Number of bytes copied at a time in a branch that does not copy by itself.
const COPY_BUFFER_BYTES: usize = 128 << 10;

/// An open file of a fan-out: the files of its branch objects.
pub struct FanOutFile {
    node: Arc<FanOutVnode>,
    /// By branch; only that of the primary branch if changes are made there alone.
    files: Vec<Option<OpenFileRef>>,
    flags: OpenFlags,
}

impl FanOutFile {
    /// Returns the open file of an object of a fan-out over these files of its branch objects. If there is only one, and its
    /// inode number is as shown, that is returned itself.
    pub(crate) fn of_vnode(vnode: &VnodeRef, files: Vec<Option<OpenFileRef>>, flags: OpenFlags) -> Result<OpenFileRef> {
        let node = FanOutVnode::of(vnode).ok_or(Errno::EIO)?;
        if !node.fan_out.changes_all()
            && node.primary() == 0
            && let Some(Some(file)) = files.first()
        {
            return Ok(Arc::clone(file));
        }
        Ok(Arc::new(Self { node: node.shared()?, files, flags }))
    }

    /// Returns this file as one of a fan-out; `None` if it is none.
    pub fn of(file: &OpenFileRef) -> Option<&Self> {
        file.as_any().downcast_ref()
    }

    /// Returns the open files of the branch objects by branch, `None` where the object is not open.
    pub fn branch_files(&self) -> &[Option<OpenFileRef>] {
        &self.files
    }

    fn read<T>(&self, order: ReadOrder, read: impl FnMut(usize, &OpenFileRef) -> Result<T>) -> Result<T> {
        self.node.fan_out.read(self.node.primary(), self.node.order(order), &self.files, read)
    }

    fn change<T>(
        &self,
        caller: &Caller,
        change: impl Fn(&Caller, usize, &OpenFileRef) -> Result<T>,
    ) -> Result<Vec<Option<T>>> {
        let _change = self.node.begin_change();
        self.node.fan_out.change(caller, self.node.primary(), &self.files, change)
    }

    /// Returns the file that has locks and answers commands: that of the primary branch, as long as it is healthy.
    fn main(&self) -> Result<&OpenFileRef> {
        let is_usable = |branch: &usize| self.files[*branch].is_some();
        let mut healthy = self.node.health().healthy().filter(is_usable);
        let primary = Some(self.node.primary()).filter(|branch| !self.node.health().has_failed(*branch));
        let branch = primary.filter(is_usable).or_else(|| healthy.next());
        branch.and_then(|branch| self.files[branch].as_ref()).ok_or(Errno::EIO)
    }

    /// Moves up to `length` bytes in each branch, as many in each as in the first that moves any.
    fn transfer(
        &self,
        caller: &Caller,
        length: usize,
        part: impl Fn(&Caller, usize, &OpenFileRef, Range<usize>) -> Result<usize>,
    ) -> Result<usize> {
        let moved = Cell::new(None);
        // By branch, since what is attempted again in one goes on: an append would be there twice.
        let done: Vec<Cell<usize>> = self.files.iter().map(|_| Cell::new(0)).collect();
        self.change(caller, |caller, branch, file| {
            let Some(count) = moved.get() else {
                return part(caller, branch, file, 0..length).inspect(|count| moved.set(Some(*count)));
            };
            let done = &done[branch];
            while done.get() < count {
                match part(caller, branch, file, done.get()..count)? {
                    0 => return Err(Errno::ENOSPC),
                    more => done.set(done.get() + more),
                }
            }
            Ok(count)
        })?;
        Ok(moved.get().unwrap_or(0))
    }

    /// Makes the file longer where it ends before `end`. The caller holds the lock.
    fn grow(&self, caller: &Caller, end: u64) -> Result<()> {
        let grow = |caller: &Caller, _, file: &OpenFileRef| match file.getattr(caller)?.size >= end {
            true => Ok(()),
            false => file.truncate(caller, end),
        };
        self.change(caller, grow).map(drop)
    }

    /// Excludes other changes of these bytes, if changes are made in several branches.
    fn lock(&self, caller: &Caller, offset: u64, length: u64) -> Result<Option<KeyedGuard<'_, Handle>>> {
        if self.flags.appends() {
            return self.node.lock(caller);
        }
        self.node.lock_range(caller, offset..offset.saturating_add(length))
    }
}

impl OpenFile for FanOutFile {
    fn read_at(&self, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read(self.node.order_of_data(), |_, file| file.read_at(caller, offset, buffer))
    }

    fn write_at(&self, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        let _guard = self.lock(caller, offset, data.len() as u64)?;
        self.transfer(caller, data.len(), |caller, _, file, part| {
            file.write_at(caller, offset + part.start as u64, &data[part])
        })
    }

    fn getattr(&self, caller: &Caller) -> Result<Attributes> {
        self.read(ReadOrder::PrimaryFirst, |branch, file| Ok(self.node.attributes(branch, file.getattr(caller)?)))
    }

    fn truncate(&self, caller: &Caller, size: u64) -> Result<()> {
        let _guard = self.node.lock(caller)?;
        self.change(caller, |caller, _, file| file.truncate(caller, size)).map(drop)
    }

    fn flush(&self, caller: &Caller, owner: &LockOwner) -> Result<()> {
        self.node.fan_out.store(caller, &self.files, |caller, file| file.flush(caller, owner))
    }

    fn closing_tells(&self) -> bool {
        self.files.iter().flatten().any(|file| file.closing_tells())
    }

    fn times_tell_changes(&self) -> bool {
        self.files.iter().flatten().all(|file| file.times_tell_changes())
    }

    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        let fan_out = &self.node.fan_out;
        if !fan_out.changes_all() {
            return fan_out.store(caller, &self.files, |caller, file| file.fsync(caller, data_only));
        }
        // What others have written is stored where this file could not be opened, too.
        let objects = self.node.branch_objects();
        let subjects: Vec<_> = self.files.iter().zip(&objects).map(Some).collect();
        fan_out.store(caller, &subjects, |caller, (file, object)| match (file, object) {
            (Some(file), _) => file.fsync(caller, data_only),
            (None, Some(object)) => object.open(&Caller::server(), OpenFlags::READ)?.fsync(caller, data_only),
            (None, None) => Err(Errno::ESTALE),
        })
    }

    fn allocate(&self, caller: &Caller, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        let _guard = self.node.lock(caller)?;
        let allocate =
            |mode| self.change(caller, |caller, _, file| file.allocate(caller, mode, offset, length)).map(drop);
        if !self.node.fan_out.changes_all() || ![AllocateMode::ALLOCATE, AllocateMode::ZERO_RANGE].contains(&mode) {
            return allocate(mode);
        }
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        // If it fails in the first branch, and has allocated a part, the size there stays what it is in the others.
        let kept = AllocateMode::from_bits(mode.bits() | AllocateMode::KEEP_SIZE.bits());
        let allocate_kept = |caller: &Caller, _, file: &OpenFileRef| match file.allocate(caller, kept, offset, length) {
            // NFS has only the mode that changes the size.
            Err(Errno::EOPNOTSUPP) => file.allocate(caller, mode, offset, length),
            allocated => allocated,
        };
        self.change(caller, allocate_kept)?;
        self.grow(caller, end)
    }

    fn seek(&self, caller: &Caller, offset: u64, target: SeekTarget) -> Result<u64> {
        self.read(ReadOrder::Routed, |_, file| file.seek(caller, offset, target))
    }

    fn copy_range(&self, caller: &Caller, offset: u64, to: &OpenFileRef, to_offset: u64, length: u64) -> Result<u64> {
        let to = Self::of(to).filter(|to| Arc::ptr_eq(&self.node.fan_out, &to.node.fan_out)).ok_or(Errno::EXDEV)?;
        let is_source_in = |branch: usize| self.files.get(branch).is_some_and(Option::is_some);
        if to.files.iter().enumerate().any(|(branch, target)| target.is_some() && !is_source_in(branch)) {
            return Err(Errno::EXDEV);
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        // The source must not change between two branches.
        let target: VnodeRef = to.node.shared()?;
        let _guards = self.node.lock_both(&target);
        let copied = to.transfer(caller, length, |caller, branch, target, part| {
            let source = self.files[branch].as_ref().ok_or(Errno::EXDEV)?;
            let (done, length) = (part.start as u64, part.len() as u64);
            match source.copy_range(caller, offset + done, target, to_offset + done, length) {
                // Of two branches, one may copy by itself and the other not.
                Err(Errno::EXDEV | Errno::EOPNOTSUPP) => {
                    let mut data = vec![0; part.len().min(COPY_BUFFER_BYTES)];
                    let count = source.read_at(caller, offset + done, &mut data)?;
                    target.write_at(caller, to_offset + done, &data[..count])
                }
                copied => Ok(copied? as usize),
            }
        })?;
        Ok(copied as u64)
    }

    fn lock(&self, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<()> {
        self.main()?.lock(caller, owner, lock)
    }

    fn test_lock(&self, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        self.main()?.test_lock(caller, owner, lock)
    }

    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        self.node.ioctl(caller, command, input, output)
    }

    fn poll(&self, caller: &Caller, events: u32) -> Result<u32> {
        self.read(ReadOrder::Routed, |_, file| file.poll(caller, events))
    }

    fn backing(&self) -> Option<BorrowedFd<'_>> {
        if self.node.fan_out.changes_all() { None } else { self.main().ok()?.backing() }
    }

    fn is_open_elsewhere(&self) -> bool {
        self.main().is_ok_and(|file| file.is_open_elsewhere())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// An open directory of a fan-out.
pub(crate) struct FanOutDirectory {
    node: Arc<FanOutVnode>,
    /// The branch that is listed, and the open directory there.
    listed: Mutex<(usize, OpenDirectoryRef)>,
}

impl FanOutDirectory {
    /// Wraps an open directory of a branch; one of the first branch is returned as it is, unless there may be changes in others.
    pub(crate) fn over(node: Arc<FanOutVnode>, branch: usize, directory: OpenDirectoryRef) -> OpenDirectoryRef {
        let is_as_shown = branch == 0 && !node.fan_out.changes_all();
        if is_as_shown { directory } else { Arc::new(Self { node, listed: Mutex::new((branch, directory)) }) }
    }

    /// Returns what to list from a position on. If that branch has failed, another is listed, from the start.
    ///
    /// # Errors
    /// `ESTALE` at any other position of a branch that has failed: it means nothing in another.
    fn listed_from(&self, cookie: Cookie) -> Result<(usize, OpenDirectoryRef)> {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if self.node.health().has_failed(listed.0) {
            if cookie != Cookie::START {
                return Err(Errno::ESTALE);
            }
            let open = |branch, object: &VnodeRef| Ok((branch, object.open_directory(&Caller::server())?));
            *listed = self.node.read(ReadOrder::PrimaryFirst, open)?;
        }
        Ok(listed.clone())
    }
}

impl OpenDirectory for FanOutDirectory {
    fn read(
        &self,
        caller: &Caller,
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let (branch, directory) = self.listed_from(cookie)?;
        directory
            .read(caller, cookie, &mut |entry| sink(DirectoryEntry { ino: inode_number(branch, entry.ino), ..entry }))
    }

    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        if !self.node.fan_out.changes_all() {
            return self.listed_from(Cookie::START)?.1.fsync(caller, data_only);
        }
        let fsync =
            |caller: &Caller, object: &VnodeRef| object.open_directory(&Caller::server())?.fsync(caller, data_only);
        self.node.fan_out.store(caller, &self.node.branch_objects(), fsync)
    }
}
