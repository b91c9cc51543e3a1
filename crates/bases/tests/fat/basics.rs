//! Behaviour of FAT volumes that the model does not show: names, limits, lack of metadata, and what stays after unmounting.

use std::sync::Arc;

use plyfs_bases::device::{DeviceRef, Effect, Fault, FaultyDevice, MemoryDevice, Operation};
use plyfs_bases::fat::{FatFileSystem, MetadataMode, MirrorMode, MountError, Options, Translation};
use vnode::{
    AccessMode, AllocateMode, Creation, Device, Errno, FileKind, FileSystem, OpenFlags, RenameMode, SetAttributes,
    SetTime, Timestamp, VnodeRef, XattrMode,
};

use crate::image::{self, KINDS, find, get, name, names, put, superuser, with_sidecars, without_sidecars};

/// Returns a device with a new FAT16 file system.
fn device() -> Option<Arc<MemoryDevice>> {
    image::format(KINDS[1]).map(Arc::new)
}

fn rename(from: &VnodeRef, name_from: &str, to: &VnodeRef, name_to: &str) -> vnode::Result<()> {
    from.rename(&superuser(), name(name_from), to, name(name_to), RenameMode::Replace)
}

fn set(vnode: &VnodeRef, changes: SetAttributes) -> vnode::Result<vnode::Attributes> {
    vnode.setattr(&superuser(), &changes)
}

#[test]
fn files_and_directories_stay() {
    for kind in KINDS {
        let Some(device) = image::format(kind).map(Arc::new) else { return };
        let contents: Vec<u8> = (0..200_000_u32).map(|byte| (byte / 7) as u8).collect();
        let file_system = image::mount(&device, without_sidecars());
        let root = file_system.root();
        let directory = root.mkdir(&superuser(), name("A directory with a long name"), 0o755).unwrap().vnode;
        put(&directory, "Ünïcödé 漢字.txt", &contents).unwrap();
        put(&root, "SHORT.TXT", b"short").unwrap();
        drop((root, directory, file_system));
        image::check(&device);
        let file_system = image::mount(&device, without_sidecars());
        let root = file_system.root();
        assert_eq!(names(&root), ["A directory with a long name", "SHORT.TXT"]);
        assert!(get(&root, "a directory with a LONG name/üNïcödé 漢字.TXT").unwrap() == contents);
        assert_eq!(get(&root, "short.txt").unwrap(), b"short");
    }
}

#[test]
fn names_are_found_regardless_of_case_and_keep_theirs() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, without_sidecars());
    let root = file_system.root();
    put(&root, "ReadMe", b"1").unwrap();
    put(&root, "README", b"2").unwrap();
    assert_eq!((names(&root), get(&root, "readme").unwrap()), (vec!["ReadMe".to_owned()], b"2".to_vec()));
    rename(&root, "readme", &root, "readme").unwrap();
    assert_eq!(names(&root), ["readme"], "a rename changes the case");
    let how = Creation { mode: 0o644, flags: OpenFlags::WRITE.with(OpenFlags::EXCLUSIVE) };
    assert_eq!(root.create(&superuser(), name("README"), &how).err(), Some(Errno::EEXIST));
    put(&root, "A longer name.txt", b"3").unwrap();
    assert_eq!(get(&root, "ALONGE~1.TXT").unwrap(), b"3");
    for bad in ["a:b", "a*", "trailing.", "trailing ", "a\\b", "a\n"] {
        assert_eq!(root.create(&superuser(), name(bad), &how).err(), Some(Errno::EINVAL), "{bad:?}");
        assert_eq!(find(&root, bad).err(), Some(Errno::ENOENT));
    }
    let not_text = vnode::Name::new(b"\xff").unwrap();
    assert_eq!(root.create(&superuser(), not_text, &how).err(), Some(Errno::EINVAL));
    let surrogate = vnode::Name::new(b"\xed\xa0\x80").unwrap();
    root.create(&superuser(), surrogate, &how).unwrap();
    drop(root);
    file_system.end_of_use().unwrap();
    image::check(&device);
}

#[test]
fn what_will_be_freed_is_free() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, without_sidecars());
    let root = file_system.root();
    let free = || file_system.root().statfs(&superuser()).unwrap().blocks_free;
    put(&root, "file", b"").unwrap();
    let before = free();
    put(&root, "file", &[1; 1 << 20]).unwrap();
    file_system.sync().unwrap();
    assert!(free() < before);
    let size = |size| SetAttributes { size: Some(size), ..SetAttributes::default() };
    set(&find(&root, "file").unwrap().vnode, size(0)).unwrap();
    assert_eq!(free(), before, "after truncation");
    set(&find(&root, "file").unwrap().vnode, size(1 << 20)).unwrap();
    let open = find(&root, "file").unwrap();
    root.unlink(&superuser(), name("file")).unwrap();
    assert!(free() < before, "the file is still open");
    drop(open);
    assert_eq!(free(), before, "after removal");
    file_system.sync().unwrap();
    assert_eq!(free(), before, "after synchronization");
}

