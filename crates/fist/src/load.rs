//! Loading: from a file to a FiST program that has been read and checked.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use crate::check::check_commented;
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::ir;
use crate::limits::MAX_SOURCE_BYTES;
use crate::lines::Lines;
use crate::parser::parse;
use crate::program::Program;

/// A loaded FiST program.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The name of its text: the path as given.
    pub file: String,
    /// The program's own name, see [`name`].
    pub name: String,
    /// Its source text.
    pub text: String,
    /// Its intermediate form, if there are no errors.
    pub ir: Option<ir::Program>,
    /// The form prepared for this machine, ready to run.
    pub program: Option<Program>,
    /// Errors and warnings, in source order.
    pub diagnostics: Vec<Diagnostic>,
}

/// The reason why a text cannot be loaded.
#[derive(Debug)]
pub enum Failure {
    /// The file cannot be opened or read.
    Unreadable(PathBuf, io::Error),
    /// The file is a directory, a device or the like.
    NoFile(PathBuf),
    /// The file is longer than [`MAX_SOURCE_BYTES`].
    TooLong(PathBuf),
    /// The file is not UTF-8, from this line and column on.
    NoText(PathBuf, usize, usize),
}

/// Loads a file and checks the FiST program in it.
pub fn load(path: &Path) -> Result<Loaded, Failure> {
    let text = text(path)?;
    Ok(Loaded::of(&path.display().to_string(), text))
}

/// Reads the text of a file.
pub fn text(path: &Path) -> Result<String, Failure> {
    let unreadable = |error| Failure::Unreadable(path.to_owned(), error);
    // Something other than a regular file may never end, and opening it may block.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(Failure::NoFile(path.to_owned()));
    }
    read(File::open(path).map_err(unreadable)?, path)
}

/// Reads a text, to which messages refer by this path.
pub fn read(from: impl Read, path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let max_bytes = MAX_SOURCE_BYTES as u64 + 1;
    from.take(max_bytes).read_to_end(&mut bytes).map_err(|error| Failure::Unreadable(path.to_owned(), error))?;
    if bytes.len() > MAX_SOURCE_BYTES {
        return Err(Failure::TooLong(path.to_owned()));
    }
    String::from_utf8(bytes).map_err(|error| {
        let text = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        let (line, column) = Lines::of(&text).place(&text, text.len());
        Failure::NoText(path.to_owned(), line, column)
    })
}

impl Loaded {
    /// Reads and checks a text by this name.
    pub fn of(file: &str, text: String) -> Loaded {
        let name = name(Path::new(file));
        let parsed = parse(&text);
        let is_read = parsed.diagnostics.iter().all(|diagnostic| diagnostic.severity != Severity::Error);
        let checked = check_commented(&parsed.description, &name, parsed.written_comments(&text));
        let mut diagnostics = parsed.diagnostics;
        diagnostics.extend(checked.diagnostics.into_iter().filter(|diagnostic| is_read || is_certain(diagnostic)));
        diagnostics.sort_by_key(|diagnostic| diagnostic.span);
        let (ir, program) = if is_read { (checked.ir, checked.program) } else { (None, None) };
        Loaded { file: file.to_owned(), name, text, ir, program, diagnostics }
    }
}

/// Returns whether an error is certain although a part of the text could not be parsed: others may only be due to a
/// definition in that part, so they are not reported.
fn is_certain(diagnostic: &Diagnostic) -> bool {
    let may_follow = [Code::UnknownName, Code::BadConstant, Code::BadCall, Code::MissingFilter];
    diagnostic.severity == Severity::Error && !may_follow.contains(&diagnostic.code)
}

/// Returns the own name of a FiST program, the prefix of its filter functions: the file name up to the first dot.
/// Characters that cannot be in a function name become `_`.
pub fn name(file: &Path) -> String {
    let whole = file.file_name().unwrap_or_default().to_string_lossy();
    let name = whole.trim_start_matches('.').split('.').next().unwrap_or_default();
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let name: String = name.chars().map(letter).collect();
    match name.chars().next() {
        None => "description".to_owned(),
        Some('0'..='9') => format!("_{name}"),
        Some(_) => name,
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unreadable(path, error) => {
                write!(formatter, "cannot read {}: {error}; name a file that can be read", path.display())
            }
            Failure::NoFile(path) => {
                write!(formatter, "{} is not a regular file; name the file of a description", path.display())
            }
            Failure::TooLong(path) => {
                let max_bytes = MAX_SOURCE_BYTES >> 20;
                write!(formatter, "{} is longer than {max_bytes} MiB; a description is shorter", path.display())
            }
            Failure::NoText(path, line, column) => {
                let path = path.display();
                write!(formatter, "{path} is not text: line {line}, column {column} is not UTF-8; save it as UTF-8")
            }
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_name_is_the_file_name_up_to_the_first_dot() {
        for (file, expected) in [
            ("/srv/cryptfs.fist", "cryptfs"),
            ("rot13.v2.fist", "rot13"),
            ("plain", "plain"),
            ("my-fs.fist", "my_fs"),
            ("2fs.fist", "_2fs"),
            (".hidden.fist", "hidden"),
            ("..", "description"),
        ] {
            assert_eq!(name(Path::new(file)), expected, "{file}");
        }
    }

    #[test]
    fn filter_functions_have_the_program_name_as_prefix() {
        let text = "filter:data;\n%%\n%%\nint my_fs_encode_data(const page_t *in, page_t *out) { return %pagesize; }\n\
            int my_fs_decode_data(const page_t *in, page_t *out) { return %pagesize; }\n";
        assert!(Loaded::of("/srv/my-fs.fist", text.to_owned()).program.is_some());
        assert!(Loaded::of("/srv/other.fist", text.to_owned()).program.is_none());
    }

    #[test]
    fn errors_that_may_follow_from_a_syntax_error_are_suppressed() {
        let codes = |text: &str| {
            let loaded = Loaded::of("test.fist", text.to_owned());
            assert!(loaded.program.is_none());
            loaded.diagnostics.iter().map(|diagnostic| diagnostic.code.name()).collect::<Vec<_>>()
        };
        assert_eq!(codes("per_vfs { char key[; };\n%%\n%op:unlink { $vfs.key[0] = 1; }\n"), ["F0101"]);
        assert_eq!(codes("fanout two;\n%%\n%op:unlink { int a; int a; }\n"), ["F0101", "F0201"]);
    }

    #[test]
    fn files_are_loaded_or_the_failure_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = directory.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let loaded = load(&file("fine.fist", b"%%\n")).unwrap();
        assert!(loaded.program.is_some() && loaded.name == "fine" && loaded.file.ends_with("/fine.fist"));
        assert!(matches!(load(&directory.path().join("none")), Err(Failure::Unreadable(..))));
        assert!(matches!(load(directory.path()), Err(Failure::NoFile(_))));
        assert!(matches!(load(Path::new("/dev/zero")), Err(Failure::NoFile(_))));
        assert!(matches!(load(&file("binary", b"%%\n a\xff")), Err(Failure::NoText(_, 2, 3))));
        assert!(matches!(load(&file("long", &vec![b'\n'; MAX_SOURCE_BYTES + 1])), Err(Failure::TooLong(_))));
        let message = load(&file("binary", b"\xff")).unwrap_err().to_string();
        assert!(message.ends_with("is not text: line 1, column 1 is not UTF-8; save it as UTF-8"), "{message}");
    }
}
