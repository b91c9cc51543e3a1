//! Processes as the kernel describes them: number, parent, session and program.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use procfs::Stat;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process, distinct from any later one with the same number.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// Start time in clock ticks since boot.
    pub(crate) start_time: u64,
    /// Distinguishes processes started within one tick; `None` where the kernel does not support it.
    pub(crate) pidfd: Option<Arc<PidFd>>,
}

impl Process {
    /// The process that has this number now.
    pub(crate) fn current(pid: u32) -> Option<Self> {
        // The pidfd is opened first: what is read describes whoever has the number then, and if that is another process, the
        // first counts as ended.
        let pidfd = PidFd::new(pid).map(Arc::new);
        Some(Self { pid, start_time: stat(pid)?.start_time()?, pidfd })
    }

    /// Returns whether the process still has its number, even if only as a zombie.
    pub(crate) fn still_exists(&self) -> bool {
        let is_alive = self.is_alive();
        let is_same =
            |stat: Stat| stat.start_time() == Some(self.start_time) && (is_alive || !has_running_thread(&stat));
        stat(self.pid).is_some_and(is_same)
    }

    /// Returns whether it runs and is in this session, as far as that is known now.
    pub(crate) fn is_in(&self, session: u32) -> bool {
        let found = Self::start_time_in(self.pid, session);
        found.is_ok_and(|start_time| start_time == Some(self.start_time)) && self.is_alive()
    }

    fn is_alive(&self) -> bool {
        self.pidfd.as_ref().is_none_or(|pidfd| pidfd.is_alive())
    }

    /// The process that has this number now, if it runs and is in this session.
    ///
    /// # Errors
    /// The reason why that is unknown now.
    pub(crate) fn in_session(pid: u32, session: u32) -> io::Result<Option<Self>> {
        if Self::start_time_in(pid, session)?.is_none() {
            return Ok(None);
        }
        Ok(Self::current(pid).filter(|process| process.is_in(session)))
    }

    /// Start time of the process that has this number now, if it runs and is in this session.
    fn start_time_in(pid: u32, session: u32) -> io::Result<Option<u64>> {
        let Some(stat) = procfs::Process::Numbered(pid).stat()? else { return Ok(None) };
        let is_in = has_running_thread(&stat) && stat.session() == Some(session);
        Ok(stat.start_time().filter(|_| is_in))
    }
}

/// A pidfd of a process, given by the number of its first thread, or of one of its other threads, so that its number is not
/// mistaken for another's.
#[derive(Debug)]
pub(crate) struct PidFd(OwnedFd);

impl PidFd {
    /// Opens the process or thread that has this number now. `None` if the kernel does not support it.
    pub(crate) fn new(thread: u32) -> Option<Self> {
        /// Flag for a single thread rather than its process: `PIDFD_THREAD`, since Linux 6.9.
        const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);
        let number = number(thread)?;
        // A process may outlive its first thread, and keeps its number.
        pidfd_open(number, PidfdFlags::empty()).or_else(|_| pidfd_open(number, PIDFD_THREAD)).ok().map(Self)
    }

    /// Returns whether it has not ended.
    pub(crate) fn is_alive(&self) -> bool {
        self.poll(Timespec::default()) == Ok(0)
    }

    /// Waits until it has ended, at most for the given time.
    pub(crate) fn wait(&self, longest: Duration) {
        // A signal only shortens the wait.
        let _ = self.poll(longest.try_into().unwrap_or_default());
    }

    fn poll(&self, longest: Timespec) -> rustix::io::Result<usize> {
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&longest))
    }
}

/// Session of a process or thread; `None` if it has ended, or if the session belongs to another container.
pub(crate) fn session(thread: u32) -> Option<u32> {
    stat(thread)?.session().filter(|session| *session != 0)
}

/// The process that a thread belongs to.
pub(crate) fn process_of(thread: u32) -> Option<u32> {
    procfs::Process::Numbered(thread).status().ok()??.process()
}

/// Parent of a process; 0 if it is not visible.
pub(crate) fn parent(process: u32) -> Option<u32> {
    stat(process)?.parent()
}

/// Returns whether a process runs; also `true` if that is unknown now.
pub(crate) fn is_running(process: u32) -> bool {
    procfs::Process::Numbered(process).stat().map_or(true, |stat| stat.is_some_and(|stat| has_running_thread(&stat)))
}

