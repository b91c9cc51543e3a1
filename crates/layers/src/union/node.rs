//! The vnode of a union: an identity, and the object's present instances in the branches.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, Weak,
};
use std::time::Instant;

use vnode::{Caller, Errno, FileKind, Handle, KeyedGuard, Name, NameBuf, OpenFileRef, Result, VnodeRef};

use super::branch::branches::BranchMember;
use super::branch::encoding::hash;
use super::branch::identity::Identity;
use super::branch::metacopy_mark;
use super::cache::names::CachedNames;
use super::operations::locks::FileLocks;
use super::state::Union;
use crate::views::ViewAliases;

/// An object in one branch.
#[derive(Clone)]
pub(crate) struct Instance {
    pub(crate) member: Arc<BranchMember>,
    pub(crate) vnode: VnodeRef,
    /// Its inode number in the branch.
    pub(crate) ino: u64,
    /// Of a directory, the cached names in it.
    pub(crate) names: CachedNames,
}

impl Instance {
    /// An instance: the object in a branch, with that inode number.
    pub(crate) fn new(member: &Arc<BranchMember>, vnode: VnodeRef, ino: u64) -> Self {
        let names = CachedNames::for_kind(vnode.kind());
        Self { member: Arc::clone(member), vnode, ino, names }
    }
}

/// A directory's instances from the given branch down; `None` if the directory is not in that branch, or no longer is: the
/// instances that a search was given may have changed since.
pub(crate) fn instances_from<'a>(instances: &'a [Instance], member: &BranchMember) -> Option<&'a [Instance]> {
    let at = instances.iter().position(|instance| std::ptr::eq(&raw const *instance.member, member))?;
    Some(&instances[at..])
}

/// One object of the union, with at most one live vnode.
pub(crate) struct Node {
    this: Weak<Node>,
    pub(crate) union: Arc<Union>,
    pub(crate) identity: Identity,
    pub(crate) kind: FileKind,
    /// Of a directory, guards its names: read-locked to look them up, write-locked to change them. Of anything else,
    /// write-locked while it is copied. A directory's lock is taken before that of a child directory; a file's before any
    /// directory's.
    lock: RwLock<()>,
    /// Never empty: users see the leftmost; only a directory has others.
    instances: RwLock<Arc<[Instance]>>,
    /// Of a directory, number of times its names may have changed.
    change_count: AtomicU64,
    location: Mutex<LocationHistory>,
    /// Number of times it was copied to another branch.
    pub(crate) copy_count: AtomicU32,
    /// One more than `copies` had when its own instance was last seen to have the data.
    pub(crate) own_data_at: AtomicU64,
    /// The file in which its data were first found through one of its several names, if its mark has no path.
    pub(crate) data_by_name: OnceLock<Box<Handle>>,
    /// Whether files are open that are read from the branch that has its data.
    pub(crate) is_read_elsewhere: AtomicBool,
    /// Whether the object or its data may have reached the branch since that was last synchronized.
    pub(crate) needs_arrival_sync: AtomicBool,
    /// Number of names that lead to the original of a copied file with several; otherwise [`UNCOUNTED_NAMES`].
    pub(crate) original_names: AtomicU32,
    /// Whether its last name was removed, but only hidden in its branch.
    pub(crate) is_hidden: AtomicBool,
    /// Branch-set generation for which the instances are valid.
    pub(crate) generation: AtomicU64,
    /// Time of the last look-up of its instances.
    pub(crate) last_checked: Mutex<Instant>,
    /// Whether all branches that had it are gone.
    pub(crate) is_stale: AtomicBool,
    /// Keeps an unlinked copy alive.
    open_copy: Mutex<Option<OpenFileRef>>,
    /// Other handles by which it is found while it lives.
    other_handles: Mutex<Vec<Handle>>,
    /// Locks held on it.
    pub(crate) locks: FileLocks,
    /// Of a directory, if there are views.
    pub(crate) view_aliases: OnceLock<Box<ViewAliases>>,
}

/// Write guard of a file's lock, held while it is copied.
pub(crate) struct CopyGuard<'a> {
    _guard: NodeWriteGuard<'a>,
    _copy_lock: KeyedGuard<'a, usize>,
}

/// Write guard of an object's lock; held while names in a directory change.
pub(crate) struct NodeWriteGuard<'a> {
    node: &'a Node,
    changes: NameChanges<'a>,
    _lock: RwLockWriteGuard<'a, ()>,
}

