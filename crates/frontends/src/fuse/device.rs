//! The FUSE device: where requests come from and where replies and notifications go.

use super::deferred::DeferredReply;
use super::memory::Memory;
use super::reply::Reply;
use super::uring::Entry;
use super::wire;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use zerocopy::FromBytes;

/// One stream of requests: what a worker thread reads and answers. It has the memory that requests come in and replies
/// are built in. A reply must go to the queue that its request came from; notifications belong to no queue and go to the
/// [`Device`].
pub(crate) trait Queue {
    /// Waits for the next request; if it `may_idle`, not for longer than the transport finds worth the while.
    fn receive(&mut self, may_idle: bool) -> Received;

    /// The request received last, and an empty reply to it.
    fn exchange(&mut self) -> (&[u8], Reply<'_>);

    /// Sends the reply that was built, of so many bytes with its header; `None` where the kernel expects none. `Ok` also
    /// if the kernel gave up the request meanwhile.
    fn send(&mut self, reply: Option<usize>) -> io::Result<()>;

    /// Leaves the request received last unanswered for now: its reply is sent through the result, by any thread. This queue
    /// goes on with other requests.
    ///
    /// # Errors
    /// Where there is no memory to go on with. Then it has to be answered here.
    fn defer(&mut self, unique: u64) -> io::Result<DeferredReply>;

    /// Leaves the request received last unserved for now, for a queue of the same lane to take. This one goes on with others.
    ///
    /// # Errors
    /// As [`Queue::defer`].
    fn set_aside(&mut self) -> io::Result<Aside>;

    /// Sends the reply that was built, as [`Queue::send`], and takes a request that was set aside as the one received last.
    fn send_and_resume(&mut self, reply: Option<usize>, aside: Aside) -> io::Result<()>;

    /// As [`Queue::defer`], and takes a request that was set aside as the one received last.
    fn defer_and_resume(&mut self, unique: u64, aside: Aside) -> DeferredReply;

    /// Whether requests may wait in the kernel that it gives to this queue only once it is had to, since it was last asked.
    fn starves(&mut self) -> bool {
        false
    }

    /// Has the kernel look for requests that wait: whether it will.
    fn fetch(&self) -> bool {
        true
    }

    /// After [`Received::Idle`]: has one of the workers told that it may end. Whether one will be.
    fn idle(&mut self) -> bool {
        false
    }

    /// After [`Received::MayEnd`]: goes on.
    fn decline(&mut self) {}

    /// After [`Received::MayEnd`]: the thread takes no request any more.
    fn end(self);
}

/// A request that is to be served later.
pub(crate) enum Aside {
    /// One that was read from this descriptor.
    Message(Box<[u8]>, Arc<Connection>),
    /// One that stays in its entry.
    Entry(Box<Entry>),
}

impl Aside {
    /// The memory that it takes, in bytes; none for what an entry has anyway.
    pub(crate) fn occupied_bytes(&self) -> usize {
        match self {
            Aside::Message(message, _) => message.len(),
            Aside::Entry(_) => 0,
        }
    }
}

/// What came of waiting for a request.
#[derive(Debug)]
pub(crate) enum Received {
    /// A request.
    Request,
    /// None for some time.
    Idle,
    /// Workers are idle, and this one may end if there are enough.
    MayEnd,
    /// Unmounted, or the connection was aborted: no request will come any more.
    Closed,
    /// The device failed otherwise.
    Failed(Errno),
}

/// A mount's connection to the kernel. Cheap to share: every worker makes its own queue from it.
#[derive(Debug)]
pub(crate) struct Device {
    fd: OwnedFd,
}

/// Where the device is found.
pub(crate) const DEVICE_PATH: &str = "/dev/fuse";

impl Device {
    /// Opens the device; a mount made with the descriptor turns it into that mount's connection.
    pub(crate) fn open() -> Result<Device, Errno> {
        open_device().map(|fd| Device { fd })
    }

