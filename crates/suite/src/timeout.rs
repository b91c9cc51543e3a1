//! A timeout that ends the whole run when a test hangs: a hanging test must be named, not waited for.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Maximum time that a test may take. The slowest take seconds, or minutes on an emulated machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(300);
/// Name of the environment variable with another timeout, in seconds.
const TIMEOUT_VARIABLE: &str = "PLYFS_SUITE_PATIENCE";

/// Runs a test. If it takes too long, prints its name and ends the process as failed.
pub fn with_timeout<T>(name: &str, test: impl FnOnce() -> T) -> T {
    let override_seconds = std::env::var(TIMEOUT_VARIABLE).ok().and_then(|seconds| seconds.parse().ok());
    let timeout = override_seconds.map_or(TEST_TIMEOUT, Duration::from_secs);
    let (done, is_done) = channel::<()>();
    let name = name.to_owned();
    std::thread::spawn(move || {
        if is_done.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{name} FAILED: it has not ended after {} seconds; nothing after it is tried", timeout.as_secs());
            std::process::exit(1);
        }
    });
    let result = test();
    drop(done);
    result
}
