//! The reserve: sends replies that come from no worker, and takes the entries that carry them.
//!
//! Sending a reply also offers its entry for the next request: one thread does so for all, and has each entry parked at once.
//! If a request comes first, it is handed to a new worker, together with the entry.

use super::entry::{CONNECTION, Command, RingEntry};
use super::parking::{AnyRegularFile, Parking};
use super::purpose::OwnRequestPurpose;
use crate::fuse::scheduling::affinity::single_cpu;
use crate::fuse::transport::device::Device;
use io_uring::{IoUring, opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::sched_setaffinity;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// Handle to the reserve; the thread ends when all handles are gone, or the connection.
#[derive(Clone)]
pub(crate) struct Reserve {
    orders_sender: Arc<OrderSender>,
    pub(crate) parking: Arc<Parking>,
}

struct OrderSender {
    /// `None` while the last handle is being dropped.
    orders: Option<Sender<Order>>,
    wake_event: Arc<OwnedFd>,
}

enum Order {
    /// The entry has a reply.
    Commit(Box<RingEntry>),
    /// The entry has a request that could not be handed to a worker.
    Assign(Box<RingEntry>),
}

/// Number of submission and completion slots in the ring: entries are parked in bursts.
const ENTRIES: u32 = 64;
const COMPLETIONS: u32 = 1024;
/// The descriptor that signals orders, as registered with the ring.
const WAKE_EVENT: types::Fixed = types::Fixed(1);
const WAKE_USER_DATA: u64 = u64::MAX;
/// Retry interval for a request that cannot be handed to a worker.
const RETRY_AFTER: types::Timespec = types::Timespec::new().nsec(10_000_000);

impl Reserve {
    /// Starts the thread. `assign_worker` starts a worker for an entry with a request, or sets the entry aside, or
    /// returns it.
    ///
    /// # Errors
    /// Fails if the system refuses a thread, a ring or a descriptor.
    pub(crate) fn start(
        device: &Arc<Device>,
        cpus: u16,
        any_regular_file: AnyRegularFile,
        assign_worker: impl FnMut(Box<RingEntry>) -> Result<(), Box<RingEntry>> + Send + 'static,
    ) -> io::Result<Reserve> {
        let (orders, receiver) = channel();
        let wake_event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let parking = Arc::new(Parking::new(device, cpus, any_regular_file));
        let (device, thread_event, for_parking) = (Arc::clone(device), Arc::clone(&wake_event), Arc::clone(&parking));
        let (started, start_result) = channel();
        std::thread::Builder::new().name("fuse-reserve".into()).spawn(move || {
            // By the thread that uses it.
            let thread = new_ring(&device, &thread_event).map(|ring| ReserveThread {
                ring,
                offered: HashMap::new(),
                number: 0,
                waiting: VecDeque::new(),
                orders: receiver,
                wake_event: thread_event,
                needs_poll: true,
                parking: for_parking,
                cpu: None,
                assign_worker,
            });
            match thread {
                Ok(thread) => {
                    let _ = started.send(Ok(()));
                    thread.run();
                }
                Err(error) => drop(started.send(Err(error))),
            }
        })?;
        start_result.recv().unwrap_or_else(|_| Err(io::Error::other("a thread ended")))?;
        Ok(Reserve { orders_sender: Arc::new(OrderSender { orders: Some(orders), wake_event }), parking })
    }

    /// Sends the reply in an entry.
    pub(crate) fn commit(&self, entry: Box<RingEntry>) {
        self.orders_sender.order(Order::Commit(entry));
    }

    /// Takes an entry whose request could not be handed to a worker, to try again.
    pub(crate) fn retry_assignment(&self, entry: Box<RingEntry>) {
        self.orders_sender.order(Order::Assign(entry));
    }
}

impl OrderSender {
    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // Without a receiver the connection has ended, and nobody waits for the reply.
            let _ = orders.send(order);
            self.wake();
        }
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake_event, &1u64.to_ne_bytes());
    }
}

impl Drop for OrderSender {
    fn drop(&mut self) {
        self.orders = None;
        self.wake();
    }
}

/// The state of the thread.
struct ReserveThread<F> {
    /// Closed before the memory of the entries is freed.
    ring: IoUring<squeue::Entry128>,
    /// The entries that wait for a request in the ring, by number.
    offered: HashMap<u64, Box<RingEntry>>,
    /// The last number assigned.
    number: u64,
    /// Entries with requests that could not be handed out yet.
    waiting: VecDeque<Box<RingEntry>>,
    orders: Receiver<Order>,
    wake_event: Arc<OwnedFd>,
    /// The kernel does not poll the wake event (any more).
    needs_poll: bool,
    parking: Arc<Parking>,
    /// The CPU on which this thread runs.
    cpu: Option<u16>,
    assign_worker: F,
}

