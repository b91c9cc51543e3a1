//! Mounts without optional features of the FUSE protocol, one feature at a time: what takes its place has to do the same.

mod support;

use plyfs_frontends::fuse::{Features, MountError, MountOptions, Uring};
use rustix::fs::XattrFlags;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use support::{Mounted, as_user, map_while_appending, memory, mount_directory, mount_with, set_lock};

fn without(names: &str) -> MountOptions {
    MountOptions { withheld: names.parse().unwrap(), ..MountOptions::default() }
}

/// Calls with a mount for each feature that it has to do without, and with one that has them all.
fn each_feature(mount: impl Fn(Features) -> Option<Mounted>, exercise: impl Fn(&str, &Mounted)) {
    for (name, withheld) in Features::all().chain([("nothing", Features::NONE)]) {
        let Some(mounted) = mount(withheld) else { return };
        assert_eq!(mounted.mount.decisions().withheld, withheld);
        exercise(name, &mounted);
    }
}

/// A round of what programs do with files. `what` names the mount in messages.
fn exercise(what: &str, mounted: &Mounted) {
    names(what, mounted);
    data(what, mounted);
    data_past_the_cache(what, mounted);
    locks(what, mounted);
    extended_attributes(what, mounted);
    permissions(what, mounted);
}

fn names(what: &str, mounted: &Mounted) {
    let directory = mounted.path("directory");
    fs::create_dir(&directory).unwrap();
    let mut expected: Vec<String> = (0..80).map(|number| format!("{number}-{}", "x".repeat(2 * number))).collect();
    for name in &expected {
        fs::write(directory.join(name), name).unwrap();
    }
    expected.sort();
    for _ in 0..2 {
        let mut listed = Vec::new();
        for entry in fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap()) {
            let name = entry.file_name().into_string().unwrap();
            assert_eq!(entry.metadata().unwrap().len(), name.len() as u64, "{what}: {name}");
            listed.push(name);
        }
        listed.sort();
        assert_eq!(listed, expected, "{what}");
    }
    let (old, new) = (directory.join(&expected[7]), mounted.path("renamed"));
    fs::rename(&old, &new).unwrap();
    assert!(fs::metadata(&old).is_err() && fs::read_to_string(&new).unwrap() == expected[7], "{what}");
    fs::hard_link(&new, &old).unwrap();
    assert_eq!(fs::metadata(&old).unwrap().nlink(), 2, "{what}");
    let link = mounted.path("link");
    for target in ["renamed", "directory"] {
        symlink(target, &link).unwrap();
        for _ in 0..3 {
            assert_eq!(fs::read_link(&link).unwrap(), Path::new(target), "{what}");
        }
        fs::remove_file(&link).unwrap();
    }
    fs::remove_dir_all(&directory).unwrap();
    assert_eq!(fs::metadata(&new).unwrap().nlink(), 1, "{what}");
}

fn data(what: &str, mounted: &Mounted) {
    let path = mounted.path("data");
    let mut expected: Vec<u8> = (0..600_000).map(|number: u32| (number % 251) as u8).collect();
    fs::write(&path, &expected).unwrap();
    assert!(fs::read(&path).unwrap() == expected, "{what}");
    let file = File::options().read(true).write(true).open(&path).unwrap();
    file.write_all_at(b"in the middle", 200_000).unwrap();
    expected[200_000..200_013].copy_from_slice(b"in the middle");
    file.set_len(400_000).unwrap();
    file.set_len(500_000).unwrap();
    expected.truncate(400_000);
    expected.resize(500_000, 0);
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let mut appending = File::options().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut appending, b"at the end").unwrap();
    expected.extend(b"at the end");
    assert!(fs::read(&path).unwrap() == expected, "{what}");
    assert_eq!(file.metadata().unwrap().len(), expected.len() as u64, "{what}");

    let mapped = mounted.path("mapped");
    fs::write(&mapped, [b'a'; 8192]).unwrap();
    assert!(map_while_appending(&mapped), "{what}");
    let text = fs::read(&mapped).unwrap();
    assert!(text.len() == 8195 && &text[10..15] == b"HELLO" && text.ends_with(b"aend"), "{what}");
}

fn data_past_the_cache(what: &str, mounted: &Mounted) {
    #[repr(align(4096))]
    struct Block([u8; 8192]);
    let path = mounted.path("direct");
    let direct = File::options().read(true).write(true).create_new(true).custom_flags(libc::O_DIRECT).open(&path);
    let direct = direct.unwrap();
    direct.write_all_at(&Block([7; 8192]).0, 0).unwrap();
    let mut block = Block([0; 8192]);
    direct.read_exact_at(&mut block.0[..4096], 4096).unwrap();
    assert!(block.0[..4096].iter().all(|&byte| byte == 7), "{what}");
    assert!(fs::read(&path).unwrap() == [7; 8192], "{what}");
}

