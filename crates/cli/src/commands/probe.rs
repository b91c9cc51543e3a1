//! Whether the server of a mount answers the kernel, for commands that it does not answer.

use std::io::Read;
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;

/// Time that a server has to answer.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Result of a request to a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeResult {
    /// The server answers, if only that it fails.
    Serving,
    /// The server does not answer.
    Hung,
    /// The server has exited; or that of a mount which the stack lies on.
    Dead,
    /// The caller has no access to the mount.
    NoAccess,
}

/// Probes a mount, whose server has that time to answer, in a separate process, which may hang forever, and cannot be killed then.
pub(crate) fn probe(mount_point: &Path, timeout: Duration) -> ProbeResult {
    // The kernel itself reports that access is denied.
    let own_status = rustix::fs::statx(CWD, mount_point, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS);
    if own_status.err() == Some(Errno::ACCESS) {
        return ProbeResult::NoAccess;
    }
    query_within(mount_point, timeout)
}

/// Returns whether all servers on the way to a path, and that of the mount there, answer within that time, if only that they fail.
pub(crate) fn is_answered(path: &Path, timeout: Duration) -> bool {
    query_within(path, timeout) != ProbeResult::Hung
}

/// Queries the file system at a path in a separate process.
fn query_within(path: &Path, timeout: Duration) -> ProbeResult {
    let mut query = Command::new("stat");
    // Options that busybox has, too.
    query.args(["-f", "-c", "%T", "--"]).arg(path);
    query.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // Without it, there is no evidence against the server.
    let Ok(mut query) = query.spawn() else { return ProbeResult::Serving };
    let end = Instant::now() + timeout;
    loop {
        match query.try_wait() {
            Ok(Some(status)) if status.success() || !reports_dead_server(query.stderr.take()) => {
                return ProbeResult::Serving;
            }
            Ok(Some(_)) => return ProbeResult::Dead,
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = query.kill();
                return ProbeResult::Hung;
            }
        }
    }
}

/// Returns whether a command's error is that of a mount whose server has exited (`ENOTCONN`, at first also `ECONNABORTED`).
fn reports_dead_server(errors: Option<ChildStderr>) -> bool {
    // In the words of glibc, and of musl.
    const MESSAGES: [&[u8]; 4] = [
        b"Transport endpoint is not connected",
        b"Socket not connected",
        b"Software caused connection abort",
        b"Connection aborted",
    ];
    let mut text = Vec::new();
    let is_read = errors.is_some_and(|mut errors| errors.read_to_end(&mut text).is_ok());
    is_read && MESSAGES.iter().any(|message| text.trim_ascii_end().ends_with(message))
}
