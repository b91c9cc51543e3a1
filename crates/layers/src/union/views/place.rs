//! Directories that several views have at one place: one vnode, which answers each caller from the caller's view.
//!
//! The kernel has one tree of names for all processes. If a directory were another vnode to each view, whoever walks
//! through it would take it away from the others: a working directory would have lost its name. So a view's directory is
//! presented as the vnode that is known at its place: that of the mount's union if it has one there, else that of the
//! view which had it first. That vnode, the *host*, remembers which directory it stands for in other views, its *guests*;
//! both know their own place, and a host that has moved hosts nothing new where it was.
//!
//! To remove a directory makes its vnode useless to the kernel, and to rename it moves it for all. Before a guest is, it
//! is set *apart*: from then on it is presented as its own vnode. Before a host is removed while guests of it stay, it is
//! presented by another vnode of its own, a *face*, which is what the kernel removes then. In both cases the operation
//! answers `ESTALE` once, at which the kernel looks the name up again and then tries once more.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use vnode::{Caller, Entry, Errno, FileKind, Handle, Name, NameBuf, Result, Vnode, VnodeRef};

use super::super::Union;
use super::super::identity::Identity;
use super::super::node::{Instance, NO_COUNT, Node, Table, Whereabouts};
use super::super::whiteout;
use super::{ANOTHER, Choice};

/// What a directory's vnode has to do with other views.
#[derive(Default)]
pub(in crate::union) struct Hosting {
    /// What it stands for in other unions, one directory of each.
    guests: Mutex<Vec<Arc<Node>>>,
    /// Directories of views in it that were the first by their name.
    first: Mutex<HashMap<NameBuf, Weak<Node>>>,
    /// The vnode of another union by which it was last presented.
    host: Mutex<Weak<Node>>,
    /// It is not presented by another's vnode.
    is_apart: AtomicBool,
    /// A vnode that is presented instead of this one, for the kernel to have something else to remove.
    face: Mutex<Weak<Node>>,
    /// Of a face, whose it is.
    original: OnceLock<Arc<Node>>,
}

/// No more names are remembered without looking which of them are still in use.
const FIRST_MIN: usize = 64;

impl Node {
    /// What the vnode is to this caller: of a directory, the one in the caller's view. No operation has been begun.
    ///
    /// # Errors
    /// `ENOENT` if the caller's view has no such directory.
    pub(in crate::union) fn for_caller(&self, caller: &Caller) -> Result<Arc<Node>> {
        if self.kind != FileKind::Directory || !self.union.family.is_split() {
            return Ok(self.reference());
        }
        let node = self.behind();
        let Choice::Of(union) = self.union.family.choose(caller) else { return Ok(node) };
        match node.known_in(&union) {
            Some(known) => Ok(known),
            None => {
                let _steady = union.steady();
                node.find_in(&union)
            }
        }
    }

    /// What the vnode is to a caller that changes it: what is of one view, no other changes. The kernel does not say by which
    /// open file it is asked to change a mode, an owner or an extended attribute, so these are refused even to those who have
    /// one of another view; what they write, and truncate, goes through that file. No operation has been begun.
    ///
    /// # Errors
    /// `ENOENT` if the caller's view has no such directory, or is not the one that a file is of.
    pub(in crate::union) fn changed_by(&self, caller: &Caller) -> Result<Arc<Node>> {
        if self.kind != FileKind::Directory {
            self.is_seen_by(caller)?;
        }
        self.for_caller(caller)
    }

    /// `ENOENT` if the caller's view is not the one that a file is of. What is open is not asked about.
    pub(in crate::union) fn is_seen_by(&self, caller: &Caller) -> Result<()> {
        if self.union.family.is_split()
            && let Choice::Of(union) = self.union.family.choose(caller)
            && !Arc::ptr_eq(&union, &self.union)
        {
            return Err(Errno::ENOENT);
        }
        Ok(())
    }

    /// The object of the other union that a vnode stands for there. An operation has been begun.
    pub(in crate::union) fn own(&self, other: &VnodeRef) -> Result<Arc<Node>> {
        let other = other.as_any().downcast_ref::<Node>().ok_or(Errno::EXDEV)?.behind();
        let own = if Arc::ptr_eq(&self.union, &other.union) {
            other
        } else if Arc::ptr_eq(&self.union.family, &other.union.family) && other.kind == FileKind::Directory {
            other.known_in(&self.union).map_or_else(|| other.find_in(&self.union), Ok)?
        } else {
            return Err(Errno::EXDEV);
        };
        own.refresh()?;
        Ok(own)
    }

    /// An entry of this directory as its finder is to get it: a directory as the vnode at its place. An operation has been
    /// begun.
    pub(in crate::union) fn presented(&self, name: Name<'_>, entry: Entry) -> Entry {
        if !entry.attributes.is_directory() || !self.union.family.is_split() {
            return entry;
        }
        let Some(node) = entry.vnode.as_any().downcast_ref::<Node>().map(Node::reference) else { return entry };
        let host = self.host_of(name, Arc::clone(&node));
        if let Some(hosting) = node.hosting.get()
            && Arc::ptr_eq(&host, &node)
        {
            *lock(&hosting.host) = Weak::new();
        }
        Entry { vnode: host, ..entry }
    }

