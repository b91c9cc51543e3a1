//! Process fork and exit events, which the kernel sends to privileged listeners through its process events connector
//! (linux/cn_proc.h); this requires root outside of containers.
//!
//! The kernel queues the fork event of a process before the process runs. So whoever has drained the queue knows the parent of
//! each process that has made a request.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno as SystemError;
use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with, sockopt,
};
use rustix::rand::{GetRandomFlags, getrandom};

/// Events of all processes from now on.
pub(crate) struct ProcessEvents(OwnedFd);

/// A process event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessEvent {
    Forked {
        parent: u32,
        child: u32,
    },
    /// A thread of the process has ended, perhaps the last.
    Exited(u32),
    /// Events were dropped, since the queue was full.
    Lost,
}

/// Number of the connector, and of its only group (`CN_IDX_PROC`, `CN_VAL_PROC`).
const CONNECTOR_PROCESSES: u32 = 1;
/// Buffer size for the events of a tenth of a second of a build.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
/// Operation of a message that subscribes (`PROC_CN_MCAST_LISTEN`): header, header of the connector, one number.
const MULTICAST_LISTEN: u32 = 1;
const MESSAGE_DONE: u16 = 3;
/// Offset of the event in a message: after both headers.
const EVENT_OFFSET: usize = 36;
/// Offset in the connector's header of the acknowledgement number, which is one higher than the request's.
const ACK_OFFSET: usize = 28;
/// Offset of the event's numbers, after its kind, CPU and time.
const EVENT_DATA_OFFSET: usize = EVENT_OFFSET + 16;
/// Acknowledgement of a subscription, with an error number.
const KIND_ACK: u32 = 0;
const KIND_FORK: u32 = 1;
const KIND_EXIT: u32 = 1 << 31;

impl ProcessEvents {
    /// Subscribes; `None` if that is not allowed. In a container the kernel does not reply at all.
    pub(crate) fn new() -> Option<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(CONNECTOR)).ok()?;
        // With a smaller buffer more events are lost, which causes scans.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES);
        bind(&socket, &SocketAddrNetlink::new(0, CONNECTOR_PROCESSES)).ok()?;
        let mut request_id = [0; size_of::<u32>()];
        getrandom(&mut request_id, GetRandomFlags::empty()).ok()?;
        let request_id = u32::from_ne_bytes(request_id);
        send(&socket, &listen_message(request_id), SendFlags::empty()).ok()?;
        let events = Self(socket);
        let mut may_listen = false;
        // The acknowledgement is available once the request has been sent.
        events.receive(|message| {
            may_listen |= message.is_ok_and(|message| is_acknowledgement(message, request_id));
        });
        may_listen.then_some(events)
    }

    /// Reports everything that has happened since the last call, in order.
    pub(crate) fn drain(&self, mut report: impl FnMut(ProcessEvent)) {
        self.receive(|message| match message {
            Ok(message) => event(message).into_iter().for_each(&mut report),
            Err(BufferFull) => report(ProcessEvent::Lost),
        });
    }

    /// Receives all available messages.
    fn receive(&self, mut report: impl FnMut(Result<&[u8], BufferFull>)) {
        let mut buffer = [0; 4096];
        loop {
            match recv(&self.0, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((_, length)) => report(Ok(&buffer[..length.min(buffer.len())])),
                Err(SystemError::INTR) => {}
                Err(SystemError::NOBUFS) => report(Err(BufferFull)),
                // No more messages.
                Err(_) => return,
            }
        }
    }
}

/// A message was dropped, since the buffer was full.
struct BufferFull;

impl AsFd for ProcessEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Message that subscribes, with the number of the request.
fn listen_message(request_id: u32) -> Vec<u8> {
    let mut message = Vec::new();
    let whole = (EVENT_OFFSET + size_of::<u32>()) as u32;
    message.extend(whole.to_ne_bytes());
    message.extend(MESSAGE_DONE.to_ne_bytes());
    // Flags, sequence number and sender of the first header.
    message.extend([0; 2 + 4 + 4]);
    message.extend([CONNECTOR_PROCESSES, CONNECTOR_PROCESSES, 0, request_id].map(u32::to_ne_bytes).concat());
    message.extend((size_of::<u32>() as u16).to_ne_bytes());
    message.extend([0; 2]);
    message.extend(MULTICAST_LISTEN.to_ne_bytes());
    message
}

/// Returns whether a message acknowledges this request without an error.
fn is_acknowledgement(message: &[u8], request_id: u32) -> bool {
    let expected = [(EVENT_OFFSET, KIND_ACK), (EVENT_DATA_OFFSET, 0), (ACK_OFFSET, request_id.wrapping_add(1))];
    expected.into_iter().all(|(at, value)| number(message, at) == Some(value))
}

fn number(message: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(message.get(at..at + size_of::<u32>())?.try_into().ok()?))
}

/// The event of a message, if it is a known one.
fn event(message: &[u8]) -> Option<ProcessEvent> {
    let number_of = |index: usize| number(message, EVENT_DATA_OFFSET + index * size_of::<u32>());
    match number(message, EVENT_OFFSET)? {
        // The parent's thread and process, the child's thread and process.
        KIND_FORK => {
            let (parent, thread, child) = (number_of(1)?, number_of(2)?, number_of(3)?);
            (thread == child).then_some(ProcessEvent::Forked { parent, child })
        }
        // The thread, its process.
        KIND_EXIT => Some(ProcessEvent::Exited(number_of(1)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_root_outside_of_containers() -> bool {
        /// Inode numbers of the initial PID and user namespaces (`PROC_PID_INIT_INO`, `PROC_USER_INIT_INO`).
        const FIRST: [(&str, &str); 2] = [("pid", "pid:[4026531836]"), ("user", "user:[4026531837]")];
        let is_first = |(kind, name): (&str, &str)| {
            std::fs::read_link(format!("/proc/self/ns/{kind}")).is_ok_and(|found| found.as_os_str() == name)
        };
        let has_connector = std::path::Path::new("/proc/net/connector").exists();
        rustix::process::geteuid().is_root() && FIRST.into_iter().all(is_first) && has_connector
    }

    #[test]
    fn fork_and_exit_events_arrive_in_order() {
        let source = ProcessEvents::new();
        assert_eq!(source.is_some(), is_root_outside_of_containers());
        let Some(source) = source else { return };
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let id = child.id();
        child.wait().unwrap();
        let mut events = Vec::new();
        // The kernel may report an exit only after somebody has waited for it.
        while !events.contains(&ProcessEvent::Exited(id)) {
            source.drain(|event| events.push(event));
        }
        let at = |wanted: ProcessEvent| events.iter().position(|event| *event == wanted);
        let forked = at(ProcessEvent::Forked { parent: std::process::id(), child: id });
        assert!(forked.is_some() && forked < at(ProcessEvent::Exited(id)), "{id}: {events:?}");
    }

    #[test]
    fn truncated_message_is_ignored() {
        assert_eq!(event(&[]), None);
        let mut message = vec![0; EVENT_DATA_OFFSET];
        message[EVENT_OFFSET..EVENT_OFFSET + 4].copy_from_slice(&KIND_FORK.to_ne_bytes());
        assert_eq!(event(&message), None);
    }
}
