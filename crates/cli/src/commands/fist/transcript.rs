//! `plyfs fist test`: transcripts that test FiST programs on file systems in memory.
//!
//! A transcript has commands of `plyfs shell` after `$ `, and the output of each in the lines below it. The text before `$`
//! names the actor: a user's number, or `below` for an action on a lower file system instead.

use std::io::{Write, stderr};
use std::path::{Path, PathBuf};

use vnode::{Caller, FileSystemRef};

use super::super::print;
use crate::exit::{Exit, Failure, Outcome};
use crate::shell;

/// Suffix of the name of a transcript.
const TRANSCRIPT_SUFFIX: &str = ".test";

/// A command of a transcript, and its expected output.
#[derive(Debug, PartialEq, Eq)]
struct TranscriptStep {
    line: usize,
    actor: TranscriptActor,
    command: String,
    expected: Vec<String>,
}

/// The caller of a command, and the file system that it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TranscriptActor {
    /// Root, on the described file system.
    Root,
    /// The user with this uid and gid.
    User(u32, u32),
    /// Root, on the lower file system with this number.
    Below(usize),
}

/// A parsed transcript.
#[derive(Debug, Default, PartialEq, Eq)]
struct Transcript {
    options: Vec<(String, String)>,
    steps: Vec<TranscriptStep>,
}

/// Runs the transcript in a file.
pub(crate) fn run(file: &Path) -> Outcome {
    let fail = |message: String| Failure::new(Exit::Failure, message);
    let shown = file.display();
    let text = fist::load::text(file).map_err(|failure| fail(failure.to_string()))?;
    let description = description_of(file).ok_or_else(|| {
        fail(format!("{shown} is not a transcript; give a file whose name ends in .fist{TRANSCRIPT_SUFFIX}"))
    })?;
    let transcript = read(&text).map_err(|(line, what)| fail(format!("{shown}:{line}: {what}")))?;
    let (described, below) = build(&description, &transcript.options)?;
    let mut mismatches = Vec::new();
    for step in &transcript.steps {
        let actual = step.run(&described, &below).map_err(|what| fail(format!("{shown}:{}: {what}", step.line)))?;
        if actual != step.expected {
            mismatches.push(format!(
                "{shown}:{}: $ {}\n{}",
                step.line,
                step.command,
                difference(&step.expected, &actual)
            ));
        }
    }
    if mismatches.is_empty() {
        return print(&format!("{shown}: {} commands passed\n", transcript.steps.len()));
    }
    // Standard error may be closed; the exit code still reports the failure.
    let _ = writeln!(stderr(), "{}", mismatches.join("\n"));
    let what = "failed; fix the program or the expected output";
    Err(fail(format!("{shown}: {} of {} commands {what}", mismatches.len(), transcript.steps.len())))
}

/// Returns the path of the FiST program that a transcript tests: it is in the same directory.
fn description_of(file: &Path) -> Option<PathBuf> {
    let name = file.file_name()?.to_str()?.strip_suffix(TRANSCRIPT_SUFFIX)?;
    name.ends_with(".fist").then(|| file.with_file_name(name))
}

/// Builds the described file system on file systems in memory, and returns it together with these.
fn build(description: &Path, options: &[(String, String)]) -> Outcome<(FileSystemRef, Vec<FileSystemRef>)> {
    let fail = |error: stack::BuildError| Failure::from_lines(Exit::Failure, &error.problem.to_string());
    let memory = stack::syntax::parse("mem:").map_err(|error| fail(error.into()))?;
    let count = stack::fan_out(description).map_err(fail)?;
    let mut below = Vec::new();
    for _ in 0..count {
        below.push(stack::build(&memory).map_err(fail)?);
    }
    let described = stack::build_description(description, options, below.clone()).map_err(fail)?;
    Ok((described, below))
}

