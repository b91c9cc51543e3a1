//! The layer `union`: several branches as one tree, with Unix semantics (Wright et al., "Versatility and Unix Semantics in
//! Namespace Unification", the Unionfs paper).
//!
//! Of objects with one name, users see the leftmost branch's; directories are merged. An object that is to be changed in a
//! branch that must not be is copied to a higher branch, and one that is deleted there is hidden by a whiteout.
//!
//! **Invariants.** An object is visible beside its own whiteout: so a whiteout can be created before the object is removed, and
//! removed after an object has been created. Unfinished work is in the work directory. The lock of a directory is taken after
//! its parent's, and a file's before any directory's.

mod attributes;
mod branches;
mod change;
mod check;
mod claim;
mod copy_up;
mod create;
mod diff;
mod durable;
mod exact;
mod file;
mod fold;
mod fork;
mod gate;
mod health;
mod helpers;
mod history;
mod identity;
mod kept;
mod lease;
mod links;
mod listing;
mod locks;
mod lookup;
mod losses;
mod marks;
mod metacopy;
mod names;
mod node;
mod options;
mod others;
mod parallel;
mod placement;
mod recent;
mod record;
mod recovery;
mod refresh;
mod refusal;
mod register;
mod remove;
mod rename;
mod settings;
mod snapshots;
mod sure;
mod tree_path;
mod trusted;
mod views;
mod vnode_impl;
mod whiteout;
mod whiteout_device;
mod work;
mod xattrs;

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use vnode::{
    AccessControl, Caller, Claim, ClaimFlag, Control, ControlError, Description, Errno, FileKind, FileSystem, Handle,
    KeptAccessTimes, KeyedLocks, Name, Notifier, Properties, Result, StatFs, TimesTell, VnodeRef,
};

use crate::kind::Build;
use crate::{Branch, BranchOpener, Kind, OptionError, OptionProblem};
use branches::{BadBranch, Branches, Member, Slot, WhyBad};
pub use check::{CheckError, CheckOptions, Finding, Problem, check};
pub use claim::only_described;
use file::UnionFile;
pub use fork::{Change, CommitError, CommitOptions, Committed, Conflict, Deed, Difference, Fork, to_json};
pub use losses::{Loss, Losses};
use node::{Node, Table};
pub use options::create;
use others::Others;
use recent::Recent;
use recovery::Recovery;
use register::Register;
use settings::Settings;
pub use trusted::attributes_of_marks;
use views::{Family, Private};
pub use work::remove_tree;

/// Registration of this layer.
pub const KIND: Kind = Kind {
    name: "union",
    summary: "merges branches into one tree; changes go to those that may be written",
    options: options::KNOWN,
    build: Build::Joining(create),
};

/// State shared by all vnodes of a union.
struct Union {
    branches: Branches,
    settings: Settings,
    table: Table,
    /// State shared with the unions of its views.
    family: Arc<Family>,
    /// Of a view, its private state.
    private: Option<Private>,
    /// Vnode of the root, which lives as long as the file system.
    root: OnceLock<Weak<Node>>,
    /// Open files that the kernel may be reading and writing directly.
    direct_files: Mutex<HashMap<usize, Weak<UnionFile>>>,
    notifier: Mutex<Option<Arc<dyn Notifier>>>,
    /// Labels of branches that were missing when the union was created.
    missing: Mutex<Vec<String>>,
    recent: Recent,
    recovery: Recovery,
    /// Whether a thread is trying to finish interrupted merges of layers.
    is_finishing: AtomicBool,
    others: Others,
    /// Numbers by which branches are known.
    register: Mutex<Register>,
    mount_point: OnceLock<OwnedFd>,
    /// Access-time settings that are passed on to branches added later.
    kept_access_times: Mutex<KeptAccessTimes>,
    /// Opens branches that are added later.
    opener: Option<BranchOpener>,
    /// Number of objects placed round-robin.
    turn: AtomicUsize,
    /// Serializes moves into other directories, so that no directory is moved into itself.
    moves: Mutex<()>,
    /// Files that are being copied, by the address of the vnode: waiting for a copy can be cancelled.
    copying: KeyedLocks<usize>,
}

