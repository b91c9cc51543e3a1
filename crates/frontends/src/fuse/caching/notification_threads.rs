//! Batches of notifications to the kernel, each of which may have to wait for a request that hangs: for a name, one during
//! which the kernel holds the directory's lock; for data, one that reads them. A notification that hangs occupies a thread,
//! and other threads send the rest.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Time without a completed notification after which another thread continues with the rest.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_millis(50);
/// Maximum number of threads per mount that hang at a time: beyond that, the existing ones continue with the rest, if they
/// ever do.
const THREADS_MAX: usize = 256;

/// The threads that send notifications.
#[derive(Clone, Default)]
pub(crate) struct NotificationThreads {
    threads: Arc<AtomicUsize>,
}

/// Sends the notification for one target. It has to keep alive everything that must live until then.
type Notify<T> = Arc<dyn Fn(&T) + Send + Sync>;

impl NotificationThreads {
    /// Sends the notifications for all targets from separate threads, and waits for those that do not hang; returns the
    /// targets that are complete.
    pub(crate) fn notify_each<T: Send + 'static>(&self, targets: Vec<T>, notify: &Notify<T>) -> Vec<T> {
        let count = targets.len();
        let remaining = Arc::new(Mutex::new(targets));
        let (sender, completed) = channel();
        let mut done = Vec::with_capacity(count);
        if count > 0 && !self.start(&remaining, notify, &sender) {
            // For lack of a thread, this one sends: it may hang.
            while let Some(target) = next(&remaining) {
                notify(&target);
                done.push(target);
            }
        }
        while done.len() < count {
            match completed.recv_timeout(STALL_TIMEOUT) {
                Ok(target) => done.push(target),
                Err(RecvTimeoutError::Timeout) if is_empty(&remaining) => break,
                Err(RecvTimeoutError::Timeout) if self.start(&remaining, notify, &sender) => {}
                Err(_) => break,
            }
        }
        done
    }

    /// Starts a thread that sends what is left; returns whether that was possible.
    fn start<T: Send + 'static>(
        &self,
        remaining: &Arc<Mutex<Vec<T>>>,
        notify: &Notify<T>,
        completed: &Sender<T>,
    ) -> bool {
        if self.threads.fetch_add(1, Ordering::Relaxed) >= THREADS_MAX {
            self.threads.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let (remaining, notify, completed, threads) =
            (Arc::clone(remaining), Arc::clone(notify), completed.clone(), Arc::clone(&self.threads));
        let work = move || {
            while let Some(target) = next(&remaining) {
                notify(&target);
                // Nobody waits any more for a notification that took long.
                let _ = completed.send(target);
            }
            threads.fetch_sub(1, Ordering::Relaxed);
        };
        let is_started = thread::Builder::new().name("fuse-tell".into()).spawn(work).is_ok();
        if !is_started {
            self.threads.fetch_sub(1, Ordering::Relaxed);
        }
        is_started
    }
}

fn next<T>(remaining: &Mutex<Vec<T>>) -> Option<T> {
    remaining.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

fn is_empty<T>(remaining: &Mutex<Vec<T>>) -> bool {
    remaining.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::Receiver;

    #[test]
    fn hung_notification_does_not_block_others() {
        let threads = NotificationThreads::default();
        let (unblock, blocked): (Sender<()>, Receiver<()>) = channel();
        let blocked = Mutex::new(blocked);
        let notify: Notify<u32> = Arc::new(move |target| {
            if target % 10 == 0 {
                let _ = blocked.lock().unwrap().recv();
            }
        });
        let mut completed = threads.notify_each((0..100).collect(), &notify);
        completed.sort_unstable();
        assert_eq!(completed, (0..100).filter(|target| target % 10 != 0).collect::<Vec<_>>());
        assert_eq!(threads.threads.load(Ordering::Relaxed), 10);
        drop(unblock);
        while threads.threads.load(Ordering::Relaxed) > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(threads.notify_each(Vec::new(), &notify).is_empty());
    }
}
