//! CPU affinity: keeps the workers on the caller's CPU while there is a single caller.
//!
//! Caller and worker take turns, one request at a time. By default, the kernel wakes each on a CPU where the other is not, and
//! a request costs two cross-CPU wake-ups; on the same CPU it costs less than half. So all workers follow a caller that sends
//! many requests in a row. As soon as another caller sends one, or a large message is transferred, the workers may run
//! anywhere again: parallel work needs all CPUs more than it needs short wake-ups.
//!
//! With a worker on its CPU, a caller would be woken on another, idle CPU, and be gone when the workers arrive. So the other
//! CPUs are first kept from going idle, see [`super::idle_prevention`], and the workers then follow a caller that stays on its CPU.
//! Per-CPU workers, which io_uring has, need not follow: they run where their callers run, and their CPU is that of the
//! caller. The other workers then serve requests for which nobody waits, and are kept off the caller's CPU.

use procfs::Process;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Number of consecutive requests of one caller after which it counts as the single caller. A compiler that searches for its
/// headers sends hundreds while others compute.
const SINGLE_CALLER_REQUESTS: u32 = 256;

/// Number of further requests between two checks of the caller's CPU.
const REQUESTS_BETWEEN_CHECKS: u32 = 32;

/// Number of further requests between two checks while the workers do not run there yet.
const REQUESTS_BETWEEN_CHECKS_UNSETTLED: u32 = 8;

/// Size in bytes from which copying a message takes longer than moving it to another CPU.
const LARGE_MESSAGE_BYTES: usize = 64 << 10;

const NO_CPU: usize = usize::MAX;

/// The CPUs on which the workers of one session run.
pub(crate) struct CpuAffinity {
    /// The CPUs on which they may run; `None` if there is no choice.
    allowed: Option<CpuSet>,
    /// The thread that sent the last request with a caller.
    caller: AtomicU32,
    /// Number of consecutive requests of this caller since the last one of another.
    consecutive: AtomicU32,
    /// The CPU on which the caller was last seen.
    caller_cpu: AtomicUsize,
    /// The CPU on which, or off which, the workers are kept.
    worker_cpu: AtomicUsize,
    workers: Mutex<WorkerThreads>,
    locator: CallerLocator,
}

#[derive(Default)]
struct WorkerThreads {
    threads: Vec<Pid>,
    /// The CPUs to which they are pinned, if they may not run anywhere.
    pinned_to: Option<CpuSet>,
}

impl CpuAffinity {
    /// Lets the workers run wherever the calling thread may.
    pub(crate) fn new() -> CpuAffinity {
        let allowed = sched_getaffinity(None).ok().filter(|set| set.count() >= 2);
        CpuAffinity { allowed, ..CpuAffinity::disabled() }
    }

    /// Disables affinity: the workers follow no caller.
    pub(crate) fn disabled() -> CpuAffinity {
        CpuAffinity {
            allowed: None,
            caller: AtomicU32::new(0),
            consecutive: AtomicU32::new(0),
            caller_cpu: AtomicUsize::new(NO_CPU),
            worker_cpu: AtomicUsize::new(NO_CPU),
            workers: Mutex::default(),
            locator: CallerLocator::default(),
        }
    }

