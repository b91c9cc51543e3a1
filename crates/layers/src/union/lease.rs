//! Files that somebody has leased: who holds a lease may take time to give it up, and an open waits for that. None does so below
//! with locks of the union held: it is tried again without them.

use std::thread;
use std::time::{Duration, Instant};

use vnode::{Caller, Errno, OpenFileRef, OpenFlags, Result, VnodeRef};

/// Passed up where an open would wait. No file system answers it.
pub(super) const LEASED: Errno = Errno::EINPROGRESS;

/// By then the kernel has taken the lease back, unless somebody takes one again and again, or it is told to take longer.
const LONGEST: Duration = Duration::from_secs(60);
/// For so long an operation waits that others wait for too: the kernel holds directories meanwhile. Who takes leases to be told
/// of opens, as file servers do, gives them up sooner.
const BRIEFLY: Duration = Duration::from_secs(1);
/// The longest time between two attempts.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Opens a file of a branch without waiting.
///
/// # Errors
/// [`LEASED`] where it would wait.
pub(super) fn open_at_once(file: &VnodeRef, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
    match file.open(caller, flags.with(OpenFlags::NONBLOCK)) {
        Err(Errno::EAGAIN) => Err(LEASED),
        opened => opened,
    }
}

/// Does what may find a file leased, until it does not any more. No lock is held.
pub(super) fn patiently<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let mut patience = Patience::of_one();
    loop {
        match attempt() {
            Err(LEASED) => patience.wait()?,
            done => return done,
        }
    }
}

/// What a command answers that has found a file leased: it may be given again.
pub(super) fn for_command(error: Errno) -> Errno {
    if error == LEASED { Errno::EAGAIN } else { error }
}

/// How long an operation tries again, and what it answers in the end.
pub(super) struct Patience {
    limit: Duration,
    otherwise: Errno,
    begin: Option<Instant>,
    pause: Duration,
}

impl Patience {
    /// Of an operation that nobody else waits for.
    pub(super) const fn of_one() -> Self {
        Self::new(LONGEST, Errno::EAGAIN)
    }

    /// Of one that others wait for too.
    pub(super) const fn of_many(otherwise: Errno) -> Self {
        Self::new(BRIEFLY, otherwise)
    }

    /// Of one that is not to wait.
    pub(super) const fn none() -> Self {
        Self::new(Duration::ZERO, Errno::EAGAIN)
    }

    const fn new(limit: Duration, otherwise: Errno) -> Self {
        Self { limit, otherwise, begin: None, pause: Duration::from_millis(1) }
    }

    /// Waits for a moment.
    ///
    /// # Errors
    /// What to answer when it has waited for long enough.
    pub(super) fn wait(&mut self) -> Result<()> {
        let left = self.limit.saturating_sub(self.begin.get_or_insert_with(Instant::now).elapsed());
        if left.is_zero() {
            return Err(self.otherwise);
        }
        thread::sleep(self.pause.min(left));
        self.pause = PAUSE_MAX.min(self.pause * 2);
        Ok(())
    }
}
