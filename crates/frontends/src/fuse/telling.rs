//! Telling the kernel of many things, each of which may have to wait for a request that hangs: of a name, for one that the kernel
//! holds the directory's lock for; of data, for one that reads them. What hangs keeps a thread, and the rest is told by others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// If for so long none has told its part, another thread goes on with the rest.
pub(crate) const SILENCE: Duration = Duration::from_millis(50);
/// No more threads of a mount hang at a time: then those that there are go on with the rest, if they ever do.
const THREADS_MAX: usize = 256;

/// The threads that tell.
#[derive(Clone, Default)]
pub(crate) struct Tellers {
    threads: Arc<AtomicUsize>,
}

/// One part is told. It has to keep whatever must live until then.
type Tell<T> = Arc<dyn Fn(&T) + Send + Sync>;

impl Tellers {
    /// Has all parts told by threads of their own, and waits for as many as do not hang: those.
    pub(crate) fn each<T: Send + 'static>(&self, parts: Vec<T>, tell: &Tell<T>) -> Vec<T> {
        let count = parts.len();
        let left = Arc::new(Mutex::new(parts));
        let (sender, told) = channel();
        let mut done = Vec::with_capacity(count);
        if count > 0 && !self.start(&left, tell, &sender) {
            // For want of a thread, this one: it may hang.
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

    /// Starts a thread that tells what is left: whether that could be.
    fn start<T: Send + 'static>(&self, left: &Arc<Mutex<Vec<T>>>, tell: &Tell<T>, told: &Sender<T>) -> bool {
        if self.threads.fetch_add(1, Ordering::Relaxed) >= THREADS_MAX {
            self.threads.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let (left, tell, told, threads) = (Arc::clone(left), Arc::clone(tell), told.clone(), Arc::clone(&self.threads));
        let work = move || {
            while let Some(part) = next(&left) {
                tell(&part);
                // Nobody waits any more for what took long.
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
