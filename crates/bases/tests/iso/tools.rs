//! The programs that make images.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a program with these arguments and paths; fails with what to install if it does not exist.
pub(crate) fn run(program: &str, arguments: &[&str], paths: &[&Path]) {
    let mut command = Command::new(program);
    let output = command.args(arguments).args(paths).stdin(Stdio::null()).output();
    let output =
        output.unwrap_or_else(|error| panic!("{program}: {error}; install xorriso, genisoimage and zisofs-tools"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?} {paths:?}: {}\n{text}", output.status);
}

/// Makes an image with xorriso in the manner of mkisofs.
pub(crate) fn xorriso(arguments: &[&str], image: &Path, source: &Path) {
    let all: Vec<&str> = ["-as", "mkisofs", "-quiet"].iter().chain(arguments).copied().collect();
    run("xorriso", &[&all[..], &["-o"]].concat(), &[image, source]);
}

/// Makes an image with genisoimage.
pub(crate) fn genisoimage(arguments: &[&str], image: &Path, source: &Path) {
    let all: Vec<&str> = ["-quiet"].iter().chain(arguments).copied().collect();
    run("genisoimage", &[&all[..], &["-o"]].concat(), &[image, source]);
}
