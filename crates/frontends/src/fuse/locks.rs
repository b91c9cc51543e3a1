//! Locks: the base takes them without waiting, the front end does the waiting; and keeps them itself for a base that
//! has none.

use super::open_files::OpenedFile;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vnode::{Caller, Errno, Lock, LockFamily, LockKind, LockOwner, Result};

/// The first and the longest time to wait before trying again, for holders whose unlocking we do not see.
const RETRY_FIRST: Duration = Duration::from_millis(1);
const RETRY_LONGEST: Duration = Duration::from_millis(100);
/// Interrupts kept for requests that are not waiting yet.
const EARLY_INTERRUPTS_MAX: usize = 64;

/// Waiting requests, and the locks of bases without locks.
#[derive(Default)]
pub(crate) struct Locks {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    kept: Mutex<KeptLocks>,
}

#[derive(Default)]
struct Waiting {
    /// Requests that wait now.
    requests: HashSet<u64>,
    /// Those of them that are to give up.
    interrupted: HashSet<u64>,
    /// Requests interrupted before they began to wait: interrupt and request may be served by two threads.
    early: VecDeque<u64>,
    /// Counts releases, so that one between a try and the wait after it is not missed.
    releases: u64,
}

/// Locks kept here, by the node of their file.
type KeptLocks = HashMap<u64, Vec<Kept>>;

/// A lock kept here.
#[derive(Clone, Copy)]
struct Kept {
    owner: LockOwner,
    lock: Lock,
}

impl Locks {
    /// Takes or releases a lock; with `wait_as`, the request's unique, waits for it.
    pub(crate) fn set(
        &self,
        caller: &Caller,
        opened: &OpenedFile,
        owner: LockOwner,
        lock: &Lock,
        wait_as: Option<u64>,
    ) -> Result<()> {
        let Some(unique) = wait_as else {
            return self.try_once(caller, opened, owner, lock);
        };
        let mut pause = RETRY_FIRST;
        let mut registered = Registered { locks: self, unique, active: false };
        loop {
            let seen = self.lock_waiting().releases;
            match self.try_once(caller, opened, owner, lock) {
                Err(Errno::EAGAIN) => {}
                result => return result,
            }
            registered.wait_for_release(seen, pause)?;
            pause = (pause * 2).min(RETRY_LONGEST);
        }
    }

    /// A lock in the way.
    pub(crate) fn test(
        &self,
        caller: &Caller,
        opened: &OpenedFile,
        owner: LockOwner,
        lock: &Lock,
    ) -> Result<Option<Lock>> {
        match opened.file.test_lock(caller, owner, lock) {
            Err(Errno::EOPNOTSUPP) => Ok(conflict(&self.lock_kept(), opened.node, owner, lock)),
            result => result,
        }
    }

    /// A descriptor was closed: the POSIX locks that its owner has on the file are gone.
    pub(crate) fn owner_closed(&self, node: u64, owner: LockOwner) {
        let whole = Lock { family: LockFamily::Posix, kind: LockKind::Unlock, start: 0, end: u64::MAX, pid: 0 };
        keep(&mut self.lock_kept(), node, owner, &whole);
        self.wake();
    }

    /// The request with this unique is to give up waiting.
    pub(crate) fn interrupt(&self, unique: u64) {
        let mut waiting = self.lock_waiting();
        if waiting.requests.contains(&unique) {
            waiting.interrupted.insert(unique);
            self.changed.notify_all();
        } else {
            waiting.early.push_back(unique);
            if waiting.early.len() > EARLY_INTERRUPTS_MAX {
                waiting.early.pop_front();
            }
        }
    }

    fn try_once(&self, caller: &Caller, opened: &OpenedFile, owner: LockOwner, lock: &Lock) -> Result<()> {
        let result = match opened.file.lock(caller, owner, lock) {
            Err(Errno::EOPNOTSUPP) => self.try_keep(opened.node, owner, lock),
            result => result,
        };
        if result.is_ok() && lock.kind != LockKind::Exclusive {
            // Released, or an exclusive lock became a shared one.
            self.wake();
        }
        result
    }

    fn wake(&self) {
        let mut waiting = self.lock_waiting();
        if !waiting.requests.is_empty() {
            self.changed.notify_all();
        }
        waiting.releases += 1;
    }

    fn try_keep(&self, node: u64, owner: LockOwner, lock: &Lock) -> Result<()> {
        // One step, or two owners could both find nothing in their way.
        let mut kept = self.lock_kept();
        if lock.kind != LockKind::Unlock && conflict(&kept, node, owner, lock).is_some() {
            return Err(Errno::EAGAIN);
        }
        keep(&mut kept, node, owner, lock);
        Ok(())
    }

    fn lock_kept(&self) -> MutexGuard<'_, KeptLocks> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lock of another owner that is in the way.
fn conflict(kept: &KeptLocks, node: u64, owner: LockOwner, lock: &Lock) -> Option<Lock> {
    let conflicts = |held: &&Kept| {
        held.owner != owner
            && held.lock.family == lock.family
            && held.lock.start <= lock.end
            && lock.start <= held.lock.end
            && (held.lock.kind == LockKind::Exclusive || lock.kind == LockKind::Exclusive)
    };
    kept.get(&node)?.iter().find(conflicts).map(|held| held.lock)
}

/// Replaces what the owner holds in the range by `lock`: parts outside stay, as fcntl(2) describes.
fn keep(kept: &mut KeptLocks, node: u64, owner: LockOwner, lock: &Lock) {
    if lock.kind == LockKind::Unlock && !kept.contains_key(&node) {
        return;
    }
    let held = kept.entry(node).or_default();
    let mut left = Vec::with_capacity(held.len() + 2);
    for one in held.drain(..) {
        let same = one.owner == owner && one.lock.family == lock.family;
        if !same || one.lock.end < lock.start || lock.end < one.lock.start {
            left.push(one);
            continue;
        }
        if one.lock.start < lock.start {
            left.push(Kept { owner, lock: Lock { end: lock.start - 1, ..one.lock } });
        }
        if one.lock.end > lock.end {
            left.push(Kept { owner, lock: Lock { start: lock.end + 1, ..one.lock } });
        }
    }
    if lock.kind != LockKind::Unlock {
        left.push(Kept { owner, lock: *lock });
    }
    if left.is_empty() {
        kept.remove(&node);
    } else {
        *held = left;
    }
}

/// A request in the list of those that wait, for as long as this lives.
struct Registered<'a> {
    locks: &'a Locks,
    unique: u64,
    active: bool,
}

