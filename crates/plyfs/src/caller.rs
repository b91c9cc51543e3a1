//! The user that this process runs as, as a caller of vnodes.

use std::fs;

use vnode::Caller;

/// Returns a caller with the credentials and the umask of this process.
pub fn own_caller() -> Caller {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    Caller::process(std::process::id(), uid.as_raw(), gid.as_raw(), own_umask())
}

/// Returns the umask. The system call for it would also set it, for all threads.
fn own_umask() -> u32 {
    const USUAL: u32 = 0o022;
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    value.and_then(|value| u32::from_str_radix(value.trim(), 8).ok()).unwrap_or(USUAL)
}
