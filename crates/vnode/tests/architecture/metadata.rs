//! What cargo knows of the workspace.

use std::process::Command;

/// Returns the packages of the workspace, as `cargo metadata` describes them.
pub(crate) fn packages() -> Vec<serde_json::Value> {
    describe(&["--no-deps"])
}

/// Returns the packages of the workspace and all that they depend on.
pub(crate) fn packages_with_dependencies() -> Vec<serde_json::Value> {
    describe(&["--locked", "--filter-platform=x86_64-unknown-linux-gnu"])
}

fn describe(options: &[&str]) -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1"])
        .args(options)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}
