//! Split views (Unionfs, section 3.9): inside one mount, chosen processes see and write a branch of their own.
//!
//! Each view is an almost independent union: of a private branch, the only one that it writes, and the branches of the
//! mount's union, which it only reads. All share one lock for operations, so that branches change for all at once;
//! changes that the mount's union makes below a view make the view revalidate ([`MountState::invalidate_views`]).
//!
//! **Invariants.** An object other than a directory has a vnode in each view, through which only that view opens and
//! changes it, and an open file stays in the view in which it was opened. A directory that several have at one location
//! is one vnode ([`merged_directory`]), which serves each caller from the caller's view. No view writes to anything but
//! its private branch.

mod commands;
mod listing;
pub(crate) mod merged_directory;
mod process;
pub(crate) mod process_events;
mod process_tree;
mod rule;
mod session;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use vnode::{Caller, Errno, HANDLE_MAX, Handle, Result};

use crate::BranchMode;
use crate::union::branch::branches::{BranchBase, BranchSlot, assign_modes};
use crate::union::branch::identity;
use crate::union::branch::identity::{DUPLICATE_HANDLE, Identity};
use crate::union::branch::register::BranchRegister;
use crate::union::cache::revalidation::revalidate_all;
use crate::union::commands::Groups;
use crate::union::node::Node;
use crate::union::operations::gate::OperationGate;
use crate::union::state::Union;
pub(crate) use commands::ViewDefinition;
pub(crate) use listing::PerViewListing;
pub(crate) use merged_directory::ViewAliases;
pub(crate) use rule::ViewRule;

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

/// Maximum number of operations in progress on detached directories.
const MAX_DETACHED: usize = 64;

/// A view: its rules, and the union that its processes see.
pub(crate) struct View {
    rules: Vec<Arc<ViewRule>>,
    union: Arc<Union>,
    /// Root vnode, kept alive as long as the view.
    root: Arc<Node>,
}

/// Additional state of a view's union.
pub(crate) struct ViewState {
    /// The branch that it writes.
    pub(crate) base: Arc<BranchBase>,
    is_removed: AtomicBool,
}

/// The view from which a request is served.
pub(crate) enum ViewSelection {
    /// The view of the request's vnode: the request comes from no process.
    Own,
    /// The given view.
    Union(Arc<Union>),
}

impl MountState {
    /// Returns whether there are or were views.
    pub(crate) fn has_had_views(&self) -> bool {
        self.has_had_views.load(Ordering::Acquire)
    }

    pub(crate) fn operation_guard(&self) -> RwLockReadGuard<'_, ()> {
        self.operation_gate.enter()
    }

    pub(crate) fn exclusive_guard(&self, timeout: Duration) -> Option<RwLockWriteGuard<'_, ()>> {
        self.operation_gate.close(timeout)
    }

    /// The views, in the order in which they are tried.
    pub(crate) fn views(&self) -> Vec<Arc<View>> {
        self.views.load_full().to_vec()
    }

    /// The mount's union, for callers without a view.
    pub(crate) fn common_union(&self) -> Option<Arc<Union>> {
        self.common.get()?.upgrade()
    }

    /// Sets the mount's union, for callers without a view.
    pub(crate) fn set_common_union(&self, union: &Arc<Union>) {
        // There is only one, set once.
        let _ = self.common.set(Arc::downgrade(union));
    }

    /// Returns the view from which a caller is served.
    pub(crate) fn select_view(&self, caller: &Caller) -> ViewSelection {
        if caller.server {
            return ViewSelection::Own;
        }
        let views = self.views.load();
        if let Some(view) = views.iter().find(|view| view.rules.iter().any(|rule| rule.matches(caller))) {
            return ViewSelection::Union(Arc::clone(&view.union));
        }
        match self.common_union() {
            Some(common) if caller.pid != 0 || caller.uid != 0 => ViewSelection::Union(common),
            _ => ViewSelection::Own,
        }
    }

    /// Records that the union has changed a name or an object's location: views that read its branches revalidate.
    pub(crate) fn invalidate_views(&self, by: &Union) {
        if by.view_state.is_none() && self.has_had_views() {
            self.views.load().iter().for_each(|view| view.union.branches.bump_generation());
        }
    }

    /// Ends all views: the mount has ended.
    pub(crate) fn end(&self) {
        self.views.store(Arc::default());
        self.clear_detached();
    }

    /// Keeps a directory that was detached alive until the operation is retried.
    fn keep_detached(&self, node: Arc<Node>) {
        let mut detached = self.detached.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = if detached.len() < MAX_DETACHED { None } else { detached.pop_front() };
        detached.push_back(node);
        drop(detached);
        // Dropping a directory may take locks.
        drop(oldest);
    }

    fn clear_detached(&self) {
        let detached = std::mem::take(&mut *self.detached.lock().unwrap_or_else(PoisonError::into_inner));
        drop(detached);
    }

    fn set_views(&self, views: Vec<Arc<View>>) {
        self.has_had_views.fetch_or(!views.is_empty(), Ordering::Release);
        self.views.store(Arc::new(views));
    }

    fn find(&self, label: &str) -> Option<Arc<View>> {
        self.views.load().iter().find(|view| view.label() == label).cloned()
    }
}

impl View {
    /// Name of its private branch.
    pub(crate) fn label(&self) -> &str {
        &self.private().base.label
    }

