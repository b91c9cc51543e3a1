//! Runs a test of this program in a guest with another kernel.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Set in the guest.
const IS_GUEST: &str = "PLYFS_IN_GUEST";

/// Returns the path of a script of the project.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(name)
}

/// Returns whether guests can be started; says so if not, since the test is then skipped.
pub(crate) fn exists() -> bool {
    let is_there = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join("linux.uml").exists()));
    if !is_there {
        println!("skipped: there is no User-Mode Linux (scripts/setup guest)");
    }
    is_there
}

/// Runs the test of this name, which calls this, in a guest: there it is `test`.
pub(crate) fn run_there(name: &str, test: fn()) {
    if std::env::var_os(IS_GUEST).is_some() {
        return test();
    }
    if !exists() {
        return;
    }
    let run = Command::new(script("guest"))
        .arg(std::env::current_exe().expect("the program has a path"))
        .args(["--exact", name, "--nocapture"])
        .env(IS_GUEST, "1")
        .env("GUEST_SECONDS", "400")
        .env("GUEST_MEMORY", "1G")
        .env("GUEST_DISK", "1G")
        .output()
        .expect("the guest is started");
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && said.contains("1 passed"), "in the guest: {}\n{said}", run.status);
}

/// Has the kernel have these modules; built in, they are there.
pub(crate) fn load(modules: &[&str]) {
    command(Command::new("modprobe").arg("--all").args(modules));
}

/// Runs a command that must succeed.
pub(crate) fn command(command: &mut Command) {
    let run = command.output().expect("the program starts");
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{command:?}: {}: {errors}", run.status);
}