/// Changes that a holder of a directory's write guard makes in it.
#[derive(Clone, Copy)]
pub(crate) enum NameChanges<'a> {
    /// Any change. Also used for everything but directories.
    Anything,
    /// The objects of these names and their whiteouts, in one branch or in any.
    Names(&'a [Name<'a>], Option<&'a BranchMember>),
}

impl Drop for NodeWriteGuard<'_> {
    fn drop(&mut self) {
        if self.node.kind != FileKind::Directory {
            return;
        }
        self.node.change_count.fetch_add(1, Ordering::Release);
        for instance in self.node.instances().iter() {
            if !self.node.union.branches.may_change(&instance.member) {
                continue;
            }
            match self.changes {
                NameChanges::Anything => instance.names.forget(),
                NameChanges::Names(names, member) => {
                    if member.is_none_or(|member| std::ptr::eq(&raw const *instance.member, member)) {
                        names.iter().for_each(|name| instance.names.record_change(hash(name.as_bytes())));
                    }
                }
            }
            self.node.union.mount_state.invalidate_views(&self.node.union);
        }
    }
}

/// Value that means that names are not counted.
pub(crate) const UNCOUNTED_NAMES: u32 = u32::MAX;

/// Location at which an object was last seen.
#[derive(Clone)]
pub(crate) enum NodeLocation {
    /// No known name: it was reached by its handle, or it has names besides those that were seen and then lost. Also the root.
    Unknown,
    /// At this name.
    At(ParentEntry),
    /// It has lost its last name, or never had one.
    Nowhere,
}

/// Last location of an object, and its other names as far as they are known.
struct LocationHistory {
    current: NodeLocation,
    /// Names of anything but a directory, the most recently seen last.
    others: Vec<ParentEntry>,
}

/// Maximum number of other known names of an object.
const MAX_OTHER_NAMES: usize = 16;

/// A directory and the name in its branches.
#[derive(Clone)]
pub(crate) struct ParentEntry {
    pub(crate) directory: Arc<Node>,
    pub(crate) stored: NameBuf,
}

impl ParentEntry {
    fn is(&self, directory: &Node, stored: Name<'_>) -> bool {
        std::ptr::eq(&raw const *self.directory, directory) && self.stored.as_name() == stored
    }
}

