//! What all samples from scratch stand on, and what those that encode data do at the edges, through real mounts.

mod behaviour;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use behaviour::{TestDirectories, USER, can_mount};
use comparison::scratch::aclfs::Aclfs;
use comparison::scratch::pass_through::{PassThrough, mount};
use comparison::scratch::{rot13fs, uuencodefs, zstdfs};
use fuser::BackgroundSession;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// A directory as it is, if it can be mounted.
fn mounted(directories: &TestDirectories) -> Option<BackgroundSession> {
    let below = || PassThrough::new(&directories.base()).unwrap();
    can_mount().then(|| mount(below(), "pass-through", &directories.mount()).unwrap())
}

#[test]
fn files_without_a_name_are_read_and_written_on() {
    let directories = TestDirectories::new();
    let Some(_mounted) = mounted(&directories) else { return };
    let path = directories.mount().join("file");
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    file.write_all(b"content").unwrap();
    fs::remove_file(&path).unwrap();
    file.write_all(b" and more").unwrap();
    file.set_len(12).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_string(&mut text).unwrap();
    let attributes = file.metadata().unwrap();
    assert_eq!((&text[..], attributes.nlink(), attributes.mode() & 0o777), ("content and ", 0, 0o600));
}

#[test]
fn names_are_bytes_and_links_are_the_same_file() {
    let directories = TestDirectories::new();
    let Some(_mounted) = mounted(&directories) else { return };
    let path = directories.mount().join(OsStr::from_bytes(b"\xff\xfe"));
    fs::write(&path, "text").unwrap();
    fs::hard_link(&path, directories.mount().join("link")).unwrap();
    std::os::unix::fs::symlink("link", directories.mount().join("symlink")).unwrap();
    assert!(directories.base().join(OsStr::from_bytes(b"\xff\xfe")).exists());
    let (first, second) = (fs::metadata(&path).unwrap(), fs::metadata(directories.mount().join("symlink")).unwrap());
    assert_eq!((first.ino(), first.nlink()), (second.ino(), 2));
    assert_eq!(fs::read_to_string(directories.mount().join("symlink")).unwrap(), "text");
}

#[test]
fn renames_exchange_or_replace_nothing_if_they_are_told_so() {
    let directories = TestDirectories::new();
    let Some(_mounted) = mounted(&directories) else { return };
    let (one, two) = (directories.mount().join("one"), directories.mount().join("two"));
    fs::write(&one, "1").unwrap();
    fs::write(&two, "2").unwrap();
    assert_eq!(renameat_with(CWD, &one, CWD, &two, RenameFlags::NOREPLACE), Err(Errno::EXIST));
    renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE).unwrap();
    assert_eq!((fs::read(&one).unwrap(), fs::read(&two).unwrap()), (b"2".to_vec(), b"1".to_vec()));
}

#[test]
fn users_make_what_is_theirs_and_lose_what_they_may_not_keep() {
    let directories = TestDirectories::new();
    let Some(_mounted) = mounted(&directories) else { return };
    let path = directories.mount().join("program");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
    let as_user = |commands: String| {
        let status = Command::new("sh").args(["-c", &commands]).uid(USER).gid(USER).status();
        status.unwrap().success()
    };
    assert!(as_user(format!("mkdir {}", directories.mount().join("own").display())));
    let own = fs::metadata(directories.base().join("own")).unwrap();
    assert_eq!((own.uid(), own.gid()), (USER, USER));
    assert!(as_user(format!("echo x >> {}", path.display())));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(!as_user(format!("echo x >> {} 2>/dev/null", path.display())));
    assert!(!as_user(format!("chmod 777 {} 2>/dev/null", path.display())));
}

#[test]
fn holes_stay_holes_and_large_directories_are_listed_whole() {
    let directories = TestDirectories::new();
    let Some(_mounted) = mounted(&directories) else { return };
    let sparse = File::create(directories.mount().join("sparse")).unwrap();
    sparse.write_all_at(b"end", 10 << 20).unwrap();
    assert!(fs::metadata(directories.base().join("sparse")).unwrap().blocks() < 1000);
    for index in 0..3000 {
        File::create(directories.mount().join(format!("a-rather-long-name-{index}"))).unwrap();
    }
    assert_eq!(fs::read_dir(directories.mount()).unwrap().count(), 3001);
}

#[test]
fn what_is_mounted_over_itself_shows_what_it_covers() {
    if !can_mount() {
        return;
    }
    let directories = TestDirectories::new();
    fs::write(directories.base().join("file"), "text").unwrap();
    let mounted =
        mount(Aclfs::new(PassThrough::new(&directories.base()).unwrap()), "aclfs", &directories.base()).unwrap();
    assert_eq!(fs::read_to_string(directories.base().join("file")).unwrap(), "text");
    fs::write(directories.base().join("new"), "new").unwrap();
    fs::rename(directories.base().join("new"), directories.base().join("renamed")).unwrap();
    drop(mounted);
    assert_eq!(fs::read_to_string(directories.base().join("renamed")).unwrap(), "new");
}

/// A file with a hole of 1 MiB between two short pieces is read back, and takes little room.
fn keeps_holes(directories: &TestDirectories) {
    let path = directories.mount().join("sparse");
    let file = File::create(&path).unwrap();
    file.write_all_at(b"start", 0).unwrap();
    file.write_all_at(b"end", 1 << 20).unwrap();
    file.set_len((1 << 20) + 100).unwrap();
    let mut expected = vec![0; (1 << 20) + 100];
    expected[..5].copy_from_slice(b"start");
    expected[1 << 20..][..3].copy_from_slice(b"end");
    assert!(fs::read(&path).unwrap() == expected);
    assert!(fs::metadata(directories.base().join("sparse")).unwrap().blocks() * 512 < 512 << 10);
}

#[test]
fn encoded_files_have_holes_too() {
    if !can_mount() {
        return;
    }
    let below = |directories: &TestDirectories| PassThrough::new(&directories.base()).unwrap();
    let directories = TestDirectories::new();
    let mounted = mount(rot13fs::Rot13fs::new(below(&directories)), "rot13fs", &directories.mount()).unwrap();
    keeps_holes(&directories);
    drop(mounted);
    let directories = TestDirectories::new();
    let mounted = mount(zstdfs::Zstdfs::new(below(&directories)), "zstdfs", &directories.mount()).unwrap();
    keeps_holes(&directories);
    drop(mounted);
    let directories = TestDirectories::new();
    let _mounted = mount(uuencodefs::Uuencodefs::new(below(&directories)), "uuencodefs", &directories.mount()).unwrap();
    keeps_holes(&directories);
}
