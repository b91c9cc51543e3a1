//! `plyfs bases`: the kinds of bases that a stack can be on, with the location, options and commands of each.

use stack::kinds::BaseKind;
use stack::suggest;

use super::{option_table, plain_table, print};
use crate::arguments::Bases;
use crate::exit::{Exit, Failure, Outcome};
use crate::registry::registry;

/// Runs the command.
pub(crate) fn run(arguments: &Bases) -> Outcome {
    match &arguments.name {
        None => print(&list(registry().bases())),
        Some(name) => print(&describe(find(name)?)),
    }
}

/// Returns the kind of base with this name.
fn find(name: &str) -> Outcome<&'static BaseKind> {
    registry().base(name).ok_or_else(|| {
        let remedy = suggest::remedy(name, registry().bases().iter().map(|kind| kind.name));
        Failure::new(Exit::Unknown, format!("there is no kind of base '{name}'; {remedy}"))
    })
}

/// Returns a line for each kind: how it is written, and what it is.
fn list(bases: &[BaseKind]) -> String {
    let mut table = plain_table();
    for kind in bases {
        table.add_row([kind.synopsis().to_string(), kind.summary.to_owned()]);
    }
    format!("{}\n", table.trim_fmt())
}

/// Returns what a kind of base is, how it is written in a stack, and a line for each of its options.
fn describe(kind: &BaseKind) -> String {
    let mut text = format!("{}: {}\n\n  {}\n", kind.name, kind.summary, kind.synopsis());
    if let Some(sentence) = kind.recognition() {
        text.push_str(&format!("\n{sentence}\n"));
    }
    text.push_str(&option_table(kind.options));
    for command in kind.commands {
        text.push_str(&format!("\n  plyfs {} --help\n", command.name));
    }
    text
}

#[cfg(test)]
mod tests {
    use stack::command::MemberCommand;
    use stack::kinds::BaseError;
    use stack::{OptionSpecification, command::clap};

    use super::*;

    const OPTIONS: &[OptionSpecification] =
        &[OptionSpecification { key: "uid", value: "UID", summary: "owner of all files (default 0)" }];
    const COMMANDS: &[MemberCommand] =
        &[MemberCommand { name: "tape", command: || clap::Command::new("tape"), run: |_, _| Ok(()) }];

    #[test]
    fn every_kind_is_listed_and_described() {
        let text = list(registry().bases());
        assert_eq!(text.lines().count(), registry().bases().len());
        for kind in registry().bases() {
            assert!(text.contains(kind.summary) && text.contains(&kind.synopsis().to_string()), "{text}");
            let described = describe(kind);
            assert!(described.starts_with(&format!("{}: {}\n", kind.name, kind.summary)), "{described}");
            for option in kind.options {
                assert!(described.contains(&format!("{}={}", option.key, option.value)), "{described}");
            }
        }
    }

    #[test]
    fn options_recognition_and_commands_are_described() {
        let kind =
            BaseKind::new("tape", "PATH", "an archive on a tape", |_, _| Err(BaseError::Location(String::new())))
                .with_probe("an archive", |_| Ok(true))
                .with_options(OPTIONS)
                .with_commands(COMMANDS);
        let expected = "tape: an archive on a tape\n\n  tape:PATH(OPTION=VALUE, ...)\n\n\
                        The plain path of a file or block device that contains an archive means the same.\n\n \
                        uid=UID  owner of all files (default 0)\n\n  plyfs tape --help\n";
        assert_eq!(describe(&kind), expected);
    }

    #[test]
    fn an_unknown_kind_is_an_error_with_a_suggestion() {
        let failure = find("mam").unwrap_err();
        let expected = "there is no kind of base 'mam'; did you mean 'mem'?";
        assert_eq!((failure.exit, failure.message.as_str()), (Exit::Unknown, expected));
    }
}
