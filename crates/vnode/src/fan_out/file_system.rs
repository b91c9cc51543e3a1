//! A fan-out as a file system.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::handle::{MAX_BRANCHES, is_digest, of_branch, parse};
use super::health::BranchHealth;
use super::object::{FanOut, ReadOrder};
use super::routing::Routing;
use crate::{
    Caller, Claim, Control, ControlError, Description, Errno, FileSystem, FileSystemRef, Handle, KeptAccessTimes,
    KeyedLocks, LiveTable, Name, Needs, Notifier, Notifiers, Promises, Properties, Result, VnodeRef,
};

/// Joins these file systems into one, the one with the highest priority first.
///
/// # Panics
/// If there are none, or more than 128.
pub fn join(branches: Vec<FileSystemRef>, routing: impl Routing) -> FileSystemRef {
    assert!((1..=MAX_BRANCHES).contains(&branches.len()), "a fan-out has from 1 to {MAX_BRANCHES} branches");
    let health = BranchHealth::new(branches.len());
    Arc::new(FanOutFileSystem(Arc::new(FanOut {
        branches,
        routing: Box::new(routing),
        health,
        live: LiveTable::default(),
        locks: KeyedLocks::default(),
        names: KeyedLocks::default(),
        entering: Mutex::default(),
        failing: Mutex::default(),
        has_digests: AtomicBool::new(false),
        notifiers: Arc::default(),
        branch_notifiers: OnceLock::new(),
    })))
}

struct FanOutFileSystem(Arc<FanOut>);

impl FanOutFileSystem {
    fn healthy(&self) -> impl Iterator<Item = &FileSystemRef> {
        self.0.health.healthy().map(|branch| &self.0.branches[branch])
    }

    /// Returns the live object of a handle, if the caller may have one of its branch objects by handle.
    fn resolve_live(&self, caller: &Caller, handle: &Handle) -> Result<VnodeRef> {
        let found = self.0.live.find(handle).ok_or(Errno::ESTALE)?;
        let resolve = |branch: usize, object: &VnodeRef| self.0.branches[branch].resolve(caller, &object.handle());
        found.read(ReadOrder::PrimaryFirst, resolve)?;
        Ok(found)
    }
}

impl FileSystem for FanOutFileSystem {
    fn root(&self) -> VnodeRef {
        let roots = self.0.branches.iter().map(|branch| Some(branch.root())).collect();
        self.0.node(0, roots).expect("every branch has a root")
    }

    fn resolve(&self, caller: &Caller, handle: &Handle) -> Result<VnodeRef> {
        if is_digest(handle) {
            return self.resolve_live(caller, handle);
        }
        let (branch, object) = parse(handle)?;
        let file_system = self.0.branches.get(branch).ok_or(Errno::ESTALE)?;
        if self.0.health.has_failed(branch) {
            return self.resolve_live(caller, handle);
        }
        let objects = self.0.objects_at_path_of(branch, &file_system.resolve(caller, &object)?)?;
        Ok(self.0.node(branch, objects)?)
    }

    fn sync(&self) -> Result<()> {
        // All branches are synced, and the first error is reported.
        self.healthy().map(|branch| branch.sync()).fold(Ok(()), Result::and)
    }

    fn end_of_use(&self) -> Result<()> {
        // The use of all branches ends, also of those that do not work, and the first error is reported.
        self.0.branches.iter().map(|branch| branch.end_of_use()).fold(Ok(()), Result::and)
    }

    fn claim(&self) -> Result<Claim> {
        let written = self.0.branches.iter().filter(|branch| !branch.properties().needs.read_only);
        Ok(Claim::all(written.map(|branch| branch.claim()).collect::<Result<Vec<_>>>()?))
    }

    fn properties(&self) -> Properties {
        let branches = self.0.branches.iter().map(|branch| branch.properties());
        let joined = branches.clone().reduce(Properties::stacked_on).unwrap_or(Properties::TRANSPARENT);
        let in_all = self.0.changes_all();
        // Of several branches, the one that may be written receives the changes.
        let read_only = branches.map(|branch| branch.needs.read_only).reduce(|one, other| one && other);
        let is_missed = in_all && self.healthy().any(|branch| branch.properties().needs.read_only);
        Properties {
            promises: Promises {
                // Locks taken outside are those of one branch object only.
                shares_locks: false,
                // Nobody but this file system may write to one branch only.
                has_backing_files: joined.promises.has_backing_files && !in_all,
                persistent_handles: joined.promises.persistent_handles && !self.0.has_digests.load(Ordering::Relaxed),
                ..joined.promises
            },
            needs: Needs { read_only: read_only == Some(true) || is_missed, ..joined.needs },
        }
    }

    fn describe(&self) -> Vec<Description> {
        self.0.branches.iter().flat_map(|branch| branch.describe()).collect()
    }

    fn control(&self, command: &Control) -> std::result::Result<String, ControlError> {
        for branch in &self.0.branches {
            match branch.control(command) {
                Err(ControlError::UnknownTarget(_)) => {}
                result => return result,
            }
        }
        Err(ControlError::UnknownTarget(command.target.clone()))
    }

    fn add_notifier(&self, notifier: &Arc<dyn Notifier>) {
        let FanOut { branches, notifiers, branch_notifiers, .. } = &*self.0;
        notifiers.add(notifier);
        let of_branch = |branch| Arc::new(BranchNotifier { branch, upper: Arc::clone(notifiers) }) as Arc<dyn Notifier>;
        let own = branch_notifiers.get_or_init(|| (0..branches.len()).map(of_branch).collect());
        branches.iter().zip(own).for_each(|(branch, own)| branch.add_notifier(own));
    }

    fn set_mount_point(&self, directory: BorrowedFd<'_>) {
        self.0.branches.iter().for_each(|branch| branch.set_mount_point(directory));
    }

    fn keep_access_times(&self, kept: KeptAccessTimes) {
        self.0.branches.iter().for_each(|branch| branch.keep_access_times(kept));
    }
}

/// Passes on the notifications of changes in a branch.
struct BranchNotifier {
    branch: usize,
    upper: Arc<Notifiers>,
}

impl Notifier for BranchNotifier {
    fn write_back(&self) -> bool {
        self.upper.write_back()
    }

    fn attributes_changed(&self, object: &Handle) {
        self.upper.attributes_changed(&of_branch(self.branch, object));
    }

    fn data_changed(&self, object: &Handle, offset: u64, length: u64) {
        self.upper.data_changed(&of_branch(self.branch, object), offset, length);
    }

    fn entry_changed(&self, directory: &Handle, name: Name<'_>) {
        if self.branch == 0 {
            self.upper.entry_changed(&of_branch(self.branch, directory), name);
        } else {
            // The directory may be known by its branch object in another branch.
            self.upper.everything_changed();
        }
    }

    fn everything_changed(&self) {
        self.upper.everything_changed();
    }
}
