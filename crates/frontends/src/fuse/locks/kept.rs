//! The locks of a base that has none, kept by the front end.

use std::collections::HashMap;
use vnode::{Errno, LOCK_RANGES_MAX, Lock, LockFamily, LockKind, LockOwner, Result};

/// Locks kept here, by the node of their file.
#[derive(Default)]
pub(super) struct KeptLocks(HashMap<u64, Vec<Kept>>);

/// A lock kept here.
#[derive(Clone, Copy)]
struct Kept {
    owner: LockOwner,
    /// By which open file it was taken.
    opened: usize,
    lock: Lock,
}

impl KeptLocks {
    /// Takes or releases a lock by an open file.
    ///
    /// # Errors
    /// `EAGAIN` where another owner's is in the way, `ENOLCK` where the owner would have more than [`LOCK_RANGES_MAX`].
    pub(super) fn set(&mut self, node: u64, owner: LockOwner, opened: usize, lock: &Lock) -> Result<()> {
        if lock.kind != LockKind::Unlock && self.conflict(node, owner, lock).is_some() {
            return Err(Errno::EAGAIN);
        }
        self.keep(node, owner, opened, lock)
    }

    /// Releases the POSIX locks that an owner has on a file.
    pub(super) fn release(&mut self, node: u64, owner: LockOwner) {
        let whole = Lock { family: LockFamily::Posix, kind: LockKind::Unlock, start: 0, end: u64::MAX, pid: 0 };
        // There are fewer afterwards.
        let _ = self.keep(node, owner, 0, &whole);
    }

    /// Releases the locks that were taken by an open file.
    pub(super) fn release_opened(&mut self, node: u64, opened: usize) {
        let Some(held) = self.0.get_mut(&node) else { return };
        held.retain(|one| one.opened != opened);
        if held.is_empty() {
            self.0.remove(&node);
        }
    }

    /// A lock of another owner that is in the way.
    pub(super) fn conflict(&self, node: u64, owner: LockOwner, lock: &Lock) -> Option<Lock> {
        let conflicts = |held: &&Kept| {
            held.owner != owner
                && held.lock.family == lock.family
                && held.lock.start <= lock.end
                && lock.start <= held.lock.end
                && (held.lock.kind == LockKind::Exclusive || lock.kind == LockKind::Exclusive)
        };
        self.0.get(&node)?.iter().find(conflicts).map(|held| held.lock)
    }

    /// Replaces what the owner holds in the range by `lock`: parts outside stay, as fcntl(2) describes.
    fn keep(&mut self, node: u64, owner: LockOwner, opened: usize, lock: &Lock) -> Result<()> {
        if lock.kind == LockKind::Unlock && !self.0.contains_key(&node) {
            return Ok(());
        }
        let held = self.0.entry(node).or_default();
        let is_own = |one: &&Kept| one.owner == owner && one.lock.family == lock.family;
        let (own, mut left): (Vec<Kept>, Vec<Kept>) = held.iter().partition(is_own);
        let others = left.len();
        for one in &own {
            if one.lock.end < lock.start || lock.end < one.lock.start {
                left.push(*one);
                continue;
            }
            if one.lock.start < lock.start {
                left.push(Kept { lock: Lock { end: lock.start - 1, ..one.lock }, ..*one });
            }
            if one.lock.end > lock.end {
                left.push(Kept { lock: Lock { start: lock.end + 1, ..one.lock }, ..*one });
            }
        }
        if lock.kind != LockKind::Unlock {
            join(&mut left, Kept { owner, opened, lock: *lock });
        }
        if left.len() - others > own.len().max(LOCK_RANGES_MAX) {
            return Err(Errno::ENOLCK);
        }
        if left.is_empty() {
            self.0.remove(&node);
        } else {
            *held = left;
        }
        Ok(())
    }