impl Node {
    /// A new vnode without a location. It is in no table.
    pub(crate) fn new(
        union: &Arc<Union>,
        (identity, names): (Identity, u32),
        kind: FileKind,
        generation: u64,
        instances: Arc<[Instance]>,
    ) -> Arc<Self> {
        // Copies made earlier are not known as such.
        let is_copy =
            kind != FileKind::Directory && !identity.is_native(&instances[0].member.base, &instances[0].vnode.handle());
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            union: Arc::clone(union),
            identity,
            kind,
            lock: RwLock::default(),
            instances: RwLock::new(instances),
            change_count: AtomicU64::new(0),
            location: Mutex::new(LocationHistory { current: NodeLocation::Unknown, others: Vec::new() }),
            copy_count: AtomicU32::new(0),
            own_data_at: AtomicU64::new(0),
            data_by_name: OnceLock::new(),
            is_read_elsewhere: AtomicBool::new(false),
            needs_arrival_sync: AtomicBool::new(is_copy),
            original_names: AtomicU32::new(names),
            is_hidden: AtomicBool::new(false),
            generation: AtomicU64::new(generation),
            last_checked: Mutex::new(Instant::now()),
            is_stale: AtomicBool::new(false),
            open_copy: Mutex::default(),
            other_handles: Mutex::default(),
            locks: FileLocks::default(),
            view_aliases: OnceLock::new(),
        })
    }

    /// The leftmost instance: the one that users see.
    pub(crate) fn leftmost(&self) -> Instance {
        self.read_instances()[0].clone()
    }

    /// All instances, leftmost first.
    pub(crate) fn instances(&self) -> Arc<[Instance]> {
        Arc::clone(&self.read_instances())
    }

    /// The instance in a branch.
    pub(crate) fn instance_in(&self, member: &BranchMember) -> Option<VnodeRef> {
        let instances = self.read_instances();
        instances
            .iter()
            .find(|instance| std::ptr::eq(&raw const *instance.member, member))
            .map(|found| found.vnode.clone())
    }

    /// Records the instances just found. The cached names in each are kept.
    pub(crate) fn set_instances(&self, instances: Vec<Instance>) {
        self.set_instances_at(self.generation.load(Ordering::Acquire), instances);
    }

    /// Records the instances found at a branch-set generation, unless later ones are known. Returns whether they were recorded.
    pub(crate) fn set_instances_at(&self, generation: u64, mut instances: Vec<Instance>) -> bool {
        debug_assert!(!instances.is_empty());
        let mut known = self.instances.write().unwrap_or_else(PoisonError::into_inner);
        let before = self.generation.load(Ordering::Acquire);
        if generation < before {
            return false;
        }
        // A change of the branches may have changed the contents of their directories: a merge moves objects from layer to
        // layer.
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

    /// Adds an instance to the directory.
    pub(crate) fn add_instance(&self, added: Instance) {
        let mut instances = self.instances.write().unwrap_or_else(PoisonError::into_inner);
        let position = |instance: &Instance| self.union.branches.position(&instance.member);
        let mut all: Vec<Instance> =
            instances.iter().filter(|known| !Arc::ptr_eq(&known.member, &added.member)).cloned().collect();
        all.push(added);
        all.sort_by_key(position);
        *instances = all.into();
    }

    /// Keeps an unlinked copy alive as long as the vnode.
    pub(crate) fn keep_open(&self, file: Option<OpenFileRef>) {
        *self.open_copy.lock().unwrap_or_else(PoisonError::into_inner) = file;
    }

    /// Records that the object is now a copy in another branch.
    pub(crate) fn record_copied_to(&self, copy: Instance) {
        self.set_instances(vec![copy]);
        self.record_arrival();
        self.copy_count.fetch_add(1, Ordering::Release);
        self.union.mount_state.invalidate_views(&self.union);
    }

    /// Records that the object was found again after a change of the branches. If it is now another file, as after a restore of
    /// a snapshot, its open files follow. So they do if its data have been filled in meanwhile.
    pub(crate) fn record_revalidated(&self, generation: u64, instances: Vec<Instance>, names: u32) {
        let is_another = self.leftmost().vnode.handle() != instances[0].vnode.handle();
        let has_data_now = self.is_read_elsewhere.load(Ordering::Relaxed)
            && metacopy_mark::is_marked(&instances[0].vnode) == Ok(false);
        if !self.set_instances_at(generation, instances) {
            return;
        }
        self.original_names.store(names, Ordering::Relaxed);
        if is_another || has_data_now {
            self.is_read_elsewhere.store(false, Ordering::Relaxed);
            self.record_arrival();
            self.copy_count.fetch_add(1, Ordering::Release);
        }
    }

    /// The native identity of an object with these instances that claims this identity, if it is another object. Undecidable,
    /// and therefore `None`, if the branches changed since it was found.
    fn native_identity_if_other(&self, identity: &Identity, instances: &[Instance]) -> Option<Identity> {
        let claimant @ Instance { member, vnode, ino, .. } = claimant(self.kind, instances)?;
        if self.generation.load(Ordering::Acquire) != self.union.branches.generation()
            // The copy may have its name before it is known here.
            || self.is_being_copied()
        {
            return None;
        }
        if identity.is_native(&member.base, &vnode.handle()) {
            return self.is_not_copy_of(claimant).then(|| identity.duplicate());
        }
        let is_known = |one: &Instance| self.instance_in(&one.member).map(|own| own.handle() == one.vnode.handle());
        let is_another = match self.kind {
            // A directory found in none of its known locations is not the same directory either.
            FileKind::Directory => {
                is_known(claimant) == Some(false) || !instances.iter().any(|one| is_known(one) == Some(true))
            }
            _ => !self.leftmost().is_same(claimant),
        };
        if is_another { Identity::native(&member.base, &vnode.handle(), *ino).ok() } else { None }
    }

    /// Returns whether this object is not in fact a copy of a file that is known by its own handle: the copy would hide that
    /// file, or leave it visible only through names that lead to the copy.
    fn is_not_copy_of(&self, original: &Instance) -> bool {
        self.kind != FileKind::Directory
            && !self.leftmost().is_same(original)
            // A copy that somebody else has removed gives way to its original.
            && !self.was_replaced_by(original)
            && original.vnode.getattr(&Caller::server()).is_ok_and(|attributes| attributes.nlink == 1)
    }

    /// Returns whether somebody else has removed the visible instance from its branch, and this instance is there instead.
    fn was_replaced_by(&self, instance: &Instance) -> bool {
        if self.is_being_copied() || self.leftmost().is_same(instance) || self.is_unlinked() {
            return false;
        }
        match self.leftmost().vnode.getattr(&Caller::server()) {
            Ok(attributes) => attributes.nlink == 0,
            Err(error) => matches!(self.leftmost().member.reported_error(error), Errno::ENOENT | Errno::ESTALE),
        }
    }

    /// Number of times it was copied.
    pub(crate) fn copy_count(&self) -> u32 {
        self.copy_count.load(Ordering::Acquire)
    }

    /// The location at which it was last seen.
    pub(crate) fn location(&self) -> NodeLocation {
        self.lock_location().current.clone()
    }

    /// Records that it was seen there.
    pub(crate) fn record_location(&self, directory: &Arc<Node>, stored: Name<'_>) {
        if self.was_last_at(directory, stored) {
            return;
        }
        let above = ParentEntry { directory: Arc::clone(directory), stored: stored.to_owned() };
        let mut locations = self.lock_location();
        let same = locations.others.extract_if(.., |other| other.is(directory, stored)).next();
        let before = std::mem::replace(&mut locations.current, NodeLocation::At(above));
        let dropped = match before {
            NodeLocation::At(before) if self.kind != FileKind::Directory => {
                locations.others.push(before);
                (locations.others.len() > MAX_OTHER_NAMES).then(|| NodeLocation::At(locations.others.remove(0)))
            }
            before => Some(before),
        };
        drop(locations);
        // A name that users see is not hidden.
        self.is_hidden.store(false, Ordering::Relaxed);
        drop((same, dropped));
    }

    /// Records a move from one name to another.
    pub(crate) fn record_move(&self, (directory, stored): (&Node, Name<'_>), to: (&Arc<Node>, Name<'_>)) {
        self.record_location(to.0, to.1);
        self.forget_name(directory, stored);
    }

    /// Returns whether it was last seen there.
    pub(crate) fn was_last_at(&self, directory: &Node, stored: Name<'_>) -> bool {
        matches!(&self.lock_location().current, NodeLocation::At(above) if above.is(directory, stored))
    }

    /// Records that the name there is gone. An object with other names is at one of those.
    pub(crate) fn record_name_removed(&self, directory: &Node, stored: Name<'_>) {
        if self.forget_name(directory, stored) && !self.has_names() {
            self.set_location(NodeLocation::Nowhere);
        }
    }

    /// Records that it was not found there after a change of the branches. Unknown names are not assumed to exist.
    pub(crate) fn record_name_missing(&self, directory: &Node, stored: Name<'_>) {
        if self.forget_name(directory, stored) && !matches!(self.location(), NodeLocation::At(_)) {
            self.set_location(NodeLocation::Nowhere);
        }
    }

    /// Sets the location to nowhere or unknown.
    pub(crate) fn set_location(&self, location: NodeLocation) {
        let before =
            std::mem::replace(&mut *self.lock_location(), LocationHistory { current: location, others: Vec::new() });
        // Dropping a directory may take locks; this one is free by then.
        drop(before);
    }

    /// Forgets a name; returns whether it was the one by which the object was last seen.
    fn forget_name(&self, directory: &Node, stored: Name<'_>) -> bool {
        let mut locations = self.lock_location();
        let lost = locations.others.extract_if(.., |other| other.is(directory, stored)).next();
        let is_last_seen = matches!(&locations.current, NodeLocation::At(above) if above.is(directory, stored));
        let before = is_last_seen.then(|| {
            let other = locations.others.pop().map_or(NodeLocation::Unknown, NodeLocation::At);
            std::mem::replace(&mut locations.current, other)
        });
        drop(locations);
        drop((lost, before));
        is_last_seen
    }

    /// Returns whether names lead to it, known or not; also `true` on errors, since an object without names is not copied.
    fn has_names(&self) -> bool {
        self.kind != FileKind::Directory
            && !self.is_hidden.load(Ordering::Relaxed)
            && self.attributes(&Caller::server()).map_or(true, |attributes| attributes.nlink > 0)
    }

    /// Takes the lock for reading.
    pub(crate) fn read_guard(&self) -> RwLockReadGuard<'_, ()> {
        self.lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock of a file for reading. This may block for long while the file is being copied.
    ///
    /// # Errors
    /// Cancellation of the waiting caller.
    pub(crate) fn read_guard_unless_cancelled(&self, caller: &Caller) -> Result<RwLockReadGuard<'_, ()>> {
        match self.lock.try_read() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                drop(self.union.copy_locks.read_range_unless(caller.cancellation(), self.address(), 0..1)?);
                Ok(self.read_guard())
            }
        }
    }

    /// Takes the lock of a file for writing, to copy it.
    ///
    /// # Errors
    /// Cancellation of the waiting caller.
    pub(crate) fn copy_guard(&self, caller: &Caller) -> Result<CopyGuard<'_>> {
        let turn = self.union.copy_locks.write_unless(caller.cancellation(), self.address())?;
        Ok(CopyGuard { _guard: self.write_guard(), _copy_lock: turn })
    }

    /// Returns whether it is being copied now.
    pub(crate) fn is_being_copied(&self) -> bool {
        self.union.copy_locks.is_held(self.address())
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Takes the lock for writing.
    pub(crate) fn write_guard(&self) -> NodeWriteGuard<'_> {
        self.write_guard_for(NameChanges::Anything)
    }

    /// Takes the lock for writing, to make only these changes.
    pub(crate) fn write_guard_for<'a>(&'a self, changes: NameChanges<'a>) -> NodeWriteGuard<'a> {
        NodeWriteGuard { node: self, changes, _lock: self.lock.write().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Number of times the lock was taken for writing. Earlier findings are valid as long as this has not changed.
    pub(crate) fn change_count(&self) -> u64 {
        self.change_count.load(Ordering::Acquire)
    }

    /// Invalidates the cached names in this directory.
    pub(crate) fn invalidate_names(&self) {
        for instance in self.instances().iter() {
            instance.names.forget();
        }
    }

    /// `ENOTDIR` for anything but a directory.
    pub(crate) fn require_directory(&self) -> Result<()> {
        if self.kind == FileKind::Directory { Ok(()) } else { Err(Errno::ENOTDIR) }
    }

    /// Another reference to it.
    pub(crate) fn reference(&self) -> Arc<Node> {
        self.this.upgrade().expect("whoever calls has a reference")
    }

    fn read_instances(&self) -> RwLockReadGuard<'_, Arc<[Instance]>> {
        self.instances.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_location(&self) -> MutexGuard<'_, LocationHistory> {
        self.location.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_above(&mut self) -> Option<Arc<Node>> {
        let location = self.location.get_mut().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut location.current, NodeLocation::Nowhere) {
            NodeLocation::At(above) => Some(above.directory),
            _ => None,
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.union.table.forget(&self.identity.handle);
        let others = self.other_handles.get_mut().unwrap_or_else(PoisonError::into_inner);
        others.iter().for_each(|handle| self.union.table.forget(handle));
        // Iterative: each might hold the last reference to its parent, and the chain of parents may be longer than the stack.
        let mut above = self.take_above();
        while let Some(directory) = above {
            let Some(mut node) = Arc::into_inner(directory) else { break };
            above = node.take_above();
        }
    }
}

const SHARD_COUNT: usize = 64;
/// Minimum capacity that is retained.
const MIN_SHARD_CAPACITY: usize = 256;

/// Live vnodes by their handles.
pub(crate) struct NodeTable {
    shards: Vec<Mutex<HashMap<Handle, Weak<Node>>>>,
    has_other_handles: AtomicBool,
    has_moved_directories: AtomicBool,
    hasher: RandomState,
}

/// The instance that determines an object's identity: the leftmost, or for a directory that of the oldest branch.
fn claimant(kind: FileKind, instances: &[Instance]) -> Option<&Instance> {
    match kind {
        FileKind::Directory => instances.iter().min_by_key(|instance| instance.member.age()),
        _ => instances.first(),
    }
}

impl NodeTable {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARD_COUNT).map(|_| Mutex::default()).collect();
        Self {
            shards,
            has_other_handles: AtomicBool::new(false),
            has_moved_directories: AtomicBool::new(false),
            hasher: RandomState::new(),
        }
    }

    /// The live vnode with this handle.
    pub(crate) fn find(&self, handle: &Handle) -> Option<Arc<Node>> {
        self.shard(handle).get(handle)?.upgrade()
    }

    /// The live vnode with this identity, or a new one with these instances, which were found at the given branch-set
    /// generation.
    pub(crate) fn find_or_insert(
        &self,
        union: &Arc<Union>,
        (identity, names): (Identity, u32),
        kind: FileKind,
        (generation, instances): (u64, Vec<Instance>),
    ) -> Arc<Node> {
        let identity = if union.view_state.is_some() && kind == FileKind::Directory {
            self.distinct_identity(identity, &instances)
        } else {
            identity
        };
        let mut shard = self.shard(&identity.handle);
        if let Some(node) = shard.get(&identity.handle).and_then(Weak::upgrade) {
            drop(shard);
            if let Some(own) = node.native_identity_if_other(&identity, &instances) {
                return self.find_or_insert(union, (own, UNCOUNTED_NAMES), kind, (generation, instances));
            }
            if kind != FileKind::Directory {
                if node.generation.load(Ordering::Acquire) < generation || node.was_replaced_by(&instances[0]) {
                    node.record_revalidated(generation, instances, names);
                }
            } else {
                node.set_instances_at(generation, instances);
                *node.last_checked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            }
            return node;
        }
        let node = Node::new(union, (identity, names), kind, generation, instances.into());
        shard.insert(identity.handle, Arc::downgrade(&node));
        node
    }

    /// The native identity of an object with these instances, if the live vnode of the identity that it claims is another
    /// object: for example a copy with all attributes that somebody made in a branch.
    pub(crate) fn native_identity_if_taken(
        &self,
        claimed: &Identity,
        kind: FileKind,
        instances: &[Instance],
    ) -> Option<Identity> {
        let node = self.find(&claimed.handle).filter(|node| node.kind == kind)?;
        node.native_identity_if_other(claimed, instances)
    }

    /// Makes the vnode reachable by another handle too.
    pub(crate) fn add_handle(&self, handle: &Handle, node: &Arc<Node>) {
        self.has_other_handles.store(true, Ordering::Relaxed);
        node.other_handles.lock().unwrap_or_else(PoisonError::into_inner).push(*handle);
        self.shard(handle).insert(*handle, Arc::downgrade(node));
    }

    /// Returns whether vnodes are found by other handles than their own.
    pub(crate) fn has_other_handles(&self) -> bool {
        self.has_other_handles.load(Ordering::Relaxed)
    }

    /// Records that a directory may from now on have the identity of an object at another location.
    pub(crate) fn record_moved_directory(&self) {
        self.has_moved_directories.store(true, Ordering::Relaxed);
    }

    /// Returns whether no directory has the identity of an object that has or had another name.
    pub(crate) fn identities_follow_locations(&self) -> bool {
        !self.has_other_handles() && !self.has_moved_directories.load(Ordering::Relaxed)
    }

    /// All live directories.
    pub(crate) fn directories(&self) -> Vec<Arc<Node>> {
        let shards = self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner));
        let live = shards.flat_map(|shard| shard.values().filter_map(Weak::upgrade).collect::<Vec<_>>());
        // Dropping a vnode takes the lock of its shard.
        live.collect::<Vec<_>>().into_iter().filter(|node| node.kind == FileKind::Directory).collect()
    }

    /// Removes a vnode that has ended. Another may have taken its slot already.
    fn forget(&self, handle: &Handle) {
        let mut shard = self.shard(handle);
        if shard.get(handle).is_some_and(|node| node.strong_count() == 0) {
            shard.remove(handle);
            shrink_sparse(&mut shard);
        }
    }

    fn shard(&self, handle: &Handle) -> MutexGuard<'_, HashMap<Handle, Weak<Node>>> {
        let shard = self.hasher.hash_one(handle) as usize % SHARD_COUNT;
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shrinks a map of which at most an eighth is in use.
fn shrink_sparse<K: Eq + std::hash::Hash, V>(map: &mut HashMap<K, V>) {
    if map.capacity() > MIN_SHARD_CAPACITY && map.capacity() / 8 > map.len() {
        map.shrink_to(2 * map.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As stated in `docs/layers.md`, with each vnode's table slot and the allocator's overhead.
    #[test]
    fn vnode_memory_stays_within_the_documented_limit() {
        const ARC_COUNT_BYTES: usize = 2 * size_of::<usize>();
        // Seven of sixteen slots of a table that has just grown are in use.
        let slot = size_of::<(Handle, Weak<Node>)>() + 1;
        let file = ARC_COUNT_BYTES + size_of::<Node>() + ARC_COUNT_BYTES + size_of::<Instance>() + slot * 16 / 7;
        let instance = size_of::<Instance>() + crate::union::cache::names::CACHE_BYTES;
        assert!(file <= 640, "{file}");
        assert!(instance <= 128, "{instance}");
    }

    #[test]
    fn sparse_table_shrinks() {
        let mut map: HashMap<usize, usize> = (0..100_000).map(|number| (number, number)).collect();
        for number in 0..100_000 {
            map.remove(&number);
            shrink_sparse(&mut map);
        }
        assert!(map.capacity() <= 2 * MIN_SHARD_CAPACITY, "{}", map.capacity());
    }
}
