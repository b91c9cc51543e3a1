//! Directories that several views have at one location: one vnode, which serves each caller from the caller's view.
//!
//! The kernel has one dentry tree for all processes. If a directory were another vnode in each view, a process that walks
//! through it would invalidate it for the others: a working directory would lose its name. So a view's directory is presented
//! as the vnode that is known at its location: that of the mount's union if it has one there, otherwise that of the view which
//! had it first. That vnode, the *host*, remembers the directories that it represents in other views, its *guests*; both know
//! their own location, and a host that has moved takes no new guests at its former one.
//!
//! Removing a directory makes its vnode useless to the kernel, and renaming it moves it for all. Before that happens to a
//! guest, it is set *apart*: from then on it is presented as its own vnode. Before a host is removed while guests of it stay,
//! it is presented by an alias vnode of its own, a *face*, which is what the kernel then removes. In both cases the operation
//! returns `ESTALE` once, at which the kernel looks the name up again and retries once.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use vnode::{Caller, Entry, Errno, FileKind, Handle, Name, NameBuf, Result, Vnode, VnodeRef};

use super::{ANOTHER, Choice};
use crate::union::branch::whiteout;
use crate::union::identity::Identity;
use crate::union::node::{Instance, NO_COUNT, Node, Table, Whereabouts};
use crate::union::state::Union;

/// Relation of a directory's vnode to other views.
#[derive(Default)]
pub(crate) struct Hosting {
    /// The directories that it represents in other unions, one of each.
    guests: Mutex<Vec<Arc<Node>>>,
    /// Views' directories in it that were the first of their name.
    first: Mutex<HashMap<NameBuf, Weak<Node>>>,
    /// The vnode of another union by which it was last presented.
    host: Mutex<Weak<Node>>,
    /// Whether it is excluded from being presented by another's vnode.
    is_apart: AtomicBool,
    /// Alias vnode that is presented instead of this one, so that the kernel has something else to remove.
    face: Mutex<Weak<Node>>,
    /// Of a face, the directory that it is an alias of.
    original: OnceLock<Arc<Node>>,
}

/// Minimum number of remembered names at which unused ones are dropped.
const FIRST_MIN: usize = 64;

