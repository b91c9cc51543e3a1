//! Threads that run part of an operation's work on idle CPUs.
//!
//! There is one less than there are CPUs. Work is only taken by a helper that is waiting for it, and never queued: the offering
//! thread continues in any case. After some work a helper polls for more for a while before it sleeps, since waking it takes as
//! long as a good part of what it helps with.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

type HelperJob = Box<dyn FnOnce() + Send>;

/// Maximum number of helpers; more would contend for the same locks underneath.
const MAX_HELPERS: u32 = 3;
/// Time for which a helper polls for more work.
const POLL_DURATION: Duration = Duration::from_micros(200);

static HELPERS: Helpers = Helpers {
    offered: Mutex::new(None),
    has_offer: Condvar::new(),
    waiting: AtomicUsize::new(0),
    polling: AtomicUsize::new(0),
    offered_on: AtomicUsize::new(usize::MAX),
    started: OnceLock::new(),
};

struct Helpers {
    /// Work that nobody has taken yet.
    offered: Mutex<Option<HelperJob>>,
    has_offer: Condvar,
    /// Number of helpers that wait for work, and number of these that poll for it.
    waiting: AtomicUsize,
    polling: AtomicUsize,
    /// CPU of the thread that made the last offer.
    offered_on: AtomicUsize,
    started: OnceLock<()>,
}

/// Returns whether a helper is idle.
pub(crate) fn any_idle() -> bool {
    HELPERS.started.get_or_init(start);
    HELPERS.waiting.load(Ordering::Relaxed) != 0
}

/// Offers work to a helper, if one is waiting.
pub(crate) fn offer(work: impl FnOnce() + Send + 'static) {
    HELPERS.offered_on.store(sched_getcpu(), Ordering::Relaxed);
    *HELPERS.lock() = Some(Box::new(work));
    if HELPERS.polling.load(Ordering::SeqCst) == 0 {
        HELPERS.has_offer.notify_one();
    }
}

fn start() {
    // The main thread may run on all CPUs of the program; the calling one may be pinned to one CPU.
    let Ok(cpus) = sched_getaffinity(Some(getpid())) else { return };
    for _ in 1..cpus.count().min(MAX_HELPERS + 1) {
        // With fewer there is less help.
        let _ = thread::Builder::new().name("helper".to_owned()).spawn(vnode::as_server(move || help(&cpus)));
    }
}

fn help(cpus: &CpuSet) {
    let _ = sched_setaffinity(None, cpus);
    loop {
        HELPERS.waiting.fetch_add(1, Ordering::Relaxed);
        let work = HELPERS.poll().unwrap_or_else(|| HELPERS.wait());
        HELPERS.waiting.fetch_sub(1, Ordering::Relaxed);
        leave_cpu(cpus, HELPERS.offered_on.load(Ordering::Relaxed));
        // A panic in it is reported to the thread that waits for the result.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    }
}

/// Moves to another CPU than the offering thread's, which continues to run there. The scheduler would leave both where they
/// are.
fn leave_cpu(cpus: &CpuSet, taken: usize) {
    if sched_getcpu() == taken {
        let mut others = *cpus;
        others.unset(taken);
        let _ = sched_setaffinity(None, &others);
    }
}

impl Helpers {
    fn poll(&self) -> Option<HelperJob> {
        let begin = Instant::now();
        self.polling.fetch_add(1, Ordering::SeqCst);
        let mut work = None;
        while work.is_none() && begin.elapsed() < POLL_DURATION {
            thread::yield_now();
            work = self.lock().take();
        }
        self.polling.fetch_sub(1, Ordering::SeqCst);
        work
    }

    fn wait(&self) -> HelperJob {
        let mut offered = self.lock();
        loop {
            match offered.take() {
                Some(work) => return work,
                None => offered = self.has_offer.wait(offered).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<HelperJob>> {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
