//! Mounting.

use std::io;
use std::path::Path;

use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

use super::{Adapter, Operations};

/// How many requests are answered at a time.
const THREADS: usize = 4;

/// Mounts a file system for all users, until what this answers is dropped or it is unmounted.
///
/// The process makes files with just the permissions that it is told from then on, and may have as many open as it can.
///
/// # Errors
/// If it cannot be mounted.
pub fn mount(file_system: impl Operations, name: &str, at: &Path) -> io::Result<BackgroundSession> {
    umask(Mode::empty());
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName(name.to_owned()), MountOption::Subtype("scratch".to_owned())];
    config.mount_options.extend(file_system.mount_options());
    config.acl = SessionACL::All;
    config.n_threads = Some(THREADS);
    fuser::spawn_mount(Adapter::new(file_system), at, &config)
}
