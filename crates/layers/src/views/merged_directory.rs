//! Directories that several views have at one location: one vnode, which serves each caller from the caller's view.
//!
//! The kernel has one dentry tree for all processes. If a directory were another vnode in each view, a process that
//! walks through it would invalidate it for the others: a working directory would lose its name. So a view's directory
//! is presented as the vnode that is known at its location: that of the mount's union if it has one there, otherwise
//! that of the view which had it first. That vnode, the *representative*, remembers the directories that it represents
//! in other views; both know their own location, and a representative that has moved takes over no directories at its
//! former one.
//!
//! Removing a directory makes its vnode useless to the kernel, and renaming it moves it for all. Before that happens to
//! a represented directory, it is *detached*: from then on it is presented as its own vnode. Before a representative is
//! removed while directories that it represents stay, it is presented by an *alias* vnode of its own, which is what the
//! kernel then removes. In both cases the operation returns `ESTALE` once, at which the kernel looks the name up again
//! and retries once.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use vnode::{Caller, Cookie, Entry, Errno, FileKind, Handle, Name, Result, Vnode, VnodeRef, profile};

use crate::union::branch::identity::UNCOUNTED_NAMES;
use crate::union::branch::whiteout;
use crate::union::state::instance::Instance;
use crate::union::state::mount::ViewSelection;
use crate::union::state::{Node, NodeLocation, Union, ViewAliases};

/// Minimum number of remembered names at which unused ones are dropped.
const PRUNE_THRESHOLD: usize = 64;

