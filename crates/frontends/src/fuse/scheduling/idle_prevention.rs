//! Idle prevention: keeps CPUs from going idle between the requests of a burst.
//!
//! Caller and workers take turns on one CPU, see [`super::affinity`]: each sleeps while the other runs. If another CPU were
//! idle meanwhile, the kernel would wake the caller there, and the next request would have to wake the CPU of the workers:
//! that can take longer than serving a request, above all in a virtual machine, where it requires a VM exit. So while one
//! caller sends many requests in quick succession, an idle-prevention thread spins on each of the other CPUs, at the lowest
//! nice level of SCHED_OTHER, so that everything else that wants the CPU gets it. (A CPU that runs a SCHED_IDLE thread still
//! counts as idle for the kernel.) The threads go to sleep some time after the last request. With several callers they would
//! be harmful: a CPU with an idle-prevention thread does not pull work from other CPUs.

use super::affinity::single_cpu;
use rustix::thread::{CpuSet, Pid, gettid, sched_setaffinity};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// The lowest priority of SCHED_OTHER, as a nice(1) value.
const NICE: i32 = 19;
/// Maximum time for which CPUs are kept awake for a request that is being served: it may wait for storage.
const MAX_SERVICE_TIME: Duration = Duration::from_millis(1);
/// Iterations of the spin loop between two reads of the clock.
const SPINS_PER_CHECK: u32 = 32;

/// The idle-prevention threads of one session.
pub(crate) struct IdlePrevention {
    threads: Vec<IdlePreventionThread>,
    state: Arc<State>,
}

struct IdlePreventionThread {
    thread: Thread,
    /// Thread ID in the kernel, once the thread runs.
    number: Arc<OnceLock<Pid>>,
}

struct State {
    /// How long the CPUs are kept awake after the last request has been served.
    linger: Duration,
    started: Instant,
    /// The CPUs on which idle-prevention threads may run.
    cpus: CpuSet,
    /// The CPU on which the caller and the workers take turns.
    caller_cpu: AtomicUsize,
    /// Number of requests begun and of requests served since the start.
    events: AtomicU64,
    /// Number of requests that are being served.
    in_service: AtomicUsize,
    /// Set while no CPU is kept awake.
    is_resting: AtomicBool,
    /// Time of the last event while resting, in ns since the start.
    last: AtomicU64,
    ended: AtomicBool,
}

impl IdlePrevention {
    /// Creates idle-prevention threads for all these CPUs but one, which keep spinning for `linger` after the last request
    /// has been served; none if that is zero.
    pub(crate) fn new(linger: Duration, cpus: Option<&CpuSet>) -> IdlePrevention {
        let cpus = cpus.copied().filter(|_| !linger.is_zero()).unwrap_or_default();
        let state = Arc::new(State {
            linger,
            cpus,
            caller_cpu: AtomicUsize::new(CpuSet::MAX_CPU),
            started: Instant::now(),
            events: AtomicU64::new(0),
            in_service: AtomicUsize::new(0),
            is_resting: AtomicBool::new(true),
            last: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        });
        let threads = (1..state.cpus.count()).map_while(|_| {
            let (state, number) = (Arc::clone(&state), Arc::new(OnceLock::new()));
            let own = Arc::clone(&number);
            let run_thread = move || run_thread(&state, &own);
            let started = std::thread::Builder::new().name("fuse-awake".into()).spawn(run_thread);
            let started = started.inspect_err(|error| tracing::debug!(%error, "processors are not kept awake")).ok()?;
            Some(IdlePreventionThread { thread: started.thread().clone(), number })
        });
        IdlePrevention { threads: threads.collect(), state }
    }

    /// Records a request; `caller_cpu` is the CPU of the caller and the workers, if the caller has been the only one
    /// for some time. Returns whether [`IdlePrevention::served`] is to be called once it has been served.
    pub(crate) fn request(&self, caller_cpu: Option<usize>) -> bool {
        if self.threads.is_empty() {
            return false;
        }
        let Some(caller_cpu) = caller_cpu else {
            if !self.state.is_resting.load(Ordering::Relaxed) {
                self.state.is_resting.store(true, Ordering::Relaxed);
            }
            return false;
        };
        if self.state.caller_cpu.load(Ordering::Relaxed) != caller_cpu
            && self.state.caller_cpu.swap(caller_cpu, Ordering::Relaxed) != caller_cpu
        {
            self.move_threads_off(caller_cpu);
        }
        self.state.in_service.fetch_add(1, Ordering::Relaxed);
        self.state.events.fetch_add(1, Ordering::Relaxed);
        if self.state.is_resting.load(Ordering::Relaxed) && self.state.is_in_burst() {
            self.state.is_resting.store(false, Ordering::Relaxed);
            self.threads.iter().for_each(|thread| thread.thread.unpark());
        }
        true
    }

    /// Records that a request has been served.
    pub(crate) fn served(&self) {
        self.state.in_service.fetch_sub(1, Ordering::Relaxed);
        self.state.events.fetch_add(1, Ordering::Relaxed);
        if self.state.is_resting.load(Ordering::Relaxed) {
            self.state.record_time();
        }
    }

    /// Returns whether other CPUs are being kept awake for a single caller.
    pub(crate) fn is_active(&self) -> bool {
        !self.threads.is_empty() && !self.state.is_resting.load(Ordering::Relaxed)
    }