    /// Number of files with locks.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

/// Adds a lock, as one with those of its owner that it touches and that are like it.
fn join(held: &mut Vec<Kept>, mut new: Kept) {
    let touches = |one: &Kept| {
        let is_like = (one.owner, one.opened) == (new.owner, new.opened)
            && (one.lock.family, one.lock.kind, one.lock.pid) == (new.lock.family, new.lock.kind, new.lock.pid);
        let is_beside =
            one.lock.end.checked_add(1) == Some(new.lock.start) || new.lock.end.checked_add(1) == Some(one.lock.start);
        is_like && is_beside
    };
    let joined: Vec<_> = held.extract_if(.., |one| touches(one)).collect();
    for one in joined {
        (new.lock.start, new.lock.end) = (new.lock.start.min(one.lock.start), new.lock.end.max(one.lock.end));
    }
    held.push(new);
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const NODE: u64 = 3;

    fn lock(kind: LockKind, start: u64, end: u64) -> Lock {
        Lock { family: LockFamily::Posix, kind, start, end, pid: 1 }
    }

    #[test]
    fn kept_ranges_split_and_conflict_as_fcntl_says() {
        let mut locks = KeptLocks::default();
        let (one, two) = (LockOwner(1), LockOwner(2));
        locks.set(NODE, one, 1, &lock(LockKind::Exclusive, 0, 99)).unwrap();
        assert_eq!(locks.set(NODE, two, 1, &lock(LockKind::Shared, 50, 60)), Err(Errno::EAGAIN));
        // An owner's own lock is no obstacle: the middle becomes shared.
        locks.set(NODE, one, 1, &lock(LockKind::Shared, 40, 59)).unwrap();
        locks.set(NODE, two, 1, &lock(LockKind::Shared, 45, 50)).unwrap();
        assert_eq!(locks.conflict(NODE, two, &lock(LockKind::Shared, 39, 39)).unwrap().end, 39);
        assert_eq!(locks.conflict(NODE, two, &lock(LockKind::Shared, 60, u64::MAX)).unwrap().start, 60);
        locks.set(NODE, one, 1, &lock(LockKind::Unlock, 0, u64::MAX)).unwrap();
        locks.set(NODE, two, 1, &lock(LockKind::Exclusive, 0, u64::MAX)).unwrap();
        locks.release(NODE, two);
        assert!(locks.0.is_empty());
    }

    #[test]
    fn an_owner_has_so_many_ranges_of_a_file_and_no_more() {
        let mut locks = KeptLocks::default();
        let (one, two, most) = (LockOwner(1), LockOwner(2), LOCK_RANGES_MAX as u64);
        // Those that touch are one.
        (0..3 * most).for_each(|at| locks.set(NODE, one, 1, &lock(LockKind::Shared, at, at)).unwrap());
        assert_eq!(locks.0[&NODE].len(), 1);
        locks.set(NODE, one, 1, &lock(LockKind::Unlock, 0, u64::MAX)).unwrap();
        (0..most).for_each(|at| locks.set(NODE, one, 1, &lock(LockKind::Shared, 10 * at, 10 * at + 4)).unwrap());
        assert_eq!(locks.set(NODE, one, 1, &lock(LockKind::Shared, 10 * most, 10 * most)), Err(Errno::ENOLCK));
        // A part that is released would leave two.
        assert_eq!(locks.set(NODE, one, 1, &lock(LockKind::Unlock, 2, 2)), Err(Errno::ENOLCK));
        locks.set(NODE, two, 1, &lock(LockKind::Shared, 10 * most, 10 * most)).unwrap();
        locks.set(NODE, one, 1, &lock(LockKind::Unlock, 0, 4)).unwrap();
        locks.set(NODE, one, 1, &lock(LockKind::Shared, 10 * most, 10 * most)).unwrap();
        locks.release(NODE, one);
        locks.release(NODE, two);
        assert!(locks.0.is_empty());
    }

    #[test]
    fn a_kept_lock_has_one_owner_at_a_time() {
        let (locks, holders) = (Mutex::new(KeptLocks::default()), AtomicU32::new(0));
        let (exclusive, unlock) = (lock(LockKind::Exclusive, 0, 9), lock(LockKind::Unlock, 0, 9));
        std::thread::scope(|scope| {
            for owner in [LockOwner(1), LockOwner(2)] {
                let (locks, holders) = (&locks, &holders);
                scope.spawn(move || {
                    let mut taken = 0;
                    while taken < 20_000 {
                        if locks.lock().unwrap().set(NODE, owner, 1, &exclusive).is_ok() {
                            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "{owner:?} is not alone");
                            holders.fetch_sub(1, Ordering::SeqCst);
                            locks.lock().unwrap().set(NODE, owner, 1, &unlock).unwrap();
                            taken += 1;
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn families_do_not_see_each_other() {
        let mut locks = KeptLocks::default();
        let flock = Lock { family: LockFamily::Flock, ..lock(LockKind::Exclusive, 0, u64::MAX) };
        locks.set(NODE, LockOwner(1), 1, &flock).unwrap();
        locks.set(NODE, LockOwner(2), 1, &lock(LockKind::Exclusive, 0, 9)).unwrap();
        assert_eq!(locks.set(NODE, LockOwner(2), 1, &flock), Err(Errno::EAGAIN));
    }
}
