//! Failed branches: those whose root is unreachable or gone, for example because storage breaks, a server no longer knows the
//! tree, or somebody has removed it.
//!
//! Such a branch is not an empty one. Operations that need it return `EIO` until its root is available again. The root is
//! checked on errors and when a branch reports that something does not exist, so that healthy branches cost next to nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use vnode::{Attributes, Caller, Errno, FileKind, InodeNumber, Result, VnodeRef};

/// Interval at which a failed branch is checked again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which a directory is checked for others' changes. A branch that was found healthy is trusted for as long when it
/// reports that something does not exist.
pub(crate) const CACHE_LIFETIME: Duration = Duration::from_millis(20);

/// Availability of a branch.
pub(crate) struct BranchHealth {
    /// Name of the branch.
    label: String,
    root: VnodeRef,
    /// Inode number of the root, and whether it had links, when the branch was added.
    root_state: Option<(InodeNumber, bool)>,
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
    /// The health of the branch with this name and root, which is available.
    pub(crate) fn new(label: &str, root: &VnodeRef) -> Self {
        let attributes = root.getattr(&Caller::server()).ok();
        Self {
            label: label.to_owned(),
            root: root.clone(),
            root_state: attributes.map(|attributes| (attributes.ino, attributes.nlink > 0)),
            has_failed: AtomicBool::new(false),
            is_half_merged: AtomicBool::new(false),
            created: Instant::now(),
            last_check_ms: AtomicU64::new(0),
        }
    }

    /// Returns whether the branch is known to have failed.
    pub(crate) fn is_failed(&self) -> bool {
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
            Ok(attributes) if !self.is_original_root(&attributes) => Some(FailureCause::Gone),
            // The kernel may know the attributes of a mount whose server has ended; this it always asks.
            Ok(_) => match self.root.statfs(&Caller::server()) {
                Err(error) if is_server_gone(error) => Some(FailureCause::Error(error)),
                _ => None,
            },
            Err(Errno::ENOENT | Errno::ENOTDIR) => Some(FailureCause::Gone),
            Err(error) => is_failure(error).then_some(FailureCause::Error(error)),
        }
    }

    fn is_original_root(&self, attributes: &Attributes) -> bool {
        let is_root =
            |(ino, had_links): (InodeNumber, bool)| attributes.ino == ino && (attributes.nlink > 0 || !had_links);
        attributes.kind == FileKind::Directory && self.root_state.is_none_or(is_root)
    }

    /// Returns whether the branch has failed. A failed branch is checked again after a while.
    pub(crate) fn has_failed(&self) -> bool {
        self.is_failed() && (!self.is_due(RETRY_INTERVAL) || self.check_root())
    }

    /// Returns whether a check finds that the branch has failed.
    pub(crate) fn check_failed(&self) -> bool {
        if self.is_failed() { self.has_failed() } else { self.check_root() }
    }

    /// Returns whether an error, which may come from anywhere, shows that the branch has just failed. That something does not
    /// exist is usually not a failure.
    pub(crate) fn check_just_failed(&self, error: Errno) -> bool {
        let is_asked = !self.is_failed() && (error != Errno::ENOENT || self.is_due(CACHE_LIFETIME));
        is_asked && self.check_root()
    }

    /// The error to report to users where the branch has returned this one: `EIO` if it has failed.
    pub(crate) fn reported_error(&self, error: Errno) -> Errno {
        if may_indicate_failure(error) && self.check_failed() { Errno::EIO } else { error }
    }

    /// Records whether layers were merged only halfway: meanwhile, the branch counts as failed.
    pub(crate) fn set_half_merged(&self, is_half_merged: bool) {
        if self.is_half_merged.swap(is_half_merged, Ordering::Relaxed) != is_half_merged {
            self.check_root();
        }
    }

    /// Verifies a branch's report that something does not exist, which is true if the branch is available.
    ///
    /// # Errors
    /// `EIO` if the branch has failed.
    pub(crate) fn verify_absence(&self) -> Result<()> {
        let fails = self.has_failed() || (self.is_due(CACHE_LIFETIME) && self.check_root());
        if fails { Err(Errno::EIO) } else { Ok(()) }
    }

    /// Checks the root, and reports a change of its state.
    fn check_root(&self) -> bool {
        let label = &self.label;
        // A single failed call does not make a failed branch.
        let cause = self.cause().and_then(|_| self.cause());
        if self.has_failed.swap(cause.is_some(), Ordering::Relaxed) == cause.is_some() {
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

/// Returns whether an error is that of a mount whose server has ended.
fn is_server_gone(error: Errno) -> bool {
    [libc::ENOTCONN, libc::ECONNABORTED].contains(&error.number())
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
pub(crate) fn may_indicate_failure(error: Errno) -> bool {
    error == Errno::ENOENT || is_failure(error)
}
