//! Completion of command lines: what shells request from `plyfs-tools` while a command of `plyfs` is being typed.

mod candidates;
mod mount_options;
mod mount_points;
mod stacks;

use std::ffi::OsStr;

use clap::Arg;
use clap_complete::engine::ArgValueCompleter;
use stack::Registry;

use crate::command_line;
use candidates::matching;

/// Environment variable with which a completion script asks `plyfs-tools` to complete a command line; its value is the shell.
pub const VARIABLE: &str = "PLYFS_COMPLETE";

/// Returns the whole command line, with completers for stacks, mount points, mount options, layers and bases.
pub fn command(registry: &Registry) -> clap::Command {
    with_completers(command_line::command(registry), registry)
}

fn with_completers(command: clap::Command, registry: &Registry) -> clap::Command {
    let name = command.get_name().to_owned();
    let command = command.mut_args(|argument| match completer(&name, &argument, registry) {
        Some(completer) => argument.add(completer),
        None => argument,
    });
    command.mut_subcommands(|command| with_completers(command, registry))
}

/// Returns the completer of a command's argument, chosen by the name of its value; `None` for the completion that clap provides.
fn completer(command: &str, argument: &Arg, registry: &Registry) -> Option<ArgValueCompleter> {
    let registry = registry.clone();
    match (command, argument.get_value_names()?.first()?.as_str()) {
        // A directory, which clap completes.
        ("mount", "MOUNTPOINT") => None,
        (_, "MOUNTPOINT") => Some(ArgValueCompleter::new(mount_points::complete)),
        ("mount", "OPTIONS") => Some(ArgValueCompleter::new(mount_options::complete)),
        ("layers", "NAME") => {
            Some(ArgValueCompleter::new(move |current: &OsStr| matching(stacks::layer_names(&registry), current)))
        }
        ("bases", "NAME") | ("control", "LAYER") => {
            let kinds = registry.bases().iter().map(|kind| (kind.name, kind.summary));
            let layers = registry.layers().iter().map(|kind| (kind.name, kind.summary));
            let names: Vec<(String, String)> = match command {
                "bases" => kinds.map(owned).collect(),
                _ => layers.chain(kinds).map(owned).collect(),
            };
            Some(ArgValueCompleter::new(move |current: &OsStr| matching(names.clone(), current)))
        }
        (_, "STACK" | "STACK|BRANCH") => {
            Some(ArgValueCompleter::new(move |current: &OsStr| stacks::complete(&registry, current)))
        }
        _ => None,
    }
}

fn owned((name, summary): (&str, &str)) -> (String, String) {
    (name.to_owned(), summary.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the completions of the last word of a command line.
    fn completions(words: &[&str]) -> Vec<String> {
        let words: Vec<_> = std::iter::once("plyfs").chain(words.iter().copied()).map(Into::into).collect();
        let last = words.len() - 1;
        let mut command = command(&Registry::default());
        let candidates = clap_complete::engine::complete(&mut command, words, last, None).unwrap();
        candidates.iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn commands_layers_bases_and_options_are_completed() {
        assert_eq!(completions(&["log"]), ["log-level"]);
        assert_eq!(completions(&["layers", "readonl"]), ["readonly"]);
        assert_eq!(completions(&["bases", "is"]), ["iso"]);
        assert_eq!(completions(&["control", "/mnt", "aud"]), ["audit"]);
        assert_eq!(completions(&["mount", "-o", "ro,defau"]), ["ro,default_permissions", "ro,defaults"]);
        assert_eq!(completions(&["explain", "mem: | readonl"]), ["mem: | readonly"]);
        assert_eq!(completions(&["run", "--stack", "mem: | readonl"]), ["mem: | readonly"]);
    }

    #[test]
    fn the_values_of_every_stack_and_mount_point_have_a_completer() {
        fn check(command: &clap::Command, number: &mut usize) {
            for argument in command.get_arguments() {
                let value = argument.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
                let is_new = command.get_name() == "mount" && value == "MOUNTPOINT";
                if matches!(value, "STACK" | "MOUNTPOINT") && !is_new {
                    assert!(argument.get::<ArgValueCompleter>().is_some(), "{} {value}", command.get_name());
                    *number += 1;
                }
            }
            command.get_subcommands().for_each(|command| check(command, number));
        }
        let mut number = 0;
        check(&command(&Registry::default()), &mut number);
        assert!(number > 20, "{number}");
    }
}