/// Parses a transcript; the error has its line number.
fn read(text: &str) -> Result<Transcript, (usize, String)> {
    let mut transcript = Transcript::default();
    for (line, text) in text.lines().enumerate() {
        let line = line + 1;
        if let Some((actor, command)) = command(text).map_err(|what| (line, what))? {
            transcript.steps.push(TranscriptStep { line, actor, command, expected: Vec::new() });
        } else if text.starts_with('#') {
            continue;
        } else if let Some(step) = transcript.steps.last_mut() {
            step.expected.push(text.to_owned());
        } else if let Some(options) = text.strip_prefix("options ") {
            for option in options.split_whitespace() {
                let (key, value) = option
                    .split_once('=')
                    .ok_or((line, format!("`{option}` is not an option of the form KEY=VALUE")))?;
                transcript.options.push((key.to_owned(), value.to_owned()));
            }
        } else if !text.trim().is_empty() {
            return Err((
                line,
                "only options and comments may precede the first command; commands begin with `$ `".to_owned(),
            ));
        }
    }
    for step in &mut transcript.steps {
        while step.expected.last().is_some_and(|last| last.trim().is_empty()) {
            step.expected.pop();
        }
    }
    Ok(transcript)
}

/// Parses a line as a command, if it is one.
fn command(text: &str) -> Result<Option<(TranscriptActor, String)>, String> {
    let Some((actor, command)) = text.split_once("$ ") else { return Ok(None) };
    let number = |text: &str| text.parse::<u32>().ok();
    let actor = match actor {
        "" => TranscriptActor::Root,
        "below" => TranscriptActor::Below(1),
        _ if actor.starts_with("below") && number(&actor[5..]).is_some() => {
            TranscriptActor::Below(number(&actor[5..]).unwrap_or(1) as usize)
        }
        _ => match actor.split_once(':') {
            Some((user, group)) => match (number(user), number(group)) {
                (Some(user), Some(group)) => TranscriptActor::User(user, group),
                _ => return Ok(None),
            },
            None => match number(actor) {
                Some(user) => TranscriptActor::User(user, user),
                None => return Ok(None),
            },
        },
    };
    if command.trim().is_empty() {
        return Err("`$ ` must be followed by a command".to_owned());
    }
    Ok(Some((actor, command.to_owned())))
}

impl TranscriptStep {
    /// Returns the lines that the command prints, including errors.
    fn run(&self, described: &FileSystemRef, below: &[FileSystemRef]) -> Result<Vec<String>, String> {
        let (file_system, caller) = match self.actor {
            TranscriptActor::Root => (described, Caller::with_groups(0, 0, &[], 0o022)),
            TranscriptActor::User(user, group) => (described, Caller::with_groups(user, group, &[], 0o022)),
            TranscriptActor::Below(branch) => {
                let branch = branch.checked_sub(1).and_then(|branch| below.get(branch));
                let branch = branch.ok_or_else(|| format!("there are {} file systems below", below.len()))?;
                (branch, Caller::with_groups(0, 0, &[], 0o022))
            }
        };
        let actual = shell::run_captured(file_system.clone(), caller, self.command.as_bytes());
        Ok(String::from_utf8_lossy(&actual).lines().map(str::to_owned).collect())
    }
}

/// Returns the expected output and the actual output.
fn difference(expected: &[String], actual: &[String]) -> String {
    let lines = |mark: &str, lines: &[String]| match lines {
        [] => format!("  {mark} nothing"),
        lines => lines.iter().map(|line| format!("  {mark} {line}")).collect::<Vec<_>>().join("\n"),
    };
    format!("{}\n{}", lines("expected:", expected), lines("printed: ", actual))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transcripts_are_read_line_by_line() {
        let text = "# about it\noptions limit=5 label=x\n\n$ ls\na\nb\n\n1000$ rm a\n5:6$ ls -l\nbelow2$ ls\nc $ d\n";
        let transcript = read(text).unwrap();
        assert_eq!(transcript.options, [("limit".into(), "5".into()), ("label".into(), "x".into())]);
        let steps: Vec<_> =
            transcript.steps.iter().map(|step| (step.line, step.actor, step.command.as_str())).collect();
        let expected = [
            (4, TranscriptActor::Root, "ls"),
            (8, TranscriptActor::User(1000, 1000), "rm a"),
            (9, TranscriptActor::User(5, 6), "ls -l"),
            (10, TranscriptActor::Below(2), "ls"),
        ];
        assert_eq!(steps, expected);
        assert_eq!((transcript.steps[0].expected.len(), &transcript.steps[3].expected[0][..]), (2, "c $ d"));
        assert_eq!(read("ls\n").unwrap_err().0, 1);
        assert_eq!(read("$ \n").unwrap_err().0, 1);
        assert_eq!(description_of(Path::new("/x/y.fist.test")), Some("/x/y.fist".into()));
        assert_eq!(description_of(Path::new("/x/y.test")), None);
    }
}
