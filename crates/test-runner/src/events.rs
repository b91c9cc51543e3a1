//! Parses the output of test programs: the JSON events of libtest and libtest-mimic, the plain lines of documentation tests,
//! and notes.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use crate::case::{Case, Verdict};

#[derive(Deserialize)]
struct TestEvent {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    event: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    exec_time: Option<f64>,
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    test_count: usize,
}

/// Collects the cases of one job from the lines that it prints.
#[derive(Debug, Default)]
pub(crate) struct CaseCollector {
    job: String,
    /// Number of parts that have begun and not ended, and total number of parts.
    parts: (usize, usize),
    ended: HashSet<String>,
    /// Whether a part reported that a test had failed.
    has_failed: bool,
    announced: usize,
    running: HashSet<String>,
    times: HashMap<String, f64>,
    cases: Vec<Case>,
    notes: Vec<String>,
}

/// Prefix of the line that a test prints if it cannot run here.
pub(crate) const SKIPPED_PREFIX: &str = "skipped: ";

impl CaseCollector {
    /// Creates a collector without any cases of this job.
    pub(crate) fn of(job: &str) -> Self {
        Self { job: job.to_owned(), ..Self::default() }
    }

    /// Processes one line.
    pub(crate) fn line(&mut self, line: &str) {
        if let Ok(event) = serde_json::from_str::<TestEvent>(line) {
            self.event(event);
        } else if let Some((name, verdict)) = plain(line) {
            self.announced += 1;
            self.parts.1 = 1;
            self.end(name.to_owned(), verdict, None, String::new());
        } else if line.starts_with(SKIPPED_PREFIX) {
            // From a program that does not capture the output of its tests.
            self.cases.push(Case {
                job: self.job.clone(),
                name: "a part of it".to_owned(),
                verdict: Verdict::Skipped,
                seconds: None,
                output: line.to_owned(),
            });
            self.announced += 1;
        } else if !line.trim().is_empty() {
            self.notes.push(line.to_owned());
        }
    }

    fn event(&mut self, event: TestEvent) {
        match (event.kind.as_str(), event.event.as_str()) {
            ("suite", "started") => {
                self.parts = (self.parts.0 + 1, self.parts.1 + 1);
                self.announced += event.test_count;
            }
            ("suite", result) => {
                self.parts.0 = self.parts.0.saturating_sub(1);
                self.has_failed |= result != "ok";
            }
            ("test", "started") => {
                self.running.insert(event.name);
            }
            ("test", "timeout") => {}
            ("test", "ok") => {
                let is_skipped = event.stdout.lines().any(|line| line.starts_with(SKIPPED_PREFIX));
                let verdict = if is_skipped { Verdict::Skipped } else { Verdict::Passed };
                self.end(event.name, verdict, event.exec_time, event.stdout);
            }
            ("test", "ignored") => self.end(event.name, Verdict::Skipped, None, event.message),
            ("test", _) => self.end(event.name, Verdict::Failed, event.exec_time, event.stdout + &event.message),
            ("time", _) => {
                self.times.extend(event.exec_time.map(|seconds| (event.name, seconds)));
            }
            _ => {}
        }
    }

    fn end(&mut self, name: String, verdict: Verdict, seconds: Option<f64>, mut output: String) {
        self.running.remove(&name);
        let mut verdict = verdict;
        if !self.ended.insert(name.clone()) {
            verdict = Verdict::Failed;
            output += "\nit ended twice: one of the two is another test, or a process that was to end with it";
        }
        let output = if verdict == Verdict::Passed { seeds(&output) } else { output };
        self.cases.push(Case { job: self.job.clone(), name, verdict, seconds, output });
    }

    /// Returns whether the program has reported which tests it has, at least one if `at_least_one`, and their results.
    pub(crate) fn has_tests(&self, at_least_one: bool) -> bool {
        let reports_failure = self.cases.iter().any(|case| case.verdict == Verdict::Failed) || !self.has_failed;
        self.parts.1 > 0 && self.parts.0 == 0 && reports_failure && (self.announced > 0 || !at_least_one)
    }

    /// Returns the cases and notes once the program has ended. Tests that were announced and did not finish have failed, for
    /// this reason.
    pub(crate) fn finish(mut self, reason: &str) -> (Vec<Case>, Vec<String>) {
        let missing = self.announced.saturating_sub(self.cases.len());
        let mut names: Vec<String> = self.running.drain().collect();
        names.sort();
        for name in &names {
            self.end(name.clone(), Verdict::Failed, None, format!("it did not end: {reason}"));
        }
        if missing > names.len() {
            let message = format!("{} tests did not run: {reason}", missing - names.len());
            self.end("tests that did not run".to_owned(), Verdict::Failed, None, message);
        }
        for case in &mut self.cases {
            case.seconds = case.seconds.or_else(|| self.times.get(&case.name).copied());
        }
        (self.cases, self.notes)
    }
}

