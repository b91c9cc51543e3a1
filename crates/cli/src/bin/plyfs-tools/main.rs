//! The `plyfs-tools` command: the parts of `plyfs` that no mount needs, run by `plyfs` as a separate executable.

mod completions;
mod man;

use std::process::ExitCode;

use clap::Parser;

use plyfs_cli::arguments::{Completions, Man};
use plyfs_cli::exit::{Exit, Failure, Outcome};
use plyfs_cli::output::report;

/// The tools of plyfs, which executes them: plyfs completions, plyfs man, plyfs fist lsp.
///
/// The scripts that plyfs completions prints execute it, too, for each completion of a command line.
#[derive(Debug, Parser)]
#[command(name = "plyfs-tools", version)]
enum Tool {
    /// Print the completion script for a shell
    Completions(Completions),
    /// Write the man pages into a directory
    Man(Man),
    /// Serve an editor, over standard input and output, by the Language Server Protocol
    Lsp,
}

fn main() -> ExitCode {
    // A completion script calls with words of another command line.
    if completions::complete() {
        return ExitCode::SUCCESS;
    }
    let outcome = match Tool::parse() {
        Tool::Completions(arguments) => completions::print_script(&arguments),
        Tool::Man(arguments) => man::write(&arguments),
        Tool::Lsp => lsp(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure);
            ExitCode::from(failure.exit.number())
        }
    }
}

/// Serves the editor over standard input and output.
fn lsp() -> Outcome {
    fist_server::serve().map_err(|error| {
        Failure::new(Exit::Failure, format!("the language server failed: {error}; restart it in the editor"))
    })
}
