//! A crate outside of the workspace, with a layer and two programs as docs/library.md shows them, is the whole command with that
//! layer, its command and its base.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::can_mount;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/library.md"));

/// A program with a layer whose command has the name of one of plyfs.
const COLLISION: &str = r#"
use plyfs_cli::{clap, command::MemberCommand};

const STATUS: MemberCommand =
    MemberCommand { name: "status", command: || clap::Command::new("status"), run: |_, host| host.print("mine") };

fn main() -> std::process::ExitCode {
    plyfs_cli::main_with(plyfs_cli::Registry::default().with_layer(mylayer::KIND.with_commands(&[STATUS])))
}
"#;

/// Returns the first block of the page after a line, and after the line that opens the block.
fn block(after: &str, opening: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(after).unwrap_or_else(|| panic!("the page has no {after}"));
    let (_, rest) = rest.split_once(&format!("```{opening}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// Writes the crate of the page into a directory, with paths to the crates of this workspace, builds it, and returns the directory
/// of its programs.
fn build(directory: &Path) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let path = |name: &str| workspace.join("crates").join(name).display().to_string();
    let dependencies = block("After `cargo new mylayer`", "toml");
    // As the workspace builds what others have written: most of that is there already.
    let manifest = format!(
        "[package]\nname = \"mylayer\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n{dependencies}\n\
         [patch.crates-io]\nplyfs = {{ path = {:?} }}\nplyfs-cli = {{ path = {:?} }}\n\n[profile.dev]\ndebug = false\n",
        path("plyfs"),
        path("cli"),
    );
    fs::write(directory.join("Cargo.toml"), manifest).unwrap();
    // The versions that are there.
    fs::copy(workspace.join("Cargo.lock"), directory.join("Cargo.lock")).unwrap();
    fs::create_dir_all(directory.join("src/bin")).unwrap();
    fs::write(directory.join("src/lib.rs"), block("`src/lib.rs`", "rust")).unwrap();
    fs::write(directory.join("src/main.rs"), block("`src/main.rs`", "rs")).unwrap();
    fs::write(directory.join("src/bin/mylogs.rs"), block("The program `mylogs`", "rs")).unwrap();
    fs::write(directory.join("src/bin/collision.rs"), COLLISION).unwrap();
    let target = Path::new(env!("CARGO_BIN_EXE_plyfs")).parent().unwrap().parent().unwrap();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--offline", "--quiet", "--target-dir"]).arg(target).current_dir(directory);
    let built = cargo.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    target.join("debug")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn programs_outside_have_layers_commands_and_bases_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let programs = build(directory.path());
    a_program_of_five_lines_is_the_command_with_its_layer(&programs.join("mylayer"), directory.path());
    layers_bring_commands_and_programs_bases(&programs.join("mylogs"), directory.path());
    let refused = Command::new(programs.join("collision")).arg("status").output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&refused.stderr),
        "plyfs: the command 'status' of the layer 'logonly' is also a command of plyfs; rename the command in one of them, or \
         register only one\n"
    );
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
}

fn a_program_of_five_lines_is_the_command_with_its_layer(program: &Path, directory: &Path) {
    let run = |words: &[&str]| Command::new(program).args(words).output().unwrap();
    assert!(stdout(&run(&["explain", "mem: | logonly(delete=yes)"])).contains("logonly"));
    let shell = run(&["shell", "mem: | logonly", "-c", "write file one; append file two; cat file; rm file"]);
    assert!(String::from_utf8_lossy(&shell.stderr).contains("rm: file: Operation not permitted (EPERM)"), "{shell:?}");
    let wrong = run(&["explain", "mem: | logonyl"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("did you mean 'logonly'?"), "{wrong:?}");
    let option = run(&["explain", "mem: | logonly(forever=yes)"]);
    assert!(String::from_utf8_lossy(&option.stderr).contains("`logonly` has no option `forever`"), "{option:?}");
    let described = stdout(&run(&["layers", "logonly"]));
    assert!(
        PAGE.contains(&format!("$ cargo run -- layers logonly\n{described}$ ")),
        "the page differs from:\n{described}"
    );
    if !can_mount() {
        return;
    }
    let mount = directory.join("mount");
    fs::create_dir(&mount).unwrap();
    let mount_point = mount.to_str().unwrap();
    stdout(&run(&["mount", "mem: | logonly", mount_point]));
    fs::write(mount.join("file"), "one").unwrap();
    assert_eq!(fs::write(mount.join("file"), "two").unwrap_err().raw_os_error(), Some(libc::EPERM));
    assert_eq!(fs::read_to_string(mount.join("file")).unwrap(), "one");
    assert!(stdout(&run(&["status", mount_point])).contains("logonly"));
    stdout(&run(&["umount", mount_point]));
}

fn layers_bring_commands_and_programs_bases(program: &Path, directory: &Path) {
    let run = |words: &[&str]| Command::new(program).args(words).output().unwrap();
    assert!(stdout(&run(&["--help"])).contains("refusals     Print the number of operations that logonly has refused"));
    assert!(stdout(&run(&["refusals", "--help"])).contains("Usage: mylogs refusals <MOUNTPOINT>"));
    let missing = run(&["refusals"]);
    let message = String::from_utf8_lossy(&missing.stderr);
    assert_eq!(missing.status.code(), Some(2), "{message}");
    assert!(
        message.starts_with("plyfs: the following required arguments were not provided: <MOUNTPOINT>; "),
        "{message}"
    );
    assert_eq!(stdout(&run(&["shell", "file:notes", "-c", "ls"])), "notes\n");
    let wrong = run(&["explain", "flie:notes"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("did you mean 'file'?"), "{wrong:?}");
    let invalid = run(&["explain", "file:.."]);
    assert!(String::from_utf8_lossy(&invalid.stderr).contains("column 6: invalid name of a file: "), "{invalid:?}");
    let nowhere = run(&["refusals", directory.to_str().unwrap()]);
    assert_eq!(nowhere.status.code(), Some(11), "{nowhere:?}");
    if !can_mount() {
        return;
    }
    let mount = directory.join("logs");
    fs::create_dir(&mount).unwrap();
    let mount_point = mount.to_str().unwrap();
    stdout(&run(&["mount", "file:notes | logonly", mount_point]));
    assert_eq!(fs::remove_file(mount.join("notes")).unwrap_err().raw_os_error(), Some(libc::EPERM));
    assert_eq!(stdout(&run(&["refusals", mount_point])), "1\n");
    let unknown = run(&["control", mount_point, "logonly", "refusal"]);
    let message = String::from_utf8_lossy(&unknown.stderr);
    assert!(message.ends_with("`logonly` has no command `refusal`; to list them: plyfs layers logonly\n"), "{message}");
    stdout(&run(&["umount", mount_point]));
}
