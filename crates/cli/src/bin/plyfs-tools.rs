//! The `plyfs-tools` command: the parts of `plyfs` that no mount needs, run by `plyfs` as a separate executable.

use std::fs;
use std::io;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use plyfs_cli::arguments::{Arguments, Completions, Helper, Man};
use plyfs_cli::exit::{Exit, Failure, Outcome};
use plyfs_cli::output::{print, report};

/// The tools of plyfs, which executes them: plyfs completions, plyfs man, plyfs fist lsp.
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
    let outcome = match Tool::parse() {
        Tool::Completions(arguments) => completions(&arguments),
        Tool::Man(arguments) => man(&arguments),
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

/// Prints the completion script.
fn completions(arguments: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "plyfs", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Writes the man pages: one for the command, one for each of its subcommands, one for the helper of mount(8).
fn man(arguments: &Man) -> Outcome {
    let directory = &arguments.directory;
    let written = fs::create_dir_all(directory).and_then(|()| {
        // The page of the command `help` would only repeat the other pages.
        clap_mangen::generate_to(Arguments::command().disable_help_subcommand(true), directory)?;
        let mut page = Vec::new();
        clap_mangen::Man::new(Helper::command()).section("8").render(&mut page)?;
        fs::write(directory.join("mount.plyfs.8"), page)
    });
    written.map_err(|error: io::Error| {
        let remedy = "name a directory that can be written";
        Failure::new(Exit::Failure, format!("cannot write man pages into {}: {error}; {remedy}", directory.display()))
    })
}

/// Serves the editor over standard input and output.
fn lsp() -> Outcome {
    fist_server::serve().map_err(|error| {
        Failure::new(Exit::Failure, format!("the language server has ended: {error}; editors start it again"))
    })
}
