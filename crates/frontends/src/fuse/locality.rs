//! Locality: keeps the workers on the processor of the caller while there is only one.
//!
//! Caller and worker take turns, one request at a time. Left alone, the kernel wakes each on the processor where the
//! other is not, and a request costs two wake-ups across processors; on the same processor it costs less than half. So
//! a caller that sends many requests in a row has all workers follow it. As soon as somebody else sends one, or much
//! data moves, the workers may run anywhere again: parallel work needs all processors more than it needs short ways.
//!
//! With a worker on its own processor, a caller would be woken on another one that is idle, and have left when the workers
//! come. So the others are kept from being idle first, see [`super::awake`], and the workers follow a caller that stays
//! where it is then. Workers of a processor, which io_uring has, need not follow: they are where their callers are, and tell by
//! that where the caller is. The others serve what nobody waits for then, and are kept off the caller's processor.

use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// After so many requests in a row of one caller it counts as alone. A compiler that looks for its headers sends hundreds
/// while others compute.
const REQUESTS_OF_A_LONER: u32 = 256;

/// After so many more it is looked up where it runs.
const REQUESTS_IN_A_ROW: u32 = 32;

/// The same while the workers do not run there yet.
const REQUESTS_BETWEEN_LOOKS: u32 = 8;

/// A message this large takes longer to copy than to bring to another processor.
const LARGE_MESSAGE_BYTES: usize = 64 << 10;

const NOWHERE: usize = usize::MAX;

/// Where the workers of one session run.
pub(crate) struct Locality {
    /// Where they may run; `None` where there is no choice.
    allowed: Option<CpuSet>,
    /// The thread that sent the last request that says whose it is.
    caller: AtomicU32,
    /// Requests of this caller since the last of another.
    in_a_row: AtomicU32,
    /// The processor that the caller was last seen on.
    home: AtomicUsize,
    /// The one that the workers are kept on, or off.
    workers_at: AtomicUsize,
    workers: Mutex<Workers>,
    sightings: Sightings,
}

#[derive(Default)]
struct Workers {
    threads: Vec<Pid>,
    /// Where they are kept, if they may not run anywhere.
    kept_on: Option<CpuSet>,
}

impl Locality {
    /// The workers may run wherever the calling thread may.
    pub(crate) fn new() -> Locality {
        let allowed = sched_getaffinity(None).ok().filter(|set| set.count() >= 2);
        Locality { allowed, ..Locality::none() }
    }

    /// The workers follow nobody.
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

    /// Counts the calling thread among the workers until the result is dropped.
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

    /// Where the workers may run, if some of these processors can be kept free for one caller.
    pub(crate) fn allowed(&self) -> Option<&CpuSet> {
        self.allowed.as_ref()
    }

    /// A request has come. `caller` is its thread, or 0 for requests that nobody waits for; `processor` is where it runs, if
    /// the request tells. The answer is the processor of the caller, if it is the only one for some time.
    pub(crate) fn request(&self, caller: u32, message_bytes: usize, processor: Option<u16>) -> Option<usize> {
        let allowed = self.allowed.as_ref()?;
        if message_bytes > LARGE_MESSAGE_BYTES {
            self.scatter(allowed);
        } else if caller == 0 {
            // Sent along while its sender goes on: says nothing of who else is there.
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

    /// Whether there has been one caller for some time.
    pub(crate) fn is_alone(&self) -> bool {
        self.home.load(Ordering::Relaxed) != NOWHERE
    }

    /// A reply goes out.
    pub(crate) fn reply(&self, message_bytes: usize) {
        if message_bytes > LARGE_MESSAGE_BYTES
            && let Some(allowed) = &self.allowed
        {
            self.scatter(allowed);
        }
    }

    /// Notes where the caller is, and has the workers elsewhere.
    fn leave(&self, processor: usize, allowed: &CpuSet) {
        if self.home.load(Ordering::Relaxed) != processor {
            self.home.store(processor, Ordering::Relaxed);
            let mut others = *allowed;
            others.unset(processor);
            self.keep_workers(processor, others);
        }
    }

    /// Notes where the caller was seen. If it was there before, the workers follow.
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
        // By itself: another worker may have looked for the caller meanwhile.
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

/// A thread that counts among the workers.
pub(crate) struct Worker<'a> {
    locality: &'a Locality,
    thread: Pid,
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        self.locality.lock_workers().threads.retain(|other| *other != self.thread);
    }
}

/// The set of one processor.
pub(super) fn only(processor: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(processor);
    set
}

/// Where this is refused, the threads run where they did: slower, and otherwise the same.
fn keep_on(threads: &[Pid], set: &CpuSet) {
    for thread in threads {
        let _ = sched_setaffinity(Some(*thread), set);
    }
}

/// Where callers were seen last, by a thread that looks for them: whoever asks may not wait, since /proc does not tell of a
/// process inside an execve(2) that waits for us.
#[derive(Default)]
struct Sightings {
    /// The thread to be looked for next; without a looker nobody is followed.
    looker: OnceLock<Option<SyncSender<u32>>>,
    /// The thread that was found last, and the processor it was on; 0 before any was.
    last: Arc<AtomicU64>,
}

impl Sightings {
    /// Where this thread was when it was looked for last, if no other was since; and it is looked for again.
    fn of(&self, thread: u32) -> Option<usize> {
        let last = self.last.load(Ordering::Relaxed);
        if let Some(looker) = self.looker.get_or_init(|| self.start()) {
            // Somebody is looked for already: so much for this time.
            let _ = looker.try_send(thread);
        }
        (last >> 32 == u64::from(thread)).then_some((last & u64::from(u32::MAX)) as usize)
    }

    /// The looker ends with the sightings.
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

/// The processor that a thread last ran on: the 39th field of its `stat`, counted from behind its name, which may hold
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

    /// Each test runs in a thread of its own, so that the affinity that it changes is nobody else's.
    fn in_thread(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().expect("the test passes");
    }

    /// The same with a worker, which may run on so many processors, if they are several.
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
        // Who is looked for is seen a moment later.
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
            // As if somebody else had come between a look for the caller and what follows from it.
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
