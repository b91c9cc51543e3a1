//! The sched_idle hand-off: per-CPU workers leave their CPU to the caller that gets a reply.
//!
//! A reply wakes its caller while the worker still runs on that CPU. So the kernel looks for an idle CPU, wakes it, and lets
//! the caller continue there, away from its cache and from the worker; its next request goes to that CPU, and its reply moves
//! it back. Waking a CPU can take many times as long as a request. But a CPU that runs a SCHED_IDLE thread counts as idle: the
//! caller stays, and continues at once. So workers are under that policy from just before a reply until they have the next
//! request; and as long as there is a single caller they stay under it, since changing it twice per request takes a quarter of
//! their time.
//!
//! Such a thread gets next to no CPU time beside others that compute. So a guard checks every few milliseconds for workers
//! that have made no progress, and takes the policy from them. If a request was waiting for that, the lane does without the
//! policy for a while, longer each time.

use super::policy::{Policy, is_ordinary, look_at, set_policy, times_slept};
use rustix::thread::{Pid, gettid};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Interval between the guard's checks.
const TICK: Duration = Duration::from_millis(4);
/// Number of checks after which the policy is taken again from a worker that has made no progress.
const LOOKS_BETWEEN: u32 = 16;
/// How long the guard continues after the last reply under the policy, in milliseconds.
const LINGER_MS: u64 = 100;
/// Minimum request rate of a lane, in requests per second, that makes a guard worthwhile.
const REQUESTS_PER_SECOND_MIN: u64 = 100;
/// Values of `taken`: the guard has taken nothing, or has taken the policy from a worker that slept.
const NOT_TAKEN: u64 = u64::MAX;
const AT_REST: u64 = u64::MAX - 1;
/// Initial and maximum back-off of a lane before it uses the policy again, in milliseconds.
const PAUSE_MS_MIN: u64 = 64;
const PAUSE_MS_MAX: u64 = 4096;

/// The state that the workers of a session share.
pub(crate) struct Yielding {
    shared: Arc<Shared>,
    guard: Thread,
}

struct Shared {
    started: Instant,
    workers: Mutex<Vec<Weak<State>>>,
    /// Time of the last reply under the policy, in ms since the start.
    last_ms: AtomicU64,
    /// Set while the guard checks the workers.
    watched: AtomicBool,
    ended: AtomicBool,
}

/// The request rate of a lane, and whether its workers may yield.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// The second that is being counted.
    second: AtomicU64,
    /// Number of requests in that second, and in the one before.
    requests: AtomicU64,
    before: AtomicU64,
    /// End of the period in which workers do not yield, and its length, in ms.
    paused_until_ms: AtomicU64,
    pause_ms: AtomicU64,
}

/// A worker of a lane.
pub(crate) struct Yielder<'a> {
    yielding: &'a Yielding,
    pace: &'a Pace,
    state: Arc<State>,
}

struct State {
    thread: Pid,
    /// It is under the policy, or about to be. Only the worker itself changes this.
    yields: AtomicBool,
    /// Incremented with every request.
    progress: AtomicU64,
    /// Set when the guard has taken the policy: [`AT_REST`], or, if the worker was runnable, how often it had slept by then.
    taken: AtomicU64,
}

/// A worker's progress at the guard's last check.
struct Seen {
    thread: Pid,
    progress: u64,
    /// Number of earlier checks with this progress.
    looks: u32,
}

impl Yielding {
    /// Starts the guard; returns `None` where the hand-off [is not possible](is_possible), or no thread can be started.
    pub(crate) fn new() -> Option<Yielding> {
        if !is_possible() {
            return None;
        }
        let shared = Arc::new(Shared {
            started: Instant::now(),
            workers: Mutex::default(),
            last_ms: AtomicU64::new(0),
            watched: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let for_guard = Arc::clone(&shared);
        let guard = std::thread::Builder::new()
            .name("fuse-guard".into())
            .spawn(vnode::as_server(move || for_guard.guard()))
            .ok()?;
        Some(Yielding { shared, guard: guard.thread().clone() })
    }

    /// Adds the calling thread as a worker of a lane.
    pub(crate) fn join<'a>(&'a self, pace: &'a Pace) -> Yielder<'a> {
        let state = Arc::new(State {
            thread: gettid(),
            yields: AtomicBool::new(false),
            progress: AtomicU64::new(0),
            taken: AtomicU64::new(NOT_TAKEN),
        });
        self.shared.lock_workers().push(Arc::downgrade(&state));
        Yielder { yielding: self, pace, state }
    }
}

/// Returns whether threads of this process may use the policy: not if they could not leave it again, or if somebody set
/// another one for the process, which would be lost.
pub(crate) fn is_possible() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    let may = || {
        let own = gettid();
        is_ordinary() && set_policy(own, Policy::Idle).and_then(|()| set_policy(own, Policy::Ordinary)).is_ok()
    };
    // In a thread of its own, since it may fail half-way.
    *FOUND.get_or_init(|| std::thread::Builder::new().spawn(may).is_ok_and(|thread| thread.join().unwrap_or(false)))
}

impl Drop for Yielding {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.guard.unpark();
    }
}

