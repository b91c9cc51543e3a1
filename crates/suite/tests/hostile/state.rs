//! All that root can see of a directory of objects, but for inode numbers and the exact times.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::calls::PAST_SECONDS;

/// Ends the line of an object whose time of change is another than it was.
pub(crate) const CHANGED: &str = " changed";

/// The state of a directory and all below it: each object by its name.
#[derive(PartialEq, Eq)]
pub(crate) struct DirectoryState(BTreeMap<String, ObjectState>);

/// What is seen of an object.
#[derive(PartialEq, Eq)]
struct ObjectState {
    /// Kind, mode, owner, number of names, extended attributes, data, and whether a call has set a time.
    text: String,
    inode: u64,
    /// Times of modification and of change, in nanoseconds.
    modified: i128,
    changed: i128,
}

impl DirectoryState {
    /// The state now. All times are looked at before anything is read, which may change them.
    pub(crate) fn of(directory: &Path) -> Self {
        let mut found = BTreeMap::new();
        collect(directory, ".", &mut found);
        let seen =
            |(name, (path, status)): (String, (PathBuf, Option<fs::Metadata>))| (name, ObjectState::of(&path, status));
        Self(found.into_iter().map(seen).collect())
    }

    /// A line for each object: what is seen of it, and which of these times are others than they were before.
    pub(crate) fn compared_to(&self, before: &Self, times: ComparedTimes) -> Vec<String> {
        let line = |(name, now): (&String, &ObjectState)| {
            let mut line = format!("{name}: {}", now.text);
            if let Some(before) = before.0.get(name).filter(|before| before.inode == now.inode) {
                let is_modified = times != ComparedTimes::None && before.modified != now.modified;
                let is_changed = times == ComparedTimes::All && before.changed != now.changed;
                line += if is_modified { " modified" } else { "" };
                line += if is_changed { CHANGED } else { "" };
            }
            line
        };
        self.0.iter().map(line).collect()
    }
}

/// The times that are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComparedTimes {
    None,
    Modification,
    /// That of the last change too.
    All,
}

/// Whether a file system notes another time for each change that somebody has looked at, as ext4 does from Linux 6.13 on. Before,
/// two changes within a tick of the clock have the same.
pub(crate) fn has_fine_timestamps(directory: &Path) -> std::io::Result<bool> {
    let path = directory.join("clock");
    fs::write(&path, b"")?;
    let mut seen = BTreeSet::new();
    for mode in 0..20 {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        let status = fs::symlink_metadata(&path)?;
        seen.insert((status.ctime(), status.ctime_nsec()));
    }
    fs::remove_file(&path)?;
    Ok(seen.len() == 20)
}

/// Finds what is in a directory: paths and status by name.
fn collect(path: &Path, name: &str, found: &mut BTreeMap<String, (PathBuf, Option<fs::Metadata>)>) {
    let status = fs::symlink_metadata(path).ok();
    let is_directory = status.as_ref().is_some_and(fs::Metadata::is_dir);
    found.insert(name.to_owned(), (path.to_owned(), status));
    if is_directory {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            collect(&entry.path(), &format!("{name}/{}", entry.file_name().display()), found);
        }
    }
}

impl ObjectState {
    fn of(path: &Path, status: Option<fs::Metadata>) -> Self {
        match status {
            Some(status) => describe(path, &status),
            None => Self { text: "gone".to_owned(), inode: 0, modified: 0, changed: 0 },
        }
    }
}

fn describe(path: &Path, found: &fs::Metadata) -> ObjectState {
    let kind = found.file_type();
    let what = if kind.is_file() {
        let data = fs::read(path).map(|data| String::from_utf8_lossy(&data).into_owned());
        format!("{:?}", data.map_err(|error| error.kind()))
    } else if kind.is_symlink() {
        format!("to {:?}", fs::read_link(path))
    } else if kind.is_char_device() || kind.is_block_device() {
        format!("device {:x}", found.rdev())
    } else {
        String::new()
    };
    let links = if kind.is_dir() { 0 } else { found.nlink() };
    let set = |seconds, which| if seconds == PAST_SECONDS { which } else { "" };
    let text = format!(
        "{:o} {}:{} {links} names {} {what}{}{}",
        found.mode(),
        found.uid(),
        found.gid(),
        attributes(path),
        set(found.atime(), " atime set"),
        set(found.mtime(), " mtime set"),
    );
    let time = |seconds: i64, nanoseconds: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    ObjectState {
        text,
        inode: found.ino(),
        modified: time(found.mtime(), found.mtime_nsec()),
        changed: time(found.ctime(), found.ctime_nsec()),
    }
}

/// Extended attributes, lists and capabilities among them.
fn attributes(path: &Path) -> String {
    let mut list = vec![0; 4096];
    let Ok(length) = rustix::fs::llistxattr(path, &mut list[..]) else { return "[]".to_owned() };
    let mut names: Vec<_> = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
    names.sort();
    let value = |name: &[u8]| {
        let mut value = vec![0; 4096];
        let length = rustix::fs::lgetxattr(path, name, &mut value[..]);
        format!("{}={:02x?}", String::from_utf8_lossy(name), length.map(|length| value[..length].to_vec()))
    };
    format!("{:?}", names.into_iter().map(value).collect::<Vec<_>>())
}
