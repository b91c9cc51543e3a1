//! Runs jobs in parallel, heaviest first, until all have ended or a signal arrives.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::case::Outcome;
use crate::job::Job;
use crate::kernel_parameters::TransportState;

/// Flag that ends the whole run.
#[derive(Debug)]
pub(crate) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Creates a flag that is set when a signal of a user or terminal arrives.
    ///
    /// # Errors
    /// Fails if a signal handler cannot be installed.
    pub(crate) fn on_signals() -> anyhow::Result<Self> {
        let stop = Self(Arc::new(AtomicBool::new(false)));
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            signal_hook::flag::register(signal, stop.0.clone())?;
        }
        Ok(stop)
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs the jobs, `side_by_side` at a time, and passes on each result as it arrives. The default is one more than there are
/// CPUs: most tests spend a good part of their time waiting.
///
/// # Errors
/// Fails if a job cannot be started, or a signal arrived; running programs are then ended.
pub(crate) fn run(
    mut jobs: Vec<Job>,
    side_by_side: Option<usize>,
    results: &Path,
    stop: &StopFlag,
    take: &mut dyn FnMut(Outcome),
) -> anyhow::Result<()> {
    jobs.sort_by_key(|job| job.weight);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = side_by_side.unwrap_or(processors + 1).clamp(1, jobs.len().max(1));
    let queue = Mutex::new(jobs);
    let (sender, ends) = channel();
    std::thread::scope(|scope| -> anyhow::Result<()> {
        for _ in 0..workers {
            let (sender, queue) = (sender.clone(), &queue);
            scope.spawn(move || {
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
                while let Some(job) = next().filter(|_| !stop.is_set()) {
                    let end = job.run(results, &|| stop.is_set());
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
                    stop.set();
                    first_error = first_error.and(Err(error));
                }
            }
        }
        first_error
    })?;
    anyhow::ensure!(!stop.is_set(), "stopped by a signal");
    Ok(())
}

/// Groups the jobs by state, in the order in which the states run.
pub(crate) fn phases(jobs: Vec<Job>) -> BTreeMap<TransportState, Vec<Job>> {
    let mut phases: BTreeMap<TransportState, Vec<Job>> = BTreeMap::new();
    for job in jobs {
        phases.entry(job.state).or_default().push(job);
    }
    phases
}
