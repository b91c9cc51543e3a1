//! The io_uring transport (Linux 6.14): answering a request and waiting for the next is one system call.
//!
//! The kernel has a queue per CPU and puts a request into that of the CPU on which its caller runs. Each worker has one entry
//! of a queue, in a ring of its own, and stays on that CPU, so that caller and worker take turns there. A ring with several
//! entries would tie requests to a worker that serves another one: only the thread that submitted an entry can get its
//! request. The kernel never releases an entry: entries that no worker needs are parked.

mod entry;
mod parking;
mod purpose;
mod reserve;

pub(crate) use entry::RingEntry;
pub(crate) use reserve::Reserve;

use super::deferred::DeferredReply;
use super::device::Device;
use super::queue::{Queue, Received, SetAsideRequest};
use crate::fuse::protocol::reply::Reply;
use entry::Command;
use io_uring::{IoUring, squeue, types};
use procfs::is_machine_root;
use purpose::OwnRequestPurpose;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

/// One entry of a CPU's queue, in a ring of its own.
pub(crate) struct UringQueue {
    /// Closed before the memory to which the kernel writes is freed.
    ring: IoUring<squeue::Entry128>,
    entry: Box<RingEntry>,
    /// The command to submit when waiting for the next request; `None` if it has been submitted already.
    next: Option<Command>,
    /// The entry is new to the kernel, which has not looked for requests that wait in the queue.
    is_new: bool,
    /// A completion that came before it was waited for.
    completed_early: Option<i32>,
    reserve: Reserve,
}

/// Size of a ring; one entry is in flight at a time.
const ENTRIES: u32 = 2;
/// Time after which a waiting worker returns memory, or counts as idle: the kernel hands requests to the workers that replied
/// last.
const IDLE_TIMEOUT: types::Timespec = types::Timespec::new().sec(1);

impl UringQueue {
    /// Registers an entry of a CPU's queue, for messages with up to `payload_bytes` bytes of data. It must be used by the
    /// calling thread.
    ///
    /// # Errors
    /// Fails if the system refuses a ring, or the kernel the entry.
    pub(crate) fn register(
        device: &Arc<Device>,
        cpu: u16,
        payload_bytes: usize,
        reserve: Reserve,
    ) -> io::Result<UringQueue> {
        let ring = ring_for(device)?;
        let (entry, next) = match reserve.parking.take(cpu) {
            Some(entry) => (entry, Command::Commit),
            None => (Box::new(RingEntry::new(cpu, payload_bytes)?), Command::Register),
        };
        let mut queue = UringQueue {
            ring,
            entry,
            next: Some(next),
            is_new: next == Command::Register,
            completed_early: None,
            reserve,
        };
        queue.submit()?;
        match queue.completed_early {
            Some(refused) if refused < 0 => Err(io::Error::from_raw_os_error(-refused)),
            _ => Ok(queue),
        }
    }

    /// Submits an entry of a queue that cannot exist, so that the kernel refuses it.
    ///
    /// # Errors
    /// The kernel's error, or the reason why there is no ring.
    pub(crate) fn is_refused(device: &Arc<Device>, cpu: u16) -> io::Result<()> {
        let (mut ring, mut entry) = (ring_for(device)?, RingEntry::new(cpu, 0)?);
        // SAFETY: the ring is closed before the memory of the entry is freed.
        unsafe { ring.submission().push(&entry.command(Command::Register)) }.map_err(io::Error::other)?;
        ring.submit()?;
        match ring.completion().next().map(|completed| completed.result()) {
            Some(refused) if refused < 0 => Err(io::Error::from_raw_os_error(-refused)),
            _ => Ok(()),
        }
    }

    /// Creates a queue for an entry that holds a request, which is received first.
    ///
    /// # Errors
    /// Fails if the system refuses a ring; returns the entry too.
    pub(crate) fn adopt(
        device: &Arc<Device>,
        entry: Box<RingEntry>,
        reserve: Reserve,
    ) -> Result<UringQueue, (io::Error, Box<RingEntry>)> {
        match ring_for(device) {
            Ok(ring) => Ok(UringQueue { ring, entry, next: None, is_new: false, completed_early: Some(0), reserve }),
            Err(error) => Err((error, entry)),
        }
    }

