//! Latency of a branch, and the threads that query it when it is slow.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vnode::Latency;

/// Latency in microseconds from which a branch is slow: having a thread query it costs a tenth of that.
const SLOW_LATENCY_MICROS: u32 = 500;

/// Maximum number of threads that query slow branches at a time.
const MAX_QUERY_THREADS: usize = 64;

/// Number of these threads.
static QUERY_THREADS: AtomicUsize = AtomicUsize::new(0);

/// Latency of a branch.
#[derive(Default)]
pub(crate) struct BranchLatency {
    queries: Latency,
    pub(crate) threads: Arc<QueryThreads>,
}

/// Threads that are querying a branch. They may continue when their result is no longer needed.
#[derive(Default)]
pub(crate) struct QueryThreads {
    count: Mutex<usize>,
    thread_ended: Condvar,
}

/// One of these threads, also counted in [`QUERY_THREADS`], until it is dropped.
pub(crate) struct QueryThread(Arc<QueryThreads>);

impl BranchLatency {
    /// Runs a query of the branch, and records how long it takes.
    pub(crate) fn measure<T>(&self, query: impl FnOnce() -> T) -> T {
        self.queries.measure(query)
    }

    /// Waits until no thread is querying the branch, at most for the given time.
    pub(crate) fn wait_idle(&self, limit: Duration) {
        let count = lock(&self.threads.count);
        drop(self.threads.thread_ended.wait_timeout_while(count, limit, |count| *count > 0));
    }

    /// Expected latency, in microseconds.
    pub(crate) fn expected(&self) -> u32 {
        self.queries.micros()
    }

    /// Returns whether the latency is so high that having a thread run the query adds little.
    pub(crate) fn is_slow(&self) -> bool {
        self.expected() >= SLOW_LATENCY_MICROS
    }
}

impl QueryThread {
    /// `None` if there are too many already.
    pub(crate) fn new(threads: &Arc<QueryThreads>) -> Option<Self> {
        *lock(&threads.count) += 1;
        let thread_guard = Self(Arc::clone(threads));
        (QUERY_THREADS.fetch_add(1, Ordering::Relaxed) < MAX_QUERY_THREADS).then_some(thread_guard)
    }
}

impl Drop for QueryThread {
    fn drop(&mut self) {
        QUERY_THREADS.fetch_sub(1, Ordering::Relaxed);
        *lock(&self.0.count) -= 1;
        self.0.thread_ended.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn latency_follows_measurements() {
        let latency = BranchLatency::default();
        assert!(!latency.is_slow());
        (0..4).for_each(|_| latency.measure(|| thread::sleep(Duration::from_millis(2))));
        assert!(latency.is_slow());
        (0..100).for_each(|_| latency.measure(|| ()));
        assert!(!latency.is_slow());
    }

    #[test]
    fn wait_idle_waits_for_the_last_query_thread() {
        let (latency, thread_ended) = (BranchLatency::default(), Arc::new(AtomicUsize::new(0)));
        let (thread_guard, left) = (QueryThread::new(&latency.threads).unwrap(), Arc::clone(&thread_ended));
        latency.wait_idle(Duration::from_millis(1));
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            left.store(1, Ordering::SeqCst);
            drop(thread_guard);
        });
        latency.wait_idle(Duration::from_secs(60));
        assert_eq!(thread_ended.load(Ordering::SeqCst), 1);
    }
}
