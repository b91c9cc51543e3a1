//! A fan-out and its objects: which branch objects an object has, and how a read or a change reaches them.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use super::handle::{inode_number, is_digest, of_branch};
use super::health::{BranchHealth, is_of_storage};
use super::routing::{Changes, Routing};
use crate::{
    Attributes, Caller, Entry, Errno, FileSystemRef, Handle, KeyedGuard, KeyedLocks, LiveTable, Name, Notifier,
    Notifiers, Result, VnodeRef,
};

/// Branch objects of an object, by branch.
pub(crate) type BranchObjects = Vec<Option<VnodeRef>>;

/// Branch that a read is tried in first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOrder {
    /// The primary one: for what differs between branches, such as inode numbers, times and cookies.
    PrimaryFirst,
    /// The one that the routing chooses: for what is the same in all.
    Routed,
}

/// Results of a change by branch, and the lock on the object, under which they are used.
pub(crate) type ChangeResults<'a, T> = (Vec<Option<T>>, Option<KeyedGuard<'a, Handle>>);

/// Several file systems as one.
pub(crate) struct FanOut {
    pub(crate) branches: Vec<FileSystemRef>,
    pub(crate) routing: Box<dyn Routing>,
    pub(crate) health: BranchHealth,
    /// Live objects, so that all references to an object see the same branch objects. Where all branches have the same objects, by
    /// the handle of each branch object.
    pub(crate) live: LiveTable<Handle, FanOutVnode>,
    /// Locks of objects that are changed in several branches, so that all branches see the changes in one order.
    pub(crate) locks: KeyedLocks<Handle>,
    /// Read-locked while a name is made; write-locked while one is removed, moved or made for an object that has one already,
    /// since what else may be done in between depends on which names there are; and while branch objects are looked up by path.
    pub(crate) names: KeyedLocks<()>,
    /// Held while an object is entered by several handles.
    pub(crate) entering: Mutex<()>,
    /// Held while a branch becomes a failed one.
    pub(crate) failing: Mutex<()>,
    /// Whether objects have handles that are not valid after a restart.
    pub(crate) has_digests: AtomicBool,
    /// Receivers of notifications.
    pub(crate) notifiers: Arc<Notifiers>,
    /// The receivers of each branch's notifications, once there are receivers above.
    pub(crate) branch_notifiers: OnceLock<Vec<Arc<dyn Notifier>>>,
}

/// An object of a fan-out.
pub struct FanOutVnode {
    /// This vnode.
    this: Weak<Self>,
    pub(crate) fan_out: Arc<FanOut>,
    primary: usize,
    pub(crate) handle: Handle,
    /// Its primary branch object, which never changes.
    object: VnodeRef,
    objects: RwLock<BranchObjects>,
    /// Number of changes that are made, but not in all branches yet.
    changes: AtomicUsize,
    /// Set if the primary branch object was read since the object was last changed: times are its times.
    was_read: AtomicBool,
}

impl FanOut {
    /// Returns the object of these branch objects: the live one if it exists, with the branch objects known now. Where all branches
    /// have the same objects, it may have another primary branch, in which it was not found this time.
    pub(crate) fn node(self: &Arc<Self>, primary: usize, objects: BranchObjects) -> Result<Arc<FanOutVnode>> {
        if !self.changes_all() {
            return self.node_of_primary(primary, objects);
        }
        let found = self.live_of(&objects);
        let entering = || self.entering.lock().unwrap_or_else(PoisonError::into_inner);
        let _entering = found.is_none().then(entering);
        match found.or_else(|| self.live_of(&objects)) {
            Some(node) => {
                if node.learn(objects) {
                    node.enter_in_table();
                }
                Ok(node)
            }
            None => {
                let node = self.node_of_primary(primary, objects)?;
                node.enter_in_table();
                Ok(node)
            }
        }
    }

    /// Returns the live object that has one of these branch objects, and no other in any branch.
    fn live_of(&self, objects: &[Option<VnodeRef>]) -> Option<Arc<FanOutVnode>> {
        branch_handles(objects).find_map(|handle| self.live.find(&handle).filter(|live| live.may_have(objects)))
    }

