//! Parallel queries of several branches: if branches are slow, as over a network, an operation takes as long as the slowest of
//! them, not as all together; and if it has many to query, another CPU helps.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use vnode::{Cancellation, Errno, Result};

use crate::union::node::Instance;
use crate::union::operations::helpers;

/// Latency in microseconds from which a branch is slow: having a thread query it costs a tenth of that.
const SLOW: u32 = 500;
/// Minimum number of instances, and (`LONG`) minimum time in microseconds that all together are expected to take, for which a
/// helper is woken.
const MANY: usize = 4;
const LONG: u32 = 50;
/// Maximum number of threads that query slow branches at a time.
const THREADS_MAX: usize = 64;
/// Number of polls for a result that another thread is fetching before the waiting thread sleeps.
const LOOKS: usize = 64;

/// Number of these threads.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Latency of a branch.
#[derive(Default)]
pub(crate) struct Pace {
    /// Moving average, in microseconds.
    average: AtomicU32,
    askers: Arc<Askers>,
}

/// Threads that are querying a branch. They may continue when their result is no longer needed.
#[derive(Default)]
struct Askers {
    count: Mutex<usize>,
    has_left: Condvar,
}

/// One of these threads, also counted in [`THREADS`], until it is dropped.
struct Asker(Arc<Askers>);

impl Pace {
    /// Runs a query of the branch, and records how long it takes.
    pub(crate) fn time<T>(&self, ask: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let answer = ask();
        let taken = u32::try_from(begin.elapsed().as_micros()).unwrap_or(u32::MAX);
        // Approximately right even if other threads record values meanwhile.
        let average = self.expected();
        let next =
            if taken > average { average + (taken - average).div_ceil(4) } else { average - (average - taken) / 4 };
        if next != average {
            self.average.store(next, Ordering::Relaxed);
        }
        answer
    }

    /// Waits until no thread is querying the branch, at most for the given time.
    pub(crate) fn rest(&self, limit: Duration) {
        let count = lock(&self.askers.count);
        drop(self.askers.has_left.wait_timeout_while(count, limit, |count| *count > 0));
    }

    /// Expected latency, in microseconds.
    fn expected(&self) -> u32 {
        self.average.load(Ordering::Relaxed)
    }

    /// Returns whether the latency is so high that having a thread run the query adds little.
    pub(crate) fn is_slow(&self) -> bool {
        self.expected() >= SLOW
    }
}

impl Asker {
    /// `None` if there are too many already.
    fn new(askers: &Arc<Askers>) -> Option<Self> {
        *lock(&askers.count) += 1;
        let asker = Self(Arc::clone(askers));
        (THREADS.fetch_add(1, Ordering::Relaxed) < THREADS_MAX).then_some(asker)
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::Relaxed);
        *lock(&self.0.count) -= 1;
        self.0.has_left.notify_all();
    }
}

/// Results of queries that run in parallel: each is run by whoever takes it first, a thread of its own if it goes to a slow
/// branch, a helper, which starts from the last one, or the caller.
pub(crate) struct Answers<T>(Option<Arc<Asking<T>>>);

/// Function that runs the query with a given number.
type Ask<T> = dyn Fn(usize) -> T + Send + Sync;

struct Asking<T> {
    ask: Box<Ask<T>>,
    /// Queries that have threads of their own.
    slow: Vec<bool>,
    states: Mutex<Vec<State<T>>>,
    has_news: Condvar,
}

enum State<T> {
    /// Nobody is running it, and others than the caller may.
    Free,
    /// A thread of its own is about to run it.
    Started,
    /// It is left to the caller, is not needed, or has its result.
    Settled,
    /// Somebody is running it.
    Asked,
    Answered(T),
    /// The thread that ran it has ended without a result.
    Lost,
}

