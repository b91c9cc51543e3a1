//! What is published can be packaged. The full tests also build each crate from its package alone.

use std::path::Path;
use std::process::Command;

use crate::metadata;

#[test]
fn published_crates_can_be_packaged() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("scripts/package"));
    command.args(["--no-verify", "--allow-dirty", "--offline"]).env("CARGO", env!("CARGO"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn published_crates_say_what_registries_show() {
    let packages = metadata::packages();
    let published: Vec<_> = packages.iter().filter(|package| package["publish"].is_null()).collect();
    assert!(!published.is_empty());
    for package in published {
        let name = &package["name"];
        for key in ["description", "license", "readme", "documentation"] {
            assert!(package[key].as_str().is_some_and(|text| !text.is_empty()), "{name} has no {key}");
        }
        for key in ["keywords", "categories"] {
            assert!(package[key].as_array().is_some_and(|words| !words.is_empty()), "{name} has no {key}");
        }
        // A path alone is of no use where the packages are.
        for dependency in package["dependencies"].as_array().unwrap().iter().filter(|each| each["kind"] != "dev") {
            assert_ne!(dependency["req"], "*", "{name} depends on {} of any version", dependency["name"]);
        }
    }
}

/// Returns the version of Rust that a package requires, if it says so.
fn rust_version(package: &serde_json::Value) -> Option<Vec<u32>> {
    let text = package["rust_version"].as_str()?;
    Some(text.split('.').map(|number| number.parse().unwrap()).collect())
}

#[test]
fn the_minimum_version_of_rust_is_the_lowest_that_the_dependencies_allow() {
    let packages = metadata::packages_with_dependencies();
    let (dependencies, own): (Vec<_>, Vec<_>) = packages.iter().partition(|package| package["source"].is_string());
    let needed = dependencies.iter().filter_map(|package| rust_version(package)).max().unwrap();
    for package in own.iter().filter(|package| package["publish"].is_null()) {
        let declared = rust_version(package).unwrap();
        assert_eq!(declared[..2], needed[..2], "{}: set rust-version in Cargo.toml", package["name"]);
    }
    let text = format!("({}.{} or later)", needed[0], needed[1]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for page in ["README.md", "CONTRIBUTING.md", "scripts/setup"] {
        let page_text = std::fs::read_to_string(root.join(page)).unwrap();
        assert!(page_text.contains(&text), "{page} does not say {text}");
    }
}
