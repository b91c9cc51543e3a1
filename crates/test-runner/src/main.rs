//! Runs the test programs of the workspace in parallel, in one of two tiers, and reports their results.

/// Prints a line. The reader may be gone, or its disk full: the run continues, and its results are in files.
macro_rules! say {
    ($($arguments:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($arguments)*);
    }};
}

mod case;
mod disk_space;
mod events;
mod files;
mod job;
mod kernel_parameters;
mod plan;
mod programs;
mod report;
mod sandbox;
mod schedule;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use clap::Parser;

use case::Results;
use job::Job;
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
    let mut jobs = plan::jobs(arguments.tier, &programs, &arguments.results)?;
    for filter in &arguments.filters {
        let is_chosen = jobs.iter().any(|job| job.title.contains(filter));
        anyhow::ensure!(is_chosen, "no job has a title that contains {filter:?}: --list shows them");
    }
    if !arguments.filters.is_empty() {
        jobs.retain(|job| arguments.filters.iter().any(|text| job.title.contains(text)));
        jobs.iter_mut().for_each(plan::keep_caller_environment);
    }
    if arguments.list {
        jobs.iter().for_each(|job| say!("{job}"));
        return Ok(ExitCode::SUCCESS);
    }
    let results = arguments.results.as_path();
    std::fs::create_dir_all(results)
        .with_context(|| format!("creating the results directory {}", results.display()))?;
    let (_results_lock, _transport_lock) = (lock_results(results)?, kernel_parameters::lock_transport()?);
    files::remove(results)?;
    report::print_limits(results);
    let (started, stop) = (Instant::now(), schedule::StopFlag::on_signals()?);
    let mut run_results = Results::default();
    let symlink_guard = kernel_parameters::ParameterGuard::protected_symlinks()?;
    let ended = run(jobs, &arguments, &stop, &mut run_results);
    drop(symlink_guard);
    if let Err(error) = &ended {
        run_results.add(report::interrupted(error));
    }
    report::print_summary(&run_results, arguments.tier, started.elapsed());
    files::write(&run_results, results)?;
    ended?;
    Ok(ExitCode::from(u8::from(!report::is_success(&run_results))))
}

fn run(
    jobs: Vec<Job>,
    arguments: &Arguments,
    stop: &schedule::StopFlag,
    run_results: &mut Results,
) -> anyhow::Result<()> {
    for (state, jobs) in schedule::phases(jobs) {
        let _guard = kernel_parameters::ParameterGuard::to(state)?;
        schedule::run(jobs, arguments.jobs, &arguments.results, stop, &mut |outcome| {
            report::print_job(&outcome, &arguments.results);
            run_results.add(outcome);
        })?;
    }
    Ok(())
}

/// Locks the results directory against other runs.
fn lock_results(results: &Path) -> anyhow::Result<File> {
    let path = results.join("lock");
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    file.try_lock().with_context(|| format!("another run has {}: wait for its end", path.display()))?;
    Ok(file)
}