impl Registered<'_> {
    /// Waits until a lock was released since `seen`, or the time is over.
    fn wait_for_release(&mut self, seen: u64, time: Duration) -> Result<()> {
        let unique = self.unique;
        let mut waiting = self.locks.lock_waiting();
        if !self.active {
            self.active = true;
            waiting.requests.insert(unique);
            if let Some(place) = waiting.early.iter().position(|&early| early == unique) {
                waiting.early.remove(place);
                waiting.interrupted.insert(unique);
            }
        }
        let (waiting, _) = self
            .locks
            .changed
            .wait_timeout_while(waiting, time, |waiting| {
                waiting.releases == seen && !waiting.interrupted.contains(&unique)
            })
            .unwrap_or_else(PoisonError::into_inner);
        if waiting.interrupted.contains(&unique) { Err(Errno::EINTR) } else { Ok(()) }
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        if self.active {
            let mut waiting = self.locks.lock_waiting();
            waiting.requests.remove(&self.unique);
            waiting.interrupted.remove(&self.unique);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const NODE: u64 = 3;

    fn lock(kind: LockKind, start: u64, end: u64) -> Lock {
        Lock { family: LockFamily::Posix, kind, start, end, pid: 1 }
    }

    #[test]
    fn kept_ranges_split_and_conflict_as_fcntl_says() {
        let locks = Locks::default();
        let (one, two) = (LockOwner(1), LockOwner(2));
        locks.try_keep(NODE, one, &lock(LockKind::Exclusive, 0, 99)).unwrap();
        assert_eq!(locks.try_keep(NODE, two, &lock(LockKind::Shared, 50, 60)), Err(Errno::EAGAIN));
        // An owner's own lock is no obstacle: the middle becomes shared.
        locks.try_keep(NODE, one, &lock(LockKind::Shared, 40, 59)).unwrap();
        locks.try_keep(NODE, two, &lock(LockKind::Shared, 45, 50)).unwrap();
        assert_eq!(conflict(&locks.lock_kept(), NODE, two, &lock(LockKind::Shared, 39, 39)).unwrap().end, 39);
        assert_eq!(conflict(&locks.lock_kept(), NODE, two, &lock(LockKind::Shared, 60, u64::MAX)).unwrap().start, 60);
        locks.try_keep(NODE, one, &lock(LockKind::Unlock, 0, u64::MAX)).unwrap();
        locks.try_keep(NODE, two, &lock(LockKind::Exclusive, 0, u64::MAX)).unwrap();
        locks.owner_closed(NODE, two);
        assert!(locks.kept.lock().unwrap().is_empty());
    }

    #[test]
    fn a_kept_lock_has_one_owner_at_a_time() {
        let (locks, holders) = (Locks::default(), AtomicU32::new(0));
        let (exclusive, unlock) = (lock(LockKind::Exclusive, 0, 9), lock(LockKind::Unlock, 0, 9));
        std::thread::scope(|scope| {
            for owner in [LockOwner(1), LockOwner(2)] {
                let (locks, holders) = (&locks, &holders);
                scope.spawn(move || {
                    let mut taken = 0;
                    while taken < 20_000 {
                        if locks.try_keep(NODE, owner, &exclusive).is_ok() {
                            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "{owner:?} is not alone");
                            holders.fetch_sub(1, Ordering::SeqCst);
                            locks.try_keep(NODE, owner, &unlock).unwrap();
                            taken += 1;
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn families_do_not_see_each_other() {
        let locks = Locks::default();
        let flock = Lock { family: LockFamily::Flock, ..lock(LockKind::Exclusive, 0, u64::MAX) };
        locks.try_keep(NODE, LockOwner(1), &flock).unwrap();
        locks.try_keep(NODE, LockOwner(2), &lock(LockKind::Exclusive, 0, 9)).unwrap();
        assert_eq!(locks.try_keep(NODE, LockOwner(2), &flock), Err(Errno::EAGAIN));
    }

    #[test]
    fn an_interrupt_ends_the_wait_also_when_it_comes_first() {
        let locks = Locks::default();
        locks.interrupt(9);
        let mut registered = Registered { locks: &locks, unique: 9, active: false };
        let result = registered.wait_for_release(0, Duration::from_secs(60));
        assert_eq!(result, Err(Errno::EINTR));
        drop(registered);
        let waiting = locks.lock_waiting();
        assert!(waiting.requests.is_empty() && waiting.interrupted.is_empty() && waiting.early.is_empty());
    }

    #[test]
    fn a_release_is_not_missed_between_try_and_wait() {
        let locks = Locks::default();
        locks.wake();
        let mut registered = Registered { locks: &locks, unique: 9, active: false };
        let started = std::time::Instant::now();
        registered.wait_for_release(0, Duration::from_secs(60)).unwrap();
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}
