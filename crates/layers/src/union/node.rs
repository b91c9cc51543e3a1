//! The vnode of a union: an identity, and where in the branches it is now.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, Weak,
};
use std::time::Instant;

use vnode::{Caller, Errno, FileKind, Handle, KeyedGuard, Name, NameBuf, OpenFileRef, Result, VnodeRef};

use super::Union;
use super::branches::Member;
use super::identity::{Identity, hash};
use super::locks::Locks;
use super::metacopy;
use super::names::Names;
use super::views::Hosting;

/// An object in one branch.
#[derive(Clone)]
pub(super) struct Instance {
    pub(super) member: Arc<Member>,
    pub(super) vnode: VnodeRef,
    /// Its inode number there.
    pub(super) ino: u64,
    /// Of a directory, what is known of the names in it.
    pub(super) names: Names,
}

impl Instance {
    /// The object in a branch, with that inode number.
    pub(super) fn new(member: &Arc<Member>, vnode: VnodeRef, ino: u64) -> Self {
        let names = Names::of(vnode.kind());
        Self { member: Arc::clone(member), vnode, ino, names }
    }
}

/// A directory's instances from the one in a branch to the rightmost; `None` if it is not in that branch, or not any more:
/// what a search was given may have changed since.
pub(super) fn starting_with<'a>(instances: &'a [Instance], member: &Member) -> Option<&'a [Instance]> {
    let at = instances.iter().position(|instance| std::ptr::eq(&raw const *instance.member, member))?;
    Some(&instances[at..])
}

/// One object of the union. There is at most one live vnode for it.
pub(super) struct Node {
    this: Weak<Node>,
    pub(super) union: Arc<Union>,
    pub(super) identity: Identity,
    pub(super) kind: FileKind,
    /// Of a directory, over its names: held to look them up, and alone to change them. Of anything else, held alone while
    /// it is copied. A directory's comes before that of one in it; a file's comes before any directory's.
    lock: RwLock<()>,
    /// Never empty: the leftmost is what users see; only a directory has others.
    instances: RwLock<Arc<[Instance]>>,
    /// Of a directory, how often its names may have been changed.
    changed: AtomicU64,
    whereabouts: Mutex<Places>,
    /// How often it was copied to another branch.
    pub(super) copies: AtomicU32,
    /// One more than that when it was last seen to have its data itself.
    pub(super) own_data_at: AtomicU64,
    /// Where its data were first found by one of its several names, if its mark tells no path.
    pub(super) data_by_name: OnceLock<Box<Handle>>,
    /// Files are open that are read where its data are.
    pub(super) is_read_elsewhere: AtomicBool,
    /// It may have come to its branch since that was last synchronized, or its data have.
    pub(super) is_arriving: AtomicBool,
    /// How many names lead to the original of a copied file that has several; else [`NO_COUNT`].
    pub(super) names: AtomicU32,
    /// Its last name is gone, but only hidden in its branch.
    pub(super) is_hidden: AtomicBool,
    /// For which state of the branches the instances are right.
    pub(super) generation: AtomicU64,
    /// When it was last looked for where it is.
    pub(super) checked: Mutex<Instant>,
    /// All branches that had it are gone.
    pub(super) is_stale: AtomicBool,
    /// Keeps a copy without a name.
    held: Mutex<Option<OpenFileRef>>,
    /// Other handles by which it is found while it lives.
    other_handles: Mutex<Vec<Handle>>,
    /// What is locked in it.
    pub(super) locks: Locks,
    /// Of a directory where there are views.
    pub(super) hosting: OnceLock<Box<Hosting>>,
}

/// The lock of a file, held alone while it is copied.
pub(super) struct Copying<'a> {
    _alone: Alone<'a>,
    _turn: KeyedGuard<'a, usize>,
}

/// The lock of an object, held alone: with it, names in a directory are changed.
pub(super) struct Alone<'a> {
    node: &'a Node,
    changes: Changes<'a>,
    _lock: RwLockWriteGuard<'a, ()>,
}

