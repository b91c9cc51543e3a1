//! The kept corpus: files of inputs, one directory for each format.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the directory of the inputs of a format, `fat` or `iso`.
pub fn directory(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(format)
}

/// Reads all inputs of a format, sorted by name.
///
/// # Errors
/// If the directory or a file cannot be read.
pub fn read(format: &str) -> io::Result<Vec<Vec<u8>>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory(format))?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    paths.iter().map(fs::read).collect()
}