#[test]
fn reserved_space_is_kept_until_the_last_who_reserved_some_closes_the_file() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, without_sidecars());
    let root = file_system.root();
    let vnode = put(&root, "file", b"1").unwrap();
    file_system.sync().unwrap();
    let free = || root.statfs(&superuser()).unwrap().blocks_free;
    let before = free();
    let open = || vnode.open(&superuser(), OpenFlags::READ_WRITE).unwrap();
    let (one, two) = (open(), open());
    one.allocate(&superuser(), AllocateMode::KEEP_SIZE, 0, 20_000).unwrap();
    two.allocate(&superuser(), AllocateMode::KEEP_SIZE, 0, 100_000).unwrap();
    two.allocate(&superuser(), AllocateMode::KEEP_SIZE, 0, 200_000).unwrap();
    let reserved = free();
    assert!(before - reserved >= 90);
    drop(one);
    file_system.sync().unwrap();
    file_system.sync().unwrap();
    assert_eq!(free(), reserved);
    drop(two);
    file_system.sync().unwrap();
    file_system.sync().unwrap();
    assert_eq!(free(), before);
}

#[test]
fn a_file_that_could_not_become_larger_keeps_no_clusters() {
    let Some(device) = device() else { return };
    let shared: DeviceRef = device.clone();
    let faulty = Arc::new(FaultyDevice::new(shared));
    let file_system = FatFileSystem::open(faulty.clone(), "test", without_sidecars()).unwrap();
    let root = file_system.root();
    let vnode = put(&root, "file", b"1").unwrap();
    file_system.sync().unwrap();
    let before = root.statfs(&superuser()).unwrap().blocks_free;
    // The file system that holds an image is full.
    let larger = SetAttributes { size: Some(12 << 20), ..SetAttributes::default() };
    faulty.add(Fault::of([Operation::Write], Effect::Error(Errno::ENOSPC)).within(6 << 20..u64::MAX));
    assert_eq!(set(&vnode, larger).err(), Some(Errno::ENOSPC));
    faulty.repair();
    file_system.sync().unwrap();
    file_system.sync().unwrap();
    assert_eq!(root.statfs(&superuser()).unwrap().blocks_free, before);
    file_system.end_of_use().unwrap();
    image::check(&device);
}

#[test]
fn a_directory_on_a_full_volume_has_another_number_than_an_unnamed_file() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, without_sidecars());
    let root = file_system.root();
    put(&root, "first", b"").unwrap();
    let unnamed = root.tmpfile(&superuser(), &Creation { mode: 0o644, flags: OpenFlags::READ_WRITE }).unwrap();
    let filler = put(&root, "filler", b"").unwrap();
    let statistics = root.statfs(&superuser()).unwrap();
    let cluster_size = 2048;
    assert_eq!(statistics.block_size, cluster_size);
    let open = filler.open(&superuser(), OpenFlags::READ_WRITE).unwrap();
    let length = (statistics.blocks_free - 1) * u64::from(cluster_size);
    open.allocate(&superuser(), AllocateMode::ALLOCATE, 0, length).unwrap();
    let directory = root.mkdir(&superuser(), name("Z"), 0o755).unwrap();
    assert_ne!(directory.attributes.ino, unnamed.entry.attributes.ino);
    drop((open, filler));
    root.unlink(&superuser(), name("filler")).unwrap();
    file_system.sync().unwrap();
    file_system.sync().unwrap();
    unnamed.file.write_at(&superuser(), 0, &[7; 5000]).unwrap();
    root.link(&superuser(), &unnamed.entry.vnode, name("linked")).unwrap();
    put(&directory.vnode, "below", b"8").unwrap();
    file_system.sync().unwrap();
    drop((unnamed, directory));
    assert!(get(&root, "linked").unwrap() == [7; 5000]);
    assert_eq!(get(&root, "Z/below").unwrap(), b"8");
    drop(root);
    drop(file_system);
    image::check(&device);
}

#[test]
fn short_names_are_translated() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, without_sidecars());
    put(&file_system.root(), "README.TXT", b"").unwrap();
    put(&file_system.root(), "Mixed.txt", b"").unwrap();
    drop(file_system);
    for (translation, shown) in
        [(Translation::Stored, "README.TXT"), (Translation::Lower, "readme.txt"), (Translation::Joined, "READMETXT")]
    {
        let file_system = image::mount(&device, Options { translation, read_only: true, ..without_sidecars() });
        let mut expected = ["Mixed.txt", shown];
        expected.sort_unstable();
        assert_eq!(names(&file_system.root()), expected);
        find(&file_system.root(), shown).unwrap();
    }
}