    /// Adds the calling thread to the workers until the result is dropped.
    pub(crate) fn join(&self) -> PinnedWorker<'_> {
        let thread = gettid();
        let mut workers = self.lock_workers();
        workers.threads.push(thread);
        if let Some(set) = &workers.pinned_to {
            pin(&[thread], set);
        }
        drop(workers);
        PinnedWorker { affinity: self, thread }
    }

    /// Returns the CPUs on which the workers may run, if some of them can be kept free for a single caller.
    pub(crate) fn allowed(&self) -> Option<&CpuSet> {
        self.allowed.as_ref()
    }

    /// Records a request. `caller` is its thread, or 0 for requests for which nobody waits; `cpu` is the CPU on which
    /// the caller runs, if the request reports it. Returns the caller's CPU, if it has been the only one for some time.
    pub(crate) fn request(&self, caller: u32, message_bytes: usize, cpu: Option<u16>) -> Option<usize> {
        let allowed = self.allowed.as_ref()?;
        if message_bytes > LARGE_MESSAGE_BYTES {
            self.unpin_workers(allowed);
        } else if caller == 0 {
            // Sent asynchronously while its sender continues: says nothing about other callers.
        } else if self.caller.swap(caller, Ordering::Relaxed) != caller {
            self.unpin_workers(allowed);
        } else {
            let consecutive = self.consecutive.fetch_add(1, Ordering::Relaxed) + 1;
            match cpu.map(usize::from) {
                _ if consecutive < SINGLE_CALLER_REQUESTS => {}
                // The worker that took the request is there already.
                Some(cpu) => self.move_workers_off(cpu, allowed),
                None if consecutive.is_multiple_of(self.requests_between_checks()) => {
                    self.locate_caller(caller, allowed)
                }
                None => {}
            }
        }
        Some(self.caller_cpu.load(Ordering::Relaxed)).filter(|caller_cpu| *caller_cpu != NO_CPU)
    }

    fn requests_between_checks(&self) -> u32 {
        let caller_cpu = self.caller_cpu.load(Ordering::Relaxed);
        let workers_are_settled = caller_cpu != NO_CPU && self.worker_cpu.load(Ordering::Relaxed) == caller_cpu;
        if workers_are_settled { REQUESTS_BETWEEN_CHECKS } else { REQUESTS_BETWEEN_CHECKS_UNSETTLED }
    }

    /// Returns whether there has been a single caller for some time.
    pub(crate) fn has_single_caller(&self) -> bool {
        self.caller_cpu.load(Ordering::Relaxed) != NO_CPU
    }

    /// Records a reply that is being sent.
    pub(crate) fn reply(&self, message_bytes: usize) {
        if message_bytes > LARGE_MESSAGE_BYTES
            && let Some(allowed) = &self.allowed
        {
            self.unpin_workers(allowed);
        }
    }

    /// Records the caller's CPU, and moves the workers off it.
    fn move_workers_off(&self, cpu: usize, allowed: &CpuSet) {
        if self.caller_cpu.load(Ordering::Relaxed) != cpu {
            self.caller_cpu.store(cpu, Ordering::Relaxed);
            let mut others = *allowed;
            others.unset(cpu);
            self.pin_workers(cpu, others);
        }
    }

    /// Records where the caller was seen. If it was there before, the workers follow.
    fn locate_caller(&self, caller: u32, allowed: &CpuSet) {
        let Some(cpu) = self.locator.last_cpu(caller).filter(|cpu| allowed.is_set(*cpu)) else { return };
        if self.caller_cpu.swap(cpu, Ordering::Relaxed) == cpu && self.worker_cpu.load(Ordering::Relaxed) != cpu {
            self.pin_workers(cpu, single_cpu(cpu));
        }
    }

    fn pin_workers(&self, at: usize, set: CpuSet) {
        let mut workers = self.lock_workers();
        self.worker_cpu.store(at, Ordering::Relaxed);
        workers.pinned_to = Some(set);
        pin(&workers.threads, &set);
    }

    fn unpin_workers(&self, allowed: &CpuSet) {
        if self.consecutive.load(Ordering::Relaxed) != 0 {
            self.consecutive.store(0, Ordering::Relaxed);
        }
        if self.caller_cpu.load(Ordering::Relaxed) != NO_CPU {
            self.caller_cpu.store(NO_CPU, Ordering::Relaxed);
        }
        // Checked separately: another worker may have located the caller meanwhile.
        if self.worker_cpu.load(Ordering::Relaxed) != NO_CPU {
            let mut workers = self.lock_workers();
            self.worker_cpu.store(NO_CPU, Ordering::Relaxed);
            workers.pinned_to = None;
            pin(&workers.threads, allowed);
        }
    }

    fn lock_workers(&self) -> MutexGuard<'_, WorkerThreads> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that is registered as a worker.
pub(crate) struct PinnedWorker<'a> {
    affinity: &'a CpuAffinity,
    thread: Pid,
}

impl Drop for PinnedWorker<'_> {
    fn drop(&mut self) {
        self.affinity.lock_workers().threads.retain(|other| *other != self.thread);
    }
}

