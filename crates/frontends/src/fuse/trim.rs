//! Giving memory back: once the kernel has forgotten nodes, the allocator is asked to return what they took.
//!
//! An allocator keeps what was freed, in a part of its own for each thread. To ask for it takes milliseconds, in which others that
//! allocate may wait: so that is done by a thread of its own, when no more nodes go, or very many have gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Number of nodes that are worth it once no more go.
const NODES_AT_REST: u64 = 1_000;
/// Number of nodes that are worth it at any time, unless more remain.
const NODES_AT_WORK: u64 = 100_000;
/// After so long without a node that goes there is rest.
const REST: Duration = Duration::from_secs(1);

/// Counts nodes that go. Its thread ends with it.
pub(crate) struct Trimmer {
    gone: Arc<AtomicU64>,
    thread: Sender<()>,
}

impl Trimmer {
    /// Starts the thread. Where there can be none, memory stays with the process.
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

    /// A node went; `left` remain.
    pub(crate) fn node_went(&self, left: u64) {
        let gone = self.gone.fetch_add(1, Ordering::Relaxed) + 1;
        if gone == NODES_AT_REST || (gone.is_multiple_of(NODES_AT_WORK) && gone >= left) {
            // There may be no thread.
            let _ = self.thread.send(());
        }
    }
}

/// Trims after each time that it is woken: when nodes rest, or when it is woken once more.
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

/// Other allocators give memory back by themselves.
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