fn locks(what: &str, mounted: &Mounted) {
    let path = mounted.path("locked");
    fs::write(&path, "").unwrap();
    let [one, other] = [(); 2].map(|()| File::options().read(true).write(true).open(&path).unwrap());
    for (kind, length) in [(libc::F_WRLCK, 10), (libc::F_RDLCK, 0)] {
        set_lock(&one, libc::F_OFD_SETLK, kind, 0, length).unwrap();
        let refused = set_lock(&other, libc::F_OFD_SETLK, libc::F_WRLCK, 5, 1).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EAGAIN), "{what}");
        set_lock(&one, libc::F_OFD_SETLK, libc::F_UNLCK, 0, 0).unwrap();
        set_lock(&other, libc::F_OFD_SETLK, libc::F_WRLCK, 5, 1).unwrap();
        set_lock(&other, libc::F_OFD_SETLK, libc::F_UNLCK, 0, 0).unwrap();
    }
    one.lock().unwrap();
    assert!(other.try_lock().is_err(), "{what}");
    drop(one);
    other.lock().unwrap();
}

fn extended_attributes(what: &str, mounted: &Mounted) {
    let path = mounted.path("attributes");
    fs::write(&path, "").unwrap();
    let mut room = [0; 4096];
    for value in [&b"first"[..], &[b'v'; 3000]] {
        rustix::fs::setxattr(&path, "trusted.name", value, XattrFlags::empty()).unwrap();
        assert_eq!(rustix::fs::getxattr(&path, "trusted.name", &mut room), Ok(value.len()), "{what}");
        assert_eq!(&room[..value.len()], value, "{what}");
    }
    let again = rustix::fs::setxattr(&path, "trusted.name", b"x", XattrFlags::CREATE);
    assert_eq!(again, Err(rustix::io::Errno::EXIST), "{what}");
    let listed = rustix::fs::listxattr(&path, &mut room).unwrap();
    assert!(room[..listed].split(|&byte| byte == 0).any(|name| name == b"trusted.name"), "{what}");
    rustix::fs::removexattr(&path, "trusted.name").unwrap();
    assert_eq!(rustix::fs::getxattr(&path, "trusted.name", &mut room), Err(rustix::io::Errno::NODATA), "{what}");
}

fn permissions(what: &str, mounted: &Mounted) {
    let path = mounted.path("program");
    fs::write(&path, b"old").unwrap();
    let mode = || fs::metadata(&path).unwrap().mode() & 0o7777;
    for command in ["printf new >> ", "truncate -s 1 ", "printf new > "] {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
        assert!(as_user(1234, &format!("{command}{}", path.display())), "{what}: {command}");
        assert_eq!(mode(), 0o777, "{what}: {command}");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
    assert!(as_user(0, &format!("printf new >> {}", path.display())), "{what}");
    assert_eq!(mode(), 0o6777, "{what}: root keeps the bits");

    // The umask counts once, and the group of a directory with the set-group-id bit is inherited.
    let shared = mounted.path("shared");
    fs::create_dir(&shared).unwrap();
    std::os::unix::fs::chown(&shared, Some(1234), Some(5678)).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o2775)).unwrap();
    let script = format!("umask 027; cd {}; printf x > file; mkdir directory", shared.display());
    let mut member = Command::new("setpriv");
    member.args(["--reuid", "1235", "--regid", "1235", "--groups", "5678", "sh", "-c", &script]);
    assert!(member.status().unwrap().success(), "{what}: a member of the group");
    let made = |name: &str| fs::metadata(shared.join(name)).map(|made| (made.mode() & 0o7777, made.gid())).unwrap();
    assert_eq!((made("file"), made("directory")), ((0o640, 5678), (0o2750, 5678)), "{what}");

    // A cached name is no way past a directory that closes. Where the stack checks permissions it may be for a moment.
    let directory = mounted.path("closing");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("file"), b"secret").unwrap();
    let stat = format!("stat {}", directory.join("file").display());
    assert!(as_user(1234, &stat), "{what}");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    let started = Instant::now();
    while as_user(1234, &stat) {
        assert!(what.ends_with("posix-acl") && started.elapsed() < Duration::from_secs(5), "{what}: still open");
    }
}

#[test]
fn memory_base_works_without_each_feature() {
    let mount = |withheld| mount_with(memory(), MountOptions { withheld, ..MountOptions::default() });
    each_feature(mount, |name, mounted| exercise(&format!("mem without {name}"), mounted));
}

