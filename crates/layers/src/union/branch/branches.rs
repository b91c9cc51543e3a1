//! The branches of a union: the trees, their order, and their modes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use vnode::{Caller, Claim, Errno, FileSystemRef, InodeNumber, Name, Result, VnodeRef};

use super::directory_marks::MarkCache;
use super::exact_names::with_exact_names;
use super::health::BranchHealth;
use super::history::{self, History};
use super::latency::BranchLatency;
use super::losses::Losses;
use super::register::{self, BranchIdentifiers, BranchLocation, BranchNumbers, BranchRegister};
use super::state_directory;
use super::whiteout::WhiteoutWriter;
use super::work::{self, WorkDirectory};
use crate::is_only_described;
use crate::sizes::format_size;
use crate::{Branch, BranchMode, Refusal};

/// A branch as configured: one tree, or the several layers into which snapshots have divided it.
pub(crate) struct BranchBase {
    /// Its tag, serial number and identifier.
    pub(crate) numbers: BranchNumbers,
    /// Its name: the stack expression.
    pub(crate) label: String,
    /// The tree that contains all layers.
    pub(crate) file_system: FileSystemRef,
    /// Root of the tree.
    pub(crate) root: VnodeRef,
    /// Its mode, regardless of its snapshots and those of higher branches.
    pub(crate) mode: Mutex<BranchMode>,
    /// Minimum number of bytes to be left free in it, instead of that of the union.
    pub(crate) minimum_free: Option<u64>,
    pub(crate) history: Mutex<History>,
    /// Whether it is available.
    pub(crate) health: BranchHealth,
    /// Claim that prevents other unions from changing it.
    claim: Mutex<Option<Claim>>,
    /// Whether interrupted work in it is finished.
    is_recovered: AtomicBool,
}

/// A tree of the union: a branch, or a layer of one.
pub(crate) struct BranchMember {
    pub(crate) base: Arc<BranchBase>,
    /// Number of the layer; 0 for the branch itself.
    pub(crate) layer: u32,
    /// Root of the tree.
    pub(crate) root: VnodeRef,
    /// Inode number of the root.
    pub(crate) root_ino: InodeNumber,
    /// Work directory, where objects are created before they become visible.
    pub(crate) work: WorkDirectory,
    /// Cached marks of its directories.
    pub(crate) marks: MarkCache,
    /// Whether untrusted marks have been reported.
    has_reported_untrusted: AtomicBool,
    /// Its latency.
    pub(crate) latency: BranchLatency,
    /// Creates its whiteouts.
    pub(crate) whiteouts: WhiteoutWriter,
}

/// A tree at its position in the union.
#[derive(Clone)]
pub(crate) struct BranchSlot {
    pub(crate) member: Arc<BranchMember>,
    pub(crate) mode: BranchMode,
}

/// A branch that cannot be used, and the reason.
#[derive(Debug)]
pub(crate) struct UnusableBranch {
    pub(crate) label: String,
    pub(crate) reason: UnusableReason,
}

/// Reason why a branch cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnusableReason {
    /// Reading it failed.
    Error(Errno),
    /// Its use was refused.
    Refused(Refusal),
}

impl std::fmt::Display for UnusableReason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Error(error) => error.fmt(formatter),
            Self::Refused(reason) => reason.fmt(formatter),
        }
    }
}

impl UnusableBranch {
    fn of(branch: &Branch, error: Errno) -> Self {
        let is_believed = state_directory::has_trusted_state(&branch.file_system.root());
        let reason = match error {
            _ if is_believed == Ok(false) => UnusableReason::Refused(Refusal::StateOfOthers),
            state_directory::LATER_VERSION => UnusableReason::Refused(Refusal::LaterVersion),
            register::NOT_TEXT => UnusableReason::Refused(Refusal::UnknownRegister),
            work::ATTRIBUTES_LOST => UnusableReason::Refused(Refusal::WithoutMarks),
            error => UnusableReason::Error(error),
        };
        Self { label: branch.label.clone(), reason }
    }
}

/// The branches, highest priority first. They change only while no operation is in progress.
pub(crate) struct Branches {
    slots: ArcSwap<Vec<BranchSlot>>,
    /// Identifiers of these branches and of all that the union has had.
    identifiers: ArcSwap<BranchIdentifiers>,
    /// Number of changes.
    generation: AtomicU64,
}

