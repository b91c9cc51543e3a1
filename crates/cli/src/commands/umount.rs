//! `plyfs umount`: ends mounts and waits for their servers.

use std::io;
use std::mem;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};

use super::is_root;
use super::probe::{PROBE_TIMEOUT, ProbeResult, is_answered, probe};
use crate::arguments::Umount;
use crate::control::Request;
use crate::control::client::{self, Mount};
use crate::exit::{Exit, Failure, Outcome};
use crate::front_end::UnmountMode;
use crate::fuse_connection;
use crate::mount_table::{self, MountEntry};

/// Time after which a person is informed of what the command waits for: by then the mount is gone, and the server closes what it is on,
/// which takes as long as the storage below.
const NOTICE_TIME: Timespec = Timespec { tv_sec: 3, tv_nsec: 0 };

/// Time that the server of a mount that is unmounted by force has to answer the kernel if it answers commands.
const ANSWERING_TIMEOUT: Duration = Duration::from_secs(30);

/// Time that a server which answers has to end when its mount is unmounted by force.
const FORCED_END_TIME: Duration = Duration::from_secs(30);

/// Runs the command. A mount point that cannot be unmounted is reported, and does not keep the others from it.
pub(crate) fn run(arguments: &Umount) -> Outcome {
    let mut outcome = Ok(());
    let mut unmount_reporting = |mount_point: &Path| {
        if let Err(failure) = unmount(mount_point, arguments) {
            super::report(&failure);
            if outcome.is_ok() {
                outcome = Err(Failure::silent(failure.exit));
            }
        }
    };
    arguments.mount_points.iter().for_each(|mount_point| unmount_reporting(mount_point));
    if arguments.all {
        for entry in own_mounts() {
            // One may be gone with another, which it was a copy of.
            if mount_table::find_by_id(entry.mount).is_some() {
                unmount_reporting(&entry.mount_point);
            }
        }
    }
    outcome
}

/// Returns the mounts of the caller, the last one made first: it may be in, or based on, an earlier one.
fn own_mounts() -> Vec<MountEntry> {
    let user = geteuid().as_raw();
    let mut mounts = mount_table::read();
    mounts.retain(|entry| entry.is_plyfs() && entry.user == Some(user));
    mounts.reverse();
    mounts
}

