//! The location of a run's lower files: an ext4 image in memory where possible, otherwise a plain directory.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use bases::device::FileDevice;
use bases::fat::format::FatWidth;
use bases::fat::tools::mkfs::{MkfsOptions, mkfs};
use layers::BranchMode;
use tempfile::TempDir;

/// A directory for lower files. Dropping it removes everything.
pub struct TestDirectory {
    directory: TempDir,
    path: PathBuf,
    is_mounted: bool,
}

impl TestDirectory {
    /// Mounts an ext4 file system of this size in memory; uses a plain directory where mounting is not possible.
    ///
    /// # Errors
    /// Fails if the directory cannot be created.
    pub fn image(mebibytes: u64) -> io::Result<Self> {
        let mut test_directory = Self::plain()?;
        if rustix::process::geteuid().is_root() {
            test_directory.is_mounted = test_directory.mount_image(mebibytes).is_ok_and(|mounted| mounted);
        }
        Ok(test_directory)
    }

    /// Creates a plain directory.
    ///
    /// # Errors
    /// Fails if it cannot be created.
    pub fn plain() -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("plyfs-suite").tempdir()?;
        let path = directory.path().join("files");
        fs::create_dir(&path)?;
        // Several users act below it.
        for directory in [directory.path(), &path] {
            fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        }
        Ok(Self { directory, path, is_mounted: false })
    }

    /// Returns the directory for the lower files.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a directory beside the lower files, created if it does not exist yet.
    ///
    /// # Errors
    /// Fails if it cannot be created.
    pub fn sibling(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.directory.path().join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// Returns whether the lower files are in an image of their own.
    pub fn is_image(&self) -> bool {
        self.is_mounted
    }

    fn mount_image(&self, mebibytes: u64) -> io::Result<bool> {
        let memory = Path::new("/dev/shm");
        let name = format!("{}.image", self.directory.path().file_name().unwrap_or_default().display());
        let image = if memory.is_dir() { memory.join(name) } else { self.directory.path().join(name) };
        // A file that already exists is not trusted.
        fs::File::options().write(true).create_new(true).mode(0o600).open(&image)?.set_len(mebibytes << 20)?;
        let is_formatted = succeeds(Command::new("mkfs.ext4").args(["-q", "-m", "0", "-E", "nodiscard"]).arg(&image));
        let mounted = is_formatted && succeeds(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&self.path));
        // The loop device keeps it open.
        fs::remove_file(&image)?;
        if mounted {
            let _ = fs::remove_dir(self.path.join("lost+found"));
        }
        Ok(mounted)
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        if self.is_mounted && !succeeds(Command::new("umount").arg(&self.path)) {
            succeeds(Command::new("umount").arg("--lazy").arg(&self.path));
        }
    }
}

/// Creates directories for branches with these modes.
///
/// # Errors
/// Fails if they cannot be created.
pub fn make_branches(test_directory: &TestDirectory, modes: &[BranchMode]) -> io::Result<Vec<(PathBuf, BranchMode)>> {
    let make = |(index, mode): (usize, &BranchMode)| {
        let path = test_directory.path().join(format!("branch{index}"));
        fs::create_dir(&path)?;
        Ok((path, *mode))
    };
    modes.iter().enumerate().map(make).collect()
}

/// Creates an empty FAT volume of this size in a file, and returns the path.
///
/// # Errors
/// Fails if it cannot be created, or if the size does not suit the width.
pub fn make_volume(test_directory: &TestDirectory, width: FatWidth, mebibytes: u64) -> io::Result<PathBuf> {
    let path = test_directory.path().join("volume");
    let device = Arc::new(FileDevice::create(&path, mebibytes << 20).map_err(io::Error::other)?);
    let clusters = match width {
        FatWidth::Fat12 => 128,
        FatWidth::Fat16 => 8,
        FatWidth::Fat32 => 1,
    };
    let options = MkfsOptions { width: Some(width), sectors_per_cluster: Some(clusters), ..MkfsOptions::default() };
    mkfs(device, &options, &mut |_| {}).map_err(io::Error::other)?;
    Ok(path)
}

fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
