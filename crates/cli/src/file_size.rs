//! Lifting of the inherited file-size limit (`ulimit -f`), which must not apply to the files that the process serves.

use std::mem::MaybeUninit;
use std::ptr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lifts the limit as far as permitted: root may remove it. Where a limit remains, writes beyond it fail with `EFBIG` and do
/// not end the server (SIGXFSZ, setrlimit(2)). Must be called in the first thread, before others start.
pub(crate) fn lift_limit() {
    let maximum = getrlimit(Resource::Fsize).maximum;
    let unlimited = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Fsize, unlimited).is_err() {
        let _ = setrlimit(Resource::Fsize, Rlimit { current: maximum, maximum });
    }
    let mut signal = MaybeUninit::uninit();
    // SAFETY: the set is initialised as empty before it is used, and the old set is not requested.
    unsafe {
        libc::sigemptyset(signal.as_mut_ptr());
        libc::sigaddset(signal.as_mut_ptr(), libc::SIGXFSZ);
        libc::sigprocmask(libc::SIG_BLOCK, signal.as_ptr(), ptr::null_mut());
    }
}