/// What whoever holds a directory's lock alone changes in it.
#[derive(Clone, Copy)]
pub(super) enum Changes<'a> {
    /// Anything. Also what anything but a directory has.
    Anything,
    /// What there is by these names, and their whiteouts, in one branch or in any.
    Names(&'a [Name<'a>], Option<&'a Member>),
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        if self.node.kind != FileKind::Directory {
            return;
        }
        self.node.changed.fetch_add(1, Ordering::Release);
        for instance in self.node.instances().iter() {
            if !self.node.union.branches.may_change(&instance.member) {
                continue;
            }
            match self.changes {
                Changes::Anything => instance.names.forget(),
                Changes::Names(names, member) => {
                    if member.is_none_or(|member| std::ptr::eq(&raw const *instance.member, member)) {
                        names.iter().for_each(|name| instance.names.changed(hash(name.as_bytes())));
                    }
                }
            }
            self.node.union.family.note_change(&self.node.union);
        }
    }
}

/// What stands for no number of names.
pub(super) const NO_COUNT: u32 = u32::MAX;

/// Where an object was last seen.
#[derive(Clone)]
pub(super) enum Whereabouts {
    /// By no name that is known: it was reached by its handle, or has names beside those that it was seen by and has lost.
    /// Also the root.
    Unknown,
    /// There.
    At(Above),
    /// It has lost its last name, or has never had one.
    Nowhere,
}

/// Where an object was last seen, and the other names that it has as far as is known.
struct Places {
    now: Whereabouts,
    /// Names of anything but a directory, the one seen last at the end.
    others: Vec<Above>,
}

/// Maximum number of other names that are known of an object.
const OTHERS_MAX: usize = 16;

/// A directory and the name in its branches.
#[derive(Clone)]
pub(super) struct Above {
    pub(super) directory: Arc<Node>,
    pub(super) stored: NameBuf,
}

impl Above {
    fn is(&self, directory: &Node, stored: Name<'_>) -> bool {
        std::ptr::eq(&raw const *self.directory, directory) && self.stored.as_name() == stored
    }
}

