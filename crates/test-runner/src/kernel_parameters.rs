//! The kernel parameters that tests need: io_uring for FUSE, by which jobs that need the same state are grouped, and the
//! protection of symlinks. They are restored afterwards.

use std::fmt;
use std::fs::File;
use std::path::Path;

use anyhow::Context;

const TRANSPORT_PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// The state of the io_uring parameter that a job needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TransportState {
    /// Requests arrive through /dev/fuse.
    Device,
    /// Requests arrive through io_uring.
    Uring,
    /// It sets the parameter, so nothing else may run beside it.
    SetByJob,
    /// It sets the parameter before each mount that it makes, and nothing on this machine mounts meanwhile.
    SetBeforeEachMount,
}

impl fmt::Display for TransportState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Device => "/dev/fuse",
            Self::Uring => "io_uring",
            Self::SetByJob | Self::SetBeforeEachMount => "both transports",
        })
    }
}

/// Returns whether this process can change the parameter.
pub(crate) fn can_set_transport() -> bool {
    // The kernel loads the module when the device is opened.
    let _ = File::open("/dev/fuse");
    rustix::process::geteuid().is_root() && Path::new(TRANSPORT_PARAMETER).exists()
}

/// Locks the parameter against other runs on this machine.
///
/// # Errors
/// Fails if another run has locked it.
pub(crate) fn lock_transport() -> anyhow::Result<Option<File>> {
    if !can_set_transport() {
        return Ok(None);
    }
    let file = File::open(TRANSPORT_PARAMETER).with_context(|| format!("opening {TRANSPORT_PARAMETER}"))?;
    file.try_lock()
        .with_context(|| format!("another run on this machine sets {TRANSPORT_PARAMETER}: wait for its end"))?;
    Ok(Some(file))
}

/// On by default in Debian, off in upstream kernels.
const PROTECTED_SYMLINKS: &str = "/proc/sys/fs/protected_symlinks";

/// A parameter that is set to a value. Dropping this restores it.
pub(crate) struct ParameterGuard {
    before: Option<(&'static str, String)>,
}

impl ParameterGuard {
    /// Sets the io_uring parameter, if there is one.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub(crate) fn to(state: TransportState) -> anyhow::Result<Self> {
        match can_set_transport() {
            true => Self::write(TRANSPORT_PARAMETER, if state == TransportState::Uring { "Y" } else { "N" }),
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

    fn write(parameter: &'static str, value: &str) -> anyhow::Result<Self> {
        let before = std::fs::read_to_string(parameter).with_context(|| format!("reading {parameter}"))?;
        std::fs::write(parameter, value).with_context(|| format!("writing {value} to {parameter}"))?;
        Ok(Self { before: Some((parameter, before)) })
    }
}

impl Drop for ParameterGuard {
    fn drop(&mut self) {
        if let Some((parameter, before)) = &self.before {
            let _ = std::fs::write(parameter, before.trim());
        }
    }
}
