//! Runs the test programs of the workspace side by side, in one of two tiers, and reports what they found.

mod case;
mod events;
mod job;
mod plan;
mod programs;
mod report;
mod schedule;
mod switch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;

use case::Results;
use plan::Tier;

/// Runs the test programs that cargo built, and reports passed, failed and skipped tests.
#[derive(Debug, Parser)]
struct Arguments {
    /// What to run: quick covers every case once, all is everything, mounted is what uses the kernel's FUSE
    tier: Tier,
    /// Only jobs whose title contains one of these, such as "layers union_crash"
    filters: Vec<String>,
    /// The messages of `cargo build --all-targets --message-format=json`
    #[arg(long, default_value = "target/tests/built.json")]
    built: PathBuf,
    /// Directory for results.json, junit.xml and the output of each program
    #[arg(long, default_value = "target/tests")]
    results: PathBuf,
    /// Number of programs that run at the same time [default: one more than there are CPUs]
    #[arg(long)]
    jobs: Option<usize>,
    /// Print the jobs with their environment and run nothing
    #[arg(long)]
    list: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let programs = programs::read(&arguments.built)?;
    let mut jobs = plan::jobs(arguments.tier, &programs, &arguments.results);
    jobs.retain(|job| arguments.filters.is_empty() || arguments.filters.iter().any(|text| job.title.contains(text)));
    anyhow::ensure!(!jobs.is_empty(), "no job has a title that contains {:?}", arguments.filters);
    if arguments.list {
        jobs.iter().for_each(|job| println!("{job}"));
        return Ok(ExitCode::SUCCESS);
    }
    std::fs::create_dir_all(&arguments.results)
        .with_context(|| format!("creating the results directory {}", arguments.results.display()))?;
    report::limits();
    let started = Instant::now();
    let mut results = Results::default();
    for (state, jobs) in switch::phases(jobs) {
        let _set = switch::Set::to(state)?;
        schedule::run(jobs, arguments.jobs, &arguments.results, &mut |outcome| {
            report::job(&outcome);
            results.add(outcome);
        })?;
    }
    report::end(&results, arguments.tier, started.elapsed());
    report::write(&results, &arguments.results)?;
    Ok(ExitCode::from(u8::from(!report::is_success(&results))))
}

/// A duration as people read it.
fn readable(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 60.. => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{:.1} s", duration.as_secs_f64()),
    }
}
