//! The layer `union`: one tree of many branches, with Unix semantics (Wright et al., "Versatility and Unix Semantics in
//! Namespace Unification", the Unionfs paper).
//!
//! Of objects with one name, that of the leftmost branch is seen; directories are merged. What is to be changed in a
//! branch that may not be is copied to one on the left, and what is deleted there is hidden by a whiteout.
//!
//! **Invariants.** An object is seen beside its own whiteout: so a whiteout can be put down before the object goes, and
//! taken up after one has come. What is not finished is in the work directory. The lock of a directory is taken after
//! that of the one above it, and a file's before any directory's.

mod attributes;
mod branches;
mod copy_up;
mod create;
mod file;
mod identity;
mod links;
mod listing;
mod lookup;
mod node;
mod options;
mod remove;
mod rename;
mod vnode_impl;
mod whiteout;
mod work;

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use vnode::{
    Caller, Control, ControlError, Description, Errno, FileKind, FileSystem, Handle, Name, Notifier, Properties,
    Result, StatFs, VnodeRef,
};

use crate::kind::Build;
use crate::{Branch, Kind};
use branches::Branches;
use node::{Node, Table};
pub use options::create;

/// What whoever builds stacks knows of it.
pub const KIND: Kind = Kind {
    name: "union",
    summary: "merges branches into one tree; changes go to those that may be written",
    options: options::KNOWN,
    build: Build::Joining(create),
};

/// What all vnodes of a union share.
struct Union {
    branches: Branches,
    table: Table,
    /// Held to move something into another directory, so that none is moved into itself.
    moves: Mutex<()>,
}

/// Several trees as one.
pub struct UnionFileSystem {
    union: Arc<Union>,
    root: Arc<Node>,
}

impl UnionFileSystem {
    /// The union of these branches, the one of highest priority first. A branch without a mode may be written to if it is
    /// the first, and only read if not.
    ///
    /// # Panics
    /// If there is no branch.
    pub fn new(branches: Vec<Branch>) -> Self {
        assert!(!branches.is_empty(), "a union has at least one branch");
        let union = Arc::new(Union { branches: Branches::new(branches), table: Table::new(), moves: Mutex::default() });
        let root = union.root_node();
        Self { union, root }
    }
}

impl Union {
    fn root_node(self: &Arc<Self>) -> Arc<Node> {
        let instances = self.roots();
        let identity = self.identity(&instances, FileKind::Directory).expect("a root has a handle");
        self.table.find_or_insert(self, identity, FileKind::Directory, instances)
    }

    /// The object at a path of names as users see them, below the root.
    fn node_at(self: &Arc<Self>, path: &[u8]) -> Result<Arc<Node>> {
        let server = Caller::server();
        let mut node = self.root_node();
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            let found = node.look_up(&server, Name::new(name)?)?;
            node = found.vnode.as_any().downcast_ref::<Node>().ok_or(Errno::ESTALE)?.reference();
        }
        Ok(node)
    }

    /// The state of the leftmost branch that may be written, which is where most new objects go.
    fn space(&self, caller: &Caller) -> Result<StatFs> {
        let slots = self.branches.slots();
        let member =
            self.branches.slots().iter().map(|slot| &slot.member).find(|member| self.branches.may_create(member));
        member.unwrap_or(&slots[0].member).root.statfs(caller)
    }
}

impl Node {
    fn is_root(&self) -> bool {
        let (first, own) = (&self.union.branches.slots()[0].member, self.leftmost());
        Arc::ptr_eq(first, &own.member) && first.root.handle() == own.vnode.handle()
    }
}

impl FileSystem for UnionFileSystem {
    fn root(&self) -> VnodeRef {
        Arc::clone(&self.root) as VnodeRef
    }

    fn resolve(&self, handle: &Handle) -> Result<VnodeRef> {
        if let Some(node) = self.union.table.find(handle) {
            return Ok(node);
        }
        let (tag, lower) = identity::parts(handle).ok_or(Errno::ESTALE)?;
        let member = self.union.branches.tagged(tag).ok_or(Errno::ESTALE)?;
        let path = member.file_system.resolve(&lower)?.path().map_err(|_| Errno::ESTALE)?;
        let node = self.union.node_at(&path).map_err(|_| Errno::ESTALE)?;
        if node.identity.handle == *handle { Ok(node) } else { Err(Errno::ESTALE) }
    }

    fn sync(&self) -> Result<()> {
        self.union.branches.slots().iter().try_for_each(|slot| slot.member.file_system.sync())
    }

    fn properties(&self) -> Properties {
        let slots = self.union.branches.slots();
        let own = Properties { names_untouched: false, ..Properties::TRANSPARENT };
        let all = slots.iter().map(|slot| slot.member.file_system.properties());
        // That a branch is read-only says nothing of the union.
        let all = all.fold(own, |all, one| all.stacked_on(Properties { read_only: false, ..one }));
        let read_only = slots.iter().all(|slot| !self.union.branches.may_change(&slot.member));
        Properties { read_only, ..all }
    }

    fn describe(&self) -> Vec<Description> {
        let slots = self.union.branches.slots();
        let mut members: Vec<_> = slots.iter().flat_map(|slot| slot.member.file_system.describe()).collect();
        let details: Vec<_> = slots.iter().map(|slot| format!("{}={}", slot.member.label, slot.mode)).collect();
        let properties = Properties { names_untouched: false, ..Properties::TRANSPARENT };
        members.push(Description { kind: KIND.name.to_owned(), details: details.join(", "), properties });
        members
    }

    fn control(&self, command: &Control) -> std::result::Result<String, ControlError> {
        if command.target == KIND.name {
            let (target, command) = (command.target.clone(), command.command.clone());
            return Err(ControlError::UnknownCommand { target, command });
        }
        for slot in self.union.branches.slots() {
            match slot.member.file_system.control(command) {
                Err(ControlError::UnknownTarget(_)) => {}
                answered => return answered,
            }
        }
        Err(ControlError::UnknownTarget(command.target.clone()))
    }

    fn set_mount_point(&self, directory: BorrowedFd<'_>) {
        self.union.branches.slots().iter().for_each(|slot| slot.member.file_system.set_mount_point(directory));
    }

    fn set_notifier(&self, notifier: Arc<dyn Notifier>) {
        for slot in self.union.branches.slots() {
            slot.member.file_system.set_notifier(Arc::new(Everything(Arc::clone(&notifier))));
        }
    }
}

/// Passes on that something has changed in a branch. What users see of it may depend on all branches.
struct Everything(Arc<dyn Notifier>);

impl Notifier for Everything {
    fn attributes_changed(&self, _: &Handle) {
        self.0.everything_changed();
    }

    fn data_changed(&self, _: &Handle, _: u64, _: u64) {
        self.0.everything_changed();
    }

    fn entry_changed(&self, _: &Handle, _: Name<'_>) {
        self.0.everything_changed();
    }

    fn everything_changed(&self) {
        self.0.everything_changed();
    }
}