impl<T: Send + 'static> Answers<T> {
    /// Starts queries of the needed instances where that pays; the others are left to the caller.
    pub(crate) fn of(
        places: &[Instance],
        is_needed: impl Fn(usize, &Instance) -> bool,
        ask: impl Fn(usize, &Instance) -> T + Send + Sync + 'static,
    ) -> Self {
        Self::of_places(places, is_needed, ask, true)
    }

    /// Like [`Answers::of`], for a query that is too short to wake a helper for: only slow branches are queried by others.
    pub(crate) fn of_slow(
        places: &[Instance],
        is_needed: impl Fn(usize, &Instance) -> bool,
        ask: impl Fn(usize, &Instance) -> T + Send + Sync + 'static,
    ) -> Self {
        let has_slow = places.iter().filter(|place| place.member.pace.is_slow()).nth(1).is_some();
        if has_slow { Self::of_places(places, is_needed, ask, false) } else { Self(None) }
    }

    fn of_places(
        places: &[Instance],
        is_needed: impl Fn(usize, &Instance) -> bool,
        ask: impl Fn(usize, &Instance) -> T + Send + Sync + 'static,
        may_help: bool,
    ) -> Self {
        let needed: Vec<bool> = places.iter().enumerate().map(|(index, place)| is_needed(index, place)).collect();
        let pace = |index: usize| &places[index].member.pace;
        let indices = || (0..places.len()).filter(|index| needed[*index]);
        let has_slow = indices().filter(|index| pace(*index).is_slow()).nth(1).is_some();
        let at_hand = indices().filter(|index| !pace(*index).is_slow());
        let (count, expected) = at_hand.fold((0, 0), |(count, sum), index| (count + 1, sum + pace(index).expected()));
        let has_many = may_help && count >= MANY && expected >= LONG && helpers::are_waiting();
        if !has_slow && !has_many {
            return Self(None);
        }
        let is_asked_apart = |index: &usize| has_slow && needed[*index] && pace(*index).is_slow();
        let apart = (0..places.len()).map(|index| is_asked_apart(&index).then(|| Arc::clone(&pace(index).askers)));
        let (apart, places): (Vec<_>, _) = (apart.collect(), places.to_vec());
        Self::asked(&needed, &apart, has_many, move |index| ask(index, &places[index]))
    }

    /// Has a helper run part of `count` queries, if there are at least `least`.
    pub(crate) fn of_many(count: usize, least: usize, ask: impl Fn(usize) -> T + Send + Sync + 'static) -> Self {
        if count < least.max(2) || !helpers::are_waiting() {
            return Self(None);
        }
        Self::asked(&vec![true; count], &vec![None; count], true, ask)
    }

    fn asked(
        needed: &[bool],
        apart: &[Option<Arc<Askers>>],
        has_many: bool,
        ask: impl Fn(usize) -> T + Send + Sync + 'static,
    ) -> Self {
        let state = |needed| if needed { State::Free } else { State::Settled };
        let asking = Arc::new(Asking {
            ask: Box::new(ask),
            slow: apart.iter().map(Option::is_some).collect(),
            states: Mutex::new(needed.iter().copied().map(state).collect()),
            has_news: Condvar::new(),
        });
        for (index, askers) in apart.iter().enumerate() {
            if let Some(asker) = askers.as_ref().and_then(Asker::new) {
                asking.ask_by_thread(index, asker);
            }
        }
        if has_many {
            // A helper that starts too late finds nothing.
            let asking = Arc::downgrade(&asking);
            helpers::offer(move || {
                if let Some(asking) = asking.upgrade() {
                    asking.ask_from_last();
                }
            });
        }
        Self(Some(asking))
    }

    /// The result with that number, once it is available, if somebody else has run the query; otherwise nobody else will from
    /// now on. The error is that of an operation that was cancelled before: the running query is then abandoned.
    pub(crate) fn take(&self, index: usize, cancellation: &Cancellation) -> Option<Result<T>> {
        self.0.as_ref()?.take(index, cancellation)
    }
}

impl<T> Drop for Answers<T> {
    fn drop(&mut self) {
        let Some(mut asking) = self.0.take() else { return };
        // A result that nobody is computing yet is no longer needed.
        for state in &mut *lock(&asking.states) {
            if matches!(state, State::Free | State::Started) {
                *state = State::Settled;
            }
        }
        // A helper is about to leave, and must not hold a reference to the union after the operation.
        while !asking.slow.contains(&true) {
            match Arc::try_unwrap(asking) {
                Ok(_) => return,
                Err(shared) => asking = shared,
            }
            thread::yield_now();
        }
    }
}

