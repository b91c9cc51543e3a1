//! Pools of disks by mounted unions: patterns, drains and where files are.

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;

use support::{Scratch, can_mount, run, umount};

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
