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

use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Number of consecutive requests of one caller after which it counts as the single caller. A compiler that searches for its
/// headers sends hundreds while others compute.
const REQUESTS_OF_A_LONER: u32 = 256;

/// Number of further requests between two checks of the caller's CPU.
const REQUESTS_IN_A_ROW: u32 = 32;

/// Number of further requests between two checks while the workers do not run there yet.
const REQUESTS_BETWEEN_LOOKS: u32 = 8;

/// Size in bytes from which copying a message takes longer than moving it to another CPU.
const LARGE_MESSAGE_BYTES: usize = 64 << 10;

const NOWHERE: usize = usize::MAX;

/// The CPUs on which the workers of one session run.
pub(crate) struct Locality {
    /// The CPUs on which they may run; `None` if there is no choice.
    allowed: Option<CpuSet>,
    /// The thread that sent the last request with a caller.
    caller: AtomicU32,
    /// Number of consecutive requests of this caller since the last one of another.
    in_a_row: AtomicU32,
    /// The CPU on which the caller was last seen.
    home: AtomicUsize,
    /// The CPU on which, or off which, the workers are kept.
    workers_at: AtomicUsize,
    workers: Mutex<Workers>,
    sightings: Sightings,
}

#[derive(Default)]
struct Workers {
    threads: Vec<Pid>,
    /// The CPUs to which they are pinned, if they may not run anywhere.
    kept_on: Option<CpuSet>,
}

impl Locality {
    /// Lets the workers run wherever the calling thread may.
    pub(crate) fn new() -> Locality {
        let allowed = sched_getaffinity(None).ok().filter(|set| set.count() >= 2);
        Locality { allowed, ..Locality::none() }
    }

    /// Disables affinity: the workers follow no caller.
    pub(crate) fn none() -> Locality {
        Locality {
            allowed: None,
            caller: AtomicU32::new(0),
            in_a_row: AtomicU32::new(0),
            home: AtomicUsize::new(NOWHERE),
            workers_at: AtomicUsize::new(NOWHERE),
            workers: Mutex::default(),
            sightings: Sightings::default(),
        }
    }

    /// Adds the calling thread to the workers until the result is dropped.
    pub(crate) fn join(&self) -> Worker<'_> {
        let thread = gettid();
        let mut workers = self.lock_workers();
        workers.threads.push(thread);
        if let Some(set) = &workers.kept_on {
            keep_on(&[thread], set);
        }
        drop(workers);
        Worker { locality: self, thread }
    }

    /// Returns the CPUs on which the workers may run, if some of them can be kept free for a single caller.
    pub(crate) fn allowed(&self) -> Option<&CpuSet> {
        self.allowed.as_ref()
    }

    /// Records a request. `caller` is its thread, or 0 for requests for which nobody waits; `processor` is the CPU on which
    /// the caller runs, if the request reports it. Returns the caller's CPU, if it has been the only one for some time.
    pub(crate) fn request(&self, caller: u32, message_bytes: usize, processor: Option<u16>) -> Option<usize> {
        let allowed = self.allowed.as_ref()?;
        if message_bytes > LARGE_MESSAGE_BYTES {
            self.scatter(allowed);
        } else if caller == 0 {
            // Sent asynchronously while its sender continues: says nothing about other callers.
        } else if self.caller.swap(caller, Ordering::Relaxed) != caller {
            self.scatter(allowed);
        } else {
            let in_a_row = self.in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
            match processor.map(usize::from) {
                _ if in_a_row < REQUESTS_OF_A_LONER => {}
                // The worker that took the request is there already.
                Some(processor) => self.leave(processor, allowed),
                None if in_a_row.is_multiple_of(self.requests_between_looks()) => self.look_for(caller, allowed),
                None => {}
            }
        }
        Some(self.home.load(Ordering::Relaxed)).filter(|home| *home != NOWHERE)
    }

    fn requests_between_looks(&self) -> u32 {
        let home = self.home.load(Ordering::Relaxed);
        let is_settled = home != NOWHERE && self.workers_at.load(Ordering::Relaxed) == home;
        if is_settled { REQUESTS_IN_A_ROW } else { REQUESTS_BETWEEN_LOOKS }
    }

    /// Returns whether there has been a single caller for some time.
    pub(crate) fn is_alone(&self) -> bool {
        self.home.load(Ordering::Relaxed) != NOWHERE
    }

    /// Records a reply that is being sent.
    pub(crate) fn reply(&self, message_bytes: usize) {
        if message_bytes > LARGE_MESSAGE_BYTES
            && let Some(allowed) = &self.allowed
        {
            self.scatter(allowed);
        }
    }

    /// Records the caller's CPU, and moves the workers off it.
    fn leave(&self, processor: usize, allowed: &CpuSet) {
        if self.home.load(Ordering::Relaxed) != processor {
            self.home.store(processor, Ordering::Relaxed);
            let mut others = *allowed;
            others.unset(processor);
            self.keep_workers(processor, others);
        }
    }

    /// Records where the caller was seen. If it was there before, the workers follow.
    fn look_for(&self, caller: u32, allowed: &CpuSet) {
        let Some(processor) = self.sightings.of(caller).filter(|processor| allowed.is_set(*processor)) else { return };
        if self.home.swap(processor, Ordering::Relaxed) == processor
            && self.workers_at.load(Ordering::Relaxed) != processor
        {
            self.keep_workers(processor, only(processor));
        }
    }

    fn keep_workers(&self, at: usize, set: CpuSet) {
        let mut workers = self.lock_workers();
        self.workers_at.store(at, Ordering::Relaxed);
        workers.kept_on = Some(set);
        keep_on(&workers.threads, &set);
    }

    fn scatter(&self, allowed: &CpuSet) {
        if self.in_a_row.load(Ordering::Relaxed) != 0 {
            self.in_a_row.store(0, Ordering::Relaxed);
        }
        if self.home.load(Ordering::Relaxed) != NOWHERE {
            self.home.store(NOWHERE, Ordering::Relaxed);
        }
        // Checked separately: another worker may have looked for the caller meanwhile.
        if self.workers_at.load(Ordering::Relaxed) != NOWHERE {
            let mut workers = self.lock_workers();
            self.workers_at.store(NOWHERE, Ordering::Relaxed);
            workers.kept_on = None;
            keep_on(&workers.threads, allowed);
        }
    }

    fn lock_workers(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that is registered as a worker.
pub(crate) struct Worker<'a> {
    locality: &'a Locality,
    thread: Pid,
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        self.locality.lock_workers().threads.retain(|other| *other != self.thread);
    }
}

