//! The io_uring transport (Linux 6.14): to answer a request and to wait for the next is one system call.
//!
//! The kernel has a queue for each processor and puts a request into that of the processor where its caller runs. Each worker
//! has one entry of a queue, in a ring of its own, and stays on that processor, so that caller and worker take turns there.
//! A ring with several entries would tie requests to a worker that serves another one: only the thread that submitted an
//! entry can be given its request.

use super::device::{Device, Queue, Received};
use super::memory::Memory;
use super::privilege::is_machine_root;
use super::reply::Reply;
use super::wire;
use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

/// One entry of the queue of a processor.
pub(crate) struct UringQueue {
    /// Closed before the memory is given back that the kernel writes to.
    ring: IoUring<squeue::Entry128>,
    processor: u16,
    memory: Memory,
    payload_bytes: usize,
    /// How much of the payload has been used since it was last given back to the system.
    used_bytes: usize,
    next: Next,
    /// What came before it was waited for.
    early: Option<i32>,
    /// The request received last, in memory; nothing if it was malformed.
    request: Range<usize>,
    unique: u64,
}

/// What the kernel is told when the next request is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// There is a new entry.
    Register,
    /// The reply is complete.
    Commit,
    /// Nothing: it has been told already.
    Wait,
}

/// `cmd_op` of a new entry.
const REGISTER: u32 = 1;
/// `cmd_op` of an entry with a reply, which is to be used again.
const COMMIT_AND_FETCH: u32 = 2;
/// Of a ring; one entry is under way at a time.
const ENTRIES: u32 = 2;
/// The connection, as registered with the ring.
const CONNECTION: types::Fixed = types::Fixed(0);

// The parts of the memory.
/// Where the kernel has the header of a request, and looks for that of the reply.
const HEADER: usize = 0;
/// Where the arguments of an operation are.
const ARGUMENTS: usize = 128;
const ARGUMENTS_BYTES_MAX: usize = 128;
/// Where it tells how much follows, and is told so.
const EXCHANGE: usize = ARGUMENTS + ARGUMENTS_BYTES_MAX;
const HEADERS_BYTES: usize = EXCHANGE + size_of::<wire::RingExchange>();
/// Where the addresses of the headers and of the payload are, when the entry is registered.
const ADDRESSES: usize = HEADERS_BYTES;
/// Where a message is put together of which nothing stays in the payload.
const MESSAGE: usize = 512;
/// Where names or data are that follow the arguments, and the results in the reply.
const PAYLOAD: usize = 4096;
/// What is no longer than this is taken out of the payload, so that the reply can be built there.
const SHORT_BYTES_MAX: usize = 1024;
/// Replies to longer requests are built elsewhere. The longest are those of ioctl(2), of 16 KiB.
const REPLY_TO_LONG_BYTES_MAX: usize = Reply::HEADER + (32 << 10);
/// What a worker keeps of the payload when it has nothing to do.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// How long it waits before it gives the rest back: the kernel hands requests to those that replied last.
const GIVES_BACK_AFTER: types::Timespec = types::Timespec::new().sec(1);

impl UringQueue {
    /// A new entry of a processor's queue, for messages of up to so many bytes of data. The thread that calls is the one
    /// that has to use it.
    ///
    /// # Errors
    /// Where the system refuses a ring, or the kernel the entry.
    pub(crate) fn register(device: &Arc<Device>, processor: u16, payload_bytes: usize) -> io::Result<UringQueue> {
        let ring = new_ring()?;
        // The ring keeps it open.
        ring.submitter().register_files(&[device.connection().as_fd().as_raw_fd()])?;
        let payload_bytes = payload_bytes.max(wire::READ_BUFFER_MIN);
        let mut queue = UringQueue {
            ring,
            processor,
            memory: Memory::of(PAYLOAD + payload_bytes + REPLY_TO_LONG_BYTES_MAX)?,
            payload_bytes,
            used_bytes: 0,
            next: Next::Register,
            early: None,
            request: 0..0,
            unique: 0,
        };
        queue.push()?;
        queue.ring.submit()?;
        queue.early = queue.ring.completion().next().map(|completed| completed.result());
        match queue.early {
            Some(refused) if refused < 0 => Err(io::Error::from_raw_os_error(-refused)),
            _ => Ok(queue),
        }
    }

