//! Images for the tests, and runs of the tools on them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Run, Scratch, finish, plyfs};

/// An image with clusters of a sector, and where its regions are.
pub(crate) struct Image {
    pub(crate) scratch: Scratch,
    /// Its path.
    pub(crate) name: String,
    /// What mkfs has reported.
    pub(crate) report: Value,
}

/// Runs `plyfs fat` with these words.
pub(crate) fn fat(words: &[&str]) -> Run {
    finish(plyfs().arg("fat").args(words).stdin(Stdio::null()).output())
}

/// Runs `plyfs fat` on a terminal, on which these lines are entered. Returns the exit code and all that the terminal shows; `None` if
/// script(1) is not installed.
pub(crate) fn fat_on_terminal(words: &[&str], lines: &str) -> Option<(i32, String)> {
    let quoted = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let command = format!("{} fat {}", quoted(env!("CARGO_BIN_EXE_plyfs")), words.join(" "));
    let started = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut running) = started else {
        eprintln!("skipped: script(1) is not installed");
        return None;
    };
    std::io::Write::write_all(running.stdin.as_mut().unwrap(), lines.as_bytes()).unwrap();
    // The input stays open: its end would be one of the terminal.
    let input = running.stdin.take();
    let output = running.wait_with_output().unwrap();
    drop(input);
    Some((output.status.code().unwrap(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Returns what a tool prints with `--json`, whatever its exit code.
pub(crate) fn json(words: &[&str]) -> Value {
    let ran = fat(&[words, &["--json"]].concat());
    serde_json::from_str(&ran.output).unwrap_or_else(|error| panic!("{words:?}: {error}: {ran:?}"))
}

/// Asserts that `fsck.fat -n` finds nothing, if it is installed.
pub(crate) fn assert_clean(path: impl AsRef<Path>) {
    let Ok(output) = Command::new("fsck.fat").arg("-n").arg(path.as_ref()).output() else {
        eprintln!("fsck.fat is not installed, so nothing is compared with it");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.lines().count() <= 2, "fsck.fat says:\n{text}");
}

impl Image {
    /// Returns an empty file system of 4 MiB with a width of 16 bits.
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        let name = scratch.name("image");
        let words = ["mkfs", "--size", "4m", "-F", "16", "-s", "1", "--no-align", "-i", "1234-ABCD", &name];
        let report = json(&words);
        assert_eq!((&report["width"], &report["reserved_sectors"]), (&16.into(), &1.into()), "{report}");
        Self { scratch, name, report }
    }

    /// Returns the image with `/a`, of 3,000 bytes, and `/d/b`, of 1,000, in the first clusters.
    pub(crate) fn with_files() -> Self {
        let image = Self::new();
        for (name, length) in [("a", 3000), ("b", 1000)] {
            fs::write(image.scratch.path(name), name.repeat(length)).unwrap();
        }
        let commands = format!("put {0}/a /a\nmkdir /d\nput {0}/b /d/b\n", image.scratch.name(""));
        image.shell(&commands);
        fat(&["fsck", "-n", &image.name]).succeeded();
        image
    }

    /// Works in the file system as `plyfs shell` does, and returns what is printed.
    pub(crate) fn shell(&self, commands: &str) -> String {
        // A journal would take clusters.
        let stack = format!("fat:{}(journal=no)", self.name);
        finish(plyfs().args(["shell", &stack, "-c", commands]).stdin(Stdio::null()).output()).succeeded()
    }

    /// Returns the first cluster of a file.
    pub(crate) fn first_cluster(&self, path: &str) -> u64 {
        let dump = json(&["dump", "--chain", path, &self.name]);
        let rows = dump["chain"].as_array().unwrap();
        let run = rows.iter().find(|row| row["value"].as_str().unwrap().starts_with("from byte")).unwrap();
        run["name"].as_str().unwrap().split('-').next().unwrap().parse().unwrap()
    }

    /// Sets the entry of a cluster in all tables.
    pub(crate) fn set_link(&self, cluster: u64, link: u16) {
        let table_size = self.report["fat_sectors"].as_u64().unwrap() * 512;
        for table in 0..2 {
            self.write(512 + table * table_size + cluster * 2, &link.to_le_bytes());
        }
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) {
        File::options().write(true).open(&self.name).unwrap().write_all_at(bytes, offset).unwrap();
    }

    pub(crate) fn contents(&self) -> Vec<u8> {
        fs::read(&self.name).unwrap()
    }

    /// Returns the codes of what a check finds.
    pub(crate) fn problems(&self) -> Vec<String> {
        let report = json(&["fsck", "-n", &self.name]);
        report["counts"].as_object().unwrap().keys().cloned().collect()
    }
}
