//! Idle prevention: keeps CPUs from going idle between the requests of a burst.
//!
//! Caller and workers take turns on one CPU, see [`super::affinity`]: each sleeps while the other runs. If another CPU were
//! idle meanwhile, the kernel would wake the caller there, and the next request would have to wake the CPU of the workers:
//! that can take longer than serving a request, above all in a virtual machine, where it requires a VM exit. So while one
//! caller sends many requests in quick succession, an idle-prevention thread spins on each of the other CPUs, at the lowest
//! nice level of SCHED_OTHER, so that everything else that wants the CPU gets it. (A CPU that runs a SCHED_IDLE thread still
//! counts as idle for the kernel.) The threads go to sleep some time after the last request. With several callers they would
//! be harmful: a CPU with an idle-prevention thread does not pull work from other CPUs.

use super::affinity::only;
use rustix::thread::{CpuSet, Pid, gettid, sched_setaffinity};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// The lowest priority of SCHED_OTHER, as a nice(1) value.
const NICE: i32 = 19;
/// Iterations of the spin loop between two reads of the clock.
const TURNS: u32 = 32;

/// The idle-prevention threads of one session.
pub(crate) struct Awake {
    keepers: Vec<Keeper>,
    state: Arc<State>,
}

struct Keeper {
    thread: Thread,
    /// Thread ID in the kernel, once the thread runs.
    number: Arc<OnceLock<Pid>>,
}

struct State {
    /// How long the CPUs are kept awake after the last request.
    linger: Duration,
    started: Instant,
    /// The CPUs on which idle-prevention threads may run.
    processors: CpuSet,
    /// The CPU on which the caller and the workers take turns.
    home: AtomicUsize,
    /// Number of requests since the start.
    requests: AtomicU64,
    /// Set while no CPU is kept awake.
    resting: AtomicBool,
    /// Time of the last request that came while resting, in ns since the start.
    last: AtomicU64,
    ended: AtomicBool,
}

impl Awake {
    /// Creates idle-prevention threads for all these CPUs but one, which keep spinning for `linger` after the last request;
    /// none if that is zero.
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

    /// Records a request; `home` is the CPU of the caller and the workers, if the caller has been the only one for some time.
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

    /// Returns whether other CPUs are being kept awake for a single caller.
    pub(crate) fn keeps(&self) -> bool {
        !self.keepers.is_empty() && !self.state.resting.load(Ordering::Relaxed)
    }

    /// Pins each idle-prevention thread to a CPU of its own other than `home`. The threads may not get to run for long, so
    /// they cannot do it themselves.
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
    /// Returns whether a request that arrives while no CPU is kept awake follows soon after the last one.
    fn comes_quickly(&self) -> bool {
        let now = self.started.elapsed().as_nanos() as u64;
        let last = self.last.swap(now, Ordering::Relaxed);
        last != 0 && now.saturating_sub(last) < self.linger.as_nanos() as u64
    }

    /// Spins until the burst is over.
    fn stay_awake(&self) {
        let mut seen = (self.requests.load(Ordering::Relaxed), Instant::now());
        while !self.resting.load(Ordering::Relaxed) && !self.ended.load(Ordering::Relaxed) {
            (0..TURNS).for_each(|_| std::hint::spin_loop());
            // A thread that has become runnable on this CPU gets it now, rather than at the end of the time slice.
            std::thread::yield_now();
            let requests = self.requests.load(Ordering::Relaxed);
            if requests != seen.0 {
                // The clock is read afterwards, since other threads may run for long between the two.
                seen = (requests, Instant::now());
            } else if seen.1.elapsed() > self.linger && requests == self.requests.load(Ordering::Relaxed) {
                self.resting.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Body of an idle-prevention thread. It does nothing that a worker could have to wait for, since it may itself have to wait
/// for all other threads.
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