impl State {
    /// Takes the policy from a worker, which is notified afterwards: it may use it again only once it knows.
    fn take(&self, how: u64) {
        let _ = set_policy(self.thread, Policy::Ordinary);
        self.taken.store(how, Ordering::Relaxed);
    }
}

impl Yielder<'_> {
    /// Records that a request was received. It is served under the ordinary policy, unless its caller `is_alone`.
    pub(crate) fn received(&self, is_alone: bool) {
        self.state.progress.fetch_add(1, Ordering::Relaxed);
        if self.yields() && !is_alone {
            self.give_up();
        }
    }

    /// Prepares for a reply that is about to be sent, for which the worker `may_yield`.
    pub(crate) fn replies(&self, may_yield: bool) {
        let (shared, state) = (&*self.yielding.shared, &*self.state);
        let now_ms = shared.now_ms();
        let yields = self.yields();
        if !self.pace.may_yield(now_ms) || !may_yield {
            if yields {
                self.give_up();
            }
            return;
        }
        state.yields.store(true, Ordering::SeqCst);
        shared.last_ms.store(now_ms, Ordering::SeqCst);
        // Before the change of policy: after it this thread may not run for some time.
        if !shared.watched.load(Ordering::SeqCst) && !shared.watched.swap(true, Ordering::SeqCst) {
            self.yielding.guard.unpark();
        }
        if !yields {
            let _ = set_policy(state.thread, Policy::Idle);
        }
    }

    /// Returns whether the worker is under the policy, and has not lost it to the guard.
    fn yields(&self) -> bool {
        let state = &*self.state;
        if state.yields.load(Ordering::Relaxed) && state.taken.load(Ordering::Relaxed) != NOT_TAKEN {
            let taken = state.taken.swap(NOT_TAKEN, Ordering::Relaxed);
            self.give_up();
            if taken < AT_REST && times_slept() == taken {
                // It did not sleep after that, so a request was there and waited.
                self.pace.pause(self.yielding.shared.now_ms());
            }
        }
        state.yields.load(Ordering::Relaxed)
    }

    /// Leaves the policy. The guard may have taken it already. If the change is refused here, the guard keeps trying.
    fn give_up(&self) {
        if set_policy(self.state.thread, Policy::Ordinary).is_ok() {
            self.state.yields.store(false, Ordering::SeqCst);
        }
    }
}

impl Pace {
    /// Counts a request; returns whether its worker may yield.
    fn may_yield(&self, now_ms: u64) -> bool {
        let second = now_ms / 1000;
        let counted = self.second.load(Ordering::Relaxed);
        if counted != second && self.second.swap(second, Ordering::Relaxed) != second {
            let requests = self.requests.swap(0, Ordering::Relaxed);
            self.before.store(if counted + 1 == second { requests } else { 0 }, Ordering::Relaxed);
        }
        let requests = self.requests.fetch_add(1, Ordering::Relaxed);
        let many = requests.max(self.before.load(Ordering::Relaxed)) >= REQUESTS_PER_SECOND_MIN;
        many && now_ms >= self.paused_until_ms.load(Ordering::Relaxed)
    }

    /// Starts a back-off after a request had to wait because others wanted the CPU.
    fn pause(&self, now_ms: u64) {
        let (until_ms, last) = (self.paused_until_ms.load(Ordering::Relaxed), self.pause_ms.load(Ordering::Relaxed));
        let soon_again = now_ms < until_ms + last;
        let pause_ms = if soon_again { (last * 2).clamp(PAUSE_MS_MIN, PAUSE_MS_MAX) } else { PAUSE_MS_MIN };
        self.pause_ms.store(pause_ms, Ordering::Relaxed);
        self.paused_until_ms.store(now_ms + pause_ms, Ordering::Relaxed);
    }
}

impl Shared {
    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn lock_workers(&self) -> MutexGuard<'_, Vec<Weak<State>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Body of the guard thread.
    fn guard(&self) {
        let mut seen = Vec::new();
        while !self.ended.load(Ordering::SeqCst) {
            if !self.watched.load(Ordering::SeqCst) {
                std::thread::park();
                continue;
            }
            std::thread::sleep(TICK);
            self.look(&mut seen);
            let last_ms = self.last_ms.load(Ordering::SeqCst);
            if self.now_ms() > last_ms + LINGER_MS {
                self.watched.store(false, Ordering::SeqCst);
                if self.last_ms.load(Ordering::SeqCst) != last_ms {
                    // A worker may have come that has not seen the change.
                    self.watched.store(true, Ordering::SeqCst);
                }
                // No worker stays under the policy without a guard.
                self.each_worker(|state| state.take(AT_REST));
            }
        }
    }

