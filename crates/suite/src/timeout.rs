//! A timeout that ends the whole run when a test hangs: a hanging test must be named, not waited for.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Maximum time that a test may take. The slowest take seconds, or minutes on an emulated machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// Name of the environment variable with another timeout, in seconds.
const SECONDS: &str = "PLYFS_SUITE_PATIENCE";

/// Runs a test. If it takes too long, prints its name and ends the process as failed.
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
