//! Renames that meet others, or a full volume.

use std::sync::Arc;

use plyfs_bases::device::DeviceRef;
use plyfs_bases::fat::{FatFileSystem, MetadataMode, Options};
use vnode::{AllocateMode, Errno, FileKind, FileSystem, OpenFlags, RenameMode};

use crate::image::{self, KINDS, find, get, in_entries, name, names, put, superuser, with_sidecars, without_sidecars};
use crate::trapped::TrappedDevice;

#[test]
fn a_name_that_becomes_that_of_a_directory_meanwhile_is_not_moved_below_it() {
    let Some(device) = image::format(KINDS[1]) else { return };
    let device = Arc::new(TrappedDevice::new(device));
    let shared: DeviceRef = device.clone();
    // Directories are forgotten after each change.
    let options = Options { memory: 0, ..without_sidecars() };
    let file_system = FatFileSystem::open(shared, "test", options).unwrap();
    let root = file_system.root();
    let parent = root.mkdir(&superuser(), name("P"), 0o755).unwrap().vnode;
    put(&parent, "a", b"1").unwrap();
    let d = parent.mkdir(&superuser(), name("d"), 0o755).unwrap().vnode;
    let x = d.mkdir(&superuser(), name("x"), 0o755).unwrap().vnode;
    put(&x, "INSIDE", b"2").unwrap();
    file_system.sync().unwrap();
    file_system.sync().unwrap();
    put(&root, "other", b"3").unwrap();
    // No synchronization waits for the rename below, and others for it.
    file_system.sync().unwrap();
    file_system.sync().unwrap();
    let exchanging = parent.clone();
    device.before_reading(b"INSIDE     ", move || {
        let exchange = || exchanging.rename(&superuser(), name("a"), &exchanging, name("d"), RenameMode::Exchange);
        std::thread::scope(|scope| scope.spawn(exchange).join().unwrap()).unwrap();
    });
    let moved = parent.rename(&superuser(), name("a"), &x, name("a"), RenameMode::Replace);
    assert!(device.has_run(), "the directory was read in the middle of the rename");
    assert_eq!(moved, Err(Errno::EINVAL));
    assert_eq!(get(&root, "P/a/x/INSIDE").unwrap(), b"2");
    assert_eq!(get(&root, "P/d").unwrap(), b"1");
}

#[test]
fn a_rename_on_a_full_volume_leaves_a_whiteout_or_does_nothing() {
    for options in [in_entries(MetadataMode::Inline), in_entries(MetadataMode::Paper), with_sidecars()] {
        let Some(device) = image::format(KINDS[1]).map(Arc::new) else { return };
        let file_system = image::mount(&device, options.clone());
        let root = file_system.root();
        put(&root, "A long name", b"1").unwrap();
        let directory = root.mkdir(&superuser(), name("directory"), 0o755).unwrap().vnode;
        put(&directory, "other", b"2").unwrap();
        let filler = put(&root, "filler", b"").unwrap().open(&superuser(), OpenFlags::READ_WRITE).unwrap();
        let length = root.statfs(&superuser()).unwrap().blocks_free * 2048;
        filler.allocate(&superuser(), AllocateMode::ALLOCATE, 0, length).unwrap();
        for (from, to) in [("A long name", "b"), ("directory/other", "c")] {
            let parent = from.split_once('/').map_or(&root, |_| &directory);
            let from_name = from.rsplit('/').next().unwrap();
            let before = get(&root, from).unwrap();
            match parent.rename(&superuser(), name(from_name), &root, name(to), RenameMode::Whiteout) {
                Ok(()) => {
                    assert_eq!(get(&root, to).unwrap(), before, "{options}");
                    let whiteout = find(&root, from).unwrap().attributes;
                    assert_eq!((whiteout.kind, whiteout.rdev), (FileKind::CharacterDevice, Default::default()));
                }
                Err(errno) => {
                    assert_eq!((errno, get(&root, from).unwrap()), (Errno::ENOSPC, before), "{options}");
                    assert_eq!(find(&root, to).err(), Some(Errno::ENOENT), "{options}");
                }
            }
        }
        drop(filler);
        root.unlink(&superuser(), name("filler")).unwrap();
        let _ = root.rename(&superuser(), name("A long name"), &root, name("b"), RenameMode::Whiteout);
        drop((root, directory));
        drop(file_system);
        image::check(&device);
    }
}

#[test]
fn a_whiteout_keeps_the_name_and_stays() {
    for options in [in_entries(MetadataMode::Inline), with_sidecars()] {
        let Some(device) = image::format(KINDS[1]).map(Arc::new) else { return };
        let file_system = image::mount(&device, options.clone());
        let root = file_system.root();
        put(&root, "A longer name.txt", b"1").unwrap();
        put(&root, "victim", b"2").unwrap();
        // With a similar short name.
        put(&root, "Another long name 1", b"3").unwrap();
        let to = name("Another long name 2");
        root.rename(&superuser(), name("Another long name 1"), &root, to, RenameMode::Whiteout).unwrap();
        root.unlink(&superuser(), name("Another long name 1")).unwrap();
        root.rename(&superuser(), to, &root, name("Another long name 3"), RenameMode::Whiteout).unwrap();
        // Found by its short name.
        root.rename(&superuser(), name("ALONGE~1.TXT"), &root, name("victim"), RenameMode::Whiteout).unwrap();
        let same = root.rename(&superuser(), name("victim"), &root, name("VICTIM"), RenameMode::Whiteout);
        assert_eq!(same, Err(Errno::EEXIST), "the name of the whiteout is the new one");
        assert_eq!(get(&root, "victim").unwrap(), b"1");
        drop(root);
        drop(file_system);
        image::check(&device);
        let file_system = image::mount(&device, options);
        let root = file_system.root();
        assert_eq!(names(&root), ["A longer name.txt", "Another long name 2", "Another long name 3", "victim"]);
        assert_eq!(find(&root, "A longer name.txt").unwrap().attributes.kind, FileKind::CharacterDevice);
        assert_eq!(get(&root, "victim").unwrap(), b"1");
    }
}
