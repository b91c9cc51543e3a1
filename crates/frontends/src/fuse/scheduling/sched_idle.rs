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

use super::policy::{SchedulingPolicy, has_default_policy, read_progress, set_policy, sleep_count};
use rustix::thread::{Pid, gettid};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Interval between the guard's checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(4);
/// Number of checks after which the policy is taken again from a worker that has made no progress.
const CHECKS_BETWEEN_REVOCATIONS: u32 = 16;
/// How long the guard continues after the last reply under the policy, in milliseconds.
const LINGER_MS: u64 = 100;
/// Minimum request rate of a lane, in requests per second, that makes a guard worthwhile.
const REQUESTS_PER_SECOND_MIN: u64 = 100;
/// Values of `revoked`: the guard has taken nothing, or has taken the policy from a worker that slept.
const NOT_REVOKED: u64 = u64::MAX;
const REVOKED_WHILE_ASLEEP: u64 = u64::MAX - 1;
/// Initial and maximum back-off of a lane before it uses the policy again, in milliseconds.
const BACK_OFF_MS_MIN: u64 = 64;
const BACK_OFF_MS_MAX: u64 = 4096;

/// The state that the workers of a session share.
pub(crate) struct SchedIdleHandOff {
    shared: Arc<Shared>,
    guard: Thread,
}

struct Shared {
    started: Instant,
    workers: Mutex<Vec<Weak<WorkerState>>>,
    /// Time of the last reply under the policy, in ms since the start.
    last_ms: AtomicU64,
    /// Set while the guard checks the workers.
    is_guard_active: AtomicBool,
    ended: AtomicBool,
}

/// The request rate of a lane, and whether its workers may yield.
#[derive(Debug, Default)]
pub(crate) struct RequestRate {
    /// The second that is being counted.
    second: AtomicU64,
    /// Number of requests in that second, and in the one before.
    requests: AtomicU64,
    previous_requests: AtomicU64,
    /// End of the period in which workers do not yield, and its length, in ms.
    back_off_until_ms: AtomicU64,
    back_off_ms: AtomicU64,
}

/// A worker of a lane.
pub(crate) struct HandOffWorker<'a> {
    hand_off: &'a SchedIdleHandOff,
    request_rate: &'a RequestRate,
    state: Arc<WorkerState>,
}

struct WorkerState {
    thread: Pid,
    /// It is under the policy, or about to be. Only the worker itself changes this.
    is_sched_idle: AtomicBool,
    /// Incremented with every request.
    progress: AtomicU64,
    /// Set when the guard has taken the policy: [`REVOKED_WHILE_ASLEEP`], or, if the worker was runnable, how often it
    /// had slept by then.
    revoked: AtomicU64,
}

/// A worker's progress at the guard's last check.
struct ObservedProgress {
    thread: Pid,
    progress: u64,
    /// Number of earlier checks with this progress.
    checks: u32,
}

