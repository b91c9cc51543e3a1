//! Threads that are started while a request is served. A new thread has the credentials and the umask that its starter has at
//! that moment, which are those of a caller; what it does is the server's.

use std::sync::OnceLock;

/// How a new thread gets the server's credentials.
static RESTORE: OnceLock<fn()> = OnceLock::new();

/// Says how a thread gets the server's credentials. Called by a base that takes on those of its callers, before it does so.
pub fn restore_credentials_by(restore: fn()) {
    // A process has one kind of base that does so.
    let _ = RESTORE.set(restore);
}

/// What a thread is to run that may be started while a request is served: it has the server's credentials first.
pub fn as_server<T>(run: impl FnOnce() -> T) -> impl FnOnce() -> T {
    move || {
        if let Some(restore) = RESTORE.get() {
            restore();
        }
        run()
    }
}
