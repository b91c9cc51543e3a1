//! Fan-out: several file systems as one, in which every object has a branch object in each branch that has it.
//!
//! An object stands for its first branch object, the primary one; rules reach the others. The lookup of an object
//! determines its primary branch object: in a directory the one in the first branch that has it, unless a rule looked
//! in another.

mod file;
mod node;

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use vnode::{
    Caller, Claim, Control, ControlError, Description, Errno, FileSystem, FileSystemRef, Handle, KeptAccessTimes, Name,
    Notifier, Properties, Result, VnodeRef,
};

pub(crate) use node::FanOutVnode;

/// Several file systems as one.
pub(crate) struct FanOut {
    branches: Vec<FileSystemRef>,
    /// Live objects, so that all holders of an object see the same branch objects.
    live: Mutex<HashMap<Handle, Weak<FanOutVnode>>>,
}

/// Branch objects of an object, one for each branch that has it.
pub(crate) type BranchObjects = Vec<Option<VnodeRef>>;

/// Joins these file systems into one.
pub(crate) fn join(branches: Vec<FileSystemRef>) -> FileSystemRef {
    Arc::new(FanOutFileSystem(Arc::new(FanOut { branches, live: Mutex::default() })))
}

struct FanOutFileSystem(Arc<FanOut>);

impl FanOut {
    /// Returns the object of these branch objects: the live one if it exists, updated with the branch objects known
    /// now.
    fn node(self: &Arc<Self>, primary_branch: usize, branch_objects: BranchObjects) -> Result<Arc<FanOutVnode>> {
        let node = FanOutVnode::new(Arc::clone(self), primary_branch, branch_objects)?;
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live_node) = live.get(&node.identity()).and_then(Weak::upgrade) {
            live_node.update_branch_objects(node.branch_objects());
            return Ok(live_node);
        }
        let node = Arc::new(node);
        live.insert(node.identity(), Arc::downgrade(&node));
        Ok(node)
    }

    /// Forgets an object that is being dropped, unless a new one has taken its place.
    fn forget(&self, handle: &Handle) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if live.get(handle).is_some_and(|node| node.strong_count() == 0) {
            live.remove(handle);
        }
    }

    /// Returns the branch objects of an object, including those at its path in the other branches.
    fn branch_objects_at(&self, primary_branch: usize, object: &VnodeRef) -> BranchObjects {
        let mut branch_objects = vec![None; self.branches.len()];
        let server = Caller::server();
        if let Ok(path) = object.path() {
            for (branch, file_system) in self.branches.iter().enumerate() {
                let mut at = file_system.root();
                let found = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).try_for_each(|name| {
                    at = at.lookup(&server, Name::new(name)?)?.vnode;
                    Ok::<(), Errno>(())
                });
                if found.is_ok() && at.kind() == object.kind() {
                    branch_objects[branch] = Some(at);
                }
            }
        }
        branch_objects[primary_branch] = Some(Arc::clone(object));
        branch_objects
    }
}

/// Returns the handle of an object: the index of its primary branch, and the handle of the branch object there.
fn handle(branch: usize, object: &Handle) -> Result<Handle> {
    let mut bytes = vec![branch as u8];
    bytes.extend_from_slice(object.as_bytes());
    Handle::new(&bytes)
}

/// Returns an inode number that includes the branch, to distinguish numbers of several file systems. Those of the first
/// branch stay as they are.
fn inode(branch: usize, ino: u64) -> u64 {
    ino ^ (branch as u64) << 56
}

impl FileSystem for FanOutFileSystem {
    fn root(&self) -> VnodeRef {
        let branch_objects = self.0.branches.iter().map(|branch| Some(branch.root())).collect();
        self.0.node(0, branch_objects).expect("the handle of a root is short")
    }

    fn resolve(&self, handle: &Handle) -> Result<VnodeRef> {
        let (branch, rest) = handle.as_bytes().split_first().ok_or(Errno::ESTALE)?;
        let branch = usize::from(*branch);
        let file_system = self.0.branches.get(branch).ok_or(Errno::ESTALE)?;
        let object = file_system.resolve(&Handle::new(rest)?)?;
        let branch_objects = self.0.branch_objects_at(branch, &object);
        Ok(self.0.node(branch, branch_objects)?)
    }

    fn sync(&self) -> Result<()> {
        // All branches are synced, and the first error is reported.
        self.0.branches.iter().map(|branch| branch.sync()).fold(Ok(()), Result::and)
    }

    fn claim(&self) -> Result<Claim> {
        let writable = self.0.branches.iter().filter(|branch| !branch.properties().read_only);
        Ok(Claim::all(writable.map(|branch| branch.claim()).collect::<Result<Vec<_>>>()?))
    }

    fn properties(&self) -> Properties {
        let all = self.0.branches.iter().map(|branch| branch.properties());
        let combined = all
            .reduce(|one, other| Properties { read_only: one.read_only && other.read_only, ..one.stacked_on(other) });
        // Locks taken outside are those of one branch object only.
        Properties { shares_locks: false, ..combined.unwrap_or(Properties::TRANSPARENT) }
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

    fn set_notifier(&self, notifier: Arc<dyn Notifier>) {
        for (branch, file_system) in self.0.branches.iter().enumerate() {
            file_system.set_notifier(Arc::new(BranchNotifier { branch, notifier: Arc::clone(&notifier) }));
        }
    }

    fn set_mount_point(&self, directory: BorrowedFd<'_>) {
        self.0.branches.iter().for_each(|branch| branch.set_mount_point(directory));
    }

    fn keep_access_times(&self, kept: KeptAccessTimes) {
        self.0.branches.iter().for_each(|branch| branch.keep_access_times(kept));
    }
}

/// Forwards the notifications of changes in a branch.
struct BranchNotifier {
    branch: usize,
    notifier: Arc<dyn Notifier>,
}

impl BranchNotifier {
    fn notify_with_handle(&self, object: &Handle, notify: impl FnOnce(&dyn Notifier, &Handle)) {
        match handle(self.branch, object) {
            Ok(handle) => notify(&*self.notifier, &handle),
            Err(_) => self.notifier.everything_changed(),
        }
    }
}

impl Notifier for BranchNotifier {
    fn write_back(&self) -> bool {
        self.notifier.write_back()
    }

    fn attributes_changed(&self, object: &Handle) {
        self.notify_with_handle(object, |notifier, handle| notifier.attributes_changed(handle));
    }

    fn data_changed(&self, object: &Handle, offset: u64, length: u64) {
        self.notify_with_handle(object, |notifier, handle| notifier.data_changed(handle, offset, length));
    }

    fn entry_changed(&self, directory: &Handle, name: Name<'_>) {
        if self.branch == 0 {
            self.notify_with_handle(directory, |notifier, handle| notifier.entry_changed(handle, name));
        } else {
            // The directory may be known by its branch object in another branch.
            self.notifier.everything_changed();
        }
    }

    fn everything_changed(&self) {
        self.notifier.everything_changed();
    }
}
