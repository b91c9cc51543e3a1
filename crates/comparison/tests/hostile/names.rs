//! Samples that keep, hide or report names: trashfs, keepfs, versionfs, aclfs, snoopfs.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::super::behaviour::{USER, names};
use super::Mounted;

#[test]
fn nothing_takes_the_place_of_what_was_deleted() {
    let Some(mounted) = Mounted::new("trashfs", &[]) else { return };
    for (number, kept) in ["file.deleted", "file.1.deleted", "file.2.deleted"].into_iter().enumerate() {
        assert!(mounted.user(&format!("echo {number} > file && rm file")).is_some());
        assert_eq!(fs::read_to_string(mounted.below(kept)).unwrap(), format!("{number}\n"));
    }
    assert_eq!(fs::read_to_string(mounted.below("file.deleted")).unwrap(), "0\n");
    // Another name of the same file is no place for it: renaming would do nothing.
    assert!(mounted.user("echo both > one && ln one one.deleted && rm one").is_some());
    assert!(!mounted.path("one").exists() && mounted.path("one.1.deleted").exists());
    // At once.
    let racing =
        "for i in 1 2 3 4 5 6 7 8; do (mkdir d$i; echo $i > r$i; mv -n r$i race 2>/dev/null; rm -f race) & done; wait";
    mounted.user(racing);
    let kept: Vec<_> = names(&mounted.place.base()).into_iter().filter(|name| name.starts_with("race.")).collect();
    let mut texts: Vec<_> = kept.iter().map(|name| fs::read_to_string(mounted.below(name)).unwrap()).collect();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), kept.len());
    let long = "x".repeat(250);
    assert!(mounted.user(&format!("touch {long}; rm {long}")).is_none());
    assert!(mounted.below(&long).exists(), "what cannot be kept is not deleted");
}

#[test]
fn kept_copies_are_not_open_to_another_group() {
    let Some(mounted) = Mounted::new("keepfs", &[]) else { return };
    assert!(mounted.user("echo secret > file").is_some());
    std::os::unix::fs::chown(mounted.below("file"), Some(USER), Some(USER + 1)).unwrap();
    fs::set_permissions(mounted.below("file"), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(mounted.user("rm file").is_some());
    let mode = fs::metadata(mounted.below(".kept.file")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "the copy has another group");
}

#[test]
fn versions_are_kept_one_after_the_other() {
    let Some(mounted) = Mounted::new("versionfs", &[("versions", "9")]) else { return };
    assert!(mounted.user("echo 0 > file; for i in 1 2 3 4 5 6; do echo $i > file & done; wait").is_some());
    let kept = names(&mounted.place.base()).len();
    assert!((2..=7).contains(&kept));
    assert_eq!(
        fs::read_to_string(mounted.below(&format!("file.~{}~", kept - 1))).unwrap(),
        "0\n",
        "the first is the oldest"
    );
    // Only what has the name of a version has none.
    assert!(mounted.user("echo one > 'x.~a~' && echo two > 'x.~a~'").is_some());
    assert!(mounted.below("x.~a~.~1~").exists());
}

#[test]
fn lists_of_users_are_written_by_the_owner_only() {
    let Some(mounted) = Mounted::new("aclfs", &[("errno", "EACCES:EPERM")]) else { return };
    fs::create_dir(mounted.path("open")).unwrap();
    fs::set_permissions(mounted.path("open"), fs::Permissions::from_mode(0o777)).unwrap();
    for way in [
        "echo xxxxxxxx > open/.acl",
        "mkdir open/.acl",
        "ln -s /etc/passwd open/.acl",
        "echo x > open/x; mv -T open/x open/.acl",
        "echo x > open/y; ln open/y open/.acl",
        "mkfifo open/.acl",
    ] {
        assert_eq!(mounted.user(way), None, "{way}");
        assert!(mounted.below("open/.acl").symlink_metadata().is_err(), "{way}");
    }
    // The command is for directories: not for a file of one's own in somebody else's.
    let command = 1 << 30 | 8 << 16 | u32::from(b'F') << 8 | 1;
    let of_file = format!(
        "echo x > open/mine; perl -e 'open(F, \"<\", \"open/mine\"); $d = \"x\" x 8; exit(ioctl(F, {command}, $d) ? 0 : 1)'"
    );
    assert_eq!(mounted.user(&of_file), None);
    assert!(!mounted.below("open/.acl").exists());
}