impl Branches {
    /// Opens the configured branches, and assigns the numbers by which they are known. A branch without a mode is read-write if
    /// it is the first, and read-only otherwise.
    pub(crate) fn new(branches: Vec<Branch>) -> std::result::Result<(Self, BranchRegister), UnusableBranch> {
        let mut register = BranchRegister::default();
        for branch in &branches {
            let known = BranchRegister::of(&branch.file_system.root());
            let known = known.map_err(|error| UnusableBranch::of(branch, error))?;
            if let Some(known) = known {
                register = known;
                break;
            }
        }
        let mut slots: Vec<Vec<BranchSlot>> = Vec::with_capacity(branches.len());
        // Starts from the last, since unions usually grow from there.
        for (index, branch) in branches.into_iter().enumerate().rev() {
            let default = if index == 0 { BranchMode::ReadWrite } else { BranchMode::ReadOnly };
            slots.push(open_branch(branch, default, &mut register)?);
        }
        let mut slots: Vec<BranchSlot> = slots.into_iter().rev().flatten().collect();
        assign_modes(&mut slots);
        for slot in &slots {
            slot.member.work.set_register(register.to_text());
        }
        let branches = Self::from_slots(slots, Arc::new(register.identifiers()));
        Ok((branches, register))
    }

    /// A set of the given trees.
    pub(crate) fn from_slots(slots: Vec<BranchSlot>, identifiers: Arc<BranchIdentifiers>) -> Self {
        let slots = ArcSwap::from_pointee(slots);
        Self { slots, identifiers: ArcSwap::new(identifiers), generation: AtomicU64::new(0) }
    }

    /// All trees.
    pub(crate) fn slots(&self) -> Guard<Arc<Vec<BranchSlot>>> {
        self.slots.load()
    }

    /// Branch-set generation: number of times the branches were changed.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Replaces the branches.
    pub(crate) fn replace(&self, slots: Vec<BranchSlot>, register: &BranchRegister) {
        self.slots.store(Arc::new(slots));
        self.identifiers.store(Arc::new(register.identifiers()));
        self.bump_generation();
    }

    /// Identifiers of all branches that the union has or had, by their tags.
    pub(crate) fn identifiers(&self) -> Arc<BranchIdentifiers> {
        self.identifiers.load_full()
    }

    /// Returns whether the branch with this tag here has that identifier: another union may use the tag for another branch.
    pub(crate) fn has_identifier(&self, tag: u16, identifier: u64) -> bool {
        self.identifiers.load().get(&tag) == Some(&identifier)
    }

    /// Increments the generation, so that cached objects are revalidated.
    pub(crate) fn bump_generation(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Position of a member.
    pub(crate) fn position(&self, member: &BranchMember) -> Option<usize> {
        self.slots().iter().position(|slot| std::ptr::eq(&raw const *slot.member, member))
    }

    /// The branch with that tag.
    pub(crate) fn by_tag(&self, tag: u16) -> Option<Arc<BranchBase>> {
        let slots = self.slots();
        slots.iter().map(|slot| &slot.member.base).find(|base| base.numbers.tag == tag).cloned()
    }

    /// The newest layer of the branch with that identifier: the only layer that is ever changed.
    pub(crate) fn newest_of(&self, identifier: u64) -> Option<Arc<BranchMember>> {
        self.slots()
            .iter()
            .map(|slot| &slot.member)
            .find(|member| member.base.numbers.identifier == identifier)
            .cloned()
    }

    /// Returns whether objects in the member may be changed in place.
    pub(crate) fn may_change(&self, member: &BranchMember) -> bool {
        self.mode(member).is_some_and(|mode| mode != BranchMode::ReadOnly)
    }

    /// Returns whether objects may be created in the member, and the member is available.
    pub(crate) fn may_create(&self, member: &BranchMember) -> bool {
        self.mode(member) == Some(BranchMode::ReadWrite) && !member.has_failed()
    }

    /// The nearest member at or above a position in which objects may be created.
    pub(crate) fn writable_at_or_left_of(&self, position: usize) -> Option<Arc<BranchMember>> {
        let slots = self.slots();
        let left = slots.get(..=position)?.iter().rev();
        left.filter(|slot| slot.mode == BranchMode::ReadWrite && !slot.member.has_failed())
            .map(|slot| &slot.member)
            .next()
            .cloned()
    }

    fn mode(&self, member: &BranchMember) -> Option<BranchMode> {
        let slots = self.slots();
        slots.iter().find(|slot| std::ptr::eq(&raw const *slot.member, member)).map(|slot| slot.mode)
    }
}

impl BranchSlot {
    /// The tree, read-only.
    pub(crate) fn read_only(member: &Arc<BranchMember>) -> Self {
        Self { member: Arc::clone(member), mode: BranchMode::ReadOnly }
    }

