//! Processes as the kernel tells of them: who they are, whose children, of which session, what they run.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process and when it began, in ticks since the machine did: no later process of that number has both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::union) struct Process {
    pub(super) pid: u32,
    began: u64,
}

impl Process {
    /// The one that has this number now.
    pub(super) fn now(pid: u32) -> Option<Self> {
        Some(Self { pid, began: stat_field(pid, BEGAN)? })
    }

    /// Whether it is still there.
    pub(super) fn is_there(&self) -> bool {
        Self::now(self.pid) == Some(*self)
    }
}

/// A thread that may end, watched so that its number is not taken for another's.
pub(super) struct Watched(OwnedFd);

impl Watched {
    /// The thread that has this number now. `None` where the kernel cannot watch it.
    pub(super) fn new(thread: u32) -> Option<Self> {
        /// The thread alone, rather than its process: `PIDFD_THREAD`, since Linux 6.9.
        const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);
        let number = number(thread)?;
        pidfd_open(number, THREAD).or_else(|_| pidfd_open(number, PidfdFlags::empty())).ok().map(Self)
    }

    /// Whether it has not ended.
    pub(super) fn is_alive(&self) -> bool {
        let mut ended = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut ended, Some(&Timespec::default())) == Ok(0)
    }
}

/// The session of a process or thread; `None` if it has ended, or if the session is of another container.
pub(super) fn session(thread: u32) -> Option<u32> {
    stat_field(thread, SESSION)?.try_into().ok().filter(|session| *session != 0)
}

/// The process that a thread is of.
pub(super) fn process_of(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// The process that a process is a child of; 0 for none that can be seen.
pub(super) fn parent(process: u32) -> Option<u32> {
    stat_field(process, PARENT)?.try_into().ok()
}

/// All processes that can be seen.
pub(super) fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A question after a thread's program, and where the answer goes.
type Question = (u32, Sender<Option<Vec<u8>>>);

/// Asks for programs by a thread of its own, with the rights that the process had when it was started: one that acts for a user
/// may not see what others' processes run.
static ASKING: LazyLock<Sender<Question>> = LazyLock::new(|| {
    let (questions, asked) = channel::<Question>();
    let answer = move || {
        for (thread, answers) in asked {
            let path = fs::read_link(format!("/proc/{thread}/exe")).ok();
            // Who asked may have given up.
            let _ = answers.send(path.map(|path| path.into_os_string().into_vec()));
        }
    };
    // Without the thread nobody's program is known.
    let _ = std::thread::Builder::new().name("union-programs".into()).spawn(vnode::as_server(answer));
    questions
});

/// Gets ready to tell of programs, while the calling thread has all rights of the process.
pub(super) fn know_programs() {
    LazyLock::force(&ASKING);
}

/// The path of the program that a thread runs, as this process would call it.
pub(super) fn executable(thread: u32) -> Option<Vec<u8>> {
    let (answers, answer) = channel();
    ASKING.send((thread, answers)).ok()?;
    answer.recv().ok()?
}

/// Numbers of fields of /proc/PID/stat, from the one after the name as 0.
const PARENT: usize = 1;
const SESSION: usize = 3;
const BEGAN: usize = 19;

fn stat_field(process: u32, field: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name may hold blanks and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(field)?.parse().ok()
}

fn number(process: u32) -> Option<Pid> {
    Pid::from_raw(process.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known() {
        let own = std::process::id();
        let process = Process::now(own).unwrap();
        assert!(process.is_there());
        assert_eq!(parent(own), Some(std::os::unix::process::parent_id()));
        assert_eq!(process_of(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()), Some(own));
        assert!(Watched::new(own).unwrap().is_alive());
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
    fn a_process_that_has_ended_is_another() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let (process, watched) = (Process::now(child.id()).unwrap(), Watched::new(child.id()).unwrap());
        assert!(process.is_there() && watched.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!process.is_there() && !watched.is_alive());
    }
}
