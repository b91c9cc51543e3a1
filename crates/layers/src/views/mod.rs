//! Split views (Unionfs, section 3.9): inside one mount, chosen processes see and write a branch of their own.
//!
//! Each view is an almost independent union: of a private branch, the only one that it writes, and the branches of the mount's
//! union, which it only reads. All share one lock for operations, so that branches change for all at once; changes that the
//! mount's union makes below a view make the view revalidate ([`Family::note_change`]).
//!
//! **Invariants.** An object other than a directory has a vnode in each view, through which only that view opens and changes
//! it, and an open file stays in the view in which it was opened. A directory that several have at one location is one vnode
//! ([`place`]), which serves each caller from the caller's view. No view writes to anything but its private branch.

mod commands;
mod lineage;
mod listing;
pub(crate) mod merged_directory;
mod process;
pub(crate) mod process_events;
mod rule;
mod session;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use vnode::{Caller, Errno, HANDLE_MAX, Handle, Result};

use crate::BranchMode;
use crate::union::branch::branches::{Base, Slot, assign_modes};
use crate::union::branch::register::Register;
use crate::union::cache::revalidation::refresh_all;
use crate::union::commands::Groups;
use crate::union::identity;
use crate::union::identity::{ANOTHER, Identity};
use crate::union::node::Node;
use crate::union::operations::gate::Gate;
use crate::union::state::Union;
pub(crate) use commands::Definition;
pub(crate) use listing::SplitListing;
pub(crate) use merged_directory::Hosting;
pub(crate) use rule::Rule;

/// State shared by the unions of one mount.
#[derive(Default)]
pub(crate) struct Family {
    changes: Gate,
    /// The mount's union, for callers without a view.
    common: OnceLock<Weak<Union>>,
    views: ArcSwap<Vec<Arc<View>>>,
    /// Whether there are or were views: the kernel's caches may be of several.
    is_split: AtomicBool,
    /// Directories that were most recently set apart: the caller retries, and may hold no reference to them meanwhile.
    apart: Mutex<VecDeque<Arc<Node>>>,
}

/// Maximum number of operations in progress on directories set apart.
const APART_MAX: usize = 64;

/// A view: its rules, and the union that its processes see.
pub(crate) struct View {
    rules: Vec<Arc<Rule>>,
    union: Arc<Union>,
    /// Root vnode, kept alive as long as the view.
    root: Arc<Node>,
}

/// Additional state of a view's union.
pub(crate) struct Private {
    /// The branch that it writes.
    pub(crate) base: Arc<Base>,
    is_removed: AtomicBool,
}

/// The view from which a request is served.
pub(crate) enum Choice {
    /// The view of the request's vnode: the request comes from no process.
    Own,
    /// The given view.
    Of(Arc<Union>),
}

impl Family {
    /// Returns whether there are or were views.
    pub(crate) fn is_split(&self) -> bool {
        self.is_split.load(Ordering::Acquire)
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, ()> {
        self.changes.pass()
    }

    pub(crate) fn write(&self, patience: Duration) -> Option<RwLockWriteGuard<'_, ()>> {
        self.changes.close(patience)
    }

    /// The views, in the order in which they are tried.
    pub(crate) fn views(&self) -> Vec<Arc<View>> {
        self.views.load_full().to_vec()
    }

    /// The mount's union, for callers without a view.
    pub(crate) fn common(&self) -> Option<Arc<Union>> {
        self.common.get()?.upgrade()
    }

    /// Sets the mount's union, for callers without a view.
    pub(crate) fn set_common(&self, union: &Arc<Union>) {
        // There is only one, set once.
        let _ = self.common.set(Arc::downgrade(union));
    }

    /// Returns the view from which a caller is served.
    pub(crate) fn choose(&self, caller: &Caller) -> Choice {
        if caller.server {
            return Choice::Own;
        }
        let views = self.views.load();
        if let Some(view) = views.iter().find(|view| view.rules.iter().any(|rule| rule.is_for(caller))) {
            return Choice::Of(Arc::clone(&view.union));
        }
        match self.common() {
            Some(common) if caller.pid != 0 || caller.uid != 0 => Choice::Of(common),
            _ => Choice::Own,
        }
    }

    /// Records that the union has changed a name or an object's location: views that read its branches revalidate.
    pub(crate) fn note_change(&self, by: &Union) {
        if by.private.is_none() && self.is_split() {
            self.views.load().iter().for_each(|view| view.union.branches.note_change());
        }
    }

    /// Ends all views: the mount has ended.
    pub(crate) fn end(&self) {
        self.views.store(Arc::default());
        self.forget_apart();
    }

    /// Keeps a directory that was set apart alive until the operation is retried.
    fn keep_apart(&self, node: Arc<Node>) {
        let mut apart = self.apart.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = if apart.len() < APART_MAX { None } else { apart.pop_front() };
        apart.push_back(node);
        drop(apart);
        // Dropping a directory may take locks.
        drop(oldest);
    }

