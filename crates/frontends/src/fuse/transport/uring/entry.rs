//! An entry of a CPU's queue: the memory of an incoming request and of its reply.
//!
//! It belongs to the thread through whose ring it was last submitted to the kernel; only that thread gets its next request.

use super::purpose::{OwnRequestPurpose, purpose_of};
use crate::fuse::protocol::reply::Reply;
use crate::fuse::protocol::wire;
use crate::fuse::transport::memory::MappedBuffer;
use io_uring::{opcode, squeue, types};
use std::io;
use std::ops::Range;
use zerocopy::{FromBytes, IntoBytes};

/// The command by which an entry is submitted to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// The entry is new.
    Register,
    /// The entry has a reply, and is to be used again.
    Commit,
}

/// An entry of a queue. Its memory outlives the ring to which it was last submitted.
pub(crate) struct RingEntry {
    cpu: u16,
    memory: MappedBuffer,
    payload_bytes: usize,
    /// Number of payload bytes used since the payload was last returned to the system.
    used_bytes: usize,
    /// Location of the last request in memory; empty if the request was malformed.
    request: Range<usize>,
    unique: u64,
}

/// `cmd_op` of a new entry.
const REGISTER: u32 = 1;
/// `cmd_op` of an entry with a reply, which is to be used again.
const COMMIT_AND_FETCH: u32 = 2;
/// The connection, as registered with the ring.
pub(crate) const CONNECTION: types::Fixed = types::Fixed(0);

// Layout of the memory.
/// Offset at which the kernel puts the header of a request, and expects that of the reply.
const HEADER: usize = 0;
/// Offset of the arguments of an operation.
const ARGUMENTS: usize = 128;
const ARGUMENTS_BYTES_MAX: usize = 128;
/// Offset of the structure in which the kernel reports the payload length, and expects that of the reply.
const EXCHANGE: usize = ARGUMENTS + ARGUMENTS_BYTES_MAX;
const HEADERS_BYTES: usize = EXCHANGE + size_of::<wire::RingExchange>();
/// Offset of the addresses of the headers and of the payload, when the entry is registered.
const ADDRESSES: usize = HEADERS_BYTES;
/// Offset at which a message is assembled whose payload is short.
const MESSAGE: usize = 512;
/// Offset of the names or data that follow the arguments, and of the results in the reply.
const PAYLOAD: usize = 4096;
/// Maximum length in bytes of a payload that is moved out, so that the reply can be built in its place.
const SHORT_PAYLOAD_BYTES_MAX: usize = 1024;
/// Size in bytes of the buffer for replies to longer requests, which are built elsewhere. The longest are those of ioctl(2),
/// of 16 KiB.
const REPLY_TO_LONG_BYTES_MAX: usize = Reply::HEADER + (32 << 10);
/// Maximum number of payload bytes that an idle worker keeps.
const IDLE_PAYLOAD_BYTES_MAX: usize = 64 << 10;

impl RingEntry {
    /// Creates an entry for messages with up to `payload_bytes` bytes of data.
    ///
    /// # Errors
    /// Fails if the process may have no more memory.
    pub(crate) fn new(cpu: u16, payload_bytes: usize) -> io::Result<RingEntry> {
        let payload_bytes = payload_bytes.max(wire::READ_BUFFER_MIN);
        let memory = MappedBuffer::of(PAYLOAD + payload_bytes + REPLY_TO_LONG_BYTES_MAX)?;
        Ok(RingEntry { cpu, memory, payload_bytes, used_bytes: 0, request: 0..0, unique: 0 })
    }

    /// Creates another entry of this size for this CPU.
    ///
    /// # Errors
    /// As [`RingEntry::new`].
    pub(crate) fn another(&self) -> io::Result<RingEntry> {
        RingEntry::new(self.cpu, self.payload_bytes)
    }

    /// Returns the CPU whose queue holds it.
    pub(crate) fn cpu(&self) -> u16 {
        self.cpu
    }

    /// Returns the purpose of the last request, if it is one of our own.
    pub(crate) fn purpose(&self) -> Option<OwnRequestPurpose> {
        purpose_of(self.unique)
    }

    /// Builds the command that submits the entry to the kernel. The kernel reads the addresses in it at once, and uses the
    /// memory at these addresses only during calls that the ring's thread makes with the ring.
    pub(crate) fn command(&mut self, command: Command) -> squeue::Entry128 {
        if command == Command::Commit {
            return self.device_command(COMMIT_AND_FETCH).build();
        }
        let start = self.memory.as_mut_ptr() as u64;
        let addresses = [start, HEADERS_BYTES as u64, start + PAYLOAD as u64, self.payload_bytes as u64];
        self.memory[ADDRESSES..][..size_of_val(&addresses)].copy_from_slice(addresses.as_bytes());
        let mut entry = self.device_command(REGISTER).addr(Some(start + ADDRESSES as u64)).build();
        set_length(&mut entry, 2);
        entry
    }

    fn device_command(&self, operation: u32) -> opcode::UringCmd80 {
        let command = wire::RingCommand { flags: 0, commit: self.unique, queue: self.cpu, padding: [0; 3] };
        let mut bytes = [0; 80];
        bytes[..size_of::<wire::RingCommand>()].copy_from_slice(command.as_bytes());
        opcode::UringCmd80::new(CONNECTION, operation).cmd(bytes)
    }

