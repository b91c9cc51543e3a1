//! The command line of `plyfs`: its own commands, and those of the layers in a registry.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::{ArgMatches, CommandFactory, FromArgMatches};
use stack::Registry;
use stack::command::LayerCommand;

use crate::arguments::{Arguments, Command};
use crate::exit::{Exit, Failure, Outcome};

/// A parsed command line.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// A command of `plyfs`.
    Own(Command),
    /// A command of a layer, with its arguments.
    Layer(LayerCommand, ArgMatches),
}

/// Returns the whole command line, for the parser, the man pages and the completion scripts.
pub fn command(registry: &Registry) -> clap::Command {
    let commands = registry.layers().iter().flat_map(|kind| kind.commands);
    Arguments::command().subcommands(commands.map(|command| (command.command)().name(command.name)))
}

/// Checks that no two commands have the same name, which nobody could call them by.
pub(crate) fn check(registry: &Registry) -> Outcome {
    let mut owners: BTreeMap<String, String> = BTreeMap::from([("help".to_owned(), "plyfs".to_owned())]);
    for command in Arguments::command().get_subcommands() {
        owners.extend(names(command).map(|name| (name, "plyfs".to_owned())));
    }
    for kind in registry.layers() {
        let layer = format!("the layer '{}'", kind.name);
        for command in kind.commands {
            for name in names(&(command.command)().name(command.name)) {
                if let Some(owner) = owners.insert(name.clone(), layer.clone()) {
                    let remedy = "rename the command in one of them, or register only one";
                    let message = format!("the command '{name}' of {layer} is also a command of {owner}; {remedy}");
                    return Err(Failure::new(Exit::Failure, message));
                }
            }
        }
    }
    Ok(())
}

/// Returns the names by which a command can be called.
fn names(command: &clap::Command) -> impl Iterator<Item = String> {
    std::iter::once(command.get_name()).chain(command.get_all_aliases()).map(str::to_owned)
}

/// Parses the words of a command line, the first of which is the name of the program.
pub(crate) fn parse(registry: &Registry, words: &[OsString]) -> Result<Invocation, clap::Error> {
    let mut line = command(registry);
    let mut matches = line.try_get_matches_from_mut(words)?;
    let layer_command = |name: &str| {
        let mut commands = registry.layers().iter().flat_map(|kind| kind.commands);
        commands.find(|command| command.name == name).copied()
    };
    if let Some(command) = matches.subcommand_name().and_then(layer_command)
        && let Some((_, arguments)) = matches.remove_subcommand()
    {
        return Ok(Invocation::Layer(command, arguments));
    }
    let arguments = Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut line))?;
    Ok(Invocation::Own(arguments.command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stack::Kind;

    fn run(_: &ArgMatches, _: &dyn stack::command::CommandHost) -> Outcome {
        Ok(())
    }

    const COUNT: LayerCommand =
        LayerCommand { name: "count", command: || clap::Command::new("count").alias("tally"), run };
    const TALLY: LayerCommand = LayerCommand { name: "tally", command: || clap::Command::new("tally"), run };
    const STATUS: LayerCommand = LayerCommand { name: "status", command: || clap::Command::new("status"), run };

    fn kind(name: &'static str, commands: &'static [LayerCommand]) -> Kind {
        Kind::over(name, "", &[], |_, lower| Ok(lower)).with_commands(commands)
    }

    #[test]
    fn commands_of_layers_are_parsed_like_all_others() {
        let registry = Registry::default().with_layer(kind("one", &[COUNT]));
        assert_eq!(check(&registry), Ok(()));
        command(&registry).debug_assert();
        for name in ["count", "tally"] {
            let parsed = parse(&registry, &["plyfs".into(), name.into()]).unwrap();
            assert!(matches!(parsed, Invocation::Layer(LayerCommand { name: "count", .. }, _)), "{parsed:?}");
        }
        let own = parse(&registry, &["plyfs".into(), "status".into()]).unwrap();
        assert!(matches!(own, Invocation::Own(Command::Status(_))));
        let error = parse(&registry, &["plyfs".into(), "cuont".into()]).unwrap_err().to_string();
        assert!(error.contains("'count'"), "{error}");
    }

    #[test]
    fn commands_with_one_name_are_refused() {
        let error = |registry: Registry| check(&registry).unwrap_err().message;
        let remedy = "rename the command in one of them, or register only one";
        assert_eq!(
            error(Registry::default().with_layer(kind("one", &[STATUS]))),
            format!("the command 'status' of the layer 'one' is also a command of plyfs; {remedy}")
        );
        assert_eq!(
            error(Registry::default().with_layer(kind("one", &[COUNT])).with_layer(kind("two", &[TALLY]))),
            format!("the command 'tally' of the layer 'two' is also a command of the layer 'one'; {remedy}")
        );
    }
}
