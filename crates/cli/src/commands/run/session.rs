//! The command in its fork: a mount name space of its own, the mount, the process and its signals.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::thread;

use rustix::fs::StatVfsMountFlags;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::raw::WithRawSiginfo;
use stack::Fork;

use crate::exit::{Exit, Failure, Outcome};
use crate::front_end::{self, Plan};
use crate::mount_table;
use crate::options::MountOptions;

/// What is passed on to the command.
const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// How the command ended.
pub enum Ended {
    /// By itself or by a signal.
    With(ExitStatus),
    /// It could not be started.
    NotStarted(io::Error),
}

impl Ended {
    /// As a shell tells it.
    pub fn code(&self) -> u8 {
        match self {
            Self::With(status) => {
                let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
                u8::try_from(code).unwrap_or(u8::MAX)
            }
            Self::NotStarted(_) => crate::exit::run_command::NOT_EXECUTABLE,
        }
    }
}

/// Gives this process a mount name space of its own. Mounts that are made outside come to it, none goes out.
pub fn separate() -> Outcome {
    // SAFETY: the process has a single thread, and unsharing mounts leaves descriptors and memory as they are.
    let separated = unsafe { unshare_unsafe(UnshareFlags::NEWNS) };
    separated.and_then(|()| mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)).map_err(
        |error| {
            let message = format!("cannot make a mount name space: {error}; a container needs CAP_SYS_ADMIN for that");
            Failure::new(Exit::Permission, message)
        },
    )
}

/// Mounts the fork, runs the command to its end, and takes the mount away.
pub fn run(fork: &Fork, at: &Path, command: &[OsString]) -> Outcome<Ended> {
    let working_directory = std::env::current_dir().ok();
    // First: whatever comes from now on is the command's.
    let signals = watched_signals()?;
    let plan = Plan {
        mount_point: at.to_owned(),
        source: "fork".to_owned(),
        options: options_like(at),
        // Over a mount of Plyfs, which is not refused then.
        over: mount_table::on(at).is_some_and(|entry| entry.is_plyfs()),
    };
    let mount = front_end::mount(fork.file_system(), &plan)?;
    let ended = start(command, working_directory).and_then(|started| match started {
        Ok(child) => wait(child, signals),
        Err(error) => Ok(Ended::NotStarted(error)),
    });
    mount.finish();
    ended
}

/// The signals that are passed on: those that are not ignored already, as under nohup(1).
fn watched_signals() -> Outcome<SignalsInfo<WithRawSiginfo>> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    let is_ignored = |signal: &i32| ignored.unwrap_or_default() >> (signal - 1) & 1 == 1;
    let watched = PASSED_ON.iter().filter(|signal| !is_ignored(signal));
    SignalsInfo::new(watched)
        .map_err(|error| Failure::new(Exit::Failure, format!("cannot watch for signals: {error}; try again")))
}

/// The fork allows what the file system in its place does, but for writing. The kernel asks for what others may have
/// changed as often as of any mount.
fn options_like(at: &Path) -> MountOptions {
    let flags = rustix::fs::statvfs(at).map(|found| found.f_flag).unwrap_or(StatVfsMountFlags::empty());
    MountOptions {
        nosuid: flags.contains(StatVfsMountFlags::NOSUID),
        nodev: flags.contains(StatVfsMountFlags::NODEV),
        noexec: flags.contains(StatVfsMountFlags::NOEXEC),
        attribute_timeout: Some(std::time::Duration::from_secs(1)),
        entry_timeout: Some(std::time::Duration::from_secs(1)),
        ..MountOptions::default()
    }
}

/// Starts the command where the caller is; in the fork, if that is there.
fn start(command: &[OsString], working_directory: Option<PathBuf>) -> Outcome<io::Result<Child>> {
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]);
    if let Some(directory) = working_directory {
        if let Err(error) = std::fs::metadata(&directory) {
            let message = format!(
                "the current directory {} is not in the fork: {error}; change to another one",
                directory.display()
            );
            return Err(Failure::new(Exit::Failure, message));
        }
        process.current_dir(directory);
    }
    Ok(process.spawn())
}

/// Waits for the command's end, and passes signals on meanwhile.
fn wait(mut child: Child, mut signals: SignalsInfo<WithRawSiginfo>) -> Outcome<Ended> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(Exit::Failure, format!("cannot wait for the command: {error}; end it and try again"))
    };
    let process = Pid::from_raw(child.id() as i32).expect("a process has a number");
    // A descriptor, so that no later process with the number gets a signal.
    let process = Arc::new(pidfd_open(process, PidfdFlags::empty()).map_err(|error| failed(&error))?);
    let handle = signals.handle();
    let passing = {
        let process = Arc::clone(&process);
        thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in signals.forever() {
                // What a terminal sends reaches the command as well.
                let Some(number) = Signal::from_named_raw(signal.si_signo) else { continue };
                if signal.si_code != libc::SI_KERNEL {
                    let _ = pidfd_send_signal(&*process, number);
                }
            }
        })
    };
    if let Err(error) = &passing {
        let _ = child.kill();
        let _ = child.wait();
        return Err(failed(error));
    }
    let status = child.wait().map_err(|error| failed(&error));
    handle.close();
    status.map(Ended::With)
}