#[test]
fn without_metadata_owners_and_modes_are_those_of_the_options() {
    let Some(device) = device() else { return };
    let options = Options { uid: 5, gid: 6, file_mode: 0o640, directory_mode: 0o750, ..without_sidecars() };
    let file_system = image::mount(&device, options.clone());
    let root = file_system.root();
    let file = put(&root, "file", b"text").unwrap();
    let shown = file.getattr(&superuser()).unwrap();
    assert_eq!((shown.uid, shown.gid, shown.mode), (5, 6, 0o640));
    assert_eq!(root.getattr(&superuser()).unwrap().mode, 0o750);
    assert_eq!(set(&file, SetAttributes { mode: Some(0o600), ..Default::default() }), Err(Errno::EPERM));
    assert_eq!(set(&file, SetAttributes { uid: Some(7), ..Default::default() }), Err(Errno::EPERM));
    set(&file, SetAttributes { mode: Some(0o440), uid: Some(5), ..Default::default() }).unwrap();
    assert_eq!(root.symlink(&superuser(), name("link"), b"target").err(), Some(Errno::EPERM));
    let fifo = root.mknod(&superuser(), name("fifo"), FileKind::Fifo, 0o644, Device::default());
    assert_eq!(fifo.err(), Some(Errno::EPERM));
    assert_eq!(root.link(&superuser(), &file, name("link")).err(), Some(Errno::EPERM));
    assert_eq!(file.setxattr(&superuser(), b"user.a", b"1", XattrMode::Set), Err(Errno::EOPNOTSUPP));
    let time = Timestamp { seconds: 1_500_000_001, nanoseconds: 5 };
    let times = SetAttributes { mtime: Some(SetTime::To(time)), ..Default::default() };
    assert_eq!(set(&file, times).unwrap().mtime, Timestamp { seconds: 1_500_000_000, nanoseconds: 0 });
    drop((root, file, file_system));
    image::check(&device);
    let file_system = image::mount(&device, Options { time_offset_minutes: 60, ..options });
    let shown = find(&file_system.root(), "file").unwrap().attributes;
    assert_eq!((shown.mode, shown.mtime.seconds), (0o440, 1_500_000_000 - 3600));
}

#[test]
fn metadata_stays_in_sidecars_that_nobody_sees() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, with_sidecars());
    let root = file_system.root();
    let directory = root.mkdir(&superuser(), name("directory"), 0o711).unwrap().vnode;
    let file = put(&directory, "file", b"text").unwrap();
    let time = Timestamp { seconds: -5, nanoseconds: 123_456_789 };
    let changes = SetAttributes {
        mode: Some(0o4751),
        uid: Some(77),
        gid: Some(88),
        mtime: Some(SetTime::To(time)),
        ..Default::default()
    };
    set(&file, changes).unwrap();
    file.setxattr(&superuser(), b"user.name", &[7; 3000], XattrMode::Create).unwrap();
    directory.symlink(&superuser(), name("symlink"), b"../target").unwrap();
    let device_number = Device { major: 8, minor: 1 };
    directory.mknod(&superuser(), name("device"), FileKind::BlockDevice, 0o600, device_number).unwrap();
    set(&root, SetAttributes { mode: Some(0o1777), ..Default::default() }).unwrap();
    assert_eq!(names(&directory), ["device", "file", "symlink"]);
    assert_eq!(put(&directory, "plyfs.atr", b"").err(), Some(Errno::EPERM));
    let before = file.getattr(&superuser()).unwrap();
    drop((root, directory, file, file_system));
    image::check(&device);
    let file_system = image::mount(&device, Options { metadata: MetadataMode::Auto, ..with_sidecars() });
    let root = file_system.root();
    assert_eq!((names(&root), root.getattr(&superuser()).unwrap().mode), (vec!["directory".to_owned()], 0o1777));
    let found = find(&root, "directory/file").unwrap();
    let shown = found.attributes;
    assert_eq!((shown.mode, shown.uid, shown.gid, shown.mtime), (0o4751, 77, 88, time));
    assert_eq!((shown.ctime, shown.btime), (before.ctime, before.btime));
    assert_eq!(found.vnode.getxattr(&superuser(), b"user.name").unwrap(), [7; 3000]);
    assert_eq!(find(&root, "directory/symlink").unwrap().vnode.readlink(&superuser()).unwrap(), b"../target");
    assert_eq!(find(&root, "directory/device").unwrap().attributes.rdev, device_number);
    drop((root, found, file_system));
    let file_system = image::mount(&device, without_sidecars());
    assert_eq!(names(&find(&file_system.root(), "directory").unwrap().vnode).len(), 4, "without them they are files");
}

