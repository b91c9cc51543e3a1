//! An image of fixed size in RAM behind a loop device, which is formatted anew for each subject.
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::image::create_image_file;
use crate::system_tools::run_quietly;
use crate::teardown;

/// The file system that a volume is formatted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// None: the device itself is used.
    Unformatted,
    /// ext4 with blocks of this many bytes (`None`: as mkfs.ext4 chooses) and at least this many inodes, if given.
    Ext4 { block: Option<u64>, inodes: Option<u64> },
    /// FAT with clusters of this many bytes; `None`: as mkfs.fat chooses.
    Fat { cluster: Option<u64> },
}

/// The device; detached on drop.
pub(crate) struct LoopImage {
    root: PathBuf,
    device: PathBuf,
}

impl LoopImage {
    /// Creates the image in the tmpfs that contains mount points and logs, too.
    pub(crate) fn create(root: &Path, name: &str, bytes: u64) -> Result<Self> {
        let file = root.join(name);
        create_image_file(&file, bytes)?;
        Ok(Self { root: root.to_owned(), device: teardown::attach_loop_device(&file)? })
    }

    /// Returns the path of the tmpfs.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of the device.
    pub(crate) fn device(&self) -> &Path {
        &self.device
    }

    /// Returns the directory to mount on.
    pub(crate) fn mount_point(&self) -> Result<PathBuf> {
        let directory = self.root.join("mount");
        teardown::make_directory(&directory)?;
        Ok(directory)
    }

    /// Makes an empty file system, and writes it to the image.
    pub(crate) fn format(&self, format: Format) -> Result<()> {
        if let Some(mut command) = format_command(format) {
            run_quietly(command.arg(&self.device))?;
        }
        self.drop_cached()
    }

    /// Writes back what the kernel has cached of the device.
    pub(crate) fn sync(&self) -> Result<()> {
        let device = OpenOptions::new().write(true).open(&self.device).context("cannot open the loop device")?;
        device.sync_all().context("cannot write back the loop device")
    }

    /// Writes back and drops what the kernel has cached of the device.
    pub(crate) fn drop_cached(&self) -> Result<()> {
        self.sync()?;
        run_quietly(Command::new("blockdev").arg("--flushbufs").arg(&self.device)).map(drop)
    }

    /// Opens the device itself.
    pub(crate) fn open(&self, writable: bool) -> Result<File> {
        OpenOptions::new().read(true).write(writable).open(&self.device).context("cannot open the loop device")
    }

    /// Fails unless no process has it open and nothing is mounted from it: the next subject must not meet the previous one.
    pub(crate) fn check_unused(&self) -> Result<()> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        if rustix::fs::open(&self.device, flags, Mode::empty()).is_err() {
            bail!("the loop device is still in use");
        }
        Ok(())
    }
}

impl Drop for LoopImage {
    fn drop(&mut self) {
        teardown::detach_loop_device(&self.device);
    }
}

/// Returns the command without the device; `None` for no file system.
fn format_command(format: Format) -> Option<Command> {
    let words = format_words(format)?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    Some(command)
}

/// Returns the words of the command that formats, without the device.
pub(crate) fn format_words(format: Format) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut option = |name: &str, value: u64| words.extend([name.to_owned(), value.to_string()]);
    match format {
        Format::Unformatted => None,
        Format::Ext4 { block, inodes } => {
            block.into_iter().for_each(|bytes| option("-b", bytes));
            inodes.into_iter().for_each(|count| option("-N", count));
            let fixed = ["mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"];
            Some(fixed.map(str::to_owned).into_iter().chain(words).collect())
        }
        Format::Fat { cluster } => {
            cluster.into_iter().for_each(|bytes| option("-s", bytes / 512));
            Some(std::iter::once("mkfs.fat".to_owned()).chain(words).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_say_what_was_asked_for() {
        let words = |format| format_words(format).unwrap_or_default().join(" ");
        assert_eq!(words(Format::Unformatted), "");
        assert_eq!(words(Format::Fat { cluster: Some(2048) }), "mkfs.fat -s 4");
        assert!(words(Format::Ext4 { block: Some(1024), inodes: Some(256) }).ends_with(" -b 1024 -N 256"));
    }
}
