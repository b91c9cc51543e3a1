//! The rounds: every subject runs every workload, in turns.
use std::path::Path;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::image::Image;
use crate::measure::{Sample, WorkloadResult};
use crate::report::{self, BenchResults};
use crate::session::Session;
use crate::slices::{self, SubjectTurn};
use crate::subjects::{NATIVE, Subject};
use crate::workloads::{OPERATIONS, Sizes, Workload};

/// Maximum time in seconds that a subject may take for one workload; beyond it, the subject is considered hung.
const MAX_WORKLOAD_SECONDS: u64 = 20 * 60;

/// Number of other subjects after which the lower file system is measured again.
const SUBJECTS_PER_NATIVE: usize = 4;

/// Length of a time slice of each of several subjects.
const SLICE: Duration = Duration::from_secs(1);

/// The step that is the sum of the others.
const TOTAL: &str = "total";

/// Runs the workloads, prints and writes the results; returns whether every subject completed everything.
pub(crate) fn run(
    image: &Image,
    subjects: &[Subject],
    workloads: &[&Workload],
    sizes: &Sizes,
    rounds: u32,
    output: Option<&Path>,
) -> Result<bool> {
    let mut results = BenchResults::new(subjects);
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

/// Runs the workloads on unions, prints and writes the results; returns whether every union completed everything. It takes
/// hours, so results are written as soon as they are available.
pub(crate) fn unions(
    image: &Image,
    subjects: &[Subject],
    workloads: &[&Workload],
    sizes: &Sizes,
    rounds: impl Fn(&Workload) -> u32,
    output: Option<&Path>,
) -> Result<bool> {
    let mut results = BenchResults::new(subjects);
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

/// Runs the single operations, prints and writes their figures; returns whether every subject completed everything.
pub(crate) fn latency(
    image: &Image,
    subjects: &[Subject],
    sizes: &Sizes,
    rounds: u32,
    output: Option<&Path>,
) -> Result<bool> {
    let mut results = BenchResults::new(subjects);
    let mut failed = false;
    for workload in OPERATIONS {
        let result = interleave(image, subjects, workload, sizes, rounds);
        print!("{}", report::table::per_operation(&result, &results.subject_names()));
        failed |= !result.failures.is_empty();
        results.workloads.insert(workload.name.to_owned(), result);
    }
    if let Some(directory) = output {
        report::write_json(directory, "latency.json", &results)?;
    }
    Ok(!failed)
}

/// Runs one workload of all subjects in turns. Without the lower file system, ratios refer to the first subject.
pub(crate) fn interleave(
    image: &Image,
    subjects: &[Subject],
    workload: &Workload,
    sizes: &Sizes,
    rounds: u32,
) -> WorkloadResult {
    let (quick, load_average) = (!sizes.compile, procfs::load_average());
    let mut result = WorkloadResult { rounds, quick, load_average, ..WorkloadResult::default() };
    if let (Some(first), false) = (subjects.first(), subjects.iter().any(|subject| subject.name == NATIVE)) {
        result.reference.clone_from(&first.name);
    }
    for round in 0..rounds {
        for group in groups(subjects, &result.reference, workload, round as usize) {
            let group: Vec<_> =
                group.into_iter().filter(|subject| !result.failures.contains_key(&subject.name)).collect();
            for (subject, outcome) in group.iter().zip(run_concurrently(image, &group, workload, sizes)) {
                record_outcome(&mut result, image, workload, round, subject, outcome);
            }
        }
    }
    result.compute_medians();
    result
}

/// Records the results of one subject in a round.
fn record_outcome(
    result: &mut WorkloadResult,
    image: &Image,
    workload: &Workload,
    round: u32,
    subject: &Subject,
    outcome: Result<Vec<Sample>>,
) {
    match outcome {
        Ok(samples) => {
            let steps = samples.iter().filter(|sample| sample.step != TOTAL);
            let seconds: f64 = steps.map(|sample| sample.seconds).sum();
            let (round, rounds) = (round + 1, result.rounds);
            eprintln!("bench: {}, round {round} of {rounds}, {}: {seconds:.2} s", workload.name, subject.name);
            result.add(&subject.name, &samples);
        }
        Err(error) => {
            let reason = format!("{error:#}").replace(&*image.root().to_string_lossy(), "");
            eprintln!("bench: {}, {} FAILED: {reason}", workload.name, subject.name);
            result.fail(&subject.name, reason);
        }
    }
}

/// Returns the subjects in the order of a round, grouped by those that work concurrently.
fn groups<'a>(subjects: &'a [Subject], reference: &str, workload: &Workload, round: usize) -> Vec<Vec<&'a Subject>> {
    let is_reference = |subject: &Subject| subject.name == reference;
    if workload.is_shared {
        let (first, others): (Vec<_>, Vec<_>) = subjects.iter().partition(|subject| is_reference(subject));
        return vec![first.into_iter().chain(others).collect()];
    }
    order(subjects, is_reference, round).into_iter().map(|subject| vec![subject]).collect()
}

