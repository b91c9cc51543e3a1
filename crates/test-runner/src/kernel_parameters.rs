//! The kernel parameters that tests need: io_uring for FUSE, by which jobs that need the same state are grouped, and the
//! protection of symlinks. They are restored afterwards.

use std::fmt;
use std::fs::File;
use std::path::Path;

use anyhow::Context;

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// The state of the io_uring parameter that a job needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// Requests arrive through /dev/fuse.
    Device,
    /// Requests arrive through io_uring.
    Uring,
    /// It sets the parameter, so nothing else may run beside it.
    Sets,
    /// It sets the parameter before each mount that it makes, and nothing on this machine mounts meanwhile.
    Own,
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Device => "/dev/fuse",
            Self::Uring => "io_uring",
            Self::Sets | Self::Own => "both transports",
        })
    }
}

/// Returns whether this process can change the parameter.
pub(crate) fn is_here() -> bool {
    // The kernel loads the module when the device is opened.
    let _ = File::open("/dev/fuse");
    rustix::process::geteuid().is_root() && Path::new(SWITCH).exists()
}

/// Locks the parameter against other runs on this machine.
///
/// # Errors
/// Fails if another run has locked it.
pub(crate) fn alone() -> anyhow::Result<Option<File>> {
    if !is_here() {
        return Ok(None);
    }
    let file = File::open(SWITCH).with_context(|| format!("opening {SWITCH}"))?;
    file.try_lock().with_context(|| format!("another run on this machine sets {SWITCH}: wait for its end"))?;
    Ok(Some(file))
}

/// On by default in Debian, off in upstream kernels.
const PROTECTED_SYMLINKS: &str = "/proc/sys/fs/protected_symlinks";

/// A parameter that is set to a value. Dropping this restores it.
pub(crate) struct Set {
    before: Option<(&'static str, String)>,
}

impl Set {
    /// Sets the io_uring parameter, if there is one.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub(crate) fn to(state: State) -> anyhow::Result<Self> {
        match is_here() {
            true => Self::write(SWITCH, if state == State::Uring { "Y" } else { "N" }),
            false => Ok(Self { before: None }),
        }
    }

    /// Makes the kernel protect symlinks in world-writable directories, where the tests may set that.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub(crate) fn protected_symlinks() -> anyhow::Result<Self> {
        match rustix::process::geteuid().is_root() && Path::new(PROTECTED_SYMLINKS).exists() {
            true => Self::write(PROTECTED_SYMLINKS, "1"),
            false => Ok(Self { before: None }),
        }
    }

    fn write(switch: &'static str, value: &str) -> anyhow::Result<Self> {
        let before = std::fs::read_to_string(switch).with_context(|| format!("reading {switch}"))?;
        std::fs::write(switch, value).with_context(|| format!("writing {value} to {switch}"))?;
        Ok(Self { before: Some((switch, before)) })
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        if let Some((switch, before)) = &self.before {
            let _ = std::fs::write(switch, before.trim());
        }
    }
}
