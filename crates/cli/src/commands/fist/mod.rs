//! `plyfs fist`: descriptions of file systems in the language FiST.

mod begin;
mod collapse;
mod layout;
mod trial;

use std::io::{IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};

use fist::diagnostic::Diagnostic;
use fist::ir::Program as Form;
use fist::load::{self, Loaded};
use fist::program::Program;
use fist::report::{self, Colours};
use fist::target::Target;
use stack::syntax::LayerName;

use super::{command_to, print, report as tell, running, tools};
use crate::arguments::Fist;
use crate::exit::{Exit, Failure, Outcome};

/// Runs the command.
pub fn run(command: &Fist) -> Outcome {
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

/// Does the same with each file. What is wrong with one is told, and the others are done all the same.
fn each(files: &[PathBuf], act: impl Fn(&Path) -> Outcome) -> Outcome {
    let mut outcome = Ok(());
    for file in files {
        if let Err(failure) = act(file) {
            if !failure.is_silent() {
                tell(&failure);
            }
            outcome = Err(Failure::silent(failure.exit));
        }
    }
    outcome
}

fn check(file: &Path) -> Outcome {
    checked(file).map(drop)
}

fn explain(file: &Path) -> Outcome {
    let Checked { program, text, .. } = checked(file)?;
    print(&fist::explain::explain(&program, &text))
}

/// Prints the intermediate form of descriptions, the lowest first, as one program.
fn form(files: &[PathBuf]) -> Outcome {
    let all = files.iter().map(|file| checked(file)).collect::<Outcome<Vec<_>>>()?;
    collapse::are_one_layer(files)?;
    let merged = Form::merge(all.into_iter().rev().map(|description| description.ir));
    print(&fist::ir::print::print(&merged, &Target::host()))
}

/// A description without errors.
struct Checked {
    ir: Form,
    program: Program,
    text: String,
}

/// Reads a description that has no errors. What is wrong, or may be, is shown.
fn checked(file: &Path) -> Outcome<Checked> {
    let Loaded { file, text, ir, program, diagnostics, .. } = load::load(file).map_err(unread)?;
    show(&file, &text, &diagnostics);
    match ir.zip(program) {
        Some((ir, program)) => Ok(Checked { ir, program, text }),
        None => Err(wrong(&file, &diagnostics, "mend what is told above")),
    }
}

/// Has a running mount read its description again: that of this file name, or the only one.
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

/// The file names of the descriptions in a stack.
pub(super) fn descriptions(stack: &str) -> Vec<String> {
    let Ok(stack) = stack::syntax::parse(stack) else { return Vec::new() };
    let named = stack.layers.iter().filter_map(|layer| match &layer.value.name.value {
        LayerName::Description(path) => path.file_name().map(|name| name.to_string_lossy().into_owned()),
        LayerName::Name(_) => None,
    });
    named.collect()
}

/// A description that cannot be used.
fn wrong(file: &str, diagnostics: &[Diagnostic], what_is_done: &str) -> Failure {
    Failure::new(Exit::Failure, format!("{file} has {}; {what_is_done}", report::counts(diagnostics)))
}

fn unread(failure: load::Failure) -> Failure {
    Failure::new(Exit::Failure, failure)
}

/// Shows what is wrong, in colours on a terminal whose user wants them.
fn show(file: &str, text: &str, diagnostics: &[Diagnostic]) {
    let is_colourful = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let colours = if is_colourful { Colours::Always } else { Colours::Never };
    if !diagnostics.is_empty() {
        // Standard error may be gone; the code still tells.
        let _ = writeln!(stderr(), "{}", report::report(file, text, diagnostics, colours));
    }
}
