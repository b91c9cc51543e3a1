//! The only module that uses the FUSE front end: mounting, serving, unmounting.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use frontends::fuse::{self, Mount, MountError, MountFlags, OperationStatistics};
use vnode::{FileSystem, FileSystemRef};

use crate::control::{HistogramSteps, OperationSummary};
use crate::exit::{Exit, Failure, Outcome};
use crate::options::{MountOptions, Uring};

/// Latencies of requests, and directories to mount on.
pub(crate) use frontends::fuse::{LatencyHistogram, MountPoint, UnmountMode};

/// Target of the log lines about individual operations.
pub(crate) const TRACE_TARGET: &str = fuse::TRACE_TARGET;

/// The parameters of a mount.
#[derive(Clone, Debug, Default)]
pub(crate) struct MountPlan {
    /// The mount point, in the form in which the kernel lists it.
    pub mount_point: PathBuf,
    /// The source that mount(8) shows.
    pub source: OsString,
    /// The mount options.
    pub options: MountOptions,
    /// The mount covers the base's own directory.
    pub over: bool,
}

/// A mount that serves requests. Dropping it unmounts.
pub(crate) struct ServedMount {
    mount: Mount,
    /// Processes that use the mount are no longer waited for.
    forced: AtomicBool,
}

/// Time that a mount being ended waits for the processes that use it.
const UNMOUNT_GRACE: Duration = Duration::from_secs(10);

impl ServedMount {
    /// Waits until the mount is gone and the last request is served, or until the end is forced.
    pub(crate) fn wait(&self) {
        const INTERVAL: Duration = Duration::from_millis(500);
        while !self.mount.wait_timeout(INTERVAL) {
            if self.forced.load(Ordering::Acquire) {
                return;
            }
        }
    }

    /// Makes the kernel write back its cached data of open files: nothing does so once the server has ended.
    fn write_back(&self) {
        const LONGEST: Duration = Duration::from_secs(30);
        let files = self.mount.writable_file_count();
        if files == 0 {
            return;
        }
        let seconds = LONGEST.as_secs();
        tracing::info!(files, "writing data that the kernel caches for open files, for at most {seconds} s");
        if !self.mount.write_back(LONGEST) {
            tracing::error!(files, "not all cached data of open files could be written; the rest is lost");
        }
    }

    /// Unmounts. Processes that use the mount may continue for some time; with `at_once`, their operations fail.
    pub(crate) fn unmount(&self, at_once: bool) {
        if !at_once {
            self.write_back();
            match self.mount.unmount(UnmountMode::Clean) {
                Ok(()) => return,
                Err(error) => {
                    let seconds = UNMOUNT_GRACE.as_secs();
                    tracing::warn!(%error, "the mount is in use; it ends in {seconds} s at the latest")
                }
            }
            let lazily = self.mount.unmount(UnmountMode::Lazy);
            if lazily.is_ok() && self.mount.wait_timeout(UNMOUNT_GRACE) {
                return;
            }
            self.write_back();
            tracing::warn!("programs still use the mount; what they write from now on is lost");
        }
        if let Err(error) = self.mount.unmount(UnmountMode::Abort) {
            tracing::debug!(%error, "the mount has been taken away already");
        }
        self.forced.store(true, Ordering::Release);
    }

    /// Unmounts after the processes that used the mount have ended; operations on files that others still have open fail.
    /// Returns whether nothing can change anything through the mount any more: not so if it is also mounted in another mount
    /// namespace, or if the kernel itself writes open files to the base.
    pub(crate) fn finish(&self) -> bool {
        const MAX_UNMOUNT_ATTEMPTS: usize = 20;
        const INTERVAL: Duration = Duration::from_millis(10);
        for _ in 0..MAX_UNMOUNT_ATTEMPTS {
            // A process that has just exited may not have released everything yet.
            if self.mount.unmount(UnmountMode::Clean).is_ok() {
                return self.mount.wait_timeout(UNMOUNT_GRACE);
            }
            std::thread::sleep(INTERVAL);
        }
        tracing::debug!("processes still use the mount");
        self.write_back();
        let is_written_below = self.mount.decisions().passthrough.is_ok() && self.mount.writable_file_count() > 0;
        self.unmount(true);
        self.mount.wait_timeout(UNMOUNT_GRACE) && !is_written_below
    }

    /// Applies a change of the mount's flags.
    pub(crate) fn flags_changed(&self, flags: &MountFlags) -> vnode::Result<()> {
        self.mount.flags_changed(flags)
    }

    /// Flushes everything written so far to storage, including the kernel's cached data.
    pub(crate) fn sync(&self) -> vnode::Result<()> {
        self.write_back();
        self.mount.sync()
    }

    /// Waits until the users of the mount see what has changed in the stack.
    pub(crate) fn wait_until_visible(&self) {
        const LONGEST: Duration = Duration::from_secs(30);
        if !self.mount.wait_until_notified(LONGEST) {
            tracing::warn!(
                "the kernel may still show names as they were before the last command: requests under way keep it busy"
            );
        }
    }

