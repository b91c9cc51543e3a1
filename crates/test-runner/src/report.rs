//! Reports on a run: each job, failures, seeds, the slowest tests, omissions, the counts.

use std::path::Path;
use std::time::Duration;

use crate::case::{Case, Outcome, Results, Verdict};
use crate::disk_space;
use crate::events::SKIPPED_PREFIX;
use crate::kernel_parameters;
use crate::plan::{self, Tier};

const SLOWEST_COUNT: usize = 20;

/// Prints a finished job, with the output of its failed tests, and whether these may have found no space. Results are in this
/// directory.
pub(crate) fn print_job(outcome: &Outcome, results: &Path) {
    for note in &outcome.notes {
        say!("    {note}");
    }
    for case in outcome.cases.iter().filter(|case| case.verdict == Verdict::Failed) {
        say!("FAILED {}: {}\n{}", case.job, case.name, case.output.trim_end());
    }
    if outcome.count(Verdict::Failed) > 0
        && let Some(shortage) = disk_space::after_failure(results)
    {
        say!("{shortage}");
    }
    say!("{}: {} in {}", outcome.title, counts(|verdict| outcome.count(verdict)), format_duration(outcome.elapsed));
}

fn counts(count: impl Fn(Verdict) -> usize) -> String {
    let [passed, failed, skipped] = [Verdict::Passed, Verdict::Failed, Verdict::Skipped].map(count);
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

/// Prints the summary of the whole run; the counts come last.
pub(crate) fn print_summary(results: &Results, tier: Tier, elapsed: Duration) {
    section("seeds", results.cases.iter().filter(|case| case.verdict == Verdict::Passed).flat_map(seeds));
    section("slowest tests", slowest(results));
    section(tier.omitted_title(), results.omitted.iter().cloned().chain(plan::omitted(tier)));
    section(
        "skipped",
        of(results, Verdict::Skipped).map(|case| format!("{}: {}: {}", case.job, case.name, first_line(case))),
    );
    section("failed", of(results, Verdict::Failed).map(|case| format!("{}: {}", case.job, case.name)));
    say!("ran for {}", format_duration(elapsed));
    say!("{}", counts(|verdict| results.count(verdict)));
}

fn of(results: &Results, verdict: Verdict) -> impl Iterator<Item = &Case> {
    results.cases.iter().filter(move |case| case.verdict == verdict)
}

fn section(title: &str, lines: impl IntoIterator<Item = String>) {
    let mut lines = lines.into_iter().peekable();
    if lines.peek().is_some() {
        say!("\n{title}:");
        lines.for_each(|line| say!("    {line}"));
    }
}

fn seeds(case: &Case) -> Vec<String> {
    case.output.lines().map(|line| format!("{} {}: {line}", case.job, case.name)).collect()
}

fn slowest(results: &Results) -> Vec<String> {
    let mut timed: Vec<(f64, &Case)> =
        results.cases.iter().filter_map(|case| case.seconds.map(|seconds| (seconds, case))).collect();
    timed.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    timed
        .iter()
        .take(SLOWEST_COUNT)
        .map(|(seconds, case)| format!("{seconds:7.2} s  {}: {}", case.job, case.name))
        .collect()
}

fn first_line(case: &Case) -> &str {
    case.output.lines().find(|line| line.starts_with(SKIPPED_PREFIX)).unwrap_or("ignored")
}

/// Returns the result recorded for jobs that did not finish.
pub(crate) fn interrupted(error: &anyhow::Error) -> Outcome {
    let job = "the run".to_owned();
    let name = "all jobs".to_owned();
    let case = Case { job: job.clone(), name, verdict: Verdict::Failed, seconds: None, output: format!("{error:#}") };
    Outcome { title: job, cases: vec![case], notes: Vec::new(), elapsed: Duration::ZERO }
}

/// Returns whether nothing failed, something passed, and nothing was skipped where everything can run.
pub(crate) fn is_success(results: &Results) -> bool {
    let unexcused = of(results, Verdict::Skipped).filter(|case| !is_excused(case)).count();
    let may_skip = unexcused == 0 || !plan::can_mount();
    if !may_skip {
        say!("{unexcused} tests were skipped although root and /dev/fuse are here: that is a failure");
    }
    results.count(Verdict::Failed) == 0 && results.count(Verdict::Passed) > 0 && may_skip
}

/// Prefix of the reason why a test is skipped for a feature that the kernel lacks, rather than for the machine's set-up.
const EXCUSED_PREFIX: &str = "skipped: the kernel has no ";

/// Returns whether a test was skipped for such reasons only.
fn is_excused(case: &Case) -> bool {
    let mut reasons = case.output.lines().filter(|line| line.starts_with(SKIPPED_PREFIX)).peekable();
    reasons.peek().is_some() && reasons.all(|line| line.starts_with(EXCUSED_PREFIX))
}

/// Prints what cannot be tested on this machine. Results are to be in this directory.
pub(crate) fn print_limits(results: &Path) {
    if let Some(shortage) = disk_space::before_run(results) {
        say!("{shortage}");
    }
    if !rustix::process::geteuid().is_root() {
        say!("not root: tests that need several users or mount(2) are skipped");
    }
    if !Path::new("/dev/fuse").exists() {
        say!("no /dev/fuse: tests that mount are skipped");
    }
    if !kernel_parameters::can_set_transport() {
        say!("no io_uring for FUSE in this kernel, or not root: mounts are tested with /dev/fuse only");
    }
}

/// Formats a duration for humans.
fn format_duration(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 60.. => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{:.1} s", duration.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_kernel_features_excuse_skipped_tests() {
        let mut results = Results::sample();
        results.cases[1].verdict = Verdict::Skipped;
        results.cases[1].output = "skipped: the kernel has no io_uring for FUSE\n".to_owned();
        assert!(is_success(&results));
        results.cases[1].output += "skipped: needs root\n";
        assert_eq!(is_success(&results), !plan::can_mount());
    }

    #[test]
    fn a_failure_or_an_empty_run_is_no_success() {
        let mut results = Results::sample();
        assert!(!is_success(&results));
        results.cases.pop();
        assert!(is_success(&results));
        assert!(!is_success(&Results::default()));
    }
}
