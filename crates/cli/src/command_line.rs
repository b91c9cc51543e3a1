//! The command line of `plyfs`: its own commands, and those of the layers and bases in a registry.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::{ArgMatches, CommandFactory, FromArgMatches};
use stack::Registry;
use stack::command::MemberCommand;

use crate::arguments::{Arguments, Command};
use crate::exit::{Exit, Failure, Outcome};

/// A parsed command line.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// A command of `plyfs`.
    Own(Command),
    /// A command of a layer or base, with its arguments.
    Member(MemberCommand, ArgMatches),
}

/// Returns the whole command line, for the parser, the man pages and the completion scripts.
pub fn command(registry: &Registry) -> clap::Command {
    let commands = member_commands(registry).map(|(_, command)| (command.command)().name(command.name));
    Arguments::command().subcommands(commands)
}

/// Returns the commands of the layers and bases in a registry, with what messages call the layer or base.
fn member_commands(registry: &Registry) -> impl Iterator<Item = (String, &MemberCommand)> {
    let of_layers = registry.layers().iter().map(|kind| (format!("the layer '{}'", kind.name), kind.commands));
    let of_bases = registry.bases().iter().map(|kind| (format!("the base '{}'", kind.name), kind.commands));
    of_layers.chain(of_bases).flat_map(|(owner, commands)| commands.iter().map(move |command| (owner.clone(), command)))
}

/// Checks that no two commands have the same name, which nobody could call them by.
pub(crate) fn check(registry: &Registry) -> Outcome {
    let mut owners: BTreeMap<String, String> = BTreeMap::from([("help".to_owned(), "plyfs".to_owned())]);
    for command in Arguments::command().get_subcommands() {
        owners.extend(names(command).map(|name| (name, "plyfs".to_owned())));
    }
    for (member, command) in member_commands(registry) {
        for name in names(&(command.command)().name(command.name)) {
            if let Some(owner) = owners.insert(name.clone(), member.clone()) {
                let remedy = "rename the command in one of them, or register only one";
                let message = format!("the command '{name}' of {member} is also a command of {owner}; {remedy}");
                return Err(Failure::new(Exit::Failure, message));
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
    let member_command =
        |name: &str| member_commands(registry).map(|(_, command)| *command).find(|command| command.name == name);
    if let Some(command) = matches.subcommand_name().and_then(member_command)
        && let Some((_, arguments)) = matches.remove_subcommand()
    {
        return Ok(Invocation::Member(command, arguments));
    }
    let arguments = Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut line))?;
    Ok(Invocation::Own(arguments.command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stack::Kind;
    use stack::kinds::{BaseError, BaseKind};

    fn run(_: &ArgMatches, _: &dyn stack::command::CommandHost) -> Outcome {
        Ok(())
    }

    const COUNT: MemberCommand =
        MemberCommand { name: "count", command: || clap::Command::new("count").alias("tally"), run };
    const TALLY: MemberCommand = MemberCommand { name: "tally", command: || clap::Command::new("tally"), run };
    const STATUS: MemberCommand = MemberCommand { name: "status", command: || clap::Command::new("status"), run };

    fn kind(name: &'static str, commands: &'static [MemberCommand]) -> Kind {
        Kind::over(name, "", &[], |_, lower| Ok(lower)).with_commands(commands)
    }

    fn base(name: &'static str, commands: &'static [MemberCommand]) -> BaseKind {
        BaseKind::new(name, "", "", |_, _| Err(BaseError::Location(String::new()))).with_commands(commands)
    }

    #[test]
    fn commands_of_bases_are_parsed_like_those_of_layers() {
        let registry = Registry::default().with_base(base("one", &[COUNT]));
        assert_eq!(check(&registry), Ok(()));
        let parsed = parse(&registry, &["plyfs".into(), "tally".into()]).unwrap();
        assert!(matches!(parsed, Invocation::Member(MemberCommand { name: "count", .. }, _)), "{parsed:?}");
    }

    #[test]
    fn commands_of_layers_are_parsed_like_all_others() {
        let registry = Registry::default().with_layer(kind("one", &[COUNT]));
        assert_eq!(check(&registry), Ok(()));
        command(&registry).debug_assert();
        for name in ["count", "tally"] {
            let parsed = parse(&registry, &["plyfs".into(), name.into()]).unwrap();
            assert!(matches!(parsed, Invocation::Member(MemberCommand { name: "count", .. }, _)), "{parsed:?}");
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
        assert_eq!(
            error(Registry::default().with_layer(kind("one", &[COUNT])).with_base(base("one", &[TALLY]))),
            format!("the command 'tally' of the base 'one' is also a command of the layer 'one'; {remedy}")
        );
    }
}
