//! Tests of sessions over a socket that stands for the kernel.

use super::idle_workers::IDLE_WORKERS_MAX;
use super::starting::count_cpu_list;
use super::*;
use crate::fuse::protocol::features::Features;
use crate::fuse::protocol::negotiation::RequestedFeatures;
use crate::fuse::protocol::reply::Reply;
use crate::fuse::protocol::request::{Operation, Request};
use crate::fuse::protocol::wire::Opcode;
use crate::fuse::transport::deferred::DeferredReply;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use zerocopy::{FromBytes, IntoBytes};

/// The kernel's side of a connection: a socket that preserves message boundaries, as the device does.
struct Kernel(OwnedFd);

impl Kernel {
    fn connect() -> (Kernel, Arc<Device>) {
        let kind = SocketType::SEQPACKET;
        let (kernel, server) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        (Kernel(kernel), Arc::new(Device::from_fd(server)))
    }

    fn request(&self, unique: u64, opcode: u32, body: &[u8]) {
        self.request_of(0, unique, opcode, body);
    }

    /// Sends a request of a thread.
    fn request_of(&self, pid: u32, unique: u64, opcode: u32, body: &[u8]) {
        let length = (size_of::<wire::InHeader>() + body.len()) as u32;
        let header = wire::InHeader { length, opcode, unique, node: 1, pid, ..Default::default() };
        send(&self.0, &[header.as_bytes(), body].concat(), SendFlags::empty()).unwrap();
    }

    /// Sends a lookup by a user.
    fn look_up_by(&self, uid: u32, unique: u64, name: &[u8]) {
        let length = (size_of::<wire::InHeader>() + name.len()) as u32;
        let opcode = Opcode::Lookup as u32;
        let header = wire::InHeader { length, opcode, unique, node: 1, uid, ..Default::default() };
        send(&self.0, &[header.as_bytes(), name].concat(), SendFlags::empty()).unwrap();
    }

    fn init(&self, unique: u64, major: u32, minor: u32) {
        let offer = wire::InitIn { major, minor, flags: u32::MAX, ..Default::default() };
        self.request(unique, Opcode::Init as u32, offer.as_bytes());
    }

    /// Returns the next reply: its unique, its errno and its results.
    fn reply(&self) -> (u64, i32, Vec<u8>) {
        let mut message = [0; 4096];
        let (length, _) = recv(&self.0, &mut message, RecvFlags::empty()).unwrap();
        let (header, body) = wire::OutHeader::read_from_prefix(&message[..length]).unwrap();
        assert_eq!(header.length as usize, length);
        (header.unique, -header.error, body.to_vec())
    }

    fn reply_is_pending(&self) -> bool {
        recv(&self.0, &mut [0; 16], RecvFlags::DONTWAIT).is_ok()
    }
}

const REQUESTED: RequestedFeatures = RequestedFeatures {
    uring: false,
    passthrough: true,
    write_back: false,
    posix_acl: false,
    cache_symlinks: true,
    posix_locks: true,
    flock_locks: true,
    drop_changed_data: true,
    message_bytes_max: 65_536,
    background_max: 64,
    withheld: Features::NONE,
};

/// Answers lookups by their names.
struct NameHandler {
    gate: Mutex<mpsc::Receiver<()>>,
    closed: mpsc::Sender<()>,
}

impl Handler for NameHandler {
    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Outcome {
        match request.operation {
            Operation::Lookup { name: b"panic" } => panic!("as asked"),
            Operation::Lookup { name: b"wait" } => {
                let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
                gate.recv().unwrap();
                Outcome::Done
            }
            Operation::Lookup { name: b"cancelled" } => {
                let waited = request.cancellation.sleep(Duration::from_secs(600));
                Outcome::Failed(waited.unwrap_err().number())
            }
            Operation::Lookup { name } => {
                reply.put_bytes(name);
                Outcome::Done
            }
            Operation::Forget { .. } | Operation::Interrupt { .. } => Outcome::NoReply,
            _ => Outcome::Failed(libc::EPERM),
        }
    }

    fn defer(&self, _unique: u64, _reply: DeferredReply) {}

    fn give_up(&self, _unique: u64) -> Outcome {
        Outcome::Failed(libc::ENOLCK)
    }

    fn any_regular_file(&self) -> Option<u64> {
        None
    }

    fn closed(&self) {
        self.closed.send(()).unwrap();
    }
}

struct TestSession {
    kernel: Kernel,
    session: Session<NameHandler>,
    open_gate: mpsc::Sender<()>,
    closed: mpsc::Receiver<()>,
}

fn start() -> TestSession {
    let (kernel, device) = Kernel::connect();
    kernel.init(1, 7, 45);
    let negotiated = handshake(&device, &REQUESTED).unwrap();
    assert_eq!(kernel.reply().1, 0);
    let (open_gate, gate) = mpsc::channel();
    let (closed_sender, closed) = mpsc::channel();
    let handler = Arc::new(NameHandler { gate: Mutex::new(gate), closed: closed_sender });
    let session =
        Session::start(device, "/".as_ref(), handler, &negotiated, Arc::new(Statistics::new()), Duration::ZERO)
            .unwrap();
    TestSession { kernel, session, open_gate, closed }
}

#[test]
fn the_handshake_waits_for_a_version_that_both_speak() {
    let (kernel, device) = Kernel::connect();
    kernel.request(1, Opcode::GetAttributes as u32, &[0; 16]);
    kernel.init(2, 8, 0);
    kernel.init(3, 7, 38);
    assert_eq!(handshake(&device, &REQUESTED).unwrap().minor, 38);
    assert_eq!(kernel.reply().1, libc::EIO);
    let (unique, errno, again) = kernel.reply();
    assert_eq!((unique, errno, again[..4].to_vec()), (2, 0, 7u32.to_le_bytes().to_vec()));
    assert_eq!((kernel.reply().0, kernel.reply_is_pending()), (3, false));
}

