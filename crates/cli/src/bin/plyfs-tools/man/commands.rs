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

use super::{examples, page};

/// Pages to which those of commands refer, besides those of the command above and of the commands below.
const RELATED: &[(&str, &[&str])] = &[
    ("plyfs", &["plyfs-stack(5)", "plyfs-layers(7)", "mount.plyfs(8)", "fusermount3(1)"]),
    ("plyfs-mount", &["plyfs-umount(1)", "plyfs-status(1)", "plyfs-explain(1)", "mount.plyfs(8)", "mount(8)"]),
    ("plyfs-umount", &["plyfs-mount(1)", "umount(8)"]),
    ("plyfs-status", &["plyfs-stats(1)", "plyfs-top(1)"]),
    ("plyfs-stats", &["plyfs-status(1)", "plyfs-top(1)"]),
    ("plyfs-top", &["plyfs-status(1)", "plyfs-stats(1)"]),
    ("plyfs-control", &["plyfs-layers(7)"]),
    ("plyfs-run", &["plyfs-snapshot(1)"]),
    ("plyfs-explain", &["plyfs-mount(1)", "plyfs-layers(7)"]),
    ("plyfs-layers", &["plyfs-layers(7)", "plyfs-bases(1)"]),
    ("plyfs-bases", &["plyfs-layers(7)", "plyfs-layers(1)"]),
    ("plyfs-union", &["plyfs-layer-union(7)", "plyfs-snapshot(1)"]),
    ("plyfs-snapshot", &["plyfs-layer-union(7)", "plyfs-union(1)", "plyfs-run(1)"]),
    ("plyfs-fat", &["plyfs-base-fat(7)", "mkfs.fat(8)", "fsck.fat(8)"]),
    ("plyfs-iso", &["plyfs-base-iso(7)"]),
    ("plyfs-fist", &["plyfs-layers(7)", "plyfs-ioctl(1)"]),
    ("plyfs-ioctl", &["plyfs-fist(1)", "ioctl(2)"]),
    ("mount.plyfs", &["plyfs(1)", "plyfs-mount(1)", "plyfs-stack(5)", "fstab(5)", "mount(8)"]),
];

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
    page::examples(&mut rest, examples::of(&name));
    page::see_also(&mut rest, &related(command, &name, above));
    rest.to_writer(&mut text)?;
    fs::write(directory.join(format!("{name}.{section}")), text)
}

/// Returns the pages to which that of a command refers.
fn related(command: &Command, name: &str, above: Option<&str>) -> Vec<String> {
    let takes_stack = command.get_arguments().any(|argument| {
        argument.get_value_names().is_some_and(|names| names.iter().any(|name| name.starts_with("STACK")))
    });
    let own = RELATED.iter().filter(|(page, _)| *page == name).flat_map(|(_, pages)| pages.iter());
    let mut pages: Vec<String> = above.map(|above| format!("{above}(1)")).into_iter().collect();
    if takes_stack {
        pages.push("plyfs-stack(5)".to_owned());
    }
    for page in own {
        if !pages.iter().any(|other| other == page) {
            pages.push((*page).to_owned());
        }
    }
    pages
}
