//! A session of the shell: its working directory, the execution of a text of commands, and the reasons for which commands fail.

use std::fmt;
use std::io::{self, Write};

use stack::suggest;
use vnode::{Caller, Errno, FileSystemRef, is_terminal_control};

use super::{format, words};
use plyfs::{CallerTree, ResolvedPath};

/// One command of the shell.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) usage: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn(&mut Session<'_>, &[Vec<u8>]) -> Result<(), CommandError>,
}

/// The state of the shell: working directory, names, output, and whether a command has failed.
pub(crate) struct Session<'a> {
    pub(crate) tree: CallerTree,
    pub(crate) directory: ResolvedPath,
    pub(crate) names: format::IdNames,
    pub(crate) output: &'a mut dyn Write,
    pub(crate) errors: &'a mut dyn Write,
    pub(crate) commands: &'static [Command],
    /// Whether the output is a terminal.
    pub(crate) is_terminal: bool,
    pub(crate) failed: bool,
    pub(crate) ended: bool,
}

/// The reason why a command failed.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// An operation on a path.
    Path(Vec<u8>, Errno),
    /// An invalid command line, described in words.
    Message(String),
    /// An invalid command line: the command's usage is shown.
    Usage,
    /// The output cannot be written.
    Output(io::Error),
    /// The failure was already reported.
    Reported,
}

impl<'a> Session<'a> {
    /// Returns a session at the root that has these commands.
    pub(crate) fn new(
        file_system: FileSystemRef,
        caller: Caller,
        commands: &'static [Command],
        output: &'a mut dyn Write,
        errors: &'a mut dyn Write,
    ) -> Self {
        let tree = CallerTree::new(file_system, caller);
        let directory = tree.root();
        Session {
            tree,
            directory,
            names: format::IdNames::default(),
            output,
            errors,
            commands,
            is_terminal: false,
            failed: false,
            ended: false,
        }
    }

    /// Runs a text of commands to its end, even if some fail.
    pub(crate) fn run(&mut self, text: &[u8]) {
        for command in words::commands(text) {
            if self.ended {
                return;
            }
            self.run_command(command);
        }
    }

    fn run_command(&mut self, text: &[u8]) {
        let Some(words) = words::words(text) else {
            let text = String::from_utf8_lossy(text.trim_ascii()).into_owned();
            return self.report("", &CommandError::Message(format!("a quote is not closed in: {text}")));
        };
        let Some((name, operands)) = words.split_first() else { return };
        let name = String::from_utf8_lossy(name);
        let Some(command) = self.commands.iter().find(|command| command.name == name) else {
            let remedy = match suggest::nearest(&name, self.commands.iter().map(|command| command.name)) {
                Some(meant) => format!("did you mean '{meant}'?"),
                None => "help lists the commands".to_owned(),
            };
            return self.report("", &CommandError::Message(format!("unknown command '{name}'; {remedy}")));
        };
        let done = (command.run)(self, operands).and_then(|()| self.output.flush().map_err(CommandError::Output));
        match done {
            Ok(()) => {}
            Err(CommandError::Usage) => {
                self.report(command.name, &CommandError::Message(format!("wrong usage; write {}", command.usage)))
            }
            Err(error) => self.report(command.name, &error),
        }
    }

    /// Does `work` for each operand; reports those that fail and continues with the others.
    pub(crate) fn for_each_operand(
        &mut self,
        command: &str,
        operands: &[Vec<u8>],
        mut work: impl FnMut(&mut Self, &[u8]) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let mut result = Ok(());
        for operand in operands {
            match work(self, operand) {
                Ok(()) => {}
                // Nobody reads the output: the other operands would not be seen either.
                Err(error @ CommandError::Output(_)) => return Err(error),
                Err(error) => {
                    self.report(command, &error);
                    result = Err(CommandError::Reported);
                }
            }
        }
        result
    }

    pub(crate) fn report(&mut self, command: &str, error: &CommandError) {
        self.failed = true;
        let prefix = if command.is_empty() { String::new() } else { format!("{command}: ") };
        match error {
            CommandError::Reported => {}
            // Whoever has closed a pipe knows.
            CommandError::Output(closed) if closed.kind() == io::ErrorKind::BrokenPipe => self.ended = true,
            _ => {
                self.ended |= matches!(error, CommandError::Output(_));
                let _ = writeln!(self.errors, "plyfs: {prefix}{error}");
            }
        }
    }

    /// Resolves a path to its location.
    pub(crate) fn find(&self, path: &[u8], follow: bool) -> Result<ResolvedPath, CommandError> {
        self.tree.find(&self.directory, path, follow).with_path(path)
    }

    /// Returns the directory that contains a path's last component, and that component.
    pub(crate) fn find_parent(&self, path: &[u8]) -> Result<(ResolvedPath, vnode::NameBuf), CommandError> {
        self.tree.find_parent(&self.directory, path).with_path(path)
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.tree.caller
    }

    pub(crate) fn print(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        self.output.write_all(bytes).map_err(CommandError::Output)
    }

    /// Prints lines that contain names: for a terminal, as ls(1), with question marks for characters that control it.
    pub(crate) fn print_names(&mut self, lines: &[u8]) -> Result<(), CommandError> {
        if !self.is_terminal {
            return self.print(lines);
        }
        let is_unprintable = |character: char| is_terminal_control(character) && character != '\n';
        let lines = String::from_utf8_lossy(lines).replace(is_unprintable, "?");
        self.print(lines.as_bytes())
    }
}

/// Adds to an error the path that it is about.
pub(crate) trait WithPath<T> {
    /// Returns the error with its path.
    fn with_path(self, path: &[u8]) -> Result<T, CommandError>;
}

impl<T> WithPath<T> for vnode::Result<T> {
    fn with_path(self, path: &[u8]) -> Result<T, CommandError> {
        self.map_err(|errno| CommandError::Path(path.to_vec(), errno))
    }
}

/// Splits one-letter options from operands. Every letter must be among `known`; `--` ends the options.
pub(crate) fn split_options(words: &[Vec<u8>], valid_letters: &str) -> Result<(Vec<char>, Vec<Vec<u8>>), CommandError> {
    let mut letters = Vec::new();
    let mut operands = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.as_slice() {
            b"--" => {
                operands.extend(rest.cloned());
                break;
            }
            [b'-', options @ ..] if !options.is_empty() => {
                for letter in options.iter().copied().map(char::from) {
                    if !valid_letters.contains(letter) {
                        let list = suggest::list(
                            valid_letters.char_indices().map(|(at, letter)| &valid_letters[at..at + letter.len_utf8()]),
                        );
                        return Err(CommandError::Message(format!("unknown option -{letter}; there are {list}")));
                    }
                    letters.push(letter);
                }
            }
            _ => operands.push(word.clone()),
        }
    }
    Ok((letters, operands))
}

impl fmt::Display for CommandError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Path(path, errno) => {
                let text = errno.to_string();
                let text = text.split(" (os error").next().unwrap_or_default();
                write!(formatter, "{}: {text}", String::from_utf8_lossy(path).escape_debug())?;
                errno.name().map_or(Ok(()), |name| write!(formatter, " ({name})"))
            }
            CommandError::Message(words) => formatter.write_str(words),
            CommandError::Usage => formatter.write_str("wrong usage"),
            CommandError::Output(error) => write!(formatter, "cannot write the output: {error}"),
            CommandError::Reported => Ok(()),
        }
    }
}
