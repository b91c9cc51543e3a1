//! The user that this process runs as, as a caller of vnodes.

use procfs::Process;
use vnode::Caller;

/// The usual umask, where /proc is not mounted.
const USUAL_UMASK: u32 = 0o022;

/// Returns a caller with the credentials and the umask of this process. The umask is 022 if /proc does not report it.
pub fn own_caller() -> Caller {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    // Reported by /proc: the system call would also set it, for all threads.
    let umask = Process::OwnThread.status().ok().flatten().and_then(|status| status.umask());
    Caller::process(std::process::id(), uid.as_raw(), gid.as_raw(), umask.unwrap_or(USUAL_UMASK))
}
