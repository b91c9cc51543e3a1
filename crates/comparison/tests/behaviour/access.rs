//! The samples that decide, or tell, who reaches what: snoopfs, aclfs and hidefs.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{Mounting, TestDirectories, USER, as_user, error, names, set, wait_until};

/// Snoopfs tells of users who reach for files of others, with the user's number and the file's name in one line of
/// [`TestDirectories::log`].
pub(crate) fn snoopfs(mounting: Mounting<'_>) {
    let directories = TestDirectories::new();
    let _mounted = mounting(&directories);
    let (mount, log) = (directories.mount(), directories.log());
    fs::create_dir(mount.join("private")).unwrap();
    fs::set_permissions(mount.join("private"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(mount.join("private/secrets"), "secret").unwrap();
    assert_eq!(as_user(&format!("cat {}/private/secrets", mount.display())), None);
    wait_until("snoopfs tells of it", || {
        let log = fs::read_to_string(&log).unwrap_or_default();
        log.lines().any(|line| line.contains(&format!("uid {USER},")) && line.contains("secrets"))
    });
    assert_eq!(fs::read_to_string(mount.join("private/secrets")).unwrap(), "secret");
}

/// Aclfs lets one more user, or group, search a directory: their numbers, as two `int`, are data of an ioctl, which only
/// the owner may do, and are kept in the directory's file `.acl`, which nobody else sees.
pub(crate) fn aclfs(mounting: Mounting<'_>) {
    let directories = TestDirectories::new();
    let mounted = mounting(&directories);
    let private = directories.mount().join("private");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(private.join("file"), "for friends").unwrap();
    fs::set_permissions(private.join("file"), fs::Permissions::from_mode(0o644)).unwrap();
    let read = format!("cat {}/file", private.display());
    assert_eq!(as_user(&read), None);
    assert_eq!(as_user(&format!("ls {}/.acl", private.display())), None);
    let data = [USER.to_ne_bytes(), USER.to_ne_bytes()].concat();
    set(&private, &data).unwrap();
    assert_eq!(as_user(&read).as_deref(), Some("for friends"));
    assert_eq!(names(&private), ["file"], "the list of users is hidden");
    assert_eq!(as_user(&format!("cat {}/.acl", private.display())), None);
    drop(mounted);
    assert_eq!(fs::read(directories.base().join("private/.acl")).unwrap(), data);
}

/// Hidefs shows no names with dots in front and lets nobody change anything.
pub(crate) fn hidefs(mounting: Mounting<'_>) {
    let directories = TestDirectories::new();
    fs::write(directories.base().join(".hidden"), "").unwrap();
    fs::write(directories.base().join("shown"), "text").unwrap();
    let _mounted = mounting(&directories);
    let mount = directories.mount();
    assert_eq!(names(&mount), ["shown"]);
    assert!(!mount.join(".hidden").exists());
    assert_eq!(fs::read_to_string(mount.join("shown")).unwrap(), "text");
    assert_eq!(error(fs::write(mount.join("shown"), "")), libc::EROFS);
    assert_eq!(error(fs::write(mount.join("new"), "")), libc::EROFS);
    assert_eq!(error(fs::remove_file(mount.join("shown"))), libc::EROFS);
}