impl SchedIdleHandOff {
    /// Starts the guard; returns `None` where the hand-off [is not possible](is_possible), or no thread can be started.
    pub(crate) fn new() -> Option<SchedIdleHandOff> {
        if !is_possible() {
            return None;
        }
        let shared = Arc::new(Shared {
            started: Instant::now(),
            workers: Mutex::default(),
            last_ms: AtomicU64::new(0),
            is_guard_active: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let for_guard = Arc::clone(&shared);
        let guard = std::thread::Builder::new()
            .name("fuse-guard".into())
            .spawn(vnode::as_server(move || for_guard.guard()))
            .ok()?;
        Some(SchedIdleHandOff { shared, guard: guard.thread().clone() })
    }

    /// Adds the calling thread as a worker of a lane.
    pub(crate) fn join<'a>(&'a self, request_rate: &'a RequestRate) -> HandOffWorker<'a> {
        let state = Arc::new(WorkerState {
            thread: gettid(),
            is_sched_idle: AtomicBool::new(false),
            progress: AtomicU64::new(0),
            revoked: AtomicU64::new(NOT_REVOKED),
        });
        self.shared.lock_workers().push(Arc::downgrade(&state));
        HandOffWorker { hand_off: self, request_rate, state }
    }
}

/// Returns whether threads of this process may use the policy: not if they could not leave it again, or if somebody set
/// another one for the process, which would be lost.
pub(crate) fn is_possible() -> bool {
    static IS_POSSIBLE: OnceLock<bool> = OnceLock::new();
    let may = || {
        let own = gettid();
        has_default_policy()
            && set_policy(own, SchedulingPolicy::Idle).and_then(|()| set_policy(own, SchedulingPolicy::Other)).is_ok()
    };
    // In a thread of its own, since it may fail half-way.
    *IS_POSSIBLE
        .get_or_init(|| std::thread::Builder::new().spawn(may).is_ok_and(|thread| thread.join().unwrap_or(false)))
}

impl Drop for SchedIdleHandOff {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.guard.unpark();
    }
}

impl WorkerState {
    /// Takes the policy from a worker, which is notified afterwards: it may use it again only once it knows.
    fn revoke(&self, how: u64) {
        let _ = set_policy(self.thread, SchedulingPolicy::Other);
        self.revoked.store(how, Ordering::Relaxed);
    }
}

impl HandOffWorker<'_> {
    /// Records that a request was received. It is served under the ordinary policy, unless it `has_single_caller`.
    pub(crate) fn record_request(&self, has_single_caller: bool) {
        self.state.progress.fetch_add(1, Ordering::Relaxed);
        if self.is_sched_idle() && !has_single_caller {
            self.leave_sched_idle();
        }
    }

    /// Prepares for a reply that is about to be sent, for which the worker `may_yield`.
    pub(crate) fn prepare_reply(&self, may_yield: bool) {
        let (shared, state) = (&*self.hand_off.shared, &*self.state);
        let now_ms = shared.now_ms();
        let is_sched_idle = self.is_sched_idle();
        if !self.request_rate.may_yield(now_ms) || !may_yield {
            if is_sched_idle {
                self.leave_sched_idle();
            }
            return;
        }
        state.is_sched_idle.store(true, Ordering::SeqCst);
        shared.last_ms.store(now_ms, Ordering::SeqCst);
        // Before the change of policy: after it this thread may not run for some time.
        if !shared.is_guard_active.load(Ordering::SeqCst) && !shared.is_guard_active.swap(true, Ordering::SeqCst) {
            self.hand_off.guard.unpark();
        }
        if !is_sched_idle {
            let _ = set_policy(state.thread, SchedulingPolicy::Idle);
        }
    }

    /// Returns whether the worker is under the policy, and has not lost it to the guard.
    fn is_sched_idle(&self) -> bool {
        let state = &*self.state;
        if state.is_sched_idle.load(Ordering::Relaxed) && state.revoked.load(Ordering::Relaxed) != NOT_REVOKED {
            let revoked = state.revoked.swap(NOT_REVOKED, Ordering::Relaxed);
            self.leave_sched_idle();
            if revoked < REVOKED_WHILE_ASLEEP && sleep_count() == revoked {
                // It did not sleep after that, so a request was there and waited.
                self.request_rate.back_off(self.hand_off.shared.now_ms());
            }
        }
        state.is_sched_idle.load(Ordering::Relaxed)
    }

    /// Leaves the policy. The guard may have taken it already. If the change is refused here, the guard keeps trying.
    fn leave_sched_idle(&self) {
        if set_policy(self.state.thread, SchedulingPolicy::Other).is_ok() {
            self.state.is_sched_idle.store(false, Ordering::SeqCst);
        }
    }
}

