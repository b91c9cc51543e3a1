//! One program to run: its command, its time limit, and the cases that it yields.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::case::{Case, Outcome, Verdict};
use crate::events::CaseCollector;
use crate::files;
use crate::kernel_parameters::TransportState;
use crate::sandbox::JobSandbox;

/// A program to run.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Package and target, and the particulars of this run.
    pub title: String,
    /// The file to run.
    pub executable: PathBuf,
    /// Its working directory.
    pub directory: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Environment variables that are set for it, or removed.
    pub environment: Vec<(String, Option<String>)>,
    /// The source of its cases.
    pub source: CaseSource,
    /// The state of the kernel's io_uring parameter that it needs.
    pub state: TransportState,
    /// CPU time relative to a usual job: the heaviest jobs begin first.
    pub weight: u32,
    /// Time limit after which it is killed.
    pub limit: Duration,
    /// Whether it fails if it runs no test.
    pub must_have_tests: bool,
}

/// The source of a job's cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CaseSource {
    /// The events that it prints.
    Events,
    /// The lines that it prints, as documentation tests do.
    Lines,
    /// Its exit code: the job is one case, which passes if that is 0.
    ExitCode,
    /// The results that a nested runner writes to this directory.
    Nested(PathBuf),
}

impl fmt::Display for Job {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} [{}]", self.title, self.state)?;
        let mut set = self.environment.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        set.try_for_each(|(name, value)| write!(formatter, " {name}={value}"))?;
        write!(formatter, " {}", self.executable.display())?;
        self.arguments.iter().try_for_each(|argument| write!(formatter, " {argument}"))
    }
}

impl Job {
    /// Runs the program to completion, in a thread of its own. Its output goes to a file in this directory as well. Leftover
    /// processes and mounts have been removed on return.
    ///
    /// # Errors
    /// Fails if it cannot be started, or its output cannot be stored.
    pub(crate) fn run(&self, results: &Path, is_stopped: &(dyn Fn() -> bool + Sync)) -> anyhow::Result<Outcome> {
        let run_sandboxed = || {
            let sandbox = JobSandbox::enter()?;
            let outcome = self.run_in_sandbox(results, &sandbox, is_stopped);
            let cleared = sandbox.clear();
            let mut outcome = outcome?;
            if let Err(error) = cleared {
                outcome.cases.push(self.case("what it leaves behind", Verdict::Failed, format!("{error:#}")));
            }
            Ok(outcome)
        };
        std::thread::scope(|scope| scope.spawn(run_sandboxed).join())
            .unwrap_or_else(|_| Err(anyhow::anyhow!("{}: what runs it panicked", self.title)))
    }

    fn run_in_sandbox(
        &self,
        results: &Path,
        sandbox: &JobSandbox,
        is_stopped: &dyn Fn() -> bool,
    ) -> anyhow::Result<Outcome> {
        let started = Instant::now();
        let log = results.join(self.title.replace([' ', '/', ':', ',', '.'], "-") + ".log");
        let mut log_file = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let errors = log.with_extension("stderr");
        if let CaseSource::Nested(directory) = &self.source {
            std::fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
            files::remove(directory)?;
        }
        let mut child = self.spawn(File::create(&errors)?, sandbox)?;
        let lines = lines_of(&mut child);
        let mut collector = CaseCollector::of(&self.title);
        let end = self.wait_for_end(&mut child, &lines, started, sandbox, is_stopped, &mut |line| {
            let _ = writeln!(log_file, "{line}");
            if matches!(self.source, CaseSource::Events | CaseSource::Lines) {
                collector.line(line);
            }
        })?;
        let reason = format!("{}: {}; its output is in {}", self.title, end, log.display());
        let has_tests = collector.has_tests(self.must_have_tests);
        let (mut cases, notes) = collector.finish(&reason);
        match &self.source {
            CaseSource::Events | CaseSource::Lines if !has_tests && end == ProgramEnd::Exited(0) => {
                let what = "it ran no test, or did not say how all of them ended";
                cases.push(self.case("its tests", Verdict::Failed, format!("{what}\n{reason}")));
            }
            CaseSource::Events | CaseSource::Lines => {}
            CaseSource::ExitCode => cases.push(self.exit_code_case(&end, &log, started.elapsed())),
            CaseSource::Nested(directory) => cases = self.nested_cases(directory, &reason),
        }
        let has_failure = cases.iter().any(|case| case.verdict == Verdict::Failed);
        if end != ProgramEnd::Exited(0) && !has_failure {
            let last_output = last_lines(&errors) + &last_lines(&log);
            cases.push(self.case("the program itself", Verdict::Failed, format!("{reason}\n{last_output}")));
        }
        Ok(Outcome { title: self.title.clone(), cases, notes, elapsed: started.elapsed() })
    }

