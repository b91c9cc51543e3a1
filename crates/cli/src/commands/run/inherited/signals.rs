//! The signal state that the process was started with: the blocked signals, and whether SIGPIPE and SIGCHLD are ignored. Before
//! `main`, Rust ignores SIGPIPE, and it starts new processes with the default action and an empty mask; while SIGCHLD is
//! ignored, the exit status of the command is lost. Other ignored signals stay ignored without further action.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Records whether SIGPIPE was ignored when the process was started.
static IGNORES_SIGPIPE: AtomicBool = AtomicBool::new(false);

/// The signal mask, and the dispositions of SIGPIPE and SIGCHLD.
#[derive(Clone)]
pub(crate) struct SignalState {
    blocked: libc::sigset_t,
    ignores_sigpipe: bool,
    ignores_sigchld: bool,
}

impl SignalState {
    /// Captures the state of this thread, the first and only one. From then on SIGCHLD is not ignored.
    pub(crate) fn capture() -> Self {
        let mut blocked = MaybeUninit::uninit();
        // SAFETY: without a new set nothing is changed, and the object that `blocked` points to is written.
        let blocked = unsafe {
            libc::sigemptyset(blocked.as_mut_ptr());
            libc::sigprocmask(libc::SIG_BLOCK, ptr::null(), blocked.as_mut_ptr());
            blocked.assume_init()
        };
        // SAFETY: the signal exists, and no handler is installed.
        let ignores_sigchld = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) } == libc::SIG_IGN;
        Self { blocked, ignores_sigpipe: IGNORES_SIGPIPE.load(Ordering::Relaxed), ignores_sigchld }
    }

    /// Applies them to a new process that becomes a command.
    ///
    /// # Errors
    /// Fails as sigprocmask(2) does.
    pub(crate) fn restore(&self) -> io::Result<()> {
        let ignored = [(self.ignores_sigpipe, libc::SIGPIPE), (self.ignores_sigchld, libc::SIGCHLD)];
        // SAFETY: the set is valid, the signals exist, and no handler is installed.
        let results = unsafe {
            for (_, signal) in ignored.into_iter().filter(|(is_ignored, _)| *is_ignored) {
                libc::signal(signal, libc::SIG_IGN);
            }
            libc::sigprocmask(libc::SIG_SETMASK, &raw const self.blocked, ptr::null_mut())
        };
        if results == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Records the disposition of SIGPIPE; called when the program is loaded, before `main`.
extern "C" fn record_sigpipe() {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action nothing is changed; `action` is read only if the call has written it.
    let is_ignored = unsafe {
        libc::sigaction(libc::SIGPIPE, ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    };
    IGNORES_SIGPIPE.store(is_ignored, Ordering::Relaxed);
}

// SAFETY: the section holds pointers to functions that the loader calls, once each, in the only thread; this function needs
// nothing that is initialised later.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD_SIGPIPE: extern "C" fn() = record_sigpipe;