    fn node_of_primary(self: &Arc<Self>, primary: usize, objects: BranchObjects) -> Result<Arc<FanOutVnode>> {
        let object = objects.get(primary).cloned().flatten().ok_or(Errno::ENOENT)?;
        let handle = of_branch(primary, &object.handle());
        if is_digest(&handle) {
            self.has_digests.store(true, Ordering::Relaxed);
        }
        let node = self.live.find_or_insert(&handle, || {
            let (fan_out, object) = (Arc::clone(self), Arc::clone(&object));
            let new = |this: &Weak<FanOutVnode>| FanOutVnode {
                this: Weak::clone(this),
                fan_out,
                primary,
                handle,
                object,
                objects: RwLock::new(objects.clone()),
                changes: AtomicUsize::new(0),
                was_read: AtomicBool::new(false),
            };
            Arc::new_cyclic(new)
        });
        node.learn(objects);
        Ok(node)
    }

    /// Returns whether changes are made in all branches.
    pub(crate) fn changes_all(&self) -> bool {
        self.routing.changes() == Changes::InAll
    }

    /// Returns the branch objects of an object, including those at its path in the other branches.
    ///
    /// # Errors
    /// `ESTALE` if all branches have to have it and its path is not known.
    pub(crate) fn objects_at_path_of(&self, primary: usize, object: &VnodeRef) -> Result<BranchObjects> {
        let _names = self.changes_all().then(|| self.names.write(()));
        let mut objects = vec![None; self.branches.len()];
        let path = object.path();
        if self.changes_all() && path.is_err() {
            return Err(Errno::ESTALE);
        }
        if let Ok(path) = path {
            for branch in self.health.healthy().filter(|branch| *branch != primary) {
                let found = look_up_path(self.branches[branch].root(), &path);
                objects[branch] = found.ok().filter(|found| found.kind() == object.kind());
            }
        }
        objects[primary] = Some(Arc::clone(object));
        Ok(objects)
    }

    /// Records that a branch refused a change that another has made. The last healthy branch stays what it is.
    fn fail(&self, branch: usize, error: Errno) {
        let _failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.health.has_failed(branch) && self.health.healthy().any(|other| other != branch) {
            // Before anybody is told that a change is made which this branch does not have.
            self.routing.branch_failed(branch, error, &self.health);
            self.health.fail(branch);
        }
    }

    /// Makes a change of several subjects, such as branch objects or open files: in each healthy branch, or only in the
    /// primary branch. Once it is made in one branch, it is made in the others whether the caller is cancelled or not.
    ///
    /// # Errors
    /// That of the first branch; nothing has changed then in a branch that is used further.
    pub(crate) fn change<S, T>(
        &self,
        caller: &Caller,
        primary: usize,
        subjects: &[Option<S>],
        change: impl Fn(&Caller, usize, &S) -> Result<T>,
    ) -> Result<Vec<Option<T>>> {
        self.change_or(caller, primary, subjects, change, |_, _, error| Err(error))
    }

    /// Makes a change as [`FanOut::change`]. Where another branch has made it, and this process goes on lacking resources for it,
    /// `instead` is done, which has the error.
    pub(crate) fn change_or<S, T>(
        &self,
        caller: &Caller,
        primary: usize,
        subjects: &[Option<S>],
        change: impl Fn(&Caller, usize, &S) -> Result<T>,
        instead: impl Fn(&Caller, &S, Errno) -> Result<T>,
    ) -> Result<Vec<Option<T>>> {
        if !self.changes_all() {
            let subject = subjects[primary].as_ref().ok_or(Errno::ESTALE)?;
            return self.change_primary(caller, primary, subject, change);
        }
        let uncancelled = caller.uncancelled();
        let attempt = |branch: usize, subject: &S, is_made: bool| {
            let caller = if is_made { &uncancelled } else { caller };
            let attempt = || self.health.measure(branch, || change(caller, branch, subject));
            if !is_made {
                return attempt();
            }
            match patiently(attempt) {
                Err(error) if is_transient(error) => instead(caller, subject, error),
                made => made,
            }
        };
        // Storage that is broken does not keep the others from making the change.
        self.in_each(self.health.healthy(), subjects, attempt, |error, is_made| is_made || is_of_storage(error))
    }

