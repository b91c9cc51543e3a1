//! Ends the whole run when one test does not end: what hangs is to be named, not waited for.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The longest that a test may take. The slowest take seconds.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs a test. If it takes too long, says which one it was and ends the process as failed.
pub fn patiently<T>(name: &str, test: impl FnOnce() -> T) -> T {
    let (over, watched) = channel::<()>();
    let name = name.to_owned();
    std::thread::spawn(move || {
        if watched.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            eprintln!(
                "{name} FAILED: it has not ended after {} seconds; nothing after it is tried",
                PATIENCE.as_secs()
            );
            std::process::exit(1);
        }
    });
    let result = test();
    drop(over);
    result
}
