//! An open file of a union, which follows its object to another branch.

use std::any::Any;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, Weak};

use vnode::profile::{self, Part};
use vnode::{
    AllocateMode, Attributes, Caller, Errno, Lock, LockKind, LockOwner, OpenFile, OpenFileRef, OpenFlags, Result,
    SeekTarget, VnodeRef,
};

use super::placement::is_full;
use crate::ioctl;
use crate::union::branch::lease::{LEASE_CONFLICT, LeaseRetry, retry_while_leased};
use crate::union::copy_up::TruncatingOpen;
use crate::union::copy_up::extent::DataExtent;
use crate::union::copy_up::metacopy::MetadataOnlyFile;
use crate::union::settings::CopyOwnership;
use crate::union::settings::NAME;
use crate::union::state::Node;
use crate::union::state::direct_files::MappedFile;
use crate::union::state::file_locks::LockFollower;

/// Reported for locks in a view, which concern nobody else: in a branch that the view only reads they would block others, who
/// may not know that the view exists. So the front end keeps them, per file and view.
const LOCKS_UNSUPPORTED_IN_VIEW: Errno = Errno::EOPNOTSUPP;

/// Size from which a file that is opened for writing is synchronized for the sake of direct access, in bytes: reading that much
/// takes longer.
const LONG_FILE_BYTES: u64 = 16 << 20;

/// An open file.
pub(crate) struct UnionFile {
    this: Weak<UnionFile>,
    pub(crate) node: Arc<Node>,
    flags: OpenFlags,
    /// The lower file that was opened first.
    opened: LowerFile,
    /// The lower file opened after a later copy.
    moved: RwLock<Option<LowerFile>>,
    /// Branch-set generation for which the file is known to be writable in place.
    checked: AtomicU64,
    /// Whether the kernel may be reading and writing it directly.
    is_direct: AtomicBool,
}

/// Guard that keeps the branches and the object in place.
struct FileOperationGuard<'a> {
    _branches: RwLockReadGuard<'a, ()>,
    _object: RwLockReadGuard<'a, ()>,
}

/// An open file of an instance of the object.
struct LowerFile {
    /// Number of copies of the object at the time this became the file to use.
    copy_count: u32,
    /// The instance.
    vnode: VnodeRef,
    file: OpenFileRef,
}

impl UnionFile {
    /// Opens an object that has just been created, with its open file.
    pub(crate) fn new(node: Arc<Node>, file: OpenFileRef, flags: OpenFlags) -> Arc<Self> {
        let opened = LowerFile { copy_count: node.copy_count(), vnode: node.leftmost().vnode, file };
        Self::opened(node, opened, flags)
    }

    fn opened(node: Arc<Node>, opened: LowerFile, flags: OpenFlags) -> Arc<Self> {
        let of_open = OpenFlags::NONBLOCK.with(OpenFlags::AT_ONCE).with(OpenFlags::TRUNCATE).with(OpenFlags::EXCLUSIVE);
        let flags = flags.without(of_open);
        let checked = AtomicU64::new(node.union.branches.generation());
        let (moved, is_direct) = (RwLock::default(), AtomicBool::new(false));
        Arc::new_cyclic(|this| {
            let this = Weak::clone(this);
            Self { this, node, flags, opened, moved, checked, is_direct }
        })
    }

    /// Opens a file as the caller; copies it first if it is opened for writing and must not be written in place.
    pub(crate) fn open(node: &Arc<Node>, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        // A copy of that length already shows the pending truncation.
        let truncating = flags.truncates().then(|| caller.uncancelled());
        let mut opener = truncating.as_ref().unwrap_or(caller);
        let server;
        if (flags.writes() || flags.truncates()) && (!node.is_writable() || node.is_metadata_only()?) {
            if !node.is_writable() && node.union.settings.copy_up != CopyOwnership::Original {
                // The caller may open the original, and need not own the copy.
                server = Caller::server_changing_for(caller);
                opener = &server;
            }
            let wanted = if flags.reads() { 6 } else { 2 };
            node.check_access(caller, vnode::AccessMode::from_bits(wanted))?;
        }
        let opening = TruncatingOpen::new(opener, flags);
        match (flags.truncates(), flags.writes()) {
            (true, _) => drop(node.writable_to_truncate(caller, 0, &|copy| opening.open(copy))?),
            (false, true) => drop(node.writable(caller, DataExtent::All)?),
            (false, false) => {}
        }
        let copy_count = node.copy_count();
        let (vnode, file) = match opening.take(&node.leftmost()) {
            Some(opened) => opened,
            None => node.open_leftmost(opener, flags)?,
        };
        let opened = Self::opened(Arc::clone(node), LowerFile { copy_count, vnode, file }, flags);
        if flags.writes() && node.needs_arrival_sync() && (flags.synchronizes() || opened.is_long_and_old()) {
            // The kernel may write and synchronize the data directly.
            opened.sync_with_arrival(&Caller::server())?;
        }
        Ok(profile::open_file(opened))
    }

