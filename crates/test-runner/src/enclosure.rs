//! A mount namespace for each job: what it mounts is gone when its processes are, and those that it leaves behind are found.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getpid, pidfd_open, pidfd_send_signal};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// The mount namespace of one job. Without the rights to make one, the job runs in that of this process.
#[derive(Debug)]
pub struct Enclosure {
    /// What it is called in /proc, if there is one.
    namespace: Option<PathBuf>,
}

impl Enclosure {
    /// Makes one for this thread and for what it starts from now on. Mounts of the machine that come or go are seen in it.
    ///
    /// # Errors
    /// Of unshare(2) and mount(2).
    pub fn enter() -> anyhow::Result<Self> {
        if !geteuid().is_root() {
            return Ok(Self { namespace: None });
        }
        // SAFETY: descriptors stay shared with the other threads.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.context("making a mount namespace")?;
        let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
        mount_change("/", flags).context("keeping mounts in a mount namespace")?;
        let namespace = std::fs::read_link("/proc/thread-self/ns/mnt").context("reading /proc/thread-self/ns/mnt")?;
        Ok(Self { namespace: Some(namespace) })
    }

    /// Kills the processes that are still in it.
    pub fn clear(&self) {
        /// Somebody who is killed may have to wait for a disk.
        const PATIENCE: Duration = Duration::from_secs(10);
        let begin = Instant::now();
        while self.kill_all() > 0 && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills the processes that are in it now: how many there were.
    fn kill_all(&self) -> usize {
        let Some(namespace) = &self.namespace else { return 0 };
        let is_in_it = |process: Pid| {
            let link = format!("/proc/{}/ns/mnt", process.as_raw_nonzero());
            std::fs::read_link(link).is_ok_and(|found| found == *namespace)
        };
        let kill = |process: Pid| {
            let Ok(process_fd) = pidfd_open(process, PidfdFlags::empty()) else { return };
            // Looked at once more: the number may have become another's before it was opened.
            if is_in_it(process) {
                let _ = pidfd_send_signal(process_fd, Signal::KILL);
            }
        };
        let names = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
        let processes = names.filter_map(|name| Pid::from_raw(name.to_str()?.parse().ok()?));
        let left: Vec<Pid> = processes.filter(|process| *process != getpid() && is_in_it(*process)).collect();
        left.iter().copied().for_each(kill);
        left.len()
    }
}
