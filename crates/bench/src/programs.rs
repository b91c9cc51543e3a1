//! Programs of a measurement: those that run to their end, and servers of mounts; their output is kept for error messages.
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::slices::SubjectTurn;
use crate::teardown;

/// Maximum time in seconds that mounting and unmounting may take.
const MAX_MOUNT_SECONDS: u64 = 15;

/// A server in the foreground and its mount. On drop the mount is detached and the server killed.
pub(crate) struct Server {
    /// `None` once it has been waited for.
    child: Option<Child>,
    mount_point: PathBuf,
    log: PathBuf,
}

impl Server {
    /// Starts a server that mounts on that directory, and waits until it has; what it prints goes to the log.
    pub(crate) fn start(command: &mut Command, mount_point: &Path, log: &Path) -> Result<Self> {
        let output = File::create(log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = Some(teardown::spawn(command)?);
        let mut server = Self { child, mount_point: mount_point.to_owned(), log: log.to_owned() };
        server.wait_for_mount()?;
        Ok(server)
    }

    /// Returns its pid, if it has not been waited for.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Unmounts, and waits for the server to write everything back and exit.
    pub(crate) fn unmount(mut self) -> Result<()> {
        unmount(&self.mount_point)?;
        let deadline = deadline();
        while Instant::now() < deadline {
            if let Some(status) = self.ended()? {
                if !status.success() {
                    bail!("the server ended with {status}{}", tail(&self.log));
                }
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("the server did not end {MAX_MOUNT_SECONDS} seconds after the unmount");
    }

    fn wait_for_mount(&mut self) -> Result<()> {
        let before = self.mount_point.with_file_name("");
        let before = std::fs::metadata(before)?.dev();
        let deadline = deadline();
        while Instant::now() < deadline {
            if let Some(status) = self.ended()? {
                bail!("the server ended with {status} instead of mounting{}", tail(&self.log));
            }
            if std::fs::metadata(&self.mount_point).is_ok_and(|status| status.dev() != before) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("nothing was mounted in {MAX_MOUNT_SECONDS} seconds{}", tail(&self.log));
    }

    /// Returns the status of the server if it has exited.
    fn ended(&mut self) -> Result<Option<std::process::ExitStatus>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        let status = child.try_wait()?;
        if status.is_some() {
            teardown::forget(child);
            self.child = None;
        }
        Ok(status)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = rustix::mount::unmount(&self.mount_point, UnmountFlags::DETACH);
            let _ = child.kill();
            let _ = child.wait();
            teardown::forget(&child);
        }
    }
}

/// Unmounts, trying again for a while if the mount is busy.
pub(crate) fn unmount(mount_point: &Path) -> Result<()> {
    let deadline = deadline();
    loop {
        match rustix::mount::unmount(mount_point, UnmountFlags::empty()) {
            Ok(()) => return Ok(()),
            Err(Errno::BUSY) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => return Err(error).context("cannot unmount"),
        }
    }
}

/// Runs a program to its end while the subject may run; what it prints goes to the log.
pub(crate) fn run_logged(turn: &SubjectTurn, command: &mut Command, log: &Path) -> Result<()> {
    let output = File::create(log)?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    let name = command.get_program().to_string_lossy().into_owned();
    let status = turn.run(command)?;
    if !status.success() {
        bail!("{name} ended with {status}{}", tail(log));
    }
    Ok(())
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(MAX_MOUNT_SECONDS)
}

/// Returns the last lines of a log, to be appended to an error.
fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(4)..];
    if last.is_empty() { String::new() } else { format!(": {}", last.join(" / ")) }
}
