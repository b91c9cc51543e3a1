//! An entry of the queue of a processor: the memory that a request comes in and its reply goes out of.
//!
//! It belongs to the thread whose ring the kernel was last told of it through; only that thread is given its next request.

use super::super::memory::Memory;
use super::super::reply::Reply;
use super::super::wire;
use super::purpose::{Purpose, purpose_of};
use io_uring::{opcode, squeue, types};
use std::io;
use std::ops::Range;
use zerocopy::{FromBytes, IntoBytes};

/// What the kernel is told of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// It is new.
    Register,
    /// It has a reply, and is to be used again.
    Commit,
}

/// One entry. Its memory outlives the ring that it was last submitted to.
pub(crate) struct Entry {
    processor: u16,
    memory: Memory,
    payload_bytes: usize,
    /// How much of the payload has been used since it was last given back to the system.
    used_bytes: usize,
    /// The request received last, in memory; nothing if it was malformed.
    request: Range<usize>,
    unique: u64,
}

/// `cmd_op` of a new entry.
const REGISTER: u32 = 1;
/// `cmd_op` of an entry with a reply, which is to be used again.
const COMMIT_AND_FETCH: u32 = 2;
/// The connection, as registered with the ring.
pub(super) const CONNECTION: types::Fixed = types::Fixed(0);

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

impl Entry {
    /// An entry for messages of up to so many bytes of data.
    ///
    /// # Errors
    /// Where the process may have no more memory.
    pub(super) fn new(processor: u16, payload_bytes: usize) -> io::Result<Entry> {
        let payload_bytes = payload_bytes.max(wire::READ_BUFFER_MIN);
        let memory = Memory::of(PAYLOAD + payload_bytes + REPLY_TO_LONG_BYTES_MAX)?;
        Ok(Entry { processor, memory, payload_bytes, used_bytes: 0, request: 0..0, unique: 0 })
    }

    /// Another one like it.
    ///
    /// # Errors
    /// As [`Entry::new`].
    pub(super) fn another(&self) -> io::Result<Entry> {
        Entry::new(self.processor, self.payload_bytes)
    }

    /// The processor whose queue it is in.
    pub(crate) fn processor(&self) -> u16 {
        self.processor
    }

    /// What the request received last is for, if it is one of our own.
    pub(super) fn purpose(&self) -> Option<Purpose> {
        purpose_of(self.unique)
    }

    /// What tells the kernel of it. The kernel reads the addresses in it at once, and uses the memory that they name only
    /// during calls that the thread of the ring makes with the ring.
    pub(super) fn command(&mut self, command: Command) -> squeue::Entry128 {
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
        let command = wire::RingCommand { flags: 0, commit: self.unique, queue: self.processor, padding: [0; 3] };
        let mut bytes = [0; 80];
        bytes[..size_of::<wire::RingCommand>()].copy_from_slice(command.as_bytes());
        opcode::UringCmd80::new(CONNECTION, operation).cmd(bytes)
    }

    /// Whether much of its memory is occupied by what came and went.
    pub(super) fn occupies_much(&self) -> bool {
        self.used_bytes > KEPT_BYTES_MAX
    }

    /// The kernel has put a request into it.
    pub(super) fn received(&mut self) {
        self.request = self.assemble().unwrap_or_default();
    }

    /// As [`Queue::exchange`](super::super::queue::Queue::exchange).
    pub(crate) fn exchange(&mut self) -> (&[u8], Reply<'_>) {
        let place = self.reply_range();
        let (before, after) = self.memory.split_at_mut(place.start);
        (&before[self.request.clone()], Reply::new(&mut after[..place.len()]))
    }

    /// Puts the reply that was built where the kernel looks for it; `None` where nobody waits for one.
    pub(super) fn put_reply(&mut self, reply: Option<usize>) {
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
                // Every entry is given back, also where nobody waits for an answer.
                let error = if self.request.is_empty() { -libc::EIO } else { 0 };
                let header = wire::OutHeader { length: Reply::HEADER as u32, error, unique: self.unique };
                return self.put_header(header);
            }
        };
        self.put_length(length);
    }

    /// Puts a reply without results where the kernel looks for it.
    pub(crate) fn put_header(&mut self, header: wire::OutHeader) {
        self.memory[HEADER..][..Reply::HEADER].copy_from_slice(header.as_bytes());
        self.put_length(0);
    }

    fn put_length(&mut self, payload_bytes: usize) {
        let exchange = wire::RingExchange { payload_length: payload_bytes as u32, ..Default::default() };
        self.memory[EXCHANGE..HEADERS_BYTES].copy_from_slice(exchange.as_bytes());
    }

    /// Gives back to the system what large messages have occupied. The kernel uses the payload only in calls of the thread that has it.
    pub(super) fn give_back(&mut self) {
        if let Err(error) = self.memory.give_back_from(PAYLOAD.max(rustix::param::page_size())) {
            tracing::debug!(%error, "the memory of large messages stays occupied");
        }
        self.used_bytes = 0;
    }

    /// Gives all its memory back to the system, while it holds a request that nobody looks at.
    pub(super) fn empty(&mut self) {
        if let Err(error) = self.memory.give_back_from(0) {
            tracing::debug!(%error, "the memory of an entry stays occupied");
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
    fn reply_range(&self) -> Range<usize> {
        let is_short = self.request.end <= PAYLOAD - Reply::HEADER;
        let end = PAYLOAD + self.payload_bytes;
        if is_short { PAYLOAD - Reply::HEADER..end } else { end..end + REPLY_TO_LONG_BYTES_MAX }
    }
}

/// Says how many addresses an entry has, for which the builder of device commands has no place.
fn set_length(entry: &mut squeue::Entry128, length: u32) {
    /// Of `len` in `struct io_uring_sqe`.
    const OFFSET: usize = 24;
    // SAFETY: an entry is laid out as `struct io_uring_sqe`, whose bytes 24 to 27 are a number.
    unsafe { (&raw mut *entry).cast::<u8>().add(OFFSET).cast::<u32>().write_unaligned(length) };
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
