//! Advisory locks for several owners in one process.
//!
//! A POSIX lock in the kernel would belong to the server's process, whoever its owner is. So each owner gets an open file
//! description of its own for each file, and locks are taken on that description (`F_OFD_SETLK`); they conflict with each
//! other and with POSIX locks of other processes. A description is closed when its owner closes any descriptor of the file
//! (flush), locks are released with the open file that they were taken through, and all locks of a file with the last open
//! file that took part in locking.

use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hashbrown::HashMap;
use rustix::fs::{FlockOperation, OFlags};
use vnode::{Caller, Errno, LiveTable, Lock, LockFamily, LockKind, LockOwner, LockRanges, OpenFlags, Result};

use super::credentials::ThreadCredentials;
use super::shares::{DescriptorShare, HeldDescriptor};
use super::{errno, system};

/// The POSIX locks of all files of a tree, by the addresses of their vnodes: a file is listed while it has any.
#[derive(Default)]
pub(crate) struct LockTables {
    files: LiveTable<usize, FileTable>,
    /// Number of files listed, for callers that only need to know that there are none.
    count: AtomicUsize,
}

/// The POSIX locks of one file. Kept alive by the open files that took part in locking.
struct FileTable {
    tables: Arc<LockTables>,
    key: usize,
    owners: Mutex<HashMap<LockOwner, OwnerLocks>>,
    /// The vnode, whose address, the key, is not another's as long as this refers to it.
    _node: Arc<dyn Any + Send + Sync>,
}

/// The locks that one owner holds in one file.
struct OwnerLocks {
    description: HeldDescriptor,
    writable: bool,
    ranges: LockRanges<HeldRange>,
}

/// How a range is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct HeldRange {
    kind: LockKind,
    pid: u32,
    /// The open file that it was taken through, identified by the address of its [`FileLocks`].
    opened: usize,
}

/// The description by which one owner locks a whole file.
struct FlockDescription(HeldDescriptor);

/// The locking state of one open file.
#[derive(Default)]
pub(crate) struct FileLocks {
    table: OnceLock<Arc<FileTable>>,
    flocks: Mutex<Vec<(LockOwner, FlockDescription)>>,
}

impl LockTables {
    /// Releases all locks that the owner holds in the file.
    pub(crate) fn release<N>(&self, node: &Arc<N>, owner: &LockOwner) {
        if let Some(table) = self.find(node) {
            let released = table.owners().remove(owner);
            drop(released);
        }
    }

    /// Returns the lock that conflicts with `lock` for `owner`.
    pub(crate) fn test<N>(
        &self,
        node: &Arc<N>,
        file: BorrowedFd<'_>,
        owner: &LockOwner,
        lock: &Lock,
    ) -> Result<Option<Lock>> {
        let table = self.find(node);
        let owners = table.as_ref().map(|table| table.owners());
        let holder = owners.as_ref().and_then(|owners| owners.get(owner));
        // The open file's own description never holds a lock, so it sees those of all owners.
        let description = holder.map_or(file, |holder| holder.description.as_fd());
        let mut raw = raw_lock(lock)?;
        system::description_lock(description, libc::F_OFD_GETLK, &mut raw).map_err(errno)?;
        if raw.l_type == libc::F_UNLCK as i16 {
            return Ok(None);
        }
        let start = raw.l_start as u64;
        let end = if raw.l_len == 0 { u64::MAX } else { start + raw.l_len as u64 - 1 };
        let others = owners.iter().flat_map(|owners| owners.iter()).filter(|(other, _)| *other != owner);
        let conflicting = others.filter_map(|(_, other)| other.ranges.find(start, end, |_| true)).next();
        Ok(Some(Lock {
            family: LockFamily::Posix,
            kind: if raw.l_type == libc::F_RDLCK as i16 { LockKind::Shared } else { LockKind::Exclusive },
            start,
            end,
            pid: conflicting.map_or(u32::try_from(raw.l_pid).unwrap_or(0), |range| range.held.pid),
        }))
    }

