//! Failed branches: those whose root is unreachable or gone, for example because storage breaks, a server no longer knows the
//! tree, or somebody has removed it.
//!
//! Such a branch is not an empty one. Operations that need it return `EIO` until its root is available again. The root is
//! checked on errors and when a branch reports that something does not exist, so that healthy branches cost next to nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use vnode::{Attributes, Caller, Errno, FileKind, Result, VnodeRef};

use super::branches::{BranchBase, BranchMember, BranchSlot};
use super::claim::is_only_described;
use crate::BranchMode;
use crate::union::cache::names::CACHE_LIFETIME;
use crate::union::node::Node;
use crate::union::state::Union;

/// Interval at which a failed branch is checked again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Time for which a list of the branches waits for a response.
const LIST_TIMEOUT: Duration = Duration::from_millis(500);

/// Availability of a branch.
pub(crate) struct BranchHealth {
    root: VnodeRef,
    /// Inode number of the root, and whether it had links, when the branch was added.
    root_state: Option<(u64, bool)>,
    has_failed: AtomicBool,
    /// Whether a merge of its layers could not be completed.
    is_half_merged: AtomicBool,
    created: Instant,
    /// Time of the root's last check, in milliseconds after `created`.
    last_check_ms: AtomicU64,
}

/// Reason of a branch's failure.
#[derive(Clone, Copy)]
enum FailureCause {
    Error(Errno),
    /// The root was removed, or is another object.
    Gone,
    /// Some of its contents are in transit from one layer to another.
    HalfMerged,
}

impl BranchHealth {
    /// The health of the branch with this root, which is available.
    pub(crate) fn new(root: &VnodeRef) -> Self {
        let attributes = root.getattr(&Caller::server()).ok();
        Self {
            root: root.clone(),
            root_state: attributes.map(|attributes| (attributes.ino, attributes.nlink > 0)),
            has_failed: AtomicBool::new(false),
            is_half_merged: AtomicBool::new(false),
            created: Instant::now(),
            last_check_ms: AtomicU64::new(0),
        }
    }

