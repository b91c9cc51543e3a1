//! Locks: the base takes them without waiting and the front end does the waiting; for a base without locks, the front end also
//! manages them.
//!
//! A request that has to wait occupies no worker: it is queued, and a few helpers retry all queued requests, when a lock on
//! the file is released here and periodically, since others may hold it below. The requests for a file are tried in order of
//! arrival.

mod holders;
mod local;
mod queue;

use super::open_files::OpenedFile;
use super::transport::deferred::DeferredReply;
use holders::Holders;
use local::LocalLocks;
use queue::LockQueues;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use vnode::{Caller, Errno, Lock, LockFamily, LockKind, LockOwner, Result};

/// Number of helper threads per session: one more than one, so that a base that hangs on one file does not hold up all others.
const HELPER_THREADS: usize = 2;

/// Waiting requests, and the locks of bases without locks.
pub(crate) struct Locks {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queues: Mutex<LockQueues<LockAttempt>>,
    due: Condvar,
    local: Mutex<LocalLocks>,
    holders: Mutex<Holders>,
}

/// An attempt to take a lock.
struct LockAttempt {
    caller: Caller,
    opened: Arc<OpenedFile>,
    owner: LockOwner,
    lock: Lock,
}

/// The state of a lock request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LockOutcome {
    /// It has been served.
    Done,
    /// It waits: the reply comes later.
    Queued,
}

impl Locks {
    /// Starts the helpers, with the credentials of the calling thread.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub(crate) fn start() -> io::Result<Locks> {
        let locks = Locks { shared: Arc::default() };
        for _ in 0..HELPER_THREADS {
            let shared = Arc::clone(&locks.shared);
            std::thread::Builder::new().name("fuse-locks".into()).spawn(move || shared.run_helper())?;
        }
        Ok(locks)
    }

    /// Takes or releases a lock; with `wait_as`, the request's unique, waits for it. In that case [`Locks::attach`] or
    /// [`Locks::give_up`] must follow.
    pub(crate) fn set(
        &self,
        caller: Caller,
        opened: Arc<OpenedFile>,
        owner: LockOwner,
        lock: Lock,
        wait_as: Option<u64>,
    ) -> Result<LockOutcome> {
        let attempt = LockAttempt { caller, opened, owner, lock };
        match (self.shared.try_once(&attempt), wait_as) {
            (Err(Errno::EAGAIN), Some(unique)) => {
                let node = attempt.opened.node;
                self.shared.queues().add(unique, node, Arc::new(attempt))?;
                self.shared.due.notify_one();
                Ok(LockOutcome::Queued)
            }
            (result, _) => result.map(|()| LockOutcome::Done),
        }
    }

    /// Attaches the deferred reply to a waiting request.
    pub(crate) fn attach(&self, unique: u64, reply: DeferredReply) {
        let completed = self.shared.queues().attach(unique, reply);
        send(completed);
    }

    /// Gives up waiting; returns the result that the request has by now.
    ///
    /// # Errors
    /// `ENOLCK` if it has not got the lock yet.
    pub(crate) fn give_up(&self, unique: u64) -> Result<()> {
        self.shared.queues().give_up(unique).unwrap_or(Err(Errno::ENOLCK))
    }

    /// Returns a conflicting lock.
    pub(crate) fn test(
        &self,
        caller: &Caller,
        opened: &OpenedFile,
        owner: &LockOwner,
        lock: &Lock,
    ) -> Result<Option<Lock>> {
        match opened.file.test_lock(caller, owner, lock) {
            Err(Errno::EOPNOTSUPP) => Ok(self.shared.local().conflict(opened.node, owner, lock)),
            result => result,
        }
    }

    /// Handles the close of a descriptor: its owner's POSIX locks on the file are released.
    pub(crate) fn owner_closed(&self, node: u64, owner: &LockOwner) {
        self.shared.local().release(node, owner);
        self.shared.holders().remove(node, &(LockFamily::Posix, owner.clone()));
        self.shared.wake(node);
    }

    /// Handles the release of an open file: the locks that were taken through it are released, whoever owned them.
    pub(crate) fn released(&self, opened: Arc<OpenedFile>) {
        self.shared.released(opened);
    }

    /// Interrupts the waiting request with this unique.
    pub(crate) fn interrupt(&self, unique: u64) {
        let completed = self.shared.queues().interrupt(unique);
        send(completed);
    }

    /// Ends all waits, since the connection has ended.
    pub(crate) fn end(&self) {
        let replies = self.shared.queues().end();
        self.shared.due.notify_all();
        drop(replies);
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        self.end();
    }
}

fn send(completed: Option<queue::CompletedRequest>) {
    if let Some((reply, result)) = completed {
        reply.send(result);
    }
}

impl Shared {
    fn try_once(&self, attempt: &LockAttempt) -> Result<()> {
        let LockAttempt { caller, opened, owner, lock } = attempt;
        let result = match opened.file.lock(caller, owner, lock) {
            // One step, or two owners could both find no conflict.
            Err(Errno::EOPNOTSUPP) => self.local().set(opened.node, owner, open_file_key(opened), lock),
            result => result,
        };
        if result.is_ok() {
            let releases_all = lock.kind == LockKind::Unlock && (lock.start, lock.end) == (0, u64::MAX);
            let holder = (lock.family, owner.clone());
            if releases_all {
                self.holders().remove(opened.node, &holder);
            } else if lock.kind != LockKind::Unlock {
                self.holders().add(opened.node, open_file_key(opened), holder);
            }
            if lock.kind != LockKind::Exclusive {
                // Released, or an exclusive lock became a shared one.
                self.wake(opened.node);
            }
        }
        result
    }