    fn spawn(&self, errors: File, sandbox: &JobSandbox) -> anyhow::Result<Child> {
        let mut command = Command::new(&self.executable);
        sandbox.mark(&mut command);
        command.args(&self.arguments).current_dir(&self.directory).env("CARGO_MANIFEST_DIR", &self.directory);
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if self.source == CaseSource::Events {
            // Only then does a stable libtest print events with the duration of each test.
            command.env("RUSTC_BOOTSTRAP", "1");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).process_group(0);
        command.spawn().with_context(|| format!("starting {}", self.executable.display()))
    }

    /// Passes on each line until the program ends, which is enforced at its time limit.
    fn wait_for_end(
        &self,
        child: &mut Child,
        lines: &Receiver<String>,
        started: Instant,
        sandbox: &JobSandbox,
        is_stopped: &dyn Fn() -> bool,
        take: &mut dyn FnMut(&str),
    ) -> anyhow::Result<ProgramEnd> {
        const POLL_INTERVAL: Duration = Duration::from_millis(50);
        /// Maximum time to wait for the remaining output, which processes that outlive the program may hold open.
        const OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);
        /// Time that a program has for cleaning up before it is killed.
        const TERMINATION_GRACE: Duration = Duration::from_secs(15);
        /// Additional time that it has for ending once killed.
        const KILL_TIMEOUT: Duration = Duration::from_secs(30);
        let mut ended: Option<(ProgramEnd, Instant)> = None;
        while !has_ended(child)? {
            match lines.recv_timeout(POLL_INTERVAL) {
                Ok(line) => take(&line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(POLL_INTERVAL),
            }
            let end = match () {
                () if is_stopped() => Some(ProgramEnd::Stopped),
                () if started.elapsed() > self.limit => Some(ProgramEnd::TimeLimit(self.limit.as_secs())),
                () => None,
            };
            match (&ended, end) {
                (None, Some(end)) => {
                    signal_group(child, Signal::TERM);
                    ended = Some((end, Instant::now()));
                }
                (Some((end, since)), _) if since.elapsed() > TERMINATION_GRACE + KILL_TIMEOUT => {
                    anyhow::bail!("{}: {end}, and it cannot be killed", self.title);
                }
                (Some((_, since)), _) if since.elapsed() > TERMINATION_GRACE => {
                    signal_group(child, Signal::KILL);
                    // It may wait for a server that it started, or for its own.
                    let _ = sandbox.kill_all();
                    sandbox.abort_mounts();
                }
                _ => {}
            }
        }
        // Leftover processes of the program. It has not been reaped: its process group ID is still its own.
        signal_group(child, Signal::KILL);
        let end = Instant::now();
        while let Some(remaining) = OUTPUT_TIMEOUT.checked_sub(end.elapsed()) {
            match lines.recv_timeout(remaining) {
                Ok(line) => take(&line),
                Err(_) => break,
            }
        }
        let status = child.wait()?;
        Ok(ended.map_or_else(|| status.code().map_or(ProgramEnd::Signal, ProgramEnd::Exited), |(end, _)| end))
    }

    fn case(&self, name: &str, verdict: Verdict, output: String) -> Case {
        Case { job: self.title.clone(), name: name.to_owned(), verdict, seconds: None, output }
    }

    fn exit_code_case(&self, end: &ProgramEnd, log: &Path, elapsed: Duration) -> Case {
        let (verdict, output) = match end {
            ProgramEnd::Exited(0) => (Verdict::Passed, String::new()),
            end => {
                (Verdict::Failed, format!("{end}\n{}", last_lines(log) + &last_lines(&log.with_extension("stderr"))))
            }
        };
        Case { seconds: Some(elapsed.as_secs_f64()), ..self.case(&self.title, verdict, output) }
    }

