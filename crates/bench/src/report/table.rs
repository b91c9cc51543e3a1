//! The figures as tables for a terminal.
use std::fmt::Write;

use crate::measure::{StepFigures, StepResult, WorkloadResult};

/// Returns the table of one workload: one row per step, each with the median duration and the ratio to the lower file system;
/// then the CPU time of the whole machine.
pub(crate) fn one(name: &str, result: &WorkloadResult, subjects: &[&str]) -> String {
    let title = format!("{name}: seconds (median of {}) and ratio to {}", result.rounds, result.reference);
    let times = render(&title, result, subjects, |step, figures| timed(seconds(step, figures.seconds_median), figures));
    let processors = format!("{name}: CPU time of the whole machine in seconds");
    let busy = |step: &StepResult, figures: &StepFigures| {
        figures.processor_seconds_median().map_or("-".to_owned(), |busy| seconds(step, busy))
    };
    times + &render(&processors, result, subjects, busy)
}

/// Returns the table for single operations: microseconds instead of seconds.
pub(crate) fn per_operation(result: &WorkloadResult, subjects: &[&str]) -> String {
    let title = format!("microseconds per operation (median of {}) and ratio to {}", result.rounds, result.reference);
    let microseconds = |step: &StepResult, seconds: f64| seconds * 1e6 / step.operations.max(1) as f64;
    render(&title, result, subjects, |step, figures| {
        timed(format!("{:.2}", microseconds(step, figures.seconds_median)), figures)
    })
}

/// Returns a duration with its ratio to that of the lower file system.
fn timed(time: String, figures: &StepFigures) -> String {
    time + &figures.ratio.map_or(String::new(), |value| format!(" {:>6}", ratio(value)))
}

/// Formats a duration with the appropriate number of digits.
pub(crate) fn seconds(_: &StepResult, seconds: f64) -> String {
    if seconds < 1.0 { format!("{seconds:.3}") } else { format!("{seconds:.2}") }
}

/// Formats a ratio with the appropriate number of digits.
pub(crate) fn ratio(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.2}x") } else { format!("{ratio:.1}x") }
}

fn render(
    title: &str,
    result: &WorkloadResult,
    subjects: &[&str],
    show: impl Fn(&StepResult, &StepFigures) -> String,
) -> String {
    let first = result.steps.iter().map(|step| step.step.len()).max().unwrap_or(0) + 2;
    let width = subjects.iter().map(|name| name.len() + 2).max().unwrap_or(0).max(18);
    let mut text = format!("\n{title}\n{:first$}", "");
    for subject in subjects {
        write!(text, "{subject:>width$}").expect("a String takes everything");
    }
    text.push('\n');
    for step in &result.steps {
        write!(text, "{:first$}", step.step).expect("a String takes everything");
        for subject in subjects {
            let cell = step.subjects.get(*subject).map_or("-".to_owned(), |figures| show(step, figures));
            write!(text, "{cell:>width$}").expect("a String takes everything");
        }
        text.push('\n');
    }
    for (subject, reason) in &result.failures {
        writeln!(text, "FAILED {subject}: {reason}").expect("a String takes everything");
    }
    text
}
