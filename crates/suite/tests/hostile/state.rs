//! Everything that root can see of a directory of objects, except for inode numbers and the exact times.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::calls::PAST_SECONDS;

/// Suffix of the line of an object whose change time is different.
pub(crate) const CHANGED: &str = " changed";

/// The state of a directory and everything below it: each object by its name.
#[derive(PartialEq, Eq)]
pub(crate) struct DirectoryState(BTreeMap<String, ObjectState>);

/// The visible state of an object.
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
    /// Returns the current state. All times are queried before anything is read, since reading may change them.
    pub(crate) fn of(directory: &Path) -> Self {
        let mut objects = BTreeMap::new();
        collect(directory, ".", &mut objects);
        let seen =
            |(name, (path, status)): (String, (PathBuf, Option<fs::Metadata>))| (name, ObjectState::of(&path, status));
        Self(objects.into_iter().map(seen).collect())
    }

    /// Returns one line per object: its visible state, and which of these times differ from those before.
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

/// The timestamps that are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComparedTimes {
    None,
    Modification,
    /// The change time as well.
    All,
}

/// Returns whether a file system gives each change a distinct timestamp once the previous one was queried, as ext4
/// does since Linux 6.13. Before that, two changes within a clock tick get the same one.
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

/// Collects the objects in a directory: paths and status by name.
fn collect(path: &Path, name: &str, objects: &mut BTreeMap<String, (PathBuf, Option<fs::Metadata>)>) {
    let status = fs::symlink_metadata(path).ok();
    let is_directory = status.as_ref().is_some_and(fs::Metadata::is_dir);
    objects.insert(name.to_owned(), (path.to_owned(), status));
    if is_directory {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            collect(&entry.path(), &format!("{name}/{}", entry.file_name().display()), objects);
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

fn describe(path: &Path, status: &fs::Metadata) -> ObjectState {
    let kind = status.file_type();
    let what = if kind.is_file() {
        let data = fs::read(path).map(|data| String::from_utf8_lossy(&data).into_owned());
        format!("{:?}", data.map_err(|error| error.kind()))
    } else if kind.is_symlink() {
        format!("to {:?}", fs::read_link(path))
    } else if kind.is_char_device() || kind.is_block_device() {
        format!("device {:x}", status.rdev())
    } else {
        String::new()
    };
    let links = if kind.is_dir() { 0 } else { status.nlink() };
    let set = |seconds, which| if seconds == PAST_SECONDS { which } else { "" };
    let text = format!(
        "{:o} {}:{} {links} names {} {what}{}{}",
        status.mode(),
        status.uid(),
        status.gid(),
        attributes(path),
        set(status.atime(), " atime set"),
        set(status.mtime(), " mtime set"),
    );
    let time = |seconds: i64, nanoseconds: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    ObjectState {
        text,
        inode: status.ino(),
        modified: time(status.mtime(), status.mtime_nsec()),
        changed: time(status.ctime(), status.ctime_nsec()),
    }
}

/// Returns the extended attributes, including access control lists and capabilities.
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
