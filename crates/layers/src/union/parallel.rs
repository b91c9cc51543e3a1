//! Asking several branches at once: where branches are slow, as over a network, an operation takes as long as the slowest of
//! them, not as all together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Instant;

use vnode::{Errno, Result};

use super::node::Instance;

/// From so many microseconds for an answer on, a branch is slow: to have a thread ask it costs a tenth of that.
const SLOW: u32 = 500;
/// No more threads ask at a time.
const THREADS_MAX: usize = 64;

/// How many there are.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// How long a branch takes to answer.
#[derive(Default)]
pub(super) struct Pace {
    /// A moving average, in microseconds.
    average: AtomicU32,
}

impl Pace {
    /// Asks the branch, and notes how long that takes.
    pub(super) fn time<T>(&self, ask: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let answer = ask();
        let taken = u32::try_from(begin.elapsed().as_micros()).unwrap_or(u32::MAX);
        // Whatever others note meanwhile, it stays about right.
        let average = self.average.load(Ordering::Relaxed);
        let next =
            if taken > average { average + (taken - average).div_ceil(4) } else { average - (average - taken) / 4 };
        if next != average {
            self.average.store(next, Ordering::Relaxed);
        }
        answer
    }

    /// Whether it takes so long that to have a thread ask it costs little beside that.
    pub(super) fn is_slow(&self) -> bool {
        self.average.load(Ordering::Relaxed) >= SLOW
    }
}

/// Answers to the same question that several places have been asked at once. What nobody takes any more is dropped.
pub(super) struct Answers<T> {
    asked: Vec<Option<Receiver<T>>>,
}

impl<T: Send + 'static> Answers<T> {
    /// Asks those places from one on that are slow, if there are several; the others are left to the caller.
    pub(super) fn of_slow(
        places: &[Instance],
        from: usize,
        ask: impl Fn(usize, &Instance) -> T + Send + Sync + 'static,
    ) -> Self {
        let is_slow = |place: &Instance| place.member.pace.is_slow();
        if places[from..].iter().filter(|place| is_slow(place)).nth(1).is_none() {
            return Self { asked: Vec::new() };
        }
        let ask = Arc::new(ask);
        let start = |(index, place): (usize, &Instance)| {
            if index < from || !is_slow(place) {
                return None;
            }
            let (ask, place) = (Arc::clone(&ask), place.clone());
            start_thread(move || ask(index, &place))
        };
        Self { asked: places.iter().enumerate().map(start).collect() }
    }

    /// The answer of a place that was asked, once it has come.
    pub(super) fn take(&mut self, index: usize) -> Option<Result<T>> {
        let receiver = self.asked.get_mut(index)?.take()?;
        Some(receiver.recv().map_err(|_| Errno::EIO))
    }
}

/// Does something that may take long with each, all at once. The error is that of the first which has one.
pub(super) fn each<T: Sync>(all: &[T], act: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    let Some((first, others)) = all.split_first() else { return Ok(()) };
    thread::scope(|scope| {
        let others: Vec<_> = others.iter().map(|one| scope.spawn(|| act(one))).collect();
        let first = act(first);
        others.into_iter().map(|other| other.join().unwrap_or(Err(Errno::EIO))).fold(first, Result::and)
    })
}

/// `None` if there are too many threads already.
fn start_thread<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static) -> Option<Receiver<T>> {
    if THREADS.fetch_add(1, Ordering::Relaxed) >= THREADS_MAX {
        THREADS.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    let (sender, receiver) = sync_channel(1);
    let run = move || {
        let answer = ask();
        THREADS.fetch_sub(1, Ordering::Relaxed);
        // Perhaps nobody waits for it any more.
        let _ = sender.send(answer);
    };
    match thread::Builder::new().name("branch".to_owned()).spawn(run) {
        Ok(_) => Some(receiver),
        Err(_) => {
            THREADS.fetch_sub(1, Ordering::Relaxed);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
}