    /// Makes a change of the primary branch's subject only.
    fn change_primary<S, T>(
        &self,
        caller: &Caller,
        primary: usize,
        subject: &S,
        change: impl FnOnce(&Caller, usize, &S) -> Result<T>,
    ) -> Result<Vec<Option<T>>> {
        let mut results: Vec<Option<T>> = self.branches.iter().map(|_| None).collect();
        results[primary] = Some(change(caller, primary, subject)?);
        Ok(results)
    }

    /// Has written data stored in every healthy branch that has a subject, whatever the others answer: a branch that fails in it,
    /// unlike another, lacks what is to be stored. Once it is stored in one branch, it is stored in the others whether the caller
    /// is cancelled or not.
    ///
    /// # Errors
    /// The first, if all fail; that of a cancelled caller, or of a process that lacks resources.
    pub(crate) fn store<S>(
        &self,
        caller: &Caller,
        subjects: &[Option<S>],
        store: impl Fn(&Caller, &S) -> Result<()>,
    ) -> Result<()> {
        let uncancelled = caller.uncancelled();
        let attempt = |_, subject: &S, is_stored| match is_stored {
            true => patiently(|| store(&uncancelled, subject)),
            false => store(caller, subject),
        };
        let branches = self.health.healthy().filter(|branch| subjects[*branch].is_some());
        // A cancelled caller, or a process without resources, says nothing about the branch.
        self.in_each(branches, subjects, attempt, |error, is_stored| is_stored || !is_transient(error)).map(drop)
    }

    /// Opens several subjects, which changes nothing: in every healthy branch, or in none.
    ///
    /// # Errors
    /// The first that is not of broken storage; of broken storage, if no branch can be opened.
    pub(crate) fn open<S, T>(&self, subjects: &[Option<S>], open: impl Fn(&S) -> Result<T>) -> Result<Vec<Option<T>>> {
        self.in_each(self.health.healthy(), subjects, |_, subject, _| open(subject), |error, _| is_of_storage(error))
    }

    /// Attempts something in each of these branches, and continues after tolerable errors. Both functions learn whether it has
    /// succeeded in another branch. If it has succeeded in any, those with errors fail: they lack what that one has.
    ///
    /// # Errors
    /// The first that is not tolerable; the first of all if there is no success in a branch that is used further.
    fn in_each<S, T>(
        &self,
        branches: impl Iterator<Item = usize>,
        subjects: &[Option<S>],
        attempt: impl Fn(usize, &S, bool) -> Result<T>,
        is_tolerable: impl Fn(Errno, bool) -> bool,
    ) -> Result<Vec<Option<T>>> {
        let mut results: Vec<Option<T>> = subjects.iter().map(|_| None).collect();
        let (mut has_succeeded, mut failures) = (false, Vec::new());
        for branch in branches.collect::<Vec<_>>() {
            let subject = subjects[branch].as_ref().ok_or(Errno::ESTALE);
            match subject.and_then(|subject| attempt(branch, subject, has_succeeded)) {
                Ok(result) => {
                    results[branch] = Some(result);
                    has_succeeded = true;
                }
                Err(error) if is_tolerable(error, has_succeeded) => failures.push((branch, error)),
                Err(error) => {
                    // Those may have done it all the same, and this one has not.
                    failures.into_iter().for_each(|(branch, error)| self.fail(branch, error));
                    return Err(error);
                }
            }
        }
        let first = failures.first().map_or(Errno::EIO, |(_, error)| *error);
        if has_succeeded {
            failures.into_iter().for_each(|(branch, error)| self.fail(branch, error));
        }
        // Another change may have made those fail that have this one, and then not the others.
        let is_kept = |(branch, result): (usize, &Option<T>)| result.is_some() && !self.health.has_failed(branch);
        if results.iter().enumerate().any(is_kept) { Ok(results) } else { Err(first) }
    }

