//! Cleans up after a job: its processes, which are found by their mount namespace and by an environment variable, and its
//! mounts, which are removed with them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getpid, pidfd_open, pidfd_send_signal};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// The environment of one job. Without permission to create a mount namespace, the job runs in that of this process.
#[derive(Debug)]
pub(crate) struct JobSandbox {
    /// The identifier of the namespace in /proc, if it was created.
    namespace: Option<PathBuf>,
    /// Value of the environment variable of the job's processes, including those that create a namespace of their own.
    mark: String,
    /// The devices of FUSE mounts that already existed.
    mounted: HashSet<String>,
}

/// Directory in which tests use memory. Root's is out of reach of the machine's other users.
const SHARED_MEMORY: &str = "/dev/shm";

/// Name of the environment variable with the mark.
const JOB_VARIABLE: &str = "PLYFS_TEST_JOB";
const MOUNT_TABLE: &str = "/proc/thread-self/mountinfo";

impl JobSandbox {
    /// Creates one for this thread and for anything that it starts from now on. Mounts that the machine adds or removes are
    /// visible in it.
    ///
    /// # Errors
    /// Fails if unshare(2) or mount(2) does.
    pub(crate) fn enter() -> anyhow::Result<Self> {
        static JOB_COUNT: AtomicUsize = AtomicUsize::new(0);
        let mark = format!("{}.{}", std::process::id(), JOB_COUNT.fetch_add(1, Ordering::Relaxed));
        if !geteuid().is_root() {
            return Ok(Self { namespace: None, mark, mounted: HashSet::new() });
        }
        // SAFETY: descriptors stay shared with the other threads.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.context("making a mount namespace")?;
        let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
        mount_change("/", flags).context("keeping mounts in a mount namespace")?;
        let namespace = std::fs::read_link("/proc/thread-self/ns/mnt").context("reading /proc/thread-self/ns/mnt")?;
        if Path::new(SHARED_MEMORY).is_dir() {
            // Set-id bits and devices have effect here, as on most file systems: in stacks above others they are not shown.
            mount("none", SHARED_MEMORY, "tmpfs", MountFlags::empty(), Some(c"mode=1777"))
                .with_context(|| format!("mounting {SHARED_MEMORY}"))?;
        }
        Ok(Self { namespace: Some(namespace), mark, mounted: fuse_mounts() })
    }

    /// Marks the processes of a command, so that they are found.
    pub(crate) fn mark(&self, command: &mut Command) {
        command.env(JOB_VARIABLE, &self.mark);
    }

    /// Aborts the FUSE mounts created here: processes that wait for a server that does not reply get an error. Such a waiting
    /// process cannot be killed, and is often the server itself.
    pub(crate) fn abort_mounts(&self) {
        const CONNECTIONS: &str = "/sys/fs/fuse/connections";
        if self.namespace.is_none() {
            return;
        }
        // Visible in this namespace only. It may already be mounted.
        let _ = mount("none", CONNECTIONS, "fusectl", MountFlags::empty(), None);
        for device in fuse_mounts().difference(&self.mounted) {
            if let Some((_, minor)) = device.split_once(':') {
                let _ = std::fs::write(format!("{CONNECTIONS}/{minor}/abort"), "1");
            }
        }
    }

    /// Kills the processes of the job that are still running.
    ///
    /// # Errors
    /// Fails if some remain.
    pub(crate) fn clear(&self) -> anyhow::Result<()> {
        /// A killed process may still have to wait for a disk.
        const KILL_TIMEOUT: Duration = Duration::from_secs(10);
        let begin = Instant::now();
        while self.kill_all()? > 0 {
            anyhow::ensure!(begin.elapsed() < KILL_TIMEOUT, "processes of it cannot be killed");
            if begin.elapsed() > KILL_TIMEOUT / 2 {
                self.abort_mounts();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Kills the processes of the job that are running now, and returns their number.
    ///
    /// # Errors
    /// Fails if they cannot be searched for.
    pub(crate) fn kill_all(&self) -> anyhow::Result<usize> {
        let mark = format!("{JOB_VARIABLE}={}", self.mark);
        let is_of_job = |process: Pid| {
            let of_process = |name: &str| format!("/proc/{}/{name}", process.as_raw_nonzero());
            let namespace = || std::fs::read_link(of_process("ns/mnt")).ok();
            let is_marked = || {
                let environment = std::fs::read(of_process("environ")).unwrap_or_default();
                environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
            };
            // Processes that have ended are reaped by their parents.
            let has_ended = || std::fs::read(of_process("cmdline")).is_ok_and(|line| line.is_empty());
            let is_of_job = self.namespace.is_some() && namespace() == self.namespace || is_marked();
            is_of_job && !has_ended()
        };
        let kill = |process: Pid| {
            let Ok(process_fd) = pidfd_open(process, PidfdFlags::empty()) else { return };
            // Checked once more: the process ID may have been reused before it was opened.
            if is_of_job(process) {
                let _ = pidfd_send_signal(process_fd, Signal::KILL);
            }
        };
        let entries = std::fs::read_dir("/proc").context("looking for processes in /proc")?;
        let names = entries.flatten().map(|entry| entry.file_name());
        let processes = names.filter_map(|name| Pid::from_raw(name.to_str()?.parse().ok()?));
        let survivors: Vec<Pid> = processes.filter(|process| *process != getpid() && is_of_job(*process)).collect();
        survivors.iter().copied().for_each(kill);
        Ok(survivors.len())
    }
}

/// Returns the devices, MAJOR:MINOR, of FUSE mounts in the namespace of this thread.
fn fuse_mounts() -> HashSet<String> {
    let table = std::fs::read_to_string(MOUNT_TABLE).unwrap_or_default();
    let device = |line: &str| {
        let (mount, file_system) = line.split_once(" - ")?;
        let is_fuse = file_system.split(' ').next().is_some_and(|kind| kind == "fuse" || kind.starts_with("fuse."));
        is_fuse.then(|| mount.split(' ').nth(2).map(str::to_owned))?
    };
    table.lines().filter_map(device).collect()
}
