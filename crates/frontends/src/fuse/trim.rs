//! Returning memory to the system: once the kernel has forgotten nodes, the allocator is asked to return their memory.
//!
//! An allocator keeps freed memory, in an arena per thread. Trimming takes milliseconds, during which other threads that
//! allocate may wait: so a thread of its own does that, when no more nodes are forgotten, or very many have been.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Number of forgotten nodes that makes trimming worthwhile once no more are forgotten.
const NODES_AT_REST: u64 = 1_000;
/// Number of forgotten nodes that makes trimming worthwhile at any time, unless more remain.
const NODES_AT_WORK: u64 = 100_000;
/// Time without a forgotten node after which trimming is due.
const REST: Duration = Duration::from_secs(1);

/// Counts forgotten nodes. Its thread ends with it.
pub(crate) struct Trimmer {
    gone: Arc<AtomicU64>,
    thread: Sender<()>,
}

impl Trimmer {
    /// Starts the thread. If that fails, memory stays with the process.
    pub(crate) fn start() -> Trimmer {
        Trimmer::of(REST, trim)
    }

    fn of(rest: Duration, trim: impl Fn() + Send + 'static) -> Trimmer {
        let (gone, (thread, woken)) = (Arc::new(AtomicU64::new(0)), channel());
        let counted = Arc::clone(&gone);
        let run = move || keep_trimmed(&counted, &woken, rest, trim);
        if let Err(error) = std::thread::Builder::new().name("fuse-trim".into()).spawn(vnode::as_server(run)) {
            tracing::warn!(%error, "memory of what the kernel has forgotten stays with the server");
        }
        Trimmer { gone, thread }
    }

    /// Counts a forgotten node; `left` remain.
    pub(crate) fn node_went(&self, left: u64) {
        let gone = self.gone.fetch_add(1, Ordering::Relaxed) + 1;
        if gone == NODES_AT_REST || (gone.is_multiple_of(NODES_AT_WORK) && gone >= left) {
            // There may be no thread.
            let _ = self.thread.send(());
        }
    }
}

/// Trims each time after it is woken: when no more nodes are forgotten, or when it is woken once more.
fn keep_trimmed(gone: &AtomicU64, woken: &Receiver<()>, rest: Duration, trim: impl Fn()) {
    while woken.recv().is_ok() {
        let mut before = 0;
        loop {
            let now = gone.load(Ordering::Relaxed);
            if now == before {
                break;
            }
            before = now;
            match woken.recv_timeout(rest) {
                Ok(()) => break,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        gone.store(0, Ordering::Relaxed);
        trim();
    }
}

#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: the allocator may be asked at any time, from any thread; the argument is how many bytes to keep.
    unsafe { libc::malloc_trim(0) };
}

/// Does nothing: other allocators return memory on their own.
#[cfg(not(target_env = "gnu"))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

    fn trimmer(rest: Duration) -> (Trimmer, Receiver<()>) {
        let (trimmed, is_trimmed) = channel();
        (Trimmer::of(rest, move || trimmed.send(()).unwrap()), is_trimmed)
    }

    #[test]
    fn a_thousand_nodes_are_worth_it_when_no_more_go() {
        let (trimmer, is_trimmed) = trimmer(Duration::from_millis(200));
        (1..NODES_AT_REST).for_each(|_| trimmer.node_went(0));
        assert!(is_trimmed.recv_timeout(Duration::from_millis(600)).is_err(), "too few");
        for _ in 0..10 {
            trimmer.node_went(0);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(is_trimmed.try_recv().is_err(), "more go");
        assert_eq!(is_trimmed.recv_timeout(Duration::from_secs(20)), Ok(()));
        (0..NODES_AT_REST).for_each(|_| trimmer.node_went(0));
        assert_eq!(is_trimmed.recv_timeout(Duration::from_secs(20)), Ok(()), "again");
    }

    #[test]
    fn very_many_are_worth_it_at_once_unless_more_remain() {
        let (trimmer, is_trimmed) = trimmer(Duration::from_secs(3600));
        (0..NODES_AT_WORK).for_each(|_| trimmer.node_went(NODES_AT_WORK + 1));
        assert!(is_trimmed.recv_timeout(Duration::from_millis(100)).is_err(), "more remain");
        (0..NODES_AT_WORK).for_each(|_| trimmer.node_went(0));
        assert_eq!(is_trimmed.recv_timeout(Duration::from_secs(20)), Ok(()));
    }
}
