//! Where the time of a request goes: each part of a stack says when it works, and some requests are watched.
//!
//! A base or a layer that implements [`Vnode`](crate::Vnode), [`OpenFile`](crate::OpenFile) or
//! [`OpenDirectory`](crate::OpenDirectory) itself calls [`enter`] first in each operation, with its kind; layers made with
//! [`Layer`](crate::layer::Layer) need not. What it calls below counts for those below. A part that has threads of its own work counts the
//! time that it waits for them.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// A request that is watched.
struct Watch {
    /// Until when its time has been given to somebody.
    given: Instant,
    /// Who works, and for whom: places in `parts`.
    working: Vec<usize>,
    parts: Vec<(&'static str, Duration)>,
}

thread_local! {
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// Says that this part of the stack works on the thread's request, until the result is dropped.
#[inline]
pub fn enter(part: &'static str) -> Working {
    enter_with(|| part)
}

/// The same, for a part whose name is not at hand.
#[inline]
pub(crate) fn enter_with(part: impl FnOnce() -> &'static str) -> Working {
    let is_watched = IS_WATCHED.get();
    if is_watched {
        with(|watch| watch.push(part()));
    }
    Working { is_watched }
}

/// A part of the stack that works.
#[must_use]
pub struct Working {
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

/// Has a request served, and tells how much of its time each part that worked on it took by itself. The first is the one that
/// is named here, and what it calls.
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
    /// Gives the time since the last change to the one who works.
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
        // A sleep may be longer than it was asked to be, never shorter.
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
