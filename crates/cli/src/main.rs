//! The `plyfs` command.

mod arguments;
mod commands;
mod control;
mod daemon;
mod exit;
mod expression;
mod front_end;
mod logging;
mod mount_table;
mod options;
mod runtime_directory;
mod shell;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command, Helper};
use exit::{Failure, Outcome, mount_helper};

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if is_helper_call(&words) {
        return match Helper::try_parse_from(&words) {
            Ok(arguments) => finish(commands::mount::as_helper(&arguments), mount_helper::number),
            Err(error) => refuse(&error, mount_helper::number(exit::Exit::Usage)),
        };
    }
    match Arguments::try_parse_from(&words) {
        Ok(arguments) => finish(run(&arguments.command), exit::Exit::number),
        Err(error) => refuse(&error, exit::Exit::Usage.number()),
    }
}

fn run(command: &Command) -> Outcome {
    match command {
        Command::Mount(arguments) => commands::mount::run(arguments),
        Command::Umount(arguments) => commands::umount::run(arguments),
        Command::Status(arguments) => commands::status::run(arguments),
        Command::LogLevel(arguments) => commands::log_level::run(arguments),
        Command::Control(arguments) => commands::control::run(arguments),
        Command::Explain(arguments) => commands::explain::run(arguments),
        Command::Shell(arguments) => commands::shell::run(arguments),
        Command::Completions(arguments) => commands::generate::completions(arguments),
        Command::Man(arguments) => commands::generate::man(arguments),
    }
}

/// Whether mount(8) or mount.fuse(8) called: by the name of the helper, or with a stack in place of a command, which
/// contains a character that no command's name has.
fn is_helper_call(words: &[OsString]) -> bool {
    let name = words.first().and_then(|name| Path::new(name).file_name()).unwrap_or_default();
    let stack_first = |word: &OsString| word.as_bytes().iter().any(|byte| matches!(byte, b'/' | b':' | b'|'));
    name == OsStr::new("mount.plyfs") || name == OsStr::new("mount.fuse.plyfs") || words.get(1).is_some_and(stack_first)
}

fn finish(outcome: Outcome, number: fn(exit::Exit) -> u8) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_silent() {
                report(&failure);
            }
            ExitCode::from(number(failure.exit))
        }
    }
}

fn report(failure: &Failure) {
    // Standard error may be gone; the code still tells.
    let _ = writeln!(std::io::stderr(), "plyfs: {failure}");
}

/// Prints what the command line's parser says: help and the version are no errors.
fn refuse(error: &clap::Error, number: u8) -> ExitCode {
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(number) } else { ExitCode::SUCCESS }
}