/// Parses a line of the human-readable format, as printed by documentation tests.
fn plain(line: &str) -> Option<(&str, Verdict)> {
    let (name, result) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let verdict = match result {
        "ok" => Verdict::Passed,
        "FAILED" => Verdict::Failed,
        "ignored" => Verdict::Skipped,
        _ => return None,
    };
    Some((name, verdict))
}

/// Returns the lines that contain seeds for replaying a random test.
fn seeds(output: &str) -> String {
    output.lines().filter(|line| line.contains("SEED=")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(lines: &[&str]) -> (Vec<Case>, Vec<String>) {
        let mut collector = CaseCollector::of("job");
        lines.iter().for_each(|line| collector.line(line));
        collector.finish("killed")
    }

    #[test]
    fn events_become_cases_with_times_and_seeds() {
        let (cases, notes) = collected(&[
            r#"{ "type": "suite", "event": "started", "test_count": 3 }"#,
            r#"{ "type": "test", "event": "started", "name": "a" }"#,
            "a note",
            "skipped: needs a disk",
            r#"{ "type": "test", "name": "a", "event": "ok", "exec_time": 0.5, "stdout": "noise\nMODEL_SEED=7\n" }"#,
            r#"{ "type": "test", "name": "b", "event": "ok", "stdout": "skipped: needs root\n" }"#,
            r#"{ "type": "time", "name": "c", "exec_time": 2.5 }"#,
            r#"{ "type": "test", "name": "c", "event": "failed", "stdout": "why" }"#,
        ]);
        assert_eq!(notes, ["a note"]);
        let verdicts: Vec<_> = cases.iter().map(|case| (case.name.as_str(), case.verdict, case.seconds)).collect();
        assert_eq!(
            verdicts,
            [
                ("a part of it", Verdict::Skipped, None),
                ("a", Verdict::Passed, Some(0.5)),
                ("b", Verdict::Skipped, None),
                ("c", Verdict::Failed, Some(2.5))
            ]
        );
        assert_eq!((cases[1].output.as_str(), cases[3].output.as_str()), ("MODEL_SEED=7", "why"));
    }

    #[test]
    fn unfinished_and_missing_tests_have_failed() {
        let (cases, _) = collected(&[
            r#"{ "type": "suite", "event": "started", "test_count": 4 }"#,
            r#"{ "type": "test", "event": "started", "name": "a" }"#,
            r#"{ "type": "test", "event": "started", "name": "b" }"#,
            r#"{ "type": "test", "name": "b", "event": "ok" }"#,
        ]);
        let failed: Vec<_> = cases.iter().filter(|case| case.verdict == Verdict::Failed).collect();
        assert_eq!(failed.len(), 2);
        assert_eq!((failed[0].name.as_str(), failed[0].output.as_str()), ("a", "it did not end: killed"));
        assert_eq!(failed[1].output, "2 tests did not run: killed");
    }

    #[test]
    fn test_that_ends_twice_has_failed() {
        let ok = r#"{ "type": "test", "name": "a", "event": "ok" }"#;
        let (cases, _) = collected(&[r#"{ "type": "suite", "event": "started", "test_count": 2 }"#, ok, ok]);
        assert_eq!(cases.iter().map(|case| case.verdict).collect::<Vec<_>>(), [Verdict::Passed, Verdict::Failed]);
    }

    #[test]
    fn failed_or_unfinished_suite_is_no_success() {
        let has_tests = |end: &str| {
            let mut collector = CaseCollector::of("job");
            collector.line(r#"{ "type": "suite", "event": "started", "test_count": 1 }"#);
            collector.line(r#"{ "type": "test", "name": "a", "event": "ok" }"#);
            collector.line(end);
            collector.has_tests(true)
        };
        assert!(has_tests(r#"{ "type": "suite", "event": "ok" }"#));
        assert!(!has_tests(r#"{ "type": "suite", "event": "failed" }"#));
        assert!(!has_tests(""));
    }

    #[test]
    fn plain_lines_become_cases() {
        let (cases, notes) =
            collected(&["running 2 tests", "test crates/vnode/src/lib.rs - (line 3) ... ok", "test x ... FAILED"]);
        assert_eq!(cases.iter().map(|case| case.verdict).collect::<Vec<_>>(), [Verdict::Passed, Verdict::Failed]);
        assert_eq!(notes, ["running 2 tests"]);
    }
}
