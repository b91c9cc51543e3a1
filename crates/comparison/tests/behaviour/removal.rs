//! The samples that keep what is removed or replaced: trashfs, keepfs and versionfs.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::{Mounting, TestDirectories, error, names};

/// Trashfs renames what is deleted.
pub(crate) fn trashfs(mounting: Mounting<'_>) {
    let directories = TestDirectories::new();
    let _mounted = mounting(&directories);
    let mount = directories.mount();
    fs::write(mount.join("file"), "kept").unwrap();
    assert!(!mount.join("file.deleted").exists());
    fs::remove_file(mount.join("file")).unwrap();
    assert_eq!(names(&mount), ["file.deleted"]);
    assert_eq!(names(&directories.base()), ["file.deleted"]);
    assert_eq!(fs::read_to_string(mount.join("file.deleted")).unwrap(), "kept");
    fs::remove_file(mount.join("file.deleted")).unwrap();
    assert_eq!(names(&mount), [""; 0]);
    assert_eq!(error(fs::remove_file(mount.join("file"))), libc::ENOENT);
}

/// Keepfs copies what is deleted.
pub(crate) fn keepfs(mounting: Mounting<'_>) {
    let directories = TestDirectories::new();
    let _mounted = mounting(&directories);
    let mount = directories.mount();
    fs::write(mount.join("file"), "content").unwrap();
    fs::remove_file(mount.join("file")).unwrap();
    assert_eq!(names(&mount), [".kept.file"]);
    assert_eq!(fs::read_to_string(mount.join(".kept.file")).unwrap(), "content");
    // What cannot be copied is not deleted.
    let long = mount.join("x".repeat(255));
    fs::write(&long, "").unwrap();
    assert_eq!(error(fs::remove_file(&long)), libc::ENAMETOOLONG);
    assert_eq!(names(&mount).len(), 2);
    // Of what has a dot in front there is no copy.
    fs::remove_file(mount.join(".kept.file")).unwrap();
    assert_eq!(names(&mount), ["x".repeat(255)]);
}

/// Versionfs, mounted to keep 2, keeps the last versions.
pub(crate) fn versionfs(mounting: Mounting<'_>) {
    let directories = TestDirectories::new();
    let _mounted = mounting(&directories);
    let mount = directories.mount();
    for text in ["one", "two", "three", "four"] {
        fs::write(mount.join("file"), text).unwrap();
    }
    assert_eq!(names(&mount), ["file", "file.~1~", "file.~2~"]);
    let read = |name: &str| fs::read_to_string(mount.join(name)).unwrap();
    assert_eq!((read("file"), read("file.~1~"), read("file.~2~")), ("four".into(), "three".into(), "two".into()));
    // As editors write: a new file takes the directories of the old.
    fs::write(mount.join("new"), "five").unwrap();
    fs::rename(mount.join("new"), mount.join("file")).unwrap();
    assert_eq!((read("file"), read("file.~1~"), read("file.~2~")), ("five".into(), "four".into(), "three".into()));
    let mode = |name: &str| fs::metadata(mount.join(name)).unwrap().mode() & 0o777;
    assert_eq!(mode("file.~1~"), mode("file"));
    // Versions have no versions.
    fs::write(mount.join("file.~2~"), "changed").unwrap();
    assert_eq!(names(&mount), ["file", "file.~1~", "file.~2~"]);
}
