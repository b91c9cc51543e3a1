//! Cache of directories found by listings: a process that lists a directory usually descends into its subdirectories, and
//! finding one again in many branches is expensive. They are kept for a moment.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use vnode::{AccessMode, Attributes, Caller, Name, Result};

use crate::union::identity::hash;
use crate::union::node::Node;

/// Maximum number of cached directories.
const KEPT_MAX: usize = 256;
/// Time after which they are looked up again.
const BELIEVED: Duration = Duration::from_secs(1);

/// The most recently found directories.
#[derive(Default)]
pub(crate) struct Recent {
    /// Whether the cache is on. It must be emptied in the end: it keeps the union alive, which keeps the cache.
    is_on: AtomicBool,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    found: HashMap<Place, Found>,
    /// Order of insertion.
    order: VecDeque<Place>,
}

/// Address of the parent, and hash of the name in it.
type Place = (usize, u64);

struct Found {
    node: Arc<Node>,
    /// The parent's change counter when it was found.
    changed: u64,
    when: Instant,
}

impl Recent {
    /// Turns the cache on.
    pub(crate) fn begin(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Empties the cache.
    pub(crate) fn forget(&self) {
        let kept = std::mem::take(&mut *self.kept());
        // Vnodes end here, which may take locks.
        drop(kept);
    }

    /// Empties the cache, and turns it off.
    pub(crate) fn end(&self) {
        self.is_on.store(false, Ordering::Relaxed);
        self.forget();
    }

    fn keep(&self, place: Place, found: Found) {
        let mut gone = Vec::new();
        {
            let Kept { found: known, order } = &mut *self.kept();
            while let Some(oldest) = order.front()
                && (order.len() >= KEPT_MAX || known.get(oldest).is_none_or(|found| !found.is_believed()))
            {
                gone.extend(known.remove(oldest));
                order.pop_front();
            }
            match known.insert(place, found) {
                Some(before) => gone.push(before),
                None => order.push_back(place),
            }
        }
        drop(gone);
    }

    fn get(&self, place: Place, changed: u64) -> Option<Arc<Node>> {
        if !self.is_on() {
            return None;
        }
        let kept = self.kept();
        let found = kept.found.get(&place).filter(|found| found.changed == changed && found.is_believed())?;
        Some(Arc::clone(&found.node))
    }

    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Found {
    fn is_believed(&self) -> bool {
        self.when.elapsed() < BELIEVED
    }
}

impl Node {
    /// Caches a directory that was found here. The caller holds the lock.
    pub(crate) fn keep_recent(self: &Arc<Self>, stored: Name<'_>, node: Arc<Node>) {
        if !self.union.recent.is_on() {
            return;
        }
        let found = Found { node, changed: self.changed(), when: Instant::now() };
        self.union.recent.keep(self.place_of(stored), found);
    }

    /// A directory that was found here a moment ago, if nothing has changed. The caller holds the lock.
    pub(crate) fn recent(
        self: &Arc<Self>,
        caller: &Caller,
        stored: Name<'_>,
    ) -> Result<Option<(Arc<Node>, Attributes)>> {
        let Some(node) = self.union.recent.get(self.place_of(stored), self.changed()) else { return Ok(None) };
        if !node.was_at(self, stored) || node.generation.load(Ordering::Acquire) != self.union.branches.generation() {
            return Ok(None);
        }
        if !caller.is_superuser() {
            self.leftmost().vnode.access(caller, AccessMode::EXECUTE)?;
        }
        let attributes = node.leftmost().vnode.getattr(&Caller::server())?;
        Ok((attributes.nlink > 0).then_some((node, attributes)))
    }

    fn place_of(self: &Arc<Self>, stored: Name<'_>) -> Place {
        (Arc::as_ptr(self) as usize, hash(stored.as_bytes()))
    }
}