/// Upper bound on how long dropping a union waits for branch queries whose results are no longer needed.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// A file system that shows several trees as one.
pub struct UnionFileSystem {
    union: Arc<Union>,
    root: Arc<Node>,
    /// Claim of the union itself as a branch of another union.
    claimed: ClaimFlag,
}

impl UnionFileSystem {
    /// Creates the union of these branches, highest priority first. A branch without a mode is read-write if it is the first,
    /// and read-only otherwise.
    ///
    /// # Errors
    /// [`OptionError`] that names the unusable branch.
    ///
    /// # Panics
    /// If there are no branches.
    pub fn new(branches: Vec<Branch>) -> std::result::Result<Self, OptionError> {
        Self::with_settings(branches, None, Settings::default(), claim::PATIENCE)
    }

    /// Creates the union; waits up to the given time for another union of a branch that is ending.
    fn with_settings(
        branches: Vec<Branch>,
        opener: Option<BranchOpener>,
        settings: Settings,
        patience: Duration,
    ) -> std::result::Result<Self, OptionError> {
        let claims = claim::of_all(&branches, patience).map_err(bad_branch)?;
        let union = Self::assemble(branches, opener, settings)?;
        union.hold(claims, patience).map_err(bad_branch)?;
        union.family.set_common(&union);
        union.recover();
        union.finish_folds().map_err(|error| OptionError {
            layer: KIND.name,
            key: String::new(),
            problem: OptionProblem::Unfinished { message: error.to_string() },
        })?;
        let root = union.root_node();
        // Not for views, whose branches others write too.
        union.recent.begin();
        Ok(Self { union, root, claimed: ClaimFlag::default() })
    }

    /// Creates the union as found, without any change to the branches.
    fn assemble(
        branches: Vec<Branch>,
        opener: Option<BranchOpener>,
        settings: Settings,
    ) -> std::result::Result<Arc<Union>, OptionError> {
        assert!(!branches.is_empty(), "a union has at least one branch");
        let (branches, register) = Branches::new(branches).map_err(bad_branch)?;
        Ok(Arc::new(Union::of(branches, register, settings, opener)))
    }
}

impl Union {
    fn of(branches: Branches, register: Register, settings: Settings, opener: Option<BranchOpener>) -> Self {
        Self {
            branches,
            settings,
            missing: Mutex::default(),
            register: Mutex::new(register),
            mount_point: OnceLock::new(),
            kept_access_times: Mutex::default(),
            table: Table::new(),
            family: Arc::default(),
            private: None,
            root: OnceLock::new(),
            direct_files: Mutex::default(),
            notifier: Mutex::default(),
            recent: Recent::default(),
            recovery: Recovery::default(),
            is_finishing: AtomicBool::new(false),
            others: Others::default(),
            opener,
            turn: AtomicUsize::new(0),
            moves: Mutex::default(),
            copying: KeyedLocks::default(),
        }
    }

    fn root_node(self: &Arc<Self>) -> Arc<Node> {
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
    fn direct_files(&self) -> MutexGuard<'_, HashMap<usize, Weak<UnionFile>>> {
        self.direct_files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object at a path of user-visible names, below the root.
    fn node_at(self: &Arc<Self>, path: &[u8]) -> Result<Arc<Node>> {
        let server = Caller::server();
        let mut node = self.root_node();
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            node.refresh()?;
            let found = node.look_up(&server, Name::new(name)?)?;
            node = found.vnode.as_any().downcast_ref::<Node>().ok_or(Errno::ESTALE)?.reference();
        }
        Ok(node)
    }