impl<T: Send + 'static> Asking<T> {
    fn ask_by_thread(self: &Arc<Self>, index: usize, asker: Asker) {
        let asking = Arc::clone(self);
        let run = move || {
            asking.ask_now(index);
            // In this order: once it has left, it holds no reference to the union.
            drop(asking);
            drop(asker);
        };
        // If no thread can be started, the caller runs the query.
        if thread::Builder::new().name("branch".to_owned()).spawn(vnode::as_server(run)).is_ok()
            && let free @ State::Free = &mut lock(&self.states)[index]
        {
            *free = State::Started;
        }
    }

    fn ask_from_last(&self) {
        for index in (0..self.slow.len()).rev().filter(|index| !self.slow[*index]) {
            self.ask_now(index);
        }
    }

    /// Runs the query, unless that is settled.
    fn ask_now(&self, index: usize) {
        match &mut lock(&self.states)[index] {
            unasked @ (State::Free | State::Started) => *unasked = State::Asked,
            _ => return,
        }
        let mut answer = Unanswered { asking: self, index, answer: None };
        answer.answer = Some((self.ask)(index));
    }

    fn take(&self, index: usize, cancellation: &Cancellation) -> Option<Result<T>> {
        let mut looks = 0;
        let mut states = lock(&self.states);
        loop {
            let state = &mut states[index];
            match std::mem::replace(state, State::Settled) {
                // A branch that does not respond would block the caller itself.
                State::Started if cancellation.may_come() => *state = State::Started,
                State::Free | State::Started | State::Settled => return None,
                State::Answered(answer) => return Some(Ok(answer)),
                State::Lost => return Some(Err(Errno::EIO)),
                State::Asked => *state = State::Asked,
            }
            looks += 1;
            if looks < LOOKS && !self.slow[index] {
                drop(states);
                (0..LOOKS).for_each(|_| std::hint::spin_loop());
                states = lock(&self.states);
            } else {
                if let Err(error) = cancellation.check_again() {
                    return Some(Err(error));
                }
                states = cancellation.wait(&self.has_news, states);
            }
        }
    }
}

/// A running query. When it is dropped, it has its result or is lost.
struct Unanswered<'a, T> {
    asking: &'a Asking<T>,
    index: usize,
    answer: Option<T>,
}

impl<T> Drop for Unanswered<'_, T> {
    fn drop(&mut self) {
        lock(&self.asking.states)[self.index] = self.answer.take().map_or(State::Lost, State::Answered);
        self.asking.has_news.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a possibly long operation on each, in parallel where threads can be started. Returns the error of the first that has
/// one.
pub(crate) fn each<T: Sync>(all: &[T], act: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
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
    use super::*;

    #[test]
    fn a_pace_follows_what_it_sees() {
        let pace = Pace::default();
        assert!(!pace.is_slow());
        (0..4).for_each(|_| pace.time(|| thread::sleep(Duration::from_millis(2))));
        assert!(pace.is_slow());
        (0..100).for_each(|_| pace.time(|| ()));
        assert!(!pace.is_slow());
    }
    /// Number of `count` queries that a helper has run; each is run once, by it or by the caller.
    fn helped(count: usize) -> usize {
        let asked = Arc::new((0..count).map(|_| AtomicUsize::new(0)).collect::<Vec<_>>());
        let counts = Arc::clone(&asked);
        let ask = move |index: usize| {
            counts[index].fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_micros(200));
            index * 2
        };
        let answers = Answers::of_many(count, 2, ask.clone());
        let mut helped = 0;
        for index in 0..count {
            let answer = answers
                .take(index, &Cancellation::default())
                .inspect(|_| helped += 1)
                .unwrap_or_else(|| Ok(ask(index)));
            assert_eq!(answer, Ok(index * 2));
        }
        drop(answers);
        assert!(asked.iter().all(|count| count.load(Ordering::SeqCst) == 1));
        helped
    }

    #[test]
    fn who_waits_for_a_branch_has_the_last_asker_gone() {
        let (pace, has_left) = (Pace::default(), Arc::new(AtomicUsize::new(0)));
        let (asker, left) = (Asker::new(&pace.askers).unwrap(), Arc::clone(&has_left));
        pace.rest(Duration::from_millis(1));
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            left.store(1, Ordering::SeqCst);
            drop(asker);
        });
        pace.rest(Duration::from_secs(60));
        assert_eq!(has_left.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_helper_answers_a_part() {
        let processors = thread::available_parallelism().unwrap().get();
        let begin = Instant::now();
        // It may be busy with another test, and has to be started first.
        while helped(16) == 0 && processors > 1 {
            assert!(begin.elapsed() < Duration::from_secs(60), "no helper helps");
        }
    }

    #[test]
    fn a_helper_has_left_when_the_answers_are_dropped() {
        let held = Arc::new(());
        for _ in 0..200 {
            let kept = Arc::clone(&held);
            drop(Answers::of_many(8, 2, move |_| Arc::strong_count(&kept)));
            assert_eq!(Arc::strong_count(&held), 1);
        }
    }

    #[test]
    fn who_fails_to_answer_is_told_of() {
        let begin = Instant::now();
        loop {
            let answers = Answers::of_many(2, 2, |index| if index == 1 { panic!("a fault") } else { index });
            thread::sleep(Duration::from_millis(5));
            match answers.take(1, &Cancellation::default()) {
                Some(answer) => return assert_eq!(answer, Err(Errno::EIO)),
                None if thread::available_parallelism().unwrap().get() == 1 => return,
                None => assert!(begin.elapsed() < Duration::from_secs(60), "no helper helps"),
            }
        }
    }
}