    /// The open file of the present object. No operation guard and no lock may be held.
    fn current(&self) -> Result<OpenFileRef> {
        retry_while_leased(|| self.current_without_wait())
    }

    /// Passes a query to the open file of the present object.
    fn run_query<T>(&self, ask: impl FnOnce(OpenFileRef) -> Result<T>) -> Result<T> {
        self.current().and_then(ask).map_err(|error| self.node.reported_error(error))
    }

    /// Like [`Self::current`], without waiting for a lease: [`LEASE_CONFLICT`].
    fn current_without_wait(&self) -> Result<OpenFileRef> {
        let union = &self.node.union;
        if self.node.generation.load(Ordering::Acquire) != union.branches.generation() {
            // Others may have copied it, or a snapshot may have been restored.
            let _guard = union.operation_guard();
            // A file whose branch is gone stays in use where it is.
            let _ = self.node.revalidate();
        }
        self.lower()
    }

    /// Synchronizes everything, including the file's arrival in its branch: that is not part of its data, but without it there
    /// are none.
    fn sync_with_arrival(&self, caller: &Caller) -> Result<()> {
        // No copy can arrive meanwhile.
        let _object = self.node.read_guard_unless_cancelled(caller)?;
        self.current_without_wait()?.fsync(caller, false)?;
        self.node.sync_arrival(&self.node.leftmost().member)
    }

    /// The open file of the object at its last known instance.
    fn lower(&self) -> Result<OpenFileRef> {
        if self.node.union.is_removed() {
            return Err(Errno::ESTALE);
        }
        let copy_count = self.node.copy_count();
        if copy_count == self.opened.copy_count {
            return Ok(Arc::clone(&self.opened.file));
        }
        {
            let moved = self.moved.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(moved) = moved.as_ref().filter(|moved| moved.copy_count == copy_count) {
                return Ok(Arc::clone(&moved.file));
            }
        }
        let mut moved = self.moved.write().unwrap_or_else(PoisonError::into_inner);
        let copy_count = self.node.copy_count();
        if let Some(moved) = moved.as_ref().filter(|moved| moved.copy_count == copy_count) {
            return Ok(Arc::clone(&moved.file));
        }
        let (vnode, file) = match self.reusable_file(moved.as_ref())? {
            Some(open) => open,
            // The caller's access was checked when the file was opened.
            None => self.node.open_leftmost(&Caller::server(), self.flags)?,
        };
        self.take_locks(&file)?;
        if moved.is_none() && self.opened.vnode.handle() != vnode.handle() {
            self.release_first_locks();
        }
        *moved = Some(LowerFile { copy_count, vnode, file: Arc::clone(&file) });
        Ok(file)
    }

    /// The file that is already open for the present instance, if any: one opened anew could not take the locks alongside it.
    /// For a metadata-only copy whose data have been filled in, the file of the copy itself.
    fn reusable_file(&self, moved: Option<&LowerFile>) -> Result<Option<(VnodeRef, OpenFileRef)>> {
        let now = self.node.leftmost().vnode;
        let handle = now.handle();
        let Some(open) = moved.into_iter().chain([&self.opened]).find(|open| open.vnode.handle() == handle) else {
            return Ok(None);
        };
        let file = match MetadataOnlyFile::own(&open.file) {
            Some(own) if self.node.data_instance()?.is_none() => own,
            _ => &open.file,
        };
        Ok(Some((now, Arc::clone(file))))
    }

    /// Takes the locks in a lower file.
    fn take_locks(&self, file: &OpenFileRef) -> Result<()> {
        self.locks().iter().try_for_each(|(owner, lock)| file.lock(&Caller::server(), owner, lock))
    }

