//! The program: from the words of the command line to the exit code.

use std::ffi::{OsStr, OsString};
use std::io::{Write, stdout};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use stack::Registry;
use stack::command::MountTranslator;

use crate::arguments::{Command, Helper};
use crate::command_line::{self, Invocation};
use crate::commands;
use crate::commands::member_host::MemberHost;
use crate::commands::overlay::{self, OverlayArguments};
use crate::exit::{self, Failure, Outcome, mount_helper, run_command};
use crate::output;
use crate::registry;
use crate::translated_words::helper_words;

/// Runs the `plyfs` command with the words of this process's command line, and returns its exit code.
pub fn main() -> ExitCode {
    main_with(Registry::default())
}

/// Runs as [`main`], with the kinds of layers and bases in a registry: those of Plyfs, and others. To be called once in a process, before it
/// starts a thread.
pub fn main_with(registry: Registry) -> ExitCode {
    let registry = registry::set(registry);
    let words: Vec<OsString> = std::env::args_os().collect();
    let translator = translator_of(registry, &words);
    let is_helper = translator.is_some() || is_helper_call(&words);
    if let Err(failure) = command_line::check(registry) {
        return finish(Err(failure), if is_helper { mount_helper::number } else { exit::Exit::number });
    }
    if is_helper {
        let words = translator.map_or_else(|| words.clone(), |translator| helper_words(&words, translator));
        return match Helper::try_parse_from(&words) {
            Ok(arguments) => {
                let outcome = match translator {
                    Some(translator) => commands::mount::run_translated_helper(&arguments, translator),
                    None => commands::mount::run_helper(&arguments),
                };
                finish(outcome, mount_helper::number)
            }
            Err(error) => refuse(&error, mount_helper::number),
        };
    }
    if words.first().is_some_and(overlay::is_called) {
        return match OverlayArguments::try_parse_from(&words) {
            Ok(arguments) => finish(commands::mount::run_overlay(&arguments), exit::Exit::number),
            Err(error) => refuse(&error, exit::Exit::number),
        };
    }
    match command_line::parse(registry, &words) {
        Ok(Invocation::Own(Command::Run(arguments))) => commands::run::run(&arguments)
            .map_or_else(|failure| finish(Err(failure), run_command::number), ExitCode::from),
        Ok(Invocation::Own(command)) => finish(run(&command), exit::Exit::number),
        Ok(Invocation::Member(command, arguments)) => {
            finish((command.run)(&arguments, &MemberHost), exit::Exit::number)
        }
        Err(error) if words.get(1).is_some_and(|word| word == "run") => refuse(&error, run_command::number),
        Err(error) => refuse(&error, exit::Exit::number),
    }
}

fn run(command: &Command) -> Outcome {
    match command {
        Command::Mount(arguments) => commands::mount::run(arguments),
        Command::Umount(arguments) => commands::umount::run(arguments),
        Command::Status(arguments) => commands::status::run(arguments),
        Command::Stats(arguments) => commands::stats::run(arguments),
        Command::Top(arguments) => commands::top::run(arguments),
        Command::LogLevel(arguments) => commands::log_level::run(arguments),
        Command::Control(arguments) => commands::control::run(arguments),
        Command::Run(arguments) => commands::run::run(arguments).map(drop),
        Command::Explain(arguments) => commands::explain::run(arguments),
        Command::Layers(arguments) => commands::layers::run(arguments),
        Command::Bases(arguments) => commands::bases::run(arguments),
        Command::Shell(arguments) => commands::shell::run(arguments),
        Command::Fist(command) => commands::fist::run(command),
        Command::Ioctl(arguments) => commands::ioctl::run(arguments),
        Command::Completions(arguments) => commands::tools::completions(arguments),
        Command::Man(arguments) => commands::tools::man(arguments),
    }
}

/// Returns whether mount(8) or mount.fuse(8) called: recognised by the name of the helper, or by a stack in place of a command,
/// which contains a character that no command name has.
fn is_helper_call(words: &[OsString]) -> bool {
    let name = words.first().and_then(|name| Path::new(name).file_name()).unwrap_or_default();
    let stack_first = |word: &OsString| word.as_bytes().iter().any(|byte| matches!(byte, b'/' | b':' | b'|'));
    // Of the command, no option precedes its name.
    let is_command = |word: &OsString| word == "mount";
    let describes_overlay = || words.iter().skip(1).any(|word| stack::overlay::is_described(word.as_bytes()));
    name == OsStr::new("mount.plyfs")
        || name == OsStr::new("mount.fuse.plyfs")
        || !overlay::is_called(&words[0]) && words.get(1).is_some_and(stack_first)
        || !overlay::is_called(&words[0]) && words.get(1).is_some_and(|word| !is_command(word)) && describes_overlay()
}

/// Returns the translator of another file system's mounts that the name of the program selects.
fn translator_of<'a>(registry: &'a Registry, words: &[OsString]) -> Option<&'a MountTranslator> {
    let name = words.first().and_then(|name| Path::new(name).file_name()?.to_str())?;
    let prefixes = ["mount.fuse.", "mount.", "plyfs-"];
    let kind = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    let mut translators = registry.layers().iter().flat_map(|layer| layer.mount_translators);
    translators.find(|translator| translator.name == kind)
}

fn finish(outcome: Outcome, number: fn(exit::Exit) -> u8) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_silent() {
                commands::report(&failure);
            }
            ExitCode::from(number(failure.exit))
        }
    }
}

/// Prints the message of the command-line parser: help and the version unchanged, an error as one line like all others.
fn refuse(error: &clap::Error, number: fn(exit::Exit) -> u8) -> ExitCode {
    let usage = number(exit::Exit::Usage);
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let printed = error.print().and_then(|()| stdout().flush());
        return match printed {
            _ if error.use_stderr() => ExitCode::from(usage),
            Err(cause) => finish(output::written(Err(cause)), number),
            Ok(()) => ExitCode::SUCCESS,
        };
    }
    commands::report(&Failure::new(exit::Exit::Usage, one_line(&error.to_string())));
    ExitCode::from(usage)
}

/// Returns the cause and the tips of the parser's message, without the usage below them.
fn one_line(message: &str) -> String {
    let lines = message.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let mut line = String::new();
    for part in lines.filter(|line| !line.is_empty() && !line.starts_with("For more information")) {
        let part = part.strip_prefix("error: ").or(part.strip_prefix("tip: ")).unwrap_or(part);
        let separator = match line.chars().last() {
            None => "",
            Some(':') => " ",
            Some(_) => "; ",
        };
        line.push_str(separator);
        line.push_str(part);
    }
    line.push_str("; for the usage, add --help");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_parser_become_one_line() {
        let message = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            one_line(&command_line::parse(registry::registry(), &words).unwrap_err().to_string())
        };
        assert_eq!(
            message(&["plyfs", "mount", "mem:"]),
            "the following required arguments were not provided: <MOUNTPOINT>; for the usage, add --help"
        );
        assert_eq!(
            message(&["plyfs", "statsu"]),
            "unrecognized subcommand 'statsu'; some similar subcommands exist: 'status', 'stats'; for the usage, add --help"
        );
        let unknown = message(&["plyfs", "mount", "mem:", "/mnt", "--trase"]);
        assert!(unknown.starts_with("unexpected argument '--trase' found; "), "{unknown}");
        let value = message(&["plyfs", "completions", "dish"]);
        assert!(value.starts_with("invalid value 'dish' for '<SHELL>'; [possible values: "), "{value}");
    }
}