impl Node {
    /// A new vnode of nowhere yet. It is in no table.
    pub(super) fn new(
        union: &Arc<Union>,
        (identity, names): (Identity, u32),
        kind: FileKind,
        generation: u64,
        instances: Arc<[Instance]>,
    ) -> Arc<Self> {
        // Of a copy that was made earlier nobody knows.
        let is_copy =
            kind != FileKind::Directory && !identity.is_native(&instances[0].member.base, &instances[0].vnode.handle());
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            union: Arc::clone(union),
            identity,
            kind,
            lock: RwLock::default(),
            instances: RwLock::new(instances),
            changed: AtomicU64::new(0),
            whereabouts: Mutex::new(Places { now: Whereabouts::Unknown, others: Vec::new() }),
            copies: AtomicU32::new(0),
            own_data_at: AtomicU64::new(0),
            data_by_name: OnceLock::new(),
            is_read_elsewhere: AtomicBool::new(false),
            is_arriving: AtomicBool::new(is_copy),
            names: AtomicU32::new(names),
            is_hidden: AtomicBool::new(false),
            generation: AtomicU64::new(generation),
            checked: Mutex::new(Instant::now()),
            is_stale: AtomicBool::new(false),
            held: Mutex::default(),
            other_handles: Mutex::default(),
            locks: Locks::default(),
            hosting: OnceLock::new(),
        })
    }

    /// The leftmost instance: the one that users see.
    pub(super) fn leftmost(&self) -> Instance {
        self.read_instances()[0].clone()
    }

    /// All instances, from the left.
    pub(super) fn instances(&self) -> Arc<[Instance]> {
        Arc::clone(&self.read_instances())
    }

    /// The instance in a branch.
    pub(super) fn instance_in(&self, member: &Member) -> Option<VnodeRef> {
        let instances = self.read_instances();
        instances
            .iter()
            .find(|instance| std::ptr::eq(&raw const *instance.member, member))
            .map(|found| found.vnode.clone())
    }

    /// What was found of it just now. What is known of the names in each is kept.
    pub(super) fn set_instances(&self, instances: Vec<Instance>) {
        self.set_found(self.generation.load(Ordering::Acquire), instances);
    }

    /// The same, when the branches had been changed so often; not if more is known by now. Whether it was news.
    pub(super) fn set_found(&self, generation: u64, mut instances: Vec<Instance>) -> bool {
        debug_assert!(!instances.is_empty());
        let mut known = self.instances.write().unwrap_or_else(PoisonError::into_inner);
        let before = self.generation.load(Ordering::Acquire);
        if generation < before {
            return false;
        }
        // With the branches, what is in their directories may have changed: a fold moves objects from layer to layer.
        if self.kind == FileKind::Directory && generation == before {
            for instance in &mut instances {
                if let Some(same) = known.iter().find(|known| known.is_same(instance)) {
                    instance.names = same.names.clone();
                }
            }
        }
        self.generation.store(generation, Ordering::Release);
        let before = std::mem::replace(&mut *known, instances.into());
        drop(known);
        drop(before);
        true
    }

    /// The directory has one more instance.
    pub(super) fn add_instance(&self, added: Instance) {
        let mut instances = self.instances.write().unwrap_or_else(PoisonError::into_inner);
        let position = |instance: &Instance| self.union.branches.position(&instance.member);
        let mut all: Vec<Instance> =
            instances.iter().filter(|known| !Arc::ptr_eq(&known.member, &added.member)).cloned().collect();
        all.push(added);
        all.sort_by_key(position);
        *instances = all.into();
    }

    /// Keeps a copy without a name for as long as the vnode lives.
    pub(super) fn hold(&self, file: Option<OpenFileRef>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = file;
    }

    /// The object is another now: a copy in another branch.
    pub(super) fn moved_to(&self, copy: Instance) {
        self.set_instances(vec![copy]);
        self.has_arrived();
        self.copies.fetch_add(1, Ordering::Release);
        self.union.family.note_change(&self.union);
    }

    /// The object was found after the branches were changed. If it is another file now, as after going back to a snapshot,
    /// its open files follow. They do so too if its data have come to it meanwhile.
    pub(super) fn is_again(&self, generation: u64, instances: Vec<Instance>, names: u32) {
        let is_another = self.leftmost().vnode.handle() != instances[0].vnode.handle();
        let has_data_now =
            self.is_read_elsewhere.load(Ordering::Relaxed) && metacopy::is_marked(&instances[0].vnode) == Ok(false);
        if !self.set_found(generation, instances) {
            return;
        }
        self.names.store(names, Ordering::Relaxed);
        if is_another || has_data_now {
            self.is_read_elsewhere.store(false, Ordering::Relaxed);
            self.has_arrived();
            self.copies.fetch_add(1, Ordering::Release);
        }
    }

    /// The identity of its own of an object with these instances, which says that it has this one, and is another. Where the
    /// branches were changed since this was found, nothing tells.
    fn own_identity_of_another(&self, identity: &Identity, instances: &[Instance]) -> Option<Identity> {
        let claimant @ Instance { member, vnode, ino, .. } = claimant(self.kind, instances)?;
        if self.generation.load(Ordering::Acquire) != self.union.branches.generation()
            // The copy may have its name before it is known here.
            || self.is_being_copied()
        {
            return None;
        }
        if identity.is_native(&member.base, &vnode.handle()) {
            return self.is_no_copy_of(claimant).then(|| identity.of_another());
        }
        let is_known = |one: &Instance| self.instance_in(&one.member).map(|own| own.handle() == one.vnode.handle());
        let is_another = match self.kind {
            // What was found in no place where it is known to be is not the same directory either.
            FileKind::Directory => {
                is_known(claimant) == Some(false) || !instances.iter().any(|one| is_known(one) == Some(true))
            }
            _ => !self.leftmost().is_same(claimant),
        };
        if is_another { Identity::native(&member.base, &vnode.handle(), *ino).ok() } else { None }
    }

    /// Whether a file that is known by its own handle is not what this one says that it is a copy of: then it would not be seen,
    /// or by names that lead to the copy.
    fn is_no_copy_of(&self, original: &Instance) -> bool {
        self.kind != FileKind::Directory
            && !self.leftmost().is_same(original)
            // One that somebody else has removed gives way to its original.
            && !self.has_lost_to(original)
            && original.vnode.getattr(&Caller::server()).is_ok_and(|attributes| attributes.nlink == 1)
    }

    /// Whether what users saw of it is gone from its branch, removed by somebody else, and there is this instead.
    fn has_lost_to(&self, instance: &Instance) -> bool {
        if self.is_being_copied() || self.leftmost().is_same(instance) || self.is_nameless() {
            return false;
        }
        match self.leftmost().vnode.getattr(&Caller::server()) {
            Ok(attributes) => attributes.nlink == 0,
            Err(error) => matches!(self.leftmost().member.judged(error), Errno::ENOENT | Errno::ESTALE),
        }
    }

    /// How often it was copied.
    pub(super) fn copies(&self) -> u32 {
        self.copies.load(Ordering::Acquire)
    }

    /// Where it was last seen.
    pub(super) fn whereabouts(&self) -> Whereabouts {
        self.lock_whereabouts().now.clone()
    }

    /// It was seen there.
    pub(super) fn is_at(&self, directory: &Arc<Node>, stored: Name<'_>) {
        if self.was_at(directory, stored) {
            return;
        }
        let above = Above { directory: Arc::clone(directory), stored: stored.to_owned() };
        let mut places = self.lock_whereabouts();
        let same = places.others.extract_if(.., |other| other.is(directory, stored)).next();
        let before = std::mem::replace(&mut places.now, Whereabouts::At(above));
        let dropped = match before {
            Whereabouts::At(before) if self.kind != FileKind::Directory => {
                places.others.push(before);
                (places.others.len() > OTHERS_MAX).then(|| Whereabouts::At(places.others.remove(0)))
            }
            before => Some(before),
        };
        drop(places);
        // What users see by a name is not hidden.
        self.is_hidden.store(false, Ordering::Relaxed);
        drop((same, dropped));
    }

    /// It was moved from there to another name.
    pub(super) fn has_moved(&self, (directory, stored): (&Node, Name<'_>), to: (&Arc<Node>, Name<'_>)) {
        self.is_at(to.0, to.1);
        self.loses(directory, stored);
    }

    /// Whether it was last seen there.
    pub(super) fn was_at(&self, directory: &Node, stored: Name<'_>) -> bool {
        matches!(&self.lock_whereabouts().now, Whereabouts::At(above) if above.is(directory, stored))
    }

    /// The name there is gone. What has others is at one of those.
    pub(super) fn is_gone_from(&self, directory: &Node, stored: Name<'_>) {
        if self.loses(directory, stored) && !self.has_names() {
            self.set_whereabouts(Whereabouts::Nowhere);
        }
    }

    /// It was looked for there in vain, after the branches were changed. Names that are not known are not believed in.
    pub(super) fn is_missed_at(&self, directory: &Node, stored: Name<'_>) {
        if self.loses(directory, stored) && !matches!(self.whereabouts(), Whereabouts::At(_)) {
            self.set_whereabouts(Whereabouts::Nowhere);
        }
    }

    /// It is nowhere, or not known to be anywhere.
    pub(super) fn set_whereabouts(&self, whereabouts: Whereabouts) {
        let before = std::mem::replace(&mut *self.lock_whereabouts(), Places { now: whereabouts, others: Vec::new() });
        // Dropping a directory may take locks; this one is free by then.
        drop(before);
    }

    /// Forgets a name: whether it was the one that the object was last seen by.
    fn loses(&self, directory: &Node, stored: Name<'_>) -> bool {
        let mut places = self.lock_whereabouts();
        let lost = places.others.extract_if(.., |other| other.is(directory, stored)).next();
        let is_last_seen = matches!(&places.now, Whereabouts::At(above) if above.is(directory, stored));
        let before = is_last_seen.then(|| {
            let other = places.others.pop().map_or(Whereabouts::Unknown, Whereabouts::At);
            std::mem::replace(&mut places.now, other)
        });
        drop(places);
        drop((lost, before));
        is_last_seen
    }

    /// Whether names lead to it, known or not. A question that fails is answered so, since what has none is not copied.
    fn has_names(&self) -> bool {
        self.kind != FileKind::Directory
            && !self.is_hidden.load(Ordering::Relaxed)
            && self.attributes(&Caller::server()).map_or(true, |attributes| attributes.nlink > 0)
    }

    /// Holds the lock together with others.
    pub(super) fn shared(&self) -> RwLockReadGuard<'_, ()> {
        self.lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the lock of a file together with others. Where it is being copied, that may take long.
    ///
    /// # Errors
    /// Those of a caller that waits for it no longer.
    pub(super) fn shared_unless(&self, caller: &Caller) -> Result<RwLockReadGuard<'_, ()>> {
        match self.lock.try_read() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                drop(self.union.copying.read_range_unless(caller.cancellation(), self.address(), 0..1)?);
                Ok(self.shared())
            }
        }
    }

    /// Holds the lock of a file alone, to copy it.
    ///
    /// # Errors
    /// Those of a caller that waits for it no longer.
    pub(super) fn alone_to_copy(&self, caller: &Caller) -> Result<Copying<'_>> {
        let turn = self.union.copying.write_unless(caller.cancellation(), self.address())?;
        Ok(Copying { _alone: self.alone(), _turn: turn })
    }

    /// Whether it is being copied now.
    pub(super) fn is_being_copied(&self) -> bool {
        self.union.copying.is_held(self.address())
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Holds the lock alone.
    pub(super) fn alone(&self) -> Alone<'_> {
        self.alone_for(Changes::Anything)
    }

    /// Holds the lock alone, to change no more than that.
    pub(super) fn alone_for<'a>(&'a self, changes: Changes<'a>) -> Alone<'a> {
        Alone { node: self, changes, _lock: self.lock.write().unwrap_or_else(PoisonError::into_inner) }
    }

    /// How often the lock has been held alone. What was found before holds while that is the same.
    pub(super) fn changed(&self) -> u64 {
        self.changed.load(Ordering::Acquire)
    }

    /// What is known of the names in this directory may have been changed.
    pub(super) fn forget_names(&self) {
        for instance in self.instances().iter() {
            instance.names.forget();
        }
    }

    /// `ENOTDIR` for anything but a directory.
    pub(super) fn only_directory(&self) -> Result<()> {
        if self.kind == FileKind::Directory { Ok(()) } else { Err(Errno::ENOTDIR) }
    }

    /// Another reference to it.
    pub(super) fn reference(&self) -> Arc<Node> {
        self.this.upgrade().expect("whoever calls has a reference")
    }

    fn read_instances(&self) -> RwLockReadGuard<'_, Arc<[Instance]>> {
        self.instances.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_whereabouts(&self) -> MutexGuard<'_, Places> {
        self.whereabouts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_above(&mut self) -> Option<Arc<Node>> {
        let whereabouts = self.whereabouts.get_mut().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut whereabouts.now, Whereabouts::Nowhere) {
            Whereabouts::At(above) => Some(above.directory),
            _ => None,
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.union.table.forget(&self.identity.handle);
        let others = self.other_handles.get_mut().unwrap_or_else(PoisonError::into_inner);
        others.iter().for_each(|handle| self.union.table.forget(handle));
        // One after the other: each might be the last to hold the one above, and the way up longer than the stack.
        let mut above = self.take_above();
        while let Some(directory) = above {
            let Some(mut node) = Arc::into_inner(directory) else { break };
            above = node.take_above();
        }
    }
}

