//! Cancellation: whether the requester of an operation still waits for it.
//!
//! A thread that serves requests has one [`CancellationSource`] for all of them, and each caller a [`Cancellation`] for
//! its own request only: creating one allocates nothing, and one retained after the request reports nothing as
//! cancelled.
//!
//! An operation is cancelled when its caller is being killed and so never sees the result. A signal that the caller
//! handles cancels nothing, since programs that use signals do not expect file reads, writes or lookups to fail because
//! of them. A front end learns of signals in general; this module looks up which ones they are.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{Errno, Result, process};

/// Interval at which a waiting thread checks for cancellation.
const LOOK_AFTER: Duration = Duration::from_millis(50);
/// Interval in milliseconds for checking whether a caller that has been sent a signal is being killed.
const SIGNALLED_INTERVAL: u64 = 10;
/// Interval in milliseconds for a caller without a known signal: a front end may be notified of the first one only, or
/// of none.
const UNSIGNALLED_INTERVAL: u64 = 1_000;
/// No request.
const NONE: u64 = 0;

/// Handle that reports whether an operation is cancelled. The default never is.
#[derive(Clone, Debug, Default)]
pub struct Cancellation {
    state: Option<Arc<State>>,
    request: u64,
    deadline: Option<Instant>,
    /// Makes each call fail, see [`Cancellation::of_helper`].
    is_of_helper: bool,
}

/// Cancels the requests that a thread serves, one after the other.
#[derive(Debug, Default)]
pub struct CancellationSource(Arc<State>);

/// State of the request that is being served. All fields but the first two name a request, so that nothing needs to be
/// reset when the next one begins.
#[derive(Debug, Default)]
struct State {
    /// Number of the request that is being served.
    request: AtomicU64,
    /// Thread that waits for it; 0 if unknown.
    thread: AtomicU32,
    /// Request whose caller was sent a signal.
    signalled: AtomicU64,
    /// Request that is cancelled.
    cancelled: AtomicU64,
    /// Request for which a call has failed because of cancellation.
    reported: AtomicU64,
    /// Request whose caller was looked up, or whose cancellation was queried for the first time, at the time in
    /// `looked_at`.
    looked_for: AtomicU64,
    /// Time in milliseconds, see [`now`].
    looked_at: AtomicU64,
}

impl CancellationSource {
    /// Returns a source that serves no request yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a request for which a thread of this machine waits, or an unknown one (0). Request numbers are unique and
    /// not 0. The request begun before has ended.
    pub fn begin(&self, request: u64, thread: u32) -> Cancellation {
        self.0.thread.store(thread, Ordering::Relaxed);
        // Sequentially consistent: a thread that begins a request and checks for early signals, and a thread that
        // records one of these and checks for the request, see each other.
        self.0.request.store(request, Ordering::SeqCst);
        Cancellation { state: Some(Arc::clone(&self.0)), request, deadline: None, is_of_helper: false }
    }

    /// Ends the request: nothing is cancelled any more.
    pub fn end(&self) {
        self.0.request.store(NONE, Ordering::Release);
    }

    /// Records that the caller of a request was sent a signal; the request is cancelled if that kills the caller, now
    /// or later. Returns whether it is the request being served.
    pub fn signal(&self, request: u64) -> bool {
        self.note(&self.0.signalled, request)
    }

    /// Cancels a request. Returns whether it is the request being served.
    pub fn cancel(&self, request: u64) -> bool {
        self.note(&self.0.cancelled, request)
    }

    fn note(&self, what: &AtomicU64, request: u64) -> bool {
        let is_served = self.0.request.load(Ordering::SeqCst) == request;
        if is_served {
            what.store(request, Ordering::Release);
        }
        is_served
    }
}

impl Cancellation {
    /// Returns this cancellation with a deadline, at which it takes effect too; the earlier of several deadlines
    /// counts.
    #[must_use]
    pub fn with_deadline(self, deadline: Instant) -> Self {
        let deadline = Some(self.deadline.map_or(deadline, |earlier| earlier.min(deadline)));
        match self.state {
            Some(_) => Self { deadline, ..self },
            // It is reported once, so there must be a state that records this.
            None => Self { deadline, ..CancellationSource::new().begin(1, 0) },
        }
    }

    /// Returns this cancellation for a helper thread that gathers information for the operation in parallel and has
    /// nothing to undo: each call fails, also after the operation has ended, since nobody waits for the result then.
    #[must_use]
    pub fn of_helper(&self) -> Self {
        Self { is_of_helper: true, ..self.clone() }
    }

    /// Returns the time at which the cancellation takes effect at the latest, if there is one.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns whether the operation can be cancelled at all.
    pub fn may_come(&self) -> bool {
        self.state.is_some()
    }

    /// Returns whether the operation is cancelled. Cheap enough to be called in each iteration of a loop.
    pub fn is_cancelled(&self) -> bool {
        self.reason().is_some()
    }

