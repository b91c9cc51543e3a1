//! Keeps processors awake between the requests of a burst.
//!
//! Caller and workers take turns on one processor, see [`super::locality`]: each sleeps while the other works. If another
//! processor were idle meanwhile, the kernel would wake the caller there, and the next request would have to wake the one
//! that the workers are on: that can take longer than to serve a request, above all in a virtual machine, where the host must
//! be asked. So while one caller sends many requests in quick succession, a keeper runs on each of the other processors and
//! does nothing: at the lowest of the ordinary priorities, so that whatever else wants a processor gets it. (Of a processor
//! with a thread of the policy SCHED_IDLE the kernel thinks that it is idle.) Some time after the last request they rest.
//! With several callers they would be in the way: a processor with a keeper does not take work off others.

use super::locality::only;
use rustix::thread::{CpuSet, Pid, gettid, sched_setaffinity};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// The lowest of the ordinary priorities, as nice(1) has it.
const NICE: i32 = 19;
/// Turns of the waiting loop between two looks at the clock.
const TURNS: u32 = 32;

/// The keepers of one session.
pub(crate) struct Awake {
    keepers: Vec<Keeper>,
    state: Arc<State>,
}

struct Keeper {
    thread: Thread,
    /// Its number to the kernel, once it runs.
    number: Arc<OnceLock<Pid>>,
}

struct State {
    /// After the last request the processors are kept awake for so long.
    linger: Duration,
    started: Instant,
    /// Where keepers may run.
    processors: CpuSet,
    /// The one that the caller and the workers take turns on.
    home: AtomicUsize,
    /// Requests of all times.
    requests: AtomicU64,
    /// Nobody keeps the processors awake.
    resting: AtomicBool,
    /// When the last request came while resting, in ns since the start.
    last: AtomicU64,
    ended: AtomicBool,
}

impl Awake {
    /// Keepers of all these processors but one, which go on for `linger` after the last request; none if that is zero.
    pub(crate) fn new(linger: Duration, processors: Option<&CpuSet>) -> Awake {
        let processors = processors.copied().filter(|_| !linger.is_zero()).unwrap_or_default();
        let state = Arc::new(State {
            linger,
            processors,
            home: AtomicUsize::new(CpuSet::MAX_CPU),
            started: Instant::now(),
            requests: AtomicU64::new(0),
            resting: AtomicBool::new(true),
            last: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        });
        let keepers = (1..state.processors.count()).map_while(|_| {
            let (state, number) = (Arc::clone(&state), Arc::new(OnceLock::new()));
            let own = Arc::clone(&number);
            let keep = move || keep(&state, &own);
            let started = std::thread::Builder::new().name("fuse-awake".into()).spawn(keep);
            let started = started.inspect_err(|error| tracing::debug!(%error, "processors are not kept awake")).ok()?;
            Some(Keeper { thread: started.thread().clone(), number })
        });
        Awake { keepers: keepers.collect(), state }
    }

    /// A request has come; `home` is the processor of the caller and the workers, if the caller is the only one for some
    /// time.
    pub(crate) fn request(&self, home: Option<usize>) {
        if self.keepers.is_empty() {
            return;
        }
        let Some(home) = home else {
            if !self.state.resting.load(Ordering::Relaxed) {
                self.state.resting.store(true, Ordering::Relaxed);
            }
            return;
        };
        if self.state.home.load(Ordering::Relaxed) != home && self.state.home.swap(home, Ordering::Relaxed) != home {
            self.leave(home);
        }
        self.state.requests.fetch_add(1, Ordering::Relaxed);
        if self.state.resting.load(Ordering::Relaxed) && self.state.comes_quickly() {
            self.state.resting.store(false, Ordering::Relaxed);
            self.keepers.iter().for_each(|keeper| keeper.thread.unpark());
        }
    }

    /// Whether other processors are kept awake now, for a caller that is alone.
    pub(crate) fn keeps(&self) -> bool {
        !self.keepers.is_empty() && !self.state.resting.load(Ordering::Relaxed)
    }

