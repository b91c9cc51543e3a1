//! The branches of a union: the trees, their order, and their modes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use vnode::{Caller, Claim, Errno, FileSystemRef, Name, Result, VnodeRef};

use super::exact_names::with_exact_names;
use super::health::Health;
use super::history::{self, History};
use super::losses::Losses;
use super::parallel::Pace;
use super::register::{self, Identifiers, Known, Place, Register};
use super::whiteout::Whiteouts;
use super::work::{self, Work};
use crate::union::cache::directory_marks::MarkCache;
use crate::{Branch, BranchMode, Refusal};

/// A branch as configured: one tree, or the several layers into which snapshots have divided it.
pub(crate) struct Base {
    /// Its tag, serial number and identifier.
    pub(crate) known: Known,
    /// Its name: the stack expression.
    pub(crate) label: String,
    /// The tree that contains all layers.
    pub(crate) file_system: FileSystemRef,
    /// Root of the tree.
    pub(crate) root: VnodeRef,
    /// Its mode, regardless of its snapshots and those of higher branches.
    pub(crate) mode: Mutex<BranchMode>,
    pub(crate) history: Mutex<History>,
    /// Whether it is available.
    pub(crate) health: Health,
    /// Claim that prevents other unions from changing it.
    claim: Mutex<Option<Claim>>,
    /// Whether interrupted work in it is finished.
    is_recovered: AtomicBool,
}

/// A tree of the union: a branch, or a layer of one.
pub(crate) struct Member {
    pub(crate) base: Arc<Base>,
    /// Number of the layer; 0 for the branch itself.
    pub(crate) layer: u32,
    /// Root of the tree.
    pub(crate) root: VnodeRef,
    /// Inode number of the root.
    pub(crate) root_ino: u64,
    /// Work directory, where objects are created before they become visible.
    pub(crate) work: Work,
    /// Cached marks of its directories.
    pub(crate) marks: MarkCache,
    /// Whether untrusted marks have been reported.
    has_doubts: AtomicBool,
    /// Its latency.
    pub(crate) pace: Pace,
    /// Creates its whiteouts.
    pub(crate) whiteouts: Whiteouts,
}

/// A tree at its position in the union.
#[derive(Clone)]
pub(crate) struct Slot {
    pub(crate) member: Arc<Member>,
    pub(crate) mode: BranchMode,
}

/// A branch that cannot be used, and the reason.
#[derive(Debug)]
pub(crate) struct BadBranch {
    pub(crate) label: String,
    pub(crate) why: WhyBad,
}

/// Reason why a branch cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhyBad {
    /// Reading it failed.
    Error(Errno),
    /// Its use was refused.
    Refused(Refusal),
}

impl std::fmt::Display for WhyBad {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Error(error) => error.fmt(formatter),
            Self::Refused(why) => why.fmt(formatter),
        }
    }
}

impl BadBranch {
    fn of(branch: &Branch, error: Errno) -> Self {
        let is_believed = work::has_believed_state(&branch.file_system.root());
        let why = match error {
            _ if is_believed == Ok(false) => WhyBad::Refused(Refusal::StateOfOthers),
            register::LATER => WhyBad::Refused(Refusal::LaterVersion),
            register::NO_TEXT => WhyBad::Refused(Refusal::UnknownRegister),
            work::UNMARKED => WhyBad::Refused(Refusal::WithoutMarks),
            error => WhyBad::Error(error),
        };
        Self { label: branch.label.clone(), why }
    }
}

/// The branches, highest priority first. They change only while no operation is in progress.
pub(crate) struct Branches {
    slots: ArcSwap<Vec<Slot>>,
    /// Identifiers of these branches and of all that the union has had.
    identifiers: ArcSwap<Identifiers>,
    /// Number of changes.
    generation: AtomicU64,
}

impl Branches {
    /// Opens the configured branches, and assigns the numbers by which they are known. A branch without a mode is read-write if
    /// it is the first, and read-only otherwise.
    pub(crate) fn new(branches: Vec<Branch>) -> std::result::Result<(Self, Register), BadBranch> {
        let mut register = Register::default();
        for branch in &branches {
            let known = Register::of(&branch.file_system.root());
            let known = known.map_err(|error| BadBranch::of(branch, error))?;
            if let Some(known) = known {
                register = known;
                break;
            }
        }
        let mut slots: Vec<Vec<Slot>> = Vec::with_capacity(branches.len());
        // Starts from the last, since unions usually grow from there.
        for (index, branch) in branches.into_iter().enumerate().rev() {
            let default = if index == 0 { BranchMode::ReadWrite } else { BranchMode::ReadOnly };
            slots.push(slots_of(branch, default, &mut register)?);
        }
        let mut slots: Vec<Slot> = slots.into_iter().rev().flatten().collect();
        assign_modes(&mut slots);
        for slot in &slots {
            slot.member.work.remember(register.to_text());
        }
        let branches = Self::of_slots(slots, Arc::new(register.identifiers()));
        Ok((branches, register))
    }