    /// Queues the next command for the kernel, to be submitted with the system call that follows.
    fn push(&mut self) -> io::Result<()> {
        let Some(command) = self.next else { return Ok(()) };
        let entry = self.entry.command(command);
        // SAFETY: the entry lives as long as the ring, which is closed before the memory is freed; or the kernel is done with
        // it in this ring when it is handed to another thread.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        self.next = None;
        Ok(())
    }

    /// Submits the next command at once, and takes its completion if there is one.
    fn submit(&mut self) -> io::Result<()> {
        self.push()?;
        self.ring.submit()?;
        self.completed_early = self.ring.completion().next().map(|completed| completed.result());
        Ok(())
    }

    /// Takes out the entry that holds a request, and continues with another.
    fn replace_entry(&mut self) -> io::Result<Box<RingEntry>> {
        let (entry, next) = match self.reserve.parking.take(self.entry.cpu()) {
            Some(parked) => (parked, Command::Commit),
            None => (Box::new(self.entry.another()?), Command::Register),
        };
        let replaced = std::mem::replace(&mut self.entry, entry);
        self.next = Some(next);
        // Requests that rely on this worker from here on rely on the other entry.
        if let Err(error) = self.submit() {
            tracing::warn!(%error, "requests may wait for slower ones");
        }
        // Other requests may have come while the queue had no entry.
        self.is_new = next == Command::Register;
        Ok(replaced)
    }

    /// Takes out the entry that holds a request, and continues with one that was set aside: nothing is submitted to the kernel
    /// until that one is answered.
    fn resume(&mut self, aside: SetAsideRequest) -> Box<RingEntry> {
        self.next = None;
        match aside {
            SetAsideRequest::Entry(entry) => std::mem::replace(&mut self.entry, entry),
            SetAsideRequest::Message(..) => unreachable!("those of the device are in another lane"),
        }
    }

    fn handle_failure(&mut self, error: Errno) -> Received {
        match error {
            Errno::NOTCONN | Errno::CONNABORTED | Errno::CANCELED | Errno::NODEV => Received::Closed,
            error => {
                // The entry is lost; a new one replaces it. The kernel must know it before it can be made to look for the
                // requests that came meanwhile; if it cannot be submitted now, it is with the next request.
                self.next = Some(Command::Register);
                let _ = self.submit();
                self.is_new = true;
                Received::Failed(error)
            }
        }
    }

    /// Waits for the completion of the entry: zero for a request; `None` if nothing has completed for some time, and
    /// `may_idle`.
    fn wait(&mut self, may_idle: bool) -> io::Result<Option<i32>> {
        if let Some(completed_early) = self.completed_early.take() {
            return Ok(Some(completed_early));
        }
        self.push()?;
        loop {
            let waited = match may_idle || self.entry.holds_large_payload() {
                true => {
                    let arguments = types::SubmitArgs::new().timespec(&IDLE_TIMEOUT);
                    self.ring.submitter().submit_with_args(1, &arguments)
                }
                false => self.ring.submit_and_wait(1),
            };
            let completed = self.ring.completion().next();
            match (completed, waited) {
                (Some(completed), _) => return Ok(Some(completed.result())),
                (None, Err(error)) if error.raw_os_error() == Some(libc::ETIME) => {
                    if self.entry.holds_large_payload() {
                        self.entry.release_payload();
                    }
                    if may_idle {
                        return Ok(None);
                    }
                }
                (None, Err(error)) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                (None, _) => {}
            }
        }
    }
}

impl Queue for UringQueue {
    fn receive(&mut self, may_idle: bool) -> Received {
        loop {
            let result = match self.wait(may_idle) {
                Ok(Some(result)) => result,
                Ok(None) => return Received::Idle,
                Err(error) => return Received::Failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            };
            if result < 0 {
                return self.handle_failure(Errno::from_raw_os_error(-result));
            }
            self.entry.accept_request();
            match self.entry.purpose() {
                None => return Received::Request,
                Some(OwnRequestPurpose::Park) => return Received::MayEnd,
                Some(OwnRequestPurpose::Fetch) => self.decline(),
            }
        }
    }

