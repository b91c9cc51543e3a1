//! Leased files: a lease holder may take time to give the lease up, and an open waits for that. The union never waits while it
//! holds locks: it retries without them.

use std::thread;
use std::time::{Duration, Instant};

use vnode::{Caller, Errno, OpenFileRef, OpenFlags, Result, VnodeRef};

/// Error passed up if an open would wait. No file system returns it.
pub(crate) const LEASE_CONFLICT: Errno = Errno::EINPROGRESS;

/// Time after which the kernel has broken the lease, unless somebody takes leases again and again, or the kernel is configured
/// to wait longer.
const MAX_LEASE_WAIT: Duration = Duration::from_secs(60);
/// Upper bound on the wait of an operation for which others wait too: the kernel holds directory locks meanwhile. Programs that
/// take leases to be notified of opens, such as file servers, give them up sooner.
const MAX_SHARED_LEASE_WAIT: Duration = Duration::from_secs(1);
/// Upper bound on the wait of an open that must not wait: unions themselves lease files for a moment, to ask whether a file is
/// open elsewhere, and no program is to notice that.
const MAX_OWN_LEASE_WAIT: Duration = Duration::from_millis(100);
/// Maximum time between two attempts.
const MAX_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Opens a file of a branch without waiting.
///
/// # Errors
/// [`LEASE_CONFLICT`] if it would wait.
pub(crate) fn open_without_wait(file: &VnodeRef, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
    match file.open(caller, flags.with(OpenFlags::NONBLOCK).with(OpenFlags::AT_ONCE)) {
        Err(Errno::EAGAIN) => Err(LEASE_CONFLICT),
        opened => opened,
    }
}

/// Retries an operation until it finds no leased file. No lock may be held.
pub(crate) fn retry_while_leased<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let mut lease_retry = LeaseRetry::for_single_caller();
    loop {
        match attempt() {
            Err(LEASE_CONFLICT) => lease_retry.wait()?,
            done => return done,
        }
    }
}

/// Error of a command that has found a file leased: it may be repeated.
pub(crate) fn command_errno(error: Errno) -> Errno {
    if error == LEASE_CONFLICT { Errno::EAGAIN } else { error }
}

/// Time for which an operation is retried, and its final error.
pub(crate) struct LeaseRetry {
    limit: Duration,
    timeout_error: Errno,
    begin: Option<Instant>,
    pause: Duration,
}

impl LeaseRetry {
    /// Limit for an operation for which nobody else waits.
    pub(crate) const fn for_single_caller() -> Self {
        Self::new(MAX_LEASE_WAIT, Errno::EAGAIN)
    }

    /// Limit for an operation for which others wait too.
    pub(crate) const fn for_blocked_callers(timeout_error: Errno) -> Self {
        Self::new(MAX_SHARED_LEASE_WAIT, timeout_error)
    }

    /// Limit for an open with these flags.
    pub(crate) const fn for_open(flags: OpenFlags) -> Self {
        match (flags.is_nonblocking(), flags.is_at_once()) {
            (false, _) => Self::for_single_caller(),
            (true, false) => Self::new(MAX_OWN_LEASE_WAIT, Errno::EAGAIN),
            (true, true) => Self::new(Duration::ZERO, Errno::EAGAIN),
        }
    }

    const fn new(limit: Duration, timeout_error: Errno) -> Self {
        Self { limit, timeout_error, begin: None, pause: Duration::from_millis(1) }
    }

    /// Waits for a moment.
    ///
    /// # Errors
    /// The final error once the limit is reached.
    pub(crate) fn wait(&mut self) -> Result<()> {
        let left = self.limit.saturating_sub(self.begin.get_or_insert_with(Instant::now).elapsed());
        if left.is_zero() {
            return Err(self.timeout_error);
        }
        thread::sleep(self.pause.min(left));
        self.pause = MAX_RETRY_INTERVAL.min(self.pause * 2);
        Ok(())
    }
}
