//! Progress of long-running work: counted by the code that does it, anywhere in a stack, and read by whoever waits.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of objects that a piece of work has processed so far. Clones share one count.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<AtomicU64>);

thread_local! {
    /// Progress of the work that this thread does.
    static CURRENT: RefCell<Option<Progress>> = const { RefCell::new(None) };
}

impl Progress {
    /// Returns the number of objects so far.
    pub fn objects(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs work whose objects [`object_done`] counts here, as far as this thread does it.
    pub fn of<T>(&self, work: impl FnOnce() -> T) -> T {
        let _before = Before(CURRENT.replace(Some(self.clone())));
        work()
    }
}

/// Progress that becomes current again when this is dropped.
struct Before(Option<Progress>);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Counts one more object of the work that this thread does, if anybody tracks its progress.
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
