//! The request that a thread handles: what is kept from one operation to the next until it ends.
//!
//! A layer turns one request into many operations on few objects below. What a base has found out for the first of them, it may
//! keep for the others.

use std::cell::{Cell, RefCell};

thread_local! {
    static IS_HANDLED: Cell<bool> = const { Cell::new(false) };
    /// What clears the values that were kept for the request.
    static ENDINGS: RefCell<Vec<fn()>> = const { RefCell::new(Vec::new()) };
}

/// Ends the request on the thread, also if its handler panics.
struct Handling;

impl Drop for Handling {
    fn drop(&mut self) {
        IS_HANDLED.set(false);
        ENDINGS.take().into_iter().for_each(|end| end());
    }
}

/// Handles a request. What was kept for it is gone when this returns, which is before its caller is answered. A request within
/// another is a part of that one.
pub fn handle<T>(handler: impl FnOnce() -> T) -> T {
    if IS_HANDLED.replace(true) {
        return handler();
    }
    let _handling = Handling;
    handler()
}

/// Has `end` called when the request that the thread handles ends. Returns false, and does nothing, if it handles none.
pub fn at_end(end: fn()) -> bool {
    let is_handled = IS_HANDLED.get();
    if is_handled {
        ENDINGS.with_borrow_mut(|endings| endings.push(end));
    }
    is_handled
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static ENDED: Cell<u32> = const { Cell::new(0) };
    }

    #[test]
    fn what_was_kept_ends_with_the_outermost_request() {
        let end = || ENDED.set(ENDED.get() + 1);
        assert!(!at_end(end), "no request is handled");
        handle(|| {
            assert!(at_end(end));
            handle(|| assert!(at_end(end)));
            assert_eq!(ENDED.get(), 0);
        });
        assert_eq!(ENDED.get(), 2);
        let panicked = std::panic::catch_unwind(|| {
            handle(|| {
                at_end(end);
                panic!("as a layer might");
            })
        });
        assert!(panicked.is_err());
        assert_eq!(ENDED.get(), 3);
        assert!(!at_end(end));
    }
}
