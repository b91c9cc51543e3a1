//! An ext4 in RAM: a file on a tmpfs behind a loop device, in a mount namespace of its own.
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::teardown;

const WARM_UP_BYTES: usize = 256 << 20;

/// Moves this thread, and what it starts later, to a mount namespace of its own: nobody else sees the mounts of the
/// harness, and they go with its last process whatever happens. To be called before there are other threads.
pub fn enter_private_namespace() -> Result<()> {
    // SAFETY: only the mount namespace is unshared; no file descriptor and no memory is touched.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.context("cannot make a mount namespace")?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .context("cannot make the mounts of the namespace private")
}

/// The mounted file system, torn down when dropped.
pub struct Image {
    root: PathBuf,
    file_system: OwnedFd,
}

impl Image {
    /// Makes the file system, with room for that many inodes if given.
    pub fn create(bytes: u64, inodes: Option<u64>) -> Result<Self> {
        require_memory(bytes)?;
        let options = std::ffi::CString::new(format!("size={},mode=755", bytes + (1 << 30)))?;
        let root = teardown::make_root(|root| {
            mount("plyfs-bench", root, "tmpfs", MountFlags::empty(), &*options).context("cannot mount a tmpfs")
        })?;
        let image = match Self::mount(&root, bytes, inodes) {
            Ok(file_system) => Self { root, file_system },
            Err(error) => {
                teardown::end();
                return Err(error);
            }
        };
        image.warm_up()?;
        Ok(image)
    }

    /// The first writes to a new file system also set up its bitmaps: nobody's measurement is to pay for that.
    fn warm_up(&self) -> Result<()> {
        let file = self.directory().join("warm-up");
        std::fs::write(&file, vec![1; WARM_UP_BYTES])?;
        self.sync()?;
        std::fs::remove_file(&file)?;
        self.sync()
    }

    fn mount(root: &Path, bytes: u64, inodes: Option<u64>) -> Result<OwnedFd> {
        let file = root.join("image");
        let image = File::create(&file).context("cannot make the image")?;
        // All memory is taken now, so that no measurement pays for it.
        rustix::fs::fallocate(&image, FallocateFlags::empty(), 0, bytes).context("no room for the image")?;
        drop(image);
        let directory = root.join("ext4");
        std::fs::create_dir(&directory)?;
        let mut make = Command::new("mkfs.ext4");
        make.args(["-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]);
        if let Some(count) = inodes {
            make.arg("-N").arg(count.to_string());
        }
        quietly(make.arg(&file))?;
        quietly(Command::new("mount").args(["-t", "ext4", "-o", "loop"]).arg(&file).arg(&directory))?;
        rustix::fs::open(&directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .context("cannot open the file system in RAM")
    }

    /// The tmpfs around the image: for mount points and logs.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The ext4.
    pub fn directory(&self) -> PathBuf {
        self.root.join("ext4")
    }

    /// An empty directory to mount on, for each number another one.
    pub fn mount_point(&self, number: usize) -> Result<PathBuf> {
        let directory = self.root.join(format!("m{number}"));
        std::fs::create_dir_all(&directory)?;
        Ok(directory)
    }

    /// Writes everything back, so that what one step left behind is not paid for by the next.
    pub fn sync(&self) -> Result<()> {
        rustix::fs::syncfs(&self.file_system).context("cannot write back the file system in RAM")
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        teardown::end();
    }
}

fn quietly(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {name}: run scripts/bench-setup"))?;
    if !output.status.success() {
        bail!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// The image, and as much again as page cache while it is used, have to fit.
fn require_memory(bytes: u64) -> Result<()> {
    let information = std::fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    let available = information
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .context("no MemAvailable in /proc/meminfo")?
        << 10;
    if available < bytes + (2 << 30) {
        bail!(
            "{} MiB of memory are free, too few for a file system of {} MiB: use a smaller --image-gib",
            available >> 20,
            bytes >> 20
        );
    }
    Ok(())
}