    /// The branch's mode as it is listed.
    pub(crate) fn state(&self) -> String {
        let base = &self.member.base;
        let minimum = base.minimum_free.map(|bytes| format!("minimum free {}", format_size(bytes)));
        let failed = base.health.is_failed().then(|| "failed".to_owned());
        let notes: Vec<String> = minimum.into_iter().chain(failed).collect();
        if notes.is_empty() { self.mode.to_string() } else { format!("{} ({})", self.mode, notes.join(", ")) }
    }

    /// Returns whether both are layers of one branch; such layers are adjacent.
    pub(crate) fn is_same_branch(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.member.base, &other.member.base)
    }
}

impl BranchMember {
    fn new(base: &Arc<BranchBase>, layer: u32, root: VnodeRef) -> Result<Self> {
        // A root whose attributes are unavailable now will not provide them later; then its number hardly matters.
        let root_ino = root.getattr(&Caller::server()).map_or(InodeNumber::new(1), |attributes| attributes.ino);
        let work = WorkDirectory::new(&root)?;
        Ok(Self {
            base: Arc::clone(base),
            layer,
            root,
            root_ino,
            work,
            marks: MarkCache::default(),
            has_reported_untrusted: AtomicBool::new(false),
            latency: BranchLatency::default(),
            whiteouts: WhiteoutWriter::default(),
        })
    }

    /// Removes the whiteout beside an object that has just been created at a name in a directory of the branch.
    pub(crate) fn uncover(&self, directory: &VnodeRef, stored: Name<'_>) {
        self.whiteouts.uncover(directory, stored, &self.base.label);
    }

    /// Records what the branch could not preserve of a copy that is in place there.
    pub(crate) fn record_losses(&self, copy: &VnodeRef, lost: Losses) {
        if !lost.is_empty()
            && let Ok(path) = Self::path_in_layer(&self.base, copy)
        {
            // The copy exists, whether that can be recorded or not.
            let _ = self.work.record_losses(&path, lost);
        }
    }