#[test]
fn metadata_is_found_after_others_renamed_a_file() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, with_sidecars());
    let root = file_system.root();
    for text in ["one", "two"] {
        let file = put(&root, text, text.as_bytes()).unwrap();
        set(&file, SetAttributes { uid: Some(text.len() as u32 * 10), mode: Some(0o601), ..Default::default() })
            .unwrap();
    }
    drop((root, file_system));
    let others = image::mount(&device, without_sidecars());
    rename(&others.root(), "one", &others.root(), "three").unwrap();
    put(&others.root(), "one", b"new").unwrap();
    set(&find(&others.root(), "two").unwrap().vnode, SetAttributes { mode: Some(0o555), ..Default::default() })
        .unwrap();
    drop(others);
    let file_system = image::mount(&device, with_sidecars());
    let mode = |text: &str| find(&file_system.root(), text).unwrap().attributes.mode;
    assert_eq!((mode("three"), mode("two")), (0o755, 0o401), "of a name that exists the record is the name's");
    drop(file_system);
    let others = image::mount(&device, without_sidecars());
    others.root().unlink(&superuser(), name("one")).unwrap();
    drop(others);
    let file_system = image::mount(&device, with_sidecars());
    assert_eq!(find(&file_system.root(), "three").unwrap().attributes.mode, 0o601);
}

#[test]
fn a_file_that_others_changed_does_not_act_for_its_owner() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, with_sidecars());
    let root = file_system.root();
    for text in ["rewritten", "empty", "replaced", "kept", "renamed"] {
        let file = put(&root, text, if text == "empty" { b"" } else { b"text" }).unwrap();
        let changes = SetAttributes { mode: Some(0o6755), uid: Some(7), ..Default::default() };
        set(&file, changes).unwrap();
        set(&file, SetAttributes { mode: Some(0o6755), ..Default::default() }).unwrap();
        file.setxattr(&superuser(), b"security.capability", &capability(), XattrMode::Set).unwrap();
    }
    root.mknod(&superuser(), name("device"), FileKind::BlockDevice, 0o600, Device { major: 8, minor: 1 }).unwrap();
    drop((root, file_system));
    let others = image::mount(&device, without_sidecars());
    let root = others.root();
    for text in ["rewritten", "empty", "device"] {
        let file = find(&root, text).unwrap();
        put(&root, text, b"other text").unwrap();
        // Some programs restore the time of what they change.
        let mtime = Some(SetTime::To(file.attributes.mtime));
        set(&file.vnode, SetAttributes { mtime, ..Default::default() }).unwrap();
    }
    root.unlink(&superuser(), name("replaced")).unwrap();
    put(&root, "replaced", b"text").unwrap();
    rename(&root, "renamed", &root, "with another name").unwrap();
    drop((root, others));
    let file_system = image::mount(&device, with_sidecars());
    let shown = |text: &str| {
        let entry = find(&file_system.root(), text).unwrap();
        let has_capability = entry.vnode.getxattr(&superuser(), b"security.capability").is_ok();
        (entry.attributes.mode, entry.attributes.uid, has_capability)
    };
    for text in ["rewritten", "empty", "replaced"] {
        assert_eq!(shown(text), (0o755, 7, false), "{text}");
    }
    assert_eq!([shown("kept"), shown("with another name")], [(0o6755, 7, true); 2]);
    let device = find(&file_system.root(), "device").unwrap().attributes;
    assert_eq!((device.kind, device.mode, device.size), (FileKind::Regular, 0o600, 10));
}

/// Returns a valid value of `security.capability`.
fn capability() -> [u8; 20] {
    let mut value = [0; 20];
    value[3] = 2;
    value
}

#[test]
fn metadata_is_found_whatever_the_names_are_shown_as() {
    let Some(device) = device() else { return };
    let options = Options { code_page: 850, ..with_sidecars() };
    let file_system = image::mount(&device, options.clone());
    for (text, uid) in [("README.TXT", 1), ("\u{d8}.TXT", 2), ("A long name", 3)] {
        let file = put(&file_system.root(), text, b"").unwrap();
        set(&file, SetAttributes { uid: Some(uid), ..Default::default() }).unwrap();
    }
    drop(file_system);
    for (translation, code_page) in [(Translation::Joined, 850), (Translation::Lower, 437), (Translation::Stored, 850)]
    {
        let file_system = image::mount(&device, Options { translation, code_page, ..options.clone() });
        let root = file_system.root();
        let mut owners: Vec<u32> = names(&root).iter().map(|text| find(&root, text).unwrap().attributes.uid).collect();
        owners.sort_unstable();
        assert_eq!(owners, [1, 2, 3], "{translation:?}, {code_page}");
        // What is changed by these names is found by others.
        for text in names(&root) {
            let mode = SetAttributes { mode: Some(0o600), ..Default::default() };
            set(&find(&root, &text).unwrap().vnode, mode).unwrap();
        }
    }
    let file_system = image::mount(&device, options);
    assert_eq!(names(&file_system.root()).len(), 3);
    assert_eq!(find(&file_system.root(), "readme.txt").unwrap().attributes.mode, 0o600);
}

