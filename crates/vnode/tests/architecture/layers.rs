//! The command line knows no layer and no base by its name: what it does for one, the layer or base brings itself.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::pages::files_below;

/// Words of layers besides their names, for which the command line has no code either.
const WORDS_OF_LAYERS: [&str; 2] = ["snapshot", "whiteout"];

/// The layer whose name is a common method, and the bases that examples in help texts have: a directory, and `mem`.
const AMBIGUOUS: [&str; 3] = ["map", "dir", "mem"];

/// The part of the command line that runs commands in forks, which `stack::fork` offers.
const FORKS: &str = "commands/run/";

#[test]
fn the_command_line_names_no_layer_and_no_base() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let layers = words_of_layers(&crates.join("layers/src"));
    assert!(layers.contains("union") && layers.contains("audit"), "{layers:?}");
    let mut words = &layers | &names_of_kinds(&crates.join("bases/src"));
    assert!(AMBIGUOUS.iter().all(|name| words.remove(*name)), "{words:?}");
    let root = crates.join("cli/src");
    let mut named = Vec::new();
    for path in files_below(&root, "rs") {
        let file = path.strip_prefix(&root).unwrap().display().to_string();
        if file.starts_with(FORKS) || file.ends_with("/tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in code(&text) {
            let found = words_of(line).into_iter().find(|word| words.contains(word.trim_end_matches('s')));
            let found = found.or(line.contains("stack::fork").then(|| "stack::fork".to_owned()));
            named.extend(found.map(|word| format!("cli/src/{file}:{number}: {word}")));
        }
    }
    assert!(named.is_empty(), "names of layers and bases in the command line:\n{}", named.join("\n"));
}

/// Returns the names of the layers, by their modules, and the other words that are about one layer.
fn words_of_layers(sources: &Path) -> BTreeSet<String> {
    names_of_kinds(sources).into_iter().chain(WORDS_OF_LAYERS.map(str::to_owned)).collect()
}

/// Returns the names of the modules that are layers or bases.
fn names_of_kinds(sources: &Path) -> BTreeSet<String> {
    let modules = fs::read_dir(sources).unwrap().map(|entry| entry.unwrap().path());
    let is_kind = |path: &Path| fs::read_to_string(path.join("mod.rs")).is_ok_and(|text| text.contains("const KIND"));
    modules.filter(|path| is_kind(path)).map(|path| path.file_name().unwrap().display().to_string()).collect()
}

/// Returns the lines of a source, with their numbers, without comments and what is for tests only.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let lines = text[..end].lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Returns the words of a line, also those that names are made of, in lower case.
fn words_of(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut follows_small = false;
    for character in line.chars() {
        if !character.is_ascii_alphanumeric() || character.is_ascii_uppercase() && follows_small {
            words.push(String::new());
        }
        follows_small = character.is_ascii_lowercase() || character.is_ascii_digit();
        words.last_mut().unwrap().extend(character.is_ascii_alphanumeric().then(|| character.to_ascii_lowercase()));
    }
    words
}

#[test]
fn words_are_found_in_names_and_text() {
    let words = words_of(r#"UnionList::of(query_union, "the unions of rot13")"#);
    let found: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    assert_eq!(found, ["union", "list", "of", "query", "union", "the", "unions", "of", "rot13"]);
}
