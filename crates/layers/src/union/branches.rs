//! The branches of a union: which trees, in which order, and what each may be used for.

use std::sync::Arc;

use vnode::{Caller, FileSystemRef, VnodeRef};

use super::identity::hash;
use super::work::Work;
use crate::{Branch, BranchMode};

/// A tree of the union.
pub(super) struct Member {
    /// What its handles and inode numbers are marked with: 0 for the one that was there first.
    pub(super) tag: u16,
    /// Smaller for those that were there earlier.
    pub(super) serial: u32,
    /// What it is called: its stack expression.
    pub(super) label: String,
    /// The tree.
    pub(super) file_system: FileSystemRef,
    /// Its root.
    pub(super) root: VnodeRef,
    /// The root's inode number.
    pub(super) root_ino: u64,
    /// Where things are made before they are seen.
    pub(super) work: Work,
}

/// A tree at its place in the union.
#[derive(Clone)]
pub(super) struct Slot {
    pub(super) member: Arc<Member>,
    pub(super) mode: BranchMode,
}

/// The branches, the one of highest priority first.
pub(super) struct Branches(Vec<Slot>);

impl Branches {
    /// The branches as they were given. Those without a mode are written to if they are the first, and only read if not.
    pub(super) fn new(branches: Vec<Branch>) -> Self {
        let count = branches.len();
        let mut tags = vec![0];
        let mut slots: Vec<Slot> = Vec::with_capacity(count);
        // From the last, which a union usually grows from.
        for (index, branch) in branches.into_iter().enumerate().rev() {
            let serial = (count - 1 - index) as u32;
            let tag = if serial == 0 { 0 } else { free_tag(&tags, &branch.label) };
            tags.push(tag);
            let default = if index == 0 { BranchMode::ReadWrite } else { BranchMode::ReadOnly };
            let read_only = branch.file_system.properties().read_only;
            let mode = if read_only { BranchMode::ReadOnly } else { branch.mode.unwrap_or(default) };
            let root = branch.file_system.root();
            let work = Work::new(&root);
            // A root that tells nothing now will not do so later; then its number hardly matters.
            let root_ino = root.getattr(&Caller::server()).map_or(1, |attributes| attributes.ino);
            let Branch { label, file_system, .. } = branch;
            let member = Arc::new(Member { tag, serial, label, file_system, root, root_ino, work });
            slots.push(Slot { member, mode });
        }
        slots.reverse();
        Self(slots)
    }

    /// All of them.
    pub(super) fn slots(&self) -> &[Slot] {
        &self.0
    }

    /// The place of a member.
    pub(super) fn position(&self, member: &Member) -> Option<usize> {
        self.0.iter().position(|slot| std::ptr::eq(&raw const *slot.member, member))
    }

    /// The member with that tag.
    pub(super) fn tagged(&self, tag: u16) -> Option<&Arc<Member>> {
        self.0.iter().map(|slot| &slot.member).find(|member| member.tag == tag)
    }

    /// Whether what is in the member may be changed where it is.
    pub(super) fn may_change(&self, member: &Member) -> bool {
        self.position(member).is_some_and(|position| self.0[position].mode != BranchMode::ReadOnly)
    }

    /// Whether something may be created in the member.
    pub(super) fn may_create(&self, member: &Member) -> bool {
        self.position(member).is_some_and(|position| self.0[position].mode == BranchMode::ReadWrite)
    }

    /// The nearest member in which something may be created, from a place to the left.
    pub(super) fn writable_at_or_left_of(&self, position: usize) -> Option<&Arc<Member>> {
        let left = self.0.get(..=position)?.iter().rev();
        left.filter(|slot| slot.mode == BranchMode::ReadWrite).map(|slot| &slot.member).next()
    }
}

/// A tag made of the label, other than those taken.
fn free_tag(taken: &[u16], label: &str) -> u16 {
    let mut tag = (hash(label.as_bytes()) >> 48) as u16;
    while taken.contains(&tag) {
        tag = tag.wrapping_add(1);
    }
    tag
}