#[test]
fn sidecars_do_not_grow_forever() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, with_sidecars());
    let root = file_system.root();
    let file = put(&root, "file", b"text").unwrap();
    file_system.sync().unwrap();
    let before = root.statfs(&superuser()).unwrap().blocks_free;
    for round in 0..2000_u32 {
        set(&file, SetAttributes { mode: Some(round % 0o1000), ..Default::default() }).unwrap();
        file_system.sync().unwrap();
    }
    file_system.sync().unwrap();
    let taken = before - root.statfs(&superuser()).unwrap().blocks_free;
    assert!(taken <= 64, "{taken} clusters");
    drop((root, file, file_system));
    image::check(&device);
    let file_system = image::mount(&device, with_sidecars());
    assert_eq!(find(&file_system.root(), "file").unwrap().attributes.mode, 1999 % 0o1000);
}

#[test]
fn unlinked_files_stay_usable_and_give_their_space_back() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, without_sidecars());
    let root = file_system.root();
    let free = || root.statfs(&superuser()).unwrap().blocks_free;
    put(&root, "kept", b"so that there is a journal").unwrap();
    file_system.sync().unwrap();
    let at_first = free();
    put(&root, "file", &[1; 1 << 20]).unwrap();
    let file = find(&root, "file").unwrap().vnode.open(&superuser(), OpenFlags::READ_WRITE).unwrap();
    root.unlink(&superuser(), name("file")).unwrap();
    file_system.sync().unwrap();
    put(&root, "other", &[2; 1 << 20]).unwrap();
    assert_eq!(file.write_at(&superuser(), 1 << 20, &[3; 1000]), Ok(1000));
    let mut bytes = [0; 2000];
    assert_eq!(file.read_at(&superuser(), (1 << 20) - 1000, &mut bytes), Ok(2000));
    assert_eq!((bytes[999], bytes[1000], file.getattr(&superuser()).unwrap().nlink), (1, 3, 0));
    drop(file);
    root.unlink(&superuser(), name("other")).unwrap();
    file_system.sync().unwrap();
    assert_eq!(free(), at_first);
    put(&root, "open", &[4; 5000]).unwrap();
    let open = find(&root, "open").unwrap().vnode.open(&superuser(), OpenFlags::READ_WRITE).unwrap();
    root.unlink(&superuser(), name("open")).unwrap();
    drop((root, file_system));
    assert_eq!(open.write_at(&superuser(), 0, b"x"), Err(Errno::EROFS), "the volume is unmounted");
    image::check(&device);
}

#[test]
fn unnamed_files_can_get_names() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, with_sidecars());
    let root = file_system.root();
    let how = Creation { mode: 0o640, flags: OpenFlags::READ_WRITE };
    let created = root.tmpfile(&superuser(), &how).unwrap();
    vnode::write_fully(&*created.file, &superuser(), 0, &[9; 10_000]).unwrap();
    let vnode = created.entry.vnode;
    root.link(&superuser(), &vnode, name("named")).unwrap();
    root.link(&superuser(), &vnode, name("again")).unwrap();
    root.unlink(&superuser(), name("again")).unwrap();
    drop(root.tmpfile(&superuser(), &how).unwrap());
    drop((root, vnode, created.file, file_system));
    image::check(&device);
    let file_system = image::mount(&device, with_sidecars());
    assert_eq!(find(&file_system.root(), "named").unwrap().attributes.mode, 0o640);
    assert_eq!(get(&file_system.root(), "named").unwrap(), [9; 10_000]);
}

#[test]
fn space_of_removed_files_is_used_without_waiting() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, without_sidecars());
    let root = file_system.root();
    for round in 0..5 {
        put(&root, "large", &vec![round; 30 << 20]).unwrap();
        root.unlink(&superuser(), name("large")).unwrap();
    }
    put(&root, "large", &vec![7; 30 << 20]).unwrap();
    assert_eq!(put(&root, "too large", &vec![7; 30 << 20]).err(), Some(Errno::ENOSPC));
    let file = find(&root, "too large").unwrap().vnode;
    let size = file.getattr(&superuser()).unwrap().size;
    assert_eq!(set(&file, SetAttributes { size: Some(size + (30 << 20)), ..Default::default() }), Err(Errno::ENOSPC));
    assert_eq!(file.getattr(&superuser()).unwrap().size, size);
    drop((root, file, file_system));
    image::check(&device);
}

#[test]
fn files_have_less_than_four_gibibytes() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, without_sidecars());
    put(&file_system.root(), "file", b"text").unwrap();
    let vnode = find(&file_system.root(), "file").unwrap().vnode;
    let file = vnode.open(&superuser(), OpenFlags::READ_WRITE).unwrap();
    assert_eq!(file.write_at(&superuser(), u64::from(u32::MAX), b"x"), Err(Errno::EFBIG));
    assert_eq!(file.truncate(&superuser(), 1 << 32), Err(Errno::EFBIG));
    assert_eq!(file.write_at(&superuser(), u64::from(u32::MAX) - 1, b"xy"), Err(Errno::ENOSPC));
    assert_eq!(file.allocate(&superuser(), AllocateMode::PUNCH_HOLE, 0, 1), Err(Errno::EOPNOTSUPP));
    file.allocate(&superuser(), AllocateMode::KEEP_SIZE, 0, 1 << 20).unwrap();
    assert_eq!(file.getattr(&superuser()).unwrap().blocks, 2048);
    drop((file, vnode, file_system));
    image::check(&device);
}