    /// Reads from one of several subjects, and from another if its storage is broken.
    pub(crate) fn read<S, T>(
        &self,
        primary: usize,
        order: ReadOrder,
        subjects: &[Option<S>],
        mut read: impl FnMut(usize, &S) -> Result<T>,
    ) -> Result<T> {
        if !self.changes_all() {
            return read(primary, subjects[primary].as_ref().ok_or(Errno::ESTALE)?);
        }
        let mut candidates: Vec<usize> = self.health.healthy().filter(|branch| subjects[*branch].is_some()).collect();
        let mut failure = Errno::EIO;
        while !candidates.is_empty() {
            let branch = match order {
                ReadOrder::PrimaryFirst if candidates.contains(&primary) => primary,
                ReadOrder::PrimaryFirst => candidates[0],
                ReadOrder::Routed => self.routing.reads_from(&candidates, &self.health),
            };
            let branch = if candidates.contains(&branch) { branch } else { candidates[0] };
            let subject = subjects[branch].as_ref().ok_or(Errno::EIO)?;
            match self.health.measure(branch, || read(branch, subject)) {
                Err(error) if is_of_storage(error) => failure = error,
                result => return result,
            }
            candidates.retain(|candidate| *candidate != branch);
        }
        Err(failure)
    }
}

/// Number of attempts, and the time between two, at a change that other branches have made already.
const ATTEMPTS: u32 = 100;
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Returns whether the error is due to the caller or to resources that this process lacks, and not to a branch.
pub(crate) fn is_transient(error: Errno) -> bool {
    matches!(error, Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::EINTR | Errno::EAGAIN)
}

/// Tries again where this process lacks resources for a moment.
fn patiently<T>(attempt: impl Fn() -> Result<T>) -> Result<T> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(error) if is_transient(error) => std::thread::sleep(RETRY_INTERVAL),
            result => return result,
        }
    }
    attempt()
}

/// Returns the handles that an object has by each of its branch objects.
fn branch_handles(objects: &[Option<VnodeRef>]) -> impl Iterator<Item = Handle> {
    let by_branch = objects.iter().enumerate();
    by_branch.filter_map(|(branch, object)| Some(of_branch(branch, &object.as_ref()?.handle())))
}

/// Returns the object at a path, a symlink itself.
fn look_up_path(root: VnodeRef, path: &[u8]) -> Result<VnodeRef> {
    let server = Caller::server();
    path.split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
        .try_fold(root, |at, name| Ok(at.lookup(&server, Name::new(name)?)?.vnode))
}

impl FanOutVnode {
    /// Returns this vnode as an object of a fan-out; `None` if it is none.
    pub fn of(vnode: &VnodeRef) -> Option<&Self> {
        vnode.as_any().downcast_ref()
    }

    /// Returns the index of the branch of the primary branch object.
    pub fn primary(&self) -> usize {
        self.primary
    }

    /// Returns the primary branch object.
    pub fn primary_object(&self) -> &VnodeRef {
        &self.object
    }

    /// Returns the branch objects by branch, `None` where the branch has none.
    pub fn branch_objects(&self) -> Vec<Option<VnodeRef>> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the branch object in a branch as an object of the fan-out, with that branch as its primary one; this object where
    /// all branches have the same objects.
    pub fn in_branch(&self, branch: usize) -> Option<VnodeRef> {
        let node: VnodeRef = self.fan_out.node(branch, self.branch_objects()).ok()?;
        Some(node)
    }

    /// Returns the health of the branches.
    pub fn health(&self) -> &BranchHealth {
        &self.fan_out.health
    }

    /// Returns a shared reference to this vnode.
    ///
    /// # Errors
    /// `ESTALE` if it is being dropped.
    pub(crate) fn shared(&self) -> Result<Arc<Self>> {
        self.this.upgrade().ok_or(Errno::ESTALE)
    }