    /// Takes over the descriptor of a connection, as `fusermount3` hands it out.
    pub(crate) fn from_fd(fd: OwnedFd) -> Device {
        Device { fd }
    }

    /// A queue of its own for a worker. `message_bytes_max` is that of the data in a message.
    ///
    /// # Errors
    /// Where there is no memory for it.
    pub(crate) fn queue(self: &Arc<Device>, message_bytes_max: usize) -> io::Result<DeviceQueue> {
        Ok(DeviceQueue {
            connection: Arc::new(self.connection()),
            read_from: None,
            request: Memory::of(message_bytes_max + REQUEST_OVERHEAD_BYTES)?,
            received: 0,
            reply: Memory::of(Reply::HEADER + message_bytes_max)?,
        })
    }

    /// The connection for a worker: a cloned descriptor, so that workers do not contend for one list of requests in
    /// progress. Where cloning fails (no permission on the device any more) the first descriptor is shared, which is
    /// slower and otherwise the same.
    pub(super) fn connection(self: &Arc<Device>) -> Connection {
        let clone = open_device().ok().filter(|fd| clone_connection(fd.as_fd(), self.fd.as_fd()));
        Connection { device: Arc::clone(self), clone }
    }

    /// Registers an open file for passthrough; the id goes into the reply to OPEN. Needs CAP_SYS_ADMIN and a
    /// file system below that is not itself stacked.
    pub(crate) fn open_backing(&self, file: BorrowedFd<'_>) -> Result<i32, Errno> {
        let map = wire::BackingMap { fd: file.as_raw_fd(), flags: 0, padding: 0 };
        // SAFETY: the kernel reads one `fuse_backing_map`, which `map` is, and keeps no pointer to it.
        let id = unsafe { libc::ioctl(self.fd.as_raw_fd(), BACKING_OPEN, &raw const map) };
        if id > 0 { Ok(id) } else { Err(last_error()) }
    }

    /// Takes a registration back. Files opened with it keep working.
    pub(crate) fn close_backing(&self, id: i32) -> Result<(), Errno> {
        let id = id as u32;
        // SAFETY: the kernel reads one `u32` and keeps no pointer to it.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), BACKING_CLOSE, &raw const id) };
        if result == 0 { Ok(()) } else { Err(last_error()) }
    }

    /// Sends a notification through the first descriptor.
    pub(crate) fn notify(&self, notification: &[u8]) -> Result<(), Errno> {
        write_whole(self.fd.as_fd(), notification)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The connection as one worker has it.
pub(crate) struct Connection {
    device: Arc<Device>,
    clone: Option<OwnedFd>,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.clone.as_ref().unwrap_or(&self.device.fd).as_fd()
    }
}

/// The classic transport: one `read` a request, one `write` a reply.
pub(crate) struct DeviceQueue {
    /// Shared with replies that come later: the kernel takes each only where the request was read.
    connection: Arc<Connection>,
    /// Where the request received last was read, if not there.
    read_from: Option<Arc<Connection>>,
    request: Memory,
    received: usize,
    reply: Memory,
}

/// Room for a request's header and arguments beside the data of a write.
const REQUEST_OVERHEAD_BYTES: usize = 8192;

impl Queue for DeviceQueue {
    fn receive(&mut self, _may_idle: bool) -> Received {
        loop {
            match rustix::io::read(&*self.connection, &mut self.request[..]) {
                Ok(0) => return Received::Closed,
                Ok(length) => {
                    self.received = length;
                    self.read_from = None;
                    return Received::Request;
                }
                // The caller was killed before we took its request, or a signal reached this thread.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::NODEV | Errno::CONNABORTED) => return Received::Closed,
                Err(error) => return Received::Failed(error),
            }
        }
    }

    fn exchange(&mut self) -> (&[u8], Reply<'_>) {
        (&self.request[..self.received], Reply::new(&mut self.reply))
    }

