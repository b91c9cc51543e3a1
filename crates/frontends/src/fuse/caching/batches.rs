//! Batches of notifications to the kernel, each of which may have to wait for a request that hangs: for a name, one during
//! which the kernel holds the directory's lock; for data, one that reads them. A notification that hangs occupies a thread,
//! and other threads send the rest.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Time without a completed notification after which another thread continues with the rest.
pub(crate) const SILENCE: Duration = Duration::from_millis(50);
/// Maximum number of threads per mount that hang at a time: beyond that, the existing ones continue with the rest, if they
/// ever do.
const THREADS_MAX: usize = 256;

/// The threads that send notifications.
#[derive(Clone, Default)]
pub(crate) struct Tellers {
    threads: Arc<AtomicUsize>,
}

/// Sends the notification for one part. It has to keep alive everything that must live until then.
type Tell<T> = Arc<dyn Fn(&T) + Send + Sync>;

impl Tellers {
    /// Sends the notifications for all parts from separate threads, and waits for those that do not hang; returns the parts
    /// that are complete.
    pub(crate) fn each<T: Send + 'static>(&self, parts: Vec<T>, tell: &Tell<T>) -> Vec<T> {
        let count = parts.len();
        let left = Arc::new(Mutex::new(parts));
        let (sender, told) = channel();
        let mut done = Vec::with_capacity(count);
        if count > 0 && !self.start(&left, tell, &sender) {
            // For lack of a thread, this one sends: it may hang.
            while let Some(part) = next(&left) {
                tell(&part);
                done.push(part);
            }
        }
        while done.len() < count {
            match told.recv_timeout(SILENCE) {
                Ok(part) => done.push(part),
                Err(RecvTimeoutError::Timeout) if is_empty(&left) => break,
                Err(RecvTimeoutError::Timeout) if self.start(&left, tell, &sender) => {}
                Err(_) => break,
            }
        }
        done
    }

    /// Starts a thread that sends what is left; returns whether that was possible.
    fn start<T: Send + 'static>(&self, left: &Arc<Mutex<Vec<T>>>, tell: &Tell<T>, told: &Sender<T>) -> bool {
        if self.threads.fetch_add(1, Ordering::Relaxed) >= THREADS_MAX {
            self.threads.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let (left, tell, told, threads) = (Arc::clone(left), Arc::clone(tell), told.clone(), Arc::clone(&self.threads));
        let work = move || {
            while let Some(part) = next(&left) {
                tell(&part);
                // Nobody waits any more for a notification that took long.
                let _ = told.send(part);
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

fn next<T>(left: &Mutex<Vec<T>>) -> Option<T> {
    left.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

fn is_empty<T>(left: &Mutex<Vec<T>>) -> bool {
    left.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::Receiver;

    #[test]
    fn what_hangs_keeps_nothing_else_from_being_told() {
        let tellers = Tellers::default();
        let (go_on, hang): (Sender<()>, Receiver<()>) = channel();
        let hang = Mutex::new(hang);
        let tell: Tell<u32> = Arc::new(move |part| {
            if part % 10 == 0 {
                let _ = hang.lock().unwrap().recv();
            }
        });
        let mut told = tellers.each((0..100).collect(), &tell);
        told.sort_unstable();
        assert_eq!(told, (0..100).filter(|part| part % 10 != 0).collect::<Vec<_>>());
        assert_eq!(tellers.threads.load(Ordering::Relaxed), 10);
        drop(go_on);
        while tellers.threads.load(Ordering::Relaxed) > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(tellers.each(Vec::new(), &tell).is_empty());
    }
}
