//! The state of the layer: its current members, and what it keeps for each object.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;

use arc_swap::ArcSwap;

use ::fist::budget::Lease;
use vnode::{Caller, KeyedGuard, KeyedLocks, Name, Notifier, Result, VnodeRef};

use super::hooks::HookMask;
use super::members::CollapsedMembers;
use super::module::LoadedModule;

/// The layer of one or more collapsed FiST modules.
pub(crate) struct FistLayer {
    /// Current members; a command replaces one by another.
    pub(crate) members: ArcSwap<CollapsedMembers>,
    /// The hook mask: for other operations the members need not be consulted.
    pub(crate) hooks: HookMask,
    /// Whether objects keep state; this cannot change.
    pub(crate) keeps_state: bool,
    pub(crate) notifier: OnceLock<Arc<dyn Notifier>>,
    /// Lock held by an operation where operations are performed one at a time.
    serial: KeyedLocks<()>,
    /// Thread that holds the lock.
    serial_thread: Mutex<Option<ThreadId>>,
}

/// Guard of the current operation where operations are performed one at a time.
pub(crate) struct SerialGuard<'a> {
    thread: &'a Mutex<Option<ThreadId>>,
    _lock: KeyedGuard<'a, ()>,
}

impl Drop for SerialGuard<'_> {
    fn drop(&mut self) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// State of each object in use, allocated separately when there is any, since most FiST modules keep none.
#[derive(Default)]
pub(crate) struct ObjectState(OnceLock<Box<ObjectData>>);

/// State kept for an object.
#[derive(Default)]
pub(crate) struct ObjectData {
    /// The `%per_vnode` fields for each member; empty until they are first used.
    pub(crate) fields: Mutex<Vec<VnodeFields>>,
    /// Lookup location of the object.
    pub(crate) location: Mutex<LookupLocation>,
}

/// The `%per_vnode` fields of an object.
#[derive(Default)]
pub(crate) struct VnodeFields {
    /// Number of the layout of the fields.
    pub(crate) layout: u64,
    pub(crate) bytes: Vec<u8>,
    /// Lease of the memory that the fields take from the mount's budget.
    pub(crate) _lease: Lease,
}

/// Lookup location of an object.
#[derive(Default)]
pub(crate) struct LookupLocation {
    pub(crate) name: Vec<u8>,
    /// Lower directory.
    pub(crate) directory: Option<VnodeRef>,
}

impl ObjectState {
    /// What is kept for the object.
    pub(crate) fn data(&self) -> &ObjectData {
        self.0.get_or_init(Box::default)
    }

    /// Records where the object was looked up.
    pub(crate) fn set_location(&self, name: Name<'_>, directory: &VnodeRef) {
        let mut location = self.data().location.lock().unwrap_or_else(PoisonError::into_inner);
        if location.name != name.as_bytes() {
            location.name = name.as_bytes().to_vec();
        }
        location.directory = Some(VnodeRef::clone(directory));
    }
}

impl FistLayer {
    /// The layer of these modules, the topmost first.
    pub(crate) fn new(modules: Vec<LoadedModule>) -> FistLayer {
        let members = CollapsedMembers::new(modules.into_iter().map(Arc::new).collect());
        let (keeps_state, hooks) = (members.keeps_state, HookMask::new(members.hook_mask()));
        FistLayer {
            members: ArcSwap::from_pointee(members),
            hooks,
            keeps_state,
            notifier: OnceLock::new(),
            serial: KeyedLocks::default(),
            serial_thread: Mutex::default(),
        }
    }

    /// Excludes other operations with rules while one runs, where a module requests this. Operations that follow from
    /// that one in its thread belong to it, such as the release of a file that was opened to change the size.
    ///
    /// # Errors
    /// Returns `EINTR` if the caller is killed while it waits.
    pub(crate) fn lock_serial(&self, members: &CollapsedMembers, caller: &Caller) -> Result<Option<SerialGuard<'_>>> {
        if !members.is_serial {
            return Ok(None);
        }
        let own = Some(std::thread::current().id());
        let holder = || self.serial_thread.lock().unwrap_or_else(PoisonError::into_inner);
        if *holder() == own {
            return Ok(None);
        }
        let lock = self.serial.write_unless(caller.cancellation(), ())?;
        *holder() = own;
        Ok(Some(SerialGuard { thread: &self.serial_thread, _lock: lock }))
    }
}
