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