    /// Replaces what is known of the branch objects. Where all branches have them, one that was not found this time is kept.
    /// Returns whether one was found in a branch in which none was known.
    fn learn(&self, mut objects: BranchObjects) -> bool {
        let mut known = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        let finds_more = objects.iter().zip(known.iter()).any(|(new, old)| new.is_some() && old.is_none());
        if self.fan_out.changes_all() {
            objects.iter_mut().zip(known.iter()).for_each(|(new, old)| *new = new.take().or_else(|| old.clone()));
        }
        let old = std::mem::replace(&mut *known, objects);
        // Not under the lock: dropping a vnode may take its time.
        drop(known);
        drop(old);
        finds_more
    }

    /// Enters this object by the handle of each branch object, so that it is found where its primary one is not.
    fn enter_in_table(self: &Arc<Self>) {
        branch_handles(&self.branch_objects()).for_each(|handle| self.fan_out.live.insert(handle, self));
    }

    /// Returns whether these may be its branch objects: in no branch another is known.
    fn may_have(&self, objects: &[Option<VnodeRef>]) -> bool {
        let is_same = |pair: (&Option<VnodeRef>, &Option<VnodeRef>)| match pair {
            (Some(known), Some(object)) => known.handle() == object.handle(),
            _ => true,
        };
        self.branch_objects().iter().zip(objects).all(is_same)
    }

    /// Returns the branch objects of another object of this fan-out.
    ///
    /// # Errors
    /// `EXDEV` for any other vnode.
    pub(crate) fn objects_of(&self, other: &VnodeRef) -> Result<BranchObjects> {
        match Self::of(other) {
            Some(other) if Arc::ptr_eq(&self.fan_out, &other.fan_out) => Ok(other.branch_objects()),
            _ => Err(Errno::EXDEV),
        }
    }

    /// Reads from one of the branch objects.
    pub(crate) fn read<T>(&self, order: ReadOrder, mut read: impl FnMut(usize, &VnodeRef) -> Result<T>) -> Result<T> {
        if !self.fan_out.changes_all() {
            return read(self.primary, &self.object);
        }
        self.fan_out.read(self.primary, self.order(order), &self.branch_objects(), read)
    }

