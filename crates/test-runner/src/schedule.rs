//! Runs jobs side by side, the heaviest first, until all have ended or a signal arrives.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::case::Outcome;
use crate::job::Job;

/// Runs the jobs, `side_by_side` at a time, and hands on each end as it comes. By default one more than there are CPUs:
/// most tests wait a good part of their time.
///
/// # Errors
/// When a job cannot be started, or a signal arrived; programs that run are killed then.
pub fn run(
    mut jobs: Vec<Job>,
    side_by_side: Option<usize>,
    results: &Path,
    take: &mut dyn FnMut(Outcome),
) -> anyhow::Result<()> {
    let is_stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, is_stopped.clone())?;
    }
    jobs.sort_by_key(|job| job.weight);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = side_by_side.unwrap_or(processors + 1).clamp(1, jobs.len().max(1));
    let queue = Mutex::new(jobs);
    let (sender, ends) = channel();
    std::thread::scope(|scope| -> anyhow::Result<()> {
        for _ in 0..workers {
            let (sender, queue, is_stopped) = (sender.clone(), &queue, &is_stopped);
            scope.spawn(move || {
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
                while let Some(job) = next().filter(|_| !is_stopped.load(Ordering::Relaxed)) {
                    let end = job.run(results, &|| is_stopped.load(Ordering::Relaxed));
                    let _ = sender.send(end);
                }
            });
        }
        drop(sender);
        let mut first_error = Ok(());
        for end in &ends {
            match end {
                Ok(outcome) => take(outcome),
                Err(error) => {
                    is_stopped.store(true, Ordering::Relaxed);
                    first_error = first_error.and(Err(error));
                }
            }
        }
        first_error
    })?;
    anyhow::ensure!(!is_stopped.load(Ordering::Relaxed), "stopped by a signal");
    Ok(())
}
