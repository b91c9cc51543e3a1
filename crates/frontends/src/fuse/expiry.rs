//! Expiry: having the kernel ask again for names that may mean something else, or that not everybody may use any more.
//!
//! Names expire: the kernel keeps what it has of them, and what is mounted there, and asks at the next use. To drop them, one
//! by one or all at once (the connection's epoch), would detach every mount inside, with the data of those in memory. Nothing is
//! queued for each name: a directory waits once, however often it is told of, and its names are taken when its turn comes.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Single names that wait at a time; beyond, all names of their directories expire.
const SINGLE_NAMES_MAX: usize = 4096;

/// What is to expire.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stale {
    /// All names, and whatever else is cached.
    pub(crate) everything: bool,
    /// All names in these directories, by their node ids.
    pub(crate) directories: HashSet<u64>,
    /// Single names, with their directories.
    pub(crate) names: HashSet<(u64, Box<[u8]>)>,
    /// Attributes and data of these nodes.
    pub(crate) nodes: HashSet<u64>,
}

/// What waits to expire, for the thread that tells the kernel.
#[derive(Clone, Default)]
pub(crate) struct Expiry(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    stale: Stale,
    /// Calls of [`Expiry::expire`] so far, and how many of them have been taken to tell the kernel.
    asked: u64,
    taken: u64,
    /// What is being told: from which of these calls on.
    under_way: BTreeSet<u64>,
    /// No more will come, or be told.
    ended: bool,
}

/// That the kernel is being told of what was stale; it has been when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct UnderWay {
    _shared: Arc<Told>,
}

struct Told {
    from: u64,
    expiry: Expiry,
}

impl Drop for Told {
    fn drop(&mut self) {
        self.expiry.lock().under_way.remove(&self.from);
        self.expiry.0.changed.notify_all();
    }
}

impl Waiting {
    /// Whether the kernel has been told of so many calls.
    fn has_told(&self, asked: u64) -> bool {
        self.taken >= asked && self.under_way.first().is_none_or(|from| *from >= asked)
    }
}

impl Expiry {
    /// All names in a directory are to expire. Never waits.
    pub(crate) fn directory(&self, directory: u64) {
        self.expire(|stale| {
            stale.directories.insert(directory);
        });
    }

    /// A name is to expire. Never waits.
    pub(crate) fn name(&self, directory: u64, name: &[u8]) {
        self.expire(|stale| {
            if stale.names.len() < SINGLE_NAMES_MAX {
                stale.names.insert((directory, name.into()));
            } else {
                stale.directories.insert(directory);
            }
        });
    }

    /// What the kernel has of a node is stale, and of its data. Never waits.
    pub(crate) fn node(&self, node: u64) {
        self.expire(|stale| {
            stale.nodes.insert(node);
        });
    }

    /// All names are to expire, and all that is cached beside. Never waits.
    pub(crate) fn everything(&self) {
        self.expire(|stale| stale.everything = true);
    }

    fn expire(&self, note: impl FnOnce(&mut Stale)) {
        let mut waiting = self.lock();
        note(&mut waiting.stale);
        waiting.asked += 1;
        self.0.changed.notify_all();
    }

    /// Waits until the kernel has been told of all that was to expire before: whether that is so within this time. Not to be
    /// called by a thread that serves requests: the kernel may wait for them before it listens.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        let mut waiting = self.lock();
        let asked = waiting.asked;
        while !waiting.has_told(asked) && !waiting.ended {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return false };
            (waiting, _) = self.0.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Tells the kernel by `tell` of whatever comes, until the end. It has been told when `tell` has dropped what it gets.
    pub(crate) fn run(&self, tell: impl Fn(Stale, UnderWay)) {
        let mut waiting = self.lock();
        while !waiting.ended {
            if waiting.taken == waiting.asked {
                waiting = self.0.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let (stale, from) = (std::mem::take(&mut waiting.stale), waiting.taken);
            waiting.taken = waiting.asked;
            waiting.under_way.insert(from);
            drop(waiting);
            tell(stale, UnderWay { _shared: Arc::new(Told { from, expiry: self.clone() }) });
            waiting = self.lock();
        }
    }

    /// The mount is gone: nothing has to be told any more.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.0.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn what_waits_is_told_once_and_waited_for() {
        let expiry = Expiry::default();
        let (teller, told) = channel();
        for _ in 0..1_000_000 {
            expiry.directory(7);
        }
        for number in 0..2 * SINGLE_NAMES_MAX as u64 {
            expiry.name(8, &number.to_le_bytes());
        }
        assert!(!expiry.wait(Duration::ZERO));
        let thread = std::thread::spawn({
            let expiry = expiry.clone();
            move || expiry.run(|stale, _| teller.send(stale).unwrap())
        });
        assert!(expiry.wait(Duration::from_secs(10)));
        let stale = told.try_recv().unwrap();
        assert_eq!(stale.directories, HashSet::from([7, 8]));
        assert_eq!((stale.names.len(), stale.everything), (SINGLE_NAMES_MAX, false));
        expiry.everything();
        assert!(expiry.wait(Duration::from_secs(10)));
        assert_eq!(told.try_recv().unwrap(), Stale { everything: true, ..Stale::default() });
        expiry.end();
        thread.join().unwrap();
        expiry.directory(9);
        assert!(expiry.wait(Duration::ZERO), "nobody waits for a mount that is gone");
    }
}
