//! Starting workers: those of a lane in which none is left waiting, and the first of all lanes.

use super::handler::Handler;
use super::shared::{Shared, StartRequest, start_worker};
use super::worker::{run_worker, trigger_fetch};
use crate::fuse::scheduling::affinity::single_cpu;
use crate::fuse::transport::device::Device;
use crate::fuse::transport::device_queue::DeviceQueue;
use crate::fuse::transport::queue::Queue;
use crate::fuse::transport::uring::{Reserve, RingEntry, UringQueue};
use rustix::thread::sched_setaffinity;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Address space for a worker's stack, in bytes; memory is committed as it is used.
const WORKER_STACK_BYTES: usize = 2 << 20;
/// Initial number of workers per CPU: one that serves, and one that waits meanwhile.
const INITIAL_WORKERS_PER_CPU: usize = 2;

/// Starts the reserve, which sends the replies of entries without a worker, if CPUs have lanes.
pub(crate) fn start_reserve<H: Handler>(shared: &Arc<Shared<H>>) -> std::io::Result<()> {
    if shared.lanes.len() < 2 {
        return Ok(());
    }
    let for_reserve = Arc::downgrade(shared);
    let for_parking = Weak::clone(&for_reserve);
    let any_regular_file = Box::new(move || for_parking.upgrade()?.handler.any_regular_file());
    let reserve = Reserve::start(&shared.device, shared.lanes.len() as u16 - 1, any_regular_file, move |entry| {
        let Some(shared) = for_reserve.upgrade() else { return Err(entry) };
        let lane = 1 + usize::from(entry.cpu());
        let Some(entry) = shared.shares.set_aside_if_over_share(lane, entry) else { return Ok(()) };
        let start = StartRequest { lane, result_sender: None, entry: Some(entry) };
        match start_worker(&shared, start) {
            Err((_, StartRequest { entry: Some(entry), .. })) => Err(entry),
            _ => Ok(()),
        }
    })?;
    let _ = shared.reserve.set(reserve);
    Ok(())
}

/// Starts the first worker of the device, and waits until it has its queue.
pub(crate) fn start_device<H: Handler>(shared: &Arc<Shared<H>>) -> std::io::Result<()> {
    start_initial_workers(shared, 0..1, 1)
}

/// Starts the first workers of all CPUs, and waits until every queue has an entry. The kernel uses io_uring once every queue
/// has one, and never if it has refused any.
pub(crate) fn start_lanes<H: Handler>(shared: &Arc<Shared<H>>) -> std::io::Result<()> {
    start_initial_workers(shared, 1..shared.lanes.len(), INITIAL_WORKERS_PER_CPU)
}

fn start_initial_workers<H: Handler>(
    shared: &Arc<Shared<H>>,
    lanes: Range<usize>,
    per_lane: usize,
) -> std::io::Result<()> {
    let (result_sender, results) = channel();
    let expected = lanes.len() * per_lane;
    for lane in lanes {
        for _ in 0..per_lane {
            let start = StartRequest { result_sender: Some(result_sender.clone()), ..StartRequest::another(lane) };
            start_worker(shared, start).map_err(|(error, _)| std::io::Error::other(error))?;
        }
    }
    drop(result_sender);
    let started = results.iter().collect::<std::io::Result<Vec<()>>>()?.len();
    match started == expected {
        true => Ok(()),
        false => Err(std::io::Error::from_raw_os_error(libc::EAGAIN)),
    }
}

/// Makes the kernel send all requests through the device: it waits for all queues to have an entry, unless it had to refuse
/// one, such as one for a CPU that cannot exist.
pub(crate) fn decline_uring(device: &Arc<Device>) -> std::io::Result<()> {
    match UringQueue::is_refused(device, u16::MAX) {
        Err(error) if error.raw_os_error() != Some(libc::EINVAL) => Err(error),
        _ => Ok(()),
    }
}

/// Returns the number of possible CPUs of this machine: the kernel has as many queues.
pub(crate) fn cpus() -> u16 {
    count_cpu_list(&std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default())
}

/// Returns how many numbers a list such as `0-3,8` contains; 0 if it is not a list.
pub(crate) fn count_cpu_list(list: &str) -> u16 {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        last.parse::<u16>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
    };
    list.trim().split(',').try_fold(0u16, |sum, range| sum.checked_add(count(range)?)).unwrap_or(0)
}

