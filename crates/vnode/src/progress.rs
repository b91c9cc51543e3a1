//! How far long work is: counted by who does it, wherever in a stack that is, and read by who waits for it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of objects that a piece of work has dealt with so far. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<AtomicU64>);

thread_local! {
    /// That of the work which this thread does.
    static CURRENT: RefCell<Option<Progress>> = const { RefCell::new(None) };
}

impl Progress {
    /// The number of objects so far.
    pub fn objects(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Does work of which [`object_done`] counts the objects here, as far as this thread does it.
    pub fn of<T>(&self, work: impl FnOnce() -> T) -> T {
        let _before = Before(CURRENT.replace(Some(self.clone())));
        work()
    }
}

/// Whose work is gone on with when this is dropped.
struct Before(Option<Progress>);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Counts one more object of the work that this thread does, if anybody waits for that.
pub fn object_done() {
    CURRENT.with_borrow(|current| {
        if let Some(Progress(objects)) = current {
            objects.fetch_add(1, Ordering::Relaxed);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_count_for_the_work_that_they_are_of() {
        let (outer, inner) = (Progress::default(), Progress::default());
        object_done();
        outer.of(|| {
            object_done();
            inner.of(object_done);
            object_done();
            std::thread::scope(|scope| drop(scope.spawn(object_done)));
        });
        object_done();
        assert_eq!((outer.objects(), inner.objects()), (2, 1));
    }

    #[test]
    fn work_that_panics_counts_no_more() {
        let progress = Progress::default();
        let counted = progress.clone();
        let panics = move || -> () { counted.of(|| panic!("a fault")) };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        object_done();
        assert_eq!(progress.objects(), 0);
    }
}
