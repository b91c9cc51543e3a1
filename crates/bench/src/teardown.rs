//! Tracking of everything that the harness started, so that all of it ends with the harness, even after an error or a signal.
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::fat::device_limit::DeviceLimit;
use crate::system_tools::run_quietly;

/// Ends everything when a signal requests it, then exits with the shell's code for that signal.
pub(crate) fn watch_signals() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot catch signals")?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // The lock is held until the exit, so that nothing can be started concurrently with this teardown.
            let mut started = started();
            started.end();
            eprintln!("bench: interrupted, all is unmounted");
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Starts a program in its own process group, to be killed with the harness.
pub(crate) fn spawn(command: &mut Command) -> Result<Child> {
    let mut started = started();
    // SAFETY: between fork and exec only one system call is made, without any allocation.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    let child = command
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
    started.groups.push(group_of(&child));
    Ok(child)
}

/// Records that a child has been waited for, so that its pid may be reused from now on.
pub(crate) fn forget(child: &Child) {
    let group = group_of(child);
    started().groups.retain(|other| *other != group);
}

/// Kills every running child with its whole process group.
pub(crate) fn kill_all() {
    started().kill();
}

/// Creates the directory under which everything is mounted, and calls `mount` to mount a file system on it. No signal is
/// handled in between.
pub(crate) fn make_root(mount: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let mut started = started();
    let root = tempfile::Builder::new().prefix("plyfs-bench.").tempdir().context("cannot make a directory")?;
    mount(root.path())?;
    let root = root.keep();
    started.root = Some(root.clone());
    Ok(root)
}

/// Makes a directory unless it is there. Unlike `create_dir_all` it makes none above: the root may have been removed by now.
pub(crate) fn make_directory(directory: &Path) -> Result<()> {
    match std::fs::create_dir(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(error).with_context(|| format!("cannot make {}", directory.display()))
        }
        _ => Ok(()),
    }
}

/// Attaches a loop device to an image, to be detached with the harness; returns the path of the device.
pub(crate) fn attach_loop_device(image: &Path) -> Result<PathBuf> {
    let mut started = started();
    let path = run_quietly(Command::new("losetup").args(["--find", "--show"]).arg(image))?;
    let device = PathBuf::from(path.trim_end());
    started.loop_devices.push(device.clone());
    Ok(device)
}

/// Detaches a loop device. One that is still in use is detached by the kernel after its last use.
pub(crate) fn detach_loop_device(device: &Path) {
    let mut started = started();
    if started.loop_devices.iter().any(|other| other == device) {
        started.loop_devices.retain(|other| other != device);
        detach(device);
    }
}

/// Limits the transfer rate of a device to that many bytes per second each way, until [`end_device_limit`] or the harness's end.
pub(crate) fn limit_device(device: &Path, rate: u64) -> Result<()> {
    started().device_limit = Some(DeviceLimit::set(device, rate)?);
    Ok(())
}

/// Ends the limit that [`limit_device`] has set.
pub(crate) fn end_device_limit() {
    started().device_limit.take().iter().for_each(DeviceLimit::remove);
}

/// Unmounts the root with everything below it, and removes its directory.
pub(crate) fn end() {
    started().end();
}

struct StartedProcesses {
    root: Option<PathBuf>,
    loop_devices: Vec<PathBuf>,
    device_limit: Option<DeviceLimit>,
    groups: Vec<Pid>,
}

static STARTED_PROCESSES: Mutex<StartedProcesses> =
    Mutex::new(StartedProcesses { root: None, loop_devices: Vec::new(), device_limit: None, groups: Vec::new() });

impl StartedProcesses {
    fn kill(&mut self) {
        for group in &self.groups {
            // A group that no longer exists is not an error.
            let _ = kill_process_group(*group, Signal::KILL);
        }
    }

    fn end(&mut self) {
        self.kill();
        self.device_limit.take().iter().for_each(DeviceLimit::remove);
        let Some(root) = self.root.take() else { return };
        // Detaching includes the mounts below; their loop devices are freed with the last user of the file system.
        let unmounted = unmount(&root, UnmountFlags::DETACH);
        self.loop_devices.drain(..).for_each(|device| detach(&device));
        if let Err(error) = unmounted {
            eprintln!("bench: cannot unmount {}: {error}", root.display());
            return;
        }
        // Includes files that the other thread may have created there since, assuming that it was mounted.
        if let Err(error) = std::fs::remove_dir_all(&root) {
            eprintln!("bench: cannot remove {}: {error}", root.display());
        }
    }
}

fn detach(device: &Path) {
    if let Err(error) = run_quietly(Command::new("losetup").arg("--detach").arg(device)) {
        eprintln!("bench: cannot detach {}: {error:#}", device.display());
    }
}

fn started() -> MutexGuard<'static, StartedProcesses> {
    STARTED_PROCESSES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn group_of(child: &Child) -> Pid {
    Pid::from_child(child)
}
