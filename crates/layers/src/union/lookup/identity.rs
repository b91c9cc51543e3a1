//! The object that a search has found: its identity, and its vnode.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Instant;

use vnode::{Caller, Errno, FileKind, Handle, Result, VnodeRef};

use crate::union::branch::branches::BranchMember;
use crate::union::branch::identity::{self, DUPLICATE_HANDLE, Identity, UNCOUNTED_NAMES};
use crate::union::branch::metacopy_mark;
use crate::union::state::instance::Instance;
use crate::union::state::{Node, Union};

impl Union {
    pub(crate) fn root_node(self: &Arc<Self>) -> Arc<Node> {
        if let Some(root) = self.root.get().and_then(Weak::upgrade) {
            return root;
        }
        let generation = self.branches.generation();
        let instances = self.roots();
        let identity = self.identity(&instances, FileKind::Directory).expect("a root has a handle");
        let root = self.find_or_insert(identity, FileKind::Directory, (generation, instances));
        let _ = self.root.set(Arc::downgrade(&root));
        root
    }

    /// Roots of the branches, as instances of the union's root.
    pub(crate) fn roots(&self) -> Vec<Instance> {
        self.branches.slots().iter().map(|slot| root_of(&slot.member)).collect()
    }

    /// Roots of the branches below a branch.
    pub(crate) fn roots_right_of(&self, member: &BranchMember) -> Vec<Instance> {
        let slots = self.branches.slots();
        let from = self.branches.position(member).map_or(slots.len(), |position| position + 1);
        slots[from..].iter().map(|slot| root_of(&slot.member)).collect()
    }

    /// The live vnode with this identity, or a new one with these instances, which were found at the given branch-set
    /// generation.
    pub(crate) fn find_or_insert(
        self: &Arc<Self>,
        (identity, names): (Identity, u32),
        kind: FileKind,
        (generation, mut instances): (u64, Vec<Instance>),
    ) -> Arc<Node> {
        let identity = if self.view_state.is_some() && kind == FileKind::Directory {
            self.distinct_identity(identity, &instances)
        } else {
            identity
        };
        let mut is_new = false;
        let node = self.table.find_or_insert(&identity.handle, || {
            is_new = true;
            Node::new(self, (identity, names), kind, generation, std::mem::take(&mut instances).into())
        });
        if is_new {
            return node;
        }
        if let Some(own) = node.native_identity_if_other(&identity, &instances) {
            return self.find_or_insert((own, UNCOUNTED_NAMES), kind, (generation, instances));
        }
        if kind != FileKind::Directory {
            if node.generation.load(Ordering::Acquire) < generation || node.was_replaced_by(&instances[0]) {
                node.record_revalidated(generation, instances, names);
            }
        } else {
            node.set_instances_at(generation, instances);
            *node.last_checked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
        node
    }

    /// The identity of a view's directory that was found with this identity and these instances. A directory in use may have
    /// been left at its former location, with the part that is private to the view, while others moved its lower part, and its
    /// identity.
    fn distinct_identity(&self, identity: Identity, instances: &[Instance]) -> Identity {
        let bytes = [&[DUPLICATE_HANDLE], &identity.handle.as_bytes()[1..]].concat();
        let other = Identity { handle: Handle::new(&bytes).expect("it is as long as before"), ..identity };
        let is_known_as =
            |identity: &Identity| self.table.find(&identity.handle).map(|node| node.has_instance_in(instances));
        if is_known_as(&other) == Some(true) || is_known_as(&identity) == Some(false) { other } else { identity }
    }

    /// The identity of an object with these instances, and the number of names that lead to its original if it is a copy. An
    /// object that claims the identity of a live one, and is another, has an identity of its own.
    pub(crate) fn identity(&self, instances: &[Instance], kind: FileKind) -> Result<(Identity, u32)> {
        let claimed = self.claimed_identity(instances, kind)?;
        match self.native_identity_if_taken(&claimed.0, kind, instances) {
            Some(own) => Ok((self.require_view_room(own)?, UNCOUNTED_NAMES)),
            None => Ok(claimed),
        }
    }

    /// The identity that an object with these instances claims.
    pub(crate) fn claimed_identity(&self, instances: &[Instance], kind: FileKind) -> Result<(Identity, u32)> {
        if kind == FileKind::Directory {
            let oldest = instances.iter().min_by_key(|instance| instance.member.age()).ok_or(Errno::ESTALE)?;
            if oldest.member.work.has_copied_directories()
                && let Some((identity, _)) = self.stored_origin(&oldest.vnode)?
            {
                return Ok((self.require_view_room(identity)?, UNCOUNTED_NAMES));
            }
            let native = Identity::native(&oldest.member.base.numbers, &oldest.vnode.handle(), oldest.ino)?;
            return Ok((self.require_view_room(native)?, UNCOUNTED_NAMES));
        }
        let instance = instances.first().ok_or(Errno::ESTALE)?;
        let Instance { member, vnode, ino, .. } = instance;
        let native = Identity::native(&member.base.numbers, &vnode.handle(), *ino)?;
        if !member.work.was_written()
            || self.table.find(&native.handle).is_some_and(|node| node.leftmost().is_same(instance))
        {
            return Ok((self.require_view_room(native)?, UNCOUNTED_NAMES));
        }
        let (identity, names) = self.stored_origin(vnode)?.unwrap_or((native, UNCOUNTED_NAMES));
        Ok((self.require_view_room(identity)?, names))
    }

    /// The native identity of an object with these instances, if the live vnode of the identity that it claims is another
    /// object: for example a copy with all attributes that somebody made in a branch.
    fn native_identity_if_taken(&self, claimed: &Identity, kind: FileKind, instances: &[Instance]) -> Option<Identity> {
        let node = self.table.find(&claimed.handle).filter(|node| node.kind == kind)?;
        node.native_identity_if_other(claimed, instances)
    }

    /// The stored origin of a copied object, if this union or one of the same branches stored it, and the number of names that
    /// lead to its original.
    pub(crate) fn stored_origin(&self, object: &VnodeRef) -> Result<Option<(Identity, u32)>> {
        Ok(Identity::stored_origin(object)?.filter(|(identity, _)| self.knows_branch_of(identity)))
    }

    /// Returns whether the branch of an identity is known here by its tag.
    pub(crate) fn knows_branch_of(&self, identity: &Identity) -> bool {
        identity::split_handle(&identity.handle)
            .is_some_and(|(tag, _)| self.branches.has_identifier(tag, identity.branch))
    }
}

impl Node {
    /// Records that the object was found again after a change of the branches. If it is now another file, as after a restore of
    /// a snapshot, its open files follow. So they do if its data have been filled in meanwhile.
    pub(crate) fn record_revalidated(&self, generation: u64, instances: Vec<Instance>, names: u32) {
        let is_another = self.leftmost().vnode.handle() != instances[0].vnode.handle();
        let has_data_now = self.is_read_elsewhere.load(Ordering::Relaxed)
            && metacopy_mark::is_marked(&instances[0].vnode) == Ok(false);
        if !self.set_instances_at(generation, instances) {
            return;
        }
        self.original_names.store(names, Ordering::Relaxed);
        if is_another || has_data_now {
            self.is_read_elsewhere.store(false, Ordering::Relaxed);
            self.record_arrival();
            self.copy_count.fetch_add(1, Ordering::Release);
        }
    }

