//! State shared by the unions of a mount: the view from which each caller is served, and the lock for operations.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use vnode::Caller;

use super::{MountState, Node, Union, View, ViewState};
use crate::union::branch::branches::BranchBase;

/// Maximum number of operations in progress on detached directories.
const MAX_DETACHED: usize = 64;

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

    /// Ends all views: the mount has ended.
    pub(crate) fn end(&self) {
        self.views.store(Arc::default());
        self.clear_detached();
    }

    /// Keeps a directory that was detached alive until the operation is retried.
    pub(crate) fn keep_detached(&self, node: Arc<Node>) {
        let mut detached = self.detached.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = if detached.len() < MAX_DETACHED { None } else { detached.pop_front() };
        detached.push_back(node);
        drop(detached);
        // Dropping a directory may take locks.
        drop(oldest);
    }

    pub(crate) fn clear_detached(&self) {
        let detached = std::mem::take(&mut *self.detached.lock().unwrap_or_else(PoisonError::into_inner));
        drop(detached);
    }

    pub(crate) fn set_views(&self, views: Vec<Arc<View>>) {
        self.has_had_views.fetch_or(!views.is_empty(), Ordering::Release);
        self.views.store(Arc::new(views));
    }

    pub(crate) fn find(&self, label: &str) -> Option<Arc<View>> {
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

impl Union {
    /// Begins an operation: the set of branches stays the same until the result is dropped. Must not be called by a holder of
    /// an operation guard.
    pub(crate) fn operation_guard(&self) -> RwLockReadGuard<'_, ()> {
        self.mount_state.operation_guard()
    }

    /// Records that it has changed a name or an object's location: views that read its branches revalidate.
    pub(crate) fn invalidate_views(&self) {
        if self.view_state.is_none() && self.mount_state.has_had_views() {
            self.mount_state.views.load().iter().for_each(|view| view.union.branches.bump_generation());
        }
    }

    /// Returns whether the union itself writes the branch, and is not a view that only reads it.
    pub(crate) fn is_own(&self, base: &Arc<BranchBase>) -> bool {
        self.view_state.as_ref().is_none_or(|view_state| Arc::ptr_eq(&view_state.base, base))
    }

    /// Returns whether it was the union of a view that has ended.
    pub(crate) fn is_removed(&self) -> bool {
        self.view_state.as_ref().is_some_and(|view_state| view_state.is_removed.load(Ordering::Relaxed))
    }
}
