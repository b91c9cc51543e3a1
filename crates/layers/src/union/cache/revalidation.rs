//! Revalidation: cached state of objects follows the branches, whether the administrator changes the set of branches or
//! somebody changes the contents of one (Unionfs, section 3.7).

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLockReadGuard};
use std::thread;
use std::time::Duration;

use vnode::{Caller, Errno, FileKind, Name, Result, VnodeRef};

use crate::union::branch::branches::Member;
use crate::union::branch::lease::{LEASED, Patience};
use crate::union::node::{Above, Instance, Node, Whereabouts};
use crate::union::operations::lookup::Found;
use crate::union::state::Union;

/// Time after which a directory is looked up again at its location: it may have been created or removed in another branch.
const BELIEVED: Duration = Duration::from_secs(1);

/// Time without progress after which another thread revalidates directories in parallel; after a number of such periods the
/// remaining ones are left to revalidate when they are used.
const SILENCE: Duration = Duration::from_millis(100);
const SILENCES_MAX: usize = 10;

/// Revalidates these directories while no operation is in progress and none can begin. So nobody waits for those that do not
/// respond, for example because a file server underneath is gone: their threads continue on their own.
pub(crate) fn refresh_all(directories: Vec<Arc<Node>>) {
    let count = directories.len();
    let left = Arc::new(Mutex::new(directories));
    let (sender, learnt) = channel();
    let (mut done, mut silences) = (0, 0);
    start_refreshing(&left, &sender);
    while done < count && silences < SILENCES_MAX {
        match learnt.recv_timeout(SILENCE) {
            Ok(()) => done += 1,
            Err(_) => {
                silences += 1;
                start_refreshing(&left, &sender);
            }
        }
    }
    let rest = std::mem::take(&mut *left.lock().unwrap_or_else(PoisonError::into_inner));
    drop(rest);
}

/// Starts a thread that does this until no directory is left. If it cannot be started, they are revalidated when they are used.
fn start_refreshing(left: &Arc<Mutex<Vec<Arc<Node>>>>, sender: &Sender<()>) {
    let (left, sender) = (Arc::clone(left), Sender::clone(sender));
    let next = move || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let refresh = move || {
        while let Some(directory) = next() {
            // A lost directory reports so when it is used.
            let _ = directory.refresh();
            directory.forget_names();
            // Nobody waits any more for a late result.
            let _ = sender.send(());
        }
    };
    let _ = thread::Builder::new().name("refresh".to_owned()).spawn(refresh);
}

impl Union {
    /// Begins an operation: the set of branches stays the same until the result is dropped. Must not be called by a holder of
    /// an operation guard.
    pub(crate) fn steady(&self) -> RwLockReadGuard<'_, ()> {
        self.family.read()
    }
}

