//! Lists of sectors in files.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use layers::command::{Exit, Failure, Outcome};

/// Largest size of a list in bytes.
const SIZE_MAX: u64 = 64 << 20;

/// Reads the numbers of sectors from a file, one a line; empty lines are skipped.
pub(crate) fn read_list(path: &Path) -> Outcome<Vec<u64>> {
    let name = path.display();
    let failed = |error: std::io::Error| {
        Failure::new(
            Exit::Failure,
            format!("cannot read the list `{name}`: {error}; check the path and its permissions"),
        )
    };
    let mut sectors = Vec::new();
    for (index, line) in BufReader::new(File::open(path).map_err(failed)?.take(SIZE_MAX)).lines().enumerate() {
        let line = line.map_err(failed)?;
        match line.trim() {
            "" => {}
            text => sectors.push(text.parse().map_err(|_| {
                let message = format!("line {} of the list `{name}` is no number of a sector; correct it", index + 1);
                Failure::new(Exit::Failure, message)
            })?),
        }
    }
    Ok(sectors)
}