    /// Returns whether the branch is known to have failed.
    fn is_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Returns whether the root was last checked at least this long ago; if so, the caller has to check it.
    fn is_due(&self, interval: Duration) -> bool {
        let now = u64::try_from(self.created.elapsed().as_millis()).unwrap_or(u64::MAX);
        let last_check_ms = self.last_check_ms.load(Ordering::Relaxed);
        now.saturating_sub(last_check_ms) >= interval.as_millis() as u64
            && self.last_check_ms.compare_exchange(last_check_ms, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn cause(&self) -> Option<FailureCause> {
        if self.is_half_merged.load(Ordering::Relaxed) {
            return Some(FailureCause::HalfMerged);
        }
        match self.root.getattr(&Caller::server()) {
            Ok(attributes) => (!self.is_original_root(&attributes)).then_some(FailureCause::Gone),
            Err(Errno::ENOENT | Errno::ENOTDIR) => Some(FailureCause::Gone),
            Err(error) => is_failure(error).then_some(FailureCause::Error(error)),
        }
    }

    fn is_original_root(&self, attributes: &Attributes) -> bool {
        let is_root = |(ino, had_links): (u64, bool)| attributes.ino == ino && (attributes.nlink > 0 || !had_links);
        attributes.kind == FileKind::Directory && self.root_state.is_none_or(is_root)
    }
}

/// Returns whether an error indicates a failure of storage or of a server, rather than the state of an object.
fn is_failure(error: Errno) -> bool {
    const SERVER_ERRORS: [i32; 8] = [
        libc::ENOTCONN,
        libc::ESHUTDOWN,
        libc::ECONNABORTED,
        libc::ECONNRESET,
        libc::EHOSTDOWN,
        libc::EHOSTUNREACH,
        libc::EREMOTEIO,
        libc::ENOMEDIUM,
    ];
    matches!(
        error,
        Errno::EIO
            | Errno::ESTALE
            | Errno::ENODEV
            | Errno::ENXIO
            | Errno::ETIMEDOUT
            | Errno::ECONNREFUSED
            | Errno::EUCLEAN
            | Errno::EBADMSG
            | Errno::EPROTO
    ) || SERVER_ERRORS.contains(&error.number())
}

/// Returns whether the error may come from a failed branch.
fn may_indicate_failure(error: Errno) -> bool {
    error == Errno::ENOENT || is_failure(error)
}

impl BranchBase {
    /// Returns whether the branch has failed. A failed branch is checked again after a while.
    fn has_failed(&self) -> bool {
        self.health.is_failed() && (!self.health.is_due(RETRY_INTERVAL) || self.check_root())
    }

    /// Returns whether a check finds that the branch has failed.
    fn check_failed(&self) -> bool {
        if self.health.is_failed() { self.has_failed() } else { self.check_root() }
    }

    /// Returns whether an error, which may come from anywhere, shows that the branch has just failed. That something does not
    /// exist is usually not a failure.
    fn check_just_failed(&self, error: Errno) -> bool {
        let is_asked = !self.health.is_failed() && (error != Errno::ENOENT || self.health.is_due(CACHE_LIFETIME));
        is_asked && self.check_root()
    }

    /// The error to report to users where the branch has returned this one: `EIO` if it has failed.
    pub(crate) fn reported_error(&self, error: Errno) -> Errno {
        if may_indicate_failure(error) && self.check_failed() { Errno::EIO } else { error }
    }

    /// Records whether layers were merged only halfway: meanwhile, the branch counts as failed.
    pub(crate) fn set_half_merged(&self, is_half_merged: bool) {
        if self.health.is_half_merged.swap(is_half_merged, Ordering::Relaxed) != is_half_merged {
            self.check_root();
        }
    }

    /// Checks a branch that is added or gets another mode: the state that an unfinished merge of its layers has left is not
    /// shown until the merge is finished, which requires that the branch may be changed.
    pub(crate) fn check_pending_merge(&self) {
        if self.history().merging.is_some() && !is_only_described() {
            self.set_half_merged(true);
        }
    }

    /// Checks the root, and reports a change of its state.
    fn check_root(&self) -> bool {
        let label = &self.label;
        // A single failed call does not make a failed branch.
        let cause = self.health.cause().and_then(|_| self.health.cause());
        if self.health.has_failed.swap(cause.is_some(), Ordering::Relaxed) == cause.is_some() {
            return cause.is_some();
        }
        match cause {
            Some(FailureCause::Error(error)) => tracing::warn!(
                target: "union",
                "the branch {label} has failed: {error}; what needs it answers EIO until it is there again: check its \
                 storage or server, or take it out with plyfs union remove"
            ),
            Some(FailureCause::Gone) => tracing::warn!(
                target: "union",
                "the branch {label} has failed: its root directory was removed or replaced; what needs it answers EIO: \
                 take it out with plyfs union remove, and once it is there again, add it with plyfs union add"
            ),
            Some(FailureCause::HalfMerged) => tracing::warn!(
                target: "union",
                "the branch {label} has failed: its layers are merged half-way, and what needs it answers EIO until that is \
                 finished, which a union that may change it tries again and again: use it as `rw`, and check its storage"
            ),
            None => tracing::info!(target: "union", "the branch {label} is there again"),
        }
        cause.is_some()
    }
}

impl BranchMember {
    /// As [`BranchBase::has_failed`].
    pub(crate) fn has_failed(&self) -> bool {
        self.base.has_failed()
    }

    /// # Errors
    /// `EIO` if the branch has failed.
    pub(crate) fn require_available(&self) -> Result<()> {
        if self.has_failed() { Err(Errno::EIO) } else { Ok(()) }
    }

    /// Verifies a branch's report that something does not exist, which is true if the branch is available.
    ///
    /// # Errors
    /// `EIO` if the branch has failed.
    pub(crate) fn verify_absence(&self) -> Result<()> {
        let fails = self.has_failed() || (self.base.health.is_due(CACHE_LIFETIME) && self.base.check_root());
        if fails { Err(Errno::EIO) } else { Ok(()) }
    }

    /// As [`BranchBase::reported_error`].
    pub(crate) fn reported_error(&self, error: Errno) -> Errno {
        self.base.reported_error(error)
    }
}

impl BranchSlot {
    /// The branch's mode as it is listed.
    pub(crate) fn state(&self) -> String {
        let note = if self.member.base.health.is_failed() { " (failed)" } else { "" };
        format!("{}{note}", self.mode)
    }
}

impl Union {
    /// Checks all branches, and waits a moment for those that do not respond.
    pub(crate) fn check_all_branches(&self) {
        let slots = self.branches.slots();
        let (sender, responses) = channel();
        let mut count = 0;
        for group in slots.chunk_by(BranchSlot::is_same_branch) {
            let (base, sender) = (Arc::clone(&group[0].member.base), sender.clone());
            // Nobody waits any more for a late response.
            let check = vnode::as_server(move || {
                let _ = sender.send(base.check_failed());
            });
            count += usize::from(thread::Builder::new().name("branch".to_owned()).spawn(check).is_ok());
        }
        let deadline = Instant::now() + LIST_TIMEOUT;
        for _ in 0..count {
            let left = deadline.saturating_duration_since(Instant::now());
            if responses.recv_timeout(left).is_err() {
                return;
            }
        }
    }

    /// A branch that is known to have failed, if any.
    pub(crate) fn failed_branch(&self) -> Option<String> {
        let slots = self.branches.slots();
        slots.iter().find(|slot| slot.member.base.health.is_failed()).map(|slot| slot.member.base.label.clone())
    }
}

impl Node {
    /// The error to report to users where an operation on the object has failed with this one: `EIO` if a branch that has it,
    /// or one that would receive new objects, has failed.
    pub(crate) fn reported_error(&self, error: Errno) -> Errno {
        let slots = self.union.branches.slots();
        if error == Errno::EROFS {
            let is_lost = |slot: &BranchSlot| slot.mode == BranchMode::ReadWrite && slot.member.has_failed();
            return if slots.iter().any(is_lost) { Errno::EIO } else { error };
        }
        if !may_indicate_failure(error) {
            return error;
        }
        let instances = self.instances();
        let own = instances.iter().map(|instance| &instance.member);
        let written = slots.iter().filter(|slot| slot.mode != BranchMode::ReadOnly).map(|slot| &slot.member);
        // For directories, known failures have already been taken into account.
        let has_own_failed = (error != Errno::ENOENT || self.kind != FileKind::Directory)
            && instances.iter().any(|instance| instance.member.has_failed());
        let is_failure = own.chain(written).any(|member| member.base.check_just_failed(error)) || has_own_failed;
        if is_failure { Errno::EIO } else { error }
    }
}