/// Returns the set of one CPU.
pub(crate) fn single_cpu(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

/// Pins threads to CPUs. If this is refused, the threads run where they did: slower, but otherwise equivalent.
fn pin(threads: &[Pid], set: &CpuSet) {
    for thread in threads {
        let _ = sched_setaffinity(Some(*thread), set);
    }
}

/// The CPUs on which callers were last seen, determined by a separate thread: a worker may not wait, since reading /proc
/// blocks for a process inside an execve(2) that waits for us.
#[derive(Default)]
struct CallerLocator {
    /// The channel to the thread that locates callers; without that thread the workers follow nobody.
    sender: OnceLock<Option<SyncSender<u32>>>,
    /// The thread that was found last, and its CPU; 0 before any was found.
    last: Arc<AtomicU64>,
}

impl CallerLocator {
    /// Returns the CPU on which this thread was last located, if no other has been located since; and requests another
    /// query.
    fn last_cpu(&self, thread: u32) -> Option<usize> {
        let last = self.last.load(Ordering::Relaxed);
        if let Some(sender) = self.sender.get_or_init(|| self.start()) {
            // Another query is in progress: skip this one.
            let _ = sender.try_send(thread);
        }
        (last >> 32 == u64::from(thread)).then_some((last & u64::from(u32::MAX)) as usize)
    }

    /// Starts the thread that locates callers. It ends with the locator.
    fn start(&self) -> Option<SyncSender<u32>> {
        let (sender, wanted) = sync_channel::<u32>(1);
        let last = Arc::clone(&self.last);
        let run = move || {
            for thread in wanted {
                if let Some(cpu) = cpu_of_thread(thread) {
                    last.store(u64::from(thread) << 32 | cpu as u64, Ordering::Relaxed);
                }
            }
        };
        std::thread::Builder::new().name("looker".to_owned()).spawn(vnode::as_server(run)).ok().map(|_| sender)
    }
}

/// Returns the CPU on which a thread last ran.
fn cpu_of_thread(thread: u32) -> Option<usize> {
    let cpu = Process::Numbered(thread).stat().ok()??.cpu()?;
    (cpu < CpuSet::MAX_CPU).then_some(cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs each test in a thread of its own, so that the affinity it changes affects nobody else.
    fn in_thread(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().expect("the test passes");
    }

    /// Runs a test in such a thread, as a worker that may run on several CPUs, if there are several.
    fn with_worker(test: impl FnOnce(&CpuAffinity, u32) + Send + 'static) {
        in_thread(|| {
            let before = cpus();
            if before > 1 {
                let affinity = CpuAffinity::new();
                let _worker = affinity.join();
                test(&affinity, before);
            }
        });
    }

    fn own_thread() -> u32 {
        gettid().as_raw_pid().unsigned_abs()
    }

    fn cpus() -> u32 {
        sched_getaffinity(None).expect("own affinity").count()
    }

    fn many_requests(affinity: &CpuAffinity, caller: u32) {
        // A lookup of the caller's CPU takes effect a moment later.
        for round in 0..=SINGLE_CALLER_REQUESTS + 16 * REQUESTS_BETWEEN_CHECKS_UNSETTLED {
            affinity.request(caller, 100, None);
            if round >= SINGLE_CALLER_REQUESTS {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
    }

    #[test]
    fn workers_follow_a_single_caller() {
        with_worker(|affinity, before| {
            for _ in 0..SINGLE_CALLER_REQUESTS {
                assert_eq!(affinity.request(own_thread(), 100, None), None);
            }
            affinity.request(own_thread(), 100, None);
            assert_eq!(cpus(), before, "not before it stays there");
            many_requests(affinity, own_thread());
            assert_eq!(cpus(), 1);
            affinity.request(0, 100, None);
            assert_eq!(cpus(), 1, "requests of nobody change nothing");
            affinity.request(own_thread() + 1, 100, None);
            assert_eq!(cpus(), before, "somebody else is there");
        });
    }

    #[test]
    fn caller_counts_as_single_after_many_requests() {
        with_worker(|affinity, _| {
            assert!((0..SINGLE_CALLER_REQUESTS).all(|_| affinity.request(own_thread(), 100, None).is_none()));
            many_requests(affinity, own_thread());
            assert!(affinity.request(own_thread(), 100, None).is_some() && affinity.request(0, 100, None).is_some());
            assert_eq!(affinity.request(own_thread() + 1, 100, None), None);
        });
    }

    #[test]
    fn workers_stay_off_the_cpu_of_the_caller() {
        with_worker(|affinity, before| {
            let allowed = sched_getaffinity(None).unwrap();
            for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)) {
                let request = || affinity.request(u32::MAX, 100, Some(cpu as u16));
                for _ in 0..SINGLE_CALLER_REQUESTS {
                    request();
                }
                assert_eq!(request(), Some(cpu));
                let now = sched_getaffinity(None).unwrap();
                assert!(!now.is_set(cpu) && now.count() == before - 1);
            }
            affinity.request(own_thread(), 100, Some(0));
            assert_eq!(cpus(), before, "somebody else is there");
        });
    }

    #[test]
    fn late_followers_are_unpinned() {
        with_worker(|affinity, before| {
            many_requests(affinity, own_thread());
            // As if another caller had come between a query for this caller and its consequences.
            affinity.caller_cpu.store(NO_CPU, Ordering::Relaxed);
            affinity.request(own_thread() + 1, 100, None);
            assert_eq!(cpus(), before);
        });
    }

    #[test]
    fn large_messages_unpin_the_workers() {
        in_thread(|| {
            let before = cpus();
            let affinity = CpuAffinity::new();
            let worker = affinity.join();
            many_requests(&affinity, own_thread());
            affinity.reply(1 << 20);
            assert_eq!(cpus(), before);
            many_requests(&affinity, own_thread());
            affinity.request(own_thread(), 1 << 20, None);
            assert_eq!(cpus(), before);
            drop(worker);
        });
    }

    #[test]
    fn ended_worker_is_not_pinned() {
        in_thread(|| {
            let before = cpus();
            let affinity = CpuAffinity::new();
            drop(affinity.join());
            many_requests(&affinity, own_thread());
            assert_eq!(cpus(), before);
        });
    }

    #[test]
    fn unknown_caller_is_not_followed() {
        in_thread(|| {
            let before = cpus();
            let affinity = CpuAffinity::new();
            let worker = affinity.join();
            many_requests(&affinity, u32::MAX);
            assert_eq!(cpus(), before);
            drop(worker);
        });
    }

    #[test]
    fn cpu_is_found_for_odd_thread_names() {
        std::thread::Builder::new()
            .name("a) b ) 1 2 3".into())
            .spawn(|| assert!(cpu_of_thread(own_thread()).is_some()))
            .expect("a thread")
            .join()
            .expect("it is found");
    }
}
