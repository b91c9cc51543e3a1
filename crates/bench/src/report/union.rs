//! The figures of unions: one row per series, one column per number of branches.
use std::fmt::Write;

use super::results::{BenchResults, SeriesMember, SubjectDescription};
use super::table;
use crate::measure::{StepFigures, StepResult, WorkloadResult};
use crate::subjects::{NATIVE, OVERLAYFS};

/// Returns the series, without the lower file system, in the order of the tables.
pub(crate) fn series(results: &BenchResults) -> Vec<&str> {
    let mut all = Vec::new();
    for member in members(results) {
        if !all.contains(&member.series.as_str()) {
            all.push(&member.series);
        }
    }
    all
}

/// Returns the numbers of branches in ascending order.
pub(crate) fn branches(results: &BenchResults) -> Vec<usize> {
    let mut all: Vec<_> = members(results).map(|member| member.branches).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the figures of a series with that many branches in a step.
pub(crate) fn figures<'a>(
    results: &BenchResults,
    step: &'a StepResult,
    series: &str,
    branches: usize,
) -> Option<&'a StepFigures> {
    step.subjects.get(&note(results, series, branches)?.name)
}

/// Returns the table for the terminal.
pub(crate) fn table(title: &str, result: &WorkloadResult, results: &BenchResults) -> String {
    let width = series(results).iter().map(|name| name.len() + 2).max().unwrap_or(0).max(NATIVE.len() + 2);
    let mut text = format!("\n{title}");
    for step in &result.steps {
        line(&mut text, format!("\n{:width$}{}", step.step, columns(results, |count| format!("{count:>18}"))));
        if let Some(native) = step.subjects.get(NATIVE) {
            line(&mut text, format!("{NATIVE:width$}{:>18}", table::seconds(step, native.seconds_median)));
        }
        for name in series(results) {
            let cell = |count| format!("{:>18}", cell(results, result, step, name, count));
            line(&mut text, format!("{name:width$}{}", columns(results, cell)));
        }
    }
    for (subject, reason) in &result.failures {
        line(&mut text, format!("FAILED {subject}: {reason}"));
    }
    text
}

/// Returns the contents of union.md.
pub(crate) fn markdown(results: &BenchResults) -> String {
    let mut text = String::from(
        "# Unions\n\nWritten by `bench union`; how to read them: [README.md](README.md#unions). Each cell is the time as a \
         multiple of the lower file system's without a union, and the median in seconds; in bold the fastest outside the \
         kernel. The last column is the time with the most branches as a multiple of that with the fewest.\n\n",
    );
    let machine = &results.machine;
    line(
        &mut text,
        format!(
            "Linux {}, {} cores, {} GiB of memory, {}.\n\n![build and postmark](union.svg)\n\n![tree](union-tree.svg)",
            machine.kernel, machine.cores, machine.memory_gib, machine.file_system
        ),
    );
    for (workload, result) in results.ordered() {
        section(&mut text, workload, result, results);
    }
    mounts(&mut text, results);
    text
}

fn section(text: &mut String, workload: &str, result: &WorkloadResult, results: &BenchResults) {
    let load = result.load_average.map_or("unknown".to_owned(), |load| format!("{load:.1}"));
    let rounds = if result.rounds == 1 { "one round".to_owned() } else { format!("{} rounds", result.rounds) };
    let small = if result.quick { ", small sizes: the figures mean little" } else { "" };
    line(text, format!("\n## {workload}\n\n{rounds}; load average before: {load}{small}."));
    for step in &result.steps {
        let native = step.subjects.get(NATIVE).map(|native| table::seconds(step, native.seconds_median));
        let native = native.map_or(String::new(), |seconds| format!(": {NATIVE} {seconds} s"));
        let ends = branches(results);
        let (Some(fewest), Some(most)) = (ends.first(), ends.last()) else { continue };
        line(text, format!("\n### {workload}: {}{native}\n", step.step));
        line(text, format!("| branches |{} {most} ÷ {fewest} |", columns(results, |count| format!(" {count} |"))));
        line(text, format!("|---|{}--:|", "--:|".repeat(ends.len())));
        for name in series(results) {
            let growth = growth(results, step, name, *fewest, *most).unwrap_or("-".to_owned());
            let cells = columns(results, |count| {
                let mark = if fastest(results, step, count) == Some(name) { "**" } else { "" };
                format!(" {mark}{}{mark} |", cell(results, result, step, name, count))
            });
            line(text, format!("| {} |{cells} {growth} |", escape(name)));
        }
        requests(text, step, results);
    }
    if !result.failures.is_empty() {
        line(text, "\nFailed:\n".to_owned());
    }
    for (subject, reason) in &result.failures {
        line(text, format!("- {subject}: {reason}"));
    }
}