    /// The native identity of an object with these instances that claims this identity, if it is another object. Undecidable,
    /// and therefore `None`, if the branches changed since it was found.
    fn native_identity_if_other(&self, identity: &Identity, instances: &[Instance]) -> Option<Identity> {
        let claimant @ Instance { member, vnode, ino, .. } = claimant(self.kind, instances)?;
        if self.generation.load(Ordering::Acquire) != self.union.branches.generation()
            // The copy may have its name before it is known here.
            || self.is_being_copied()
        {
            return None;
        }
        if identity.is_native(&member.base.numbers, &vnode.handle()) {
            return self.is_not_copy_of(claimant).then(|| identity.duplicate());
        }
        let is_known = |one: &Instance| self.instance_in(&one.member).map(|own| own.handle() == one.vnode.handle());
        let is_another = match self.kind {
            // A directory found in none of its known locations is not the same directory either.
            FileKind::Directory => {
                is_known(claimant) == Some(false) || !instances.iter().any(|one| is_known(one) == Some(true))
            }
            _ => !self.leftmost().is_same(claimant),
        };
        if is_another { Identity::native(&member.base.numbers, &vnode.handle(), *ino).ok() } else { None }
    }

    /// Returns whether this object is not in fact a copy of a file that is known by its own handle: the copy would hide that
    /// file, or leave it visible only through names that lead to the copy.
    fn is_not_copy_of(&self, original: &Instance) -> bool {
        self.kind != FileKind::Directory
            && !self.leftmost().is_same(original)
            // A copy that somebody else has removed gives way to its original.
            && !self.was_replaced_by(original)
            && original.vnode.getattr(&Caller::server()).is_ok_and(|attributes| attributes.nlink == 1)
    }

    /// Returns whether somebody else has removed the visible instance from its branch, and this instance is there instead.
    fn was_replaced_by(&self, instance: &Instance) -> bool {
        if self.is_being_copied() || self.leftmost().is_same(instance) || self.is_unlinked() {
            return false;
        }
        match self.leftmost().vnode.getattr(&Caller::server()) {
            Ok(attributes) => attributes.nlink == 0,
            Err(error) => matches!(self.leftmost().member.reported_error(error), Errno::ENOENT | Errno::ESTALE),
        }
    }
}

/// Root of a branch, as an instance of the union's root.
pub(crate) fn root_of(member: &Arc<BranchMember>) -> Instance {
    Instance::new(member, member.root.clone(), member.root_ino)
}

/// The instance that determines an object's identity: the leftmost, or for a directory that of the oldest branch.
fn claimant(kind: FileKind, instances: &[Instance]) -> Option<&Instance> {
    match kind {
        FileKind::Directory => instances.iter().min_by_key(|instance| instance.member.age()),
        _ => instances.first(),
    }
}
