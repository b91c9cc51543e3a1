//! An object of a union: its present instances in the branches.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLockReadGuard};

use vnode::{Errno, FileKind, Handle, OpenFileRef, Result, VnodeRef};

use super::Node;
use super::instance::Instance;
use crate::union::branch::branches::BranchMember;

impl Node {
    pub(crate) fn is_root(&self) -> bool {
        self.union.root.get().is_some_and(|root| std::ptr::eq(root.as_ptr(), self))
    }

    /// The leftmost instance: the one that users see.
    pub(crate) fn leftmost(&self) -> Instance {
        self.read_instances()[0].clone()
    }

    /// All instances, leftmost first.
    pub(crate) fn instances(&self) -> Arc<[Instance]> {
        Arc::clone(&self.read_instances())
    }

    /// The instance in a branch.
    pub(crate) fn instance_in(&self, member: &BranchMember) -> Option<VnodeRef> {
        let instances = self.read_instances();
        instances
            .iter()
            .find(|instance| std::ptr::eq(&raw const *instance.member, member))
            .map(|found| found.vnode.clone())
    }

    /// Records the instances just found. The cached names in each are kept.
    pub(crate) fn set_instances(&self, instances: Vec<Instance>) {
        self.set_instances_at(self.generation.load(Ordering::Acquire), instances);
    }

    /// Records the instances found at a branch-set generation, unless later ones are known. Returns whether they were recorded.
    pub(crate) fn set_instances_at(&self, generation: u64, mut instances: Vec<Instance>) -> bool {
        debug_assert!(!instances.is_empty());
        let mut known = self.instances.write().unwrap_or_else(PoisonError::into_inner);
        let before = self.generation.load(Ordering::Acquire);
        if generation < before {
            return false;
        }
        // A change of the branches may have changed the contents of their directories: a merge moves objects from layer to
        // layer.
        if self.kind == FileKind::Directory && generation == before {
            for instance in &mut instances {
                if let Some(same) = known.iter().find(|known| known.is_same(instance)) {
                    instance.names = same.names.clone();
                }
            }
        }
        self.generation.store(generation, Ordering::Release);
        let before = std::mem::replace(&mut *known, instances.into());
        drop(known);
        drop(before);
        true
    }

    /// Adds an instance to the directory.
    pub(crate) fn add_instance(&self, added: Instance) {
        let mut instances = self.instances.write().unwrap_or_else(PoisonError::into_inner);
        let position = |instance: &Instance| self.union.branches.position(&instance.member);
        let mut all: Vec<Instance> =
            instances.iter().filter(|known| !Arc::ptr_eq(&known.member, &added.member)).cloned().collect();
        all.push(added);
        all.sort_by_key(position);
        *instances = all.into();
    }

    /// Keeps an unlinked copy alive as long as the vnode.
    pub(crate) fn keep_open(&self, file: Option<OpenFileRef>) {
        *self.open_copy.lock().unwrap_or_else(PoisonError::into_inner) = file;
    }

    /// Records that the object is now a copy in another branch.
    pub(crate) fn record_copied_to(&self, copy: Instance) {
        self.set_instances(vec![copy]);
        self.record_arrival();
        self.copy_count.fetch_add(1, Ordering::Release);
        self.union.invalidate_views();
    }

    /// Number of times it was copied.
    pub(crate) fn copy_count(&self) -> u32 {
        self.copy_count.load(Ordering::Acquire)
    }

    /// `ENOTDIR` for anything but a directory.
    pub(crate) fn require_directory(&self) -> Result<()> {
        if self.kind == FileKind::Directory { Ok(()) } else { Err(Errno::ENOTDIR) }
    }

    /// Another reference to it.
    pub(crate) fn reference(&self) -> Arc<Node> {
        self.this.upgrade().expect("whoever calls has a reference")
    }

    fn read_instances(&self) -> RwLockReadGuard<'_, Arc<[Instance]>> {
        self.instances.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that it was copied to a branch, or its data were filled in there, which may not be on disk yet.
    pub(crate) fn record_arrival(&self) {
        self.needs_arrival_sync.store(true, Ordering::Release);
    }

    /// Returns whether it may have been copied to its branch since that was last synchronized.
    pub(crate) fn needs_arrival_sync(&self) -> bool {
        self.needs_arrival_sync.load(Ordering::Acquire)
    }

    /// Makes it reachable by another handle too.
    pub(crate) fn add_handle(self: &Arc<Self>, handle: &Handle) {
        self.other_handles.lock().unwrap_or_else(PoisonError::into_inner).push(*handle);
        self.union.has_other_handles.store(true, Ordering::Relaxed);
        self.union.table.insert(*handle, self);
    }

    /// Moves the open files that must follow, after the object has been copied.
    pub(crate) fn move_followers(&self) {
        self.locks.followers().iter().for_each(|follower| follower.follow());
    }
}
