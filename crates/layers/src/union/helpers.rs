//! Threads that take a part of an operation's work on processors that have nothing else to do.
//!
//! There is one less than there are processors. Work is only taken by one that waits for it, and never queued: whoever
//! offers it goes on with it in any case. After some work a helper looks out for more for a while before it sleeps, since
//! to wake it takes as long as a good part of what it helps with.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

type Work = Box<dyn FnOnce() + Send>;

/// More would wait for the same locks below.
const HELPERS_MAX: u32 = 3;
/// For so long one looks out for more work.
const LOOKOUT: Duration = Duration::from_micros(200);

static HELPERS: Helpers = Helpers {
    offered: Mutex::new(None),
    has_offer: Condvar::new(),
    waiting: AtomicUsize::new(0),
    looking: AtomicUsize::new(0),
    offered_on: AtomicUsize::new(usize::MAX),
    started: OnceLock::new(),
};

struct Helpers {
    /// Work that nobody has taken yet.
    offered: Mutex<Option<Work>>,
    has_offer: Condvar,
    /// How many wait for work, and how many of these look out for it.
    waiting: AtomicUsize,
    looking: AtomicUsize,
    /// The processor of whoever offered last.
    offered_on: AtomicUsize,
    started: OnceLock<()>,
}

/// Whether a helper has nothing else to do.
pub(super) fn are_waiting() -> bool {
    HELPERS.started.get_or_init(start);
    HELPERS.waiting.load(Ordering::Relaxed) != 0
}

/// Has a helper do this, if one is waiting.
pub(super) fn offer(work: impl FnOnce() + Send + 'static) {
    HELPERS.offered_on.store(sched_getcpu(), Ordering::Relaxed);
    *HELPERS.lock() = Some(Box::new(work));
    if HELPERS.looking.load(Ordering::SeqCst) == 0 {
        HELPERS.has_offer.notify_one();
    }
}

fn start() {
    // The main thread may run wherever the program may; the one that asks may be kept on one processor.
    let Ok(processors) = sched_getaffinity(Some(getpid())) else { return };
    for _ in 1..processors.count().min(HELPERS_MAX + 1) {
        // With fewer there is less help.
        let _ = thread::Builder::new().name("helper".to_owned()).spawn(vnode::as_server(move || help(&processors)));
    }
}

fn help(processors: &CpuSet) {
    let _ = sched_setaffinity(None, processors);
    loop {
        HELPERS.waiting.fetch_add(1, Ordering::Relaxed);
        let work = HELPERS.look_out().unwrap_or_else(|| HELPERS.wait());
        HELPERS.waiting.fetch_sub(1, Ordering::Relaxed);
        leave(processors, HELPERS.offered_on.load(Ordering::Relaxed));
        // A fault in it is for whoever waits for the answer.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    }
}

/// Goes to another processor than whoever offers work, who goes on working there. The scheduler leaves both where they are.
fn leave(processors: &CpuSet, taken: usize) {
    if sched_getcpu() == taken {
        let mut others = *processors;
        others.unset(taken);
        let _ = sched_setaffinity(None, &others);
    }
}

impl Helpers {
    fn look_out(&self) -> Option<Work> {
        let begin = Instant::now();
        self.looking.fetch_add(1, Ordering::SeqCst);
        let mut work = None;
        while work.is_none() && begin.elapsed() < LOOKOUT {
            thread::yield_now();
            work = self.lock().take();
        }
        self.looking.fetch_sub(1, Ordering::SeqCst);
        work
    }

    fn wait(&self) -> Work {
        let mut offered = self.lock();
        loop {
            match offered.take() {
                Some(work) => return work,
                None => offered = self.has_offer.wait(offered).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Work>> {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