    /// Releases the locks in the lower file that was opened first: it stays open, and may be used again.
    fn release_first_locks(&self) {
        for (owner, lock) in self.locks() {
            let unlock = Lock { kind: LockKind::Unlock, ..lock };
            // A lock that cannot be released goes when the file is closed.
            let _ = self.opened.file.lock(&Caller::server(), &owner, &unlock);
        }
    }

    /// Locks that were taken through this file.
    fn locks(&self) -> Vec<(LockOwner, Lock)> {
        self.node.locks.taken_through(self.address())
    }

    /// The lower file to lock, once it holds all locks that are held. The object is not copied while the guard lives, so a lock
    /// that is taken and recorded under it is neither lost nor left in the former instance.
    fn lower_to_lock(&self) -> Result<(FileOperationGuard<'_>, OpenFileRef)> {
        let guard = self.node.union.operation_guard();
        // A file whose branch is gone is locked there.
        let _ = self.node.revalidate();
        let object = self.node.read_guard();
        self.node.move_followers();
        Ok((FileOperationGuard { _branches: guard, _object: object }, self.lower()?))
    }

    /// The lower file to change, with a guard that keeps the branches in place; the object is where it may be changed.
    fn lower_to_change(&self, caller: &Caller) -> Result<(FileOperationGuard<'_>, OpenFileRef)> {
        let guard = self.node.union.operation_guard();
        let generation = self.node.union.branches.generation();
        if self.checked.load(Ordering::Relaxed) != generation {
            // A file whose branch is gone stays in use there.
            if self.flags.writes() && self.node.revalidate().is_ok() {
                self.node.writable(caller, DataExtent::All)?;
            }
            self.checked.store(generation, Ordering::Relaxed);
        }
        let object = self.node.read_guard_unless_cancelled(caller)?;
        Ok((FileOperationGuard { _branches: guard, _object: object }, self.lower()?))
    }

    /// Changes the file, which may need the given number of bytes: in place, or elsewhere if the branch is full or has become
    /// read-only.
    fn run_change<T>(&self, caller: &Caller, bytes: u64, change: impl Fn(&OpenFileRef) -> Result<T>) -> Result<T> {
        let union = &self.node.union;
        let mut lease_retry = LeaseRetry::for_single_caller();
        let mut full = Vec::new();
        loop {
            union.apply_foreign_changes();
            let copy_count = self.node.copy_count();
            let changed = self.lower_to_change(caller).and_then(|(_guard, file)| change(&file));
            let is_elsewhere = match changed {
                Err(error) if is_full(error) && union.settings.moves_when_full => {
                    let _guard = union.operation_guard();
                    self.node.copy_count() != copy_count || self.node.move_from_full(caller, bytes, &mut full)
                }
                Err(Errno::EROFS) => union.detect_read_only_branches(),
                Err(LEASE_CONFLICT) => lease_retry.wait().map(|()| true)?,
                _ => false,
            };
            if !is_elsewhere {
                return changed.map_err(|error| self.node.reported_error(error));
            }
        }
    }

    /// Returns whether the kernel may be reading and writing it directly.
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct.load(Ordering::Relaxed)
    }

    /// Returns whether the object was long ago copied to its branch, so that little of it has to be synchronized, and is so long
    /// that it pays if the kernel reads and writes it directly from then on.
    fn is_long_and_old(&self) -> bool {
        self.node.copy_count() == 0
            && self.opened.file.getattr(&Caller::server()).is_ok_and(|attributes| attributes.size >= LONG_FILE_BYTES)
    }

    /// Key of the file while it is open.
    fn address(&self) -> usize {
        self.this.as_ptr().addr()
    }

    /// Returns whether writes go to the file that is open now. Otherwise a copy could be made while the kernel keeps using the
    /// original; a view's open files end with it.
    fn writes_in_place(&self) -> bool {
        self.node.union.view_state.is_none()
            && self.node.copy_count() == self.opened.copy_count
            && self.node.is_writable()
            && !self.node.may_move_when_full()
    }
}

impl Drop for UnionFile {
    fn drop(&mut self) {
        self.node.locks.release_through(self.address());
        if self.is_direct() {
            // Only such a file can be mapped for writing.
            let may_be_mapped = self.flags.reads() && self.flags.writes();
            let mapped = may_be_mapped.then(|| MappedFile {
                node: Arc::clone(&self.node),
                handle: self.opened.vnode.handle(),
                file: Arc::clone(&self.opened.file),
            });
            self.node.union.direct_files.record_closed(self.address(), mapped);
        }
    }
}

