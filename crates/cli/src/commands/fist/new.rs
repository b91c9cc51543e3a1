//! `plyfs fist new`: a FiST program to begin with.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

use super::super::{print, printable};
use crate::exit::{Exit, Failure, Outcome};

/// Writes the program, unless the file exists.
pub(crate) fn run(name: &str, directory: Option<&Path>) -> Outcome {
    if !is_name(name) {
        let remedy = "use letters, digits and _, no digit first, and omit .fist";
        return Err(Failure::new(Exit::Usage, format!("'{name}' is not a valid name of a FiST program; {remedy}")));
    }
    let file = directory.unwrap_or(Path::new("")).join(format!("{name}.fist"));
    let written = File::create_new(&file).and_then(|mut file| file.write_all(text(name).as_bytes()));
    written.map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::AlreadyExists => "give another name",
            _ => "give a writable directory",
        };
        Failure::new(Exit::Failure, format!("cannot write {}: {error}; {remedy}", file.display()))
    })?;
    print(&format!("{}\n", printable(&file.display().to_string())))
}

/// Returns whether functions can have this name.
fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    !name.is_empty()
        && name.len() <= 64
        && name.chars().all(is_letter)
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn text(name: &str) -> String {
    include_str!("new.fist").replace("NAME", name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_program_is_valid_and_formatted() {
        let text = text("first");
        let loaded = fist::load::Loaded::of("first.fist", text.clone());
        assert!(loaded.program.is_some() && loaded.diagnostics.is_empty(), "{:#?}", loaded.diagnostics);
        assert_eq!(fist::fmt::format(&text), Ok(text));
    }

    #[test]
    fn names_must_be_valid_function_names() {
        for name in ["", "2fs", "my-fs", "a.fist", "../a", "a/b", "na me"] {
            assert!(!is_name(name), "{name}");
        }
        assert!(is_name("crypt_fs2"));
    }
}
