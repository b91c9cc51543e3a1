//! Interactive input of commands at a terminal, with editing, history and completion.

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper, Highlighter, Hinter};

use vnode::FileKind;

use super::session::{Command, Session};
use super::words;
use crate::exit::{Exit, Failure, Outcome};
use plyfs::{CallerTree, ResolvedPath};

/// Reads and runs commands until the end of the input or `exit`.
pub(crate) fn run_interactive(session: &mut Session<'_>) -> Outcome {
    let config = Config::builder().auto_add_history(true).max_history_size(1_000).map(|builder| builder.build());
    let editor = config.and_then(Editor::<EditorHelper, DefaultHistory>::with_config);
    let mut editor = editor.map_err(|error| unreadable(&error))?;
    while !session.ended {
        let (tree, directory) = (session.tree.clone(), session.directory.clone());
        editor.set_helper(Some(EditorHelper { commands: session.commands, tree, directory }));
        let path = String::from_utf8_lossy(&session.directory.path()).into_owned();
        match editor.readline(&format!("plyfs:{path}> ")) {
            Ok(line) => session.run(line.as_bytes()),
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(unreadable(&error)),
        }
    }
    Ok(())
}

fn unreadable(error: &ReadlineError) -> Failure {
    Failure::new(Exit::Failure, format!("cannot read from the terminal: {error}; give the commands with -c"))
}

/// Completes commands and paths.
#[derive(Helper, Highlighter, Hinter)]
struct EditorHelper {
    commands: &'static [Command],
    tree: CallerTree,
    directory: ResolvedPath,
}

impl Completer for EditorHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..position];
        let start = before.rfind([' ', ';']).map_or(0, |blank| blank + 1);
        let word = &before[start..];
        let is_command =
            words::commands(&before.as_bytes()[..start]).is_empty() || before[..start].trim_end().ends_with(';');
        let candidates = if is_command { commands(self.commands, word) } else { self.paths(word) };
        Ok((start, candidates))
    }
}

impl Validator for EditorHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match words::is_unfinished(context.input().as_bytes()) {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

impl EditorHelper {
    /// Returns the names that begin like the last component of the word.
    fn paths(&self, word: &str) -> Vec<Pair> {
        let (directory, beginning) = match word.rfind('/') {
            Some(slash) => word.split_at(slash + 1),
            None => ("", word),
        };
        let object = if directory.is_empty() {
            Ok(self.directory.clone())
        } else {
            self.tree.find(&self.directory, directory.as_bytes(), true)
        };
        let Ok(entries) = object.and_then(|object| self.tree.list(&object)) else { return Vec::new() };
        let names = entries.into_iter().filter(|entry| entry.name.as_bytes().starts_with(beginning.as_bytes()));
        names
            .map(|entry| {
                let name = String::from_utf8_lossy(entry.name.as_bytes()).into_owned();
                let end = if entry.kind == Some(FileKind::Directory) { "/" } else { " " };
                Pair { display: name.clone(), replacement: format!("{directory}{name}{end}") }
            })
            .collect()
    }
}

fn commands(all: &[Command], word: &str) -> Vec<Pair> {
    let names = all.iter().map(|command| command.name).filter(|name| name.starts_with(word));
    names.map(|name| Pair { display: name.to_owned(), replacement: format!("{name} ") }).collect()
}
