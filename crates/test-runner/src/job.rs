//! One program to run: its command, its time limit, and the cases that come of it.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::case::{Case, Outcome, Verdict};
use crate::events::Collector;
use crate::switch::State;

/// A program to run.
#[derive(Clone, Debug)]
pub struct Job {
    /// Package and target, and what is special about this run.
    pub title: String,
    /// The file to run.
    pub executable: PathBuf,
    /// Where it runs.
    pub directory: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables that are set for it.
    pub environment: Vec<(String, String)>,
    /// Where its cases come from.
    pub source: Source,
    /// The state of the kernel's io_uring switch that it needs.
    pub state: State,
    /// Number of times the processor time of a usual job that it takes: the heaviest begin first.
    pub weight: u32,
    /// After this time it is killed.
    pub limit: Duration,
}

/// Where the cases of a job come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The events that it prints.
    Events,
    /// The lines that it prints, as documentation tests do.
    Lines,
    /// It is one case, which passes if it exits with 0.
    ExitCode,
    /// A runner that it starts writes its results to this directory.
    Nested(PathBuf),
}

impl fmt::Display for Job {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} [{}]", self.title, self.state)?;
        self.environment.iter().try_for_each(|(name, value)| write!(formatter, " {name}={value}"))?;
        write!(formatter, " {}", self.executable.display())?;
        self.arguments.iter().try_for_each(|argument| write!(formatter, " {argument}"))
    }
}

impl Job {
    /// Runs the program to its end. Its output goes to a file in this directory as well.
    ///
    /// # Errors
    /// When it cannot be started, or its output not be kept.
    pub fn run(&self, results: &Path, is_stopped: &dyn Fn() -> bool) -> anyhow::Result<Outcome> {
        let started = Instant::now();
        let log = results.join(self.title.replace([' ', '/', ':', ',', '.'], "-") + ".log");
        let mut log_file = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let errors = log.with_extension("stderr");
        if let Source::Nested(directory) = &self.source {
            std::fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
        }
        let mut child = self.spawn(File::create(&errors)?)?;
        let lines = lines_of(&mut child);
        let mut collector = Collector::of(&self.title);
        let end = self.follow(&mut child, &lines, started, is_stopped, &mut |line| {
            let _ = writeln!(log_file, "{line}");
            if matches!(self.source, Source::Events | Source::Lines) {
                collector.line(line);
            }
        })?;
        let reason = format!("{}: {}; its output is in {}", self.title, end, log.display());
        let (mut cases, notes) = collector.finish(&reason);
        match &self.source {
            Source::Events | Source::Lines => {}
            Source::ExitCode => cases.push(self.only_case(&end, &log, started.elapsed())),
            Source::Nested(directory) => cases = self.nested(directory, &reason),
        }
        let has_failure = cases.iter().any(|case| case.verdict == Verdict::Failed);
        if end != End::Exited(0) && !has_failure {
            let said = last_lines(&errors) + &last_lines(&log);
            cases.push(self.case("the program itself", Verdict::Failed, format!("{reason}\n{said}")));
        }
        Ok(Outcome { title: self.title.clone(), cases, notes, elapsed: started.elapsed() })
    }

    fn spawn(&self, errors: File) -> anyhow::Result<Child> {
        let mut command = Command::new(&self.executable);
        command.args(&self.arguments).current_dir(&self.directory).env("CARGO_MANIFEST_DIR", &self.directory);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if self.source == Source::Events {
            // Only then does a stable libtest print events with the time of each test.
            command.env("RUSTC_BOOTSTRAP", "1");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).process_group(0);
        command.spawn().with_context(|| format!("starting {}", self.executable.display()))
    }

    /// Hands on each line until the program ends, which it is made to do at its limit.
    fn follow(
        &self,
        child: &mut Child,
        lines: &Receiver<String>,
        started: Instant,
        is_stopped: &dyn Fn() -> bool,
        take: &mut dyn FnMut(&str),
    ) -> anyhow::Result<End> {
        const INTERVAL: Duration = Duration::from_millis(50);
        /// Processes that outlive the program may hold its output open; this long is waited for what it still contains.
        const AFTER: Duration = Duration::from_secs(2);
        let mut killed = None;
        let status = loop {
            match lines.recv_timeout(INTERVAL) {
                Ok(line) => {
                    take(&line);
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(INTERVAL),
            }
            if let Some(status) = child.try_wait()? {
                break status;
            }
            let end = match () {
                () if is_stopped() => Some(End::Stopped),
                () if started.elapsed() > self.limit => Some(End::TimeLimit(self.limit.as_secs())),
                () => None,
            };
            if let (Some(end), None) = (end, &killed) {
                killed = Some(end);
                kill_group(child);
            }
        };
        while let Ok(line) = lines.recv_timeout(AFTER) {
            take(&line);
        }
        // What it started and left behind.
        kill_group(child);
        Ok(killed.unwrap_or(status.code().map_or(End::Signal, End::Exited)))
    }

    fn case(&self, name: &str, verdict: Verdict, output: String) -> Case {
        Case { job: self.title.clone(), name: name.to_owned(), verdict, seconds: None, output }
    }

    fn only_case(&self, end: &End, log: &Path, elapsed: Duration) -> Case {
        let (verdict, output) = match end {
            End::Exited(0) => (Verdict::Passed, String::new()),
            end => {
                (Verdict::Failed, format!("{end}\n{}", last_lines(log) + &last_lines(&log.with_extension("stderr"))))
            }
        };
        Case { seconds: Some(elapsed.as_secs_f64()), ..self.case(&self.title, verdict, output) }
    }

    /// The cases that another runner wrote down, each as one of this job.
    fn nested(&self, directory: &Path, reason: &str) -> Vec<Case> {
        let path = directory.join(crate::report::RESULTS);
        let read = std::fs::read(&path).map_err(|error| error.to_string());
        let cases: Result<Vec<Case>, String> =
            read.and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()));
        match cases {
            Ok(cases) => {
                cases.into_iter().map(|case| Case { job: format!("{}, {}", self.title, case.job), ..case }).collect()
            }
            Err(error) => {
                vec![self.case("its results", Verdict::Failed, format!("{}: {error}; {reason}", path.display()))]
            }
        }
    }
}

