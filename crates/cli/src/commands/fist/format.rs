//! `plyfs fist fmt`: formats FiST programs.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use fist::fmt::format;
use fist::load;

use super::loading::{diagnostics_failure, for_each_file, load_failure, print_diagnostics};
use crate::commands::{print, printable};
use crate::exit::{Exit, Failure, Outcome};

/// Reformats all files, or with `checks` reports which would change.
pub(crate) fn run(files: &[PathBuf], checks: bool) -> Outcome {
    for_each_file(files, |file| {
        let is_input = file == Path::new("-");
        let name = if is_input { Path::new("standard input") } else { file };
        let text =
            if is_input { load::read(io::stdin().lock(), name) } else { load::text(file) }.map_err(load_failure)?;
        let formatted = format(&text).map_err(|diagnostics| {
            let name = name.display().to_string();
            print_diagnostics(&name, &text, &diagnostics);
            diagnostics_failure(&name, &diagnostics, "its layout stays as it is")
        })?;
        if checks {
            return check_formatted(name, formatted == text);
        }
        if is_input {
            return print(&formatted);
        }
        if formatted == text { Ok(()) } else { write(file, &text, &formatted) }
    })
}

fn check_formatted(name: &Path, is_same: bool) -> Outcome {
    if is_same {
        return Ok(());
    }
    print(&format!("{}\n", printable(&name.display().to_string())))?;
    Err(Failure::silent(Exit::Failure))
}

/// Writes into the existing file, so that its owner, mode and links are kept.
fn write(file: &Path, before: &str, formatted: &str) -> Outcome {
    let failed = |error: io::Error| {
        let remedy = "give a writable file";
        Failure::new(Exit::Failure, format!("cannot write {}: {error}; {remedy}", file.display()))
    };
    let mut target = File::options().write(true).open(file).map_err(failed)?;
    replace(&mut target, formatted).map_err(|error| {
        // The space sufficed for the previous text.
        let _ = replace(&mut target, before);
        failed(error)
    })
}

fn replace(file: &mut File, text: &str) -> io::Result<()> {
    file.rewind()?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)
}