#[test]
fn directories_of_fixed_size_become_full() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, without_sidecars());
    let root = file_system.root();
    let mut count = 0;
    let full = loop {
        match put(&root, &format!("F{count}"), b"") {
            Ok(_) => count += 1,
            Err(errno) => break errno,
        }
    };
    // One entry of 512 is the journal's.
    assert_eq!((full, count), (Errno::ENOSPC, 511));
    root.unlink(&superuser(), name("F100")).unwrap();
    put(&root, "G", b"x").unwrap();
    assert_eq!(put(&root, "a long name", b"x").err(), Some(Errno::ENOSPC));
    drop((root, file_system));
    image::check(&device);
}

#[test]
fn handles_and_numbers_survive() {
    for options in [without_sidecars(), with_sidecars()] {
        let Some(device) = image::format(KINDS[2]).map(Arc::new) else { return };
        let file_system = image::mount(&device, options.clone());
        let root = file_system.root();
        let directory = root.mkdir(&superuser(), name("directory"), 0o755).unwrap().vnode;
        let inner = directory.mkdir(&superuser(), name("inner"), 0o755).unwrap().vnode;
        let empty = put(&inner, "empty", b"").unwrap();
        let number = empty.getattr(&superuser()).unwrap().ino;
        drop(empty);
        let file = find(&inner, "empty").unwrap();
        assert_eq!(file.attributes.ino, number);
        rename(&inner, "empty", &root, "file").unwrap();
        put(&root, "file", &[1; 9000]).unwrap();
        drop(file);
        file_system.sync().unwrap();
        let file = find(&root, "file").unwrap();
        assert_eq!(file.attributes.ino, number);
        put(&inner, "fixed", b"1").unwrap();
        put(&inner, "moved", b"2").unwrap();
        let handle = |path: &str| find(&root, path).unwrap().vnode.handle();
        let handles = ["file", "directory/inner", "directory/inner/fixed", "directory/inner/moved"].map(handle);
        rename(&inner, "moved", &root, "elsewhere").unwrap();
        put(&root, "gone", b"3").unwrap();
        let gone = handle("gone");
        root.unlink(&superuser(), name("gone")).unwrap();
        put(&root, "gone", b"4").unwrap();
        drop((root, directory, inner, file, file_system));
        image::check(&device);
        let file_system = image::mount(&device, options);
        let resolve = |handle: &vnode::Handle| file_system.resolve(&superuser(), handle);
        for (handle, path) in handles.iter().zip(["file", "directory/inner", "directory/inner/fixed", "elsewhere"]) {
            assert_eq!(resolve(handle).unwrap().path().unwrap(), path.as_bytes());
        }
        assert_eq!(resolve(&gone).err(), Some(Errno::ESTALE));
        assert_eq!(resolve(&file_system.root().handle()).unwrap().path().unwrap(), b"");
        assert_eq!(resolve(&vnode::Handle::new(b"other").unwrap()).err(), Some(Errno::ESTALE));
    }
}

#[test]
fn directories_are_moved_with_their_parents() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, with_sidecars());
    let root = file_system.root();
    let [one, two] = ["one", "two"].map(|text| root.mkdir(&superuser(), name(text), 0o755).unwrap().vnode);
    let inner = one.mkdir(&superuser(), name("inner"), 0o755).unwrap().vnode;
    put(&inner, "file", b"text").unwrap();
    assert_eq!(rename(&root, "one", &inner, "loop"), Err(Errno::EINVAL));
    rename(&one, "inner", &two, "moved").unwrap();
    assert_eq!(inner.parent(&superuser()).unwrap().handle(), two.handle());
    assert_eq!(rename(&root, "one", &two, "moved"), Err(Errno::ENOTEMPTY));
    root.rename(&superuser(), name("one"), &two, name("moved"), RenameMode::Exchange).unwrap();
    assert_eq!((one.path().unwrap(), inner.path().unwrap()), (b"two/moved".to_vec(), b"one".to_vec()));
    assert_eq!(root.rmdir(&superuser(), name("one")), Err(Errno::ENOTEMPTY));
    inner.unlink(&superuser(), name("file")).unwrap();
    root.rmdir(&superuser(), name("one")).unwrap();
    drop((root, one, two, inner, file_system));
    image::check(&device);
}