/// Writes the numbers of requests answered by the servers that report them, for each number of branches.
fn requests(text: &mut String, step: &StepResult, results: &BenchResults) {
    let list = |name| {
        let requests = |count| figures(results, step, name, count).and_then(StepFigures::requests_median);
        let counts: Vec<_> = branches(results).into_iter().map(requests).collect();
        let shown = |count: &Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
        let text = || counts.iter().map(shown).collect::<Vec<_>>().join(", ");
        counts.iter().any(Option::is_some).then(|| format!("{} {}", escape(name), text()))
    };
    let lists: Vec<_> = series(results).into_iter().filter_map(list).collect();
    if !lists.is_empty() {
        line(text, format!("\nRequests to the server: {}.", lists.join("; ")));
    }
}

/// Returns the fastest series outside the kernel, by ratio: with changing machine speed, the durations reflect the machine.
fn fastest<'a>(results: &'a BenchResults, step: &StepResult, branches: usize) -> Option<&'a str> {
    let ratio = |name| {
        let figures = figures(results, step, name, branches)?;
        Some((figures.ratio.unwrap_or(figures.seconds_median), name))
    };
    let all = series(results).into_iter().filter(|name| *name != OVERLAYFS).filter_map(ratio);
    all.min_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, name)| name)
}

fn growth(results: &BenchResults, step: &StepResult, series: &str, fewest: usize, most: usize) -> Option<String> {
    let of = |count| Some(figures(results, step, series, count)?.seconds_median);
    Some(table::ratio(of(most)? / of(fewest)?))
}

/// Writes each series with the command for two branches, or the nearest number that was measured.
fn mounts(text: &mut String, results: &BenchResults) {
    line(text, "\n## Subjects\n\n| subject | version | mounted by |\n|---|---|---|".to_owned());
    for name in series(results) {
        let notes = results.subjects.iter().filter(|note| note.member.as_ref().is_some_and(|own| own.series == name));
        let Some(note) = notes.min_by_key(|note| distance_from_two(note)) else { continue };
        let version = note.version.as_deref().unwrap_or("-");
        line(text, format!("| {} | {version} | `{}` |", escape(name), escape(&note.command)));
    }
}

fn distance_from_two(note: &SubjectDescription) -> usize {
    note.member.as_ref().map_or(usize::MAX, |member| member.branches.abs_diff(2))
}

fn cell(results: &BenchResults, result: &WorkloadResult, step: &StepResult, series: &str, branches: usize) -> String {
    let Some(note) = note(results, series, branches) else { return "-".to_owned() };
    let Some(figures) = step.subjects.get(&note.name) else {
        return if result.failures.contains_key(&note.name) { "failed" } else { "-" }.to_owned();
    };
    let seconds = table::seconds(step, figures.seconds_median);
    figures.ratio.map_or(seconds.clone(), |ratio| format!("{} ({seconds})", table::ratio(ratio)))
}

fn columns(results: &BenchResults, show: impl Fn(usize) -> String) -> String {
    branches(results).into_iter().map(show).collect()
}

fn members(results: &BenchResults) -> impl Iterator<Item = &SeriesMember> {
    results.subjects.iter().filter_map(|note| note.member.as_ref())
}

fn note<'a>(results: &'a BenchResults, series: &str, branches: usize) -> Option<&'a SubjectDescription> {
    let wanted = |member: &SeriesMember| member.series == series && member.branches == branches;
    results.subjects.iter().find(|note| note.member.as_ref().is_some_and(wanted))
}

/// Escapes bars, which end a table cell.
fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}

fn line(text: &mut String, line: String) {
    writeln!(text, "{line}").expect("a String takes everything");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use crate::measure::Sample;
    use crate::subjects;

    #[test]
    fn row_shows_ratios_failures_and_growth() {
        let all = subjects::unions(Path::new("plyfs"), &["{rw} | union".to_owned()], "", &[1, 2, 4]);
        let mut results = BenchResults::new(&all);
        let mut result = WorkloadResult::default();
        for (name, seconds) in [(NATIVE, 1.0), ("mergerfs (1)", 2.0), ("mergerfs (4)", 3.0)] {
            result.add(
                name,
                &[Sample { step: "postmark", operations: 0, seconds, processor_seconds: None, requests: Some(7) }],
            );
        }
        result.fail("mergerfs (2)", "it crashed".to_owned());
        result.compute_medians();
        results.workloads = BTreeMap::from([("postmark".to_owned(), result)]);
        let text = markdown(&results);
        assert!(text.contains("| branches | 1 | 2 | 4 | 4 ÷ 1 |\n"), "{text}");
        assert!(text.contains("| mergerfs | **2.00x (2.00)** | failed | **3.00x (3.00)** | 1.50x |\n"), "{text}");
        assert!(text.contains("Requests to the server: mergerfs 7, -, 7.\n"), "{text}");
        assert!(text.contains("- mergerfs (2): it crashed\n"), "{text}");
        assert!(text.contains("| overlayfs | - | - | - | - |\n"), "{text}");
    }
}
