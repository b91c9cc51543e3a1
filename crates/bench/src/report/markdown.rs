//! The figures as a Markdown page.
use std::fmt::Write;

use super::results::BenchResults;
use super::table;

/// Returns the contents of results.md.
pub(crate) fn render(results: &BenchResults) -> String {
    let mut text = String::from("# Results\n\nWritten by `make bench`; how to read them: [README.md](README.md).\n\n");
    let machine = &results.machine;
    line(
        &mut text,
        format!(
            "Linux {}, {} cores, {} GiB of memory, {}.\n",
            machine.kernel, machine.cores, machine.memory_gib, machine.file_system
        ),
    );
    line(&mut text, "![Ratio to the lower file system](chart.svg)\n".to_owned());
    ratios(&mut text, results);
    medians(&mut text, results);
    cpu_time(&mut text, results);
    requests(&mut text, results);
    loads(&mut text, results);
    failures(&mut text, results);
    line(&mut text, "\n## Subjects\n\n| subject | version | mounted by |\n|---|---|---|".to_owned());
    for subject in &results.subjects {
        let version = subject.version.as_deref().unwrap_or("-");
        line(&mut text, format!("| {} | {version} | `{}` |", cell(&subject.name), cell(&subject.command)));
    }
    text
}

fn ratios(text: &mut String, results: &BenchResults) {
    line(text, "## Time as a multiple of the lower file system's\n".to_owned());
    grid(text, results, |step, subject| Some(table::ratio(step.subjects.get(subject)?.ratio?)));
}

fn medians(text: &mut String, results: &BenchResults) {
    line(text, "\n## Medians in seconds\n".to_owned());
    grid(text, results, |step, subject| Some(table::seconds(step, step.subjects.get(subject)?.seconds_median)));
}

/// Writes the CPU time of the whole machine: the work of a server or the kernel besides the program is part of the cost.
fn cpu_time(text: &mut String, results: &BenchResults) {
    line(text, "\n## CPU time of the whole machine in seconds (medians)\n".to_owned());
    grid(text, results, |step, subject| {
        Some(table::seconds(step, step.subjects.get(subject)?.processor_seconds_median()?))
    });
}

/// Writes the numbers of requests answered, which only servers with queryable counts report.
fn requests(text: &mut String, results: &BenchResults) {
    let has_some = |(_, result): (&str, &crate::measure::WorkloadResult)| {
        result.steps.iter().flat_map(|step| step.subjects.values()).any(|figures| !figures.requests.is_empty())
    };
    if results.ordered().any(has_some) {
        line(text, "\n## Requests that the server answered (medians)\n".to_owned());
        grid(text, results, |step, subject| Some(step.subjects.get(subject)?.requests_median()?.to_string()));
    }
}

fn grid(text: &mut String, results: &BenchResults, show: impl Fn(&crate::measure::StepResult, &str) -> Option<String>) {
    let names = results.subject_names();
    let headings: String = names.iter().map(|name| format!(" {} |", cell(name))).collect();
    line(text, format!("| workload | step | rounds |{headings}"));
    line(text, format!("|---|---|--:|{}", "--:|".repeat(names.len())));
    for (workload, result) in results.ordered() {
        for step in &result.steps {
            let cells: String =
                names.iter().map(|name| format!(" {} |", show(step, name).unwrap_or("-".to_owned()))).collect();
            line(text, format!("| {workload} | {} | {} |{cells}", step.step, result.rounds));
        }
    }
}

/// Reports the load of the machine, because a busy machine makes the durations long and the ratios imprecise.
fn loads(text: &mut String, results: &BenchResults) {
    let load = |(workload, result): (&str, &crate::measure::WorkloadResult)| match result.load_average {
        Some(load) => format!("{workload} {load:.1}"),
        None => format!("{workload} unknown"),
    };
    let loads: Vec<_> = results.ordered().map(load).collect();
    line(text, format!("\nLoad average of the machine before each workload: {}.", loads.join(", ")));
}

fn failures(text: &mut String, results: &BenchResults) {
    for (workload, result) in results.ordered() {
        for (subject, reason) in &result.failures {
            line(text, format!("\n{subject} failed in {workload}: {reason}"));
        }
    }
}

/// Escapes bars, which end a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn line(text: &mut String, line: String) {
    writeln!(text, "{line}").expect("a String takes everything");
}
