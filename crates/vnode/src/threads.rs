//! Threads started while a request is served, with the server's credentials.
//!
//! A new thread has the credentials and the umask of its creator at that moment, which are those of a caller, although
//! it works for the server.

use std::sync::OnceLock;

/// Function that gives a new thread the server's credentials.
static RESTORE: OnceLock<fn()> = OnceLock::new();

/// Sets the function that gives a thread the server's credentials. Called by a base that takes on its callers'
/// credentials, before it does so.
pub fn restore_credentials_by(restore: fn()) {
    // A process has one kind of base that does so.
    let _ = RESTORE.set(restore);
}

/// Wraps the body of a thread that may be started while a request is served: the thread takes on the server's
/// credentials first.
pub fn as_server<T>(run: impl FnOnce() -> T) -> impl FnOnce() -> T {
    move || {
        if let Some(restore) = RESTORE.get() {
            restore();
        }
        run()
    }
}
