//! Control commands: every command that a layer lists is accepted, and nothing else is.

use std::sync::Arc;

use bases::mem::{MemoryFileSystem, Options};
use plyfs_layers::{ControlArgument, ControlArguments, ControlSpecification, Kind, kinds};
use vnode::{Control, ControlError, FileSystemRef};

fn stack(kind: &Kind) -> FileSystemRef {
    kind.stack(&[], Arc::new(MemoryFileSystem::new(Options::default()))).unwrap()
}

/// Sends a command with these arguments, all of one value.
fn send(kind: &Kind, command: &str, keys: &[&str]) -> Result<String, ControlError> {
    let arguments = keys.iter().map(|key| (key.to_string(), "1".to_owned())).collect();
    stack(kind).control(&Control { target: kind.name.to_owned(), command: command.to_owned(), arguments })
}

/// Returns whether the layer knows the command and its arguments, whatever it makes of their values.
fn is_accepted(answer: &Result<String, ControlError>) -> bool {
    match answer {
        Err(ControlError::UnknownCommand { .. } | ControlError::UnknownTarget(_)) => false,
        Err(ControlError::BadArgument(message)) => {
            !message.contains("takes no argument") && !message.contains("is missing; add")
        }
        _ => true,
    }
}

#[test]
fn layers_accept_the_control_commands_that_they_list() {
    let mut accepted = 0;
    for kind in kinds() {
        for ControlSpecification { name, arguments, .. } in kind.controls {
            let required: Vec<&str> = arguments.required().map(|argument| argument.key).collect();
            let optional: Vec<&str> = match arguments {
                ControlArguments::Options(options) => options.iter().map(|option| option.key).collect(),
                ControlArguments::List(list) => {
                    list.iter().filter(|argument| !argument.is_required).map(|argument| argument.key).collect()
                }
            };
            let given = [None].into_iter().chain(optional.into_iter().map(Some));
            for keys in given.map(|one| required.iter().copied().chain(one).collect::<Vec<_>>()) {
                let answer = send(kind, name, &keys);
                assert!(is_accepted(&answer), "{} {name} {keys:?}: {answer:?}", kind.name);
                accepted += 1;
            }
            for missing in &required {
                let others: Vec<&str> = required.iter().filter(|key| *key != missing).copied().collect();
                let answer = send(kind, name, &others);
                assert!(matches!(answer, Err(ControlError::BadArgument(_))), "{} {name}: {answer:?}", kind.name);
            }
        }
    }
    assert!(accepted > 20, "{accepted}");
}

#[test]
fn layers_refuse_control_commands_and_arguments_that_they_do_not_list() {
    for kind in kinds() {
        let answer = send(kind, "no-such-command", &[]);
        assert!(matches!(answer, Err(ControlError::UnknownCommand { .. })), "{}: {answer:?}", kind.name);
        for ControlSpecification { name, arguments, .. } in kind.controls {
            let required = arguments.required().map(|ControlArgument { key, .. }| *key);
            let answer = send(kind, name, &required.chain(["no-such-argument"]).collect::<Vec<_>>());
            assert!(matches!(answer, Err(ControlError::BadArgument(_))), "{} {name}: {answer:?}", kind.name);
        }
    }
}
