//! Ends the whole run when one test does not end: what hangs is to be named, not waited for.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The longest that a test may take. The slowest take seconds, and minutes where the machine is emulated.
const PATIENCE: Duration = Duration::from_secs(300);
/// The variable with another number of seconds.
const SECONDS: &str = "PLYFS_SUITE_PATIENCE";

/// Runs a test. If it takes too long, says which one it was and ends the process as failed.
pub fn patiently<T>(name: &str, test: impl FnOnce() -> T) -> T {
    let given = std::env::var(SECONDS).ok().and_then(|seconds| seconds.parse().ok());
    let patience = given.map_or(PATIENCE, Duration::from_secs);
    let (over, watched) = channel::<()>();
    let name = name.to_owned();
    std::thread::spawn(move || {
        if watched.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            eprintln!(
                "{name} FAILED: it has not ended after {} seconds; nothing after it is tried",
                patience.as_secs()
            );
            std::process::exit(1);
        }
    });
    let result = test();
    drop(over);
    result
}