impl Node {
    /// Begins an operation on the object.
    ///
    /// # Errors
    /// `ESTALE` if it was in a branch that has been removed.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<RwLockReadGuard<'_, ()>> {
        let steady = self.union.steady();
        self.refresh()?;
        Ok(steady)
    }

    /// Runs a read-only operation.
    pub(crate) fn reading<T>(self: &Arc<Self>, read: impl FnOnce(&Arc<Self>) -> Result<T>) -> Result<T> {
        self.begin().and_then(|_steady| read(self)).map_err(|error| self.judged(error))
    }

    /// Runs an operation that changes something. If a branch turns out to have become read-only, runs it once more with the
    /// branch treated as if it had been configured so (Unionfs, section 2).
    pub(crate) fn changing<T>(self: &Arc<Self>, change: impl Fn(&Arc<Self>) -> Result<T>) -> Result<T> {
        self.changing_within(Patience::of_one(), change)
    }

    /// Like [`Node::changing`], with another bound on the wait for a conflicting lease.
    pub(crate) fn changing_within<T>(
        self: &Arc<Self>,
        mut patience: Patience,
        change: impl Fn(&Arc<Self>) -> Result<T>,
    ) -> Result<T> {
        loop {
            self.union.recover_late();
            self.union.follow_others();
            let changed = self.begin().and_then(|_steady| change(self));
            match changed {
                Err(Errno::EROFS) if self.union.learn_what_is_read_only() => {}
                Err(LEASED) => patience.wait()?,
                changed => return changed.map_err(|error| self.judged(error)),
            }
        }
    }

    /// Revalidates the object after changes of the branches.
    pub(crate) fn refresh(self: &Arc<Self>) -> Result<()> {
        let is_old = self.kind == FileKind::Directory && self.has_grown_old();
        if is_old {
            self.union.look_at_others();
        }
        let now = self.union.branches.generation();
        if self.generation.load(Ordering::Acquire) != now {
            for node in self.way_to_current(now).into_iter().rev() {
                match node.follow() {
                    // It is looked up again when it is next used.
                    Err(_) if self.union.failed_branch().is_some() => node.keep_what_is_left(),
                    followed => {
                        followed?;
                        node.generation.fetch_max(now, Ordering::AcqRel);
                    }
                }
            }
        } else if is_old {
            match self.follow() {
                // Its cached state is valid until the branch is available again.
                Err(_) if self.union.failed_branch().is_some() => {}
                followed => followed?,
            }
        }
        if self.is_stale.load(Ordering::Relaxed) || self.union.is_removed() { Err(Errno::ESTALE) } else { Ok(()) }
    }

    /// The ancestors that were not revalidated either, from this one upwards.
    fn way_to_current(self: &Arc<Self>, now: u64) -> Vec<Arc<Node>> {
        let mut way = vec![Arc::clone(self)];
        while let Some(Whereabouts::At(above)) = way.last().map(|node| node.whereabouts())
            && above.directory.generation.load(Ordering::Acquire) != now
        {
            way.push(above.directory);
        }
        way
    }

    fn has_grown_old(&self) -> bool {
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = checked.elapsed() > BELIEVED;
        if is_old {
            *checked = std::time::Instant::now();
        }
        is_old
    }

    /// Looks the object up at its last location.
    fn follow(self: &Arc<Self>) -> Result<()> {
        if self.is_root() {
            let generation = self.union.branches.generation();
            self.set_found(generation, self.union.roots());
            return Ok(());
        }
        while let Whereabouts::At(Above { directory, stored }) = self.whereabouts() {
            let _names = directory.shared();
            if !self.was_at(&directory, stored.as_name()) {
                // Renamed just now, by a thread that knows its location.
                return Ok(());
            }
            match self.find_again(&directory, stored.as_name()) {
                Ok(Some(found)) => return self.is_found(found),
                Ok(None) => self.is_missed_at(&directory, stored.as_name()),
                Err(error) => return Err(error),
            }
        }
        self.keep_what_is_left();
        Ok(())
    }

    /// Finds this object by its name, if users still see it there.
    pub(crate) fn find_again(&self, directory: &Arc<Node>, stored: Name<'_>) -> Result<Option<Found>> {
        let found = match directory.search(&Caller::server(), stored) {
            Ok(search) => search.found,
            Err(Errno::ENOTDIR | Errno::ESTALE) => None,
            Err(error) => return Err(error),
        };
        let Some(found) =
            found.filter(|found| (found.kind() == FileKind::Directory) == (self.kind == FileKind::Directory))
        else {
            return Ok(None);
        };
        let (identity, _) = self.union.identity(&found.instances, found.kind())?;
        let shares_instance = || {
            let own = self.instances();
            let is_own = |place: &Instance| own.iter().any(|known| known.is_same(place));
            self.kind == FileKind::Directory && found.instances.iter().any(is_own)
        };
        Ok((identity.handle == self.identity.handle || shares_instance()).then_some(found))
    }

    /// Records that it is there.
    pub(crate) fn is_found(self: &Arc<Self>, found: Found) -> Result<()> {
        let (natural, names) = self.union.identity(&found.instances, found.kind())?;
        if natural.handle != self.identity.handle {
            // The branch of its identity is gone. While it is in use it keeps its identity.
            self.union.table.add_name(&natural.handle, self);
        }
        if self.kind == FileKind::Directory {
            self.set_found(found.generation, found.instances);
        } else {
            self.is_again(found.generation, found.instances, names);
        }
        Ok(())
    }

    /// Keeps the instances in the remaining branches of an object without a known name; without any, it is lost.
    fn keep_what_is_left(&self) {
        let instances = self.instances();
        let left: Vec<Instance> = instances.iter().filter_map(|place| self.union.left_of(place)).collect();
        if !left.is_empty() {
            self.set_instances(left);
        } else if !self.is_nameless() {
            self.is_stale.store(true, Ordering::Relaxed);
        }
    }
}

impl Union {
    /// The instance if its branch is still there; if only its layer is gone, the instance in the oldest layer.
    fn left_of(&self, place: &Instance) -> Option<Instance> {
        if self.branches.position(&place.member).is_some() {
            return Some(place.clone());
        }
        let slots = self.branches.slots();
        let layer = slots.iter().rfind(|slot| Arc::ptr_eq(&slot.member.base, &place.member.base))?;
        Some(Instance { member: Arc::clone(&layer.member), ..place.clone() })
    }
}

impl Instance {
    /// Returns whether both are the same object of the same branch.
    pub(crate) fn is_same(&self, other: &Instance) -> bool {
        self.is(&other.member, &other.vnode)
    }

    /// Returns whether it is that object of that branch.
    pub(crate) fn is(&self, member: &Arc<Member>, vnode: &VnodeRef) -> bool {
        Arc::ptr_eq(&self.member, member) && self.vnode.handle() == vnode.handle()
    }
}