    /// Changes the branch objects. The lock is held until the result is dropped.
    pub(crate) fn change<T>(
        &self,
        caller: &Caller,
        change: impl Fn(&Caller, usize, &VnodeRef) -> Result<T>,
    ) -> Result<ChangeResults<'_, T>> {
        let guard = self.lock(caller)?;
        Ok((self.change_locked(caller, change)?, guard))
    }

    /// Changes the branch objects. The caller holds the lock.
    pub(crate) fn change_locked<T>(
        &self,
        caller: &Caller,
        change: impl Fn(&Caller, usize, &VnodeRef) -> Result<T>,
    ) -> Result<Vec<Option<T>>> {
        if !self.fan_out.changes_all() {
            return self.fan_out.change_primary(caller, self.primary, &self.object, change);
        }
        let _change = self.begin_change();
        self.fan_out.change(caller, self.primary, &self.branch_objects(), change)
    }

    /// Returns the branch to read data in: first the primary one, whose access time is shown, then whichever is fastest. The
    /// access time is then as with `relatime` of mount(8): no earlier than the last change that was followed by a read.
    pub(crate) fn order_of_data(&self) -> ReadOrder {
        match self.was_read.swap(true, Ordering::Relaxed) {
            true => ReadOrder::Routed,
            false => ReadOrder::PrimaryFirst,
        }
    }

    /// Returns the branch for a read that would go to this one: while a change is made, the primary one, since attributes are
    /// its attributes, and what they show must be there to be read.
    pub(crate) fn order(&self, order: ReadOrder) -> ReadOrder {
        if self.changes.load(Ordering::Acquire) > 0 { ReadOrder::PrimaryFirst } else { order }
    }

    /// Begins a change of the object in several branches, which ends when the result is dropped.
    pub(crate) fn begin_change(&self) -> ChangeInProgress<'_> {
        self.changes.fetch_add(1, Ordering::AcqRel);
        ChangeInProgress(self)
    }

    /// Locks the object against changes by others, if they are made in several branches.
    pub(crate) fn lock(&self, caller: &Caller) -> Result<Option<KeyedGuard<'_, Handle>>> {
        let lock = || self.fan_out.locks.write_unless(caller.cancellation(), self.handle);
        self.fan_out.changes_all().then(lock).transpose()
    }

    /// Locks a range of the file's bytes against changes by others, if they are made in several branches.
    pub(crate) fn lock_range(&self, caller: &Caller, range: Range<u64>) -> Result<Option<KeyedGuard<'_, Handle>>> {
        let lock = || self.fan_out.locks.write_range_unless(caller.cancellation(), self.handle, range);
        self.fan_out.changes_all().then(lock).transpose()
    }

    /// Waits for changes of the object in progress, and keeps others from beginning, if they are made in several branches.
    pub(crate) fn share(&self, caller: &Caller) -> Result<Option<KeyedGuard<'_, Handle>>> {
        let lock = || self.fan_out.locks.read_range_unless(caller.cancellation(), self.handle, 0..u64::MAX);
        self.fan_out.changes_all().then(lock).transpose()
    }

    /// Locks this directory and another against changes by others, if they are made in several branches.
    pub(crate) fn lock_both(
        &self,
        other: &VnodeRef,
    ) -> Option<(KeyedGuard<'_, Handle>, Option<KeyedGuard<'_, Handle>>)> {
        self.fan_out.changes_all().then(|| self.fan_out.locks.write_both(self.handle, other.handle()))
    }

    /// Keeps all names that there are, if changes are made in several branches.
    pub(crate) fn keep_names(&self, caller: &Caller) -> Result<Option<KeyedGuard<'_, ()>>> {
        let lock = || self.fan_out.names.read_range_unless(caller.cancellation(), (), 0..u64::MAX);
        self.fan_out.changes_all().then(lock).transpose()
    }

    /// Keeps others from changing any name, if changes are made in several branches.
    pub(crate) fn lock_names(&self, caller: &Caller) -> Result<Option<KeyedGuard<'_, ()>>> {
        let lock = || self.fan_out.names.write_unless(caller.cancellation(), ());
        self.fan_out.changes_all().then(lock).transpose()
    }

    pub(crate) fn attributes(&self, branch: usize, attributes: Attributes) -> Attributes {
        Attributes { ino: inode_number(branch, attributes.ino), ..attributes }
    }

    /// Returns the entry of these entries of one object in the branches.
    ///
    /// # Errors
    /// `ENOENT` if there are none.
    pub(crate) fn joined(&self, entries: Vec<Option<Entry>>) -> Result<Entry> {
        let is_entered = |branch: &usize| entries.get(*branch).is_some_and(Option::is_some);
        let primary = Some(self.primary).filter(is_entered).or_else(|| (0..entries.len()).find(is_entered));
        let primary = primary.ok_or(Errno::ENOENT)?;
        let kind = entries[primary].as_ref().map(|entry| entry.vnode.kind());
        // An object of another kind by this name is another object.
        let of_kind = |entry: Option<Entry>| entry.filter(|entry| Some(entry.vnode.kind()) == kind);
        let entries: Vec<Option<Entry>> = entries.into_iter().map(of_kind).collect();
        let vnode =
            self.fan_out.node(primary, entries.iter().map(|entry| Some(entry.as_ref()?.vnode.clone())).collect())?;
        // One that was first found in another branch shows the values of that one.
        let shown = Some(vnode.primary()).filter(|branch| entries[*branch].is_some()).unwrap_or(primary);
        let attributes = entries[shown].as_ref().map(|entry| entry.attributes).ok_or(Errno::ENOENT)?;
        Ok(Entry { vnode, attributes: self.attributes(shown, attributes) })
    }
}

/// A change of an object that may not have been made in all branches yet.
pub(crate) struct ChangeInProgress<'a>(&'a FanOutVnode);

impl Drop for ChangeInProgress<'_> {
    fn drop(&mut self) {
        self.0.was_read.store(false, Ordering::Relaxed);
        self.0.changes.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for FanOutVnode {
    fn drop(&mut self) {
        self.fan_out.live.forget(&self.handle);
        if self.fan_out.changes_all() {
            branch_handles(&self.branch_objects()).for_each(|handle| self.fan_out.live.forget(&handle));
        }
    }
}