    fn wake(&self, node: u64) {
        if self.queues().schedule_retry(node) {
            self.due.notify_one();
        }
    }

    fn released(&self, opened: Arc<OpenedFile>) {
        let (node, number) = (opened.node, open_file_key(&opened));
        let has_locked = self.holders().release(node, number);
        if has_locked {
            self.local().release_opened(node, number);
            // The base's locks are released with the file.
            drop(opened);
            self.wake(node);
        }
    }

    /// Body of a helper thread.
    fn run_helper(&self) {
        let mut queues = self.queues();
        while !queues.ended {
            let now = Instant::now();
            queues = if let Some((node, waiting)) = queues.take_due(now) {
                drop(queues);
                self.try_all(node, &waiting);
                let mut queues = self.queues();
                queues.end_round(node, Instant::now());
                queues
            } else {
                match queues.next_due().map(|due| due.saturating_duration_since(now)) {
                    Some(pause) => self.due.wait_timeout(queues, pause).unwrap_or_else(PoisonError::into_inner).0,
                    None => self.due.wait(queues).unwrap_or_else(PoisonError::into_inner),
                }
            };
        }
    }

    /// Tries each of the queued requests of a file.
    fn try_all(&self, node: u64, waiting: &[u64]) {
        let mut conflicting = Vec::new();
        for &unique in waiting {
            let Some(attempt) = self.queues().attempt(unique) else { continue };
            if self.would_conflict(node, &attempt, &conflicting) || !self.queues().begin_attempt(unique) {
                continue;
            }
            let outcome = catch_unwind(AssertUnwindSafe(|| self.try_once(&attempt))).unwrap_or(Err(Errno::EIO));
            if outcome == Err(Errno::EAGAIN) {
                conflicting.push(attempt.lock);
            }
            let completed = self.queues().end_attempt(unique, outcome);
            send(completed);
        }
    }

    /// Returns whether a lock that refused an earlier request refuses this one too, unless it is its own.
    fn would_conflict(&self, node: u64, attempt: &LockAttempt, conflicting: &[Lock]) -> bool {
        let lock = &attempt.lock;
        let covers = |other: &Lock| {
            other.family == lock.family
                && lock.start <= other.start
                && other.end <= lock.end
                && (other.kind == lock.kind || lock.kind == LockKind::Exclusive)
        };
        conflicting.iter().any(covers) && !self.holders().has(node, &(lock.family, attempt.owner.clone()))
    }

    fn queues(&self) -> MutexGuard<'_, LockQueues<LockAttempt>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn local(&self) -> MutexGuard<'_, LocalLocks> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn holders(&self) -> MutexGuard<'_, Holders> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number by which locks identify the open file through which they were taken, as long as it exists.
fn open_file_key(opened: &Arc<OpenedFile>) -> usize {
    Arc::as_ptr(opened).addr()
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use vnode::{Attributes, OpenFile};

    use super::*;
    use crate::fuse::open_files::{OpenConstraints, OpenFiles, Opener};

    /// An open file whose base has locks, or has none.
    struct Lockable(bool);

    impl OpenFile for Lockable {
        fn read_at(&self, _caller: &Caller, _offset: u64, _buffer: &mut [u8]) -> Result<usize> {
            Ok(0)
        }
        fn getattr(&self, _caller: &Caller) -> Result<Attributes> {
            Err(Errno::EIO)
        }
        fn lock(&self, _caller: &Caller, _owner: &LockOwner, _lock: &Lock) -> Result<()> {
            if self.0 { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    const CONSTRAINTS: OpenConstraints = OpenConstraints {
        passthrough: false,
        direct: false,
        opens_differ: false,
        writes: true,
        appends: false,
        opener: Opener { ids: (0, 0), is_privileged: true },
    };

    #[test]
    fn closed_files_leave_no_lock_state() {
        let (files, shared) = (OpenFiles::new(), Shared::default());
        let lock = Lock { family: LockFamily::Posix, kind: LockKind::Exclusive, start: 0, end: 9, pid: 1 };
        for has_locks in [true, false] {
            for file in 0..10_000_u64 {
                // Many files, and one of them repeatedly.
                for node in [file + 10, 5] {
                    let reply = files.open(node, Arc::new(Lockable(has_locks)), CONSTRAINTS, |_| None, |_| false);
                    let opened = files.release(reply.handle, |_| ()).unwrap();
                    // An owner of open file description locks closes none: no close is reported with it as the owner.
                    let owner = LockOwner::Number(reply.handle);
                    let attempt = LockAttempt { caller: Caller::server(), opened: Arc::clone(&opened), owner, lock };
                    assert_eq!(shared.try_once(&attempt), Ok(()), "the one before is gone");
                    assert!(shared.holders().has(node, &(LockFamily::Posix, attempt.owner.clone())));
                    drop(attempt);
                    shared.released(opened);
                }
            }
            assert_eq!((shared.holders().count(), shared.local().count()), (0, 0));
        }
    }

    #[test]
    fn holder_is_recorded_until_its_last_open_file_or_unlock() {
        let (one, other, holder) = (1, 2, (LockFamily::Posix, LockOwner::Number(7)));
        let mut holders = Holders::default();
        holders.add(5, one, holder.clone());
        holders.add(5, other, holder.clone());
        assert!(holders.release(5, one) && holders.has(5, &holder));
        assert!(holders.release(5, other) && !holders.has(5, &holder) && !holders.release(5, other));
        holders.add(5, one, holder.clone());
        holders.remove(5, &holder);
        assert_eq!((holders.has(5, &holder), holders.count()), (false, 0));
    }
}
