//! Processes and threads: which there are, and the files of each.

use std::ffi::OsString;
use std::fs;
use std::io::Result;
use std::path::PathBuf;

use crate::id_map::{IdKind, IdMap};
use crate::read::{field, number, read, unless_gone, words};
use crate::stat::Stat;
use crate::status::Status;

/// A process or thread, whose files are read each time that they are asked for: it may end meanwhile, and its number become
/// another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The calling process.
    Own,
    /// The calling thread.
    OwnThread,
    /// The thread of the calling process that has this number.
    ThreadOfOwn(u32),
    /// The process or thread that has this number in the PID namespace of /proc.
    Numbered(u32),
}

impl Process {
    /// Reads its [`Status`]; `None` if it has ended.
    ///
    /// # Errors
    /// Those of open(2) and read(2).
    pub fn status(self) -> Result<Option<Status>> {
        Ok(self.read("status")?.map(Status::from))
    }

    /// Reads its [`Stat`]; `None` if it has ended.
    ///
    /// # Errors
    /// Those of open(2) and read(2).
    pub fn stat(self) -> Result<Option<Stat>> {
        Ok(self.read("stat")?.map(Stat::from))
    }

    /// Reads how its user namespace maps IDs; `None` if it has ended, or the kernel has no user namespaces.
    ///
    /// # Errors
    /// Those of open(2) and read(2).
    pub fn id_map(self, kind: IdKind) -> Result<Option<IdMap>> {
        Ok(self.read(kind.file())?.map(IdMap::from))
    }

    /// Reads its mount table, for [`mounts`](crate::mount_table::mounts); `None` if it has ended.
    ///
    /// # Errors
    /// Those of open(2) and read(2).
    pub fn mount_table(self) -> Result<Option<Vec<u8>>> {
        self.read("mountinfo")
    }

    /// Returns its name, any 15 bytes of its choice; `None` if it has ended.
    ///
    /// # Errors
    /// Those of open(2) and read(2).
    pub fn name(self) -> Result<Option<Vec<u8>>> {
        let without_newline = |mut name: Vec<u8>| {
            name.pop_if(|last| *last == b'\n');
            name
        };
        Ok(self.read("comm")?.map(without_newline))
    }

    /// Returns the path of the program that it executes; `None` if it has ended or is a kernel thread.
    ///
    /// # Errors
    /// Those of readlink(2).
    pub fn executable(self) -> Result<Option<PathBuf>> {
        unless_gone(fs::read_link(self.path("exe")))
    }

    /// Returns the identity of its namespace of a kind (`mnt`, `user`): equal for processes that share one. `None` if it has
    /// ended.
    ///
    /// # Errors
    /// Those of readlink(2).
    pub fn namespace(self, kind: &str) -> Result<Option<OsString>> {
        Ok(unless_gone(fs::read_link(self.path(&format!("ns/{kind}"))))?.map(PathBuf::into_os_string))
    }

    /// Returns the variables of the environment with which it was started, as `NAME=value`; `None` if it has ended.
    ///
    /// # Errors
    /// Those of open(2) and read(2).
    pub fn environment(self) -> Result<Option<Vec<Vec<u8>>>> {
        let variables = |text: Vec<u8>| text.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
        Ok(self.read("environ")?.map(variables))
    }

    /// Returns whether it has a command line: kernel threads and processes that only wait to be reaped have none. `None` if it
    /// has ended.
    ///
    /// # Errors
    /// Those of open(2) and read(2).
    pub fn has_command_line(self) -> Result<Option<bool>> {
        Ok(self.read("cmdline")?.map(|line| !line.is_empty()))
    }

    /// Returns its resident memory in bytes, as the kernel counts it between updates of its exact counters; `None` if it has
    /// ended.
    ///
    /// # Errors
    /// Those of open(2) and read(2).
    pub fn resident_bytes(self) -> Result<Option<u64>> {
        let pages = self.read("statm")?.and_then(|text| number::<u64>(words(&text).nth(1)?));
        Ok(pages.map(|pages| pages * rustix::param::page_size() as u64))
    }