    /// The vnode by which a directory is presented when nobody looks it up by a name.
    pub(in crate::union) fn presented_above(self: Arc<Self>) -> VnodeRef {
        if self.is_root()
            && let Some(common) = self.union.family.common()
        {
            return common.root_node();
        }
        let Some(hosting) = self.hosting.get() else { return self };
        if let Some(face) = lock(&hosting.face).upgrade() {
            return face;
        }
        let host = lock(&hosting.host).upgrade().filter(|_| !hosting.is_apart.load(Ordering::Relaxed));
        host.filter(|host| host.has_guest(&self)).unwrap_or(self)
    }

    /// Sets directories apart that are about to be removed or renamed: each is given by the vnode that its name was looked
    /// up in, what that is to the caller, and the name. An operation has been begun.
    ///
    /// # Errors
    /// `ESTALE` if any was presented as another vnode so far.
    pub(in crate::union) fn set_apart(&self, name: Name<'_>, is_removed: bool) -> Result<()> {
        if !self.union.family.is_split() {
            return Ok(());
        }
        let Ok(found) = self.reference().look_up(&Caller::server(), name) else { return Ok(()) };
        let Some(node) = found.vnode.as_any().downcast_ref::<Node>() else { return Ok(()) };
        let Some(hosting) = node.hosting.get() else { return Ok(()) };
        let host = lock(&hosting.host).upgrade();
        let is_guest = host.is_some_and(|host| host.has_guest(node));
        let is_host = is_removed && node.has_guests_that_stay();
        if !is_guest && !is_host || is_removed && node.has_entries()? {
            return Ok(());
        }
        let family = &self.union.family;
        let mut is_news = false;
        if is_guest && !hosting.is_apart.swap(true, Ordering::Relaxed) {
            family.keep_apart(node.reference());
            is_news = true;
        }
        if is_host && lock(&hosting.face).upgrade().is_none() {
            let face = node.make_face();
            *lock(&hosting.face) = Arc::downgrade(&face);
            family.keep_apart(face);
            is_news = true;
        }
        if is_news { Err(Errno::ESTALE) } else { Ok(()) }
    }

    /// What the vnode is known by outside.
    pub(in crate::union) fn outward(&self) -> Handle {
        let is_face = self.hosting.get().is_some_and(|hosting| hosting.original.get().is_some());
        self.union.outward(&self.identity.handle, is_face)
    }

    /// Whether it is the directory that was found in these places.
    pub(in crate::union) fn is_in(&self, places: &[Instance]) -> bool {
        let is_found = |known: &Instance| {
            places.iter().any(|place| {
                place.member.base.known == known.member.base.known && place.vnode.handle() == known.vnode.handle()
            })
        };
        self.instances().iter().any(is_found)
    }

    /// The directory itself, also of a face.
    pub(in crate::union) fn behind(&self) -> Arc<Node> {
        let original = self.hosting.get().and_then(|hosting| hosting.original.get());
        original.map_or_else(|| self.reference(), Arc::clone)
    }

    /// A vnode that stands for this directory and nothing else.
    fn make_face(&self) -> Arc<Node> {
        let generation = self.generation.load(Ordering::Acquire);
        let face = Node::new(&self.union, (self.identity, NO_COUNT), self.kind, generation, self.instances());
        let _ = face.hosting().original.set(self.reference());
        face
    }

    /// Whether the vnode stands for directories in other unions that are still there when this one is removed.
    fn has_guests_that_stay(&self) -> bool {
        let Some(hosting) = self.hosting.get() else { return false };
        let guests = lock(&hosting.guests).clone();
        guests.iter().any(|guest| {
            guest.refresh().is_ok()
                && matches!(guest.whereabouts(), Whereabouts::At(_))
                && guest.instances().iter().any(|place| guest.union.is_own(&place.member.base))
        })
    }

    /// What this vnode is in a union, if that is known.
    fn known_in(self: &Arc<Self>, union: &Arc<Union>) -> Option<Arc<Node>> {
        if Arc::ptr_eq(&self.union, union) {
            Some(Arc::clone(self))
        } else if self.is_root() {
            Some(union.root_node())
        } else {
            let hosting = self.hosting.get()?;
            lock(&hosting.guests).iter().find(|guest| Arc::ptr_eq(&guest.union, union)).cloned()
        }
    }

    /// The directory that a union has at the place of this one. An operation has been begun.
    fn find_in(self: &Arc<Self>, union: &Arc<Union>) -> Result<Arc<Node>> {
        self.find_whereabouts()?;
        let found = self.path().and_then(|path| union.node_at(&path)).map_err(|_| Errno::ENOENT)?;
        if found.kind != FileKind::Directory {
            return Err(Errno::ENOENT);
        }
        self.takes(&found);
        Ok(found)
    }

