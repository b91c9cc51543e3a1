//! The man pages: those of the commands, of the layers and bases, and of what they have in common.

mod commands;
mod members;
mod page;
mod pages;
mod topics;

use std::fs;
use std::io;
use std::path::Path;

use plyfs_cli::Registry;
use plyfs_cli::arguments::Man;
use plyfs_cli::exit::{Exit, Failure, Outcome};

/// Writes the man pages: those of `plyfs`, of each of its commands, of `plyfs-tools` and of the helper of mount(8), those of stack
/// expressions and of all layers, and one for each layer and each kind of base.
pub(crate) fn write(arguments: &Man) -> Outcome {
    let directory = &arguments.directory;
    write_into(directory).map_err(|error| {
        let remedy = "give a writable directory";
        Failure::new(Exit::Failure, format!("cannot write man pages into {}: {error}; {remedy}", directory.display()))
    })
}

fn write_into(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let registry = Registry::default();
    commands::write(&registry, directory)?;
    fs::write(directory.join("plyfs-stack.5"), topics::stack_page().render())?;
    fs::write(directory.join("plyfs-tools.1"), topics::tools_page().render())?;
    fs::write(directory.join("plyfs-layers.7"), topics::layers_page(&registry).render())?;
    for kind in registry.layers() {
        fs::write(directory.join(format!("plyfs-layer-{}.7", kind.name)), members::layer_page(kind).render())?;
    }
    registry.bases().iter().try_for_each(|kind| {
        fs::write(directory.join(format!("plyfs-base-{}.7", kind.name)), members::base_page(kind).render())
    })
}