impl RequestRate {
    /// Counts a request; returns whether its worker may yield.
    fn may_yield(&self, now_ms: u64) -> bool {
        let second = now_ms / 1000;
        let counted = self.second.load(Ordering::Relaxed);
        if counted != second && self.second.swap(second, Ordering::Relaxed) != second {
            let requests = self.requests.swap(0, Ordering::Relaxed);
            self.previous_requests.store(if counted + 1 == second { requests } else { 0 }, Ordering::Relaxed);
        }
        let requests = self.requests.fetch_add(1, Ordering::Relaxed);
        let many = requests.max(self.previous_requests.load(Ordering::Relaxed)) >= REQUESTS_PER_SECOND_MIN;
        many && now_ms >= self.back_off_until_ms.load(Ordering::Relaxed)
    }

    /// Starts a back-off after a request had to wait because others wanted the CPU.
    fn back_off(&self, now_ms: u64) {
        let (until_ms, last) =
            (self.back_off_until_ms.load(Ordering::Relaxed), self.back_off_ms.load(Ordering::Relaxed));
        let soon_again = now_ms < until_ms + last;
        let back_off_ms = if soon_again { (last * 2).clamp(BACK_OFF_MS_MIN, BACK_OFF_MS_MAX) } else { BACK_OFF_MS_MIN };
        self.back_off_ms.store(back_off_ms, Ordering::Relaxed);
        self.back_off_until_ms.store(now_ms + back_off_ms, Ordering::Relaxed);
    }
}

impl Shared {
    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn lock_workers(&self) -> MutexGuard<'_, Vec<Weak<WorkerState>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Body of the guard thread.
    fn guard(&self) {
        let mut observed = Vec::new();
        while !self.ended.load(Ordering::SeqCst) {
            if !self.is_guard_active.load(Ordering::SeqCst) {
                std::thread::park();
                continue;
            }
            std::thread::sleep(CHECK_INTERVAL);
            self.check(&mut observed);
            let last_ms = self.last_ms.load(Ordering::SeqCst);
            if self.now_ms() > last_ms + LINGER_MS {
                self.is_guard_active.store(false, Ordering::SeqCst);
                if self.last_ms.load(Ordering::SeqCst) != last_ms {
                    // A worker may have come that has not seen the change.
                    self.is_guard_active.store(true, Ordering::SeqCst);
                }
                // No worker stays under the policy without a guard.
                self.each_worker(|state| state.revoke(REVOKED_WHILE_ASLEEP));
            }
        }
    }

    /// Takes the policy from all workers that have made no progress since the last check.
    fn check(&self, observed: &mut Vec<ObservedProgress>) {
        let mut now = Vec::with_capacity(observed.len());
        self.each_worker(|state| {
            let (thread, progress) = (state.thread, state.progress.load(Ordering::Relaxed));
            let same = |earlier: &&ObservedProgress| earlier.thread == thread && earlier.progress == progress;
            let checks = observed.iter().find(same).map_or(0, |earlier| earlier.checks + 1);
            now.push(ObservedProgress { thread, progress, checks });
            // Repeated after a while: the worker may have been about to set the policy.
            if checks % CHECKS_BETWEEN_REVOCATIONS == 1 {
                let found = read_progress(state.thread).filter(|(_, wants_to_run)| *wants_to_run);
                state.revoke(found.map_or(REVOKED_WHILE_ASLEEP, |(slept, _)| slept));
            }
        });
        *observed = now;
    }

