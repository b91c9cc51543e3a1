//! The state of a union, in the types that know each other: the union, its objects, their locations, and the views of the mount.
//!
//! Below them are the parts of which they consist: `instance` (an object in one branch), `file_locks`, `gate`,
//! `recovery_schedule`, `foreign_changes`, `notifications`. Beside them is what changes nothing but this state: `node` and `location`, `guards`,
//! `mount` and `handles`. What looks into the branches is above.

pub(crate) mod direct_files;
pub(crate) mod file_locks;
pub(crate) mod foreign_changes;
pub(crate) mod gate;
pub(crate) mod guards;
mod handles;
pub(crate) mod instance;
mod location;
pub(crate) mod mount;
mod node;
pub(crate) mod notifications;
pub(crate) mod recovery_schedule;

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::time::Instant;

use arc_swap::ArcSwap;
use vnode::{FileKind, Handle, KeptAccessTimes, KeyedLocks, LiveTable, NameBuf, OpenFileRef};

use super::branch::branches::{BranchBase, Branches};
use super::branch::identity::Identity;
use super::branch::register::BranchRegister;
use super::cache::recent_directories::RecentDirectories;
use super::settings::UnionSettings;
use crate::BranchOpener;
use crate::view_rules::ViewRule;
use direct_files::DirectFiles;
use file_locks::FileLocks;
use foreign_changes::ForeignChanges;
use gate::OperationGate;
use instance::Instance;
use notifications::Notifications;
use recovery_schedule::RecoverySchedule;

/// State shared by all vnodes of a union.
pub(crate) struct Union {
    pub(crate) branches: Branches,
    pub(crate) settings: UnionSettings,
    /// Live objects by their handles.
    pub(crate) table: LiveTable<Handle, Node>,
    /// Whether objects are found by other handles than their own.
    has_other_handles: AtomicBool,
    /// Whether a directory may have the identity of an object at another location.
    has_moved_directories: AtomicBool,
    /// State shared with the unions of its views.
    pub(crate) mount_state: Arc<MountState>,
    /// Of a view, its private state.
    pub(crate) view_state: Option<ViewState>,
    /// Vnode of the root, which lives as long as the file system.
    pub(crate) root: OnceLock<Weak<Node>>,
    /// Files that the kernel may be reading and writing directly.
    pub(crate) direct_files: DirectFiles<Node>,
    /// Receivers of notifications, shared with the unions of its views.
    pub(crate) notifications: Notifications,
    /// Labels of branches that were missing when the union was created.
    pub(crate) missing: Mutex<Vec<String>>,
    pub(crate) recent_directories: RecentDirectories<Node>,
    pub(crate) recovery: RecoverySchedule,
    /// Whether a thread is trying to finish interrupted merges of layers.
    pub(crate) is_retrying_merges: AtomicBool,
    pub(crate) foreign_changes: ForeignChanges,
    /// Numbers by which branches are known.
    pub(crate) register: Mutex<BranchRegister>,
    pub(crate) mount_point: OnceLock<OwnedFd>,
    /// Access-time settings that are passed on to branches added later.
    pub(crate) kept_access_times: Mutex<KeptAccessTimes>,
    /// Opens branches that are added later.
    pub(crate) opener: Option<BranchOpener>,
    /// Number of objects placed round-robin.
    pub(crate) round_robin_counter: AtomicUsize,
    /// Serializes moves into other directories, so that no directory is moved into itself.
    pub(crate) directory_moves: Mutex<()>,
    /// Files that are being copied, by the address of the vnode: waiting for a copy can be cancelled.
    pub(crate) copy_locks: KeyedLocks<usize>,
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
    /// Number of names that lead to the original of a copied file with several; otherwise
    /// [`UNCOUNTED_NAMES`](super::branch::identity::UNCOUNTED_NAMES).
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

/// A directory and the name in its branches.
#[derive(Clone)]
pub(crate) struct ParentEntry {
    pub(crate) directory: Arc<Node>,
    pub(crate) stored: NameBuf,
}

/// State shared by the unions of one mount.
#[derive(Default)]
pub(crate) struct MountState {
    operation_gate: OperationGate,
    /// The mount's union, for callers without a view.
    common: OnceLock<Weak<Union>>,
    views: ArcSwap<Vec<Arc<View>>>,
    /// Whether there are or were views: the kernel's caches may be of several.
    has_had_views: AtomicBool,
    /// Directories that were most recently detached: the caller retries, and may hold no reference to them meanwhile.
    detached: Mutex<VecDeque<Arc<Node>>>,
}

/// A view: its rules, and the union that its processes see.
pub(crate) struct View {
    pub(crate) rules: Vec<Arc<ViewRule>>,
    pub(crate) union: Arc<Union>,
    /// Root vnode, kept alive as long as the view.
    pub(crate) root: Arc<Node>,
}

/// Additional state of a view's union.
pub(crate) struct ViewState {
    /// The branch that it writes.
    pub(crate) base: Arc<BranchBase>,
    pub(crate) is_removed: AtomicBool,
}

/// Relation of a directory's vnode to other views.
#[derive(Default)]
pub(crate) struct ViewAliases {
    /// The directories that it represents in other unions, one of each.
    pub(crate) represented: Mutex<Vec<Arc<Node>>>,
    /// Views' directories in it that were the first of their name.
    pub(crate) first: Mutex<HashMap<NameBuf, Weak<Node>>>,
    /// The vnode of another union by which it was last presented.
    pub(crate) representative: Mutex<Weak<Node>>,
    /// Whether it is excluded from being presented by another's vnode.
    pub(crate) is_detached: AtomicBool,
    /// Alias vnode that is presented instead of this one, so that the kernel has something else to remove.
    pub(crate) alias: Mutex<Weak<Node>>,
    /// Of an alias, the directory that it stands for.
    pub(crate) original: OnceLock<Arc<Node>>,
}

impl Union {
    pub(crate) fn new(
        branches: Branches,
        register: BranchRegister,
        settings: UnionSettings,
        opener: Option<BranchOpener>,
    ) -> Self {
        Self {
            branches,
            settings,
            missing: Mutex::default(),
            register: Mutex::new(register),
            mount_point: OnceLock::new(),
            kept_access_times: Mutex::default(),
            table: LiveTable::default(),
            has_other_handles: AtomicBool::new(false),
            has_moved_directories: AtomicBool::new(false),
            mount_state: Arc::default(),
            view_state: None,
            root: OnceLock::new(),
            direct_files: DirectFiles::default(),
            notifications: Notifications::default(),
            recent_directories: RecentDirectories::default(),
            recovery: RecoverySchedule::default(),
            is_retrying_merges: AtomicBool::new(false),
            foreign_changes: ForeignChanges::default(),
            opener,
            round_robin_counter: AtomicUsize::new(0),
            directory_moves: Mutex::default(),
            copy_locks: KeyedLocks::default(),
        }
    }

    /// Returns whether objects are found by other handles than their own.
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
        self.table.all().into_iter().filter(|node| node.kind == FileKind::Directory).collect()
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
        let is_copy = kind != FileKind::Directory
            && !identity.is_native(&instances[0].member.base.numbers, &instances[0].vnode.handle());
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
}