    /// As [`Cancellation::check`], but fails even if already reported: for waits on work that others do for the
    /// operation, to whom the cancellation may have been reported before. After that nothing is cancelled.
    ///
    /// # Errors
    /// As [`Cancellation::check`].
    pub fn check_again(&self) -> Result<()> {
        let reason = self.reason();
        // Records the cancellation as reported.
        let _ = self.check();
        reason.map_or(Ok(()), Err)
    }

    /// Fails once if the operation is cancelled. What follows undoes the operation, as after the failure of any other
    /// call: it is not cancelled again.
    ///
    /// # Errors
    /// `EINTR`, or `ETIMEDOUT` if the deadline has passed.
    pub fn check(&self) -> Result<()> {
        let (Some(reason), Some(state)) = (self.reason(), &self.state) else { return Ok(()) };
        let is_reported = !self.is_of_helper && state.reported.swap(self.request, Ordering::AcqRel) == self.request;
        if is_reported { Ok(()) } else { Err(reason) }
    }

    /// Sleeps for `time`.
    ///
    /// # Errors
    /// As [`Cancellation::check`]: the time has then not elapsed.
    pub fn sleep(&self, time: Duration) -> Result<()> {
        let end = Instant::now().checked_add(time);
        loop {
            self.check()?;
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(self.wait_limit().map_or(left, |limit| left.min(limit)));
        }
    }

    /// Waits as [`Condvar::wait`], but only briefly if a cancellation may occur: to be called in a loop that checks for
    /// it.
    pub fn wait<'a, T>(&self, condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        match self.wait_limit() {
            Some(limit) => condition.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner).0,
            None => condition.wait(guard).unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Returns the maximum time to wait until the next check.
    fn wait_limit(&self) -> Option<Duration> {
        let until_deadline = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // A deadline that has passed and was reported no longer limits the wait.
        let until_deadline = until_deadline.filter(|left| !left.is_zero());
        self.may_come().then(|| until_deadline.map_or(LOOK_AFTER, |left| left.min(LOOK_AFTER)))
    }

    fn reason(&self) -> Option<Errno> {
        let state = self.state.as_ref()?;
        if state.is_cancelled(self.request) || (self.is_of_helper && !state.is_served(self.request)) {
            return Some(Errno::EINTR);
        }
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline).then_some(Errno::ETIMEDOUT)
    }
}

impl State {
    fn is_cancelled(&self, request: u64) -> bool {
        if !self.is_served(request) {
            return false;
        }
        if self.cancelled.load(Ordering::Acquire) == request {
            return true;
        }
        let is_signalled = self.signalled.load(Ordering::Acquire) == request;
        let is_cancelled = self.is_due(request, is_signalled) && self.is_caller_dying(is_signalled);
        if is_cancelled {
            self.cancelled.store(request, Ordering::Release);
        }
        is_cancelled
    }

    fn is_served(&self, request: u64) -> bool {
        self.request.load(Ordering::Acquire) == request
    }

    /// Returns whether it is time to look up the caller.
    fn is_due(&self, request: u64, is_signalled: bool) -> bool {
        let (now, is_first) = (now(), self.looked_for.swap(request, Ordering::Relaxed) != request);
        let interval = if is_signalled { SIGNALLED_INTERVAL } else { UNSIGNALLED_INTERVAL };
        let is_due = match is_first {
            true => is_signalled,
            false => now.saturating_sub(self.looked_at.load(Ordering::Relaxed)) >= interval,
        };
        if is_first || is_due {
            self.looked_at.store(now, Ordering::Relaxed);
        }
        is_due
    }

    /// Returns whether the waiting thread is being killed, or is gone after it was sent a signal: a request without a
    /// known signal, such as read-ahead, need not have a waiting thread.
    fn is_caller_dying(&self, is_signalled: bool) -> bool {
        let thread = self.thread.load(Ordering::Relaxed);
        match process::fate(thread) {
            _ if thread == 0 => false,
            process::Fate::Alive => false,
            process::Fate::Dying => true,
            process::Fate::Gone => is_signalled,
        }
    }
}

