//! Revalidation: cached state of objects follows the branches, whether the administrator changes the set of branches or
//! somebody changes the contents of one (Unionfs, section 3.7).

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use vnode::{Caller, Errno, FileKind, Name, Result};

use super::search::LookupResult;
use crate::union::state::instance::Instance;
use crate::union::state::{Node, NodeLocation, ParentEntry, Union};

/// Time after which a directory is looked up again at its location: it may have been created or removed in another branch.
const REVALIDATION_INTERVAL: Duration = Duration::from_secs(1);

/// Time without progress after which another thread revalidates directories in parallel; after a number of such periods the
/// remaining ones are left to revalidate when they are used.
const STALL_TIMEOUT: Duration = Duration::from_millis(100);
const MAX_STALLS: usize = 10;

/// Revalidates these directories while no operation is in progress and none can begin. So nobody waits for those that do not
/// respond, for example because a file server underneath is gone: their threads continue on their own.
pub(crate) fn revalidate_all(directories: Vec<Arc<Node>>) {
    let count = directories.len();
    let left = Arc::new(Mutex::new(directories));
    let (sender, results) = channel();
    let (mut done, mut stalls) = (0, 0);
    spawn_revalidation(&left, &sender);
    while done < count && stalls < MAX_STALLS {
        match results.recv_timeout(STALL_TIMEOUT) {
            Ok(()) => done += 1,
            Err(_) => {
                stalls += 1;
                spawn_revalidation(&left, &sender);
            }
        }
    }
    let rest = std::mem::take(&mut *left.lock().unwrap_or_else(PoisonError::into_inner));
    drop(rest);
}

/// Starts a thread that does this until no directory is left. If it cannot be started, they are revalidated when they are used.
fn spawn_revalidation(left: &Arc<Mutex<Vec<Arc<Node>>>>, sender: &Sender<()>) {
    let (left, sender) = (Arc::clone(left), Sender::clone(sender));
    let next = move || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let revalidate = move || {
        while let Some(directory) = next() {
            // A lost directory reports so when it is used.
            let _ = directory.revalidate();
            directory.invalidate_names();
            // Nobody waits any more for a late result.
            let _ = sender.send(());
        }
    };
    let _ = thread::Builder::new().name("refresh".to_owned()).spawn(revalidate);
}

impl Node {
    /// Revalidates the object after changes of the branches.
    pub(crate) fn revalidate(self: &Arc<Self>) -> Result<()> {
        let is_old = self.kind == FileKind::Directory && self.is_check_due();
        if is_old {
            self.union.check_foreign_changes();
        }
        let now = self.union.branches.generation();
        if self.generation.load(Ordering::Acquire) != now {
            for node in self.stale_ancestors(now).into_iter().rev() {
                match node.look_up_again() {
                    // It is looked up again when it is next used.
                    Err(_) if self.union.failed_branch().is_some() => node.keep_remaining_instances(),
                    result => {
                        result?;
                        node.generation.fetch_max(now, Ordering::AcqRel);
                    }
                }
            }
        } else if is_old {
            match self.look_up_again() {
                // Its cached state is valid until the branch is available again.
                Err(_) if self.union.failed_branch().is_some() => {}
                result => result?,
            }
        }
        if self.is_stale.load(Ordering::Relaxed) || self.union.is_removed() { Err(Errno::ESTALE) } else { Ok(()) }
    }

    /// The ancestors that were not revalidated either, from this one upwards.
    fn stale_ancestors(self: &Arc<Self>, now: u64) -> Vec<Arc<Node>> {
        let mut ancestors = vec![Arc::clone(self)];
        while let Some(NodeLocation::At(above)) = ancestors.last().map(|node| node.location())
            && above.directory.generation.load(Ordering::Acquire) != now
        {
            ancestors.push(above.directory);
        }
        ancestors
    }

    fn is_check_due(&self) -> bool {
        let mut checked = self.last_checked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = checked.elapsed() > REVALIDATION_INTERVAL;
        if is_old {
            *checked = std::time::Instant::now();
        }
        is_old
    }

    /// Looks the object up at its last location.
    fn look_up_again(self: &Arc<Self>) -> Result<()> {
        if self.is_root() {
            let generation = self.union.branches.generation();
            self.set_instances_at(generation, self.union.roots());
            return Ok(());
        }
        while let NodeLocation::At(ParentEntry { directory, stored }) = self.location() {
            let _names = directory.read_guard();
            if !self.was_last_at(&directory, stored.as_name()) {
                // Renamed just now, by a thread that knows its location.
                return Ok(());
            }
            match self.find_at(&directory, stored.as_name()) {
                Ok(Some(found)) => return self.record_found(found),
                Ok(None) => self.record_name_missing(&directory, stored.as_name()),
                Err(error) => return Err(error),
            }
        }
        self.keep_remaining_instances();
        Ok(())
    }

    /// Finds this object by its name, if users still see it there.
    pub(crate) fn find_at(&self, directory: &Arc<Node>, stored: Name<'_>) -> Result<Option<LookupResult>> {
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
            let is_own = |instance: &Instance| own.iter().any(|known| known.is_same(instance));
            self.kind == FileKind::Directory && found.instances.iter().any(is_own)
        };
        Ok((identity.handle == self.identity.handle || shares_instance()).then_some(found))
    }

    /// Records that it is there.
    pub(crate) fn record_found(self: &Arc<Self>, found: LookupResult) -> Result<()> {
        let (natural, names) = self.union.identity(&found.instances, found.kind())?;
        if natural.handle != self.identity.handle {
            // The branch of its identity is gone. While it is in use it keeps its identity.
            self.add_handle(&natural.handle);
        }
        if self.kind == FileKind::Directory {
            self.set_instances_at(found.generation, found.instances);
        } else {
            self.record_revalidated(found.generation, found.instances, names);
        }
        Ok(())
    }

    /// Keeps the instances in the remaining branches of an object without a known name; without any, it is lost.
    fn keep_remaining_instances(&self) {
        let instances = self.instances();
        let left: Vec<Instance> =
            instances.iter().filter_map(|instance| self.union.remaining_instance(instance)).collect();
        if !left.is_empty() {
            self.set_instances(left);
        } else if !self.is_unlinked() {
            self.is_stale.store(true, Ordering::Relaxed);
        }
    }
}

impl Union {
    /// The instance if its branch is still there; if only its layer is gone, the instance in the oldest layer.
    fn remaining_instance(&self, instance: &Instance) -> Option<Instance> {
        if self.branches.position(&instance.member).is_some() {
            return Some(instance.clone());
        }
        let slots = self.branches.slots();
        let layer = slots.iter().rfind(|slot| Arc::ptr_eq(&slot.member.base, &instance.member.base))?;
        Some(Instance { member: Arc::clone(&layer.member), ..instance.clone() })
    }
}