fn directory_works_without_each_feature(title: &str, options: &MountOptions) {
    for (name, withheld) in Features::all().chain([("nothing", Features::NONE)]) {
        if options.write_back && name == "writeback-cache" {
            continue;
        }
        let Some((mounted, lower)) = mount_directory(MountOptions { withheld, ..options.clone() }) else { return };
        let what = format!("{title} without {name}");
        exercise(&what, &mounted);
        assert!(fs::read(lower.path().join("data")).unwrap() == fs::read(mounted.path("data")).unwrap(), "{what}");
        if options.over {
            continue;
        }
        let (below, path) = (lower.path().join("changed"), mounted.path("changed"));
        for round in 0..3 {
            // Of one size.
            fs::write(&below, [round; 10_000]).unwrap();
            std::thread::sleep(Duration::from_millis(10));
            assert!(fs::read(&path).unwrap() == [round; 10_000], "{what}");
        }
    }
}

#[test]
fn directory_base_works_without_each_feature() {
    directory_works_without_each_feature("dir", &MountOptions::default());
}

#[test]
fn server_io_works_without_each_feature() {
    let options = MountOptions { passthrough: false, ..MountOptions::default() };
    directory_works_without_each_feature("dir, no passthrough", &options);
}

#[test]
fn writeback_cache_works_without_each_feature() {
    let options = MountOptions { write_back: true, over: true, ..MountOptions::default() };
    directory_works_without_each_feature("dir, written back", &options);
}

#[test]
fn kernel_permission_checks_work_without_each_feature() {
    let options = MountOptions { default_permissions: Some(true), ..MountOptions::default() };
    directory_works_without_each_feature("dir, checked by the kernel", &options);
}

#[test]
fn withheld_features_change_the_requests() {
    let requests = |names: &str, options: MountOptions, operation: &str| {
        let options = MountOptions { withheld: names.parse().unwrap_or_default(), ..options };
        let (mounted, _lower) = mount_directory(options)?;
        exercise(names, &mounted);
        Some(mounted.requests(operation))
    };
    let direct = || MountOptions { passthrough: false, ..MountOptions::default() };
    let plain = MountOptions::default;
    let Some(read_links) = requests("", plain(), "READLINK") else { return };
    assert!(requests("cache-symlinks", plain(), "READLINK").unwrap() > read_links);
    assert!(requests("", plain(), "READDIRPLUS").unwrap() > 0);
    assert_eq!(requests("do-readdirplus", plain(), "READDIRPLUS"), Some(0));
    assert!(requests("max-pages", direct(), "WRITE") > requests("", direct(), "WRITE"));
    if mount_directory(plain()).is_some_and(|(mounted, _)| mounted.mount.decisions().passthrough.is_ok()) {
        assert!(requests("passthrough", plain(), "WRITE") > requests("", plain(), "WRITE"));
    }
    assert!(requests("posix-locks", plain(), "SETLK") < requests("", plain(), "SETLK"));
    assert_eq!(requests("posix-locks:flock-locks", plain(), "SETLK"), Some(0));
}

#[test]
fn mount_reports_negotiated_features() {
    let decisions =
        |options: MountOptions| mount_directory(options).map(|(mounted, _)| mounted.mount.decisions().clone());
    let Some(whole) = decisions(MountOptions::default()) else { return };
    assert!(whole.forward_locks && whole.forward_flocks && whole.drops_changed_data);
    for names in ["passthrough", "init-ext"] {
        let decisions = decisions(without(names)).unwrap();
        assert_eq!(decisions.passthrough, Err("turned off by an option"), "{names}");
        assert!(decisions.to_string().contains("through the page cache: turned off by an option\n"), "{decisions}");
    }
    let kernel = decisions(without("posix-locks:flock-locks")).unwrap();
    assert!(
        !kernel.forward_locks && !kernel.forward_flocks && kernel.to_string().contains("locks: kept by the kernel\n"),
        "{kernel}"
    );
    let checked = |names: &str| MountOptions { default_permissions: Some(true), ..without(names) };
    assert!(decisions(checked("async-read")).unwrap().posix_acl);
    assert!(!decisions(checked("posix-acl")).unwrap().posix_acl);
    assert!(!decisions(without("auto-inval-data")).unwrap().drops_changed_data);
}

#[test]
fn requiring_a_withheld_feature_fails() {
    let Some(mounted) = mount_with(memory(), MountOptions::default()) else { return };
    let mount_point = tempfile::tempdir().unwrap();
    let refused = |options: MountOptions| {
        plyfs_frontends::fuse::Mount::new(memory(), mount_point.path(), &options).map(drop).unwrap_err()
    };
    let back = refused(MountOptions { write_back: true, ..without("writeback-cache") });
    assert!(matches!(back, MountError::NoWriteBack("turned off by an option")), "{back}");
    for names in ["over-io-uring", "init-ext"] {
        let uring = refused(MountOptions { uring: Uring::On, ..without(names) });
        assert!(matches!(uring, MountError::NoUring("turned off by an option")), "{uring}");
    }
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    assert_eq!(device(mount_point.path()), device(mount_point.path().parent().unwrap()), "something stays mounted");
    drop(mounted);
}
