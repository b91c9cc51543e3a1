//! Keeps processors awake between the requests of a burst.
//!
//! Caller and worker take turns: each sleeps while the other works, and so do their processors. To wake a sleeping
//! processor can take longer than to serve a request, above all in a virtual machine, where the host must be asked. So
//! while one caller sends many requests in quick succession, keepers run that do nothing: at the lowest priority of all,
//! so that whatever else wants a processor gets it at once. Some time after the last request they rest. With several
//! callers they would be in the way: a processor with a keeper does not take work off others.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// One processor is the caller's, one the worker's.
const KEEPERS: usize = 2;
/// Turns of the waiting loop between two looks at the clock.
const TURNS: u32 = 32;

/// The keepers of one session.
pub(crate) struct Awake {
    keepers: Vec<Thread>,
    state: Arc<State>,
}

struct State {
    /// After the last request the processors are kept awake for so long.
    linger: Duration,
    started: Instant,
    /// Requests of all times.
    requests: AtomicU64,
    /// Nobody keeps the processors awake.
    resting: AtomicBool,
    /// When the last request came while resting, in ns since the start.
    last: AtomicU64,
    ended: AtomicBool,
}

impl Awake {
    /// Keepers that go on for `linger` after the last request; none if that is zero or there is one processor only.
    pub(crate) fn new(linger: Duration) -> Awake {
        let state = Arc::new(State {
            linger,
            started: Instant::now(),
            requests: AtomicU64::new(0),
            resting: AtomicBool::new(true),
            last: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        });
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let keepers = if linger.is_zero() || processors < 2 { 0 } else { KEEPERS };
        let keepers = (0..keepers).map_while(|_| {
            let state = Arc::clone(&state);
            let started = std::thread::Builder::new().name("fuse-awake".into()).spawn(move || keep(&state));
            started.inspect_err(|error| tracing::debug!(%error, "processors are not kept awake")).ok()
        });
        Awake { keepers: keepers.map(|keeper| keeper.thread().clone()).collect(), state }
    }

    /// A request has come; `alone` if its caller is the only one for some time.
    pub(crate) fn request(&self, alone: bool) {
        if self.keepers.is_empty() {
            return;
        }
        if !alone {
            if !self.state.resting.load(Ordering::Relaxed) {
                self.state.resting.store(true, Ordering::Relaxed);
            }
            return;
        }
        self.state.requests.fetch_add(1, Ordering::Relaxed);
        if self.state.resting.load(Ordering::Relaxed) && self.state.comes_quickly() {
            self.state.resting.store(false, Ordering::Relaxed);
            self.keepers.iter().for_each(Thread::unpark);
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        self.keepers.iter().for_each(Thread::unpark);
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
            // In this order, since others may run between the two for long.
            let now = Instant::now();
            let requests = self.requests.load(Ordering::Relaxed);
            if requests != seen.0 {
                seen = (requests, now);
            } else if now - seen.1 > self.linger {
                self.resting.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// The work of a keeper. Nothing that a worker could have to wait for, since a keeper may have to wait for all others.
fn keep(state: &State) {
    if let Err(error) = run_only_when_idle() {
        tracing::debug!(%error, "processors are not kept awake");
        return;
    }
    while !state.ended.load(Ordering::Relaxed) {
        if state.resting.load(Ordering::Relaxed) {
            std::thread::park();
        } else {
            state.stay_awake();
        }
    }
}

/// Gives the calling thread the policy SCHED_IDLE of sched(7).
fn run_only_when_idle() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads one `sched_param`, whose first field is all that it has, and keeps no pointer to it.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINGER: Duration = Duration::from_millis(100);

    fn burst(awake: &Awake) {
        (0..2).for_each(|_| awake.request(true));
    }

    fn resting(awake: &Awake) -> bool {
        awake.state.resting.load(Ordering::Relaxed)
    }

    #[test]
    fn a_burst_wakes_the_keepers_and_its_end_lets_them_rest() {
        let awake = Awake::new(LINGER);
        assert!(resting(&awake));
        burst(&awake);
        assert_eq!(resting(&awake), awake.keepers.is_empty());
        let deadline = Instant::now() + Duration::from_secs(60);
        while !resting(&awake) {
            assert!(Instant::now() < deadline, "keepers rest some time after the last request");
            std::thread::sleep(LINGER / 4);
        }
    }

    #[test]
    fn requests_now_and_then_wake_nobody() {
        let awake = Awake::new(Duration::from_nanos(1));
        for _ in 0..64 {
            awake.request(true);
            std::thread::sleep(Duration::from_micros(10));
        }
        assert!(resting(&awake));
    }

    #[test]
    fn others_let_the_keepers_rest() {
        let awake = Awake::new(Duration::from_secs(60));
        burst(&awake);
        awake.request(false);
        assert!(resting(&awake));
    }

    #[test]
    fn keepers_end_with_the_session() {
        for awaken in [false, true] {
            let awake = Awake::new(LINGER);
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
        let awake = Awake::new(Duration::ZERO);
        burst(&awake);
        assert!(resting(&awake) && awake.keepers.is_empty());
    }
}