    /// Returns whether large messages still occupy much of its memory.
    pub(crate) fn holds_large_payload(&self) -> bool {
        self.used_bytes > IDLE_PAYLOAD_BYTES_MAX
    }

    /// Records that the kernel has put a request into it.
    pub(crate) fn accept_request(&mut self) {
        self.request = self.assemble().unwrap_or_default();
    }

    /// Returns the request and an empty reply, as [`Queue::exchange`](crate::fuse::transport::queue::Queue::exchange).
    pub(crate) fn exchange(&mut self) -> (&[u8], Reply<'_>) {
        let range = self.reply_range();
        let (before, after) = self.memory.split_at_mut(range.start);
        (&before[self.request.clone()], Reply::new(&mut after[..range.len()]))
    }

    /// Puts the reply that was built where the kernel expects it; `None` if nobody waits for one.
    pub(crate) fn put_reply(&mut self, reply: Option<usize>) {
        let length = match reply {
            Some(length) => {
                let start = self.reply_range().start;
                self.memory.copy_within(start..start + Reply::HEADER, HEADER);
                if start > PAYLOAD {
                    self.memory.copy_within(start + Reply::HEADER..start + length, PAYLOAD);
                }
                self.used_bytes = self.used_bytes.max(length);
                length - Reply::HEADER
            }
            None => {
                // Every entry is returned to the kernel, even if nobody waits for a reply.
                let error = if self.request.is_empty() { -libc::EIO } else { 0 };
                let header = wire::OutHeader { length: Reply::HEADER as u32, error, unique: self.unique };
                return self.put_header(header);
            }
        };
        self.put_length(length);
    }

    /// Puts a reply without results where the kernel expects it.
    pub(crate) fn put_header(&mut self, header: wire::OutHeader) {
        self.memory[HEADER..][..Reply::HEADER].copy_from_slice(header.as_bytes());
        self.put_length(0);
    }

    fn put_length(&mut self, payload_bytes: usize) {
        let exchange = wire::RingExchange { payload_length: payload_bytes as u32, ..Default::default() };
        self.memory[EXCHANGE..HEADERS_BYTES].copy_from_slice(exchange.as_bytes());
    }

    /// Returns the memory that large messages have occupied to the system. The kernel uses the payload only in calls of the
    /// thread that owns it.
    pub(crate) fn release_payload(&mut self) {
        if let Err(error) = self.memory.release_from(PAYLOAD.max(rustix::param::page_size())) {
            tracing::debug!(%error, "the memory of large messages stays occupied");
        }
        self.used_bytes = 0;
    }

    /// Returns all its memory to the system, while it holds a request whose content is not needed.
    pub(crate) fn release_all(&mut self) {
        if let Err(error) = self.memory.release_from(0) {
            tracing::debug!(%error, "the memory of an entry stays occupied");
        }
        self.used_bytes = 0;
    }

    /// Assembles the request as it would have come from the device: header, arguments, and the payload.
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
        let is_short = payload <= SHORT_PAYLOAD_BYTES_MAX;
        let start = if is_short { MESSAGE } else { PAYLOAD - in_front };
        self.memory.copy_within(HEADER..HEADER + size_of::<wire::InHeader>(), start);
        self.memory.copy_within(ARGUMENTS..ARGUMENTS + arguments, start + size_of::<wire::InHeader>());
        if is_short {
            self.memory.copy_within(PAYLOAD..PAYLOAD + payload, start + in_front);
        }
        Some(start..start + in_front + payload)
    }

    /// Returns the range in which the reply to the last request is built: in front of the payload, where its results belong,
    /// unless the request is there.
    fn reply_range(&self) -> Range<usize> {
        let is_short = self.request.end <= PAYLOAD - Reply::HEADER;
        let end = PAYLOAD + self.payload_bytes;
        if is_short { PAYLOAD - Reply::HEADER..end } else { end..end + REPLY_TO_LONG_BYTES_MAX }
    }
}

/// Sets the number of addresses of an entry, for which the builder of device commands has no method.
fn set_length(entry: &mut squeue::Entry128, length: u32) {
    /// Offset of `len` in `struct io_uring_sqe`.
    const OFFSET: usize = 24;
    // SAFETY: an entry is laid out as `struct io_uring_sqe`, whose bytes 24 to 27 are a number.
    unsafe { (&raw mut *entry).cast::<u8>().add(OFFSET).cast::<u32>().write_unaligned(length) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_regions_do_not_overlap() {
        assert_eq!((EXCHANGE, HEADERS_BYTES), (256, 288));
        assert!(ADDRESSES + 4 * size_of::<u64>() <= MESSAGE);
        let longest = size_of::<wire::InHeader>() + ARGUMENTS_BYTES_MAX;
        assert!(MESSAGE + longest + SHORT_PAYLOAD_BYTES_MAX <= PAYLOAD - Reply::HEADER);
        assert!(MESSAGE <= PAYLOAD - longest);
    }
}