    fn find<N>(&self, node: &Arc<N>) -> Option<Arc<FileTable>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.files.find(&key(node))
    }

    fn find_or_insert<N: Any + Send + Sync>(self: &Arc<Self>, node: &Arc<N>) -> Arc<FileTable> {
        let key = key(node);
        self.files.find_or_insert(&key, || {
            self.count.fetch_add(1, Ordering::AcqRel);
            let (tables, owners) = (Arc::clone(self), Mutex::default());
            Arc::new(FileTable { tables, key, owners, _node: Arc::clone(node) as _ })
        })
    }
}

/// Returns the key of a vnode's file.
fn key<N>(node: &Arc<N>) -> usize {
    Arc::as_ptr(node).addr()
}

impl FileTable {
    fn owners(&self) -> MutexGuard<'_, HashMap<LockOwner, OwnerLocks>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FileTable {
    fn drop(&mut self) {
        self.tables.files.forget(&self.key);
        self.tables.count.fetch_sub(1, Ordering::AcqRel);
    }
}

impl FileLocks {
    /// Takes or releases a byte-range lock of the file of a vnode, whose tree has these tables.
    pub(crate) fn posix<N: Any + Send + Sync>(
        &self,
        (tables, node): (&Arc<LockTables>, &Arc<N>),
        thread: &mut ThreadCredentials,
        caller: &Caller,
        (file, flags): (BorrowedFd<'_>, OpenFlags),
        owner: &LockOwner,
        lock: &Lock,
    ) -> Result<()> {
        let allowed = match lock.kind {
            LockKind::Shared => flags.reads(),
            LockKind::Exclusive => flags.writes(),
            LockKind::Unlock => true,
        };
        if !allowed {
            return Err(Errno::EBADF);
        }
        let raw = raw_lock(lock)?;
        if lock.kind == LockKind::Unlock && self.table.get().is_none() && tables.find(node).is_none() {
            return Ok(());
        }
        let table = self.table.get_or_init(|| tables.find_or_insert(node));
        let mut owners = table.owners();
        if !owners.contains_key(owner) {
            if lock.kind == LockKind::Unlock {
                return Ok(());
            }
            owners.insert(owner.clone(), OwnerLocks::open(thread, caller, file, lock.kind == LockKind::Exclusive)?);
        }
        let Some(holder) = owners.get_mut(owner) else { return Err(Errno::EIO) };
        let taken = holder.take((thread, caller, file), raw, lock, self.address());
        if holder.ranges.is_empty() {
            owners.remove(owner);
        }
        taken
    }

    /// Returns the address that identifies this open file to the locks taken through it.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Takes or releases a lock on the whole file.
    pub(crate) fn flock(
        &self,
        thread: &mut ThreadCredentials,
        caller: &Caller,
        file: BorrowedFd<'_>,
        owner: &LockOwner,
        kind: LockKind,
    ) -> Result<()> {
        let mut flocks = self.flocks.lock().unwrap_or_else(PoisonError::into_inner);
        let position = flocks.iter().position(|(other, _)| other == owner);
        let operation = match kind {
            LockKind::Shared => FlockOperation::NonBlockingLockShared,
            LockKind::Exclusive => FlockOperation::NonBlockingLockExclusive,
            LockKind::Unlock => {
                drop(position.map(|position| flocks.swap_remove(position)));
                return Ok(());
            }
        };
        match position {
            Some(position) => rustix::fs::flock(&flocks[position].1.0, operation).map_err(errno),
            None => {
                let share = take_share(caller)?;
                // An open file may be locked, whoever asks and whatever the current mode is.
                let acting = thread.act_as_server()?;
                // For reading where possible: a file that is open for writing could not be executed.
                let description = acting.reopen(file, OFlags::RDONLY).or_else(|_| acting.reopen(file, OFlags::WRONLY));
                let description = share.of(description.map_err(errno)?);
                rustix::fs::flock(&description, operation).map_err(errno)?;
                flocks.push((owner.clone(), FlockDescription(description)));
                Ok(())
            }
        }
    }
}

impl OwnerLocks {
    fn open(thread: &mut ThreadCredentials, caller: &Caller, file: BorrowedFd<'_>, writable: bool) -> Result<Self> {
        let share = take_share(caller)?;
        let acting = thread.act_as_server()?;
        let description = match writable {
            true => acting.reopen(file, OFlags::RDWR).or_else(|_| acting.reopen(file, OFlags::WRONLY)),
            // For reading only where that suffices: a file that is open for writing could not be executed.
            false => acting.reopen(file, OFlags::RDONLY),
        };
        Ok(Self { description: share.of(description.map_err(errno)?), writable, ranges: LockRanges::default() })
    }