impl Node {
    /// The object that the vnode represents to this caller: for a directory, the one in the caller's view. No operation guard
    /// may be held.
    ///
    /// # Errors
    /// `ENOENT` if the caller's view has no such directory.
    pub(crate) fn for_caller(&self, caller: &Caller) -> Result<Arc<Node>> {
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

    /// The object that the vnode represents to a caller that changes it: an object of one view cannot be changed by others. The
    /// kernel does not say through which open file a change of mode, owner or extended attributes is requested, so these are
    /// refused even to callers that have a file of another view open; writes and truncations go through that file. No operation
    /// guard may be held.
    ///
    /// # Errors
    /// `ENOENT` if the caller's view has no such directory, or is not the one that a file belongs to.
    pub(crate) fn changed_by(&self, caller: &Caller) -> Result<Arc<Node>> {
        if self.kind != FileKind::Directory {
            self.is_seen_by(caller)?;
        }
        self.for_caller(caller)
    }

    /// `ENOENT` if the caller's view is not the one that a file belongs to. Open files are not checked.
    pub(crate) fn is_seen_by(&self, caller: &Caller) -> Result<()> {
        if self.union.family.is_split()
            && let Choice::Of(union) = self.union.family.choose(caller)
            && !Arc::ptr_eq(&union, &self.union)
        {
            return Err(Errno::ENOENT);
        }
        Ok(())
    }

    /// The object that another union's vnode represents in this union. The caller holds an operation guard.
    pub(crate) fn own(&self, other: &VnodeRef) -> Result<Arc<Node>> {
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

    /// An entry of this directory as it is returned to the caller: a directory as the vnode at its location. The caller holds
    /// an operation guard.
    pub(crate) fn presented(&self, name: Name<'_>, entry: Entry) -> Entry {
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

    /// The vnode by which a directory is presented when it is not looked up by a name.
    pub(crate) fn presented_above(self: Arc<Self>) -> VnodeRef {
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

    /// Sets apart directories that are about to be removed or renamed: each is given by the vnode in which its name was looked
    /// up, as resolved for the caller, and the name. The caller holds an operation guard.
    ///
    /// # Errors
    /// `ESTALE` if any was presented as another vnode so far.
    pub(crate) fn set_apart(&self, name: Name<'_>, is_removed: bool) -> Result<()> {
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

    /// Handle by which the vnode is known outside the union.
    pub(crate) fn outward(&self) -> Handle {
        let is_face = self.hosting.get().is_some_and(|hosting| hosting.original.get().is_some());
        self.union.outward(&self.identity.handle, is_face)
    }

    /// Returns whether it is the directory with these instances.
    pub(crate) fn is_in(&self, places: &[Instance]) -> bool {
        let is_found = |known: &Instance| {
            places.iter().any(|place| {
                place.member.base.known == known.member.base.known && place.vnode.handle() == known.vnode.handle()
            })
        };
        self.instances().iter().any(is_found)
    }

    /// The directory itself, also for a face.
    pub(crate) fn behind(&self) -> Arc<Node> {
        let original = self.hosting.get().and_then(|hosting| hosting.original.get());
        original.map_or_else(|| self.reference(), Arc::clone)
    }

    /// Creates an alias vnode for this directory.
    fn make_face(&self) -> Arc<Node> {
        let generation = self.generation.load(Ordering::Acquire);
        let face = Node::new(&self.union, (self.identity, NO_COUNT), self.kind, generation, self.instances());
        let _ = face.hosting().original.set(self.reference());
        face
    }

    /// Returns whether the vnode represents directories in other unions that remain when this one is removed.
    fn has_guests_that_stay(&self) -> bool {
        let Some(hosting) = self.hosting.get() else { return false };
        let guests = lock(&hosting.guests).clone();
        guests.iter().any(|guest| {
            guest.refresh().is_ok()
                && matches!(guest.whereabouts(), Whereabouts::At(_))
                && guest.instances().iter().any(|place| guest.union.is_own(&place.member.base))
        })
    }

    /// The object that this vnode represents in a union, if known.
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

    /// A union's directory at the location of this one. The caller holds an operation guard.
    fn find_in(self: &Arc<Self>, union: &Arc<Union>) -> Result<Arc<Node>> {
        self.find_whereabouts()?;
        let found = self.path().and_then(|path| union.node_at(&path)).map_err(|_| Errno::ENOENT)?;
        if found.kind != FileKind::Directory {
            return Err(Errno::ENOENT);
        }
        self.takes(&found);
        Ok(found)
    }

    /// The vnode by which a directory of that name in this one is presented.
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

    /// The view's directory that was the first there, if it is still there.
    fn first_at(self: &Arc<Self>, name: Name<'_>) -> Option<Arc<Node>> {
        let first = lock(&self.hosting.get()?.first).get(&name.to_owned())?.upgrade()?;
        let place = self.known_in(&first.union)?;
        let stored = whiteout::stored(name).ok()?;
        (first.refresh().is_ok() && first.was_at(&place, Name::new(&stored).ok()?)).then_some(first)
    }

    /// The directory of the mount's union there.
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

    /// Makes this vnode represent a directory of another union, unless it represents another one there that still has a name;
    /// returns whether it does.
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

    /// Removes the guests of a view that has ended.
    pub(crate) fn forget_guests_of(&self, union: &Arc<Union>) {
        let Some(hosting) = self.hosting.get() else { return };
        let mut guests = lock(&hosting.guests);
        let gone: Vec<Arc<Node>> = guests.extract_if(.., |guest| Arc::ptr_eq(&guest.union, union)).collect();
        drop(guests);
        drop(gone);
    }

    /// Returns whether the directory has entries that its union's users see.
    fn has_entries(&self) -> Result<bool> {
        let server = Caller::server();
        let listing = crate::union::operations::listing::Listing::open(self.reference(), &server)?;
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
    /// The identity of a view's directory that was found with this identity and these instances. A directory in use may have
    /// been left at its former location, with the part that is private to the view, while others moved its lower part, and its
    /// identity.
    pub(crate) fn distinct(&self, identity: Identity, places: &[Instance]) -> Identity {
        let bytes = [&[ANOTHER], &identity.handle.as_bytes()[1..]].concat();
        let other = Identity { handle: Handle::new(&bytes).expect("it is as long as before"), ..identity };
        let is_known_as = |identity: &Identity| self.find(&identity.handle).map(|node| node.is_in(places));
        if is_known_as(&other) == Some(true) || is_known_as(&identity) == Some(false) { other } else { identity }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