#[test]
fn the_volume_is_marked_as_in_use_from_the_first_change_on() {
    let Some(device) = device() else { return };
    let initial = device.contents();
    let file_system = image::mount(&device, without_sidecars());
    names(&file_system.root());
    drop(file_system);
    assert!(device.contents() == initial, "nothing was changed");
    let file_system = image::mount(&device, without_sidecars());
    put(&file_system.root(), "file", b"text").unwrap();
    let crashed = MemoryDevice::clone(&device);
    assert!(!image::examine(&crashed).0);
    let again = Arc::new(crashed);
    drop(image::mount(&again, Options { preen: false, ..without_sidecars() }));
    assert!(!image::examine(&again).0, "only a check marks it as unmounted");
    drop(image::mount(&again, without_sidecars()));
    image::check(&again);
    drop(file_system);
    image::check(&device);
}

#[test]
fn a_volume_that_is_mounted_read_only_is_not_changed() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, without_sidecars());
    put(&file_system.root(), "file", b"text").unwrap();
    drop(file_system);
    let initial = device.contents();
    let file_system = image::mount(&device, Options { read_only: true, ..with_sidecars() });
    let root = file_system.root();
    assert_eq!(get(&root, "file").unwrap(), b"text");
    assert_eq!(put(&root, "other", b"").err(), Some(Errno::EROFS));
    assert_eq!(root.unlink(&superuser(), name("file")), Err(Errno::EROFS));
    assert_eq!(root.access(&superuser(), AccessMode::WRITE), Err(Errno::EROFS));
    let file = find(&root, "file").unwrap().vnode;
    assert_eq!(file.open(&superuser(), OpenFlags::WRITE).err(), Some(Errno::EROFS));
    assert!(file_system.properties().needs.read_only);
    drop((root, file, file_system));
    assert!(device.contents() == initial);
}

#[test]
fn after_an_error_the_volume_can_still_be_read() {
    let Some(device) = device() else { return };
    let shared: DeviceRef = device.clone();
    let faulty = Arc::new(FaultyDevice::new(shared));
    let file_system = FatFileSystem::open(faulty.clone(), "test", without_sidecars()).unwrap();
    let root = file_system.root();
    put(&root, "before", &[1; 100_000]).unwrap();
    file_system.sync().unwrap();
    faulty.add(Fault::of([Operation::Write, Operation::Flush], Effect::Error(Errno::EIO)));
    assert_eq!(put(&root, "after", &[2; 100_000]).err(), Some(Errno::EIO));
    assert_eq!(put(&root, "later", b"").err(), Some(Errno::EROFS));
    assert_eq!(file_system.sync(), Err(Errno::EIO));
    assert_eq!(get(&root, "before").unwrap(), [1; 100_000]);
    assert_eq!(file_system.end(), Err(Errno::EIO));
}

#[test]
fn copies_of_the_table_agree_after_unmounting() {
    let Some(device) = device() else { return };
    let options = Options { mirror: MirrorMode::AtUnmount, journal: false, ..without_sidecars() };
    let file_system = image::mount(&device, options);
    for number in 0..20 {
        put(&file_system.root(), &format!("A file with the number {number}"), &[1; 20_000]).unwrap();
        file_system.sync().unwrap();
    }
    assert!(image::examine(&MemoryDevice::clone(&device)).1.contains("FATs differ"));
    drop(file_system);
    image::check(&device);
}

#[test]
fn many_directories_need_little_memory() {
    let Some(device) = image::format(KINDS[2]).map(Arc::new) else { return };
    let options = Options { memory: 64 << 10, ..with_sidecars() };
    let file_system = image::mount(&device, options.clone());
    for number in 0..60 {
        let directory = file_system.root().mkdir(&superuser(), name(&format!("directory {number}")), 0o755).unwrap();
        for inner in 0..30 {
            put(&directory.vnode, &format!("a file with the number {inner}"), format!("{number} {inner}").as_bytes())
                .unwrap();
        }
    }
    for number in 0..60 {
        let path = format!("directory {number}/a file with the number {}", number % 30);
        assert_eq!(get(&file_system.root(), &path).unwrap(), format!("{number} {}", number % 30).as_bytes());
    }
    drop(file_system);
    image::check(&device);
    let file_system = image::mount(&device, options);
    assert_eq!(names(&file_system.root()).len(), 60);
}

