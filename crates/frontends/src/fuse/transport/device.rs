//! The FUSE device: the source of requests, and the destination of replies and notifications.

use crate::fuse::protocol::wire;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// A mount's connection to the kernel. Cheap to share: every worker creates its own queue from it.
#[derive(Debug)]
pub(crate) struct Device {
    fd: OwnedFd,
}

/// Path of the device.
pub(crate) const DEVICE_PATH: &str = "/dev/fuse";

impl Device {
    /// Opens the device; a mount made with the descriptor turns it into that mount's connection.
    pub(crate) fn open() -> Result<Device, Errno> {
        open_device().map(|fd| Device { fd })
    }

    /// Takes over the descriptor of a connection, as passed by `fusermount3`.
    pub(crate) fn from_fd(fd: OwnedFd) -> Device {
        Device { fd }
    }

    /// Returns the connection for a worker: a cloned descriptor, so that workers do not contend for one list of requests in
    /// progress. If cloning fails (the device may no longer be opened), the first descriptor is shared, which is slower but
    /// otherwise equivalent.
    pub(crate) fn connection(self: &Arc<Device>) -> Connection {
        let clone = open_device().ok().filter(|fd| clone_connection(fd.as_fd(), self.fd.as_fd()));
        Connection { device: Arc::clone(self), clone }
    }

    /// Registers an open file for passthrough; the id goes into the reply to OPEN. Requires CAP_SYS_ADMIN and a lower file
    /// system that is not itself stacked.
    pub(crate) fn open_backing(&self, file: BorrowedFd<'_>) -> Result<i32, Errno> {
        let map = wire::BackingMap { fd: file.as_raw_fd(), flags: 0, padding: 0 };
        // SAFETY: the kernel reads one `fuse_backing_map`, which `map` is, and keeps no pointer to it.
        let id = unsafe { libc::ioctl(self.fd.as_raw_fd(), BACKING_OPEN, &raw const map) };
        if id > 0 { Ok(id) } else { Err(last_error()) }
    }

    /// Removes a registration. Files opened with it keep working.
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

/// The connection of one worker.
pub(crate) struct Connection {
    device: Arc<Device>,
    clone: Option<OwnedFd>,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.clone.as_ref().unwrap_or(&self.device.fd).as_fd()
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

/// Writes a message, which the device accepts whole or not at all.
pub(crate) fn write_whole(fd: BorrowedFd<'_>, message: &[u8]) -> Result<(), Errno> {
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

/// Takes ownership of a descriptor received through a control message.
pub(crate) fn own_received(number: i32) -> Option<OwnedFd> {
    // SAFETY: the number was just received and nothing else knows it.
    (number >= 0).then(|| unsafe { OwnedFd::from_raw_fd(number) })
}