/// Unmounts one mount, and waits for its server.
fn unmount(path: &Path, arguments: &Umount) -> Outcome {
    let Umount { lazy, force, .. } = *arguments;
    if force || arguments.all {
        check_reachable(path)?;
    }
    let (point, entry) = super::own_plyfs_mount(path, "umount")?;
    let mount_point = point.path().to_owned();
    // The server is looked up before the mount is gone, and held by a pidfd, which no later process can take over.
    let mount = client::find(&mount_point);
    let is_silent = mount.is_none() && (force || !lazy) && client::has_silent_server(&mount_point);
    let answers = mount.as_ref().map(|mount| synchronize(mount, &mount_point, lazy || force)).transpose()?;
    let answering = match answers {
        Some(true) => CommandAnswer::Yes,
        Some(false) => CommandAnswer::No,
        None if is_silent => CommandAnswer::No,
        None => CommandAnswer::Unknown,
    };
    let mode = if force { forced_mode(&entry, answering)? } else { UnmountMode::Clean };
    let is_forced = mode != UnmountMode::Clean;
    let server = mount
        .and_then(|mount| mount.process())
        .and_then(|process| Some((process, pidfd_open(process, PidfdFlags::empty()).ok()?)));
    let mode = if lazy && !is_forced { UnmountMode::Lazy } else { mode };
    point.unmount(mode).map_err(|error| refused(&mount_point, &error))?;
    match server {
        Some((process, server)) if is_forced => wait_for_hung(&server, process, &mount_point),
        Some((process, server)) if !lazy => wait_for(&server, process, &mount_point, force.then_some(FORCED_END_TIME)),
        None if is_silent && !lazy => {
            super::notify(&format_args!(
                "{} is unmounted; its server did not answer and was not waited for: if it is running, it may still have \
                 files of the stack open",
                mount_point.display()
            ));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Checks that the way to a mount point leads over no mount whose server does not answer: the kernel would wait for it, and nothing could
/// end the command meanwhile.
///
/// # Errors
/// Fails if it does, with the mount to end first.
fn check_reachable(path: &Path) -> Outcome {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let above = mount_table::above(&path);
    // Those that a process serves.
    if above.iter().all(|above| above.user.is_none()) {
        return Ok(());
    }
    let Some(parent) = path.parent().filter(|parent| !is_answered(parent, PROBE_TIMEOUT)) else { return Ok(()) };
    let name = path.display();
    let is_silent = |above: &MountEntry| !is_answered(&above.mount_point, PROBE_TIMEOUT);
    let remedy = match above.into_iter().find(is_silent) {
        Some(above) => format!("unmount that first: umount --lazy {}", super::shell_word(&above.mount_point)),
        None => format!("see what {} is on", parent.display()),
    };
    Err(Failure::new(Exit::NoAnswer, format!("{name} cannot be reached: a mount above it does not answer; {remedy}")))
}

/// Whether a server answers commands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommandAnswer {
    Yes,
    No,
    /// The caller finds no socket of it.
    Unknown,
}

/// Returns how to unmount a mount by force, after the connection of one whose server does not answer the kernel was aborted. One that
/// only takes long, or whose socket the caller cannot find, is unmounted like any other; one that answers commands is given long.
///
/// # Errors
/// Fails if the connection cannot be aborted.
fn forced_mode(entry: &MountEntry, answering: CommandAnswer) -> Outcome<UnmountMode> {
    let mut result = probe(&entry.mount_point, PROBE_TIMEOUT);
    if result == ProbeResult::Hung && answering == CommandAnswer::Yes {
        super::notify(&format_args!(
            "the server of {} answers commands, but not the kernel yet; it has {} s before its connection is aborted",
            entry.mount_point.display(),
            ANSWERING_TIMEOUT.as_secs()
        ));
        result = probe(&entry.mount_point, ANSWERING_TIMEOUT);
    }
    match result {
        ProbeResult::Serving => return Ok(UnmountMode::Clean),
        // Only the server itself could answer.
        ProbeResult::NoAccess if answering != CommandAnswer::No => return Ok(UnmountMode::Clean),
        // That is what a mount below the stack answers whose server has exited.
        ProbeResult::Dead if answering == CommandAnswer::Yes => return Ok(UnmountMode::Clean),
        // Its end has aborted the connection.
        ProbeResult::Dead => return Ok(UnmountMode::Lazy),
        ProbeResult::Hung | ProbeResult::NoAccess => {}
    }
    let name = entry.mount_point.display();
    let mode = match fuse_connection::abort(entry.device) {
        Ok(()) => UnmountMode::Lazy,
        Err(_) if is_root() => UnmountMode::Abort,
        Err(error) => {
            let remedy = format!("run as root, or have root mount -t fusectl none {}", fuse_connection::DIRECTORY);
            let message = format!("the connection of {name} to its server cannot be aborted: {error}; {remedy}");
            return Err(Failure::new(Exit::Permission, message));
        }
    };
    super::notify(&format_args!(
        "the server of {name} does not answer: its connection is aborted, and what it has not stored is lost"
    ));
    Ok(mode)
}

/// Has everything stored that was written so far: once the mount is gone, nobody learns of an error. A mount that is to be unmounted in
/// any case is, after the error was reported. Returns whether the server has answered.
///
/// # Errors
/// Those of the storage. A server that takes long to answer is no error: it stores everything when the mount is gone.
fn synchronize(mount: &Mount, mount_point: &Path, in_any_case: bool) -> Outcome<bool> {
    match mount.text(&Request::Sync) {
        Ok(_) => Ok(true),
        Err(failure) if failure.exit == Exit::NoAnswer => Ok(false),
        Err(failure) if in_any_case => {
            super::notify(&format_args!("{failure}; {} is unmounted nevertheless", mount_point.display()));
            Ok(true)
        }
        Err(failure) => {
            let remedy = "copy what is needed from it; to unmount it nevertheless, add --force";
            Err(Failure::new(failure.exit, format!("{failure}; it stays mounted; {remedy}")))
        }
    }
}

/// Waits for a moment until the server of an aborted connection has ended: one that its storage holds up may never do so.
fn wait_for_hung(server: &impl AsFd, process: Pid, mount_point: &Path) -> Outcome {
    if !has_ended(server, &NOTICE_TIME)? {
        let (name, process) = (mount_point.display(), process.as_raw_nonzero());
        super::notify(&format_args!(
            "{name} is unmounted; its server has not ended and may still have files of the stack open; \
             to end it: kill -KILL {process}"
        ));
    }
    Ok(())
}

/// Waits until the server has ended, however long its storage takes: as long as it runs, not everything is closed below. One that is
/// stopped (SIGSTOP) does not run, and is not waited for; none is for longer than the limit, if there is one.
fn wait_for(server: &impl AsFd, process: Pid, mount_point: &Path, limit: Option<Duration>) -> Outcome {
    let (name, number) = (mount_point.display(), process.as_raw_nonzero());
    let (begin, mut is_informed) = (Instant::now(), false);
    while !has_ended(server, &NOTICE_TIME)? {
        if is_stopped(process) {
            super::notify(&format_args!(
                "{name} is unmounted; its server is stopped and was not waited for: it still has files of the stack open; \
                 to let it close them: kill -CONT {number}"
            ));
            return Ok(());
        }
        if limit.is_some_and(|limit| begin.elapsed() >= limit) {
            super::notify(&format_args!(
                "the server of {name} (process {number}) was not waited for any longer: it is still closing files, or serving the mount"
            ));
            return Ok(());
        }
        if !mem::replace(&mut is_informed, true) {
            super::notify(&format_args!(
                "{name} is unmounted; waiting for its server (process {number}), which is closing the files below the stack or \
                 serving the mount in another mount namespace"
            ));
        }
    }
    Ok(())
}

/// Returns whether a process is stopped by a signal. One that a debugger has stopped is continued by that.
fn is_stopped(process: Pid) -> bool {
    let process = procfs::Process::Numbered(process.as_raw_nonzero().get().unsigned_abs());
    matches!(process.stat(), Ok(Some(stat)) if stat.state() == Some(b'T'))
}

/// Returns whether the process of this pidfd has ended within this time.
fn has_ended(server: &impl AsFd, timeout: &Timespec) -> Outcome<bool> {
    let mut descriptors = [PollFd::new(server, PollFlags::IN)];
    let ready = retry_on_intr(|| poll(&mut descriptors, Some(timeout)));
    ready.map(|count| count > 0).map_err(|error| {
        Failure::new(Exit::Failure, format!("cannot wait until the server of the mount has ended: {error}"))
    })
}

fn refused(mount_point: &Path, error: &io::Error) -> Failure {
    let name = mount_point.display();
    match error.raw_os_error() {
        Some(libc::EBUSY) => Failure::new(
            Exit::Busy,
            format!("{name} is in use; end the programs that use it (fuser -m {name} lists them), or add --lazy"),
        ),
        Some(libc::EPERM) => Failure::new(
            Exit::Permission,
            format!("not permitted to unmount {name}; run as the user who mounted it, or as root"),
        ),
        _ if error.kind() == io::ErrorKind::NotFound && !is_root() => {
            Failure::new(Exit::NoFuse, "fusermount3 is missing; install the package fuse3, or run as root")
        }
        _ => Failure::new(Exit::Failure, format!("cannot unmount {name}: {error}; try --lazy")),
    }
}