impl<F: FnMut(Box<RingEntry>) -> Result<(), Box<RingEntry>>> ReserveThread<F> {
    fn run(mut self) {
        if let Err(error) = self.serve() {
            tracing::error!(%error, "replies may not reach the kernel");
        }
    }

    fn serve(&mut self) -> io::Result<()> {
        loop {
            // Before the orders are checked: a later order signals the wake event again.
            self.poll_wake_event()?;
            if !self.take_orders()? {
                return Ok(());
            }
            self.assign_waiting();
            self.wait()?;
            if !self.reap() {
                return Ok(());
            }
        }
    }

    /// Makes the kernel poll the wake event.
    fn poll_wake_event(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.needs_poll) {
            return Ok(());
        }
        let _ = rustix::io::read(&self.wake_event, &mut [0; 8]);
        let poll = opcode::PollAdd::new(WAKE_EVENT, libc::POLLIN as u32).build().user_data(WAKE_USER_DATA);
        self.push(&poll.into())
    }

    /// Executes the queued orders; returns whether there may be more.
    fn take_orders(&mut self) -> io::Result<bool> {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Commit(entry)) => self.commit(entry)?,
                Ok(Order::Assign(entry)) => self.waiting.push_back(entry),
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => return Ok(false),
            }
        }
    }

    /// Sends a reply, and requests the one that parks its entry: the kernel gives requests to the entry that was answered
    /// last.
    fn commit(&mut self, mut entry: Box<RingEntry>) -> io::Result<()> {
        let cpu = entry.cpu();
        if self.cpu != Some(cpu) {
            // If this is refused, the request may park another entry.
            let _ = sched_setaffinity(None, &single_cpu(cpu.into()));
            self.cpu = Some(cpu);
        }
        self.number += 1;
        let command = entry.command(Command::Commit).user_data(self.number);
        self.offered.insert(self.number, entry);
        self.push(&command)?;
        self.submit()?;
        let _ = self.parking.send_own_request(OwnRequestPurpose::Park);
        Ok(())
    }

    fn push(&mut self, entry: &squeue::Entry128) -> io::Result<()> {
        // SAFETY: the memory to which the entry points is in `offered` until the kernel is done with it, or until the ring is
        // closed.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.submit()?;
        }
        Ok(())
    }

    fn submit(&mut self) -> io::Result<()> {
        done(self.ring.submit())
    }

    /// Waits for requests, orders, or the time to try again.
    fn wait(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return done(self.ring.submit_and_wait(1));
        }
        let arguments = types::SubmitArgs::new().timespec(&RETRY_AFTER);
        done(self.ring.submitter().submit_with_args(1, &arguments))
    }

    /// Processes the kernel's completions; returns whether the connection still exists.
    fn reap(&mut self) -> bool {
        let completed: Vec<_> =
            self.ring.completion().map(|completed| (completed.user_data(), completed.result())).collect();
        completed.into_iter().all(|(number, result)| match number {
            WAKE_USER_DATA => {
                self.needs_poll = true;
                true
            }
            _ => self.completed(number, result),
        })
    }

    /// Processes the completion of an entry; returns whether the connection still exists.
    fn completed(&mut self, number: u64, result: i32) -> bool {
        let Some(mut entry) = self.offered.remove(&number) else { return true };
        match -result {
            ..=0 => {
                entry.accept_request();
                match entry.purpose() {
                    None => self.waiting.push_back(entry),
                    Some(OwnRequestPurpose::Park) => self.parking.park(entry),
                    Some(OwnRequestPurpose::Fetch) => {
                        entry.put_reply(None);
                        return self.commit(entry).is_ok();
                    }
                }
                true
            }
            libc::ENOTCONN | libc::ECONNABORTED | libc::ECANCELED | libc::ENODEV => false,
            errno => {
                tracing::error!(errno, "an entry is lost");
                true
            }
        }
    }

    fn assign_waiting(&mut self) {
        while let Some(entry) = self.waiting.pop_front() {
            if let Err(entry) = (self.assign_worker)(entry) {
                self.waiting.push_front(entry);
                return;
            }
        }
    }
}

/// Filters the result of a ring system call: one that has to be repeated once completions were taken out, or after a signal,
/// has not failed.
fn done(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Err(error) if !matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

fn new_ring(device: &Arc<Device>, wake_event: &OwnedFd) -> io::Result<IoUring<squeue::Entry128>> {
    let mut builder = IoUring::builder();
    let ring = builder.setup_single_issuer().setup_defer_taskrun().setup_cqsize(COMPLETIONS).build(ENTRIES)?;
    ring.submitter().register_files(&[device.connection().as_fd().as_raw_fd(), wake_event.as_raw_fd()])?;
    debug_assert_eq!(CONNECTION.0, 0);
    Ok(ring)
}
