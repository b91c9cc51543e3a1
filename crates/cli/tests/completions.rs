//! Completion in bash, on a pseudo-terminal: what a person gets for a tab.

mod support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use support::{Scratch, can_mount, run, umount, wait_until};

/// Types into an interactive bash with the completion script, and returns the arguments with which `plyfs` is then called.
///
/// `plyfs` is a function that writes its arguments, one a line, so that nothing is executed.
fn typed(scratch: &Scratch, text: &str) -> Vec<String> {
    let (start, result) = (scratch.name("bashrc"), scratch.path("arguments"));
    let programs = Path::new(env!("CARGO_BIN_EXE_plyfs-tools")).parent().unwrap().display();
    let script = run(["completions", "bash"]).succeeded();
    let setup = format!(
        "PATH={programs}:$PATH\nPS1=\n{script}\nplyfs() {{ printf '%s\\n' \"$@\" >{0}.new; mv {0}.new {0}; }}\ntouch {1}\n",
        result.display(),
        scratch.name("ready")
    );
    fs::write(&start, setup).unwrap();
    let _ = fs::remove_file(&result);
    let shell = format!("bash --noprofile --rcfile {start} -i");
    let mut terminal = Command::new("script")
        .args(["--quiet", "--return", "--command", &shell, "/dev/null"])
        .env("TERM", "dumb")
        .env("HISTFILE", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("script(1) starts");
    wait_until("bash is ready", || scratch.path("ready").exists());
    let mut keys = terminal.stdin.take().unwrap();
    // Readline reads what follows a tab only after the completion.
    keys.write_all(text.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    keys.write_all(b"\n").unwrap();
    wait_until("the command has been called", || result.exists());
    keys.write_all(b"exit\n").unwrap();
    drop(keys);
    assert!(terminal.wait().unwrap().success());
    fs::remove_file(scratch.path("ready")).unwrap();
    fs::read_to_string(result).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_layers_and_their_options() {
    let scratch = Scratch::new();
    assert_eq!(typed(&scratch, "plyfs log\t/mnt inf"), ["log-level", "/mnt", "inf"]);
    assert_eq!(typed(&scratch, "plyfs layers readonl\t"), ["layers", "readonly"]);
    // bash closes the quote after the only completion.
    assert_eq!(typed(&scratch, "plyfs explain \"mem: | readonl\t"), ["explain", "mem: | readonly"]);
    assert_eq!(
        typed(&scratch, "plyfs explain \"mem: | union(copyup=cur\t"),
        ["explain", "mem: | union(copyup=current"]
    );
    assert_eq!(
        typed(&scratch, "plyfs mount -o ro,nopass\t mem: /mnt"),
        ["mount", "-o", "ro,nopassthrough", "mem:", "/mnt"]
    );
}

#[test]
fn bash_completes_mount_points_of_plyfs() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = scratch.name("mount");
    run(["mount", "mem:", &mount]).succeeded();
    let beginning = &mount[..mount.len() - 2];
    assert_eq!(typed(&scratch, &format!("plyfs umount {beginning}\t")), ["umount", &mount]);
    umount(&mount);
}
