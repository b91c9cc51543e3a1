//! `plyfs completions` and `plyfs man`: what is generated from the definition of the command line.

use std::fs;
use std::io;

use clap::CommandFactory;

use super::print;
use crate::arguments::{Arguments, Completions, Helper, Man};
use crate::exit::{Exit, Failure, Outcome};

/// Prints the completion script.
pub fn completions(arguments: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "plyfs", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Writes the man pages: one for the command, one for each of its commands, one for the helper of mount(8).
pub fn man(arguments: &Man) -> Outcome {
    let directory = &arguments.directory;
    let written = fs::create_dir_all(directory).and_then(|()| {
        // The command `help` says nothing that the pages do not.
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