    fn send(&mut self, reply: Option<usize>) -> io::Result<()> {
        let Some(length) = reply else { return Ok(()) };
        let connection = self.read_from.as_ref().unwrap_or(&self.connection);
        match write_whole(connection.as_fd(), &self.reply[..length]) {
            Ok(()) | Err(Errno::NOENT | Errno::NODEV) => Ok(()),
            Err(error) => {
                // A caller whose reply is refused would wait for ever.
                let refused = wire::OutHeader::read_from_prefix(&self.reply).map_or(0, |(header, _)| header.unique);
                let length = Reply::new(&mut self.reply).finish_error(refused, libc::EIO);
                let _ = write_whole(connection.as_fd(), &self.reply[..length]);
                Err(error.into())
            }
        }
    }

    fn defer(&mut self, unique: u64) -> io::Result<DeferredReply> {
        Ok(DeferredReply::to_device(unique, self.reply_connection()))
    }

    fn set_aside(&mut self) -> io::Result<Aside> {
        let mut message = Vec::new();
        message.try_reserve_exact(self.received).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        message.extend_from_slice(&self.request[..self.received]);
        Ok(Aside::Message(message.into_boxed_slice(), self.reply_connection()))
    }

    fn send_and_resume(&mut self, reply: Option<usize>, aside: Aside) -> io::Result<()> {
        let sent = self.send(reply);
        self.resume(aside);
        sent
    }

    fn defer_and_resume(&mut self, unique: u64, aside: Aside) -> DeferredReply {
        let reply = DeferredReply::to_device(unique, self.reply_connection());
        self.resume(aside);
        reply
    }

    fn end(self) {}
}

impl DeviceQueue {
    /// Where the reply to the request received last goes.
    fn reply_connection(&self) -> Arc<Connection> {
        Arc::clone(self.read_from.as_ref().unwrap_or(&self.connection))
    }

    fn resume(&mut self, aside: Aside) {
        // Those of rings are in other lanes.
        if let Aside::Message(message, connection) = aside {
            self.received = message.len();
            self.request[..message.len()].copy_from_slice(&message);
            self.read_from = Some(connection);
        }
    }
}

const IOCTL_MAGIC: u32 = 229;
const CLONE: libc::Ioctl = ioctl_number(READ, 0, size_of::<u32>());
const BACKING_OPEN: libc::Ioctl = ioctl_number(WRITE, 1, size_of::<wire::BackingMap>());
const BACKING_CLOSE: libc::Ioctl = ioctl_number(WRITE, 2, size_of::<u32>());

const WRITE: rustix::ioctl::Direction = rustix::ioctl::Direction::Write;
const READ: rustix::ioctl::Direction = rustix::ioctl::Direction::Read;

const fn ioctl_number(direction: rustix::ioctl::Direction, number: u8, size: usize) -> libc::Ioctl {
    rustix::ioctl::opcode::from_components(direction, IOCTL_MAGIC as u8, number, size) as libc::Ioctl
}

fn open_device() -> Result<OwnedFd, Errno> {
    rustix::fs::open(DEVICE_PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

fn clone_connection(new: BorrowedFd<'_>, connection: BorrowedFd<'_>) -> bool {
    let connection = connection.as_raw_fd() as u32;
    // SAFETY: the kernel reads one `u32` and keeps no pointer to it.
    let result = unsafe { libc::ioctl(new.as_raw_fd(), CLONE, &raw const connection) };
    result == 0
}

/// The device takes a message whole or not at all.
pub(super) fn write_whole(fd: BorrowedFd<'_>, message: &[u8]) -> Result<(), Errno> {
    loop {
        match rustix::io::write(fd, message) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Makes an owned descriptor of a number received through a control message.
pub(crate) fn own_received(number: i32) -> Option<OwnedFd> {
    // SAFETY: the number was just received and nothing else knows it.
    (number >= 0).then(|| unsafe { OwnedFd::from_raw_fd(number) })
}
