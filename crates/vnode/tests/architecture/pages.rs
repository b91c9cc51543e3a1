//! Pages for developers name source files that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn source_files_that_pages_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = files_below(&root.join("crates"), "rs");
    let names: BTreeSet<&str> = sources.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    let pages = [vec![root.join("ARCHITECTURE.md")], files_below(&root.join("docs"), "md")].concat();
    let mut missing = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let words = text.split(|character: char| !(character.is_ascii_alphanumeric() || "_-./".contains(character)));
        for word in words.map(|word| word.trim_end_matches('.')).filter(|word| word.len() > 3 && word.ends_with(".rs"))
        {
            let is_path = word.starts_with("crates/");
            let exists = if is_path { root.join(word).exists() } else { names.contains(basename(word)) };
            if !exists {
                missing.push(format!("{}: {word}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

fn basename(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the files below a directory whose names end so.
pub(crate) fn files_below(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path, extension));
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    found
}