    /// Reports that a directory of this name in the branch has marks that are not trusted; only the first is reported.
    pub(crate) fn report_untrusted_marks(&self, stored: Name<'_>) {
        if !self.has_reported_untrusted.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: "union",
                "{}: marks of the directory {} are not believed, since others than the server could have set them; \
                 plyfs union check lists all such directories",
                self.base.label,
                stored.as_bytes().escape_ascii()
            );
        }
    }

    /// Returns whether the branch has failed. A failed branch is checked again after a while.
    pub(crate) fn has_failed(&self) -> bool {
        self.base.health.has_failed()
    }

    /// # Errors
    /// `EIO` if the branch has failed.
    pub(crate) fn require_available(&self) -> Result<()> {
        if self.has_failed() { Err(Errno::EIO) } else { Ok(()) }
    }

    /// Verifies a branch's report that something does not exist.
    ///
    /// # Errors
    /// `EIO` if the branch has failed.
    pub(crate) fn verify_absence(&self) -> Result<()> {
        self.base.health.verify_absence()
    }

    /// As [`BranchBase::reported_error`].
    pub(crate) fn reported_error(&self, error: Errno) -> Errno {
        self.base.reported_error(error)
    }

    /// Sort key: lower for older ones.
    pub(crate) fn age(&self) -> (u32, u32) {
        (self.base.numbers.serial, self.layer)
    }

    /// A layer of a branch.
    pub(crate) fn open_layer(base: &Arc<BranchBase>, layer: u32) -> Result<Arc<Self>> {
        Self::new(base, layer, history::layer_root(&base.root, layer)?).map(Arc::new)
    }

    /// Path of a branch's object from the root of the layer that has it.
    pub(crate) fn path_in_layer(base: &BranchBase, object: &VnodeRef) -> Result<Vec<u8>> {
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

impl BranchBase {
    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether it may be changed and has layers that belong to snapshots.
    pub(crate) fn has_snapshots(&self) -> bool {
        self.mode() != BranchMode::ReadOnly && !self.history().snapshots.is_empty()
    }

    /// The error to report to users where the branch has returned this one: `EIO` if it has failed.
    pub(crate) fn reported_error(&self, error: Errno) -> Errno {
        self.health.reported_error(error)
    }

    /// Checks a branch that is added or gets another mode: the state that an unfinished merge of its layers has left is not
    /// shown until the merge is finished, which requires that the branch may be changed.
    pub(crate) fn check_pending_merge(&self) {
        if self.history().merging.is_some() && !is_only_described() {
            self.health.set_half_merged(true);
        }
    }

    /// Keeps a claim on it.
    pub(crate) fn set_claim(&self, claim: Claim) {
        *self.claim.lock().unwrap_or_else(PoisonError::into_inner) = Some(claim);
    }

    /// Returns whether it is claimed.
    pub(crate) fn is_claimed(&self) -> bool {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Lets another union claim it, which may leave unfinished work in it.
    pub(crate) fn release_claim(&self) {
        self.is_recovered.store(false, Ordering::Relaxed);
        *self.claim.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns whether interrupted work in it is finished.
    pub(crate) fn is_recovered(&self) -> bool {
        self.is_recovered.load(Ordering::Relaxed)
    }

    /// Records that interrupted work is finished.
    pub(crate) fn set_recovered(&self) {
        self.is_recovered.store(true, Ordering::Relaxed);
    }

    /// Records that a step that was recorded in it could not be completed.
    pub(crate) fn set_unrecovered(&self) {
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
pub(crate) fn open_branch(
    branch: Branch,
    default: BranchMode,
    register: &mut BranchRegister,
) -> std::result::Result<Vec<BranchSlot>, UnusableBranch> {
    let branch = Branch { file_system: with_exact_names(branch.file_system), ..branch };
    let bad = |error| UnusableBranch::of(&branch, error);
    let Branch { file_system, mode, label, minimum_free } = branch.clone();
    let root = file_system.root();
    let make = |register: &mut BranchRegister| -> Result<Vec<BranchSlot>> {
        let history = History::of(&root)?;
        let layers = history.layers();
        let numbers = register.register(&label, BranchLocation::of(&file_system));
        let mode =
            if file_system.properties().needs.read_only { BranchMode::ReadOnly } else { mode.unwrap_or(default) };
        let (label, mode, history) = (label.clone(), Mutex::new(mode), Mutex::new(history));
        let health = BranchHealth::new(&label, &root);
        let (claim, is_recovered) = (Mutex::default(), AtomicBool::new(false));
        let base = Arc::new(BranchBase {
            numbers,
            label,
            file_system,
            root,
            mode,
            minimum_free,
            history,
            health,
            claim,
            is_recovered,
        });
        let slot = |layer| Ok(BranchSlot::read_only(&BranchMember::open_layer(&base, layer)?));
        base.check_pending_merge();
        layers.into_iter().map(slot).collect()
    };
    make(register).map_err(bad)
}

/// Sets the mode of each tree. Only the newest layer of a branch is writable, and with snapshots nothing below it: they
/// preserve the state of the whole union. Metadata-only copies do the same for the trees that have their data.
pub(crate) fn assign_modes(slots: &mut [BranchSlot]) {
    let mut is_kept = false;
    let mut last: Option<Arc<BranchBase>> = None;
    for slot in slots {
        let base = &slot.member.base;
        let is_newest = !last.as_ref().is_some_and(|last| Arc::ptr_eq(last, base));
        slot.mode = if is_newest && !is_kept { base.mode() } else { BranchMode::ReadOnly };
        is_kept |= slot.mode == BranchMode::ReadWrite && !base.history().snapshots.is_empty();
        is_kept |= slot.member.work.has_metacopies();
        last = Some(Arc::clone(base));
    }
}