    fn forget_apart(&self) {
        let apart = std::mem::take(&mut *self.apart.lock().unwrap_or_else(PoisonError::into_inner));
        drop(apart);
    }

    fn set_views(&self, views: Vec<Arc<View>>) {
        self.is_split.fetch_or(!views.is_empty(), Ordering::Release);
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
    pub(crate) fn private(&self) -> &Private {
        self.union.private.as_ref().expect("the union of a view has a private branch")
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
const FORM: u8 = 2;
/// First byte of handles that cannot be resolved: those of a face in the mount's union, and of one in a view.
const FACE: u8 = 3;
const FACE_IN_VIEW: u8 = 4;
/// Number of bytes by which that is longer than a handle of the view's union.
const LONGER: usize = 2;

impl Union {
    /// Returns whether the union itself writes the branch, and is not a view that only reads it.
    pub(crate) fn is_own(&self, base: &Arc<Base>) -> bool {
        self.private.as_ref().is_none_or(|private| Arc::ptr_eq(&private.base, base))
    }

    /// Returns whether it was the union of a view that has ended.
    pub(crate) fn is_removed(&self) -> bool {
        self.private.as_ref().is_some_and(|private| private.is_removed.load(Ordering::Relaxed))
    }

    /// The handle of an object outside the union, which names the object's view, and marks a face as such.
    fn outward(&self, handle: &Handle, is_face: bool) -> Handle {
        let (form, rest) = handle.as_bytes().split_first().expect("a handle has a form");
        let bytes = match (&self.private, is_face) {
            (None, false) => return *handle,
            (None, true) => [&[FACE], rest].concat(),
            (Some(private), _) => {
                let form = match *form {
                    _ if is_face => FACE_IN_VIEW,
                    ANOTHER => ANOTHER,
                    _ => FORM,
                };
                [&[form], &private.base.known.tag.to_le_bytes()[..], rest].concat()
            }
        };
        Handle::new(&bytes).expect("identities leave room for the view")
    }

    /// An identity whose handle has room for the view.
    pub(crate) fn fitting(&self, identity: Identity) -> Result<Identity> {
        let is_too_long = self.private.is_some() && identity.handle.as_bytes().len() + LONGER > HANDLE_MAX;
        if is_too_long { Err(Errno::EOVERFLOW) } else { Ok(identity) }
    }

    /// The union that a handle belongs to, and the handle there.
    pub(crate) fn inward(self: &Arc<Self>, handle: &Handle) -> Result<(Arc<Union>, Handle)> {
        let [FORM, low, high, rest @ ..] = handle.as_bytes() else { return Ok((Arc::clone(self), *handle)) };
        let tag = u16::from_le_bytes([*low, *high]);
        let views = self.family.views();
        let view = views.iter().find(|view| view.private().base.known.tag == tag).ok_or(Errno::ESTALE)?;
        let inner = Handle::new(&[&[identity::FORM], rest].concat())?;
        Ok((Arc::clone(&view.union), inner))
    }

    /// Sets the mode of each branch.
    pub(crate) fn assign_modes(&self, slots: &mut [Slot]) {
        assign_modes(slots);
        for slot in slots {
            if !self.is_own(&slot.member.base) {
                slot.mode = BranchMode::ReadOnly;
            }
        }
    }

    /// Replaces the branches, also in the views. No operation may be in progress.
    pub(crate) fn install(&self, groups: Groups, register: &Register) {
        let mut slots = groups.concat();
        self.assign_modes(&mut slots);
        self.put(slots, register);
        if self.private.is_none() {
            self.family.views.load().iter().for_each(|view| view.union.follow_branches(self, register));
        }
    }

    /// Takes over the branches of the mount's union.
    fn follow_branches(&self, common: &Union, shared: &Register) {
        let Some(private) = &self.private else { return };
        let own = self.branches.slots().iter().filter(|slot| self.is_own(&slot.member.base)).cloned().collect();
        let slots = with_shared(own, &common.branches.slots());
        let mut register = shared.clone();
        let mut own = self.register.lock().unwrap_or_else(PoisonError::into_inner);
        register.enter_as(&own, private.base.known.tag);
        *own = register.clone();
        drop(own);
        self.put(slots, &register);
    }

    fn put(&self, slots: Vec<Slot>, register: &Register) {
        for slot in slots.iter().filter(|slot| self.is_own(&slot.member.base)) {
            slot.member.work.remember(register.to_text());
        }
        self.branches.replace(slots, register);
        self.recent.forget();
        // Directories have the identity of the oldest branch: if that is now another one, those in use have to be found by both
        // identities.
        let directories = self.table.directories();
        directories.iter().for_each(|directory| directory.forget_names());
        refresh_all(directories);
    }
}

/// The branches of a view: its own, and below them, read-only, those of the mount's union.
fn with_shared(own: Vec<Slot>, shared: &[Slot]) -> Vec<Slot> {
    own.into_iter().chain(shared.iter().map(|slot| Slot::read_only(&slot.member))).collect()
}
