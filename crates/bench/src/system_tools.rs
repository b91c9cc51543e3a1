//! Programs of the system that the harness calls for itself: mkfs, mount, losetup.
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a program to its end, and returns what it printed.
pub(crate) fn run_quietly(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {name}: run scripts/bench-setup"))?;
    if !output.status.success() {
        bail!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns whether that path, or a name that is looked for in `PATH`, is a program.
pub(crate) fn is_program(program: &Path) -> bool {
    if program.components().count() > 1 {
        return program.is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Returns the line with the version that a program prints with these arguments, if it can be run; rather one with `name`.
pub(crate) fn reported_version(program: &Path, arguments: &[&str], name: &str) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    let text =
        String::from_utf8_lossy(if output.stdout.is_empty() { &output.stderr } else { &output.stdout }).into_owned();
    let has_digits = |line: &&str| line.contains(|character: char| character.is_ascii_digit());
    // Some programs report the versions of their helpers first.
    let own = text.lines().filter(has_digits).find(|line| line.contains(name));
    let line = own.or_else(|| text.lines().find(has_digits))?;
    Some(line.trim().replace(" version:", "").replace(": version", ""))
}

/// Returns the name and release of the kernel.
pub(crate) fn kernel_version() -> String {
    format!("Linux {}", rustix::system::uname().release().to_string_lossy())
}
