//! The locks of a file: they are taken again in every copy of it, before anybody else can take them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use vnode::{Caller, Errno, Lock, LockFamily, LockKind, LockOwner, LockRanges, OpenFileRef, Result};

/// An open file that holds locks, and follows its object to another branch.
pub(crate) trait LockFollower: Send + Sync {
    /// Opens the object where it is now, and takes the locks there.
    fn follow(&self);
}

/// Locks held on a file, through all of its open files.
#[derive(Default)]
pub(crate) struct FileLocks(Mutex<Option<Box<RecordedLocks>>>);

#[derive(Default)]
struct RecordedLocks {
    /// Open files that have to follow the object.
    followers: Vec<Weak<dyn LockFollower>>,
    /// Held ranges; a lock on the whole file covers the first to the last byte.
    held: HashMap<(LockFamily, LockOwner), LockRanges<HeldLock>>,
}

/// State of a held range.
#[derive(Clone, Copy, PartialEq, Eq)]
struct HeldLock {
    kind: LockKind,
    pid: u32,
    /// The open file through which it was taken.
    through: usize,
}

impl FileLocks {
    /// Takes or releases a lock in the lower file of an open one, and remembers that for later copies.
    ///
    /// # Errors
    /// Errors of the lower file; `EINVAL` and `ENOLCK` as for [`LockRanges::with`].
    pub(crate) fn set(
        &self,
        through: &Weak<dyn LockFollower>,
        file: &OpenFileRef,
        caller: &Caller,
        owner: &LockOwner,
        lock: &Lock,
    ) -> Result<()> {
        // Nobody else takes a lock until this one is remembered: their order is the same in both.
        let mut records = self.lock_records();
        if lock.kind == LockKind::Unlock && records.is_none() {
            return file.lock(caller, owner, lock);
        }
        let records = records.get_or_insert_default();
        let (start, end) = match lock.family {
            LockFamily::Posix => (lock.start, lock.end),
            LockFamily::Flock => (0, u64::MAX),
        };
        let key = (lock.family, owner.clone());
        let new = HeldLock { kind: lock.kind, pid: lock.pid, through: through.as_ptr().cast::<()>().addr() };
        let none = LockRanges::default();
        let before = records.held.get(&key).unwrap_or(&none);
        let ranges = before.with(start, end, (lock.kind != LockKind::Unlock).then_some(new))?;
        let locked = file.lock(caller, owner, lock);
        match (locked, lock.family) {
            (Ok(()), _) => records.replace(key, ranges),
            // A lock whose conversion fails has been released first.
            (Err(Errno::EAGAIN), LockFamily::Flock) => drop(records.held.remove(&key)),
            (Err(_), _) => {}
        }
        records.follow_with(through);
        locked
    }

    /// Locks that were taken through an open file.
    pub(crate) fn taken_through(&self, through: usize) -> Vec<(LockOwner, Lock)> {
        let records = self.lock_records();
        let all = records.iter().flat_map(|records| &records.held);
        let locks = all.flat_map(|((family, owner), ranges)| {
            let own = ranges.iter().filter(|range| range.held.through == through);
            own.map(|range| {
                let HeldLock { kind, pid, .. } = range.held;
                (owner.clone(), Lock { family: *family, kind, start: range.start, end: range.end, pid })
            })
        });
        locks.collect()
    }

    /// Releases all byte-range locks of an owner that closes any of its descriptors of the file, through whichever they were
    /// taken.
    pub(crate) fn release(&self, owner: &LockOwner) {
        if let Some(records) = &mut *self.lock_records() {
            records.held.remove(&(LockFamily::Posix, owner.clone()));
        }
    }

    /// Releases what was taken through an open file that is closed.
    pub(crate) fn release_through(&self, through: usize) {
        if let Some(records) = &mut *self.lock_records() {
            records.held.retain(|_, ranges| {
                ranges.retain(|range| range.held.through != through);
                !ranges.is_empty()
            });
        }
    }

    /// Open files that hold locks.
    pub(crate) fn followers(&self) -> Vec<Arc<dyn LockFollower>> {
        // An open file that is dropped here releases its locks.
        let followers = self.lock_records().as_ref().map(|records| records.followers.clone());
        followers.into_iter().flatten().filter_map(|follower| follower.upgrade()).collect()
    }

    fn lock_records(&self) -> MutexGuard<'_, Option<Box<RecordedLocks>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecordedLocks {
    fn replace(&mut self, key: (LockFamily, LockOwner), ranges: LockRanges<HeldLock>) {
        match ranges.is_empty() {
            true => self.held.remove(&key),
            false => self.held.insert(key, ranges),
        };
    }

    fn follow_with(&mut self, file: &Weak<dyn LockFollower>) {
        self.followers.retain(|follower| follower.strong_count() > 0);
        if !self.followers.iter().any(|follower| follower.ptr_eq(file)) {
            self.followers.push(Weak::clone(file));
        }
    }
}

#[cfg(test)]
mod tests {
    use bases::mem::{MemoryFileSystem, Options};
    use vnode::{Creation, FileSystem, Name, OpenFlags};

    use super::*;

    struct NoFile;

    impl LockFollower for NoFile {
        fn follow(&self) {}
    }

    #[test]
    fn released_locks_are_not_recorded() {
        let root = MemoryFileSystem::new(Options::default()).root();
        let creation = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE };
        let file = root.create(&Caller::server(), Name::new(b"file").unwrap(), &creation).unwrap().file;
        let (locks, through): (_, Weak<dyn LockFollower>) = (FileLocks::default(), Weak::<NoFile>::new());
        let set = |owner, family, kind, start, end| {
            let lock = Lock { family, kind, start, end, pid: 1 };
            locks.set(&through, &file, &Caller::server(), &LockOwner::Number(owner), &lock).unwrap();
        };
        for round in 0..20_000 {
            let start = 10 * (round % 7);
            set(1, LockFamily::Posix, LockKind::Shared, start, start + 4);
            set(1, LockFamily::Posix, LockKind::Unlock, start + 1, start + 4);
            set(2, LockFamily::Flock, LockKind::Exclusive, 0, u64::MAX);
            set(2, LockFamily::Flock, LockKind::Unlock, 0, u64::MAX);
        }
        assert_eq!(locks.taken_through(through.as_ptr().cast::<()>().addr()).len(), 7);
        set(1, LockFamily::Posix, LockKind::Unlock, 0, u64::MAX);
        assert!(locks.lock_records().as_ref().unwrap().held.is_empty());
    }
}