const SHARDS: usize = 64;
/// So much room is kept.
const ROOM_MIN: usize = 256;

/// The live vnodes by their handles.
pub(super) struct Table {
    shards: Vec<Mutex<HashMap<Handle, Weak<Node>>>>,
    has_other_names: AtomicBool,
    has_moved_directories: AtomicBool,
    hasher: RandomState,
}

/// Whose identity an object with these instances has: the leftmost's, and of a directory the one's whose branch was there first.
fn claimant(kind: FileKind, instances: &[Instance]) -> Option<&Instance> {
    match kind {
        FileKind::Directory => instances.iter().min_by_key(|instance| instance.member.age()),
        _ => instances.first(),
    }
}

impl Table {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self {
            shards,
            has_other_names: AtomicBool::new(false),
            has_moved_directories: AtomicBool::new(false),
            hasher: RandomState::new(),
        }
    }

    /// The live vnode with this handle.
    pub(super) fn find(&self, handle: &Handle) -> Option<Arc<Node>> {
        self.shard(handle).get(handle)?.upgrade()
    }

    /// The live vnode with this identity, or a new one where its instances say it is, which were found when the branches had
    /// been changed so often.
    pub(super) fn find_or_insert(
        &self,
        union: &Arc<Union>,
        (identity, names): (Identity, u32),
        kind: FileKind,
        (generation, instances): (u64, Vec<Instance>),
    ) -> Arc<Node> {
        let identity = if union.private.is_some() && kind == FileKind::Directory {
            self.distinct(identity, &instances)
        } else {
            identity
        };
        let mut shard = self.shard(&identity.handle);
        if let Some(node) = shard.get(&identity.handle).and_then(Weak::upgrade) {
            drop(shard);
            if let Some(own) = node.own_identity_of_another(&identity, &instances) {
                return self.find_or_insert(union, (own, NO_COUNT), kind, (generation, instances));
            }
            if kind != FileKind::Directory {
                if node.generation.load(Ordering::Acquire) < generation || node.has_lost_to(&instances[0]) {
                    node.is_again(generation, instances, names);
                }
            } else {
                node.set_found(generation, instances);
                *node.checked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            }
            return node;
        }
        let node = Node::new(union, (identity, names), kind, generation, instances.into());
        shard.insert(identity.handle, Arc::downgrade(&node));
        node
    }

    /// The identity of its own of an object with these instances, where the live vnode of the identity that it says it has is
    /// another one: as a copy with all attributes is that somebody made in a branch.
    pub(super) fn own_identity(&self, claimed: &Identity, kind: FileKind, instances: &[Instance]) -> Option<Identity> {
        let node = self.find(&claimed.handle).filter(|node| node.kind == kind)?;
        node.own_identity_of_another(claimed, instances)
    }

    /// From now on the vnode is found by another handle too.
    pub(super) fn add_name(&self, handle: &Handle, node: &Arc<Node>) {
        self.has_other_names.store(true, Ordering::Relaxed);
        node.other_handles.lock().unwrap_or_else(PoisonError::into_inner).push(*handle);
        self.shard(handle).insert(*handle, Arc::downgrade(node));
    }

    /// Whether vnodes are found by other handles than their own.
    pub(super) fn has_other_names(&self) -> bool {
        self.has_other_names.load(Ordering::Relaxed)
    }

    /// From now on a directory may be known by what is at another place.
    pub(super) fn has_moved_directory(&self) {
        self.has_moved_directories.store(true, Ordering::Relaxed);
    }

    /// Whether no directory is known by what has another name, or had another.
    pub(super) fn is_by_place(&self) -> bool {
        !self.has_other_names() && !self.has_moved_directories.load(Ordering::Relaxed)
    }

    /// All live directories.
    pub(super) fn directories(&self) -> Vec<Arc<Node>> {
        let shards = self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner));
        let live = shards.flat_map(|shard| shard.values().filter_map(Weak::upgrade).collect::<Vec<_>>());
        // What is dropped here takes the lock of its shard.
        live.collect::<Vec<_>>().into_iter().filter(|node| node.kind == FileKind::Directory).collect()
    }

    /// A vnode has ended. Another may have taken its place already.
    fn forget(&self, handle: &Handle) {
        let mut shard = self.shard(handle);
        if shard.get(handle).is_some_and(|node| node.strong_count() == 0) {
            shard.remove(handle);
            give_back(&mut shard);
        }
    }

    fn shard(&self, handle: &Handle) -> MutexGuard<'_, HashMap<Handle, Weak<Node>>> {
        let shard = self.hasher.hash_one(handle) as usize % SHARDS;
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives memory back of which but an eighth is needed.
fn give_back<K: Eq + std::hash::Hash, V>(map: &mut HashMap<K, V>) {
    if map.capacity() > ROOM_MIN && map.capacity() / 8 > map.len() {
        map.shrink_to(2 * map.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `docs/layers.md` says, with what the table of vnodes has of each and what the allocator adds.
    #[test]
    fn vnodes_take_no_more_memory_than_is_documented() {
        const COUNTS: usize = 2 * size_of::<usize>();
        // Of the slots of a table that has just grown, seven of sixteen are in use.
        let slot = size_of::<(Handle, Weak<Node>)>() + 1;
        let file = COUNTS + size_of::<Node>() + COUNTS + size_of::<Instance>() + slot * 16 / 7;
        let instance = size_of::<Instance>() + super::super::names::CACHE_BYTES;
        assert!(file <= 640, "{file}");
        assert!(instance <= 128, "{instance}");
    }

    #[test]
    fn a_table_that_is_not_needed_any_more_gives_its_memory_back() {
        let mut map: HashMap<usize, usize> = (0..100_000).map(|number| (number, number)).collect();
        for number in 0..100_000 {
            map.remove(&number);
            give_back(&mut map);
        }
        assert!(map.capacity() <= 2 * ROOM_MIN, "{}", map.capacity());
    }
}