/// Returns the set of one CPU.
pub(crate) fn only(processor: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(processor);
    set
}

/// Pins threads to CPUs. If this is refused, the threads run where they did: slower, but otherwise equivalent.
fn keep_on(threads: &[Pid], set: &CpuSet) {
    for thread in threads {
        let _ = sched_setaffinity(Some(*thread), set);
    }
}

/// The CPUs on which callers were last seen, determined by a separate thread: a worker may not wait, since reading /proc
/// blocks for a process inside an execve(2) that waits for us.
#[derive(Default)]
struct Sightings {
    /// The channel to the thread that looks for callers, for the next one; without that thread the workers follow nobody.
    looker: OnceLock<Option<SyncSender<u32>>>,
    /// The thread that was found last, and its CPU; 0 before any was found.
    last: Arc<AtomicU64>,
}

impl Sightings {
    /// Returns where this thread was when last looked for, if no other has been since; and starts another look.
    fn of(&self, thread: u32) -> Option<usize> {
        let last = self.last.load(Ordering::Relaxed);
        if let Some(looker) = self.looker.get_or_init(|| self.start()) {
            // Another look is in progress: skip this one.
            let _ = looker.try_send(thread);
        }
        (last >> 32 == u64::from(thread)).then_some((last & u64::from(u32::MAX)) as usize)
    }

    /// Starts the thread that looks for callers. It ends with the sightings.
    fn start(&self) -> Option<SyncSender<u32>> {
        let (looker, wanted) = sync_channel::<u32>(1);
        let last = Arc::clone(&self.last);
        let look = move || {
            for thread in wanted {
                if let Some(processor) = processor_of(thread) {
                    last.store(u64::from(thread) << 32 | processor as u64, Ordering::Relaxed);
                }
            }
        };
        std::thread::Builder::new().name("looker".to_owned()).spawn(vnode::as_server(look)).ok().map(|_| looker)
    }
}

