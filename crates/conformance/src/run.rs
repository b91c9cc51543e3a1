//! Runs of the tests on a subject, and the report of a run.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::subject::Result;
use crate::{Ability, Client, Errno, Identity, Outcome, Subject, Test, TestContext, all, cases};

/// The result of one test.
#[derive(Debug)]
pub enum Verdict {
    /// The subject behaved as the test requires.
    Passed,
    /// It did not; the message contains the source location and the seed.
    Failed(String),
    /// The subject lacks this ability.
    NotApplicable(Ability),
}

/// The results of the tests of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// The subject's title.
    pub subject: String,
    /// Number of tests that passed.
    pub passed: usize,
    /// Full names and messages of the tests that failed.
    pub failures: Vec<(String, String)>,
    /// Full names of the tests that do not apply, and the missing abilities.
    pub not_applicable: Vec<(String, Ability)>,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, message) in &self.failures {
            writeln!(formatter, "{}: {name} FAILED: {message}", self.subject)?;
        }
        write!(
            formatter,
            "{}: {} passed, {} failed, {} not applicable",
            self.subject,
            self.passed,
            self.failures.len(),
            self.not_applicable.len()
        )
    }
}

/// Runs the tests that the filter accepts, as many in parallel as there are CPUs.
pub fn run(subject: &dyn Subject, filter: impl Fn(&Test) -> bool) -> Report {
    let chosen: Vec<&Test> = all().iter().filter(|test| filter(test)).collect();
    let next = AtomicUsize::new(0);
    let report = Mutex::new(Report { subject: subject.title().to_owned(), ..Report::default() });
    let run_tests = || {
        while let Some(test) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let verdict = run_test(subject, test);
            let mut report = report.lock().expect("no panic while adding to the report");
            match verdict {
                Verdict::Passed => report.passed += 1,
                Verdict::Failed(message) => report.failures.push((test.full_name(), message)),
                Verdict::NotApplicable(missing) => {
                    report.not_applicable.push((test.full_name(), missing));
                }
            }
        }
    };
    let is_sequential = subject.abilities().has(Ability::SmallSpace);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..if is_sequential { 1 } else { threads } {
            scope.spawn(run_tests);
        }
    });
    report.into_inner().expect("no panic while adding to the report")
}

/// Runs one test in its own directory, which is removed afterwards.
pub fn run_test(subject: &dyn Subject, test: &Test) -> Verdict {
    if let Some(missing) = subject.abilities().missing(test.needs) {
        return Verdict::NotApplicable(missing);
    }
    let seed = seed();
    let mut outcome = catch_unwind(AssertUnwindSafe(|| -> Outcome {
        let context = new_context(subject, test.name, seed)?;
        let outcome = (test.body)(&context);
        let cleared = context.clear();
        outcome?;
        cleared
    }));
    if let Err(panic) = &mut outcome {
        return Verdict::Failed(format!("panic: {} (seed {seed})", panic_message(panic)));
    }
    match outcome {
        Ok(Err(failure)) => Verdict::Failed(format!("{failure} (seed {seed})")),
        _ => Verdict::Passed,
    }
}

/// Returns the context of a test. On a small file system, the space freed by the previous test may not have been
/// reclaimed yet: a kernel notifies the server that a file was closed a moment after the close returned to the
/// program.
fn new_context<'a>(subject: &'a dyn Subject, name: &'static str, seed: u64) -> Result<TestContext<'a>> {
    const SPACE_TIMEOUT: Duration = Duration::from_secs(10);
    let end = Instant::now() + SPACE_TIMEOUT;
    loop {
        match TestContext::new(subject, name, seed) {
            Err(Errno::ENOSPC) if subject.abilities().has(Ability::SmallSpace) && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

/// Creates the tree that the tests of a read-only subject expect, through a writable view of it.
pub fn prepare(subject: &dyn Subject) -> Result<()> {
    let client: Box<dyn Client> = subject.client(&Identity::ROOT);
    cases::prepare(&*client, subject.abilities())
}

/// Returns the seed of this run: fixed, unless `CONFORMANCE_SEED` sets another.
fn seed() -> u64 {
    let variable = std::env::var("CONFORMANCE_SEED").ok();
    variable.and_then(|text| text.parse().ok()).unwrap_or(20_131)
}

fn panic_message(panic: &mut Box<dyn std::any::Any + Send>) -> String {
    if let Some(message) = panic.downcast_ref::<String>() {
        message.clone()
    } else if let Some(message) = panic.downcast_ref::<&str>() {
        (*message).to_owned()
    } else {
        "of an unknown kind".to_owned()
    }
}
