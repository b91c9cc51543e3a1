//! Parallel queries of several branches: if branches are slow, as over a network, an operation takes as long as the slowest of
//! them, not as all together; and if it has many to query, another CPU helps.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use vnode::{Cancellation, Errno, Result};

use super::helpers;
use crate::union::branch::latency::{QueryThread, QueryThreads};
use crate::union::state::instance::Instance;

/// Minimum number of instances, and (`MIN_HELPED_MICROS`) minimum time in microseconds that all together are expected
/// to take, for which a helper is woken.
const MIN_HELPED_INSTANCES: usize = 4;
const MIN_HELPED_MICROS: u32 = 50;
/// Number of polls for a result that another thread is fetching before the waiting thread sleeps.
const MAX_POLLS: usize = 64;

/// Results of queries that run in parallel: each is run by whoever takes it first, a thread of its own if it goes to a slow
/// branch, a helper, which starts from the last one, or the caller.
pub(crate) struct ParallelQueries<T>(Option<Arc<SharedQueries<T>>>);

/// Function that runs the query with a given number.
type QueryFn<T> = dyn Fn(usize) -> T + Send + Sync;

struct SharedQueries<T> {
    query: Box<QueryFn<T>>,
    /// Queries that have threads of their own.
    slow: Vec<bool>,
    states: Mutex<Vec<QueryState<T>>>,
    state_changed: Condvar,
}

enum QueryState<T> {
    /// Nobody is running it, and others than the caller may.
    Free,
    /// A thread of its own is about to run it.
    Started,
    /// It is left to the caller, is not needed, or has its result.
    Settled,
    /// Somebody is running it.
    Running,
    Done(T),
    /// The thread that ran it has ended without a result.
    Lost,
}

impl<T: Send + 'static> ParallelQueries<T> {
    /// Starts queries of the needed instances where that pays; the others are left to the caller.
    pub(crate) fn start(
        instances: &[Instance],
        is_needed: impl Fn(usize, &Instance) -> bool,
        query: impl Fn(usize, &Instance) -> T + Send + Sync + 'static,
    ) -> Self {
        Self::start_instances(instances, is_needed, query, true)
    }

    /// Like [`ParallelQueries::start`], for a query that is too short to wake a helper for: only slow branches are
    /// queried by others.
    pub(crate) fn start_slow(
        instances: &[Instance],
        is_needed: impl Fn(usize, &Instance) -> bool,
        query: impl Fn(usize, &Instance) -> T + Send + Sync + 'static,
    ) -> Self {
        let has_slow = instances.iter().filter(|instance| instance.member.latency.is_slow()).nth(1).is_some();
        if has_slow { Self::start_instances(instances, is_needed, query, false) } else { Self(None) }
    }

    fn start_instances(
        instances: &[Instance],
        is_needed: impl Fn(usize, &Instance) -> bool,
        query: impl Fn(usize, &Instance) -> T + Send + Sync + 'static,
        may_help: bool,
    ) -> Self {
        let needed: Vec<bool> =
            instances.iter().enumerate().map(|(index, instance)| is_needed(index, instance)).collect();
        let latency = |index: usize| &instances[index].member.latency;
        let indices = || (0..instances.len()).filter(|index| needed[*index]);
        let has_slow = indices().filter(|index| latency(*index).is_slow()).nth(1).is_some();
        let fast = indices().filter(|index| !latency(*index).is_slow());
        let (count, expected) = fast.fold((0, 0), |(count, sum), index| (count + 1, sum + latency(index).expected()));
        let has_many =
            may_help && count >= MIN_HELPED_INSTANCES && expected >= MIN_HELPED_MICROS && helpers::any_idle();
        if !has_slow && !has_many {
            return Self(None);
        }
        let has_own_thread = |index: &usize| has_slow && needed[*index] && latency(*index).is_slow();
        let own_threads =
            (0..instances.len()).map(|index| has_own_thread(&index).then(|| Arc::clone(&latency(index).threads)));
        let (own_threads, instances): (Vec<_>, _) = (own_threads.collect(), instances.to_vec());
        Self::start_queries(&needed, &own_threads, has_many, move |index| query(index, &instances[index]))
    }

    /// Has a helper run part of `count` queries, if there are at least `least`.
    pub(crate) fn start_many(count: usize, least: usize, query: impl Fn(usize) -> T + Send + Sync + 'static) -> Self {
        if count < least.max(2) || !helpers::any_idle() {
            return Self(None);
        }
        Self::start_queries(&vec![true; count], &vec![None; count], true, query)
    }

    fn start_queries(
        needed: &[bool],
        own_threads: &[Option<Arc<QueryThreads>>],
        has_many: bool,
        query: impl Fn(usize) -> T + Send + Sync + 'static,
    ) -> Self {
        let state = |needed| if needed { QueryState::Free } else { QueryState::Settled };
        let queries = Arc::new(SharedQueries {
            query: Box::new(query),
            slow: own_threads.iter().map(Option::is_some).collect(),
            states: Mutex::new(needed.iter().copied().map(state).collect()),
            state_changed: Condvar::new(),
        });
        for (index, threads) in own_threads.iter().enumerate() {
            if let Some(thread_guard) = threads.as_ref().and_then(QueryThread::new) {
                queries.spawn_query(index, thread_guard);
            }
        }
        if has_many {
            // A helper that starts too late finds nothing.
            let queries = Arc::downgrade(&queries);
            helpers::offer(move || {
                if let Some(queries) = queries.upgrade() {
                    queries.run_from_last();
                }
            });
        }
        Self(Some(queries))
    }

    /// The result with that number, once it is available, if somebody else has run the query; otherwise nobody else will from
    /// now on. The error is that of an operation that was cancelled before: the running query is then abandoned.
    pub(crate) fn take(&self, index: usize, cancellation: &Cancellation) -> Option<Result<T>> {
        self.0.as_ref()?.take(index, cancellation)
    }
}

