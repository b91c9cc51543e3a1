//! Pools of disks by mounted unions: patterns, drains, where files are, and mounts of mergerfs.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::Command;

use support::{Run, Scratch, can_mount, finish, is_mounted, run, umount};

/// Creates directories in the scratch directory.
fn make_directories(scratch: &Scratch, names: &[&str]) {
    names.iter().for_each(|name| fs::create_dir_all(scratch.path(name)).unwrap());
}

#[test]
fn a_pool_grows_by_a_pattern_and_a_drained_branch_is_removed() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    make_directories(&scratch, &["disk1", "disk3"]);
    let mount = scratch.name("mount");
    let stack = format!("{}=rw | union(create=existing-path-leftmost)", scratch.name("disk*"));
    run(["mount", &stack, &mount]).succeeded();
    fs::create_dir(scratch.path("mount/d")).unwrap();
    fs::write(scratch.path("mount/d/file"), "data").unwrap();
    assert_eq!(fs::read_to_string(scratch.path("disk1/d/file")).unwrap(), "data");
    let number = fs::metadata(scratch.path("mount/d/file")).unwrap().ino();

    make_directories(&scratch, &["disk2"]);
    assert_eq!(run(["union", "rescan", &mount]).succeeded(), format!("added {}=rw\n", scratch.name("disk2")));
    assert_eq!(run(["union", "list", &mount]).succeeded().lines().count(), 3);
    let place = run(["union", "which", &scratch.name("mount/d/file")]).succeeded();
    let expected =
        format!("{} (regular)\n  visible   {}  d/file\n", scratch.name("mount/d/file"), scratch.name("disk1"));
    assert_eq!(place, expected);

    let report = run(["union", "drain", &mount, &scratch.name("disk1")]).succeeded();
    assert!(report.starts_with("objects moved: 1 "), "{report}");
    run(["union", "remove", &mount, &scratch.name("disk1")]).succeeded();
    assert!(!scratch.path("disk1/d/file").exists());
    assert_eq!(fs::read_to_string(scratch.path("mount/d/file")).unwrap(), "data");
    assert_eq!(fs::metadata(scratch.path("mount/d/file")).unwrap().ino(), number);
    assert_eq!(run(["union", "balance", &mount]).succeeded(), "objects moved: 0 (0 bytes); objects that stay: 0\n");
    umount(&mount);
}

#[test]
fn a_drain_that_leaves_something_says_so_by_its_exit_code() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    make_directories(&scratch, &["a", "b"]);
    ["a/x", "b/x"].iter().for_each(|path| fs::write(scratch.path(path), path).unwrap());
    let mount = scratch.name("mount");
    run(["mount", &format!("{}=rw, {}=rw | union", scratch.name("a"), scratch.name("b")), &mount]).succeeded();
    let drained = run(["union", "drain", &mount, "0"]);
    assert_eq!(drained.code, 1, "{drained:?}");
    assert!(drained.errors.contains("some objects stay"), "{drained:?}");
    assert_eq!(fs::read_to_string(scratch.path("mount/x")).unwrap(), "a/x");
    umount(&mount);
}

#[test]
fn the_helper_of_mergerfs_mounts_the_equivalent_union() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    make_directories(&scratch, &["disk1", "disk2", "old"]);
    let (mount, helper) = (scratch.name("mount"), scratch.path("mount.mergerfs"));
    symlink(env!("CARGO_BIN_EXE_plyfs"), &helper).unwrap();
    let call = |words: &[&str]| -> Run { finish(Command::new(&helper).args(words).output()) };
    let branches = format!("{}=RW,1M:{}=RO", scratch.name("disk*"), scratch.name("old"));
    let options = "rw,category.create=ff,cache.files=off,moveonenospc=true,noexec";
    let mounted = call(&[&branches, &mount, "-o", options]);
    assert!(mounted.code == 0 && mounted.errors.contains("cache.files=off: no effect"), "{mounted:?}");
    let list = run(["union", "list", &mount]).succeeded();
    let line = |name: &str, mode: &str| format!("{}={mode}\n", scratch.name(name));
    let minimum = "rw (minimum free 1m)";
    assert_eq!(list, line("disk1", minimum) + &line("disk2", minimum) + &line("old", "ro"));
    fs::write(scratch.path("mount/new"), "").unwrap();
    assert!(scratch.path("disk1/new").exists());
    let mut value = [0; 200];
    let length = rustix::fs::getxattr(scratch.path("mount/new"), "user.mergerfs.basepath", &mut value).unwrap();
    assert_eq!(&value[..length], scratch.name("disk1").as_bytes());
    let table = fs::read_to_string("/proc/mounts").unwrap();
    let entry = table.lines().find(|line| line.split(' ').nth(1) == Some(&mount)).unwrap();
    assert!(entry.starts_with(&branches) && entry.contains("noexec"), "{entry}");
    umount(&mount);

    let refused = call(&[&branches, &mount, "-o", "category.create=all,nullrw=true"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.errors.contains("category.create=all") && refused.errors.contains("nullrw=true"), "{refused:?}");
    let unknown = call(&[&branches, &mount, "-o", "bogus"]);
    assert!(unknown.code == 1 && unknown.errors.contains("bogus"), "{unknown:?}");
    assert_eq!(call(&[&branches, &mount, "-t", "ext4"]).code, 1);
    assert!(!is_mounted(&scratch.mount()));
}
