//! A mounted union of a new branch on a file system of some kind and of a directory that is only read.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;

use rustix::fs::{XattrFlags, setxattr};

use crate::file_system::{FileSystem, Kind, mount_lower};
use crate::support::{Run, Scratch, run, umount};

pub(crate) struct Scene {
    pub kind: Kind,
    // The file system goes before the directory that it is mounted in.
    _file_system: FileSystem,
    scratch: Scratch,
    upper: PathBuf,
}

impl Scene {
    pub(crate) fn new(kind: Kind) -> Self {
        let scratch = Scratch::new();
        let file_system = FileSystem::new(kind, &scratch);
        let upper = file_system.path.join("upper");
        fs::create_dir(&upper).expect("a branch is made");
        mount_lower(&scratch);
        fill(&scratch);
        let scene = Self { kind, _file_system: file_system, scratch, upper };
        scene.mount();
        scene
    }

    /// A path in the union.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path("mount").join(name)
    }

    /// A path in the branch that is written.
    pub(crate) fn upper(&self, name: &str) -> PathBuf {
        self.upper.join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{:?}: {name}: {error}", self.kind))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.path(name)).is_ok()
    }

    pub(crate) fn mount(&self) {
        run(["mount", &self.stack(), &self.scratch.name("mount")]).succeeded();
    }

    pub(crate) fn unmount(&self) {
        umount(&self.scratch.name("mount"));
    }

    pub(crate) fn check(&self, option: &str) -> Run {
        run(["union", "check", option, &self.stack()])
    }

    fn stack(&self) -> String {
        format!("{}=rw, {}=ro | union", self.upper.display(), self.scratch.name("lower"))
    }

    /// Each path with its kind, and its data or target.
    pub(crate) fn seen(&self) -> BTreeMap<PathBuf, (u32, String)> {
        let (mut seen, mut way) = (BTreeMap::new(), vec![self.scratch.path("mount")]);
        while let Some(directory) = way.pop() {
            for entry in fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display())) {
                let path = entry.expect("an entry is read").path();
                let metadata = fs::symlink_metadata(&path).expect("what is listed is there");
                let what = match metadata.mode() & 0o170_000 {
                    0o100_000 => fs::read_to_string(&path).expect("a file is read"),
                    0o120_000 => fs::read_link(&path).expect("a symlink is read").display().to_string(),
                    _ => String::new(),
                };
                if metadata.is_dir() {
                    way.push(path.clone());
                }
                seen.insert(path, (metadata.mode() & 0o170_000, what));
            }
        }
        seen
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = run(["umount", &self.scratch.name("mount")]);
        }
    }
}

/// Fills the branch that is only read.
fn fill(scratch: &Scratch) {
    let lower = scratch.path("lower");
    for path in [
        "dir/file",
        "dir/other",
        "dir/moved",
        "dir/deep/file",
        "a",
        "b",
        "gone",
        "full/x",
        "empty/x",
        "labelled",
        "linked",
        "Case",
        "case",
        "with: colon",
        "ends.",
        "secret",
        "of a user",
        "moving/x",
        "kept open",
        "ä ö/€ü",
    ] {
        let path = lower.join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("a directory is made");
        fs::write(&path, path.file_name().expect("it has one").as_encoded_bytes()).expect("a file is made");
    }
    fs::write(lower.join("l".repeat(251)), "long").expect("a file is made");
    fs::hard_link(lower.join("linked"), lower.join("linked too")).expect("a link is made");
    symlink("a", lower.join("symlink")).expect("a symlink is made");
    setxattr(lower.join("labelled"), "user.label", b"1", XattrFlags::empty()).expect("an attribute is set");
    for (path, mode) in [("secret", 0o600), ("of a user", 0o644)] {
        chown(lower.join(path), Some(1000), Some(1000)).expect("a file is given away");
        fs::set_permissions(lower.join(path), fs::Permissions::from_mode(mode)).expect("a mode is set");
    }
}
