//! `plyfs fist`: file systems written in the language FiST.

mod begin;
mod collapse;
mod layout;
mod reading;
mod trial;

use std::path::{Path, PathBuf};

use fist::ir::Program as Form;
use fist::target::Target;
use stack::syntax::LayerName;

use super::{command_to, print, running, tools};
use crate::arguments::Fist;
use crate::exit::{Exit, Failure, Outcome};
use reading::{Checked, checked, each};

/// Runs the command.
pub(crate) fn run(command: &Fist) -> Outcome {
    match command {
        Fist::Check { files } => each(files, check),
        Fist::Test { files } => each(files, trial::run),
        Fist::Explain { ir: false, files } => each(files, explain),
        Fist::Explain { ir: true, files } => form(files),
        Fist::Collapse { files } => collapse::run(files),
        Fist::Reload { mount_point, description } => reload(mount_point, description.as_deref()),
        Fist::Fmt { check, files } => layout::run(files, *check),
        Fist::New { name, directory } => begin::run(name, directory.as_deref()),
        Fist::Lsp => tools::lsp(),
    }
}

fn check(file: &Path) -> Outcome {
    checked(file).map(drop)
}

fn explain(file: &Path) -> Outcome {
    let Checked { program, text, .. } = checked(file)?;
    print(&fist::explain::explain(&program, &text))
}

/// Prints the intermediate representation of FiST programs, lowest first, as one program.
fn form(files: &[PathBuf]) -> Outcome {
    let all = files.iter().map(|file| checked(file)).collect::<Outcome<Vec<_>>>()?;
    collapse::are_one_layer(files)?;
    let merged = Form::merge(all.into_iter().rev().map(|description| description.ir));
    print(&fist::ir::print::print(&merged, &Target::host()))
}

/// Makes a running mount reload its FiST program: the one with this file name, or the only one.
fn reload(mount_point: &Path, description: Option<&str>) -> Outcome {
    let server = running(mount_point)?;
    let mut kinds = descriptions(&server.report.stack);
    kinds.retain(|kind| description.is_none_or(|wanted| wanted == kind));
    let [kind] = &kinds[..] else {
        let message = match (kinds.len(), description) {
            (0, None) => "the mount has no description".to_owned(),
            (0, Some(wanted)) => format!("the mount has no description {wanted}; see plyfs status"),
            _ => format!("the mount has several descriptions; name one of {}", kinds.join(", ")),
        };
        return Err(Failure::new(Exit::Usage, message));
    };
    print(&format!("{}\n", command_to(&server, kind, "reload", Vec::new())?))
}

/// Returns the file names of the FiST programs in a stack.
pub(crate) fn descriptions(stack: &str) -> Vec<String> {
    let Ok(stack) = stack::syntax::parse(stack) else { return Vec::new() };
    let named = stack.layers.iter().filter_map(|layer| match &layer.value.name.value {
        LayerName::Description(path) => path.file_name().map(|name| name.to_string_lossy().into_owned()),
        LayerName::Name(_) => None,
    });
    named.collect()
}
