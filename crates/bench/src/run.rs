//! The rounds: every subject does every workload, in turns.
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::image::Image;
use crate::measure::{Sample, WorkloadResult};
use crate::report::{self, Results};
use crate::session::Session;
use crate::subjects::{NATIVE, Subject};
use crate::teardown;
use crate::workloads::{LATENCY, Sizes, Workload};

/// A subject that takes longer for one workload hangs.
const WORKLOAD_SECONDS_MAX: u64 = 20 * 60;

/// Before so many others the lower file system is measured anew.
const SUBJECTS_PER_NATIVE: usize = 4;

/// The step that is the sum of the others.
const TOTAL: &str = "total";

/// Runs the workloads, prints and writes the results; whether every subject did everything.
pub fn run(
    image: &Image,
    subjects: &[Subject],
    workloads: &[&Workload],
    sizes: &Sizes,
    rounds: u32,
    output: Option<&Path>,
) -> Result<bool> {
    let mut results = Results::new(subjects);
    for workload in workloads {
        let result = interleave(image, subjects, workload, sizes, rounds);
        print!("{}", report::table::one(workload.name, &result, &results.subject_names()));
        results.workloads.insert(workload.name.to_owned(), result);
    }
    let failed = results.workloads.values().any(|result| !result.failures.is_empty());
    if let Some(directory) = output {
        report::write(directory, &mut results)?;
    }
    Ok(!failed)
}

/// Runs the workloads over unions, prints and writes the results; whether every union did everything. It takes hours: what
/// is done is written at once.
pub fn unions(
    image: &Image,
    subjects: &[Subject],
    workloads: &[&Workload],
    sizes: &Sizes,
    rounds: impl Fn(&Workload) -> u32,
    output: Option<&Path>,
) -> Result<bool> {
    let mut results = Results::new(subjects);
    let mut all_done = true;
    for workload in workloads {
        let result = interleave(image, subjects, workload, sizes, rounds(workload));
        print!("{}", report::union::table(workload.name, &result, &results));
        all_done &= result.failures.is_empty();
        results.workloads.insert(workload.name.to_owned(), result);
        if let Some(directory) = output {
            report::write_union(directory, &mut results)?;
        }
    }
    Ok(all_done)
}

/// Runs the single operations, prints and writes their figures.
pub fn latency(image: &Image, subjects: &[Subject], sizes: &Sizes, rounds: u32, output: Option<&Path>) -> Result<bool> {
    let mut results = Results::new(subjects);
    let result = interleave(image, subjects, &LATENCY, sizes, rounds);
    print!("{}", report::table::per_operation(&result, &results.subject_names()));
    let failed = !result.failures.is_empty();
    results.workloads.insert(LATENCY.name.to_owned(), result);
    if let Some(directory) = output {
        report::write_json(directory, "latency.json", &results)?;
    }
    Ok(!failed)
}

fn interleave(image: &Image, subjects: &[Subject], workload: &Workload, sizes: &Sizes, rounds: u32) -> WorkloadResult {
    let mut result =
        WorkloadResult { rounds, quick: !sizes.compile, load_average: load_average(), ..WorkloadResult::default() };
    for round in 0..rounds {
        for subject in turns(subjects, round as usize) {
            if result.failures.contains_key(&subject.name) {
                continue;
            }
            match once(image, subject, workload, sizes) {
                Ok(samples) => {
                    let steps = samples.iter().filter(|sample| sample.step != TOTAL);
                    let seconds: f64 = steps.map(|sample| sample.seconds).sum();
                    eprintln!(
                        "bench: {}, round {} of {rounds}, {}: {seconds:.2} s",
                        workload.name,
                        round + 1,
                        subject.name
                    );
                    result.add(&subject.name, &samples);
                }
                Err(error) => {
                    let reason = format!("{error:#}").replace(&*image.root().to_string_lossy(), "");
                    eprintln!("bench: {}, {} FAILED: {reason}", workload.name, subject.name);
                    result.fail(&subject.name, reason);
                }
            }
        }
    }
    result.conclude();
    result
}

/// The subjects in the order of a round. The lower file system comes before every few others: within an hour the machine's
/// speed changes by a third. Of the others another one begins in every round, so that none always comes after the same.
fn turns(subjects: &[Subject], round: usize) -> Vec<&Subject> {
    let (native, mut others): (Vec<_>, Vec<_>) = subjects.iter().partition(|subject| subject.name == NATIVE);
    if others.is_empty() {
        return native;
    }
    let begin = round % others.len();
    others.rotate_left(begin);
    others.chunks(SUBJECTS_PER_NATIVE).flat_map(|some| native.iter().chain(some).copied().collect::<Vec<_>>()).collect()
}

/// One workload, watched: if it hangs, what runs is killed, so that every blocked call returns.
fn once(image: &Image, subject: &Subject, workload: &Workload, sizes: &Sizes) -> Result<Vec<Sample>> {
    let (done, watched) = channel::<()>();
    std::thread::scope(|scope| {
        let watchdog = scope.spawn(move || {
            let late =
                watched.recv_timeout(Duration::from_secs(WORKLOAD_SECONDS_MAX)) == Err(RecvTimeoutError::Timeout);
            if late {
                teardown::kill_all();
            }
            late
        });
        let outcome = measured(image, subject, workload, sizes);
        drop(done);
        match watchdog.join() {
            Ok(true) => Err(anyhow!("not done after {WORKLOAD_SECONDS_MAX} seconds")),
            _ => outcome,
        }
    })
}

fn measured(image: &Image, subject: &Subject, workload: &Workload, sizes: &Sizes) -> Result<Vec<Sample>> {
    let mut session = Session::new(image, subject)?;
    (workload.run)(&mut session, sizes)?;
    let mut samples = session.finish()?;
    if samples.len() > 1 && workload.name == "build" {
        let seconds = samples.iter().map(|sample| sample.seconds).sum();
        let requests = samples.iter().map(|sample| sample.requests).sum();
        samples.push(Sample { step: TOTAL, operations: 0, seconds, requests });
    }
    Ok(samples)
}

/// Of the last minute: what others did to the figures.
fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}