    /// A set of the given trees.
    pub(crate) fn of_slots(slots: Vec<Slot>, identifiers: Arc<Identifiers>) -> Self {
        let slots = ArcSwap::from_pointee(slots);
        Self { slots, identifiers: ArcSwap::new(identifiers), generation: AtomicU64::new(0) }
    }

    /// All trees.
    pub(crate) fn slots(&self) -> Guard<Arc<Vec<Slot>>> {
        self.slots.load()
    }

    /// Branch-set generation: number of times the branches were changed.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Replaces the branches.
    pub(crate) fn replace(&self, slots: Vec<Slot>, register: &Register) {
        self.slots.store(Arc::new(slots));
        self.identifiers.store(Arc::new(register.identifiers()));
        self.note_change();
    }

    /// Identifiers of all branches that the union has or had, by their tags.
    pub(crate) fn identifiers(&self) -> Arc<Identifiers> {
        self.identifiers.load_full()
    }

    /// Returns whether the branch with this tag here has that identifier: another union may use the tag for another branch.
    pub(crate) fn is_known(&self, tag: u16, identifier: u64) -> bool {
        self.identifiers.load().get(&tag) == Some(&identifier)
    }

    /// Increments the generation, so that cached objects are revalidated.
    pub(crate) fn note_change(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Position of a member.
    pub(crate) fn position(&self, member: &Member) -> Option<usize> {
        self.slots().iter().position(|slot| std::ptr::eq(&raw const *slot.member, member))
    }

    /// The branch with that tag.
    pub(crate) fn tagged(&self, tag: u16) -> Option<Arc<Base>> {
        let slots = self.slots();
        slots.iter().map(|slot| &slot.member.base).find(|base| base.known.tag == tag).cloned()
    }

    /// The newest layer of the branch with that identifier: the only layer that is ever changed.
    pub(crate) fn newest_of(&self, identifier: u64) -> Option<Arc<Member>> {
        self.slots().iter().map(|slot| &slot.member).find(|member| member.base.known.identifier == identifier).cloned()
    }

    /// Returns whether objects in the member may be changed in place.
    pub(crate) fn may_change(&self, member: &Member) -> bool {
        self.mode(member).is_some_and(|mode| mode != BranchMode::ReadOnly)
    }

    /// Returns whether objects may be created in the member, and the member is available.
    pub(crate) fn may_create(&self, member: &Member) -> bool {
        self.mode(member) == Some(BranchMode::ReadWrite) && !member.has_failed()
    }

    /// The nearest member at or above a position in which objects may be created.
    pub(crate) fn writable_at_or_left_of(&self, position: usize) -> Option<Arc<Member>> {
        let slots = self.slots();
        let left = slots.get(..=position)?.iter().rev();
        left.filter(|slot| slot.mode == BranchMode::ReadWrite && !slot.member.has_failed())
            .map(|slot| &slot.member)
            .next()
            .cloned()
    }

    fn mode(&self, member: &Member) -> Option<BranchMode> {
        let slots = self.slots();
        slots.iter().find(|slot| std::ptr::eq(&raw const *slot.member, member)).map(|slot| slot.mode)
    }
}

impl Slot {
    /// The tree, read-only.
    pub(crate) fn read_only(member: &Arc<Member>) -> Self {
        Self { member: Arc::clone(member), mode: BranchMode::ReadOnly }
    }

    /// Returns whether both are layers of one branch; such layers are adjacent.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.member.base, &other.member.base)
    }
}

impl Member {
    fn new(base: &Arc<Base>, layer: u32, root: VnodeRef) -> Result<Self> {
        // A root whose attributes are unavailable now will not provide them later; then its number hardly matters.
        let root_ino = root.getattr(&Caller::server()).map_or(1, |attributes| attributes.ino);
        let work = Work::new(&root)?;
        Ok(Self {
            base: Arc::clone(base),
            layer,
            root,
            root_ino,
            work,
            marks: MarkCache::default(),
            has_doubts: AtomicBool::new(false),
            pace: Pace::default(),
            whiteouts: Whiteouts::default(),
        })
    }

    /// Removes the whiteout beside an object that has just been created at a name in a directory of the branch.
    pub(crate) fn uncover(&self, directory: &VnodeRef, stored: Name<'_>) {
        self.whiteouts.uncover(directory, stored, &self.base.label);
    }

    /// Records what the branch could not preserve of a copy that is in place there.
    pub(crate) fn note_losses(&self, copy: &VnodeRef, lost: Losses) {
        if !lost.is_empty()
            && let Ok(path) = Self::path_in_layer(&self.base, copy)
        {
            // The copy exists, whether that can be recorded or not.
            let _ = self.work.note_losses(&path, lost);
        }
    }

