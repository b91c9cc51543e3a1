//! The sample that lays directories out in another way: usenetfs.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{Mounting, TestDirectories, error, names};

/// Usenetfs breaks large directories into small ones.
pub(crate) fn usenetfs(mounting: Mounting<'_>) {
    let directories = TestDirectories::new();
    let _mounted = mounting(&directories);
    let (group, below) = (directories.mount().join("group"), directories.base().join("group"));
    fs::create_dir(&group).unwrap();
    fs::set_permissions(&group, fs::Permissions::from_mode(0o4755)).unwrap();
    for article in [7, 1007, 2007, 3123] {
        fs::write(group.join(article.to_string()), article.to_string()).unwrap();
    }
    fs::write(group.join("overview"), "text").unwrap();
    assert_eq!(names(&group), ["1007", "2007", "3123", "7", "overview"]);
    assert_eq!(names(&below), ["007", "123", "overview"]);
    assert_eq!(names(&below.join("007")), ["1007", "2007", "7"]);
    assert_eq!(fs::read_to_string(group.join("2007")).unwrap(), "2007");
    fs::remove_file(group.join("7")).unwrap();
    assert!(!group.join("7").exists() && names(&group).len() == 4);
    assert_eq!(error(fs::rename(group.join("1007"), group.join("8"))), libc::EXDEV);
    // A directory without the bit is as it was.
    fs::write(directories.mount().join("1"), "").unwrap();
    assert_eq!(names(&directories.base()), ["1", "group"]);
}
