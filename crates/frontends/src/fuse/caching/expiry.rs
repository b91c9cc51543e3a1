//! Expiry: makes the kernel revalidate names that may refer to something else, or that not everybody may use any longer.
//!
//! Names expire: the kernel keeps what it has cached of them, and what is mounted there, and revalidates at the next use.
//! Dropping them, one by one or all at once (the connection's epoch), would detach every mount inside, including in-memory
//! file systems with their data. Nothing is queued per name: a directory is queued once, however often it is reported, and its
//! names are collected when its turn comes.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of queued single names; beyond that, all names of their directories expire.
const SINGLE_NAMES_MAX: usize = 4096;

/// A set of stale cache entries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StaleEntries {
    /// All names, and everything else that is cached.
    pub(crate) everything: bool,
    /// Directories whose names are all stale, by node id.
    pub(crate) directories: HashSet<u64>,
    /// Single stale names, each with its directory.
    pub(crate) names: HashSet<(u64, Box<[u8]>)>,
    /// Nodes with stale attributes and data.
    pub(crate) nodes: HashSet<u64>,
}

/// The queue of stale entries, for the thread that notifies the kernel.
#[derive(Clone, Default)]
pub(crate) struct ExpiryQueue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    stale: StaleEntries,
    /// Number of calls of [`ExpiryQueue::expire`], and how many of them have been taken to notify the kernel.
    requested: u64,
    dequeued: u64,
    /// Notifications in progress, each by the number of the first of these calls that it covers.
    in_progress: BTreeSet<u64>,
    /// Set at the end: nothing more is queued or sent.
    ended: bool,
}

/// A notification in progress; it is complete when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct NotificationInProgress {
    _shared: Arc<CompletionGuard>,
}

struct CompletionGuard {
    from: u64,
    expiry: ExpiryQueue,
}

impl Drop for CompletionGuard {
    fn drop(&mut self) {
        self.expiry.lock().in_progress.remove(&self.from);
        self.expiry.0.changed.notify_all();
    }
}

impl QueueState {
    /// Returns whether the kernel has been notified of this many calls.
    fn is_notified_of(&self, requested: u64) -> bool {
        self.dequeued >= requested && self.in_progress.first().is_none_or(|from| *from >= requested)
    }
}

impl ExpiryQueue {
    /// Queues all names in a directory to expire. Never blocks.
    pub(crate) fn directory(&self, directory: u64) {
        self.expire(|stale| {
            stale.directories.insert(directory);
        });
    }

    /// Queues a name to expire. Never blocks.
    pub(crate) fn name(&self, directory: u64, name: &[u8]) {
        self.expire(|stale| {
            if stale.names.len() < SINGLE_NAMES_MAX {
                stale.names.insert((directory, name.into()));
            } else {
                stale.directories.insert(directory);
            }
        });
    }

    /// Queues a node with stale cached attributes and data. Never blocks.
    pub(crate) fn node(&self, node: u64) {
        self.expire(|stale| {
            stale.nodes.insert(node);
        });
    }

    /// Queues all names to expire, and everything else that is cached. Never blocks.
    pub(crate) fn everything(&self) {
        self.expire(|stale| stale.everything = true);
    }

    fn expire(&self, add: impl FnOnce(&mut StaleEntries)) {
        let mut state = self.lock();
        add(&mut state.stale);
        state.requested += 1;
        self.0.changed.notify_all();
    }

    /// Waits until the kernel has been notified of everything queued before; returns whether that is so within this time. Must
    /// not be called by a thread that serves requests: the kernel may wait for them before it handles the notification.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        let mut state = self.lock();
        let requested = state.requested;
        while !state.is_notified_of(requested) && !state.ended {
            let Some(remaining) = end.checked_duration_since(Instant::now()) else { return false };
            (state, _) = self.0.changed.wait_timeout(state, remaining).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Notifies the kernel of each queued set by `notify`, until the end. A notification is complete once `notify` has
    /// dropped its arguments.
    pub(crate) fn run(&self, notify: impl Fn(StaleEntries, NotificationInProgress)) {
        let mut state = self.lock();
        while !state.ended {
            if state.dequeued == state.requested {
                state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let (stale, from) = (std::mem::take(&mut state.stale), state.dequeued);
            state.dequeued = state.requested;
            state.in_progress.insert(from);
            drop(state);
            notify(stale, NotificationInProgress { _shared: Arc::new(CompletionGuard { from, expiry: self.clone() }) });
            state = self.lock();
        }
    }

    /// Ends the queue, since the mount is gone: no more notifications are needed.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.0.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn queued_entries_are_notified_once_and_awaited() {
        let expiry = ExpiryQueue::default();
        let (sender, notified) = channel();
        for _ in 0..1_000_000 {
            expiry.directory(7);
        }
        for number in 0..2 * SINGLE_NAMES_MAX as u64 {
            expiry.name(8, &number.to_le_bytes());
        }
        assert!(!expiry.wait(Duration::ZERO));
        let thread = std::thread::spawn({
            let expiry = expiry.clone();
            move || expiry.run(|stale, _| sender.send(stale).unwrap())
        });
        assert!(expiry.wait(Duration::from_secs(10)));
        let stale = notified.try_recv().unwrap();
        assert_eq!(stale.directories, HashSet::from([7, 8]));
        assert_eq!((stale.names.len(), stale.everything), (SINGLE_NAMES_MAX, false));
        expiry.everything();
        assert!(expiry.wait(Duration::from_secs(10)));
        assert_eq!(notified.try_recv().unwrap(), StaleEntries { everything: true, ..StaleEntries::default() });
        expiry.end();
        thread.join().unwrap();
        expiry.directory(9);
        assert!(expiry.wait(Duration::ZERO), "nobody waits for a mount that is gone");
    }
}
