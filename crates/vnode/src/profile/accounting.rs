//! Time accounting of a sampled request: which part of the stack works, and since when.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// A sampled request.
struct Watch {
    /// Time up to which its duration has been charged.
    given: Instant,
    /// Stack of the parts at work, each called by the one before: indices into `parts`.
    working: Vec<usize>,
    parts: Vec<(&'static str, Duration)>,
}

thread_local! {
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// Records that this part of the stack works on the thread's request, until the result is dropped.
#[inline]
pub(crate) fn enter(part: &'static str) -> Working {
    enter_with(|| part)
}

/// As [`enter`], for a part whose name has to be computed.
#[inline]
pub(crate) fn enter_with(part: impl FnOnce() -> &'static str) -> Working {
    let is_watched = IS_WATCHED.get();
    if is_watched {
        with(|watch| watch.push(part()));
    }
    Working { is_watched }
}

/// Guard that marks a part of the stack as working.
#[must_use]
pub(crate) struct Working {
    is_watched: bool,
}

impl Drop for Working {
    #[inline]
    fn drop(&mut self) {
        if self.is_watched {
            with(Watch::pop);
        }
    }
}

/// Serves a request, and returns the time that each part that worked on it took by itself. The first is the part named
/// here, including what it calls.
pub fn watch<T>(part: &'static str, serve: impl FnOnce() -> T) -> (T, Vec<(&'static str, Duration)>) {
    let started = Watch { given: Instant::now(), working: vec![0], parts: vec![(part, Duration::ZERO)] };
    WATCH.set(Some(started));
    IS_WATCHED.set(true);
    let outcome = serve();
    IS_WATCHED.set(false);
    let parts = WATCH.take().map(|mut watch| {
        watch.give();
        watch.parts
    });
    (outcome, parts.unwrap_or_default())
}

fn with(change: impl FnOnce(&mut Watch)) {
    WATCH.with_borrow_mut(|watch| watch.as_mut().map(change));
}

impl Watch {
    /// Charges the time since the last change to the part that works.
    fn give(&mut self) {
        let now = Instant::now();
        if let Some((_, time)) = self.working.last().and_then(|part| self.parts.get_mut(*part)) {
            *time += now - self.given;
        }
        self.given = now;
    }

    fn push(&mut self, part: &'static str) {
        self.give();
        let known = self.parts.iter().position(|(name, _)| *name == part);
        self.working.push(known.unwrap_or(self.parts.len()));
        if known.is_none() {
            self.parts.push((part, Duration::ZERO));
        }
    }

    fn pop(&mut self) {
        self.give();
        self.working.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(5);

    fn work() {
        std::thread::sleep(STEP);
    }

    #[test]
    fn each_part_has_what_it_took_by_itself() {
        let (answer, parts) = watch("front end", || {
            work();
            let _above = enter("above");
            work();
            for _ in 0..3 {
                let _below = enter("below");
                work();
            }
            7
        });
        assert_eq!(answer, 7);
        let names: Vec<_> = parts.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["front end", "above", "below"]);
        // A sleep may last longer than requested, never shorter.
        for ((name, time), least) in parts.iter().zip([STEP, STEP, STEP * 3]) {
            assert!(*time >= least && *time < least + STEP * 100, "{name}: {time:?}");
        }
    }

    #[test]
    fn requests_that_are_not_watched_leave_nothing() {
        drop(enter("somebody"));
        let (_, parts) = watch("front end", || ());
        assert_eq!(parts.len(), 1);
        drop(enter("somebody"));
        assert!(WATCH.take().is_none());
    }
}
