//! `plyfs fist`: file systems written in the language FiST.

mod collapse;
mod format;
mod loading;
mod new;
mod transcript;

use std::path::{Path, PathBuf};

use fist::ir::Program as IrProgram;
use fist::target::Target;
use stack::syntax::LayerName;
use vnode::Control;

use super::{find_running, print, send_command, tools};
use crate::arguments::Fist;
use crate::exit::{Exit, Failure, Outcome};
use loading::{CheckedProgram, for_each_file, load_checked};

/// Runs the command.
pub(crate) fn run(command: &Fist) -> Outcome {
    match command {
        Fist::Check { files } => for_each_file(files, check),
        Fist::Test { files } => for_each_file(files, transcript::run),
        Fist::Explain { ir: false, files } => for_each_file(files, explain),
        Fist::Explain { ir: true, files } => print_ir(files),
        Fist::Collapse { files } => collapse::run(files),
        Fist::Reload { mount_point, description } => reload(mount_point, description.as_deref()),
        Fist::Fmt { check, files } => format::run(files, *check),
        Fist::New { name, directory } => new::run(name, directory.as_deref()),
        Fist::Lsp => tools::lsp(),
    }
}

fn check(file: &Path) -> Outcome {
    load_checked(file).map(drop)
}

fn explain(file: &Path) -> Outcome {
    let CheckedProgram { program, text, .. } = load_checked(file)?;
    print(&fist::explain::explain(&program, &text))
}

/// Prints the intermediate representation of FiST programs, lowest first, as one program.
fn print_ir(files: &[PathBuf]) -> Outcome {
    let all = files.iter().map(|file| load_checked(file)).collect::<Outcome<Vec<_>>>()?;
    collapse::check_collapsible(files)?;
    let merged = IrProgram::merge(all.into_iter().rev().map(|description| description.ir));
    print(&fist::ir::print::print(&merged, &Target::host()))
}

/// Makes a running mount reload its FiST program: the one with this file name, or the only one.
fn reload(mount_point: &Path, description: Option<&str>) -> Outcome {
    let server = find_running(mount_point)?;
    let mut kinds = descriptions(&server.report.stack);
    kinds.retain(|kind| description.is_none_or(|wanted| wanted == kind));
    let [kind] = &kinds[..] else {
        let message = match (kinds.len(), description) {
            (0, None) => "the mount has no FiST program; to list its stack: plyfs status".to_owned(),
            (0, Some(wanted)) => format!("the mount has no FiST program {wanted}; to list its stack: plyfs status"),
            _ => format!("the mount has several FiST programs; give one of {}", kinds.join(", ")),
        };
        return Err(Failure::new(Exit::Usage, message));
    };
    let reload = Control { target: kind.clone(), command: "reload".to_owned(), arguments: Vec::new() };
    print(&format!("{}\n", send_command(&server, reload)?))
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