#[test]
fn records_that_take_too_much_memory_are_not_missed() {
    let Some(device) = image::format(KINDS[2]).map(Arc::new) else { return };
    let file_system = image::mount(&device, with_sidecars());
    let root = file_system.root();
    let directory = root.mkdir(&superuser(), name("directory"), 0o755).unwrap().vnode;
    for number in 0..90 {
        let file = put(&directory, &format!("file {number}"), b"text").unwrap();
        file.setxattr(&superuser(), b"user.large", &[number; 60_000], XattrMode::Set).unwrap();
    }
    put(&root, "other", b"text").unwrap();
    drop((root, directory, file_system));
    let little = Options { memory: 0, ..with_sidecars() };
    let file_system = image::mount(&device, little);
    let root = file_system.root();
    let directory = find(&root, "directory").unwrap().vnode;
    assert_eq!(find(&directory, "file 7").err(), Some(Errno::ENOMEM));
    assert_eq!(put(&directory, "new", b"").err(), Some(Errno::ENOMEM));
    assert_eq!(get(&root, "other").unwrap(), b"text");
    let second = root.mkdir(&superuser(), name("second"), 0o755).unwrap().vnode;
    let set_one = |number: u8| {
        let file = put(&second, &format!("file {number}"), b"text")?;
        file.setxattr(&superuser(), b"user.large", &[number; 60_000], XattrMode::Set)
    };
    assert_eq!(
        (0..90).map(set_one).find_map(Result::err),
        Some(Errno::ENOSPC),
        "nothing is stored that cannot be read"
    );
    drop((root, directory, second, file_system));
    image::check(&device);
    let file_system = image::mount(&device, with_sidecars());
    let file = find(&file_system.root(), "directory/file 7").unwrap().vnode;
    assert_eq!(file.getxattr(&superuser(), b"user.large").unwrap(), [7; 60_000]);
}

#[test]
fn what_is_no_fat_file_system_is_not_mounted() {
    let open = |device| FatFileSystem::open(Arc::new(device), "test", without_sidecars()).err();
    assert!(matches!(open(MemoryDevice::new(1 << 20)), Some(MountError::NotFat(_))));
    assert_eq!(open(MemoryDevice::new(100)), Some(MountError::Device(Errno::EIO)));
}

/// Damages the tables and directories of a volume at random, and uses whatever is left. `DAMAGE_SEED` replays a failure.
#[test]
fn damaged_volumes_do_no_harm() {
    let seed = std::env::var("DAMAGE_SEED").ok().and_then(|text| text.parse().ok());
    let rounds = if seed.is_some() { 1 } else { 60 };
    for _ in 0..rounds {
        let seed = seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
        println!("DAMAGE_SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let kind = KINDS[random.usize(0..3)];
        let Some(device) = image::format(image::Kind { size: kind.size / 2, ..kind }).map(Arc::new) else { return };
        let file_system = image::mount(&device, with_sidecars());
        fill(&file_system.root(), 3);
        drop(file_system);
        let mut contents = device.contents();
        let used = contents.iter().rposition(|&byte| byte != 0).unwrap();
        for _ in 0..random.usize(1..200) {
            let at = random.usize(1024..used);
            contents[at] = random.u8(..);
        }
        let damaged = MemoryDevice::from_bytes(&contents);
        if let Ok(file_system) = FatFileSystem::open(Arc::new(damaged), "damaged", with_sidecars()) {
            for _ in 0..3 {
                use_all(&file_system.root(), &mut random, 0);
                let _ = file_system.sync();
            }
        }
    }
}

fn fill(directory: &VnodeRef, depth: usize) {
    for number in 0..6 {
        let file = put(directory, &format!("a file with number {number}"), &vec![1; number * 3000]).unwrap();
        if number % 2 == 0 {
            directory.link(&superuser(), &file, name(&format!("again {number}"))).unwrap();
        }
    }
    if depth > 0 {
        for number in 0..2 {
            fill(&directory.mkdir(&superuser(), name(&format!("d{number}")), 0o755).unwrap().vnode, depth - 1);
        }
    }
}

/// Reads, changes, moves and removes what is in a directory, whatever comes of it.
fn use_all(directory: &VnodeRef, random: &mut fastrand::Rng, depth: usize) {
    let mut names = Vec::new();
    let Ok(open) = directory.open_directory(&superuser()) else { return };
    let _ = open.read(&superuser(), vnode::Cookie::START, &mut |entry| {
        names.push(entry.name.to_owned());
        std::ops::ControlFlow::Continue(())
    });
    for own in names {
        let own = own.as_name();
        let Ok(entry) = directory.lookup(&superuser(), own) else { continue };
        let _ = entry.vnode.path();
        if entry.attributes.is_directory() && depth < 6 {
            use_all(&entry.vnode, random, depth + 1);
        }
        if let Ok(file) = entry.vnode.open(&superuser(), OpenFlags::READ_WRITE) {
            let _ = file.read_at(&superuser(), 0, &mut vec![0; 30_000]);
            let _ = file.write_at(&superuser(), random.u64(0..30_000), &[3; 1000]);
            let _ = file.truncate(&superuser(), random.u64(0..40_000));
        }
        match random.u8(0..7) {
            0 => drop(directory.unlink(&superuser(), own)),
            6 => drop(directory.link(&superuser(), &entry.vnode, name(&format!("linked {}", random.u8(..))))),
            1 => drop(directory.rmdir(&superuser(), own)),
            2 => drop(rename(directory, &own.display().to_string(), directory, "renamed")),
            3 => drop(directory.mkdir(&superuser(), name(&format!("made {}", random.u8(..))), 0o755)),
            4 => drop(set(&entry.vnode, SetAttributes { mode: Some(0o600), ..Default::default() })),
            _ => drop(put(directory, "new", &[1; 5000])),
        }
    }
}