/// Returns the milliseconds since an arbitrary start.
fn now() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::sync::Mutex;

    use super::*;

    const EXPECTED_MAX: Duration = Duration::from_secs(30);

    /// A process that sleeps, as the thread that waits for a request.
    fn sleeper(arguments: &[&str]) -> Child {
        let child = Command::new(arguments[0]).args(&arguments[1..]).spawn().unwrap();
        // Until the exec it has this process's signal dispositions.
        let is_executed = || std::fs::read(format!("/proc/{}/comm", child.id())).unwrap() == b"sleep\n";
        let end = Instant::now() + EXPECTED_MAX;
        while !is_executed() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        child
    }

    #[test]
    fn nothing_cancels_by_default() {
        let never = Cancellation::default();
        assert!(!never.may_come() && !never.is_cancelled());
        assert_eq!((never.check(), never.sleep(Duration::ZERO), never.deadline()), (Ok(()), Ok(()), None));
    }

    #[test]
    fn one_call_fails_and_what_undoes_the_rest_does_not() {
        let source = CancellationSource::new();
        let cancellation = source.begin(2, 0);
        assert_eq!(cancellation.check(), Ok(()));
        assert!(!source.cancel(4) && source.cancel(2));
        assert_eq!(cancellation.clone().check(), Err(Errno::EINTR));
        assert_eq!((cancellation.check(), cancellation.sleep(Duration::from_millis(1))), (Ok(()), Ok(())));
        assert!(cancellation.is_cancelled());
    }

    #[test]
    fn helpers_fail_at_each_call_and_when_the_operation_has_ended() {
        let source = CancellationSource::new();
        let cancellation = source.begin(2, 0);
        let of_helper = cancellation.of_helper();
        assert_eq!(of_helper.check(), Ok(()));
        source.cancel(2);
        assert_eq!([of_helper.check(), of_helper.check()], [Err(Errno::EINTR); 2]);
        assert_eq!(cancellation.check(), Err(Errno::EINTR), "the operation is told for itself");
        source.begin(4, 0);
        assert_eq!((of_helper.check(), cancellation.check()), (Err(Errno::EINTR), Ok(())));
        assert_eq!(Cancellation::default().of_helper().check(), Ok(()));
    }

    #[test]
    fn a_cancellation_is_about_one_request() {
        let source = CancellationSource::new();
        let first = source.begin(2, 0);
        source.cancel(2);
        source.end();
        assert!(!first.is_cancelled(), "it has ended");
        let second = source.begin(4, 0);
        assert!(!first.is_cancelled() && !second.is_cancelled());
        source.cancel(4);
        assert!(!first.is_cancelled() && second.is_cancelled());
    }

    #[test]
    fn a_wait_ends_when_it_is_cancelled() {
        let source = CancellationSource::new();
        let cancellation = source.begin(2, 0);
        let (mutex, condition) = (Mutex::new(()), Condvar::new());
        std::thread::scope(|scope| {
            let sleep = scope.spawn(|| cancellation.sleep(EXPECTED_MAX * 10));
            let wait = scope.spawn(|| {
                let mut guard = mutex.lock().unwrap();
                while !cancellation.is_cancelled() {
                    guard = cancellation.wait(&condition, guard);
                }
            });
            std::thread::sleep(Duration::from_millis(20));
            source.cancel(2);
            assert_eq!(sleep.join().unwrap(), Err(Errno::EINTR));
            wait.join().unwrap();
        });
    }

    #[test]
    fn a_deadline_passes_once() {
        let begin = Instant::now();
        let cancellation = Cancellation::default().with_deadline(begin + Duration::from_millis(30));
        let cancellation = cancellation.with_deadline(begin + EXPECTED_MAX * 10);
        assert_eq!(cancellation.sleep(EXPECTED_MAX * 10), Err(Errno::ETIMEDOUT));
        assert!(begin.elapsed() >= Duration::from_millis(30) && cancellation.is_cancelled());
        assert_eq!(cancellation.sleep(Duration::from_millis(1)), Ok(()));
    }

    /// Every signal that ends a process unconditionally, and none that it handles, ignores or blocks.
    #[test]
    fn only_a_signal_that_kills_cancels() {
        let stop = |process: &Child, signals: &[&str]| {
            // A stopped process receives no signals, like one that waits in the kernel.
            for signal in ["STOP"].iter().chain(signals) {
                let sent = Command::new("kill").args([format!("-{signal}"), process.id().to_string()]).status();
                assert!(sent.unwrap().success());
                let status = format!("/proc/{}/status", process.id());
                while !std::fs::read_to_string(&status).unwrap().contains("State:\tT") {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        };
        let ignoring = ["env", "--ignore-signal=QUIT,USR1", "sleep", "600"];
        let blocking = ["env", "--default-signal", "--block-signal=QUIT,USR1", "sleep", "600"];
        let plain = ["env", "--default-signal", "sleep", "600"];
        let cases: [(&[&str], &[&str], bool); 7] = [
            (&plain, &[], false),
            (&plain, &["QUIT"], true),
            (&plain, &["WINCH"], false),
            (&plain, &["TSTP"], false),
            (&ignoring, &["QUIT", "USR1"], false),
            (&blocking, &["QUIT", "USR1"], false),
            (&blocking, &["WINCH", "CHLD"], false),
        ];
        for (arguments, signals, kills) in cases {
            let mut process = sleeper(arguments);
            stop(&process, signals);
            let source = CancellationSource::new();
            let cancellation = source.begin(2, process.id());
            assert!(!cancellation.is_cancelled(), "no signal is known");
            source.signal(2);
            let is_cancelled = cancellation.sleep(Duration::from_millis(60)).is_err();
            process.kill().unwrap();
            process.wait().unwrap();
            assert_eq!(is_cancelled, kills, "{arguments:?} {signals:?}");
            assert_eq!(cancellation.sleep(Duration::from_millis(60)).is_err(), !kills, "it is gone");
        }
    }
}
