//! What a job may leave behind, and how it goes: processes, which are found by their mount namespace and by a variable, and
//! mounts, which go with them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getpid, pidfd_open, pidfd_send_signal};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// What is around one job. Without the rights to make a mount namespace, the job runs in that of this process.
#[derive(Debug)]
pub struct Enclosure {
    /// What the namespace is called in /proc, if there is one.
    namespace: Option<PathBuf>,
    /// What the processes of the job have in their environment, also those that make a namespace of their own.
    mark: String,
    /// The devices that were mounted by FUSE before.
    mounted: HashSet<String>,
}

/// Where tests that want memory have it. Root's are out of the reach of the machine's other users.
const MEMORY: &str = "/dev/shm";

/// Begins the mark in the environment.
const MARK: &str = "PLYFS_TEST_JOB";
const MOUNTS: &str = "/proc/thread-self/mountinfo";

impl Enclosure {
    /// Makes one for this thread and for what it starts from now on. Mounts of the machine that come or go are seen in it.
    ///
    /// # Errors
    /// Of unshare(2) and mount(2).
    pub fn enter() -> anyhow::Result<Self> {
        static JOBS: AtomicUsize = AtomicUsize::new(0);
        let mark = format!("{}.{}", std::process::id(), JOBS.fetch_add(1, Ordering::Relaxed));
        if !geteuid().is_root() {
            return Ok(Self { namespace: None, mark, mounted: HashSet::new() });
        }
        // SAFETY: descriptors stay shared with the other threads.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.context("making a mount namespace")?;
        let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
        mount_change("/", flags).context("keeping mounts in a mount namespace")?;
        let namespace = std::fs::read_link("/proc/thread-self/ns/mnt").context("reading /proc/thread-self/ns/mnt")?;
        if Path::new(MEMORY).is_dir() {
            // Set-id bits and devices have their effect, as on most file systems: above others they show none.
            mount("none", MEMORY, "tmpfs", MountFlags::empty(), Some(c"mode=1777"))
                .with_context(|| format!("mounting {MEMORY}"))?;
        }
        Ok(Self { namespace: Some(namespace), mark, mounted: fuse_mounts() })
    }

    /// Has the processes of a command be found.
    pub fn mark(&self, command: &mut Command) {
        command.env(MARK, &self.mark);
    }

    /// Ends the mounts that were made by FUSE here: whoever waits for a server that does not answer gets an error. A process that
    /// waits so cannot be killed, and is often the server itself.
    pub fn abort_mounts(&self) {
        const CONNECTIONS: &str = "/sys/fs/fuse/connections";
        if self.namespace.is_none() {
            return;
        }
        // Seen in this namespace only. It may be there already.
        let _ = mount("none", CONNECTIONS, "fusectl", MountFlags::empty(), None);
        for device in fuse_mounts().difference(&self.mounted) {
            if let Some((_, minor)) = device.split_once(':') {
                let _ = std::fs::write(format!("{CONNECTIONS}/{minor}/abort"), "1");
            }
        }
    }

    /// Kills the processes that are still in it.
    ///
    /// # Errors
    /// When some stay.
    pub fn clear(&self) -> anyhow::Result<()> {
        /// Somebody who is killed may have to wait for a disk.
        const PATIENCE: Duration = Duration::from_secs(10);
        let begin = Instant::now();
        while self.kill_all()? > 0 {
            anyhow::ensure!(begin.elapsed() < PATIENCE, "processes of it cannot be killed");
            if begin.elapsed() > PATIENCE / 2 {
                self.abort_mounts();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Kills the processes that are in it now: how many there were.
    ///
    /// # Errors
    /// When they cannot be looked for.
    pub fn kill_all(&self) -> anyhow::Result<usize> {
        let mark = format!("{MARK}={}", self.mark);
        let is_in_it = |process: Pid| {
            let of_process = |name: &str| format!("/proc/{}/{name}", process.as_raw_nonzero());
            let namespace = || std::fs::read_link(of_process("ns/mnt")).ok();
            let is_marked = || {
                let environment = std::fs::read(of_process("environ")).unwrap_or_default();
                environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
            };
            // What has ended is waited for by whoever started it.
            let has_ended = || std::fs::read(of_process("cmdline")).is_ok_and(|line| line.is_empty());
            let is_of_job = self.namespace.is_some() && namespace() == self.namespace || is_marked();
            is_of_job && !has_ended()
        };
        let kill = |process: Pid| {
            let Ok(process_fd) = pidfd_open(process, PidfdFlags::empty()) else { return };
            // Looked at once more: the number may have become another's before it was opened.
            if is_in_it(process) {
                let _ = pidfd_send_signal(process_fd, Signal::KILL);
            }
        };
        let entries = std::fs::read_dir("/proc").context("looking for processes in /proc")?;
        let names = entries.flatten().map(|entry| entry.file_name());
        let processes = names.filter_map(|name| Pid::from_raw(name.to_str()?.parse().ok()?));
        let left: Vec<Pid> = processes.filter(|process| *process != getpid() && is_in_it(*process)).collect();
        left.iter().copied().for_each(kill);
        Ok(left.len())
    }
}

/// The devices, MAJOR:MINOR, that are mounted by FUSE in the namespace of this thread.
fn fuse_mounts() -> HashSet<String> {
    let table = std::fs::read_to_string(MOUNTS).unwrap_or_default();
    let device = |line: &str| {
        let (mount, file_system) = line.split_once(" - ")?;
        let is_fuse = file_system.split(' ').next().is_some_and(|kind| kind == "fuse" || kind.starts_with("fuse."));
        is_fuse.then(|| mount.split(' ').nth(2).map(str::to_owned))?
    };
    table.lines().filter_map(device).collect()
}
