//! State shared by all vnodes of a union.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use vnode::{Caller, Errno, FileKind, Handle, KeptAccessTimes, KeyedLocks, Name, Notifier, Result, StatFs};

use super::branch::branches::{BranchMember, Branches};
use super::branch::identity;
use super::branch::recovery::RecoverySchedule;
use super::branch::register::BranchRegister;
use super::cache::foreign_changes::ForeignChanges;
use super::cache::recent_directories::RecentDirectories;
use super::node::{Node, NodeTable};
use super::operations::file::UnionFile;
use super::settings::UnionSettings;
use crate::BranchOpener;
use crate::views::{MountState, ViewState};

/// State shared by all vnodes of a union.
pub(crate) struct Union {
    pub(crate) branches: Branches,
    pub(crate) settings: UnionSettings,
    pub(crate) table: NodeTable,
    /// State shared with the unions of its views.
    pub(crate) mount_state: Arc<MountState>,
    /// Of a view, its private state.
    pub(crate) view_state: Option<ViewState>,
    /// Vnode of the root, which lives as long as the file system.
    pub(crate) root: OnceLock<Weak<Node>>,
    /// Open files that the kernel may be reading and writing directly.
    pub(crate) direct_files: Mutex<HashMap<usize, Weak<UnionFile>>>,
    pub(crate) notifier: Mutex<Option<Arc<dyn Notifier>>>,
    /// Labels of branches that were missing when the union was created.
    pub(crate) missing: Mutex<Vec<String>>,
    pub(crate) recent_directories: RecentDirectories,
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
            table: NodeTable::new(),
            mount_state: Arc::default(),
            view_state: None,
            root: OnceLock::new(),
            direct_files: Mutex::default(),
            notifier: Mutex::default(),
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

    pub(crate) fn root_node(self: &Arc<Self>) -> Arc<Node> {
        if let Some(root) = self.root.get().and_then(Weak::upgrade) {
            return root;
        }
        let generation = self.branches.generation();
        let instances = self.roots();
        let identity = self.identity(&instances, FileKind::Directory).expect("a root has a handle");
        let root = self.table.find_or_insert(self, identity, FileKind::Directory, (generation, instances));
        let _ = self.root.set(Arc::downgrade(&root));
        root
    }

    /// Open files that the kernel may be reading and writing directly, by their addresses.
    pub(crate) fn direct_files(&self) -> MutexGuard<'_, HashMap<usize, Weak<UnionFile>>> {
        self.direct_files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object at a path of user-visible names, below the root.
    pub(crate) fn node_at_path(self: &Arc<Self>, path: &[u8]) -> Result<Arc<Node>> {
        let server = Caller::server();
        let mut node = self.root_node();
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            node.revalidate()?;
            let found = node.look_up(&server, Name::new(name)?)?;
            node = found.vnode.as_any().downcast_ref::<Node>().ok_or(Errno::ESTALE)?.reference();
        }
        Ok(node)
    }

    /// The vnode of a handle. The caller holds an operation guard.
    pub(crate) fn resolve(self: &Arc<Self>, handle: &Handle) -> Result<Arc<Node>> {
        if let Some(node) = self.table.find(handle) {
            node.revalidate()?;
            return Ok(node);
        }
        let (tag, lower) = identity::split_handle(handle).ok_or(Errno::ESTALE)?;
        let base = self.branches.by_tag(tag).ok_or(Errno::ESTALE)?;
        let object = base.file_system.resolve(&lower).map_err(|error| base.reported_error(error))?;
        let path = BranchMember::path_in_layer(&base, &object)?;
        let node = self.node_at_path(&path).map_err(|error| if error == Errno::EIO { error } else { Errno::ESTALE })?;
        if node.identity.handle == *handle { Ok(node) } else { Err(Errno::ESTALE) }
    }

    /// Sets the notifier that is informed of changes from now on.
    pub(crate) fn notify(&self, notifier: Arc<dyn Notifier>) {
        *self.notifier.lock().unwrap_or_else(PoisonError::into_inner) = Some(notifier);
    }

    /// Space in the leftmost writable branch, where most new objects are created.
    pub(crate) fn space(&self, caller: &Caller) -> Result<StatFs> {
        let slots = self.branches.slots();
        let member = slots.iter().map(|slot| &slot.member).find(|member| self.branches.may_create(member));
        member.unwrap_or(&slots[0].member).root.statfs(caller)
    }
}

impl Node {
    pub(crate) fn is_root(&self) -> bool {
        self.union.root.get().is_some_and(|root| std::ptr::eq(root.as_ptr(), self))
    }
}
