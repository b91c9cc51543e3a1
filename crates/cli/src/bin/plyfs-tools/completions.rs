//! The completion scripts of the shells, and the completions for which they call.

use std::env;

use clap::ValueEnum;
use clap_complete::env::{CompleteEnv, Shells};

use plyfs_cli::Registry;
use plyfs_cli::arguments::Completions;
use plyfs_cli::completion::{self, VARIABLE};
use plyfs_cli::exit::{Exit, Failure, Outcome};
use plyfs_cli::output::print;

/// The program that is completed, and the one that scripts call, each in `PATH`.
const COMPLETED: &str = "plyfs";
const COMPLETER: &str = "plyfs-tools";

/// zsh loads the script as the completion function itself when it completes the command for the first time: the function that the
/// script defines has to be called then.
const AUTOLOADED_BY_ZSH: &str = "\n[[ $funcstack[1] != _plyfs ]] || _clap_dynamic_completer_plyfs \"$@\"\n";

/// Completes the command line with which a completion script calls, if one does.
pub(crate) fn complete() -> bool {
    let registry = Registry::default();
    let completion = CompleteEnv::with_factory(|| completion::command(&registry)).var(VARIABLE);
    let directory = env::current_dir().ok();
    // What cannot be completed, such as a word after a mistake, has no completions.
    completion.try_complete(env::args_os(), directory.as_deref()).unwrap_or(true)
}

/// Prints the completion script.
pub(crate) fn print_script(arguments: &Completions) -> Outcome {
    let shell = arguments.shell.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let shells = Shells::builtins();
    let mut script = Vec::new();
    let written = shells
        .completer(&shell)
        .map(|writer| writer.write_registration(VARIABLE, COMPLETED, COMPLETED, COMPLETER, &mut script));
    match written {
        Some(Ok(())) => {}
        _ => return Err(Failure::new(Exit::Failure, format!("there is no completion for {shell}; use another shell"))),
    }
    if shell == "zsh" {
        script.extend(AUTOLOADED_BY_ZSH.bytes());
    }
    print(&String::from_utf8_lossy(&script))
}