/// Returns the subjects in the order of a round. The reference subject comes first, or before every few others, since the
/// machine's speed changes by a third within an hour. The order of the others rotates every round, so that none always follows
/// the same one.
pub(crate) fn order<T>(subjects: &[T], is_reference: impl Fn(&T) -> bool, round: usize) -> Vec<&T> {
    let (first, mut others): (Vec<_>, Vec<_>) = subjects.iter().partition(|subject| is_reference(subject));
    if others.is_empty() {
        return first;
    }
    let begin = round % others.len();
    others.rotate_left(begin);
    others.chunks(SUBJECTS_PER_NATIVE).flat_map(|some| first.iter().chain(some).copied().collect::<Vec<_>>()).collect()
}

/// Runs one workload of several subjects, one of them at a time. If it hangs, the running programs are killed, so that every
/// blocked call returns.
fn run_concurrently(image: &Image, group: &[&Subject], workload: &Workload, sizes: &Sizes) -> Vec<Result<Vec<Sample>>> {
    let turns: Vec<SubjectTurn> = group.iter().map(|_| SubjectTurn::default()).collect();
    let seconds_max = MAX_WORKLOAD_SECONDS * group.len() as u64;
    let deadline = Instant::now() + Duration::from_secs(seconds_max);
    let slice = if group.len() > 1 { SLICE } else { Duration::MAX };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..group.len())
            .map(|number| {
                let (subject, turn) = (group[number], &turns[number]);
                scope.spawn(move || {
                    let _guard = turn.begin();
                    measure(image, subject, number, turn, workload, sizes)
                })
            })
            .collect();
        slices::schedule(&turns, slice, deadline);
        let outcome = |handle: ScopedJoinHandle<'_, Result<Vec<Sample>>>| match handle.join() {
            Ok(Err(error)) if Instant::now() >= deadline => {
                Err(error.context(format!("not done after {seconds_max} seconds")))
            }
            Ok(outcome) => outcome,
            Err(_) => Err(anyhow!("it panicked")),
        };
        handles.into_iter().map(outcome).collect()
    })
}

fn measure(
    image: &Image,
    subject: &Subject,
    number: usize,
    turn: &SubjectTurn,
    workload: &Workload,
    sizes: &Sizes,
) -> Result<Vec<Sample>> {
    let mut session = Session::new(image, subject, number, turn)?;
    (workload.run)(&mut session, sizes)?;
    let mut samples = session.finish()?;
    if samples.len() > 1 && workload.name == "build" {
        let seconds = samples.iter().map(|sample| sample.seconds).sum();
        let processor_seconds = samples.iter().map(|sample| sample.processor_seconds).sum();
        let requests = samples.iter().map(|sample| sample.requests).sum();
        samples.push(Sample { step: TOTAL, operations: 0, seconds, processor_seconds, requests });
    }
    Ok(samples)
}
