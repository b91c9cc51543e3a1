//! The man pages of commands: those that clap makes of the command line, with examples and references.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::Roff;

use plyfs_cli::Registry;
use plyfs_cli::arguments::Helper;
use plyfs_cli::command_line;

use super::page;
use super::pages::{self, Page};

/// Writes the pages of `plyfs`, of all its commands, and of the helper of mount(8).
pub(crate) fn write(registry: &Registry, directory: &Path) -> io::Result<()> {
    // The page of the command `help` would only repeat the other pages.
    let mut command = command_line::command(registry).disable_help_subcommand(true);
    command.build();
    write_with_commands(&command, None, directory)?;
    write_page(&Helper::command(), "8", None, directory)
}

fn write_with_commands(command: &Command, above: Option<&str>, directory: &Path) -> io::Result<()> {
    let name = page_name(command);
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_with_commands(below, Some(&name), directory)?;
    }
    write_page(command, "1", above, directory)
}

fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// Writes the page of a command, which is one of the commands of `above`.
fn write_page(command: &Command, section: &str, above: Option<&str>, directory: &Path) -> io::Result<()> {
    let name = page_name(command);
    let mut text = Vec::new();
    Man::new(command.clone()).section(section).render(&mut text)?;
    let mut rest = Roff::new();
    let said = pages::of(&format!("{name}({section})"));
    page::examples(&mut rest, &said.examples);
    page::see_also(&mut rest, &related(command, said, above));
    rest.to_writer(&mut text)?;
    fs::write(directory.join(format!("{name}.{section}")), text)
}

/// Returns the pages to which that of a command refers.
fn related(command: &Command, said: &Page, above: Option<&str>) -> Vec<String> {
    let takes_stack = command.get_arguments().any(|argument| {
        argument.get_value_names().is_some_and(|names| names.iter().any(|name| name.starts_with("STACK")))
    });
    let mut pages: Vec<String> = above.map(|above| format!("{above}(1)")).into_iter().collect();
    if takes_stack {
        pages.push("plyfs-stack(5)".to_owned());
    }
    for page in &said.related {
        if !pages.contains(page) {
            pages.push(page.clone());
        }
    }
    pages
}
