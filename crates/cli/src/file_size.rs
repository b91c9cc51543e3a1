//! The limit of a file's size that the process was started with (`ulimit -f`) is no limit of those that it serves.

use std::mem::MaybeUninit;
use std::ptr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lifts it as far as allowed: root may do without. Where one stays, what would pass it is refused with `EFBIG`, and does not
/// end the server (SIGXFSZ, setrlimit(2)). For the first thread, before there are others.
pub fn lift() {
    let maximum = getrlimit(Resource::Fsize).maximum;
    let unlimited = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Fsize, unlimited).is_err() {
        let _ = setrlimit(Resource::Fsize, Rlimit { current: maximum, maximum });
    }
    let mut signal = MaybeUninit::uninit();
    // SAFETY: the set is made empty before it is used, and no set is asked for in return.
    unsafe {
        libc::sigemptyset(signal.as_mut_ptr());
        libc::sigaddset(signal.as_mut_ptr(), libc::SIGXFSZ);
        libc::sigprocmask(libc::SIG_BLOCK, signal.as_ptr(), ptr::null_mut());
    }
}
