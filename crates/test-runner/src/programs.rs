//! The test programs built by cargo, parsed from its messages.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Package and target, such as `layers union_crash`; unit tests are `layers lib`, and `bench bench` for those of a program.
    pub title: String,
    /// The file to run.
    pub executable: PathBuf,
    /// The package's directory, where cargo runs its tests.
    pub directory: PathBuf,
}

#[derive(Deserialize)]
struct CargoMessage {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<CargoTarget>,
    profile: Option<CargoProfile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct CargoTarget {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct CargoProfile {
    test: bool,
}

/// The last message of a build.
#[derive(Deserialize)]
struct BuildFinished {
    reason: String,
    success: bool,
}

/// Parses cargo's messages, one JSON object per line.
///
/// # Errors
/// Fails if the file cannot be read, names no test program, or is of a build that failed or was cut off.
pub(crate) fn read(messages: &Path) -> anyhow::Result<Vec<Program>> {
    let text = std::fs::read_to_string(messages)
        .with_context(|| format!("reading {}: build the tests first with `make test`", messages.display()))?;
    let is_whole = text.lines().any(|line| {
        serde_json::from_str::<BuildFinished>(line).is_ok_and(|end| end.reason == "build-finished" && end.success)
    });
    anyhow::ensure!(is_whole, "{} does not tell of a build that succeeded: run `make test`", messages.display());
    let mut programs: Vec<Program> = text.lines().filter_map(program).collect();
    programs.sort_by(|one, other| one.title.cmp(&other.title));
    anyhow::ensure!(!programs.is_empty(), "{} names no test program", messages.display());
    Ok(programs)
}

fn program(line: &str) -> Option<Program> {
    let message: CargoMessage = serde_json::from_str(line).ok()?;
    if message.reason != "compiler-artifact" || !message.profile?.test {
        return None;
    }
    let (target, executable) = (message.target?, message.executable?);
    let directory = message.manifest_path?.parent()?.to_owned();
    let package = directory.file_name()?.to_str()?.to_owned();
    let name = match target.kind.first().map(String::as_str) {
        Some("example") => return None,
        Some("lib") => "lib",
        _ => &target.name,
    };
    Some(Program { title: format!("{package} {name}"), executable, directory })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_distinguished_from_other_artifacts() {
        let line = |kind: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/layers/Cargo.toml","target":{{"name":"union_crash","kind":["{kind}"]}},"profile":{{"test":{test}}},"executable":"/w/target/debug/deps/union_crash-1"}}"#
            )
        };
        let title = |line: &str| program(line).map(|program| program.title);
        assert_eq!(title(&line("test", true)).as_deref(), Some("layers union_crash"));
        assert_eq!(title(&line("lib", true)).as_deref(), Some("layers lib"));
        assert_eq!(title(&line("bin", true)).as_deref(), Some("layers union_crash"));
        assert_eq!(title(&line("example", true)), None);
        assert_eq!(title(&line("test", false)), None);
        assert_eq!(title(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(title("warning: text"), None);
        assert_eq!(program(&line("test", true)).unwrap().directory, Path::new("/w/crates/layers"));
    }
}
