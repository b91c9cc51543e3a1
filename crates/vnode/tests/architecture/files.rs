//! No circle between source files: in each crate, the files that a file uses do not use that file in turn.
//!
//! `MODULES_SHOW=1 cargo test -p plyfs-vnode --test architecture -- --nocapture` prints every circle that there still is, with the uses that
//! close it.

use std::collections::BTreeSet;

use crate::references::{self, Use};
use crate::source::Source;
use crate::{circles, metadata};

/// Number of files in circles that are still to be opened, by crate. No crate gets more: what is opened is taken from here.
const STILL: &[(&str, usize)] = &[("layers", 42)];

#[test]
fn no_further_circle_between_the_files_of_a_crate() {
    for root in roots() {
        let circles = circles::circles(&references::uses(&Source::read(&root)));
        let files: BTreeSet<&str> = circles.iter().flatten().map(|each| each.from.as_str()).collect();
        let shown = circles.iter().map(|circle| describe(&root, circle)).collect::<Vec<_>>().join("\n");
        if std::env::var_os("MODULES_SHOW").is_some() {
            eprint!("{shown}");
        }
        let is_this = |name: &str| root.contains(&format!("/crates/{name}/src/"));
        let still = STILL.iter().find(|(name, _)| is_this(name)).map_or(0, |(_, count)| *count);
        assert_eq!(files.len(), still, "files in circles, with what closes them:\n\n{shown}");
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
