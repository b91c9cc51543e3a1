//! Mounts of bindfs by the names of its helper and of its command.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use support::{Run, Scratch, can_mount, finish, is_mounted, run, umount};

/// Calls the program by another name.
fn call(program: &Path, words: &[&str]) -> Run {
    finish(Command::new(program).args(words).output())
}

#[test]
fn the_command_of_bindfs_mounts_the_equivalent_stack() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("data")).unwrap();
    fs::write(scratch.path("data/file"), "data").unwrap();
    let (data, mount) = (scratch.name("data"), scratch.name("mount"));
    let command = scratch.path("plyfs-bindfs");
    symlink(env!("CARGO_BIN_EXE_plyfs"), &command).unwrap();
    let words = ["-u", "1234", "--perms=a=r,u+w:a+X", "--read-rate=1g", "--direct-io", &data, &mount, "-o", "noexec"];
    let mounted = call(&command, &words);
    assert!(mounted.code == 0 && mounted.errors.contains("direct-io: no effect"), "{mounted:?}");
    let shown = fs::metadata(scratch.path("mount/file")).unwrap();
    assert_eq!((shown.uid(), shown.mode() & 0o777), (1234, 0o644));
    assert_eq!(fs::read_to_string(scratch.path("mount/file")).unwrap(), "data");
    let status = run(["status", &mount]).succeeded();
    assert!(status.contains("map") && status.contains("throttle") && status.contains("read=1g"), "{status}");
    umount(&mount);

    let refused = call(&command, &["--resolve-symlinks", "--map=a", &data, &mount]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.errors.contains("resolve-symlinks: symlinks") && refused.errors.contains("map=a"), "{refused:?}");
    let unknown = call(&command, &["--bogus", &data, &mount]);
    assert!(unknown.code == 1 && unknown.errors.contains("bogus"), "{unknown:?}");
    assert!(!is_mounted(&scratch.mount()));
}

#[test]
fn the_helper_of_bindfs_takes_lines_of_fstab() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("data")).unwrap();
    fs::write(scratch.path("data/file"), "").unwrap();
    let (data, mount, helper) = (scratch.name("data"), scratch.name("mount"), scratch.path("mount.fuse.bindfs"));
    symlink(env!("CARGO_BIN_EXE_plyfs"), &helper).unwrap();
    let options = "rw,mirror-only=1234,uid-offset=7,nofail";
    let mounted = call(&helper, &[&data, &mount, "-o", options, "-t", "fuse.bindfs"]);
    assert_eq!(mounted.code, 0, "{mounted:?}");
    // Root has no access, but finds the mount point.
    let denied = fs::metadata(scratch.path("mount/file")).unwrap_err();
    assert_eq!(denied.kind(), std::io::ErrorKind::PermissionDenied, "{denied}");
    assert!(is_mounted(&scratch.mount()));
    let table = fs::read_to_string("/proc/mounts").unwrap();
    let entry = table.lines().find(|line| line.split(' ').nth(1) == Some(&mount)).unwrap();
    assert!(entry.starts_with(&data), "{entry}");
    umount(&mount);
    assert_eq!(call(&helper, &[&data, &mount, "-t", "ext4"]).code, 1);
}
