//! `plyfs umount`: ends a mount and waits for its server.

use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};

use super::is_root;
use crate::arguments::Umount;
use crate::control::client;
use crate::exit::{Exit, Failure, Outcome};
use crate::front_end::UnmountMode;

/// Time that a server may take to write everything and exit after the mount is gone.
const SERVER_EXIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the command.
pub(crate) fn run(arguments: &Umount) -> Outcome {
    let (point, _) = super::own_plyfs_mount(&arguments.mount_point, "umount")?;
    let mount_point = point.path().to_owned();
    // The server is looked up before the mount is gone, and held by a pidfd, which no later process can take over.
    let server = client::find(&mount_point)
        .and_then(|mount| mount.process())
        .and_then(|process| pidfd_open(process, PidfdFlags::empty()).ok());
    let mode = if arguments.lazy { UnmountMode::Lazy } else { UnmountMode::Clean };
    point.unmount(mode).map_err(|error| refused(&mount_point, &error))?;
    match server {
        Some(server) if !arguments.lazy => wait_for(&server, &mount_point),
        _ => Ok(()),
    }
}

fn wait_for(server: &impl std::os::fd::AsFd, mount_point: &Path) -> Outcome {
    let timeout = Timespec { tv_sec: SERVER_EXIT_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
    let mut descriptors = [PollFd::new(server, PollFlags::IN)];
    match poll(&mut descriptors, Some(&timeout)) {
        Ok(0) => Err(Failure::new(
            Exit::NoAnswer,
            format!("{} is unmounted, but its server has not ended yet; look at its log", mount_point.display()),
        )),
        _ => Ok(()),
    }
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
            format!("not permitted to unmount {name}; become the user who mounted it, or root"),
        ),
        _ if error.kind() == io::ErrorKind::NotFound && !is_root() => {
            Failure::new(Exit::NoFuse, "fusermount3 is missing; install the package fuse3, or run as root")
        }
        _ => Failure::new(Exit::Failure, format!("cannot unmount {name}: {error}; try --lazy")),
    }
}