    /// Reports that a directory of this name in the branch has marks that are not trusted; only the first is reported.
    pub(crate) fn doubts(&self, stored: Name<'_>) {
        if !self.has_doubts.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: "union",
                "{}: marks of the directory {} are not believed, since others than the server could have set them; \
                 plyfs union check lists all such directories",
                self.base.label,
                stored.as_bytes().escape_ascii()
            );
        }
    }

    /// Sort key: lower for older ones.
    pub(crate) fn age(&self) -> (u32, u32) {
        (self.base.known.serial, self.layer)
    }

    /// A layer of a branch.
    pub(crate) fn of_layer(base: &Arc<Base>, layer: u32) -> Result<Arc<Self>> {
        Self::new(base, layer, history::layer_root(&base.root, layer)?).map(Arc::new)
    }

    /// Path of a branch's object from the root of the layer that has it.
    pub(crate) fn path_in_layer(base: &Base, object: &VnodeRef) -> Result<Vec<u8>> {
        let path = object.path().map_err(|_| Errno::ESTALE)?;
        let layers = base.history().layers();
        for prefix in layers.into_iter().filter(|layer| *layer != 0).map(history::layer_path) {
            match path.strip_prefix(&prefix[..]) {
                Some([]) => return Ok(Vec::new()),
                Some([b'/', rest @ ..]) => return Ok(rest.to_vec()),
                _ => {}
            }
        }
        Ok(path)
    }
}

impl Base {
    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether it may be changed and has layers that belong to snapshots.
    pub(crate) fn has_snapshots(&self) -> bool {
        self.mode() != BranchMode::ReadOnly && !self.history().snapshots.is_empty()
    }

    /// Keeps a claim on it.
    pub(crate) fn hold(&self, claim: Claim) {
        *self.claim.lock().unwrap_or_else(PoisonError::into_inner) = Some(claim);
    }

    /// Returns whether it is claimed.
    pub(crate) fn is_claimed(&self) -> bool {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Lets another union claim it, which may leave unfinished work in it.
    pub(crate) fn let_go(&self) {
        self.is_recovered.store(false, Ordering::Relaxed);
        *self.claim.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns whether interrupted work in it is finished.
    pub(crate) fn is_recovered(&self) -> bool {
        self.is_recovered.load(Ordering::Relaxed)
    }

    /// Records that interrupted work is finished.
    pub(crate) fn note_recovered(&self) {
        self.is_recovered.store(true, Ordering::Relaxed);
    }

    /// Records that a step that was recorded in it could not be completed.
    pub(crate) fn note_unfinished(&self) {
        self.is_recovered.store(false, Ordering::Relaxed);
    }

    /// Its mode, regardless of snapshots.
    pub(crate) fn mode(&self) -> BranchMode {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes its mode.
    pub(crate) fn set_mode(&self, mode: BranchMode) {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }
}

/// A branch's layers, newest first, with the numbers from the register.
pub(crate) fn slots_of(
    branch: Branch,
    default: BranchMode,
    register: &mut Register,
) -> std::result::Result<Vec<Slot>, BadBranch> {
    let branch = Branch { file_system: with_exact_names(branch.file_system), ..branch };
    let bad = |error| BadBranch::of(&branch, error);
    let Branch { file_system, mode, label } = branch.clone();
    let root = file_system.root();
    let make = |register: &mut Register| -> Result<Vec<Slot>> {
        let history = History::of(&root)?;
        let layers = history.layers();
        let known = register.enter(&label, Place::of(&file_system));
        let mode = if file_system.properties().read_only { BranchMode::ReadOnly } else { mode.unwrap_or(default) };
        let (label, mode, history) = (label.clone(), Mutex::new(mode), Mutex::new(history));
        let health = Health::of(&root);
        let (claim, is_recovered) = (Mutex::default(), AtomicBool::new(false));
        let base = Base { known, label, file_system, root, mode, history, health, claim, is_recovered };
        let base = Arc::new(base);
        let slot = |layer| Ok(Slot::read_only(&Member::of_layer(&base, layer)?));
        base.is_to_be_merged();
        layers.into_iter().map(slot).collect()
    };
    make(register).map_err(bad)
}

/// Sets the mode of each tree. Only the newest layer of a branch is writable, and with snapshots nothing below it: they
/// preserve the state of the whole union. Metadata-only copies do the same for the trees that have their data.
pub(crate) fn assign_modes(slots: &mut [Slot]) {
    let mut is_kept = false;
    let mut last: Option<Arc<Base>> = None;
    for slot in slots {
        let base = &slot.member.base;
        let is_newest = !last.as_ref().is_some_and(|last| Arc::ptr_eq(last, base));
        slot.mode = if is_newest && !is_kept { base.mode() } else { BranchMode::ReadOnly };
        is_kept |= slot.mode == BranchMode::ReadWrite && !base.history().snapshots.is_empty();
        is_kept |= slot.member.work.has_metacopies();
        last = Some(Arc::clone(base));
    }
}
