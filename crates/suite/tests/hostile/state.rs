//! All that can be seen of a directory of objects by root, a line an object, but for inode numbers and times of change.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// The state of a directory and all below it.
pub fn of(directory: &Path) -> String {
    let mut lines = Vec::new();
    describe(directory, ".", &mut lines);
    lines.join("\n")
}

fn describe(path: &Path, name: &str, lines: &mut Vec<String>) {
    let Ok(found) = fs::symlink_metadata(path) else {
        lines.push(format!("{name}: gone"));
        return;
    };
    let kind = found.file_type();
    let what = if kind.is_file() {
        format!(
            "{:?}",
            fs::read(path).map(|data| String::from_utf8_lossy(&data).into_owned()).map_err(|error| error.kind())
        )
    } else if kind.is_symlink() {
        format!("to {:?}", fs::read_link(path))
    } else if kind.is_char_device() || kind.is_block_device() {
        format!("device {:x}", found.rdev())
    } else {
        String::new()
    };
    let links = if kind.is_dir() { 0 } else { found.nlink() };
    lines.push(format!(
        "{name}: {:o} {}:{} {links} names {} {what}",
        found.mode(),
        found.uid(),
        found.gid(),
        attributes(path)
    ));
    if kind.is_dir() {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        for inner in names {
            describe(&path.join(&inner), &format!("{name}/{}", inner.display()), lines);
        }
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