impl<T> Drop for ParallelQueries<T> {
    fn drop(&mut self) {
        let Some(mut queries) = self.0.take() else { return };
        // A result that nobody is computing yet is no longer needed.
        for state in &mut *lock(&queries.states) {
            if matches!(state, QueryState::Free | QueryState::Started) {
                *state = QueryState::Settled;
            }
        }
        // A helper is about to leave, and must not hold a reference to the union after the operation.
        while !queries.slow.contains(&true) {
            match Arc::try_unwrap(queries) {
                Ok(_) => return,
                Err(shared) => queries = shared,
            }
            thread::yield_now();
        }
    }
}

impl<T: Send + 'static> SharedQueries<T> {
    fn spawn_query(self: &Arc<Self>, index: usize, thread_guard: QueryThread) {
        let queries = Arc::clone(self);
        let run = move || {
            queries.run_query(index);
            // In this order: once it has left, it holds no reference to the union.
            drop(queries);
            drop(thread_guard);
        };
        // If no thread can be started, the caller runs the query.
        if thread::Builder::new().name("branch".to_owned()).spawn(vnode::as_server(run)).is_ok()
            && let free @ QueryState::Free = &mut lock(&self.states)[index]
        {
            *free = QueryState::Started;
        }
    }

    fn run_from_last(&self) {
        for index in (0..self.slow.len()).rev().filter(|index| !self.slow[*index]) {
            self.run_query(index);
        }
    }

    /// Runs the query, unless that is settled.
    fn run_query(&self, index: usize) {
        match &mut lock(&self.states)[index] {
            waiting @ (QueryState::Free | QueryState::Started) => *waiting = QueryState::Running,
            _ => return,
        }
        let mut result = RunningQuery { queries: self, index, result: None };
        result.result = Some((self.query)(index));
    }

    fn take(&self, index: usize, cancellation: &Cancellation) -> Option<Result<T>> {
        let mut polls = 0;
        let mut states = lock(&self.states);
        loop {
            let state = &mut states[index];
            match std::mem::replace(state, QueryState::Settled) {
                // A branch that does not respond would block the caller itself.
                QueryState::Started if cancellation.may_come() => *state = QueryState::Started,
                QueryState::Free | QueryState::Started | QueryState::Settled => return None,
                QueryState::Done(result) => return Some(Ok(result)),
                QueryState::Lost => return Some(Err(Errno::EIO)),
                QueryState::Running => *state = QueryState::Running,
            }
            polls += 1;
            if polls < MAX_POLLS && !self.slow[index] {
                drop(states);
                (0..MAX_POLLS).for_each(|_| std::hint::spin_loop());
                states = lock(&self.states);
            } else {
                if let Err(error) = cancellation.check_again() {
                    return Some(Err(error));
                }
                states = cancellation.wait(&self.state_changed, states);
            }
        }
    }
}

