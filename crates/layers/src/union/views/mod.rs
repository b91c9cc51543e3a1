//! Split views (Unionfs, section 3.9): inside one mount, chosen processes see and write a branch of their own.
//!
//! Each view is a union of its own, almost independent: of a private branch, which alone it writes, and the branches of
//! the mount's union, which it only reads. All have one lock for operations, so that branches change for all at once; what
//! the mount's union changes below a view makes the view look again ([`Family::note_change`]).
//!
//! **Invariants.** An object that is no directory has a vnode in each view, by which only that view opens and changes it,
//! and what is open goes on in the view that it was opened in. A directory that several have at one place is one vnode
//! ([`place`]), which answers each caller from the caller's view. No view writes to anything but its private branch.

mod births;
mod commands;
mod lineage;
mod listing;
mod place;
mod process;
mod rule;
mod session;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use vnode::{Caller, Errno, HANDLE_MAX, Handle, Result};

use super::branches::{Base, Slot, assign_modes};
use super::change::Groups;
use super::gate::Gate;
use super::identity::{ANOTHER, Identity};
use super::node::Node;
use super::refresh::refresh_all;
use super::register::Register;
use super::{Union, identity};
use crate::BranchMode;
pub(super) use commands::Definition;
pub(super) use listing::SplitListing;
pub(super) use place::Hosting;
pub(super) use rule::Rule;

/// What the unions of one mount share.
#[derive(Default)]
pub(super) struct Family {
    changes: Gate,
    /// The union of those whom no view is for.
    common: OnceLock<Weak<Union>>,
    views: ArcSwap<Vec<Arc<View>>>,
    /// Whether there are views, or were: what the kernel holds may be of several.
    is_split: AtomicBool,
    /// Directories that were last set apart: whoever asked asks again, and perhaps held nothing of them meanwhile.
    apart: Mutex<VecDeque<Arc<Node>>>,
}

/// So many operations on directories set apart may be under way.
const APART_MAX: usize = 64;

/// A view: whose it is, and the union that they see.
pub(super) struct View {
    rules: Vec<Arc<Rule>>,
    union: Arc<Union>,
    /// Lives as long as the view.
    root: Arc<Node>,
}

/// What makes a union that of a view.
pub(super) struct Private {
    /// The branch that it writes.
    pub(super) base: Arc<Base>,
    is_removed: AtomicBool,
}

/// Whose view a request is answered from.
pub(super) enum Choice {
    /// That of the vnode it is about: no process asks.
    Own,
    /// This one.
    Of(Arc<Union>),
}

impl Family {
    /// Whether there are views, or were.
    pub(super) fn is_split(&self) -> bool {
        self.is_split.load(Ordering::Acquire)
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, ()> {
        self.changes.pass()
    }

    pub(super) fn write(&self, patience: Duration) -> Option<RwLockWriteGuard<'_, ()>> {
        self.changes.close(patience)
    }

    /// The views, in the order in which they are tried.
    pub(super) fn views(&self) -> Vec<Arc<View>> {
        self.views.load_full().to_vec()
    }

    /// The union of those whom no view is for.
    pub(super) fn common(&self) -> Option<Arc<Union>> {
        self.common.get()?.upgrade()
    }

    /// This is the union of those whom no view is for.
    pub(super) fn set_common(&self, union: &Arc<Union>) {
        // There is one, made once.
        let _ = self.common.set(Arc::downgrade(union));
    }

    /// From whose view a caller is answered.
    pub(super) fn choose(&self, caller: &Caller) -> Choice {
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

    /// The union has changed a name, or where an object is: views that read its branches look again.
    pub(super) fn note_change(&self, by: &Union) {
        if by.private.is_none() && self.is_split() {
            self.views.load().iter().for_each(|view| view.union.branches.note_change());
        }
    }

    /// Ends all views: the mount has ended.
    pub(super) fn end(&self) {
        self.views.store(Arc::default());
        self.forget_apart();
    }

    /// Has a directory that was set apart live until the operation is tried again.
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
    /// What its private branch is called.
    pub(super) fn label(&self) -> &str {
        &self.private().base.label
    }

    /// The branch that it writes.
    pub(super) fn private(&self) -> &Private {
        self.union.private.as_ref().expect("the union of a view has a private branch")
    }

    pub(super) fn union(&self) -> &Arc<Union> {
        &self.union
    }

    /// The rules in words, in their order.
    pub(super) fn rules(&self) -> String {
        self.rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// The first byte of a handle that names a view; the private branch's tag follows, and a handle of its union.
const FORM: u8 = 2;
/// The first byte of handles by which nothing is found: of a face in the mount's union, and of one in a view.
const FACE: u8 = 3;
const FACE_IN_VIEW: u8 = 4;
/// How much longer than a handle of the view's union that is.
const LONGER: usize = 2;

impl Union {
    /// Whether the branch is its own to write: not one that a view only reads.
    pub(super) fn is_own(&self, base: &Arc<Base>) -> bool {
        self.private.as_ref().is_none_or(|private| Arc::ptr_eq(&private.base, base))
    }

    /// Whether it was the union of a view that is no more.
    pub(super) fn is_removed(&self) -> bool {
        self.private.as_ref().is_some_and(|private| private.is_removed.load(Ordering::Relaxed))
    }

    /// What an object is known by outside: a handle names the view that the object is of, and what is only a face.
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

    /// An identity that leaves room for the view in its handle.
    pub(super) fn fitting(&self, identity: Identity) -> Result<Identity> {
        let is_too_long = self.private.is_some() && identity.handle.as_bytes().len() + LONGER > HANDLE_MAX;
        if is_too_long { Err(Errno::EOVERFLOW) } else { Ok(identity) }
    }

    /// The union that a handle is of, and the handle there.
    pub(super) fn inward(self: &Arc<Self>, handle: &Handle) -> Result<(Arc<Union>, Handle)> {
        let [FORM, low, high, rest @ ..] = handle.as_bytes() else { return Ok((Arc::clone(self), *handle)) };
        let tag = u16::from_le_bytes([*low, *high]);
        let views = self.family.views();
        let view = views.iter().find(|view| view.private().base.known.tag == tag).ok_or(Errno::ESTALE)?;
        let inner = Handle::new(&[&[identity::FORM], rest].concat())?;
        Ok((Arc::clone(&view.union), inner))
    }

    /// Sets what each branch may be used for.
    pub(super) fn assign_modes(&self, slots: &mut [Slot]) {
        assign_modes(slots);
        for slot in slots {
            if !self.is_own(&slot.member.base) {
                slot.mode = BranchMode::ReadOnly;
            }
        }
    }

    /// Puts branches in the place of those that there are; views see it too. No operation is under way.
    pub(super) fn install(&self, groups: Groups, register: &Register) {
        let mut slots = groups.concat();
        self.assign_modes(&mut slots);
        self.put(slots, register);
        if self.private.is_none() {
            self.family.views.load().iter().for_each(|view| view.union.follow_branches(self, register));
        }
    }

    /// Takes the branches of the mount's union over.
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
        // Directories are known by the branch that was there first: where that is another now, those in use have to be found
        // by both.
        let directories = self.table.directories();
        directories.iter().for_each(|directory| directory.forget_names());
        refresh_all(directories);
    }
}

/// The branches of a view: its own, and on the right, to be read, those of the mount's union.
fn with_shared(own: Vec<Slot>, shared: &[Slot]) -> Vec<Slot> {
    own.into_iter().chain(shared.iter().map(|slot| Slot::read_only(&slot.member))).collect()
}
