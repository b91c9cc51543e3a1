//! No circle between source files: in each crate, the files that a file uses do not use that file in turn.

use crate::references::{self, Use};
use crate::source::Source;
use crate::{circles, metadata};

#[test]
fn no_circle_between_the_files_of_a_crate() {
    for root in roots() {
        let circles = circles::circles(&references::uses(&Source::read(&root)));
        let shown = circles.iter().map(|circle| describe(&root, circle)).collect::<Vec<_>>().join("\n");
        assert!(circles.is_empty(), "files in circles, with what closes them:\n\n{shown}");
    }
}

/// Returns the root files of all libraries and programs of the workspace.
fn roots() -> Vec<String> {
    let packages = metadata::packages();
    let targets = packages.iter().flat_map(|package| package["targets"].as_array().unwrap());
    targets
        .filter(|target| target["kind"].as_array().unwrap().iter().any(|kind| kind == "lib" || kind == "bin"))
        .map(|target| target["src_path"].as_str().unwrap().to_owned())
        .collect()
}

/// Describes a circle: its files, then each use between two of them.
fn describe(root: &str, circle: &[Use]) -> String {
    let folder = root.rsplit_once('/').unwrap().0;
    let mut lines: Vec<String> = circle
        .iter()
        .map(|each| {
            let file = |path: &str| path.strip_prefix(folder).unwrap_or(path).trim_start_matches('/').to_owned();
            let names: Vec<&str> = each.names.iter().map(String::as_str).collect();
            format!("    {} -> {}: {}", file(&each.from), file(&each.to), names.join(", "))
        })
        .collect();
    lines.insert(0, folder.to_owned());
    lines.join("\n") + "\n"
}