    fn exchange(&mut self) -> (&[u8], Reply<'_>) {
        self.entry.exchange()
    }

    fn send(&mut self, reply: Option<usize>) -> io::Result<()> {
        self.entry.put_reply(reply);
        self.next = Some(Command::Commit);
        Ok(())
    }

    fn defer(&mut self, unique: u64) -> io::Result<DeferredReply> {
        let replaced = self.replace_entry()?;
        Ok(DeferredReply::to_ring(unique, replaced, self.reserve.clone()))
    }

    fn set_aside(&mut self) -> io::Result<SetAsideRequest> {
        self.replace_entry().map(SetAsideRequest::Entry)
    }

    fn send_and_resume(&mut self, reply: Option<usize>, aside: SetAsideRequest) -> io::Result<()> {
        self.entry.put_reply(reply);
        let answered = self.resume(aside);
        self.reserve.commit(answered);
        Ok(())
    }

    fn defer_and_resume(&mut self, unique: u64, aside: SetAsideRequest) -> DeferredReply {
        DeferredReply::to_ring(unique, self.resume(aside), self.reserve.clone())
    }

    fn may_have_missed_requests(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    fn fetch(&self) -> bool {
        self.reserve.parking.send_own_request(OwnRequestPurpose::Fetch)
    }

    fn idle(&mut self) -> bool {
        self.reserve.parking.send_own_request(OwnRequestPurpose::Park)
    }

    fn decline(&mut self) {
        self.entry.put_reply(None);
        self.next = Some(Command::Commit);
    }

    fn end(self) {
        // No part of the entry is in this ring any more.
        self.reserve.parking.park(self.entry);
    }
}

/// Creates a ring that knows the connection, and keeps it open.
fn ring_for(device: &Arc<Device>) -> io::Result<IoUring<squeue::Entry128>> {
    let ring = new_ring()?;
    ring.submitter().register_files(&[device.connection().as_fd().as_raw_fd()])?;
    Ok(ring)
}

/// Creates a ring whose work is done in calls of the thread that created it, so that nothing interrupts the thread in between.
fn new_ring() -> io::Result<IoUring<squeue::Entry128>> {
    IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(ENTRIES)
}

/// The module parameter that turns it on in the kernel.
const ENABLE_URING_PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// Returns whether the kernel offers io_uring to mounts; otherwise the reason why not.
pub(crate) fn offered() -> Result<(), &'static str> {
    match is_switched_on()? {
        true => may_have_rings(),
        false => Err("turned off in the kernel; as root, --uring=on turns it on"),
    }
}

/// Returns whether [`switch_on`] would succeed; otherwise the reason why not.
pub(crate) fn can_be_switched_on() -> Result<(), &'static str> {
    match is_switched_on()? || is_machine_root() {
        true => may_have_rings(),
        false => Err(ROOT_ONLY),
    }
}

/// Turns it on in the kernel, for all later mounts.
///
/// # Errors
/// The reason why it cannot be used.
pub(crate) fn switch_on() -> Result<(), &'static str> {
    if !is_switched_on()? {
        std::fs::write(ENABLE_URING_PARAMETER, "Y").map_err(|_| ROOT_ONLY)?;
    }
    offered()
}

const ROOT_ONLY: &str = "only root may turn it on in the kernel";

fn is_switched_on() -> Result<bool, &'static str> {
    if !std::path::Path::new(ENABLE_URING_PARAMETER).exists() {
        // The module may not be loaded yet; opening the device loads it.
        drop(Device::open());
    }
    let state = std::fs::read(ENABLE_URING_PARAMETER).map_err(|_| "the kernel has none for FUSE (Linux 6.14 has)")?;
    Ok(state.starts_with(b"Y"))
}

fn may_have_rings() -> Result<(), &'static str> {
    new_ring().map(drop).map_err(|_| "the system refuses it to this process (sysctl kernel.io_uring_disabled)")
}
