//! Leased files: a lease holder may take time to give the lease up, and an open waits for that. The union never waits while it
//! holds locks: it retries without them.

use std::thread;
use std::time::{Duration, Instant};

use vnode::{Caller, Errno, OpenFileRef, OpenFlags, Result, VnodeRef};

/// Error passed up if an open would wait. No file system returns it.
pub(crate) const LEASED: Errno = Errno::EINPROGRESS;

/// Time after which the kernel has broken the lease, unless somebody takes leases again and again, or the kernel is configured
/// to wait longer.
const LONGEST: Duration = Duration::from_secs(60);
/// Upper bound on the wait of an operation for which others wait too: the kernel holds directory locks meanwhile. Programs that
/// take leases to be notified of opens, such as file servers, give them up sooner.
const BRIEFLY: Duration = Duration::from_secs(1);
/// Maximum time between two attempts.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Opens a file of a branch without waiting.
///
/// # Errors
/// [`LEASED`] if it would wait.
pub(crate) fn open_at_once(file: &VnodeRef, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
    match file.open(caller, flags.with(OpenFlags::NONBLOCK)) {
        Err(Errno::EAGAIN) => Err(LEASED),
        opened => opened,
    }
}

/// Retries an operation until it finds no leased file. No lock may be held.
pub(crate) fn patiently<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let mut patience = Patience::of_one();
    loop {
        match attempt() {
            Err(LEASED) => patience.wait()?,
            done => return done,
        }
    }
}

/// Error of a command that has found a file leased: it may be repeated.
pub(crate) fn for_command(error: Errno) -> Errno {
    if error == LEASED { Errno::EAGAIN } else { error }
}

/// Time for which an operation is retried, and its final error.
pub(crate) struct Patience {
    limit: Duration,
    otherwise: Errno,
    begin: Option<Instant>,
    pause: Duration,
}

impl Patience {
    /// Limit for an operation for which nobody else waits.
    pub(crate) const fn of_one() -> Self {
        Self::new(LONGEST, Errno::EAGAIN)
    }

    /// Limit for an operation for which others wait too.
    pub(crate) const fn of_many(otherwise: Errno) -> Self {
        Self::new(BRIEFLY, otherwise)
    }

    /// Limit for an operation that must not wait.
    pub(crate) const fn none() -> Self {
        Self::new(Duration::ZERO, Errno::EAGAIN)
    }

    const fn new(limit: Duration, otherwise: Errno) -> Self {
        Self { limit, otherwise, begin: None, pause: Duration::from_millis(1) }
    }

    /// Waits for a moment.
    ///
    /// # Errors
    /// The final error once the limit is reached.
    pub(crate) fn wait(&mut self) -> Result<()> {
        let left = self.limit.saturating_sub(self.begin.get_or_insert_with(Instant::now).elapsed());
        if left.is_zero() {
            return Err(self.otherwise);
        }
        thread::sleep(self.pause.min(left));
        self.pause = PAUSE_MAX.min(self.pause * 2);
        Ok(())
    }
}
