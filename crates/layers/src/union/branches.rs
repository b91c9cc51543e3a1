//! The branches of a union: which trees, in which order, and what each may be used for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use vnode::{Caller, FileSystemRef, VnodeRef};

use super::register::Register;
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

/// The branches, the one of highest priority first. They are changed only while no operation is under way.
pub(super) struct Branches {
    slots: ArcSwap<Vec<Slot>>,
    /// Counts changes.
    generation: AtomicU64,
}

impl Branches {
    /// The branches as they were given, and the numbers that they are known by. Those without a mode are written to if they are the first, and only read if not.
    pub(super) fn new(branches: Vec<Branch>) -> (Self, Register) {
        let mut register = Register::of(branches.iter().map(|branch| branch.file_system.root()));
        let mut slots: Vec<Slot> = Vec::with_capacity(branches.len());
        // From the last, which a union usually grows from.
        for (index, branch) in branches.into_iter().enumerate().rev() {
            let default = if index == 0 { BranchMode::ReadWrite } else { BranchMode::ReadOnly };
            slots.push(Slot::new(branch, default, &mut register));
        }
        slots.reverse();
        let branches = Self { slots: ArcSwap::from_pointee(Vec::new()), generation: AtomicU64::new(0) };
        branches.replace(slots, &register);
        (branches, register)
    }

    /// All of them.
    pub(super) fn slots(&self) -> Guard<Arc<Vec<Slot>>> {
        self.slots.load()
    }

    /// How often they were changed.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Puts others in their place.
    pub(super) fn replace(&self, slots: Vec<Slot>, register: &Register) {
        for slot in &slots {
            slot.member.work.remember(register.to_text());
        }
        self.slots.store(Arc::new(slots));
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The place of a member.
    pub(super) fn position(&self, member: &Member) -> Option<usize> {
        self.slots().iter().position(|slot| std::ptr::eq(&raw const *slot.member, member))
    }

    /// The member with that tag.
    pub(super) fn tagged(&self, tag: u16) -> Option<Arc<Member>> {
        let slots = self.slots();
        slots.iter().map(|slot| &slot.member).find(|member| member.tag == tag).cloned()
    }

    /// Whether what is in the member may be changed where it is.
    pub(super) fn may_change(&self, member: &Member) -> bool {
        self.mode(member).is_some_and(|mode| mode != BranchMode::ReadOnly)
    }

    /// Whether something may be created in the member.
    pub(super) fn may_create(&self, member: &Member) -> bool {
        self.mode(member) == Some(BranchMode::ReadWrite)
    }

    /// The nearest member in which something may be created, from a place to the left.
    pub(super) fn writable_at_or_left_of(&self, position: usize) -> Option<Arc<Member>> {
        let slots = self.slots();
        let left = slots.get(..=position)?.iter().rev();
        left.filter(|slot| slot.mode == BranchMode::ReadWrite).map(|slot| &slot.member).next().cloned()
    }

    fn mode(&self, member: &Member) -> Option<BranchMode> {
        let slots = self.slots();
        slots.iter().find(|slot| std::ptr::eq(&raw const *slot.member, member)).map(|slot| slot.mode)
    }
}

impl Slot {
    /// A branch as a member, known by what the register says of it.
    pub(super) fn new(branch: Branch, default: BranchMode, register: &mut Register) -> Self {
        let Branch { file_system, mode, label } = branch;
        let read_only = file_system.properties().read_only;
        let mode = if read_only { BranchMode::ReadOnly } else { mode.unwrap_or(default) };
        let root = file_system.root();
        let (tag, serial) = register.enter(&label);
        // A root that tells nothing now will not do so later; then its number hardly matters.
        let root_ino = root.getattr(&Caller::server()).map_or(1, |attributes| attributes.ino);
        let work = Work::new(&root);
        Self { member: Arc::new(Member { tag, serial, label, file_system, root, root_ino, work }), mode }
    }
}