/// Any visible process that runs in a session.
///
/// # Errors
/// The reason why that is unknown now.
pub(crate) fn any_in_session(session: u32) -> io::Result<Option<Process>> {
    let mut unknown = None;
    for process in procfs::all_processes()? {
        match Process::in_session(process?, session) {
            Ok(None) => {}
            Ok(found) => return Ok(found),
            Err(error) => unknown = Some(error),
        }
    }
    unknown.map_or(Ok(None), Err)
}

/// All visible processes.
pub(crate) fn all_processes() -> Vec<u32> {
    procfs::all_processes().into_iter().flatten().flatten().collect()
}

/// A query for a thread's program, and the channel for the result.
type ProgramQuery = (u32, Sender<Option<Vec<u8>>>);

/// Thread that looks up programs, with the privileges that the process had when it was started: a thread that acts for a user
/// may not see the programs of others' processes.
static PROGRAM_RESOLVER: LazyLock<Sender<ProgramQuery>> = LazyLock::new(|| {
    let (queries, requests) = channel::<ProgramQuery>();
    let resolve = move || {
        for (thread, replies) in requests {
            let path = procfs::Process::Numbered(thread).executable().ok().flatten();
            // The receiver may have given up.
            let _ = replies.send(path.map(|path| path.into_os_string().into_vec()));
        }
    };
    // Without the thread nobody's program is known.
    let _ = std::thread::Builder::new().name("union-programs".into()).spawn(vnode::as_server(resolve));
    queries
});

/// Starts the look-up thread, while the calling thread has all privileges of the process.
pub(crate) fn start_program_resolver() {
    LazyLock::force(&PROGRAM_RESOLVER);
}

/// Path of the program that a thread runs, as seen by this process.
pub(crate) fn executable(thread: u32) -> Option<Vec<u8>> {
    let (replies, reply) = channel();
    PROGRAM_RESOLVER.send((thread, replies)).ok()?;
    reply.recv().ok()?
}

/// Returns whether any thread of a process runs. The first may have ended before others, and stays until they have.
fn has_running_thread(stat: &Stat) -> bool {
    !matches!(stat.state(), Some(b'Z' | b'X')) || stat.thread_count() > Some(1)
}

fn stat(process: u32) -> Option<Stat> {
    procfs::Process::Numbered(process).stat().ok()?
}

fn number(process: u32) -> Option<Pid> {
    Pid::from_raw(process.try_into().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_is_described() {
        let own = std::process::id();
        let process = Process::current(own).unwrap();
        assert!(process.still_exists());
        assert_eq!(parent(own), Some(std::os::unix::process::parent_id()));
        assert_eq!(process_of(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()), Some(own));
        assert!(PidFd::new(own).unwrap().is_alive());
        assert_eq!(executable(own).map(|path| path.is_empty()), Some(false));
        let mut child = std::process::Command::new("setsid").args(["sleep", "1000"]).spawn().unwrap();
        while session(child.id()) != Some(child.id()) {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(session(child.id()), None);
    }

    #[test]
    fn process_outlives_its_first_thread() {
        let script = "import ctypes, os, platform, threading\n\
                      open('/proc/self/comm', 'wb').write(b'\\xff) S 1')\n\
                      threading.Thread(target=lambda: os.read(0, 1)).start()\n\
                      ctypes.CDLL(None).syscall({'x86_64': 60}.get(platform.machine(), 93), 0)";
        let mut command = std::process::Command::new("python3");
        let mut child = command.args(["-c", script]).stdin(std::process::Stdio::piped()).spawn().unwrap();
        let id = child.id();
        let pidfd = PidFd::new(id).unwrap();
        while stat(id).unwrap().state() != Some(b'Z') {
            std::thread::yield_now();
        }
        assert!(is_running(id) && pidfd.is_alive() && process_of(id) == Some(id));
        assert_eq!((parent(id), session(id)), (Some(std::process::id()), session(std::process::id())));
        drop(child.stdin.take());
        while pidfd.is_alive() {
            std::thread::yield_now();
        }
        assert!(!is_running(id), "nobody has waited for it yet");
        child.wait().unwrap();
        assert!(!is_running(id));
    }

    #[test]
    fn ended_process_no_longer_exists() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let (process, pidfd) = (Process::current(child.id()).unwrap(), PidFd::new(child.id()).unwrap());
        assert!(process.still_exists() && pidfd.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!process.still_exists() && !pidfd.is_alive());
    }
}
