//! Stacks that are only described: they leave what they are on, and what they write to, as it is.

use std::cell::Cell;

thread_local! {
    static IS_ONLY_DESCRIBED: Cell<bool> = const { Cell::new(false) };
}

/// Creates stacks that are only to be described, on this thread: they leave branches, images, devices and files
/// unchanged, and available to their present users. Nothing may be changed through them.
pub fn only_described<T>(make: impl FnOnce() -> T) -> T {
    struct RestoreOnDrop(bool);
    impl Drop for RestoreOnDrop {
        fn drop(&mut self) {
            IS_ONLY_DESCRIBED.set(self.0);
        }
    }
    let _restore = RestoreOnDrop(IS_ONLY_DESCRIBED.replace(true));
    make()
}

/// Returns whether what is created on this thread is only to be described.
pub fn is_only_described() -> bool {
    IS_ONLY_DESCRIBED.get()
}
