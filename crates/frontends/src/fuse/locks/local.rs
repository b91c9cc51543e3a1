//! Lock table for a base that has no locks of its own.

use std::collections::HashMap;
use vnode::{Lock, LockKind, LockOwner, LockTable, Result};

/// Locks managed by the front end, by the node of their file.
#[derive(Default)]
pub(crate) struct LocalLocks(HashMap<u64, LockTable>);

impl LocalLocks {
    /// Takes or releases a lock through an open file.
    ///
    /// # Errors
    /// `EAGAIN` if another owner's lock conflicts, `ENOLCK` if the owner would have more ranges than
    /// [`vnode::LOCK_RANGES_MAX`].
    pub(crate) fn set(&mut self, node: u64, owner: &LockOwner, opened: usize, lock: &Lock) -> Result<()> {
        if lock.kind == LockKind::Unlock && !self.0.contains_key(&node) {
            return Ok(());
        }
        let table = self.0.entry(node).or_default();
        let set = table.set(owner, opened as u64, lock);
        self.forget_if_empty(node);
        set
    }

    /// Releases the POSIX locks that an owner holds on a file.
    pub(crate) fn release(&mut self, node: u64, owner: &LockOwner) {
        self.0.entry(node).and_modify(|table| table.release_ranges(owner));
        self.forget_if_empty(node);
    }

    /// Releases the locks that were taken through an open file.
    pub(crate) fn release_opened(&mut self, node: u64, opened: usize) {
        self.0.entry(node).and_modify(|table| table.release_holder(opened as u64));
        self.forget_if_empty(node);
    }

    /// Returns a conflicting lock of another owner.
    pub(crate) fn conflict(&self, node: u64, owner: &LockOwner, lock: &Lock) -> Option<Lock> {
        self.0.get(&node)?.conflict(owner, lock)
    }

    fn forget_if_empty(&mut self, node: u64) {
        if self.0.get(&node).is_some_and(LockTable::is_empty) {
            self.0.remove(&node);
        }
    }

    /// Returns the number of files with locks.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    use vnode::{Errno, LOCK_RANGES_MAX, LockFamily};

    use super::*;

    const NODE: u64 = 3;

    fn lock(kind: LockKind, start: u64, end: u64) -> Lock {
        Lock { family: LockFamily::Posix, kind, start, end, pid: 1 }
    }

    #[test]
    fn ranges_split_and_conflict_like_fcntl() {
        let mut locks = LocalLocks::default();
        let (one, two) = (LockOwner::Number(1), LockOwner::Number(2));
        locks.set(NODE, &one, 1, &lock(LockKind::Exclusive, 0, 99)).unwrap();
        assert_eq!(locks.set(NODE, &two, 1, &lock(LockKind::Shared, 50, 60)), Err(Errno::EAGAIN));
        // An owner's own lock does not conflict: the middle becomes shared.
        locks.set(NODE, &one, 1, &lock(LockKind::Shared, 40, 59)).unwrap();
        locks.set(NODE, &two, 1, &lock(LockKind::Shared, 45, 50)).unwrap();
        assert_eq!(locks.conflict(NODE, &two, &lock(LockKind::Shared, 39, 39)).unwrap().end, 39);
        assert_eq!(locks.conflict(NODE, &two, &lock(LockKind::Shared, 60, u64::MAX)).unwrap().start, 60);
        locks.set(NODE, &one, 1, &lock(LockKind::Unlock, 0, u64::MAX)).unwrap();
        locks.set(NODE, &two, 1, &lock(LockKind::Exclusive, 0, u64::MAX)).unwrap();
        locks.release(NODE, &two);
        assert!(locks.0.is_empty());
    }

    #[test]
    fn ranges_per_owner_are_bounded() {
        let mut locks = LocalLocks::default();
        let (one, two, most) = (LockOwner::Number(1), LockOwner::Number(2), LOCK_RANGES_MAX as u64);
        (0..3 * most).for_each(|at| locks.set(NODE, &one, 1, &lock(LockKind::Shared, at, at)).unwrap());
        locks.set(NODE, &one, 1, &lock(LockKind::Unlock, 0, u64::MAX)).unwrap();
        (0..most).for_each(|at| locks.set(NODE, &one, 1, &lock(LockKind::Shared, 10 * at, 10 * at + 4)).unwrap());
        assert_eq!(locks.set(NODE, &one, 1, &lock(LockKind::Shared, 10 * most, 10 * most)), Err(Errno::ENOLCK));
        // Releasing a part would leave two ranges.
        assert_eq!(locks.set(NODE, &one, 1, &lock(LockKind::Unlock, 2, 2)), Err(Errno::ENOLCK));
        locks.set(NODE, &two, 1, &lock(LockKind::Shared, 10 * most, 10 * most)).unwrap();
        locks.set(NODE, &one, 1, &lock(LockKind::Unlock, 0, 4)).unwrap();
        locks.set(NODE, &one, 1, &lock(LockKind::Shared, 10 * most, 10 * most)).unwrap();
        locks.release(NODE, &one);
        locks.release(NODE, &two);
        assert!(locks.0.is_empty());
    }

    #[test]
    fn exclusive_lock_has_one_owner_at_a_time() {
        let (locks, holders) = (Mutex::new(LocalLocks::default()), AtomicU32::new(0));
        let (exclusive, unlock) = (lock(LockKind::Exclusive, 0, 9), lock(LockKind::Unlock, 0, 9));
        std::thread::scope(|scope| {
            for owner in [LockOwner::Number(1), LockOwner::Number(2)] {
                let (locks, holders) = (&locks, &holders);
                scope.spawn(move || {
                    let mut taken = 0;
                    while taken < 20_000 {
                        if locks.lock().unwrap().set(NODE, &owner, 1, &exclusive).is_ok() {
                            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "{owner:?} is not alone");
                            holders.fetch_sub(1, Ordering::SeqCst);
                            locks.lock().unwrap().set(NODE, &owner, 1, &unlock).unwrap();
                            taken += 1;
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn families_do_not_see_each_other() {
        let mut locks = LocalLocks::default();
        let flock = Lock { family: LockFamily::Flock, ..lock(LockKind::Exclusive, 0, u64::MAX) };
        locks.set(NODE, &LockOwner::Number(1), 1, &flock).unwrap();
        locks.set(NODE, &LockOwner::Number(2), 1, &lock(LockKind::Exclusive, 0, 9)).unwrap();
        assert_eq!(locks.set(NODE, &LockOwner::Number(2), 1, &flock), Err(Errno::EAGAIN));
    }
}
