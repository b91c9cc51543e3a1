//! Cleans up after a job: its processes, which are found by their mount namespace and by an environment variable, and its
//! mounts, which are removed with them.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use procfs::Process;
use procfs::mount_table::{self, Mount};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getpid, pidfd_open, pidfd_send_signal};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// The environment of one job. Without permission to create a mount namespace, the job runs in that of this process.
#[derive(Debug)]
pub(crate) struct JobSandbox {
    /// The identifier of the namespace in /proc, if it was created.
    namespace: Option<OsString>,
    /// Value of the environment variable of the job's processes, including those that create a namespace of their own.
    mark: String,
    /// The devices of FUSE mounts that already existed.
    mounted: HashSet<u64>,
}

/// Directory in which tests use memory. Root's is out of reach of the machine's other users.
const SHARED_MEMORY: &str = "/dev/shm";

/// Name of the environment variable with the mark.
const JOB_VARIABLE: &str = "PLYFS_TEST_JOB";

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
        let namespace = Process::OwnThread.namespace("mnt").context("reading /proc/thread-self/ns/mnt")?;
        let namespace = namespace.context("/proc has no /proc/thread-self/ns/mnt")?;
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
            let _ = std::fs::write(format!("{CONNECTIONS}/{}/abort", rustix::fs::minor(*device)), "1");
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
            let process = Process::Numbered(process.as_raw_nonzero().get().unsigned_abs());
            let namespace = || process.namespace("mnt").ok().flatten();
            let is_marked = || {
                let environment = process.environment().unwrap_or_default().unwrap_or_default();
                environment.iter().any(|variable| variable == mark.as_bytes())
            };
            // Processes that have ended are reaped by their parents.
            let has_ended = || matches!(process.has_command_line(), Ok(Some(false)));
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
        let processes = procfs::all_processes().context("looking for processes in /proc")?;
        let processes = processes.flatten().filter_map(|process| Pid::from_raw(process.try_into().ok()?));
        let survivors: Vec<Pid> = processes.filter(|process| *process != getpid() && is_of_job(*process)).collect();
        survivors.iter().copied().for_each(kill);
        Ok(survivors.len())
    }
}

/// Returns the devices of FUSE mounts in the namespace of this thread.
fn fuse_mounts() -> HashSet<u64> {
    let table = mount_table::read().unwrap_or_default();
    mount_table::mounts(&table).filter(Mount::is_fuse).map(|mount| mount.device).collect()
}