/// Starts workers on request. A thread inherits the credentials of its creator, and workers act with those of their callers:
/// this thread, which serves no request, keeps the process's own, with which the device can be opened.
pub(crate) fn run_starter<H: Handler>(shared: &Weak<Shared<H>>, requests: &Receiver<StartRequest>) {
    for StartRequest { lane, result_sender, entry } in requests {
        let Some(shared) = shared.upgrade() else { return };
        let for_thread = Arc::clone(&shared);
        // Stays here if no thread can be started for it.
        let entry = Arc::new(Mutex::new(entry));
        let for_worker = Arc::clone(&entry);
        let worker = std::thread::Builder::new().name("fuse-worker".into()).stack_size(WORKER_STACK_BYTES);
        let started = worker.spawn(move || {
            let ending = WorkerEndGuard(&for_thread);
            if for_thread.writes_back {
                // Then it never waits for pages whose writes it would have to serve; where the process may not request this,
                // the kernel keeps few of them.
                let _ = rustix::process::configure_io_flusher_behavior(true);
            }
            match for_thread.lanes[lane].cpu {
                None => begin(
                    &for_thread,
                    lane,
                    DeviceQueue::new(&for_thread.device, for_thread.message_bytes_max),
                    result_sender,
                ),
                Some(cpu) => match take(&for_worker) {
                    Some(entry) => adopt(&for_thread, lane, entry),
                    None => {
                        begin(&for_thread, lane, register(&for_thread, cpu, result_sender.is_none()), result_sender)
                    }
                },
            }
            drop(ending);
        });
        if let Err(error) = started {
            shared.log_no_worker(&error);
            shared.lanes[lane].idle_workers.remove();
            drop(WorkerEndGuard(&shared));
            if let (Some(entry), Some(reserve)) = (take(&entry), shared.reserve.get()) {
                reserve.retry_assignment(entry);
            }
        }
    }
}

fn take(entry: &Mutex<Option<Box<RingEntry>>>) -> Option<Box<RingEntry>> {
    entry.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Body of a thread that takes over an entry with a request.
fn adopt<H: Handler>(shared: &Arc<Shared<H>>, lane: usize, entry: Box<RingEntry>) {
    let Some(reserve) = shared.reserve.get() else { return };
    let _ = sched_setaffinity(None, &single_cpu(entry.cpu().into()));
    match UringQueue::adopt(&shared.device, entry, reserve.clone()) {
        Ok(queue) => run_worker(shared, lane, queue),
        Err((error, entry)) => {
            tracing::warn!(%error, "no further worker; requests may wait for slower ones");
            shared.lanes[lane].idle_workers.remove();
            reserve.retry_assignment(entry);
        }
    }
}

/// Creates the queue of a thread that stays on a CPU and serves callers there; with `while_busy` if the other workers there
/// are busy.
fn register<H: Handler>(shared: &Shared<H>, cpu: u16, while_busy: bool) -> std::io::Result<UringQueue> {
    // It may be refused, or the CPU may currently not exist: then the thread runs where it can.
    let _ = sched_setaffinity(None, &single_cpu(cpu.into()));
    let reserve = shared.reserve.get().ok_or_else(|| std::io::Error::other("there is no reserve"))?;
    let mut queue = UringQueue::register(&shared.device, cpu, shared.message_bytes_max, reserve.clone())?;
    if queue.may_have_missed_requests() && while_busy {
        trigger_fetch(shared, &queue, Some(cpu));
    }
    Ok(queue)
}

/// Runs a thread on its queue, if it has one.
fn begin<H: Handler>(
    shared: &Arc<Shared<H>>,
    lane: usize,
    queue: std::io::Result<impl Queue>,
    result_sender: Option<Sender<std::io::Result<()>>>,
) {
    match (queue, result_sender) {
        (Ok(queue), result_sender) => {
            // Nobody waits any more if another worker could not be started.
            result_sender.into_iter().for_each(|result_sender| drop(result_sender.send(Ok(()))));
            run_worker(shared, lane, queue);
        }
        (Err(error), result_sender) => {
            shared.lanes[lane].idle_workers.remove();
            match result_sender {
                Some(result_sender) => drop(result_sender.send(Err(error))),
                None => tracing::warn!(%error, "no further worker; requests may wait for slower ones"),
            }
        }
    }
}

/// Removes a worker from the count, however it ends.
struct WorkerEndGuard<'a, H: Handler>(&'a Shared<H>);

impl<H: Handler> Drop for WorkerEndGuard<'_, H> {
    fn drop(&mut self) {
        let mut workers = self.0.workers.lock().unwrap_or_else(PoisonError::into_inner);
        if *workers == 1 {
            // No other can start: only workers start workers.
            drop(workers);
            let closing = catch_unwind(AssertUnwindSafe(|| self.0.handler.closed()));
            if closing.is_err() {
                tracing::error!("releasing what was open panicked");
            }
            workers = self.0.workers.lock().unwrap_or_else(PoisonError::into_inner);
        }
        *workers -= 1;
        self.0.shares.workers(*workers);
        if *workers == 0 {
            self.0.last_worker_ended.notify_all();
        }
    }
}
