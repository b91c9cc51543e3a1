//! An ext4 file system in RAM: a file on a tmpfs behind a loop device, in a private mount namespace.
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::system_tools::run_quietly;
use crate::teardown;

const WARM_UP_BYTES: usize = 256 << 20;

/// Moves this thread, and everything it starts later, to a private mount namespace: the harness's mounts are invisible to
/// others, and disappear with its last process whatever happens. Must be called before there are other threads.
pub(crate) fn enter_private_namespace() -> Result<()> {
    // SAFETY: only the mount namespace is unshared; file descriptors and memory are not affected.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.context("cannot make a mount namespace")?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .context("cannot make the mounts of the namespace private")
}

/// Mounts a tmpfs of that size for images, mount points and logs; [`teardown::end`] unmounts and removes it.
pub(crate) fn mount_root(bytes: u64) -> Result<PathBuf> {
    let options = std::ffi::CString::new(format!("size={bytes},mode=755"))?;
    teardown::make_root(|root| {
        mount("plyfs-bench", root, "tmpfs", MountFlags::empty(), &*options).context("cannot mount a tmpfs")
    })
}

/// Creates the file of an image. All memory is allocated at once, so that no measurement includes that cost.
pub(crate) fn create_image_file(file: &Path, bytes: u64) -> Result<()> {
    let image = File::create(file).context("cannot make the image")?;
    rustix::fs::fallocate(&image, FallocateFlags::empty(), 0, bytes).context("no room for the image")
}

/// The mounted file system, unmounted and removed on drop.
pub(crate) struct Image {
    root: PathBuf,
    file_system: OwnedFd,
}

impl Image {
    /// Creates the file system, with space for this many inodes if given.
    pub(crate) fn create(bytes: u64, inodes: Option<u64>) -> Result<Self> {
        require_memory(bytes, 2 << 30)?;
        let root = mount_root(bytes + (1 << 30))?;
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

    /// Performs the first writes to the new file system, which also set up its bitmaps, so that no measurement includes that
    /// cost.
    fn warm_up(&self) -> Result<()> {
        let file = self.directory().join("warm-up");
        std::fs::write(&file, vec![1; WARM_UP_BYTES])?;
        self.sync()?;
        std::fs::remove_file(&file)?;
        self.sync()
    }

    fn mount(root: &Path, bytes: u64, inodes: Option<u64>) -> Result<OwnedFd> {
        let file = root.join("image");
        create_image_file(&file, bytes)?;
        let directory = root.join("ext4");
        std::fs::create_dir(&directory)?;
        let mut make = Command::new("mkfs.ext4");
        make.args(["-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]);
        if let Some(count) = inodes {
            make.arg("-N").arg(count.to_string());
        }
        run_quietly(make.arg(&file))?;
        run_quietly(Command::new("mount").args(["-t", "ext4", "-o", "loop"]).arg(&file).arg(&directory))?;
        rustix::fs::open(&directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .context("cannot open the file system in RAM")
    }

    /// Returns the path of the tmpfs that contains the image, for mount points and logs.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of the ext4 file system.
    pub(crate) fn directory(&self) -> PathBuf {
        self.root.join("ext4")
    }

    /// Returns an empty directory to mount on, a different one for each number.
    pub(crate) fn mount_point(&self, number: usize) -> Result<PathBuf> {
        let directory = self.root.join(format!("m{number}"));
        teardown::make_directory(&directory)?;
        Ok(directory)
    }

    /// Writes everything back, so that no step includes the cost of the previous one.
    pub(crate) fn sync(&self) -> Result<()> {
        rustix::fs::syncfs(&self.file_system).context("cannot write back the file system in RAM")
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        teardown::end();
    }
}

/// Fails unless an image, and that many bytes more for page cache while it is used, fit into memory.
pub(crate) fn require_memory(bytes: u64, spare: u64) -> Result<()> {
    let available = procfs::available_memory().context("no MemAvailable in /proc/meminfo")?;
    if available < bytes + spare {
        bail!(
            "{} MiB of memory are free, too few for a file system of {} MiB and {} MiB beside it: use a smaller one",
            available >> 20,
            bytes >> 20,
            spare >> 20
        );
    }
    Ok(())
}