/// A running query. When it is dropped, it has its result or is lost.
struct RunningQuery<'a, T> {
    queries: &'a SharedQueries<T>,
    index: usize,
    result: Option<T>,
}

impl<T> Drop for RunningQuery<'_, T> {
    fn drop(&mut self) {
        lock(&self.queries.states)[self.index] = self.result.take().map_or(QueryState::Lost, QueryState::Done);
        self.queries.state_changed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a possibly long operation on each, in parallel where threads can be started. Returns the error of the first that has
/// one.
pub(crate) fn for_each<T: Sync>(all: &[T], act: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    let Some((first, others)) = all.split_first() else { return Ok(()) };
    thread::scope(|scope| {
        let act = &act;
        let start =
            |one| thread::Builder::new().spawn_scoped(scope, vnode::as_server(move || act(one))).map_err(|_| one);
        let others: Vec<_> = others.iter().map(start).collect();
        let first = act(first);
        let result = |other| match other {
            Ok(other) => thread::ScopedJoinHandle::join(other).unwrap_or(Err(Errno::EIO)),
            Err(one) => act(one),
        };
        others.into_iter().map(result).fold(first, Result::and)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use super::*;

    /// Number of `count` queries that a helper has run; each is run once, by it or by the caller.
    fn helped(count: usize) -> usize {
        let asked = Arc::new((0..count).map(|_| AtomicUsize::new(0)).collect::<Vec<_>>());
        let counts = Arc::clone(&asked);
        let query = move |index: usize| {
            counts[index].fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_micros(200));
            index * 2
        };
        let answers = ParallelQueries::start_many(count, 2, query.clone());
        let mut helped = 0;
        for index in 0..count {
            let result = answers
                .take(index, &Cancellation::default())
                .inspect(|_| helped += 1)
                .unwrap_or_else(|| Ok(query(index)));
            assert_eq!(result, Ok(index * 2));
        }
        drop(answers);
        assert!(asked.iter().all(|count| count.load(Ordering::SeqCst) == 1));
        helped
    }

    #[test]
    fn helper_runs_some_queries() {
        let processors = thread::available_parallelism().unwrap().get();
        let begin = Instant::now();
        // It may be busy with another test, and has to be started first.
        while helped(16) == 0 && processors > 1 {
            assert!(begin.elapsed() < Duration::from_secs(60), "no helper helps");
        }
    }

    #[test]
    fn helper_has_finished_when_queries_are_dropped() {
        let held = Arc::new(());
        for _ in 0..200 {
            let kept = Arc::clone(&held);
            drop(ParallelQueries::start_many(8, 2, move |_| Arc::strong_count(&kept)));
            assert_eq!(Arc::strong_count(&held), 1);
        }
    }

    #[test]
    fn panicking_query_reports_an_error() {
        let begin = Instant::now();
        loop {
            let answers = ParallelQueries::start_many(2, 2, |index| if index == 1 { panic!("a fault") } else { index });
            thread::sleep(Duration::from_millis(5));
            match answers.take(1, &Cancellation::default()) {
                Some(result) => return assert_eq!(result, Err(Errno::EIO)),
                None if thread::available_parallelism().unwrap().get() == 1 => return,
                None => assert!(begin.elapsed() < Duration::from_secs(60), "no helper helps"),
            }
        }
    }
}