impl LockFollower for UnionFile {
    fn follow(&self) {
        // A file that cannot be opened reports so when it is used.
        let _ = self.lower();
    }
}

impl Part for UnionFile {
    const PART: &'static str = NAME;
}

impl OpenFile for UnionFile {
    fn read_at(&self, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.run_query(|file| file.read_at(caller, offset, buffer))
    }

    fn write_at(&self, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        self.run_change(caller, data.len() as u64, |file| file.write_at(caller, offset, data))
    }

    fn getattr(&self, caller: &Caller) -> Result<Attributes> {
        Ok(self.node.visible_attributes(self.run_query(|file| file.getattr(caller))?))
    }

    fn truncate(&self, caller: &Caller, size: u64) -> Result<()> {
        self.run_change(caller, 0, |file| file.truncate(caller, size))
    }

    fn flush(&self, caller: &Caller, owner: &LockOwner) -> Result<()> {
        self.node.locks.release(owner);
        self.run_query(|file| file.flush(caller, owner))
    }

    fn closing_tells(&self) -> bool {
        let may_move = self.flags.writes() && {
            let (_guard, _object) = (self.node.union.operation_guard(), self.node.read_guard());
            !self.writes_in_place()
        };
        may_move || self.current().map_or(true, |file| file.closing_tells())
    }

    fn times_tell_changes(&self) -> bool {
        self.current().is_ok_and(|file| file.times_tell_changes())
    }

    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        if !self.node.needs_arrival_sync() {
            return self.run_query(|file| file.fsync(caller, data_only));
        }
        retry_while_leased(|| self.sync_with_arrival(caller)).map_err(|error| self.node.reported_error(error))
    }

    fn allocate(&self, caller: &Caller, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        self.run_change(caller, length, |file| file.allocate(caller, mode, offset, length))
    }

    fn seek(&self, caller: &Caller, offset: u64, target: SeekTarget) -> Result<u64> {
        self.run_query(|file| file.seek(caller, offset, target))
    }

    fn copy_range(&self, caller: &Caller, offset: u64, to: &OpenFileRef, to_offset: u64, length: u64) -> Result<u64> {
        let to = to.as_any().downcast_ref::<Self>().ok_or(Errno::EXDEV)?;
        if !to.flags.writes() {
            return Err(Errno::EBADF);
        }
        let from = self.current()?;
        to.run_change(caller, length, |to| from.copy_range(caller, offset, to, to_offset, length))
    }

    fn lock(&self, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<()> {
        if self.node.union.view_state.is_some() {
            return Err(LOCKS_UNSUPPORTED_IN_VIEW);
        }
        let (_guard, file) = retry_while_leased(|| self.lower_to_lock())?;
        let through: Weak<dyn LockFollower> = self.this.clone();
        self.node.locks.set(&through, &file, caller, owner, lock)
    }

    fn test_lock(&self, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        if self.node.union.view_state.is_some() {
            return Err(LOCKS_UNSUPPORTED_IN_VIEW);
        }
        let (_guard, file) = retry_while_leased(|| self.lower_to_lock())?;
        file.test_lock(caller, owner, lock)
    }

    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        if !ioctl::changes(command) {
            return self.run_query(|file| file.ioctl(caller, command, input, output));
        }
        retry_while_leased(|| {
            let _guard = self.node.union.operation_guard();
            self.node.writable_to_set_flags(caller)?;
            let _object = self.node.read_guard_unless_cancelled(caller)?;
            self.lower()?.ioctl(caller, command, input, output)
        })
    }

    fn poll(&self, caller: &Caller, events: u32) -> Result<u32> {
        self.run_query(|file| file.poll(caller, events))
    }

    fn backing(&self) -> Option<BorrowedFd<'_>> {
        let union = &self.node.union;
        if self.node.is_being_copied() {
            // It will be elsewhere.
            return None;
        }
        let (_guard, _object) = (union.operation_guard(), self.node.read_guard());
        if !self.writes_in_place() || self.node.needs_arrival_sync() {
            // The kernel would synchronize a mapping of it by itself, without its arrival.
            return None;
        }
        let backing = self.opened.file.backing()?;
        if !self.is_direct.swap(true, Ordering::Relaxed) {
            union.direct_files.record_open(self.address(), &self.node);
        }
        Some(backing)
    }

    fn is_open_elsewhere(&self) -> bool {
        self.opened.file.is_open_elsewhere()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