/// How a program ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Exited(i32),
    Signal,
    TimeLimit(u64),
    Stopped,
}

impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(formatter, "the program exited with {code}"),
            Self::Signal => formatter.write_str("the program was killed by a signal"),
            Self::TimeLimit(seconds) => write!(formatter, "the program was killed at its limit of {seconds} s"),
            Self::Stopped => formatter.write_str("the run was stopped"),
        }
    }
}

fn kill_group(child: &Child) {
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        // Nobody may be left in it.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// The lines that a program prints, read by a thread of their own.
fn lines_of(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}

/// The end of a file, for a message.
fn last_lines(path: &Path) -> String {
    const LINES: usize = 40;
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let mut end = lines[lines.len().saturating_sub(LINES)..].join("\n");
    end.push('\n');
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str, source: Source, limit: Duration) -> Job {
        Job {
            title: "script".to_owned(),
            executable: "/bin/sh".into(),
            directory: "/".into(),
            arguments: vec!["-c".to_owned(), text.to_owned()],
            environment: vec![("ANSWER".to_owned(), "42".to_owned())],
            source,
            state: State::Device,
            weight: 1,
            limit,
        }
    }

    fn run(job: &Job) -> (Vec<Case>, Vec<String>) {
        let directory =
            std::env::temp_dir().join(format!("test-runner-{}-{:?}", std::process::id(), std::thread::current().id()));
        std::fs::create_dir_all(&directory).unwrap();
        let outcome = job.run(&directory, &|| false).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        (outcome.cases, outcome.notes)
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_program_that_fails_without_a_failed_test_is_a_failure() {
        let (cases, notes) = run(&script("echo $ANSWER; echo why >&2; exit 3", Source::Events, MINUTE));
        assert_eq!(notes, ["42"]);
        assert_eq!((cases.len(), cases[0].verdict), (1, Verdict::Failed));
        assert!(cases[0].output.contains("exited with 3") && cases[0].output.contains("why"), "{}", cases[0].output);
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_with_what_it_started() {
        let text = r#"echo '{ "type": "test", "event": "started", "name": "slow" }'; sleep 60 & echo $!; wait"#;
        let started = Instant::now();
        let (cases, notes) = run(&script(text, Source::Events, Duration::from_millis(300)));
        assert!(started.elapsed() < Duration::from_secs(30));
        assert_eq!((cases[0].name.as_str(), cases[0].verdict), ("slow", Verdict::Failed));
        assert!(cases[0].output.contains("its limit"), "{}", cases[0].output);
        let sleeper = Path::new("/proc").join(notes[0].trim()).join("cmdline");
        let is_there = || std::fs::read(&sleeper).is_ok_and(|line| line.starts_with(b"sleep"));
        while is_there() && started.elapsed() < MINUTE {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!is_there());
    }

    #[test]
    fn scripts_are_one_case_and_results_of_other_runners_are_taken_over() {
        let (cases, _) = run(&script("true", Source::ExitCode, MINUTE));
        assert_eq!((cases.len(), cases[0].verdict), (1, Verdict::Passed));
        let (cases, _) = run(&script("exit 1", Source::ExitCode, MINUTE));
        assert_eq!((cases.len(), cases[0].verdict), (1, Verdict::Failed));
        let directory = std::env::temp_dir().join(format!("test-runner-nested-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let text = format!(
            r#"echo '[{{"job": "a b", "name": "n", "verdict": "passed"}}]' >{}/results.json"#,
            directory.display()
        );
        let (cases, _) = run(&script(&text, Source::Nested(directory.clone()), MINUTE));
        assert_eq!((cases[0].job.as_str(), cases[0].verdict), ("script, a b", Verdict::Passed));
        let (cases, _) = run(&script("true", Source::Nested(directory.join("none")), MINUTE));
        assert_eq!(cases[0].verdict, Verdict::Failed);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