    /// Takes the policy from all workers that have made no progress since the last check.
    fn look(&self, seen: &mut Vec<Seen>) {
        let mut now = Vec::with_capacity(seen.len());
        self.each_worker(|state| {
            let (thread, progress) = (state.thread, state.progress.load(Ordering::Relaxed));
            let same = |earlier: &&Seen| earlier.thread == thread && earlier.progress == progress;
            let looks = seen.iter().find(same).map_or(0, |earlier| earlier.looks + 1);
            now.push(Seen { thread, progress, looks });
            // Repeated after a while: the worker may have been about to set the policy.
            if looks % LOOKS_BETWEEN == 1 {
                let found = look_at(state.thread).filter(|(_, wants_to_run)| *wants_to_run);
                state.take(found.map_or(AT_REST, |(slept, _)| slept));
            }
        });
        *seen = now;
    }

    /// Calls `call` with each worker that is under the policy, or about to be.
    fn each_worker(&self, mut call: impl FnMut(&State)) {
        self.lock_workers().retain(|worker| {
            let Some(state) = worker.upgrade() else { return false };
            if state.yields.load(Ordering::SeqCst) {
                call(&state);
            }
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::scheduling::policy::tests::shown;

    /// Returns whether the next of many requests in this millisecond may yield.
    fn may_yield_after_many(pace: &Pace, now_ms: u64) -> bool {
        (0..REQUESTS_PER_SECOND_MIN).for_each(|_| {
            pace.may_yield(now_ms);
        });
        pace.may_yield(now_ms)
    }

    #[test]
    fn only_many_requests_are_worth_a_guard() {
        let pace = Pace::default();
        assert!((0..REQUESTS_PER_SECOND_MIN).all(|_| !pace.may_yield(999)));
        assert!(pace.may_yield(999));
        assert!(pace.may_yield(1_000), "the second before counts");
        assert!(!pace.may_yield(3_000), "what is longer ago does not");
        assert!(!pace.may_yield(4_000), "one request a second");
    }

    #[test]
    fn who_had_to_wait_pauses_longer_each_time() {
        let pace = Pace::default();
        let mut now_ms = 0;
        for expected in [64, 128, 256, 512, 1024, 2048, 4096, 4096] {
            pace.pause(now_ms);
            assert!(!may_yield_after_many(&pace, now_ms + expected - 1), "{expected}");
            now_ms += expected;
            assert!(may_yield_after_many(&pace, now_ms), "{expected}");
        }
        now_ms += 2 * PAUSE_MS_MAX;
        pace.pause(now_ms);
        assert!(may_yield_after_many(&pace, now_ms + PAUSE_MS_MIN), "once in a while is another matter");
    }

    #[test]
    fn a_worker_that_does_not_come_further_loses_the_policy() {
        after_many(|_, _, yielder| {
            yielder.received(false);
            assert_eq!(shown(), "0");
            yielder.replies(true);
            let deadline = Instant::now() + Duration::from_secs(60);
            while shown() != "0" {
                assert!(Instant::now() < deadline, "the guard does not come");
            }
            true
        });
    }

    /// Makes a worker serve many requests, and checks the effect. Repeats on a busy machine, where the guard may act before
    /// the policy is read.
    fn after_many(look: impl Fn(&Yielding, &Pace, &Yielder<'_>) -> bool + Send + Sync) {
        let Some(yielding) = Yielding::new() else { return };
        let deadline = Instant::now() + Duration::from_secs(60);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                loop {
                    let pace = Pace::default();
                    let yielder = yielding.join(&pace);
                    (0..=REQUESTS_PER_SECOND_MIN).for_each(|_| yielder.replies(true));
                    let is_as_expected = shown() == "5" && look(&yielding, &pace, &yielder);
                    yielder.give_up();
                    if is_as_expected {
                        return;
                    }
                    assert!(Instant::now() < deadline, "never as expected");
                }
            });
        });
    }

    #[test]
    fn a_caller_that_is_alone_is_served_under_the_policy() {
        after_many(|_, _, yielder| {
            yielder.received(true);
            let is_kept = shown() == "5";
            yielder.replies(false);
            assert_eq!(shown(), "0", "it does not yield now");
            is_kept
        });
    }

    #[test]
    fn a_worker_that_lost_the_policy_takes_it_on_again() {
        after_many(|_, _, yielder| {
            yielder.state.take(AT_REST);
            yielder.received(true);
            assert_eq!(shown(), "0");
            yielder.replies(true);
            shown() == "5"
        });
    }

    #[test]
    fn a_request_that_waited_while_it_was_served_pauses_the_lane() {
        after_many(|yielding, pace, yielder| {
            yielder.received(true);
            let slept = times_slept();
            yielder.state.take(slept);
            yielder.replies(true);
            let is_paused = !pace.may_yield(yielding.shared.now_ms());
            // Reading may have slept.
            is_paused || times_slept() != slept
        });
    }
}