    /// Returns the numbers of the FUSE connections that it has open: of the device numbers of their file systems, the minor
    /// ones. Empty if the kernel does not report them, as older ones; `None` if it has ended.
    ///
    /// # Errors
    /// Those of open(2) and read(2): only a process that the caller may trace shows its descriptors.
    pub fn fuse_connections(self) -> Result<Option<Vec<u32>>> {
        let Some(descriptors) = unless_gone(fs::read_dir(self.path("fdinfo")))? else { return Ok(None) };
        let mut connections = Vec::new();
        for descriptor in descriptors {
            let Some(descriptor) = unless_gone(descriptor)? else { break };
            let text = self.read(&format!("fdinfo/{}", descriptor.file_name().display()))?.unwrap_or_default();
            connections.extend(field(&text, "fuse_connection").and_then(number::<u32>));
        }
        Ok(Some(connections))
    }

    fn read(self, file: &str) -> Result<Option<Vec<u8>>> {
        unless_gone(read(&self.path(file)))
    }

    fn path(self, file: &str) -> String {
        match self {
            Self::Own => format!("/proc/self/{file}"),
            Self::OwnThread => format!("/proc/thread-self/{file}"),
            Self::ThreadOfOwn(thread) => format!("/proc/self/task/{thread}/{file}"),
            Self::Numbered(number) => format!("/proc/{number}/{file}"),
        }
    }
}

/// Returns the numbers of all visible processes.
///
/// # Errors
/// Those of open(2): without /proc nothing is visible.
pub fn all_processes() -> Result<impl Iterator<Item = Result<u32>>> {
    let process = |entry: Result<fs::DirEntry>| match entry {
        Ok(entry) => entry.file_name().to_str()?.parse().ok().map(Ok),
        Err(error) => Some(Err(error)),
    };
    Ok(fs::read_dir("/proc")?.filter_map(process))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::status::SignalSet;

    #[test]
    fn the_own_process_is_described_under_all_its_names() {
        let (own, thread) = (std::process::id(), rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
        assert!(all_processes().unwrap().any(|process| process.unwrap() == own));
        let subjects = [Process::Own, Process::OwnThread, Process::ThreadOfOwn(thread), Process::Numbered(own)];
        for process in subjects {
            assert_eq!(process.status().unwrap().unwrap().process(), Some(own), "{process:?}");
            let parent = process.stat().unwrap().unwrap().parent();
            assert_eq!(parent, Some(std::os::unix::process::parent_id()), "{process:?}");
        }
        assert_eq!(Process::Own.executable().unwrap(), std::env::current_exe().ok());
        assert_eq!(Process::Own.namespace("mnt").unwrap(), Process::OwnThread.namespace("mnt").unwrap());
        assert!(Process::Own.resident_bytes().unwrap() > Some(1 << 16));
        assert_eq!(Process::Own.has_command_line().unwrap(), Some(true));
    }

    #[test]
    fn a_name_that_is_neither_text_nor_a_word_hides_no_field() {
        let name = b"\xff) S 1\n2 (";
        let script =
            "import sys; open('/proc/self/comm', 'wb').write(b'\\xff) S 1\\n2 ('); print(flush=True); sys.stdin.read()";
        let mut command = Command::new("python3");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            eprintln!("skipped: this needs python3");
            return;
        };
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let process = Process::Numbered(child.id());
        let (stat, status) = (process.stat().unwrap().unwrap(), process.status().unwrap().unwrap());
        let found = process.name().unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(found.as_deref(), Some(&name[..]));
        assert_eq!((stat.parent(), stat.thread_count()), (Some(std::process::id()), Some(1)));
        assert_eq!(status.process(), Some(child.id()));
        assert_eq!(status.uids().map(|ids| ids.real), Some(rustix::process::getuid().as_raw()));
        assert_eq!(status.signals(SignalSet::Blocked), Some(0));
    }

    #[test]
    fn what_has_ended_is_none() {
        let mut child = Command::new("true").spawn().unwrap();
        let process = Process::Numbered(child.id());
        child.wait().unwrap();
        assert!(process.status().unwrap().is_none());
        assert!(process.stat().unwrap().is_none());
        assert_eq!(process.namespace("mnt").unwrap(), None);
        assert_eq!(process.name().unwrap(), None);
    }
}
