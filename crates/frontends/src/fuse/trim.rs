//! Returning memory to the system: once the kernel has forgotten nodes, the allocator is asked to return their memory.
//!
//! An allocator keeps freed memory, in an arena per thread. Trimming takes milliseconds, during which other threads that
//! allocate may wait: so a thread of its own does that, when no more nodes are forgotten, or very many have been.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Number of forgotten nodes that makes trimming worthwhile once no more are forgotten.
const QUIET_TRIM_NODES: u64 = 1_000;
/// Number of forgotten nodes that makes trimming worthwhile at any time, unless more remain.
const BUSY_TRIM_NODES: u64 = 100_000;
/// Time without a forgotten node after which trimming is due.
const QUIET_PERIOD: Duration = Duration::from_secs(1);

/// Counts forgotten nodes. Its thread ends with it.
pub(crate) struct Trimmer {
    forgotten: Arc<AtomicU64>,
    thread: Sender<()>,
}

impl Trimmer {
    /// Starts the thread. If that fails, memory stays with the process.
    pub(crate) fn start() -> Trimmer {
        Trimmer::of(QUIET_PERIOD, trim)
    }

    fn of(quiet_period: Duration, trim: impl Fn() + Send + 'static) -> Trimmer {
        let (forgotten, (thread, woken)) = (Arc::new(AtomicU64::new(0)), channel());
        let counted = Arc::clone(&forgotten);
        let run = move || keep_trimmed(&counted, &woken, quiet_period, trim);
        if let Err(error) = std::thread::Builder::new().name("fuse-trim".into()).spawn(vnode::as_server(run)) {
            tracing::warn!(%error, "memory of what the kernel has forgotten stays with the server");
        }
        Trimmer { forgotten, thread }
    }

    /// Counts a forgotten node; `left` remain.
    pub(crate) fn count_forgotten(&self, left: u64) {
        let forgotten = self.forgotten.fetch_add(1, Ordering::Relaxed) + 1;
        if forgotten == QUIET_TRIM_NODES || (forgotten.is_multiple_of(BUSY_TRIM_NODES) && forgotten >= left) {
            // There may be no thread.
            let _ = self.thread.send(());
        }
    }
}

/// Trims each time after it is woken: when no more nodes are forgotten, or when it is woken once more.
fn keep_trimmed(forgotten: &AtomicU64, woken: &Receiver<()>, quiet_period: Duration, trim: impl Fn()) {
    while woken.recv().is_ok() {
        let mut before = 0;
        loop {
            let now = forgotten.load(Ordering::Relaxed);
            if now == before {
                break;
            }
            before = now;
            match woken.recv_timeout(quiet_period) {
                Ok(()) => break,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        forgotten.store(0, Ordering::Relaxed);
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

    fn trimmer(quiet_period: Duration) -> (Trimmer, Receiver<()>) {
        let (trimmed, is_trimmed) = channel();
        (Trimmer::of(quiet_period, move || trimmed.send(()).unwrap()), is_trimmed)
    }

    #[test]
    fn many_forgotten_nodes_are_trimmed_once_quiet() {
        let (trimmer, is_trimmed) = trimmer(Duration::from_millis(200));
        (1..QUIET_TRIM_NODES).for_each(|_| trimmer.count_forgotten(0));
        assert!(is_trimmed.recv_timeout(Duration::from_millis(600)).is_err(), "too few");
        for _ in 0..10 {
            trimmer.count_forgotten(0);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(is_trimmed.try_recv().is_err(), "more go");
        assert_eq!(is_trimmed.recv_timeout(Duration::from_secs(20)), Ok(()));
        (0..QUIET_TRIM_NODES).for_each(|_| trimmer.count_forgotten(0));
        assert_eq!(is_trimmed.recv_timeout(Duration::from_secs(20)), Ok(()), "again");
    }

    #[test]
    fn very_many_forgotten_nodes_are_trimmed_at_once() {
        let (trimmer, is_trimmed) = trimmer(Duration::from_secs(3600));
        (0..BUSY_TRIM_NODES).for_each(|_| trimmer.count_forgotten(BUSY_TRIM_NODES + 1));
        assert!(is_trimmed.recv_timeout(Duration::from_millis(100)).is_err(), "more remain");
        (0..BUSY_TRIM_NODES).for_each(|_| trimmer.count_forgotten(0));
        assert_eq!(is_trimmed.recv_timeout(Duration::from_secs(20)), Ok(()));
    }
}
