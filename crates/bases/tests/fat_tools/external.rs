//! dosfstools and mtools, if they are installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::image::Image;

/// Returns the path of a program; `None`, and a note, if it is not installed.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let found = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].iter().map(|folder| Path::new(folder).join(name));
    let found = found.into_iter().find(|path| path.exists());
    if found.is_none() {
        eprintln!("{name} is not installed, so nothing is compared with it");
    }
    found
}

/// Writes an image to a file.
pub(crate) fn file(image: &Image) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), image.device.contents()).unwrap();
    file
}

/// Runs a program with arguments, of which `IMAGE` stands for the file of an image. Returns whether it succeeded, and what
/// it wrote; `None` if it is not installed.
pub(crate) fn run(name: &str, arguments: &[&str], image: &Image) -> Option<(bool, String)> {
    let program = program(name)?;
    let file = file(image);
    let path = file.path().to_str().unwrap();
    let arguments = arguments.iter().map(|argument| argument.replace("IMAGE", path));
    let output = Command::new(program).args(arguments).env("MTOOLS_SKIP_CHECK", "0").output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

/// Asserts that `fsck.fat` finds nothing.
pub(crate) fn assert_clean(image: &Image, context: &str) {
    let Some((is_clean, text)) = run("fsck.fat", &["-n", "IMAGE"], image) else { return };
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("fsck.fat ")).collect();
    // The rest is the summary.
    assert!(is_clean && lines.len() <= 1, "{context}: fsck.fat says:\n{text}");
}
