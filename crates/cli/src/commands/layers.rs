//! `plyfs layers`: the layers that a stack can have, with the options, control commands and commands of each, and the FiST programs
//! on the search path.

use stack::Kind;

use super::{option_table, plain_table, print, programs};
use crate::arguments::Layers;
use crate::exit::{Exit, Failure, Outcome};
use crate::registry::registry;

/// Runs the command.
pub(crate) fn run(arguments: &Layers) -> Outcome {
    match &arguments.name {
        None => print(&(list(registry().layers()) + &programs::list(registry().search_path()))),
        Some(name) => print(&find(name)?),
    }
}

/// Returns the description of the layer, or of the FiST program, with this name.
fn find(name: &str) -> Outcome<String> {
    if let Some(kind) = registry().layer(name) {
        return Ok(describe(kind));
    }
    match registry().search_path().find(name) {
        Ok(path) => programs::describe(name, &path).map_err(|error| Failure::new(Exit::Unknown, error)),
        Err(_) => Err(Failure::new(Exit::Unknown, registry().unknown_layer(name))),
    }
}

/// Returns a line for each layer: its name and what it does.
fn list(layers: &[Kind]) -> String {
    let mut table = plain_table();
    for kind in layers {
        table.add_row([kind.name, kind.summary]);
    }
    format!("{}\n", table.trim_fmt())
}

/// Returns what a layer does, how it is written in a stack, and a line for each of its options and control commands.
fn describe(kind: &Kind) -> String {
    let mut text = format!("{}: {}\n\n  {}\n", kind.name, kind.summary, kind.synopsis());
    text.push_str(&option_table(kind.options));
    if !kind.controls.is_empty() {
        let mut table = plain_table();
        for control in kind.controls {
            table.add_row([control.to_string(), control.summary.to_owned()]);
        }
        text.push_str(&format!("\n  plyfs control MOUNTPOINT {} COMMAND\n\n{}\n", kind.name, table.trim_fmt()));
    }
    for command in kind.commands {
        text.push_str(&format!("\n  plyfs {} --help\n", command.name));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_and_command_of_a_layer_is_described() {
        for kind in registry().layers() {
            let text = describe(kind);
            assert!(text.starts_with(&format!("{}: {}\n", kind.name, kind.summary)), "{text}");
            let lines: Vec<&str> = text.lines().collect();
            for option in kind.options {
                let form = format!("{}={}", option.key, option.value);
                assert!(lines.iter().any(|line| line.contains(&form) && line.contains(option.summary)), "{text}");
            }
            for control in kind.controls {
                let form = control.to_string();
                assert!(lines.iter().any(|line| line.contains(&form) && line.contains(control.summary)), "{text}");
            }
            assert!(kind.commands.iter().all(|command| text.contains(&format!("plyfs {} ", command.name))), "{text}");
        }
        assert!(list(registry().layers()).lines().count() == registry().layers().len());
    }

    #[test]
    fn an_unknown_layer_is_an_error_with_a_suggestion() {
        let failure = find("audti").unwrap_err();
        assert_eq!(
            (failure.exit, failure.message.as_str()),
            (Exit::Unknown, "there is no layer 'audti'; did you mean 'audit'?")
        );
    }
}