    /// Tells the kernel what is next, with the system call that follows.
    fn push(&mut self) -> io::Result<()> {
        let mut entry = match self.next {
            Next::Wait => return Ok(()),
            Next::Commit => self.command(COMMIT_AND_FETCH).build(),
            Next::Register => {
                let start = self.memory.as_mut_ptr() as u64;
                let addresses = [start, HEADERS_BYTES as u64, start + PAYLOAD as u64, self.payload_bytes as u64];
                self.memory[ADDRESSES..][..size_of_val(&addresses)].copy_from_slice(addresses.as_bytes());
                self.command(REGISTER).addr(Some(start + ADDRESSES as u64)).build()
            }
        };
        if self.next == Next::Register {
            set_length(&mut entry, 2);
        }
        // SAFETY: the kernel reads the addresses at once. It reads and writes the memory that they name only during calls
        // that this thread makes with the ring, which is closed before the memory is given back.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        self.next = Next::Wait;
        Ok(())
    }

    fn command(&self, operation: u32) -> opcode::UringCmd80 {
        let command = wire::RingCommand { flags: 0, commit: self.unique, queue: self.processor, padding: [0; 3] };
        let mut bytes = [0; 80];
        bytes[..size_of::<wire::RingCommand>()].copy_from_slice(command.as_bytes());
        opcode::UringCmd80::new(CONNECTION, operation).cmd(bytes)
    }

    /// Waits for what comes of the entry: zero for a request.
    fn wait(&mut self) -> io::Result<i32> {
        if let Some(early) = self.early.take() {
            return Ok(early);
        }
        self.push()?;
        loop {
            let waited = match self.used_bytes > KEPT_BYTES_MAX {
                true => {
                    let arguments = types::SubmitArgs::new().timespec(&GIVES_BACK_AFTER);
                    self.ring.submitter().submit_with_args(1, &arguments)
                }
                false => self.ring.submit_and_wait(1),
            };
            let completed = self.ring.completion().next();
            match (completed, waited) {
                (Some(completed), _) => return Ok(completed.result()),
                (None, Err(error)) if error.raw_os_error() == Some(libc::ETIME) => self.give_back(),
                (None, Err(error)) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                (None, _) => {}
            }
        }
    }

    /// Gives back to the system what large messages have occupied. The kernel uses the payload only in calls of this thread.
    fn give_back(&mut self) {
        if let Err(error) = self.memory.give_back_from(PAYLOAD.max(rustix::param::page_size())) {
            tracing::debug!(%error, "the memory of large messages stays occupied");
        }
        self.used_bytes = 0;
    }

    /// Puts the request together as it would have come from the device: header, arguments, and what follows them.
    fn assemble(&mut self) -> Option<Range<usize>> {
        let (header, _) = wire::InHeader::read_from_prefix(&self.memory[HEADER..]).ok()?;
        let (exchange, _) = wire::RingExchange::read_from_prefix(&self.memory[EXCHANGE..]).ok()?;
        self.unique = exchange.commit;
        let payload = exchange.payload_length as usize;
        let arguments = (header.length as usize).checked_sub(size_of::<wire::InHeader>() + payload)?;
        if arguments > ARGUMENTS_BYTES_MAX || payload > self.payload_bytes {
            return None;
        }
        let in_front = size_of::<wire::InHeader>() + arguments;
        self.used_bytes = self.used_bytes.max(payload);
        let is_short = payload <= SHORT_BYTES_MAX;
        let start = if is_short { MESSAGE } else { PAYLOAD - in_front };
        self.memory.copy_within(HEADER..HEADER + size_of::<wire::InHeader>(), start);
        self.memory.copy_within(ARGUMENTS..ARGUMENTS + arguments, start + size_of::<wire::InHeader>());
        if is_short {
            self.memory.copy_within(PAYLOAD..PAYLOAD + payload, start + in_front);
        }
        Some(start..start + in_front + payload)
    }

    /// Where the reply to the request received last is built: in front of the payload, where its results belong, unless
    /// the request is there.
    fn reply(&self) -> Range<usize> {
        let is_short = self.request.end <= PAYLOAD - Reply::HEADER;
        let end = PAYLOAD + self.payload_bytes;
        if is_short { PAYLOAD - Reply::HEADER..end } else { end..end + REPLY_TO_LONG_BYTES_MAX }
    }
}

