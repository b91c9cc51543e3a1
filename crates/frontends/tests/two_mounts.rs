//! Two mounts of one stack: a change below is seen through both at once, and through one when the other has ended.

mod support;

use plyfs_frontends::fuse::MountOptions;
use std::fs;
use std::time::Duration;
use support::{Mounted, NotifierProbe, memory, mount_with, unmount_when_unused};
use vnode::layer::stack;
use vnode::{Caller, FileSystemRef, Name, OpenFlags};

/// Writes to the file below the stack.
fn write_below(below: &FileSystemRef, data: &[u8]) {
    let (server, name) = (Caller::server(), Name::new(b"file").unwrap());
    let file = below.root().lookup(&server, name).unwrap().vnode.open(&server, OpenFlags::WRITE).unwrap();
    file.truncate(&server, 0).unwrap();
    file.write_at(&server, 0, data).unwrap();
}

fn assert_seen(mounted: &Mounted, data: &str) {
    assert!(mounted.mount.wait_until_notified(Duration::from_secs(10)));
    assert_eq!(fs::read_to_string(mounted.path("file")).unwrap(), data);
}

#[test]
fn change_below_is_seen_through_both_mounts_at_once() {
    let (below, probe) = (memory(), NotifierProbe::default());
    let shared = stack(probe.clone(), below.clone());
    let Some(first) = mount_with(shared.clone(), MountOptions::default()) else { return };
    let second = mount_with(shared, MountOptions::default()).unwrap();
    fs::write(first.path("file"), "before").unwrap();
    let mounts = [&first, &second];
    let size = |mounted: &Mounted| fs::metadata(mounted.path("file")).unwrap().len();
    for mounted in mounts {
        assert_eq!(fs::read_to_string(mounted.path("file")).unwrap(), "before");
        // Reading has changed the access time: only now are the attributes kept.
        assert_eq!(size(mounted), 6);
    }
    write_below(&below, b"changed below");
    assert_eq!(mounts.map(size), [6, 6], "the kernel keeps no attributes: this tests nothing");
    probe.notifier().everything_changed();
    assert_seen(&first, "changed below");
    assert_seen(&second, "changed below");

    unmount_when_unused(&first.mount);
    drop(first);
    write_below(&below, b"changed once more");
    probe.notifier().everything_changed();
    assert_seen(&second, "changed once more");
}