    /// Returns the cases that a nested runner recorded, each as one of this job.
    fn nested_cases(&self, directory: &Path, reason: &str) -> Vec<Case> {
        let path = directory.join(files::RESULTS);
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
enum ProgramEnd {
    Exited(i32),
    Signal,
    TimeLimit(u64),
    Stopped,
}

impl fmt::Display for ProgramEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(formatter, "the program exited with {code}"),
            Self::Signal => formatter.write_str("the program was killed by a signal"),
            Self::TimeLimit(seconds) => write!(formatter, "the program was killed at its limit of {seconds} s"),
            Self::Stopped => formatter.write_str("the run was stopped"),
        }
    }
}

/// Returns whether the program has ended, without reaping it.
fn has_ended(child: &Child) -> anyhow::Result<bool> {
    let Some(process) = Pid::from_raw(child.id().cast_signed()) else { return Ok(true) };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    Ok(waitid(WaitId::Pid(process), options).context("waiting for a program")?.is_some())
}

fn signal_group(child: &Child, signal: Signal) {
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        // The group may be empty.
        let _ = kill_process_group(group, signal);
    }
}

/// Returns the lines that a program prints, read by a separate thread.
fn lines_of(child: &mut Child) -> Receiver<String> {
    /// Maximum number of unread lines; a program that prints faster waits.
    const MAX_UNREAD_LINES: usize = 1024;
    let (sender, receiver) = sync_channel(MAX_UNREAD_LINES);
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

/// Returns the last lines of a file, for a message.
fn last_lines(path: &Path) -> String {
    const LAST_LINE_COUNT: usize = 40;
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let mut end = lines[lines.len().saturating_sub(LAST_LINE_COUNT)..].join("\n");
    end.push('\n');
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str, source: CaseSource, limit: Duration) -> Job {
        Job {
            title: "script".to_owned(),
            executable: "/bin/sh".into(),
            directory: "/".into(),
            arguments: vec!["-c".to_owned(), text.to_owned()],
            environment: vec![("ANSWER".to_owned(), Some("42".to_owned())), ("HOME".to_owned(), None)],
            source,
            state: TransportState::Device,
            weight: 1,
            limit,
            must_have_tests: false,
        }
    }

    fn run(job: &Job) -> (Vec<Case>, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        let outcome = job.run(directory.path(), &|| false).unwrap();
        (outcome.cases, outcome.notes)
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_program_that_fails_without_a_failed_test_is_a_failure() {
        let (cases, notes) = run(&script("echo $ANSWER; echo why >&2; exit 3", CaseSource::Events, MINUTE));
        assert_eq!(notes, ["42"]);
        assert_eq!((cases.len(), cases[0].verdict), (1, Verdict::Failed));
        assert!(cases[0].output.contains("exited with 3") && cases[0].output.contains("why"), "{}", cases[0].output);
    }

    #[test]
    fn hanging_program_is_killed_with_its_children() {
        let text = r#"echo '{ "type": "test", "event": "started", "name": "slow" }'; sleep 60 & echo $!; wait"#;
        let started = Instant::now();
        let (cases, notes) = run(&script(text, CaseSource::Events, Duration::from_millis(300)));
        assert!(started.elapsed() < Duration::from_secs(30));
        assert_eq!((cases[0].name.as_str(), cases[0].verdict), ("slow", Verdict::Failed));
        assert!(cases[0].output.contains("its limit"), "{}", cases[0].output);
        let sleeper = Path::new("/proc").join(notes[0].trim()).join("cmdline");
        let is_running = || std::fs::read(&sleeper).is_ok_and(|line| line.starts_with(b"sleep"));
        while is_running() && started.elapsed() < MINUTE {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!is_running());
    }

    #[test]
    fn scripts_are_one_case_and_nested_results_are_imported() {
        let (cases, _) = run(&script("true", CaseSource::ExitCode, MINUTE));
        assert_eq!((cases.len(), cases[0].verdict), (1, Verdict::Passed));
        let (cases, _) = run(&script("exit 1", CaseSource::ExitCode, MINUTE));
        assert_eq!((cases.len(), cases[0].verdict), (1, Verdict::Failed));
        let directory = tempfile::tempdir().unwrap();
        let text = format!(
            r#"echo '[{{"job": "a b", "name": "n", "verdict": "passed"}}]' >{}/results.json"#,
            directory.path().display()
        );
        let nested = CaseSource::Nested(directory.path().to_owned());
        let (cases, _) = run(&script(&text, nested.clone(), MINUTE));
        assert_eq!((cases[0].job.as_str(), cases[0].verdict), ("script, a b", Verdict::Passed));
        let (cases, _) = run(&script("true", nested, MINUTE));
        assert_eq!(cases[0].verdict, Verdict::Failed, "results of an earlier run were taken over");
    }

    #[test]
    fn a_program_without_a_test_is_a_failure() {
        let suite = r#"echo '{ "type": "suite", "event": "ok" }'"#;
        let announces = |count: usize| {
            format!(r#"echo '{{ "type": "suite", "event": "started", "test_count": {count} }}'; {suite}"#)
        };
        let verdicts = |text: &str, must_have_tests| {
            let (cases, _) = run(&Job { must_have_tests, ..script(text, CaseSource::Events, MINUTE) });
            cases.iter().map(|case| case.verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts("true", false), [Verdict::Failed]);
        assert_eq!(verdicts(&announces(0), true), [Verdict::Failed]);
        assert_eq!(verdicts(&announces(0), false), []);
        assert_eq!(
            verdicts(&announces(0).replace(suite, ""), false),
            [Verdict::Failed],
            "it has not said how it ended"
        );
        let (cases, _) = run(&script("true", CaseSource::Lines, MINUTE));
        assert_eq!(cases.len(), 1);
    }

    #[test]
    fn leftover_process_that_keeps_printing_causes_no_delay() {
        let started = Instant::now();
        let (cases, _) = run(&script("yes & exit 0", CaseSource::ExitCode, MINUTE));
        assert_eq!(cases[0].verdict, Verdict::Passed);
        assert!(started.elapsed() < MINUTE / 2);
    }

    #[test]
    fn processes_in_own_namespaces_are_found() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: a mount namespace needs root");
            return;
        }
        let (_, notes) = run(&script(
            "setsid unshare --mount sh -c 'echo $$; exec sleep 60' & sleep 0.5",
            CaseSource::Events,
            MINUTE,
        ));
        let pid: u32 = notes.last().unwrap().trim().parse().unwrap();
        let is_running = std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep"));
        assert!(!is_running, "{notes:?}");
    }

    #[test]
    fn program_that_keeps_printing_is_ended_at_its_limit() {
        let started = Instant::now();
        let (cases, _) =
            run(&script("while :; do echo x; sleep 0.01; done", CaseSource::Events, Duration::from_millis(300)));
        assert!(started.elapsed() < Duration::from_secs(30));
        assert!(cases.iter().any(|case| case.output.contains("its limit")), "{cases:?}");
    }

    #[test]
    fn terminated_program_may_clean_up() {
        let text = "trap 'echo put away; exit' TERM; sleep 60 & wait";
        let (_, notes) = run(&script(text, CaseSource::Events, Duration::from_millis(300)));
        assert_eq!(notes, ["put away"]);
    }

    #[test]
    fn leftover_servers_and_mounts_are_removed() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: a mount namespace needs root");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let text = format!(
            "mount -t tmpfs none {} || exit 1; setsid sh -c 'echo $$; exec sleep 60' & sleep 0.3",
            directory.path().display()
        );
        let started = Instant::now();
        let (_, notes) = run(&script(&text, CaseSource::Events, MINUTE));
        assert!(started.elapsed() < MINUTE);
        assert!(
            !std::fs::read_to_string("/proc/self/mounts").unwrap().contains(&directory.path().display().to_string())
        );
        let pid: u32 = notes.last().unwrap().trim().parse().unwrap();
        let is_running = std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep"));
        assert!(!is_running, "{notes:?}");
    }
}