#[test]
fn old_kernel_and_closed_connection_are_distinguished() {
    let (kernel, device) = Kernel::connect();
    kernel.init(1, 7, 30);
    assert!(matches!(handshake(&device, &REQUESTED), Err(SessionError::KernelTooOld { major: 7, minor: 30 })));
    assert_eq!(kernel.reply().1, libc::EPROTO);
    drop(kernel);
    assert!(matches!(handshake(&device, &REQUESTED), Err(SessionError::Closed)));
}

#[test]
fn invalid_requests_are_answered_and_the_session_continues() {
    let running = start();
    let kernel = &running.kernel;
    let send_request = |opcode: u32, body: &[u8]| {
        kernel.request(9, opcode, body);
        let (unique, errno, body) = kernel.reply();
        assert_eq!(unique, 9);
        (errno, body)
    };
    let look_up = Opcode::Lookup as u32;
    assert_eq!(send_request(9999, b""), (libc::ENOSYS, vec![]));
    assert_eq!(send_request(look_up, b"no end"), (libc::EINVAL, vec![]));
    assert_eq!(send_request(look_up, b"panic\0"), (libc::EIO, vec![]));
    assert_eq!(send_request(Opcode::StatFs as u32, b""), (libc::EPERM, vec![]));
    // Neither an invalid message nor a request without a reply gets one.
    send(&kernel.0, b"short", SendFlags::empty()).unwrap();
    kernel.request(8, Opcode::Forget as u32, &[0; 8]);
    assert_eq!(send_request(look_up, b"name\0"), (0, b"name".to_vec()));
}

#[test]
fn waiting_requests_do_not_block_others() {
    let running = start();
    const SLOW: u64 = 12;
    for unique in 0..SLOW {
        running.kernel.request(100 + unique, Opcode::Lookup as u32, b"wait\0");
    }
    running.kernel.request(7, Opcode::Lookup as u32, b"quick\0");
    assert_eq!(running.kernel.reply(), (7, 0, b"quick".to_vec()));
    assert!(running.session.workers() > SLOW as usize);
    (0..SLOW).for_each(|_| running.open_gate.send(()).unwrap());
    let mut answered: Vec<u64> = (0..SLOW).map(|_| running.kernel.reply().0).collect();
    answered.sort_unstable();
    assert_eq!(answered, (100..100 + SLOW).collect::<Vec<_>>());
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while running.session.workers() > IDLE_WORKERS_MAX {
        assert!(std::time::Instant::now() < deadline, "{} workers left", running.session.workers());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_end_of_the_connection_ends_the_session_once() {
    let running = start();
    assert!(!running.session.wait_timeout(Duration::from_millis(10)));
    drop(running.kernel);
    running.session.wait();
    assert_eq!(running.session.workers(), 0);
    running.closed.recv().unwrap();
    assert!(running.closed.try_recv().is_err());
}

#[test]
fn cpu_lists_are_counted() {
    for (list, count) in [("0-1\n", 2), ("0", 1), ("0-3,8,10-11", 7), ("", 0), ("x", 0), ("3-1", 0), ("0-65535", 0)] {
        assert_eq!(count_cpu_list(list), count, "{list:?}");
    }
}

#[test]
fn interrupt_cancels_the_request_of_a_killed_caller_in_either_order() {
    let running = start();
    let mut process = std::process::Command::new("true").spawn().unwrap();
    process.wait().unwrap();
    let interrupt = |unique: u64| running.kernel.request(0, Opcode::Interrupt as u32, unique.as_bytes());
    let look_up = |unique| {
        running.kernel.request_of(process.id(), unique, Opcode::Lookup as u32, b"cancelled\0");
    };
    for unique in (4..84).step_by(4) {
        look_up(unique);
        interrupt(unique);
        assert_eq!(running.kernel.reply(), (unique, libc::EINTR, Vec::new()));
        let next = unique + 2;
        interrupt(next);
        look_up(next);
        assert_eq!(running.kernel.reply(), (next, libc::EINTR, Vec::new()));
    }
    running.kernel.request(84, Opcode::Lookup as u32, b"name\0");
    assert_eq!(running.kernel.reply(), (84, 0, b"name".to_vec()));
}

#[test]
fn a_user_whose_requests_hang_leaves_workers_for_others() {
    const HANGING: u32 = 4_000_001;
    let running = start();
    let timeout = Some(Duration::from_secs(60));
    rustix::net::sockopt::set_socket_timeout(&running.kernel.0, rustix::net::sockopt::Timeout::Recv, timeout).unwrap();
    let uniques: std::collections::BTreeSet<u64> =
        (0..max_workers() as u64 + 50).map(|index| 100 + 2 * index).collect();
    for unique in &uniques {
        running.kernel.look_up_by(HANGING, *unique, b"wait\0");
    }
    for other in 1..=5 {
        running.kernel.look_up_by(HANGING + other, u64::from(2 * other), b"name\0");
        assert_eq!(running.kernel.reply(), (u64::from(2 * other), 0, b"name".to_vec()));
    }
    assert!(running.session.workers() < max_workers() * 3 / 4, "{}", running.session.workers());
    uniques.iter().for_each(|_| running.open_gate.send(()).unwrap());
    let answered = uniques.iter().map(|_| running.kernel.reply());
    let answered = answered.map(|(unique, errno, _)| (errno == 0).then_some(unique)).collect::<Option<_>>();
    assert_eq!(answered, Some(uniques), "what was set aside too");
    running.kernel.look_up_by(HANGING, 4, b"name\0");
    assert_eq!(running.kernel.reply(), (4, 0, b"name".to_vec()));
}
