//! `plyfs umount`: ends a mount and waits for its server.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::is_root;
use crate::arguments::Umount;
use crate::control::Request;
use crate::control::client::{self, Mount};
use crate::exit::{Exit, Failure, Outcome};
use crate::front_end::UnmountMode;

/// Time after which a person is told what the command waits for: by then the mount is gone, and the server closes what it is on,
/// which takes as long as the storage below.
const NOTICE_DELAY: Duration = Duration::from_secs(3);

/// Runs the command.
pub(crate) fn run(arguments: &Umount) -> Outcome {
    let (point, _) = super::own_plyfs_mount(&arguments.mount_point, "umount")?;
    let mount_point = point.path().to_owned();
    // The server is looked up before the mount is gone, and held by a pidfd, which no later process can take over.
    let mount = client::find(&mount_point);
    let is_silent = mount.is_none() && !arguments.lazy && client::has_silent_server(&mount_point);
    if let Some(mount) = &mount {
        synchronize(mount, &mount_point, arguments.lazy)?;
    }
    let server = mount
        .and_then(|mount| mount.process())
        .and_then(|process| Some((process, pidfd_open(process, PidfdFlags::empty()).ok()?)));
    let mode = if arguments.lazy { UnmountMode::Lazy } else { UnmountMode::Clean };
    point.unmount(mode).map_err(|error| refused(&mount_point, &error))?;
    match server {
        Some((process, server)) if !arguments.lazy => wait_for(&server, process, &mount_point),
        None if is_silent => {
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

/// Has everything stored that was written so far: once the mount is gone, nobody learns of an error. A mount that is detached in any case
/// is, after the error was reported.
///
/// # Errors
/// Those of the storage. A server that takes long to answer is no error: it stores everything when the mount is gone.
fn synchronize(mount: &Mount, mount_point: &Path, is_lazy: bool) -> Outcome {
    match mount.text(&Request::Sync) {
        Err(failure) if failure.exit != Exit::NoAnswer && is_lazy => {
            super::notify(&format_args!("{failure}; {} is unmounted nevertheless", mount_point.display()));
            Ok(())
        }
        Err(failure) if failure.exit != Exit::NoAnswer => {
            let remedy = "copy what is needed from it; to unmount it nevertheless, add --lazy";
            Err(Failure::new(failure.exit, format!("{failure}; it stays mounted; {remedy}")))
        }
        _ => Ok(()),
    }
}

/// Waits until the server has ended, however long its storage takes: as long as it runs, not everything is closed below.
fn wait_for(server: &impl AsFd, process: Pid, mount_point: &Path) -> Outcome {
    let delay = Timespec { tv_sec: NOTICE_DELAY.as_secs() as i64, tv_nsec: 0 };
    if has_ended(server, Some(&delay))? {
        return Ok(());
    }
    super::notify(&format_args!(
        "{} is unmounted; waiting for its server (process {}), which is closing the files below the stack or serving the mount \
         in another mount namespace",
        mount_point.display(),
        process.as_raw_nonzero()
    ));
    has_ended(server, None).map(drop)
}

/// Returns whether the process of this pidfd has ended within this time, or, without one, waits until it has.
fn has_ended(server: &impl AsFd, timeout: Option<&Timespec>) -> Outcome<bool> {
    let mut descriptors = [PollFd::new(server, PollFlags::IN)];
    let ready = retry_on_intr(|| poll(&mut descriptors, timeout));
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