    /// The vnode of a handle. The caller holds an operation guard.
    fn resolve(self: &Arc<Self>, handle: &Handle) -> Result<Arc<Node>> {
        if let Some(node) = self.table.find(handle) {
            node.refresh()?;
            return Ok(node);
        }
        let (tag, lower) = identity::parts(handle).ok_or(Errno::ESTALE)?;
        let base = self.branches.tagged(tag).ok_or(Errno::ESTALE)?;
        let object = base.file_system.resolve(&lower).map_err(|error| base.judged(error))?;
        let path = Member::path_in_layer(&base, &object)?;
        let node = self.node_at(&path).map_err(|error| if error == Errno::EIO { error } else { Errno::ESTALE })?;
        if node.identity.handle == *handle { Ok(node) } else { Err(Errno::ESTALE) }
    }

    /// Sets the notifier that is informed of changes from now on.
    fn notify(&self, notifier: Arc<dyn Notifier>) {
        *self.notifier.lock().unwrap_or_else(PoisonError::into_inner) = Some(notifier);
    }

    /// Space in the leftmost writable branch, where most new objects are created.
    fn space(&self, caller: &Caller) -> Result<StatFs> {
        let slots = self.branches.slots();
        let member = slots.iter().map(|slot| &slot.member).find(|member| self.branches.may_create(member));
        member.unwrap_or(&slots[0].member).root.statfs(caller)
    }
}

impl Node {
    fn is_root(&self) -> bool {
        self.union.root.get().is_some_and(|root| std::ptr::eq(root.as_ptr(), self))
    }
}

impl FileSystem for UnionFileSystem {
    fn root(&self) -> VnodeRef {
        Arc::clone(&self.root) as VnodeRef
    }

    fn resolve(&self, handle: &Handle) -> Result<VnodeRef> {
        let _steady = self.union.steady();
        let (union, handle) = self.union.inward(handle)?;
        Ok(union.resolve(&handle)?)
    }

    fn sync(&self) -> Result<()> {
        let slots = self.union.branches.slots();
        parallel::each(&slots, |slot| slot.member.base.file_system.sync())?;
        self.union.family.views().iter().try_for_each(|view| view.file_system().sync())
    }

    fn claim(&self) -> Result<Claim> {
        // Its own branches are claimed.
        self.claimed.claim()
    }

    fn properties(&self) -> Properties {
        let slots = self.union.branches.slots();
        // A lock on a file in a branch would not apply to the copy that replaces it. A metadata-only copy has its data in
        // another branch, with times of their own.
        let own = Properties {
            names_untouched: false,
            shares_locks: false,
            times_tell_changes: TimesTell::OfSome,
            ..Properties::TRANSPARENT
        };
        let all = slots.iter().map(|slot| slot.member.base.file_system.properties());
        // A read-only branch does not make the union read-only.
        let all = all.fold(own, |all, one| all.stacked_on(Properties { read_only: false, ..one }));
        let views = self.union.family.views();
        let all = views.iter().map(|view| view.file_system().properties()).fold(all, |all, one| all.stacked_on(one));
        let read_only = slots.iter().all(|slot| !self.union.branches.may_change(&slot.member)) && views.is_empty();
        // The meaning of a name, and a directory's attributes, depend on the caller.
        let is_split = !views.is_empty();
        let has_backing_files = slots.iter().any(|slot| slot.member.base.file_system.properties().has_backing_files);
        let access_control = if is_split { AccessControl::NotShown } else { all.access_control };
        Properties {
            read_only,
            has_backing_files,
            access_control,
            needs_every_lookup: all.needs_every_lookup || is_split,
            needs_failed_lookups: all.needs_failed_lookups || is_split,
            needs_fresh_attributes: all.needs_fresh_attributes || is_split,
            // Names of branches are exact in the union.
            folds_names: false,
            ..all
        }
    }