impl Queue for UringQueue {
    fn receive(&mut self) -> Received {
        let result = match self.wait() {
            Ok(result) => result,
            Err(error) => return Received::Failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        };
        if result >= 0 {
            self.request = self.assemble().unwrap_or_default();
            return Received::Request;
        }
        match Errno::from_raw_os_error(-result) {
            Errno::NOTCONN | Errno::CONNABORTED | Errno::CANCELED | Errno::NODEV => Received::Closed,
            error => {
                // The entry is lost; a new one takes its place.
                self.next = Next::Register;
                Received::Failed(error)
            }
        }
    }

    fn exchange(&mut self) -> (&[u8], Reply<'_>) {
        let place = self.reply();
        let (before, after) = self.memory.split_at_mut(place.start);
        (&before[self.request.clone()], Reply::new(&mut after[..place.len()]))
    }

    fn send(&mut self, reply: Option<usize>) -> io::Result<()> {
        let length = match reply {
            Some(length) => {
                let start = self.reply().start;
                self.memory.copy_within(start..start + Reply::HEADER, HEADER);
                if start > PAYLOAD {
                    self.memory.copy_within(start + Reply::HEADER..start + length, PAYLOAD);
                }
                self.used_bytes = self.used_bytes.max(length);
                length - Reply::HEADER
            }
            None => {
                // Every entry is given back, also where nobody waits for an answer.
                let error = if self.request.is_empty() { -libc::EIO } else { 0 };
                let header = wire::OutHeader { length: Reply::HEADER as u32, error, unique: self.unique };
                self.memory[HEADER..][..Reply::HEADER].copy_from_slice(header.as_bytes());
                0
            }
        };
        let exchange = wire::RingExchange { payload_length: length as u32, ..Default::default() };
        self.memory[EXCHANGE..HEADERS_BYTES].copy_from_slice(exchange.as_bytes());
        self.next = Next::Commit;
        Ok(())
    }
}

/// A ring whose work is done in the calls of the thread that made it, so that nothing interrupts what it does meanwhile.
fn new_ring() -> io::Result<IoUring<squeue::Entry128>> {
    IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(ENTRIES)
}

/// Says how many addresses an entry has, for which the builder of device commands has no place.
fn set_length(entry: &mut squeue::Entry128, length: u32) {
    /// Of `len` in `struct io_uring_sqe`.
    const OFFSET: usize = 24;
    // SAFETY: an entry is laid out as `struct io_uring_sqe`, whose bytes 24 to 27 are a number.
    unsafe { (&raw mut *entry).cast::<u8>().add(OFFSET).cast::<u32>().write_unaligned(length) };
}

/// Whether the kernel has it turned on.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Whether the kernel offers io_uring to mounts; else the reason why not.
pub(crate) fn offered() -> Result<(), &'static str> {
    match is_switched_on()? {
        true => may_have_rings(),
        false => Err("turned off in the kernel; as root, --uring=on turns it on"),
    }
}

/// Whether [`switch_on`] would succeed; else the reason why not.
pub(crate) fn can_be_switched_on() -> Result<(), &'static str> {
    match is_switched_on()? || is_machine_root() {
        true => may_have_rings(),
        false => Err(ROOT_ONLY),
    }
}

/// Turns it on in the kernel, for all mounts from now on.
///
/// # Errors
/// The reason why it cannot be used.
pub(crate) fn switch_on() -> Result<(), &'static str> {
    if !is_switched_on()? {
        std::fs::write(SWITCH, "Y").map_err(|_| ROOT_ONLY)?;
    }
    offered()
}

const ROOT_ONLY: &str = "only root may turn it on in the kernel";

fn is_switched_on() -> Result<bool, &'static str> {
    if !std::path::Path::new(SWITCH).exists() {
        // The module may not be loaded yet; whoever opens the device has it loaded.
        drop(Device::open());
    }
    let state = std::fs::read(SWITCH).map_err(|_| "the kernel has none for FUSE (Linux 6.14 has)")?;
    Ok(state.starts_with(b"Y"))
}

fn may_have_rings() -> Result<(), &'static str> {
    new_ring().map(drop).map_err(|_| "the system refuses it to this process (sysctl kernel.io_uring_disabled)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_the_memory_keep_apart() {
        assert_eq!((EXCHANGE, HEADERS_BYTES), (256, 288));
        assert!(ADDRESSES + 4 * size_of::<u64>() <= MESSAGE);
        let longest = size_of::<wire::InHeader>() + ARGUMENTS_BYTES_MAX;
        assert!(MESSAGE + longest + SHORT_BYTES_MAX <= PAYLOAD - Reply::HEADER);
        assert!(MESSAGE <= PAYLOAD - longest);
    }
}
