//! Who knows whom: the crates of the workspace depend on each other as ARCHITECTURE.md says, and no more.

use std::collections::{BTreeMap, BTreeSet};

use crate::metadata;

/// What each crate may depend on, of those in the workspace, by their folders. Tests may know more.
const ALLOWED: &[(&str, &[&str])] = &[
    ("procfs", &[]),
    ("vnode", &["procfs"]),
    ("bases", &["vnode", "procfs"]),
    ("fist", &[]),
    ("layers", &["vnode", "fist", "procfs"]),
    ("conformance", &["vnode"]),
    ("frontends", &["vnode", "procfs"]),
    ("stack", &["vnode", "bases", "fist", "layers"]),
    ("plyfs", &["vnode", "bases", "layers", "stack", "frontends", "procfs"]),
    ("cli", &["vnode", "stack", "frontends", "plyfs", "fist", "fist-server", "procfs"]),
    ("suite", &["vnode", "bases", "layers", "conformance", "frontends", "stack", "samples"]),
    ("bench", &["procfs"]),
    ("comparison", &["vnode"]),
    ("samples", &["vnode", "layers"]),
    ("fist-server", &["fist"]),
    ("image-fuzz", &["vnode", "bases"]),
    ("test-runner", &["procfs"]),
];

#[test]
fn crates_know_only_what_the_architecture_allows() {
    let packages = metadata::packages();
    let names: BTreeSet<&str> = packages.iter().map(|package| folder(package["name"].as_str().unwrap())).collect();
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        ALLOWED.iter().map(|(name, others)| (*name, others.iter().copied().collect())).collect();
    for package in &packages {
        let name = folder(package["name"].as_str().unwrap());
        let is_published = package["publish"].is_null();
        let has_prefix = package["name"].as_str().unwrap().starts_with("plyfs");
        assert_eq!(has_prefix, is_published, "{name}: names of published packages begin with plyfs, and no others do");
        let known: BTreeSet<&str> = package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
            .map(|dependency| folder(dependency["name"].as_str().unwrap()))
            .filter(|dependency| names.contains(dependency))
            .collect();
        let allowed = allowed.get(name).unwrap_or_else(|| panic!("the architecture does not know the crate {name}"));
        let surplus: Vec<_> = known.difference(allowed).collect();
        assert!(surplus.is_empty(), "{name} must not know {surplus:?}");
    }
}

/// Returns the folder of a package, after which its dependents name it.
fn folder(package: &str) -> &str {
    package.strip_prefix("plyfs-").unwrap_or(package)
}