    /// The branch that it writes.
    pub(crate) fn private(&self) -> &ViewState {
        self.union.view_state.as_ref().expect("the union of a view has a private branch")
    }

    pub(crate) fn union(&self) -> &Arc<Union> {
        &self.union
    }

    /// The rules as text, in order.
    pub(crate) fn rules(&self) -> String {
        self.rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// First byte of a handle that names a view; the private branch's tag follows, and a handle of its union.
const VIEW_HANDLE: u8 = 2;
/// First byte of handles that cannot be resolved: those of an alias in the mount's union, and of one in a view.
const ALIAS_HANDLE: u8 = 3;
const VIEW_ALIAS_HANDLE: u8 = 4;
/// Number of bytes by which that is longer than a handle of the view's union.
const VIEW_TAG_BYTES: usize = 2;

impl Union {
    /// Returns whether the union itself writes the branch, and is not a view that only reads it.
    pub(crate) fn is_own(&self, base: &Arc<BranchBase>) -> bool {
        self.view_state.as_ref().is_none_or(|view_state| Arc::ptr_eq(&view_state.base, base))
    }

    /// Returns whether it was the union of a view that has ended.
    pub(crate) fn is_removed(&self) -> bool {
        self.view_state.as_ref().is_some_and(|view_state| view_state.is_removed.load(Ordering::Relaxed))
    }

    /// The handle of an object outside the union, which names the object's view, and marks an alias as such.
    fn external_handle(&self, handle: &Handle, is_alias: bool) -> Handle {
        let (form, rest) = handle.as_bytes().split_first().expect("a handle has a form");
        let bytes = match (&self.view_state, is_alias) {
            (None, false) => return *handle,
            (None, true) => [&[ALIAS_HANDLE], rest].concat(),
            (Some(view_state), _) => {
                let form = match *form {
                    _ if is_alias => VIEW_ALIAS_HANDLE,
                    DUPLICATE_HANDLE => DUPLICATE_HANDLE,
                    _ => VIEW_HANDLE,
                };
                [&[form], &view_state.base.numbers.tag.to_le_bytes()[..], rest].concat()
            }
        };
        Handle::new(&bytes).expect("identities leave room for the view")
    }

    /// An identity whose handle has room for the view.
    pub(crate) fn require_view_room(&self, identity: Identity) -> Result<Identity> {
        let is_too_long = self.view_state.is_some() && identity.handle.as_bytes().len() + VIEW_TAG_BYTES > HANDLE_MAX;
        if is_too_long { Err(Errno::EOVERFLOW) } else { Ok(identity) }
    }

    /// The union that a handle belongs to, and the handle there.
    pub(crate) fn resolve_view_handle(self: &Arc<Self>, handle: &Handle) -> Result<(Arc<Union>, Handle)> {
        let [VIEW_HANDLE, low, high, rest @ ..] = handle.as_bytes() else { return Ok((Arc::clone(self), *handle)) };
        let tag = u16::from_le_bytes([*low, *high]);
        let views = self.mount_state.views();
        let view = views.iter().find(|view| view.private().base.numbers.tag == tag).ok_or(Errno::ESTALE)?;
        let inner = Handle::new(&[&[identity::NATIVE_HANDLE], rest].concat())?;
        Ok((Arc::clone(&view.union), inner))
    }

    /// Sets the mode of each branch.
    pub(crate) fn assign_modes(&self, slots: &mut [BranchSlot]) {
        assign_modes(slots);
        for slot in slots {
            if !self.is_own(&slot.member.base) {
                slot.mode = BranchMode::ReadOnly;
            }
        }
    }

    /// Replaces the branches, also in the views. No operation may be in progress.
    pub(crate) fn install(&self, groups: Groups, register: &BranchRegister) {
        let mut slots = groups.concat();
        self.assign_modes(&mut slots);
        self.replace_branches(slots, register);
        if self.view_state.is_none() {
            self.mount_state.views.load().iter().for_each(|view| view.union.adopt_branches(self, register));
        }
    }

    /// Takes over the branches of the mount's union.
    fn adopt_branches(&self, common: &Union, shared: &BranchRegister) {
        let Some(view_state) = &self.view_state else { return };
        let own = self.branches.slots().iter().filter(|slot| self.is_own(&slot.member.base)).cloned().collect();
        let slots = with_shared(own, &common.branches.slots());
        let mut register = shared.clone();
        let mut own = self.register.lock().unwrap_or_else(PoisonError::into_inner);
        register.import(&own, view_state.base.numbers.tag);
        *own = register.clone();
        drop(own);
        self.replace_branches(slots, &register);
    }

    fn replace_branches(&self, slots: Vec<BranchSlot>, register: &BranchRegister) {
        for slot in slots.iter().filter(|slot| self.is_own(&slot.member.base)) {
            slot.member.work.set_register(register.to_text());
        }
        self.branches.replace(slots, register);
        self.recent_directories.clear();
        // Directories have the identity of the oldest branch: if that is now another one, those in use have to be found by both
        // identities.
        let directories = self.table.directories();
        directories.iter().for_each(|directory| directory.invalidate_names());
        revalidate_all(directories);
    }
}

/// The branches of a view: its own, and below them, read-only, those of the mount's union.
fn with_shared(own: Vec<BranchSlot>, shared: &[BranchSlot]) -> Vec<BranchSlot> {
    own.into_iter().chain(shared.iter().map(|slot| BranchSlot::read_only(&slot.member))).collect()
}