    fn take(
        &mut self,
        (thread, caller, file): (&mut ThreadCredentials, &Caller, BorrowedFd<'_>),
        mut raw: libc::flock64,
        lock: &Lock,
        opened: usize,
    ) -> Result<()> {
        let held = HeldRange { kind: lock.kind, pid: lock.pid, opened };
        let ranges = self.ranges.with(lock.start, lock.end, (lock.kind != LockKind::Unlock).then_some(held))?;
        if lock.kind == LockKind::Exclusive && !self.writable {
            self.make_writable(thread, caller, file)?;
        }
        system::description_lock(self.description.as_fd(), libc::F_OFD_SETLK, &mut raw).map_err(
            |error| match error {
                rustix::io::Errno::ACCESS => Errno::EAGAIN,
                error => errno(error),
            },
        )?;
        self.ranges = ranges;
        Ok(())
    }

    /// Moves the locks to a description that may hold exclusive ones. All locks so far are shared, so both descriptions can
    /// hold them for a moment, and no other owner can get in between.
    fn make_writable(&mut self, thread: &mut ThreadCredentials, caller: &Caller, file: BorrowedFd<'_>) -> Result<()> {
        let mut new = Self::open(thread, caller, file, true)?;
        for range in self.ranges.iter() {
            let kind = LockKind::Shared;
            let lock =
                Lock { family: LockFamily::Posix, kind, start: range.start, end: range.end, pid: range.held.pid };
            let mut raw = raw_lock(&lock)?;
            system::description_lock(new.description.as_fd(), libc::F_OFD_SETLK, &mut raw).map_err(errno)?;
        }
        // The old description is dropped with `new`, which keeps no ranges.
        std::mem::swap(&mut self.description, &mut new.description);
        self.writable = true;
        Ok(())
    }

    /// Releases the locks taken through an open file that has been closed.
    fn release_opened(&mut self, opened: usize) {
        let through = self.ranges.iter().filter(|range| range.held.opened == opened);
        through.for_each(|range| unlock(&self.description, range.start, range.end));
        self.ranges.retain(|range| range.held.opened != opened);
    }
}

/// Reserves room for a description, which the caller holds as long as its lock.
fn take_share(caller: &Caller) -> Result<DescriptorShare> {
    DescriptorShare::take(caller).map_err(|_| Errno::ENOLCK)
}

/// Releases the locks of a description in a range. Locks that cannot be released go when the description is closed.
fn unlock(description: &HeldDescriptor, start: u64, end: u64) {
    let lock = Lock { family: LockFamily::Posix, kind: LockKind::Unlock, start, end, pid: 0 };
    if let Ok(mut raw) = raw_lock(&lock) {
        let _ = system::description_lock(description.as_fd(), libc::F_OFD_SETLK, &mut raw);
    }
}

impl Drop for FileLocks {
    fn drop(&mut self) {
        let Some(table) = self.table.get() else { return };
        let opened = self.address();
        table.owners().retain(|_, holder| {
            holder.release_opened(opened);
            !holder.ranges.is_empty()
        });
    }
}

// Closing a description releases its locks only if no child process still has it, between fork and exec.

impl Drop for OwnerLocks {
    fn drop(&mut self) {
        unlock(&self.description, 0, u64::MAX);
    }
}

impl Drop for FlockDescription {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

fn raw_lock(lock: &Lock) -> Result<libc::flock64> {
    let kind = match lock.kind {
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
        LockKind::Unlock => libc::F_UNLCK,
    };
    if lock.end < lock.start {
        return Err(Errno::EINVAL);
    }
    let start = i64::try_from(lock.start).map_err(|_| Errno::EOVERFLOW)?;
    // A range up to the largest offset reaches the end, however far the file grows.
    let length = if lock.end >= i64::MAX as u64 { 0 } else { lock.end as i64 - start + 1 };
    Ok(libc::flock64 { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: start, l_len: length, l_pid: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_an_open_file_releases_its_ranges() {
        use crate::dir::{DirectoryFileSystem, Options};
        use vnode::{Creation, FileSystem, Name};
        let directory = tempfile::tempdir().unwrap();
        let root = DirectoryFileSystem::open(directory.path(), Options::default()).unwrap().root();
        let (server, how) = (Caller::server(), Creation { mode: 0o600, flags: OpenFlags::READ_WRITE });
        let created = root.create(&server, Name::new(b"file").unwrap(), &how).unwrap();
        let other = created.entry.vnode.open(&server, OpenFlags::READ_WRITE).unwrap();
        let lock = |start| Lock { family: LockFamily::Posix, kind: LockKind::Exclusive, start, end: start + 9, pid: 0 };
        other.lock(&server, &LockOwner::Number(2), &lock(100)).unwrap();
        created.file.lock(&server, &LockOwner::Number(1), &lock(0)).unwrap();
        assert_eq!(other.lock(&server, &LockOwner::Number(2), &lock(0)), Err(Errno::EAGAIN));
        drop(created.file);
        other.lock(&server, &LockOwner::Number(2), &lock(0)).unwrap();
        assert_eq!(
            other.lock(&server, &LockOwner::Number(1), &lock(100)),
            Err(Errno::EAGAIN),
            "what others took stays"
        );
    }
    #[test]
    fn locks_count_in_the_descriptor_share_of_the_caller() {
        use crate::dir::{DirectoryFileSystem, Options};
        use vnode::{Creation, FileSystem, Name};
        let directory = tempfile::tempdir().unwrap();
        let root = DirectoryFileSystem::open(directory.path(), Options::default()).unwrap().root();
        let (server, how) = (Caller::server(), Creation { mode: 0o600, flags: OpenFlags::READ_WRITE });
        let file = root.create(&server, Name::new(b"file").unwrap(), &how).unwrap().file;
        let user = Caller::with_groups(4_000_001, 0, &[], 0);
        let mut shares: Vec<DescriptorShare> = std::iter::from_fn(|| DescriptorShare::take(&user).ok()).collect();
        for family in [LockFamily::Posix, LockFamily::Flock] {
            let end = if family == LockFamily::Flock { u64::MAX } else { 9 };
            let lock = |kind| Lock { family, kind, start: 0, end, pid: 0 };
            let (shared, unlock) = (lock(LockKind::Shared), lock(LockKind::Unlock));
            assert_eq!(file.lock(&user, &LockOwner::Number(1), &shared), Err(Errno::ENOLCK), "{family:?}");
            shares.pop();
            file.lock(&user, &LockOwner::Number(1), &shared).unwrap();
            file.lock(&user, &LockOwner::Number(1), &shared).unwrap();
            assert_eq!(file.lock(&user, &LockOwner::Number(2), &shared), Err(Errno::ENOLCK), "{family:?}");
            file.lock(&server, &LockOwner::Number(2), &shared).unwrap();
            file.lock(&server, &LockOwner::Number(2), &unlock).unwrap();
            file.lock(&user, &LockOwner::Number(1), &unlock).unwrap();
            shares.push(DescriptorShare::take(&user).expect("what the lock had is given back"));
        }
    }
}
