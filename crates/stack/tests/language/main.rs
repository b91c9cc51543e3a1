//! What descriptions do, as the reference and the paper say it: on file systems in memory, in both tiers.

mod reload;

use std::path::PathBuf;

use stack::syntax;
use vnode::{Caller, Control, ControlError, FileSystemRef, Name, Result, VnodeRef};

/// How functions are run.
const TIERS: [&str; 2] = ["interpreted", "compiled"];

/// A description on file systems in memory.
struct Described {
    _directory: tempfile::TempDir,
    path: PathBuf,
    file_system: FileSystemRef,
    below: Vec<FileSystemRef>,
}

/// Puts a description that is called `name` on as many file systems in memory as it says, with these options.
fn described(name: &str, text: &str, options: &[(&str, &str)]) -> Described {
    let directory = tempfile::tempdir().expect("a directory is made");
    let path = directory.path().join(format!("{name}.fist"));
    std::fs::write(&path, text).expect("the description is written");
    let memory = syntax::parse("mem:").expect("an expression");
    let count = stack::fan_out(&path).unwrap_or_else(|error| panic!("{text}\n{}", error.problem));
    let below: Vec<_> = (0..count).map(|_| stack::build(&memory).expect("memory")).collect();
    let options: Vec<_> = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let file_system = stack::build_description(&path, &options, below.clone());
    let file_system = file_system.unwrap_or_else(|error| panic!("{text}\n{}", error.problem));
    Described { _directory: directory, path, file_system, below }
}

/// Does the same in each tier.
fn in_both_tiers(name: &str, text: &str, test: impl Fn(&Described)) {
    for tier in TIERS {
        test(&described(name, text, &[("tier", tier)]));
    }
}

/// A user with a group of the same number.
fn user(number: u32) -> Caller {
    Caller::with_groups(number, number, &[], 0o022)
}

fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).expect("a name")
}

impl Described {
    fn root(&self) -> VnodeRef {
        self.file_system.root()
    }

    fn mkdir(&self, at: &str) -> Result<()> {
        self.root().mkdir(&Caller::server(), name(at), 0o755).map(drop)
    }

    /// Writes another description to the file, and has the mount read it.
    fn reload(&self, text: &str) -> std::result::Result<String, ControlError> {
        std::fs::write(&self.path, text).expect("the description is written");
        let target = self.path.file_name().expect("a name").to_string_lossy().into_owned();
        self.file_system.control(&Control { target, command: "reload".to_owned(), arguments: Vec::new() })
    }
}