    fn describe(&self) -> Vec<Description> {
        let slots = self.union.branches.slots();
        // Layers of one branch are adjacent.
        let newest: Vec<_> = slots.chunk_by(Slot::is_beside).map(|group| &group[0]).collect();
        let mut members: Vec<_> = newest.iter().flat_map(|slot| slot.member.base.file_system.describe()).collect();
        let details: Vec<_> = newest.iter().map(|slot| format!("{}={}", slot.member.base.label, slot.mode)).collect();
        let views = self.union.family.views();
        members.extend(views.iter().flat_map(|view| view.file_system().describe()));
        let views = views.iter().map(|view| format!("{}={} (a view)", view.rules(), view.label()));
        let details: Vec<_> = details.into_iter().chain(views).collect();
        let properties = Properties { names_untouched: false, ..Properties::TRANSPARENT };
        members.push(Description { kind: KIND.name.to_owned(), details: details.join(", "), properties });
        members
    }

    fn control(&self, command: &Control) -> std::result::Result<String, ControlError> {
        if command.target == KIND.name {
            return self.union.command(command);
        }
        for slot in self.union.branches.slots().iter() {
            match slot.member.base.file_system.control(command) {
                Err(ControlError::UnknownTarget(_)) => {}
                answered => return answered,
            }
        }
        for view in self.union.family.views() {
            match view.file_system().control(command) {
                Err(ControlError::UnknownTarget(_)) => {}
                answered => return answered,
            }
        }
        Err(ControlError::UnknownTarget(command.target.clone()))
    }

    fn keep_access_times(&self, kept: KeptAccessTimes) {
        *self.union.kept_access_times.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        self.union.family.views().iter().for_each(|view| view.file_system().keep_access_times(kept));
        self.union.branches.slots().iter().for_each(|slot| slot.member.base.file_system.keep_access_times(kept));
    }

    fn set_mount_point(&self, directory: BorrowedFd<'_>) {
        self.union.family.views().iter().for_each(|view| view.file_system().set_mount_point(directory));
        self.union.branches.slots().iter().for_each(|slot| slot.member.base.file_system.set_mount_point(directory));
        if let Ok(directory) = directory.try_clone_to_owned() {
            // A stack is mounted once.
            let _ = self.union.mount_point.set(directory);
        }
    }

    fn set_notifier(&self, notifier: Arc<dyn Notifier>) {
        for slot in self.union.branches.slots().iter() {
            slot.member.base.file_system.set_notifier(Arc::new(Everything(Arc::clone(&notifier))));
        }
        for view in self.union.family.views() {
            view.file_system().set_notifier(Arc::new(Everything(Arc::clone(&notifier))));
            view.union().notify(Arc::clone(&notifier));
        }
        self.union.notify(notifier);
    }
}

impl Drop for UnionFileSystem {
    fn drop(&mut self) {
        self.union.family.end();
        self.union.recent.end();
        // The next mount of the branches finds them free.
        self.union.branches.slots().iter().for_each(|slot| slot.member.pace.rest(LAST_ANSWERS));
    }
}

fn bad_branch(BadBranch { label, why }: BadBranch) -> OptionError {
    let problem = match why {
        WhyBad::Error(error) => OptionProblem::Branch { error },
        WhyBad::Refused(why) => OptionProblem::RefusedBranch(why),
    };
    OptionError { layer: KIND.name, key: label, problem }
}

/// Forwards the news that something has changed in a branch. What users see of it may depend on all branches.
struct Everything(Arc<dyn Notifier>);

impl Notifier for Everything {
    fn write_back(&self) -> bool {
        self.0.write_back()
    }

    fn attributes_changed(&self, _: &Handle) {
        self.0.everything_changed();
    }

    fn data_changed(&self, _: &Handle, _: u64, _: u64) {
        self.0.everything_changed();
    }

    fn entry_changed(&self, _: &Handle, _: Name<'_>) {
        self.0.everything_changed();
    }

    fn everything_changed(&self) {
        self.0.everything_changed();
    }
}
