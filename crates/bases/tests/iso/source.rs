//! Source trees of images, on the file system of this machine.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps};

/// Time stamps of objects, in seconds: what a directory record can express.
const TIMES: [i64; 4] = [0, 951_782_399, 1_700_000_000, 4_000_000_000];

/// Creates objects of all kinds, with all kinds of attributes. Without root, those that need it are left out.
pub(crate) fn kinds(root: &Path) {
    fs::create_dir_all(root.join("directory/inner")).unwrap();
    file(&root.join("empty"), 0);
    file(&root.join("one byte"), 1);
    file(&root.join("one block"), 2048);
    file(&root.join("several blocks"), 70_001);
    file(&root.join("directory/UPPER.TXT"), 10);
    file(&root.join("directory/inner/Grüße"), 11);
    symlink("one byte", root.join("link")).unwrap();
    symlink("/absolute/../path/./to", root.join("directory/absolute")).unwrap();
    symlink("../a//b/.../c", root.join("directory/odd")).unwrap();
    symlink("/", root.join("directory/root")).unwrap();
    fs::hard_link(root.join("one block"), root.join("directory/hard link")).unwrap();
    rustix::fs::mknodat(CWD, root.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
    rustix::fs::mknodat(CWD, root.join("socket"), FileType::Socket, Mode::from_raw_mode(0o755), 0).unwrap();
    if rustix::process::geteuid().is_root() {
        for (name, kind, major, minor) in [
            ("character", FileType::CharacterDevice, 1, 3),
            ("block", FileType::BlockDevice, 259, 70_000),
            ("whiteout", FileType::CharacterDevice, 0, 0),
        ] {
            let device = rustix::fs::makedev(major, minor);
            rustix::fs::mknodat(CWD, root.join(name), kind, Mode::from_raw_mode(0o600), device).unwrap();
        }
        let (uid, gid) = (rustix::fs::Uid::from_raw(70_000), rustix::fs::Gid::from_raw(4_000_000_000));
        rustix::fs::chownat(CWD, root.join("one byte"), Some(uid), Some(gid), AtFlags::empty()).unwrap();
    }
    for (name, mode) in [("one byte", 0o4711), ("one block", 0o400), ("empty", 0o2777), ("directory", 0o1750)] {
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    set_times(root);
}

/// Creates directories deeper than ISO 9660 allows, with a file in each.
pub(crate) fn deep(root: &Path, depth: usize) {
    let mut path = root.to_path_buf();
    for level in 1..=depth {
        path.push(format!("level {level}"));
        fs::create_dir_all(&path).unwrap();
        file(&path.join("file"), level);
    }
    fs::create_dir_all(root.join("level 1/level 2/level 3/level 4/level 5/level 6/level 7/other/empty")).unwrap();
    set_times(root);
}

/// Creates objects whose names and targets do not fit into a directory record.
pub(crate) fn long(root: &Path, target_parts: usize) {
    fs::create_dir_all(root).unwrap();
    for length in [150, 200, 254, 255] {
        file(&root.join("n".repeat(length)), length);
    }
    let umlauts = "ü".repeat(127);
    fs::create_dir(root.join(&umlauts)).unwrap();
    file(&root.join(umlauts).join("inside"), 5);
    let target = vec!["t".repeat(40); target_parts].join("/");
    symlink(target, root.join("a link with a long target")).unwrap();
    symlink("x".repeat(250), root.join("a link with a long component")).unwrap();
    set_times(root);
}

/// Creates a directory with many files.
pub(crate) fn many(root: &Path, count: usize) {
    fs::create_dir_all(root).unwrap();
    for number in 0..count {
        file(&root.join(format!("a file with number {number}")), number % 7);
    }
    set_times(root);
}

/// Creates a file whose contents are different in every place.
pub(crate) fn file(path: &Path, length: usize) {
    let contents: Vec<u8> = (0..length).map(|at| ((at * 7 + length) ^ at >> 8) as u8).collect();
    fs::write(path, contents).unwrap();
}

/// Sets the times of everything below a directory, and of itself.
fn set_times(root: &Path) {
    let mut number = 0;
    let mut pending = vec![root.to_path_buf()];
    while let Some(path) = pending.pop() {
        if path.symlink_metadata().unwrap().is_dir() {
            pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let time = Timespec { tv_sec: TIMES[number % TIMES.len()], tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        number += 1;
    }
}