    /// The vnode by which a directory with that name in this one is presented.
    fn host_of(&self, name: Name<'_>, node: Arc<Node>) -> Arc<Node> {
        if let Some(face) = node.hosting.get().and_then(|hosting| lock(&hosting.face).upgrade()) {
            return face;
        }
        let parent = self.behind();
        let is_apart = node.hosting().is_apart.load(Ordering::Relaxed);
        if let Some(first) = parent.first_at(name).filter(|first| !Arc::ptr_eq(first, &node)) {
            return if !is_apart && first.takes(&node) { first } else { node };
        }
        if node.union.private.is_none() {
            return node;
        }
        match parent.common_at(name) {
            Some(common) => {
                if !is_apart && common.takes(&node) {
                    common
                } else {
                    node
                }
            }
            None => {
                parent.is_first(name, &node);
                node
            }
        }
    }

    /// The directory of a view that was the first there, if it is still there.
    fn first_at(self: &Arc<Self>, name: Name<'_>) -> Option<Arc<Node>> {
        let first = lock(&self.hosting.get()?.first).get(&name.to_owned())?.upgrade()?;
        let place = self.known_in(&first.union)?;
        let stored = whiteout::stored(name).ok()?;
        (first.refresh().is_ok() && first.was_at(&place, Name::new(&stored).ok()?)).then_some(first)
    }

    /// The directory that the mount's union has there.
    fn common_at(self: &Arc<Self>, name: Name<'_>) -> Option<Arc<Node>> {
        let place = self.known_in(&self.union.family.common()?)?;
        place.refresh().ok()?;
        let found = place.look_up(&Caller::server(), name).ok()?.vnode;
        let node = found.as_any().downcast_ref::<Node>()?.reference();
        (node.kind == FileKind::Directory).then_some(node)
    }

    fn is_first(&self, name: Name<'_>, node: &Arc<Node>) {
        let mut first = lock(&self.hosting().first);
        if first.len() >= FIRST_MIN && first.len().is_power_of_two() {
            first.retain(|_, node| node.strong_count() > 0);
        }
        first.insert(name.to_owned(), Arc::downgrade(node));
    }

    /// Whether this vnode may stand for a directory of another union: it stands for no other there that still has a name.
    fn takes(self: &Arc<Self>, node: &Arc<Node>) -> bool {
        if node.has_guest(self) {
            return false;
        }
        let known = self.known_in(&node.union);
        let is_free = match &known {
            Some(known) => {
                Arc::ptr_eq(known, node)
                    || known.refresh().is_err()
                    || matches!(known.whereabouts(), Whereabouts::Nowhere)
            }
            None => true,
        };
        if is_free {
            let mut guests = lock(&self.hosting().guests);
            let before = guests.iter().position(|guest| Arc::ptr_eq(&guest.union, &node.union));
            let replaced = before.map(|index| guests.swap_remove(index));
            guests.push(Arc::clone(node));
            drop(guests);
            // Dropping a directory may take locks.
            drop(replaced);
            *lock(&node.hosting().host) = Arc::downgrade(self);
        }
        is_free
    }

    fn has_guest(&self, node: &Node) -> bool {
        self.hosting.get().is_some_and(|hosting| {
            lock(&hosting.guests).iter().any(|guest| std::ptr::eq::<Node>(&raw const **guest, node))
        })
    }

    /// It stands for nothing in a view that is no more.
    pub(super) fn forget_guests_of(&self, union: &Arc<Union>) {
        let Some(hosting) = self.hosting.get() else { return };
        let mut guests = lock(&hosting.guests);
        let gone: Vec<Arc<Node>> = guests.extract_if(.., |guest| Arc::ptr_eq(&guest.union, union)).collect();
        drop(guests);
        drop(gone);
    }

    /// Whether the directory has entries, as its union's users see it.
    fn has_entries(&self) -> Result<bool> {
        let server = Caller::server();
        let listing = super::super::listing::Listing::open(self.reference(), &server)?;
        let mut has_any = false;
        listing.read_now(&server, 0, &mut |_| {
            has_any = true;
            ControlFlow::Break(())
        })?;
        Ok(has_any)
    }

    fn hosting(&self) -> &Hosting {
        self.hosting.get_or_init(Box::default)
    }
}

impl Table {
    /// By what a directory of a view is known that was found with this identity in these places. One that is in use may have
    /// been left where it was, with what is private to the view, while others moved the rest of it, and its identity.
    pub(in crate::union) fn distinct(&self, identity: Identity, places: &[Instance]) -> Identity {
        let bytes = [&[ANOTHER], &identity.handle.as_bytes()[1..]].concat();
        let other = Identity { handle: Handle::new(&bytes).expect("it is as long as before"), ..identity };
        let is_known_as = |identity: &Identity| self.find(&identity.handle).map(|node| node.is_in(places));
        if is_known_as(&other) == Some(true) || is_known_as(&identity) == Some(false) { other } else { identity }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
