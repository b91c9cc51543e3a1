//! Samples that keep, hide, join or report names: trashfs, keepfs, versionfs, aclfs, unionfs.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::super::behaviour::{USER, error, names, set};
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
    let kept: Vec<_> =
        names(&mounted.directories.base()).into_iter().filter(|name| name.starts_with("race.")).collect();
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
    let kept = names(&mounted.directories.base()).len();
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

#[test]
fn lists_that_cannot_be_believed_let_nobody_in() {
    let Some(mounted) = Mounted::new("aclfs", &[("errno", "EACCES:EPERM")]) else { return };
    let (private, list) = (mounted.path("private"), mounted.below("private/.acl"));
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(private.join("file"), "for friends").unwrap();
    fs::set_permissions(private.join("file"), fs::Permissions::from_mode(0o644)).unwrap();
    // A member of the group 0, which is what a list that lacks a number says.
    let member = || {
        let mut shell = std::process::Command::new("cat");
        std::os::unix::process::CommandExt::gid(&mut shell, 0);
        std::os::unix::process::CommandExt::uid(&mut shell, USER);
        let output = shell.arg(private.join("file")).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (is_let_in, message) = member();
    assert!(!is_let_in && message.contains("Permission denied"), "the error is as it was: {message}");
    let whole = [1_u32.to_ne_bytes(), 0_u32.to_ne_bytes()].concat();
    set(&private, &whole).unwrap();
    assert!(member().0, "the list says so");
    for (what, text) in [("nothing", &whole[..0]), ("half of it", &whole[..4]), ("more", &[0; 12][..])] {
        fs::write(&list, text).unwrap();
        let (is_let_in, message) = member();
        assert!(!is_let_in && message.contains("Permission denied"), "{what} is no list: {message}");
    }
    // Nor the list of somebody else, such as who had the directory before.
    fs::write(&list, &whole).unwrap();
    std::os::unix::fs::chown(&list, Some(USER + 1), None).unwrap();
    assert!(!member().0, "the list is another's");
    fs::remove_file(&list).unwrap();
    fs::create_dir(&list).unwrap();
    assert!(!member().0, "a directory is no list");
    assert!(set(&private, &whole).is_err(), "what cannot be written is no success");
    fs::remove_dir(&list).unwrap();
    set(&private, &whole).unwrap();
    assert_eq!(error(fs::write(private.join(".acl"), "text")), libc::EPERM, "by the command only");
    assert!(member().0);
}

#[test]
fn what_the_first_file_system_refuses_stays_in_the_second() {
    let Some(mounted) = Mounted::new("unionfs", &[]) else { return };
    let (first, second) = (mounted.directories.first(), mounted.directories.second());
    for branch in [&first, &second] {
        fs::create_dir_all(branch.join("shared/both.d")).unwrap();
        fs::write(branch.join("shared/both"), "text").unwrap();
    }
    // Only the second lets everybody change it.
    fs::set_permissions(second.join("shared"), fs::Permissions::from_mode(0o777)).unwrap();
    for way in ["rm -f shared/both", "rmdir shared/both.d", "mv shared/both shared/moved", "mv shared/both ."] {
        assert_eq!(mounted.user(way), None, "{way}");
        assert_eq!(names(&second.join("shared")), ["both", "both.d"], "{way}");
    }
    fs::write(first.join("shared/both.d/inside"), "").unwrap();
    assert_eq!(error(fs::remove_dir(mounted.path("shared/both.d"))), libc::ENOTEMPTY);
    assert!(second.join("shared/both.d").exists());
    // What only the second has goes there; what would hide it is no place for it.
    fs::write(second.join("shared/lower"), "lower").unwrap();
    let moved = fs::rename(mounted.path("shared/lower"), mounted.path("shared/both"));
    assert_eq!(error(moved), libc::EXDEV);
    assert_eq!(fs::read_to_string(second.join("shared/both")).unwrap(), "text");
    fs::rename(mounted.path("shared/lower"), mounted.path("shared/free")).unwrap();
    assert_eq!(fs::read_to_string(mounted.path("shared/free")).unwrap(), "lower");
    fs::remove_file(mounted.path("shared/free")).unwrap();
    assert!(!second.join("shared/free").exists());
}
