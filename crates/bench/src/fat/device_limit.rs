//! A limit on the transfer rate of a block device, which makes one in RAM as slow as a real one: blkio.throttle of cgroup v1, or
//! io.max of cgroup v2.
use std::fs::write;
use std::io::Error;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{major, minor, stat};

/// Transfer rate, in bytes per second, of the device in the part `limited`: that of a fast USB stick.
pub(crate) const LIMIT: u64 = 200_000_000;

const READ_LIMIT: &str = "blkio.throttle.read_bps_device";
const WRITE_LIMIT: &str = "blkio.throttle.write_bps_device";

/// A limit that is in force until [`DeviceLimit::remove`].
pub(crate) enum DeviceLimit {
    /// Of the root of a cgroup-v1 hierarchy, on the device with these numbers: everything that uses it is limited.
    Everyone(PathBuf, String),
    /// Of a cgroup of this process and its children, and the directory of the cgroup in which they were before.
    Group(PathBuf, PathBuf),
}

impl DeviceLimit {
    /// Limits reading and writing to that many bytes per second each.
    ///
    /// # Errors
    /// If the kernel has no controller of block devices, or it is not accessible.
    pub(crate) fn set(device: &Path, rate: u64) -> Result<Self> {
        let number = stat(device).with_context(|| format!("cannot stat {}", device.display()))?.st_rdev;
        let number = format!("{}:{}", major(number), minor(number));
        if let Some(root) = hierarchy("cgroup", READ_LIMIT) {
            limit_everyone(&root, &number, rate).context("cannot limit the device")?;
            return Ok(Self::Everyone(root, number));
        }
        let root = hierarchy("cgroup2", "cgroup.subtree_control").context("no control groups are mounted")?;
        // Writes from the page cache are only counted with memory.
        write(root.join("cgroup.subtree_control"), "+io +memory").context("the kernel cannot limit a device")?;
        let own = std::fs::read_to_string("/proc/self/cgroup").context("no /proc/self/cgroup")?;
        let previous = own.lines().find_map(|line| line.strip_prefix("0::/")).context("no cgroup of this process")?;
        let group = root.join(format!("plyfs-bench.{}", std::process::id()));
        let entered = enter_limited_group(&group, &number, rate);
        let limit = Self::Group(group, root.join(previous));
        entered.inspect_err(|_| limit.remove()).context("cannot limit the device").map(|()| limit)
    }

    /// Ends the limit. All children must have ended; a failure is reported on standard error.
    pub(crate) fn remove(&self) {
        let outcome = match self {
            // A rate of zero is no limit.
            Self::Everyone(root, number) => limit_everyone(root, number, 0),
            Self::Group(group, previous) => {
                write(previous.join("cgroup.procs"), "0").and_then(|()| std::fs::remove_dir(group))
            }
        };
        if let Err(error) = outcome {
            eprintln!("bench: cannot end the limit on the device: {error}");
        }
    }
}

fn limit_everyone(root: &Path, device: &str, rate: u64) -> Result<(), Error> {
    [READ_LIMIT, WRITE_LIMIT].iter().try_for_each(|file| write(root.join(file), format!("{device} {rate}")))
}

fn enter_limited_group(group: &Path, device: &str, rate: u64) -> Result<(), Error> {
    std::fs::create_dir(group)?;
    write(group.join("io.max"), format!("{device} rbps={rate} wbps={rate}"))?;
    write(group.join("cgroup.procs"), "0")
}

/// Returns where a hierarchy of that type is mounted that has the file.
fn hierarchy(kind: &str, file: &str) -> Option<PathBuf> {
    let table = procfs::mount_table::read().ok()?;
    procfs::mount_table::mounts(&table)
        .filter(|mount| *mount.kind == *kind.as_bytes())
        .map(|mount| PathBuf::from(std::ffi::OsStr::from_bytes(&mount.mount_point)))
        .find(|root| root.join(file).exists())
}