/// Returns the CPU on which a thread last ran: the 39th field of its `stat`, counted from after its name, which may contain
/// anything.
fn processor_of(thread: u32) -> Option<usize> {
    const FIELDS_AFTER_NAME: usize = 36;
    let stat = std::fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let processor = rest.split_ascii_whitespace().nth(FIELDS_AFTER_NAME)?.parse().ok()?;
    (processor < CpuSet::MAX_CPU).then_some(processor)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs each test in a thread of its own, so that the affinity it changes affects nobody else.
    fn in_thread(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().expect("the test passes");
    }

    /// Runs a test in such a thread, as a worker that may run on several CPUs, if there are several.
    fn with_worker(test: impl FnOnce(&Locality, u32) + Send + 'static) {
        in_thread(|| {
            let before = processors();
            if before > 1 {
                let locality = Locality::new();
                let _worker = locality.join();
                test(&locality, before);
            }
        });
    }

    fn here() -> u32 {
        gettid().as_raw_pid().unsigned_abs()
    }

    fn processors() -> u32 {
        sched_getaffinity(None).expect("own affinity").count()
    }

    fn many_requests(locality: &Locality, caller: u32) {
        // A lookup of the caller's CPU takes effect a moment later.
        for round in 0..=REQUESTS_OF_A_LONER + 16 * REQUESTS_BETWEEN_LOOKS {
            locality.request(caller, 100, None);
            if round >= REQUESTS_OF_A_LONER {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
    }

    #[test]
    fn workers_follow_a_caller_that_is_alone() {
        with_worker(|locality, before| {
            for _ in 0..REQUESTS_OF_A_LONER {
                assert_eq!(locality.request(here(), 100, None), None);
            }
            locality.request(here(), 100, None);
            assert_eq!(processors(), before, "not before it stays there");
            many_requests(locality, here());
            assert_eq!(processors(), 1);
            locality.request(0, 100, None);
            assert_eq!(processors(), 1, "requests of nobody change nothing");
            locality.request(here() + 1, 100, None);
            assert_eq!(processors(), before, "somebody else is there");
        });
    }

    #[test]
    fn a_caller_counts_as_alone_after_very_many_requests() {
        with_worker(|locality, _| {
            assert!((0..REQUESTS_OF_A_LONER).all(|_| locality.request(here(), 100, None).is_none()));
            many_requests(locality, here());
            assert!(locality.request(here(), 100, None).is_some() && locality.request(0, 100, None).is_some());
            assert_eq!(locality.request(here() + 1, 100, None), None);
        });
    }

    #[test]
    fn workers_keep_off_a_processor_that_requests_tell() {
        with_worker(|locality, before| {
            let allowed = sched_getaffinity(None).unwrap();
            for processor in (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)) {
                let told = || locality.request(u32::MAX, 100, Some(processor as u16));
                for _ in 0..REQUESTS_OF_A_LONER {
                    told();
                }
                assert_eq!(told(), Some(processor));
                let now = sched_getaffinity(None).unwrap();
                assert!(!now.is_set(processor) && now.count() == before - 1);
            }
            locality.request(here(), 100, Some(0));
            assert_eq!(processors(), before, "somebody else is there");
        });
    }

    #[test]
    fn workers_that_followed_too_late_are_set_free() {
        with_worker(|locality, before| {
            many_requests(locality, here());
            // As if another caller had come between a look for this caller and its consequences.
            locality.home.store(NOWHERE, Ordering::Relaxed);
            locality.request(here() + 1, 100, None);
            assert_eq!(processors(), before);
        });
    }

    #[test]
    fn much_data_sets_the_workers_free() {
        in_thread(|| {
            let before = processors();
            let locality = Locality::new();
            let worker = locality.join();
            many_requests(&locality, here());
            locality.reply(1 << 20);
            assert_eq!(processors(), before);
            many_requests(&locality, here());
            locality.request(here(), 1 << 20, None);
            assert_eq!(processors(), before);
            drop(worker);
        });
    }

    #[test]
    fn a_thread_that_left_is_not_touched() {
        in_thread(|| {
            let before = processors();
            let locality = Locality::new();
            drop(locality.join());
            many_requests(&locality, here());
            assert_eq!(processors(), before);
        });
    }

    #[test]
    fn a_caller_that_cannot_be_found_is_not_followed() {
        in_thread(|| {
            let before = processors();
            let locality = Locality::new();
            let worker = locality.join();
            many_requests(&locality, u32::MAX);
            assert_eq!(processors(), before);
            drop(worker);
        });
    }

    #[test]
    fn names_of_threads_do_not_confuse() {
        std::thread::Builder::new()
            .name("a) b ) 1 2 3".into())
            .spawn(|| assert!(processor_of(here()).is_some()))
            .expect("a thread")
            .join()
            .expect("it is found");
    }
}
