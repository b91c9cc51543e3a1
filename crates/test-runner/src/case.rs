//! Test cases and their results.

use serde::{Deserialize, Serialize};

/// One test that ran, or was to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Case {
    /// The job that it belongs to.
    pub job: String,
    /// Its name, unique in the job.
    pub name: String,
    /// Its result.
    pub verdict: Verdict,
    /// Duration in seconds, if known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seconds: Option<f64>,
    /// Its output. For a test that passed, only the seeds are kept.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub output: String,
}

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// It ran to completion.
    Passed,
    /// An assertion failed, or it did not finish.
    Failed,
    /// It did not run, or reported that it could not.
    Skipped,
}

/// The result of a job.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The job's title.
    pub title: String,
    /// Its cases, in order of completion.
    pub cases: Vec<Case>,
    /// Lines that it printed other than the events of its tests.
    pub notes: Vec<String>,
    /// Wall-clock time.
    pub elapsed: std::time::Duration,
}

impl Outcome {
    /// Returns the number of cases with this verdict.
    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        count(&self.cases, verdict)
    }
}

/// The results of the whole run.
#[derive(Debug, Default)]
pub(crate) struct Results {
    /// All cases.
    pub cases: Vec<Case>,
    /// Tests that programs reported to have left out in this tier.
    pub omitted: Vec<String>,
    /// Each job with its wall-clock seconds.
    pub jobs: Vec<(String, f64)>,
}

/// Prefix of the line in which a program reports what it leaves to the other tier.
const OMITTED_PREFIX: &str = "left: ";

impl Results {
    /// Adds the result of a job.
    pub(crate) fn add(&mut self, outcome: Outcome) {
        self.jobs.push((outcome.title, outcome.elapsed.as_secs_f64()));
        self.omitted
            .extend(outcome.notes.iter().filter_map(|line| line.strip_prefix(OMITTED_PREFIX)).map(str::to_owned));
        self.cases.extend(outcome.cases);
    }

    /// Returns the number of cases with this verdict.
    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        count(&self.cases, verdict)
    }
}

fn count(cases: &[Case], verdict: Verdict) -> usize {
    cases.iter().filter(|case| case.verdict == verdict).count()
}

#[cfg(test)]
impl Results {
    /// Creates the results of one job, for tests: one case passed, one failed.
    pub(crate) fn sample() -> Self {
        let case = |name: &str, verdict, output: &str| Case {
            job: "layers lib".to_owned(),
            name: name.to_owned(),
            verdict,
            seconds: Some(0.5),
            output: output.to_owned(),
        };
        Self {
            cases: vec![case("a", Verdict::Passed, ""), case("b", Verdict::Failed, "one < two\u{1b}[1m")],
            omitted: Vec::new(),
            jobs: vec![("layers lib".to_owned(), 1.0)],
        }
    }
}
