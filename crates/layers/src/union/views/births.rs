//! Which processes begin and end, as the kernel tells those who may listen: by its connector for process events
//! (linux/cn_proc.h), which needs root outside of containers.
//!
//! The kernel queues the birth of a process before that runs. So whoever has taken all that is queued knows the parent of
//! each process that has made a request.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno as SystemError;
use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with, sockopt,
};

/// The events of all processes from now on.
pub(super) struct Births(OwnedFd);

/// What has happened to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Born {
        parent: u32,
        child: u32,
    },
    Ended(u32),
    /// More than there was room for.
    Lost,
}

/// The number of the connector, and its only group (`CN_IDX_PROC`, `CN_VAL_PROC`).
const CONNECTOR_PROCESSES: u32 = 1;
/// Room for the events of a build's tenth of a second.
const ROOM_BYTES: usize = 8 << 20;
/// A message to listen (`PROC_CN_MCAST_LISTEN`): header, header of the connector, one number.
const LISTEN: u32 = 1;
const MESSAGE_DONE: u16 = 3;
/// Where the event begins in a message: after both headers.
const EVENT_AT: usize = 36;
/// Where its numbers begin, after its kind, processor and time.
const NUMBERS_AT: usize = EVENT_AT + 16;
const KIND_FORK: u32 = 1;
const KIND_EXIT: u32 = 1 << 31;

impl Births {
    /// Listens; `None` where that is not allowed.
    pub(super) fn new() -> Option<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(CONNECTOR)).ok()?;
        // With less room more is lost, and then looked for.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, ROOM_BYTES);
        bind(&socket, &SocketAddrNetlink::new(0, CONNECTOR_PROCESSES)).ok()?;
        send(&socket, &listen_message(), SendFlags::empty()).ok()?;
        Some(Self(socket))
    }

    /// Tells of all that has happened since it was last asked, in order.
    pub(super) fn take(&self, mut tell: impl FnMut(Event)) {
        let mut buffer = [0; 4096];
        loop {
            match recv(&self.0, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((_, length)) => event(&buffer[..length.min(buffer.len())]).into_iter().for_each(&mut tell),
                Err(SystemError::INTR) => {}
                Err(SystemError::NOBUFS) => tell(Event::Lost),
                // Nothing more.
                Err(_) => return,
            }
        }
    }
}

impl AsFd for Births {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn listen_message() -> Vec<u8> {
    let mut message = Vec::new();
    let whole = (EVENT_AT + size_of::<u32>()) as u32;
    message.extend(whole.to_ne_bytes());
    message.extend(MESSAGE_DONE.to_ne_bytes());
    // Flags, sequence number and sender of the first header.
    message.extend([0; 2 + 4 + 4]);
    message.extend([CONNECTOR_PROCESSES, CONNECTOR_PROCESSES, 0, 0].map(u32::to_ne_bytes).concat());
    message.extend((size_of::<u32>() as u16).to_ne_bytes());
    message.extend([0; 2]);
    message.extend(LISTEN.to_ne_bytes());
    message
}

/// The event of a message, if it is about a process as a whole.
fn event(message: &[u8]) -> Option<Event> {
    let number = |index: usize| {
        let at = NUMBERS_AT + index * size_of::<u32>();
        message.get(at..at + size_of::<u32>()).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes)
    };
    let kind = u32::from_ne_bytes(message.get(EVENT_AT..EVENT_AT + size_of::<u32>())?.try_into().ok()?);
    match kind {
        // The parent's thread and process, the child's thread and process.
        KIND_FORK => {
            let (parent, thread, child) = (number(1)?, number(2)?, number(3)?);
            (thread == child).then_some(Event::Born { parent, child })
        }
        KIND_EXIT => {
            let (thread, process) = (number(0)?, number(1)?);
            (thread == process).then_some(Event::Ended(process))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn births_and_ends_are_told_in_order() {
        let Some(births) = Births::new() else {
            eprintln!("skipped: needs root outside of containers");
            return;
        };
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let id = child.id();
        child.wait().unwrap();
        let mut events = Vec::new();
        births.take(|event| events.push(event));
        let at = |wanted: Event| events.iter().position(|event| *event == wanted);
        let born = at(Event::Born { parent: std::process::id(), child: id });
        assert!(born.is_some() && born < at(Event::Ended(id)), "{id}: {events:?}");
    }

    #[test]
    fn what_is_too_short_is_no_event() {
        assert_eq!(event(&[]), None);
        let mut message = vec![0; NUMBERS_AT];
        message[EVENT_AT..EVENT_AT + 4].copy_from_slice(&KIND_FORK.to_ne_bytes());
        assert_eq!(event(&message), None);
    }
}
