//! The `plyfs-tools` command: the parts of `plyfs` that no mount needs, run by `plyfs` as a separate executable.

use std::fs;
use std::io;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use clap_mangen::roff::{Roff, bold, italic, roman};

use plyfs_cli::arguments::{Completions, Helper, Man};
use plyfs_cli::command::MemberCommand;
use plyfs_cli::command_line;
use plyfs_cli::exit::{Exit, Failure, Outcome};
use plyfs_cli::output::{print, report};
use plyfs_cli::{BaseKind, Kind, OptionSpecification, Registry};

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
    clap_complete::generate(arguments.shell, &mut command_line::command(&Registry::default()), "plyfs", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Writes the man pages: one for the command, one for each of its subcommands, one for the helper of mount(8), one for each layer and
/// each kind of base.
fn man(arguments: &Man) -> Outcome {
    let directory = &arguments.directory;
    let written = fs::create_dir_all(directory).and_then(|()| {
        // The page of the command `help` would only repeat the other pages.
        let registry = Registry::default();
        clap_mangen::generate_to(command_line::command(&registry).disable_help_subcommand(true), directory)?;
        let mut page = Vec::new();
        clap_mangen::Man::new(Helper::command()).section("8").render(&mut page)?;
        fs::write(directory.join("mount.plyfs.8"), page)?;
        for kind in registry.layers() {
            fs::write(directory.join(format!("plyfs-layer-{}.7", kind.name)), layer_page(kind).render())?;
        }
        registry.bases().iter().try_for_each(|kind| {
            fs::write(directory.join(format!("plyfs-base-{}.7", kind.name)), base_page(kind).render())
        })
    });
    written.map_err(|error: io::Error| {
        let remedy = "give a writable directory";
        Failure::new(Exit::Failure, format!("cannot write man pages into {}: {error}; {remedy}", directory.display()))
    })
}

/// Returns the man page of a layer: what it does, its options and its control commands, as the layer specifies them.
fn layer_page(kind: &Kind) -> Roff {
    let synopsis = kind.synopsis();
    let mut page = begin_page(&format!("plyfs-layer-{}", kind.name), kind.summary);
    page.text([roman(format!("{} | ", synopsis.lower)), bold(synopsis.name), roman(synopsis.options)]);
    add_options(&mut page, kind.options);
    if !kind.controls.is_empty() {
        page.control("SH", ["CONTROL COMMANDS"]);
        page.text([bold("plyfs control"), italic(" MOUNTPOINT "), bold(kind.name), italic(" COMMAND")]);
    }
    for control in kind.controls {
        page.control("TP", []).text([bold(control.to_string())]);
        page.text([roman(control.summary)]);
    }
    add_related(&mut page, "plyfs-layers", kind.commands);
    page
}

/// Returns the man page of a kind of base: what it is, which contents it recognises, and its options.
fn base_page(kind: &BaseKind) -> Roff {
    let synopsis = kind.synopsis();
    let mut page = begin_page(&format!("plyfs-base-{}", kind.name), kind.summary);
    page.text([bold(format!("{}:", synopsis.name)), italic(synopsis.location), roman(synopsis.options)]);
    if let Some(sentence) = kind.recognition() {
        page.control("SH", ["DESCRIPTION"]).text([roman(sentence)]);
    }
    add_options(&mut page, kind.options);
    add_related(&mut page, "plyfs-bases", kind.commands);
    page
}

/// Returns the page of a layer or base up to its synopsis, which is added next.
fn begin_page(name: &str, summary: &str) -> Roff {
    let mut page = Roff::new();
    page.control("TH", [name, "7"]);
    page.control("SH", ["NAME"]).text([roman(format!("{name} - {summary}"))]);
    page.control("SH", ["SYNOPSIS"]);
    page
}

fn add_options(page: &mut Roff, options: &[OptionSpecification]) {
    if !options.is_empty() {
        page.control("SH", ["OPTIONS"]);
    }
    for option in options {
        page.control("TP", []).text([bold(option.key), roman("="), italic(option.value)]);
        page.text([roman(option.summary)]);
    }
}

/// Adds references to the pages of the command, of the command that lists the kinds, and of the kind's own commands.
fn add_related(page: &mut Roff, lister: &str, commands: &[MemberCommand]) {
    let commands = commands.iter().map(|command| format!("plyfs-{}", command.name));
    let mut related = vec![bold("plyfs"), roman("(1), "), bold(lister), roman("(1)")];
    related.extend(commands.flat_map(|page| [roman(", "), bold(page), roman("(1)")]));
    page.control("SH", ["SEE ALSO"]).text(related);
}

/// Serves the editor over standard input and output.
fn lsp() -> Outcome {
    fist_server::serve().map_err(|error| {
        Failure::new(Exit::Failure, format!("the language server failed: {error}; restart it in the editor"))
    })
}
