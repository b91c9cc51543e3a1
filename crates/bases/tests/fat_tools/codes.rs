//! The codes of problems: each is documented, and found and repaired in a test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn read(path: impl AsRef<Path>) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the codes that the source of problems has.
fn codes() -> BTreeSet<String> {
    let source = read("src/fat/tools/fsck/problem.rs");
    let code = |line: &str| Some(line.split_once("=> \"")?.1.split_once('"')?.0.to_owned());
    source.lines().filter_map(code).collect()
}

#[test]
fn every_code_is_documented() {
    let page = read("../../docs/formats/fat.md");
    let section = page.split("## What the check finds").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap());
    // Of several in a row that begin alike, the later ones leave the beginning out.
    let code = |word: &str| match word.strip_prefix('-') {
        Some(rest) => format!("long-name-{rest}"),
        None => word.to_owned(),
    };
    let documented: BTreeSet<String> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(code)).collect();
    assert_eq!(documented, codes());
}

#[test]
fn every_code_is_in_a_test() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    // Those of this base's own files are tested where these are made.
    let folders = ["fat_tools", "fat"].map(|name| std::fs::read_dir(tests.join(name)).unwrap());
    let files = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect();
    let tests: String = files.iter().map(read).collect();
    let untested: Vec<String> = codes().into_iter().filter(|code| !tests.contains(&format!("\"{code}\""))).collect();
    assert!(untested.is_empty(), "{untested:?}");
}