    /// Pins each idle-prevention thread to a CPU of its own other than `caller_cpu`. The threads may not get to run for
    /// long, so they cannot do it themselves.
    fn move_threads_off(&self, caller_cpu: usize) {
        let others = (0..CpuSet::MAX_CPU).filter(|other| self.state.cpus.is_set(*other) && *other != caller_cpu);
        for (thread, cpu) in self.threads.iter().zip(others) {
            if let Some(number) = thread.number.get() {
                let _ = sched_setaffinity(Some(*number), &single_cpu(cpu));
            }
        }
    }
}

impl Drop for IdlePrevention {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        self.threads.iter().for_each(|thread| thread.thread.unpark());
    }
}

impl State {
    /// Returns whether a request that arrives while no CPU is kept awake follows soon after the last one.
    fn is_in_burst(&self) -> bool {
        let (last, now) = self.record_time();
        last != 0 && now.saturating_sub(last) < self.linger.as_nanos() as u64
    }

    /// Records the time of an event while resting; returns that of the last one, and this.
    fn record_time(&self) -> (u64, u64) {
        let now = self.started.elapsed().as_nanos() as u64;
        (self.last.swap(now, Ordering::Relaxed), now)
    }

    /// Spins until the burst is over.
    fn spin(&self) {
        let mut seen = (self.events.load(Ordering::Relaxed), Instant::now());
        while !self.is_resting.load(Ordering::Relaxed) && !self.ended.load(Ordering::Relaxed) {
            (0..SPINS_PER_CHECK).for_each(|_| std::hint::spin_loop());
            // A thread that has become runnable on this CPU gets it now, rather than at the end of the time slice.
            std::thread::yield_now();
            let events = self.events.load(Ordering::Relaxed);
            let is_serving = self.in_service.load(Ordering::Relaxed) != 0;
            let limit = if is_serving { MAX_SERVICE_TIME.max(self.linger) } else { self.linger };
            if events != seen.0 {
                // The clock is read afterwards, since other threads may run for long between the two.
                seen = (events, Instant::now());
            } else if seen.1.elapsed() > limit && events == self.events.load(Ordering::Relaxed) {
                self.is_resting.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Body of an idle-prevention thread. It does nothing that a worker could have to wait for, since it may itself have to wait
/// for all other threads.
fn run_thread(state: &State, number: &OnceLock<Pid>) {
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "processors are not kept awake");
        return;
    }
    let _ = number.set(gettid());
    while !state.ended.load(Ordering::Relaxed) {
        if state.is_resting.load(Ordering::Relaxed) {
            std::thread::park();
        } else {
            state.spin();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::sched_getaffinity;

    const LINGER: Duration = Duration::from_millis(100);

    fn new(linger: Duration) -> IdlePrevention {
        IdlePrevention::new(linger, Some(&sched_getaffinity(None).expect("own affinity")))
    }

    fn burst(idle_prevention: &IdlePrevention) {
        (0..2).for_each(|_| assert_eq!(idle_prevention.request(Some(0)), !idle_prevention.threads.is_empty()));
    }

    #[test]
    fn burst_wakes_the_threads_and_its_end_stops_them() {
        let idle_prevention = new(LINGER);
        assert!(!idle_prevention.is_active());
        burst(&idle_prevention);
        assert_eq!(idle_prevention.is_active(), !idle_prevention.threads.is_empty());
        let deadline = Instant::now() + Duration::from_secs(60);
        while idle_prevention.is_active() {
            assert!(Instant::now() < deadline, "keepers rest some time after the last request");
            std::thread::sleep(LINGER / 4);
        }
    }

    #[test]
    fn processors_stay_awake_while_a_request_is_served() {
        let idle_prevention = new(Duration::from_micros(300));
        if idle_prevention.threads.is_empty() {
            return;
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        // A machine that does not run the threads for that long says nothing.
        let stays_awake = || {
            burst(&idle_prevention);
            std::thread::sleep(MAX_SERVICE_TIME / 2);
            let is_active = idle_prevention.is_active();
            (0..2).for_each(|_| idle_prevention.served());
            is_active
        };
        while !stays_awake() {
            assert!(Instant::now() < deadline, "half of the maximum is longer than the time after a request");
            std::thread::sleep(LINGER);
        }
    }

    #[test]
    fn rare_requests_wake_no_thread() {
        let idle_prevention = new(Duration::from_nanos(1));
        for _ in 0..64 {
            if idle_prevention.request(Some(0)) {
                idle_prevention.served();
            }
            std::thread::sleep(Duration::from_micros(10));
        }
        assert!(!idle_prevention.is_active());
    }

    #[test]
    fn several_callers_stop_the_threads() {
        let idle_prevention = new(Duration::from_secs(60));
        burst(&idle_prevention);
        assert!(!idle_prevention.request(None));
        assert!(!idle_prevention.is_active());
    }

    #[test]
    fn threads_end_with_the_session() {
        for awaken in [false, true] {
            let idle_prevention = new(LINGER);
            if awaken {
                burst(&idle_prevention);
            }
            let state = Arc::downgrade(&idle_prevention.state);
            drop(idle_prevention);
            let deadline = Instant::now() + Duration::from_secs(60);
            while state.strong_count() > 0 {
                assert!(Instant::now() < deadline, "keepers end");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn zero_period_starts_no_threads() {
        let idle_prevention = new(Duration::ZERO);
        burst(&idle_prevention);
        assert!(!idle_prevention.is_active() && idle_prevention.threads.is_empty());
    }
}
