//! What the samples promise, against users who want it otherwise: a test for each class of attack.

mod limits;
mod names;
mod seals;

use std::any::Any;
use std::path::PathBuf;

use super::behaviour::{TestDirectories, can_mount};

/// A sample that is mounted, until it is dropped.
struct Mounted {
    _mount: Box<dyn Any>,
    directories: TestDirectories,
}

impl Mounted {
    /// Mounts a sample; nothing where that cannot be done.
    fn new(sample: &str, option: &[(&str, &str)]) -> Option<Mounted> {
        can_mount().then(|| {
            let directories = TestDirectories::new();
            Mounted { _mount: super::mounted(&directories, sample, option), directories }
        })
    }

    /// A file of the mount.
    fn path(&self, name: &str) -> PathBuf {
        self.directories.mount().join(name)
    }

    /// A file below.
    fn below(&self, name: &str) -> PathBuf {
        self.directories.base().join(name)
    }

    /// What a shell prints in the mount as an unprivileged user, or `None` if it fails.
    fn user(&self, commands: &str) -> Option<String> {
        super::behaviour::as_user(&format!("cd {} && {{ {commands}; }}", self.directories.mount().display()))
    }
}
