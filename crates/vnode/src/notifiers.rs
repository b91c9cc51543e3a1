//! The receivers of a file system's notifications: each front end that serves it, or each file system above it, has one.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::{Handle, Name, Notifier};

/// Receivers of notifications, all of which are told of each change. A receiver is one of them as long as whoever added
/// it refers to it.
#[derive(Default)]
pub struct Notifiers(Mutex<Vec<Weak<dyn Notifier>>>);

impl Notifiers {
    /// Adds a receiver, unless it is one already.
    pub fn add(&self, notifier: &Arc<dyn Notifier>) {
        let mut receivers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        receivers.retain(|receiver| {
            receiver.strong_count() > 0 && !std::ptr::addr_eq(receiver.as_ptr(), Arc::as_ptr(notifier))
        });
        receivers.push(Arc::downgrade(notifier));
    }

    /// Returns the present receivers. They are told without the lock: a receiver may take a while, or be the last
    /// reference to one that ends.
    fn present(&self) -> Vec<Arc<dyn Notifier>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
    }
}

impl Notifier for Notifiers {
    fn attributes_changed(&self, handle: &Handle) {
        self.present().iter().for_each(|receiver| receiver.attributes_changed(handle));
    }

    fn data_changed(&self, handle: &Handle, offset: u64, length: u64) {
        self.present().iter().for_each(|receiver| receiver.data_changed(handle, offset, length));
    }

    fn entry_changed(&self, directory: &Handle, name: Name<'_>) {
        self.present().iter().for_each(|receiver| receiver.entry_changed(directory, name));
    }

    fn everything_changed(&self) {
        self.present().iter().for_each(|receiver| receiver.everything_changed());
    }

    fn write_back(&self) -> bool {
        // All write back, also after one that could not.
        self.present().iter().filter(|receiver| !receiver.write_back()).count() == 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Receiver {
        told: AtomicUsize,
        fails: bool,
    }

    impl Notifier for Receiver {
        fn attributes_changed(&self, _: &Handle) {}
        fn data_changed(&self, _: &Handle, _: u64, _: u64) {}
        fn entry_changed(&self, _: &Handle, _: Name<'_>) {}

        fn everything_changed(&self) {
            self.told.fetch_add(1, Ordering::Relaxed);
        }

        fn write_back(&self) -> bool {
            self.told.fetch_add(10, Ordering::Relaxed);
            !self.fails
        }
    }

    #[test]
    fn each_receiver_is_told_until_it_ends() {
        let (notifiers, first, second) =
            (Notifiers::default(), Arc::new(Receiver::default()), Arc::new(Receiver::default()));
        for receiver in [&first, &second, &first] {
            notifiers.add(&(Arc::clone(receiver) as Arc<dyn Notifier>));
        }
        notifiers.everything_changed();
        let weak = Arc::downgrade(&second);
        drop(second);
        assert!(weak.upgrade().is_none(), "the list keeps no receiver");
        notifiers.everything_changed();
        assert_eq!(first.told.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn all_write_back_also_after_one_that_could_not() {
        let receivers = [true, false].map(|fails| Arc::new(Receiver { fails, ..Receiver::default() }));
        let notifiers = Notifiers::default();
        assert!(notifiers.write_back(), "there is nothing to write");
        receivers.iter().for_each(|receiver| notifiers.add(&(Arc::clone(receiver) as Arc<dyn Notifier>)));
        assert!(!notifiers.write_back());
        assert!(receivers.iter().all(|receiver| receiver.told.load(Ordering::Relaxed) == 10));
    }
}