    /// Puts each keeper on a processor of its own other than this one. They may not run for long, so it is done for them.
    fn leave(&self, home: usize) {
        let others = (0..CpuSet::MAX_CPU).filter(|other| self.state.processors.is_set(*other) && *other != home);
        for (keeper, processor) in self.keepers.iter().zip(others) {
            if let Some(number) = keeper.number.get() {
                let _ = sched_setaffinity(Some(*number), &only(processor));
            }
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        self.keepers.iter().for_each(|keeper| keeper.thread.unpark());
    }
}

impl State {
    /// Whether a request that comes while nobody keeps processors awake does so soon after the last.
    fn comes_quickly(&self) -> bool {
        let now = self.started.elapsed().as_nanos() as u64;
        let last = self.last.swap(now, Ordering::Relaxed);
        last != 0 && now.saturating_sub(last) < self.linger.as_nanos() as u64
    }

    /// Runs until the burst is over.
    fn stay_awake(&self) {
        let mut seen = (self.requests.load(Ordering::Relaxed), Instant::now());
        while !self.resting.load(Ordering::Relaxed) && !self.ended.load(Ordering::Relaxed) {
            (0..TURNS).for_each(|_| std::hint::spin_loop());
            // Whoever has come to want this processor gets it now, rather than when a turn of the scheduler is over.
            std::thread::yield_now();
            let requests = self.requests.load(Ordering::Relaxed);
            if requests != seen.0 {
                // Looked at afterwards, since others may run between the two for long.
                seen = (requests, Instant::now());
            } else if seen.1.elapsed() > self.linger && requests == self.requests.load(Ordering::Relaxed) {
                self.resting.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// The work of a keeper. Nothing that a worker could have to wait for, since a keeper may have to wait for all others.
fn keep(state: &State, number: &OnceLock<Pid>) {
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "processors are not kept awake");
        return;
    }
    let _ = number.set(gettid());
    while !state.ended.load(Ordering::Relaxed) {
        if state.resting.load(Ordering::Relaxed) {
            std::thread::park();
        } else {
            state.stay_awake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::sched_getaffinity;

    const LINGER: Duration = Duration::from_millis(100);

    fn new(linger: Duration) -> Awake {
        Awake::new(linger, Some(&sched_getaffinity(None).expect("own affinity")))
    }

    fn burst(awake: &Awake) {
        (0..2).for_each(|_| awake.request(Some(0)));
    }

    #[test]
    fn a_burst_wakes_the_keepers_and_its_end_lets_them_rest() {
        let awake = new(LINGER);
        assert!(!awake.keeps());
        burst(&awake);
        assert_eq!(awake.keeps(), !awake.keepers.is_empty());
        let deadline = Instant::now() + Duration::from_secs(60);
        while awake.keeps() {
            assert!(Instant::now() < deadline, "keepers rest some time after the last request");
            std::thread::sleep(LINGER / 4);
        }
    }

    #[test]
    fn requests_now_and_then_wake_nobody() {
        let awake = new(Duration::from_nanos(1));
        for _ in 0..64 {
            awake.request(Some(0));
            std::thread::sleep(Duration::from_micros(10));
        }
        assert!(!awake.keeps());
    }

    #[test]
    fn others_let_the_keepers_rest() {
        let awake = new(Duration::from_secs(60));
        burst(&awake);
        awake.request(None);
        assert!(!awake.keeps());
    }

    #[test]
    fn keepers_end_with_the_session() {
        for awaken in [false, true] {
            let awake = new(LINGER);
            if awaken {
                burst(&awake);
            }
            let state = Arc::downgrade(&awake.state);
            drop(awake);
            let deadline = Instant::now() + Duration::from_secs(60);
            while state.strong_count() > 0 {
                assert!(Instant::now() < deadline, "keepers end");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn no_time_no_keepers() {
        let awake = new(Duration::ZERO);
        burst(&awake);
        assert!(!awake.keeps() && awake.keepers.is_empty());
    }
}