    /// Calls `call` with each worker that is under the policy, or about to be.
    fn each_worker(&self, mut call: impl FnMut(&WorkerState)) {
        self.lock_workers().retain(|worker| {
            let Some(state) = worker.upgrade() else { return false };
            if state.is_sched_idle.load(Ordering::SeqCst) {
                call(&state);
            }
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::scheduling::policy::tests::policy_number;

    /// Returns whether the next of many requests in this millisecond may yield.
    fn may_yield_after_many(request_rate: &RequestRate, now_ms: u64) -> bool {
        (0..REQUESTS_PER_SECOND_MIN).for_each(|_| {
            request_rate.may_yield(now_ms);
        });
        request_rate.may_yield(now_ms)
    }

    #[test]
    fn low_request_rate_starts_no_guard() {
        let request_rate = RequestRate::default();
        assert!((0..REQUESTS_PER_SECOND_MIN).all(|_| !request_rate.may_yield(999)));
        assert!(request_rate.may_yield(999));
        assert!(request_rate.may_yield(1_000), "the second before counts");
        assert!(!request_rate.may_yield(3_000), "what is longer ago does not");
        assert!(!request_rate.may_yield(4_000), "one request a second");
    }

    #[test]
    fn back_off_doubles_each_time() {
        let request_rate = RequestRate::default();
        let mut now_ms = 0;
        for expected in [64, 128, 256, 512, 1024, 2048, 4096, 4096] {
            request_rate.back_off(now_ms);
            assert!(!may_yield_after_many(&request_rate, now_ms + expected - 1), "{expected}");
            now_ms += expected;
            assert!(may_yield_after_many(&request_rate, now_ms), "{expected}");
        }
        now_ms += 2 * BACK_OFF_MS_MAX;
        request_rate.back_off(now_ms);
        assert!(may_yield_after_many(&request_rate, now_ms + BACK_OFF_MS_MIN), "once in a while is another matter");
    }

    #[test]
    fn stalled_worker_loses_the_policy() {
        after_many(|_, _, hand_off_worker| {
            hand_off_worker.record_request(false);
            assert_eq!(policy_number(), 0);
            hand_off_worker.prepare_reply(true);
            let deadline = Instant::now() + Duration::from_secs(60);
            while policy_number() != 0 {
                assert!(Instant::now() < deadline, "the guard does not come");
            }
            true
        });
    }

    /// Makes a worker serve many requests, and checks the effect. Repeats on a busy machine, where the guard may act before
    /// the policy is read.
    fn after_many(check: impl Fn(&SchedIdleHandOff, &RequestRate, &HandOffWorker<'_>) -> bool + Send + Sync) {
        let Some(hand_off) = SchedIdleHandOff::new() else { return };
        let deadline = Instant::now() + Duration::from_secs(60);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                loop {
                    let request_rate = RequestRate::default();
                    let hand_off_worker = hand_off.join(&request_rate);
                    (0..=REQUESTS_PER_SECOND_MIN).for_each(|_| hand_off_worker.prepare_reply(true));
                    let is_as_expected = policy_number() == 5 && check(&hand_off, &request_rate, &hand_off_worker);
                    hand_off_worker.leave_sched_idle();
                    if is_as_expected {
                        return;
                    }
                    assert!(Instant::now() < deadline, "never as expected");
                }
            });
        });
    }

    #[test]
    fn single_caller_is_served_under_the_policy() {
        after_many(|_, _, hand_off_worker| {
            hand_off_worker.record_request(true);
            let is_kept = policy_number() == 5;
            hand_off_worker.prepare_reply(false);
            assert_eq!(policy_number(), 0, "it does not yield now");
            is_kept
        });
    }

    #[test]
    fn revoked_policy_is_set_again() {
        after_many(|_, _, hand_off_worker| {
            hand_off_worker.state.revoke(REVOKED_WHILE_ASLEEP);
            hand_off_worker.record_request(true);
            assert_eq!(policy_number(), 0);
            hand_off_worker.prepare_reply(true);
            policy_number() == 5
        });
    }

    #[test]
    fn delayed_request_backs_off_the_lane() {
        after_many(|hand_off, request_rate, hand_off_worker| {
            hand_off_worker.record_request(true);
            let slept = sleep_count();
            hand_off_worker.state.revoke(slept);
            hand_off_worker.prepare_reply(true);
            let is_paused = !request_rate.may_yield(hand_off.shared.now_ms());
            // Reading may have slept.
            is_paused || sleep_count() != slept
        });
    }
}
