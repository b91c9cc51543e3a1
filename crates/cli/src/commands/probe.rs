//! Whether the server of a mount answers the kernel, for commands that it does not answer.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;

/// Time that a server has to answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Result of a request to a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeResult {
    /// The server answers.
    Serving,
    /// The server does not answer.
    Hung,
    /// The server has exited.
    Dead,
    /// The caller has no access to the mount.
    NoAccess,
}

/// Probes a mount in a separate process, which may hang forever, and cannot be killed then.
pub(crate) fn probe(mount_point: &Path) -> ProbeResult {
    // The kernel itself reports that access is denied.
    let own_status = rustix::fs::statx(CWD, mount_point, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS);
    if own_status.err() == Some(Errno::ACCESS) {
        return ProbeResult::NoAccess;
    }
    let mut probe = Command::new("stat");
    probe.args(["--file-system", "--format=%T", "--"]).arg(mount_point);
    probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Without the probe, there is no evidence against the server.
    let Ok(mut probe) = probe.spawn() else { return ProbeResult::Serving };
    let end = Instant::now() + PROBE_TIMEOUT;
    loop {
        match probe.try_wait() {
            Ok(Some(status)) if status.success() => return ProbeResult::Serving,
            Ok(Some(_)) => return ProbeResult::Dead,
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = probe.kill();
                return ProbeResult::Hung;
            }
        }
    }
}
