//! The result files of a run: its cases as JSON and as JUnit XML.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::case::{Case, Results, Verdict};

/// Name of the JSON file in the directory of results.
pub(crate) const RESULTS: &str = "results.json";

/// Name of the JUnit file, for continuous-integration systems.
const JUNIT: &str = "junit.xml";

/// Removes the files of an earlier run.
///
/// # Errors
/// Fails if an existing file cannot be removed.
pub(crate) fn remove(directory: &Path) -> anyhow::Result<()> {
    for name in [RESULTS, JUNIT] {
        let path = directory.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("removing {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Writes the cases as JSON and as JUnit XML.
///
/// # Errors
/// Fails if a file cannot be written.
pub(crate) fn write(results: &Results, directory: &Path) -> anyhow::Result<()> {
    let path = directory.join(RESULTS);
    write_whole(&path, &serde_json::to_vec_pretty(&results.cases)?)?;
    let mut text = Vec::new();
    junit(results).serialize(&mut text)?;
    write_whole(&directory.join(JUNIT), &text)
}

/// Writes a file atomically.
fn write_whole(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    let part = path.with_extension("part");
    std::fs::write(&part, text).with_context(|| format!("writing {}", part.display()))?;
    std::fs::rename(&part, path).with_context(|| format!("renaming {} to {}", part.display(), path.display()))
}

fn junit(results: &Results) -> Report {
    let mut report = Report::new("plyfs");
    for (job, seconds) in &results.jobs {
        let mut suite = TestSuite::new(job.as_str());
        suite.set_time(Duration::from_secs_f64(*seconds));
        let is_of_job = |case: &&Case| case.job == *job || case.job.starts_with(&format!("{job}, "));
        suite.add_test_cases(results.cases.iter().filter(is_of_job).map(test_case));
        report.add_test_suite(suite);
    }
    report
}

fn test_case(case: &Case) -> TestCase {
    let mut status = match case.verdict {
        Verdict::Passed => TestCaseStatus::success(),
        Verdict::Failed => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Verdict::Skipped => TestCaseStatus::skipped(),
    };
    if case.verdict != Verdict::Passed {
        status.set_message(case.output.as_str());
    }
    let mut test_case = TestCase::new(case.name.as_str(), status);
    test_case.set_classname(case.job.as_str());
    if let Some(seconds) = case.seconds {
        test_case.set_time(Duration::from_secs_f64(seconds.max(0.0)));
    }
    test_case
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junit_has_every_case_and_only_valid_xml_characters() {
        let text = junit(&Results::sample()).to_string().unwrap();
        assert!(
            text.contains(r#"<testsuite name="layers lib" tests="2" disabled="0" errors="0" failures="1""#),
            "{text}"
        );
        assert!(text.contains(r#"<testcase name="a" classname="layers lib" time="0.500">"#), "{text}");
        assert!(text.contains("one &lt; two"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