    /// Returns the number of requests answered, by operation, for the operations that occurred.
    pub(crate) fn requests(&self) -> BTreeMap<String, u64> {
        let counts = self.mount.statistics().into_iter();
        counts.map(|count| (count.operation.to_lowercase(), count.times.requests())).collect()
    }

    /// Returns the statistics since the mount, by operation.
    pub(crate) fn operations(&self) -> BTreeMap<String, OperationSummary> {
        let all = self.mount.statistics().into_iter();
        let steps = |one: &OperationStatistics| OperationSummary { failures: one.failures, times: one.times.buckets() };
        all.map(|one| (one.operation.to_lowercase(), steps(&one))).collect()
    }

    /// Returns the time that the parts of the stack took of the sampled requests.
    pub(crate) fn parts(&self) -> BTreeMap<String, HistogramSteps> {
        self.mount.parts().into_iter().map(|one| (one.part.to_owned(), one.times.buckets())).collect()
    }

    /// Returns the number of threads that serve requests.
    pub(crate) fn workers(&self) -> usize {
        self.mount.workers()
    }

    /// Returns the transport of requests from the kernel, and the reason for it.
    pub(crate) fn transport(&self) -> String {
        self.mount.decisions().transport()
    }

    /// Returns the number of objects that the kernel holds references to.
    pub(crate) fn objects(&self) -> u64 {
        self.mount.nodes()
    }
}

/// Returns as text the decisions about caching and the data path that follow from the stack, the plan and the running kernel.
pub(crate) fn decisions(file_system: &dyn FileSystem, plan: &MountPlan) -> String {
    fuse::explain(&file_system.properties(), &options(plan)).to_string()
}

/// Mounts on this directory, and returns when the mount is usable.
pub(crate) fn mount(file_system: FileSystemRef, point: &MountPoint, plan: &MountPlan) -> Outcome<ServedMount> {
    if file_system.properties().needs.overlay && !plan.over {
        let message = "the stack is to be mounted over its base (mntstyle overlay): \
            write plyfs mount --over DIRECTORY and the layers";
        return Err(Failure::new(Exit::Usage, message));
    }
    let started = Instant::now();
    let mount = Mount::on(file_system, point, &options(plan)).map_err(|error| failure(&error))?;
    tracing::debug!(milliseconds = started.elapsed().as_millis(), "mount made");
    Ok(ServedMount { mount, forced: AtomicBool::new(false) })
}

fn options(plan: &MountPlan) -> fuse::MountOptions {
    let options = &plan.options;
    fuse::MountOptions {
        source: plan.source.clone(),
        flags: options.flags,
        // A mount by root is accessible to all users, as with any other file system: the base decides by the caller's
        // permissions.
        allow_other: options.allow_other.unwrap_or_else(|| rustix::process::geteuid().is_root()),
        default_permissions: options.default_permissions.then_some(true),
        name_timeout: options.entry_timeout,
        attribute_timeout: options.attribute_timeout,
        over: plan.over,
        max_read: options.max_read_bytes,
        read_ahead: options.read_ahead_bytes,
        passthrough: options.passthrough.unwrap_or(true),
        forward_locks: options.base_locks,
        write_back: options.write_back,
        stay_awake: options.stay_awake,
        uring: match options.uring {
            None | Some(Uring::Auto) => fuse::Uring::Auto,
            Some(Uring::On) => fuse::Uring::On,
            Some(Uring::Off) => fuse::Uring::Off,
        },
        withheld: options.withheld,
    }
}

fn failure(error: &MountError) -> Failure {
    let exit = match error {
        MountError::NoDevice | MountError::NoHelper => Exit::NoFuse,
        MountError::DevicePermission
        | MountError::MountPointPermission(_)
        | MountError::NotPermitted
        | MountError::AllowOtherRefused => Exit::Permission,
        MountError::MountPointMissing(_) | MountError::MountPointNotDirectory(_) => Exit::MountPoint,
        MountError::MountPointBusy(_) | MountError::MountPointDead(_) => Exit::Mounted,
        MountError::Helper(message) if message.contains("no write access") || message.contains("not permitted") => {
            Exit::Permission
        }
        MountError::Helper(_)
        | MountError::NoUring(_)
        | MountError::NoWriteBack(_)
        | MountError::BadPath(_)
        | MountError::KernelTooOld { .. }
        | MountError::Vanished
        | MountError::System { .. } => Exit::Mount,
    };
    match (error, exit) {
        (MountError::Helper(_), Exit::Permission) => {
            Failure::new(exit, format!("{error}; choose a mount point that you own, or run as root"))
        }
        (MountError::Helper(_), _) => Failure::new(exit, format!("{error}; fix that, or run as root")),
        _ => Failure::new(exit, error),
    }
}