impl Node {
    /// The object that the vnode represents to this caller: for a directory, the one in the caller's view. No operation guard
    /// may be held.
    ///
    /// # Errors
    /// `ENOENT` if the caller's view has no such directory.
    pub(crate) fn for_caller(&self, caller: &Caller) -> Result<Arc<Node>> {
        if self.kind != FileKind::Directory || !self.union.mount_state.has_had_views() {
            return Ok(self.reference());
        }
        let node = self.unaliased();
        let ViewSelection::Union(union) = self.union.mount_state.select_view(caller) else { return Ok(node) };
        match node.represented_in(&union) {
            Some(known) => Ok(known),
            None => {
                let _guard = union.operation_guard();
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
    pub(crate) fn for_change_by(&self, caller: &Caller) -> Result<Arc<Node>> {
        if self.kind != FileKind::Directory {
            self.check_visible_to(caller)?;
        }
        self.for_caller(caller)
    }

    /// `ENOENT` if the caller's view is not the one that a file belongs to. Open files are not checked.
    pub(crate) fn check_visible_to(&self, caller: &Caller) -> Result<()> {
        if self.union.mount_state.has_had_views()
            && let ViewSelection::Union(union) = self.union.mount_state.select_view(caller)
            && !Arc::ptr_eq(&union, &self.union)
        {
            return Err(Errno::ENOENT);
        }
        Ok(())
    }

    /// Checks that the caller's view shows what was found by a handle: files are of the view that their handle names, and
    /// a directory is shown by each view that has one at its location. No operation guard may be held.
    ///
    /// # Errors
    /// `ESTALE`.
    pub(crate) fn check_handle_for(&self, caller: &Caller) -> Result<()> {
        let is_shown = match self.kind {
            FileKind::Directory => self.for_caller(caller).and_then(|shown| {
                let _guard = shown.union.operation_guard();
                shown.revalidate()?;
                // This vnode may still be in use for a directory that the view has removed.
                let is_removed = !caller.server && matches!(shown.location(), NodeLocation::Nowhere);
                if is_removed { Err(Errno::ENOENT) } else { Ok(()) }
            }),
            _ => self.check_visible_to(caller),
        };
        is_shown.map_err(|error| if error == Errno::ENOENT { Errno::ESTALE } else { error })
    }

    /// The object that another union's vnode represents in this union. The caller holds an operation guard.
    pub(crate) fn translate(&self, other: &VnodeRef) -> Result<Arc<Node>> {
        let other = other.as_any().downcast_ref::<Node>().ok_or(Errno::EXDEV)?.unaliased();
        let own = if Arc::ptr_eq(&self.union, &other.union) {
            other
        } else if Arc::ptr_eq(&self.union.mount_state, &other.union.mount_state) && other.kind == FileKind::Directory {
            other.represented_in(&self.union).map_or_else(|| other.find_in(&self.union), Ok)?
        } else {
            return Err(Errno::EXDEV);
        };
        own.revalidate()?;
        Ok(own)
    }

    /// An entry of this directory as it is returned to the caller: a directory as the vnode at its location. The caller holds
    /// an operation guard.
    pub(crate) fn present_entry(&self, name: Name<'_>, entry: Entry) -> Entry {
        if !entry.attributes.is_directory() || !self.union.mount_state.has_had_views() {
            return entry;
        }
        let Some(node) = entry.vnode.as_any().downcast_ref::<Node>().map(Node::reference) else { return entry };
        let representative = self.representative_of(name, Arc::clone(&node));
        if let Some(view_aliases) = node.view_aliases.get()
            && Arc::ptr_eq(&representative, &node)
        {
            *lock(&view_aliases.representative) = Weak::new();
        }
        Entry { vnode: profile::vnode(representative), ..entry }
    }

    /// The vnode by which a directory is presented when it is not looked up by a name.
    pub(crate) fn present_parent(self: Arc<Self>) -> Arc<Node> {
        if self.is_root()
            && let Some(common) = self.union.mount_state.common_union()
        {
            return common.root_node();
        }
        let Some(view_aliases) = self.view_aliases.get() else { return self };
        if let Some(alias) = lock(&view_aliases.alias).upgrade() {
            return alias;
        }
        let representative =
            lock(&view_aliases.representative).upgrade().filter(|_| !view_aliases.is_detached.load(Ordering::Relaxed));
        representative.filter(|representative| representative.represents(&self)).unwrap_or(self)
    }

    /// Detaches directories that are about to be removed or renamed: each is given by the vnode in which its name was
    /// looked up, as resolved for the caller, and the name. The caller holds an operation guard.
    ///
    /// # Errors
    /// `ESTALE` if any was presented as another vnode so far.
    pub(crate) fn detach(&self, name: Name<'_>, is_removed: bool) -> Result<()> {
        if !self.union.mount_state.has_had_views() {
            return Ok(());
        }
        let Ok(found) = self.reference().look_up(&Caller::server(), name) else { return Ok(()) };
        let Some(node) = found.vnode.as_any().downcast_ref::<Node>() else { return Ok(()) };
        let Some(view_aliases) = node.view_aliases.get() else { return Ok(()) };
        let representative = lock(&view_aliases.representative).upgrade();
        let is_represented = representative.is_some_and(|representative| representative.represents(node));
        let is_representative = is_removed && node.represents_lasting();
        if !is_represented && !is_representative || is_removed && node.has_entries()? {
            return Ok(());
        }
        let mount_state = &self.union.mount_state;
        let mut is_new = false;
        if is_represented && !view_aliases.is_detached.swap(true, Ordering::Relaxed) {
            mount_state.keep_detached(node.reference());
            is_new = true;
        }
        if is_representative && lock(&view_aliases.alias).upgrade().is_none() {
            let alias = node.make_alias();
            *lock(&view_aliases.alias) = Arc::downgrade(&alias);
            mount_state.keep_detached(alias);
            is_new = true;
        }
        if is_new { Err(Errno::ESTALE) } else { Ok(()) }
    }

    /// Handle by which the vnode is known outside the union.
    pub(crate) fn external_handle(&self) -> Handle {
        let is_alias = self.view_aliases.get().is_some_and(|view_aliases| view_aliases.original.get().is_some());
        self.union.external_handle(&self.identity.handle, is_alias)
    }

    /// Returns whether it is the directory with these instances.
    pub(crate) fn has_instance_in(&self, places: &[Instance]) -> bool {
        let is_found = |known: &Instance| {
            places.iter().any(|instance| {
                instance.member.base.numbers == known.member.base.numbers
                    && instance.vnode.handle() == known.vnode.handle()
            })
        };
        self.instances().iter().any(is_found)
    }

    /// The directory itself, also for an alias.
    pub(crate) fn unaliased(&self) -> Arc<Node> {
        let original = self.view_aliases.get().and_then(|view_aliases| view_aliases.original.get());
        original.map_or_else(|| self.reference(), Arc::clone)
    }

    /// Creates an alias vnode for this directory.
    fn make_alias(&self) -> Arc<Node> {
        let generation = self.generation.load(Ordering::Acquire);
        let alias = Node::new(&self.union, (self.identity, UNCOUNTED_NAMES), self.kind, generation, self.instances());
        let _ = alias.view_aliases().original.set(self.reference());
        alias
    }

    /// Returns whether the vnode represents directories in other unions that remain when this one is removed.
    fn represents_lasting(&self) -> bool {
        let Some(view_aliases) = self.view_aliases.get() else { return false };
        let represented = lock(&view_aliases.represented).clone();
        represented.iter().any(|other| {
            other.revalidate().is_ok()
                && matches!(other.location(), NodeLocation::At(_))
                && other.instances().iter().any(|instance| other.union.is_own(&instance.member.base))
        })
    }

    /// The object that this vnode represents in a union, if known.
    fn represented_in(self: &Arc<Self>, union: &Arc<Union>) -> Option<Arc<Node>> {
        if Arc::ptr_eq(&self.union, union) {
            Some(Arc::clone(self))
        } else if self.is_root() {
            Some(union.root_node())
        } else {
            let view_aliases = self.view_aliases.get()?;
            lock(&view_aliases.represented).iter().find(|other| Arc::ptr_eq(&other.union, union)).cloned()
        }
    }

    /// A union's directory at the location of this one. The caller holds an operation guard.
    fn find_in(self: &Arc<Self>, union: &Arc<Union>) -> Result<Arc<Node>> {
        self.find_location()?;
        let found = self.path().and_then(|path| union.node_at_path(&path)).map_err(|_| Errno::ENOENT)?;
        if found.kind != FileKind::Directory {
            return Err(Errno::ENOENT);
        }
        self.represent(&found);
        Ok(found)
    }

    /// The vnode by which a directory of that name in this one is presented.
    fn representative_of(&self, name: Name<'_>, node: Arc<Node>) -> Arc<Node> {
        if let Some(alias) = node.view_aliases.get().and_then(|view_aliases| lock(&view_aliases.alias).upgrade()) {
            return alias;
        }
        let parent = self.unaliased();
        let is_detached = node.view_aliases().is_detached.load(Ordering::Relaxed);
        if let Some(first) = parent.first_directory_at(name).filter(|first| !Arc::ptr_eq(first, &node)) {
            return if !is_detached && first.represent(&node) { first } else { node };
        }
        if node.union.view_state.is_none() {
            return node;
        }
        match parent.common_directory_at(name) {
            Some(common) => {
                if !is_detached && common.represent(&node) {
                    common
                } else {
                    node
                }
            }
            None => {
                parent.record_first(name, &node);
                node
            }
        }
    }

    /// The view's directory that was the first there, if it is still there.
    fn first_directory_at(self: &Arc<Self>, name: Name<'_>) -> Option<Arc<Node>> {
        let first = lock(&self.view_aliases.get()?.first).get(&name.to_owned())?.upgrade()?;
        let parent = self.represented_in(&first.union)?;
        let stored = whiteout::stored_name(name).ok()?;
        (first.revalidate().is_ok() && first.was_last_at(&parent, Name::new(&stored).ok()?)).then_some(first)
    }

    /// The directory of the mount's union there.
    fn common_directory_at(self: &Arc<Self>, name: Name<'_>) -> Option<Arc<Node>> {
        let parent = self.represented_in(&self.union.mount_state.common_union()?)?;
        parent.revalidate().ok()?;
        let found = parent.look_up(&Caller::server(), name).ok()?.vnode;
        let node = found.as_any().downcast_ref::<Node>()?.reference();
        (node.kind == FileKind::Directory).then_some(node)
    }

    fn record_first(&self, name: Name<'_>, node: &Arc<Node>) {
        let mut first = lock(&self.view_aliases().first);
        if first.len() >= PRUNE_THRESHOLD && first.len().is_power_of_two() {
            first.retain(|_, node| node.strong_count() > 0);
        }
        first.insert(name.to_owned(), Arc::downgrade(node));
    }

    /// Makes this vnode represent a directory of another union, unless it represents another one there that still has a name;
    /// returns whether it does.
    fn represent(self: &Arc<Self>, node: &Arc<Node>) -> bool {
        if node.represents(self) {
            return false;
        }
        let known = self.represented_in(&node.union);
        let is_free = match &known {
            Some(known) => {
                Arc::ptr_eq(known, node)
                    || known.revalidate().is_err()
                    || matches!(known.location(), NodeLocation::Nowhere)
            }
            None => true,
        };
        if is_free {
            let mut represented = lock(&self.view_aliases().represented);
            let before = represented.iter().position(|other| Arc::ptr_eq(&other.union, &node.union));
            let replaced = before.map(|index| represented.swap_remove(index));
            represented.push(Arc::clone(node));
            drop(represented);
            // Dropping a directory may take locks.
            drop(replaced);
            *lock(&node.view_aliases().representative) = Arc::downgrade(self);
        }
        is_free
    }

    fn represents(&self, node: &Node) -> bool {
        self.view_aliases.get().is_some_and(|view_aliases| {
            lock(&view_aliases.represented).iter().any(|other| std::ptr::eq::<Node>(&raw const **other, node))
        })
    }

    /// Forgets the directories that it represents in a view that has ended.
    pub(crate) fn forget_represented(&self, union: &Arc<Union>) {
        let Some(view_aliases) = self.view_aliases.get() else { return };
        let mut represented = lock(&view_aliases.represented);
        let gone: Vec<Arc<Node>> = represented.extract_if(.., |other| Arc::ptr_eq(&other.union, union)).collect();
        drop(represented);
        drop(gone);
    }

    /// Returns whether the directory has entries that its union's users see.
    fn has_entries(&self) -> Result<bool> {
        let server = Caller::server();
        let listing = crate::union::operations::listing::DirectoryListing::open(self.reference(), &server)?;
        let mut has_any = false;
        listing.read_guarded(&server, Cookie::START, &mut |_| {
            has_any = true;
            ControlFlow::Break(())
        })?;
        Ok(has_any)
    }

    fn view_aliases(&self) -> &ViewAliases {
        self.view_aliases.get_or_init(Box::default)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
