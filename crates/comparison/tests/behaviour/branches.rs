//! The samples over two file systems: unionfs and lb2fs.

use std::fs;

use super::{Mounting, TestDirectories, error, names};

/// Unionfs joins two file systems: what the first has hides what the second has.
pub(crate) fn unionfs(mounting: Mounting<'_>) {
    let directories = TestDirectories::new();
    let (first, second, mount) = (directories.first(), directories.second(), directories.mount());
    for (directory, file, text) in [
        (&first, "both", "of the first"),
        (&second, "both", "of the second"),
        (&second, "lower", "lower"),
        (&first, "directory/one", "1"),
        (&second, "directory/two", "2"),
    ] {
        fs::create_dir_all(directory.join(file).parent().unwrap()).unwrap();
        fs::write(directory.join(file), text).unwrap();
    }
    let _mounted = mounting(&directories);
    let read = |name: &str| fs::read_to_string(mount.join(name)).unwrap();
    assert_eq!(names(&mount), ["both", "directory", "lower"]);
    assert_eq!(names(&mount.join("directory")), ["one", "two"]);
    assert_eq!((read("both"), read("lower")), ("of the first".into(), "lower".into()));
    assert_eq!((read("directory/one"), read("directory/two")), ("1".into(), "2".into()));
    // What is new is in the first.
    fs::write(mount.join("directory/new"), "new").unwrap();
    fs::create_dir(mount.join("empty")).unwrap();
    assert_eq!(fs::read_to_string(first.join("directory/new")).unwrap(), "new");
    assert!(first.join("empty").exists() && !second.join("empty").exists());
    fs::write(mount.join("both"), "changed").unwrap();
    assert_eq!(fs::read_to_string(first.join("both")).unwrap(), "changed");
    assert_eq!(fs::read_to_string(second.join("both")).unwrap(), "of the second");
    // What is deleted goes from both.
    fs::remove_file(mount.join("both")).unwrap();
    assert!(!mount.join("both").exists());
    assert!(!first.join("both").exists() && !second.join("both").exists());
    fs::remove_dir(mount.join("empty")).unwrap();
    fs::rename(mount.join("directory/one"), mount.join("directory/renamed")).unwrap();
    assert_eq!(names(&mount.join("directory")), ["new", "renamed", "two"]);
    // Writing goes to the first only, where this is not.
    assert_eq!(error(fs::write(mount.join("lower"), "")), libc::ENOENT);
    assert_eq!(read("lower"), "lower");
}

/// Lb2fs reads from both in turn, from the other where one has lost a file, and lets nobody change anything.
pub(crate) fn lb2fs(mounting: Mounting<'_>) {
    let directories = TestDirectories::new();
    for (directory, text) in [(directories.first(), "first"), (directories.second(), "second")] {
        fs::write(directory.join("file"), text).unwrap();
    }
    let mounted = mounting(&directories);
    let read = || fs::read(directories.mount().join("file")).unwrap().len();
    let mut served = [read(), read(), read(), read()];
    served.sort();
    assert_eq!(served, ["first", "first", "second", "second"].map(str::len));
    assert_eq!(error(fs::write(directories.mount().join("new"), "")), libc::EROFS);
    drop(mounted);
    fs::remove_file(directories.second().join("file")).unwrap();
    let _mounted = mounting(&directories);
    assert_eq!([read(), read()], ["first", "first"].map(str::len));
}
