//! A crate outside of the workspace, with a layer and a program of five lines as docs/library.md shows them, is the whole command
//! with that layer.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::can_mount;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/library.md"));

/// Returns the first block of the page after a line, and after the line that opens the block.
fn block(after: &str, opening: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(after).unwrap_or_else(|| panic!("the page has no {after}"));
    let (_, rest) = rest.split_once(&format!("```{opening}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// Writes the crate of the page into a directory, with paths to the crates of this workspace, and builds it.
fn build(directory: &Path) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let path = |name: &str| workspace.join("crates").join(name).display().to_string();
    let dependencies = block("After `cargo new mylayer`", "toml");
    let manifest = format!(
        "[package]\nname = \"mylayer\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n{dependencies}\n\
         [patch.crates-io]\nplyfs = {{ path = {:?} }}\nplyfs-cli = {{ path = {:?} }}\n\n[profile.dev]\ndebug = \"line-tables-only\"\n",
        path("plyfs"),
        path("cli"),
    );
    fs::write(directory.join("Cargo.toml"), manifest).unwrap();
    // The versions that are there.
    fs::copy(workspace.join("Cargo.lock"), directory.join("Cargo.lock")).unwrap();
    fs::create_dir(directory.join("src")).unwrap();
    fs::write(directory.join("src/lib.rs"), block("`src/lib.rs`", "rust")).unwrap();
    fs::write(directory.join("src/main.rs"), block("`src/main.rs`", "rs")).unwrap();
    let target = Path::new(env!("CARGO_BIN_EXE_plyfs")).parent().unwrap().parent().unwrap();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--offline", "--quiet", "--target-dir"]).arg(target).current_dir(directory);
    let built = cargo.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    target.join("debug/mylayer")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_program_of_five_lines_is_the_command_with_a_layer_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let program = build(directory.path());
    let run = |words: &[&str]| Command::new(&program).args(words).output().unwrap();
    assert!(stdout(&run(&["explain", "mem: | logonly(delete=yes)"])).contains("logonly"));
    let shell = run(&["shell", "mem: | logonly", "-c", "write file one; append file two; cat file; rm file"]);
    assert!(String::from_utf8_lossy(&shell.stderr).contains("rm: file: Operation not permitted (EPERM)"), "{shell:?}");
    let wrong = run(&["explain", "mem: | logonyl"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("did you mean 'logonly'?"), "{wrong:?}");
    let option = run(&["explain", "mem: | logonly(forever=yes)"]);
    assert!(String::from_utf8_lossy(&option.stderr).contains("`logonly` has no option `forever`"), "{option:?}");
    if !can_mount() {
        return;
    }
    let mount = directory.path().join("mount");
    fs::create_dir(&mount).unwrap();
    let mount_point = mount.to_str().unwrap();
    stdout(&run(&["mount", "mem: | logonly", mount_point]));
    fs::write(mount.join("file"), "one").unwrap();
    assert_eq!(fs::write(mount.join("file"), "two").unwrap_err().raw_os_error(), Some(libc::EPERM));
    assert_eq!(fs::read_to_string(mount.join("file")).unwrap(), "one");
    assert!(stdout(&run(&["status", mount_point])).contains("logonly"));
    stdout(&run(&["umount", mount_point]));
}
