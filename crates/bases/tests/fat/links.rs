//! Hard links: objects with several names, what of them stays after unmounting, what other systems make of them, and damaged stores.

use std::sync::Arc;

use plyfs_bases::device::{Device as _, MemoryDevice};
use plyfs_bases::fat::tools::fsck::FsckMode;
use plyfs_bases::fat::{FatFileSystem, MetadataMode, Options};
use vnode::{Creation, Device, Errno, FileKind, FileSystem, OpenFlags, RenameMode, SetAttributes, VnodeRef, XattrMode};

use crate::image::{self, KINDS, find, get, name, names, put, superuser, with_sidecars, without_sidecars};

/// Offset of the time of creation in an entry: hundredths, time, date.
const CREATED: u64 = 13;

fn device() -> Option<Arc<MemoryDevice>> {
    image::format(KINDS[1]).map(Arc::new)
}

fn mount(device: &Arc<MemoryDevice>) -> (FatFileSystem, VnodeRef) {
    let file_system = image::mount(device, with_sidecars());
    let root = file_system.root();
    (file_system, root)
}

/// Mounts a device as another system does, which knows nothing of links and changes neither journal nor sidecars.
fn mount_elsewhere(device: &Arc<MemoryDevice>) -> (FatFileSystem, VnodeRef) {
    let file_system = image::mount(device, Options { journal: false, ..without_sidecars() });
    let root = file_system.root();
    (file_system, root)
}

fn link(directory: &VnodeRef, object: &VnodeRef, text: &str) -> vnode::Result<()> {
    directory.link(&superuser(), object, name(text)).map(drop)
}

fn unlink(directory: &VnodeRef, text: &str) -> vnode::Result<()> {
    directory.unlink(&superuser(), name(text))
}

fn rename(from: &VnodeRef, name_from: &str, to: &VnodeRef, name_to: &str) -> vnode::Result<()> {
    from.rename(&superuser(), name(name_from), to, name(name_to), RenameMode::Replace)
}

/// Returns inode number and link count.
fn identity(root: &VnodeRef, path: &str) -> (u64, u32) {
    let attributes = find(root, path).unwrap().attributes;
    (attributes.ino.get(), attributes.nlink)
}

fn nlink(vnode: &VnodeRef) -> u32 {
    vnode.getattr(&superuser()).unwrap().nlink
}

/// Returns the offset of the store on a FAT16 volume, and its size as far as the tests fill it.
fn store_range(contents: &[u8]) -> (usize, usize) {
    let word = |at: usize| usize::from(u16::from_le_bytes([contents[at], contents[at + 1]]));
    let (sector, per_cluster, reserved) = (word(11), usize::from(contents[13]), word(14));
    let root = (reserved + usize::from(contents[16]) * word(22)) * sector;
    let clusters = root + word(17) * 32;
    let entry = contents[root..clusters].chunks_exact(32).find(|slot| slot.starts_with(b"PLYFS   LNK")).unwrap();
    let cluster = usize::from(u16::from_le_bytes([entry[26], entry[27]]));
    (clusters + (cluster - 2) * per_cluster * sector, per_cluster * sector)
}

/// Returns the offsets of the entries with an extension in the store, of which each name has 8 hexadecimal digits.
fn stored(device: &MemoryDevice, extension: &[u8; 3]) -> Vec<u64> {
    let contents = device.contents();
    let (start, length) = store_range(&contents);
    let is_it = |slot: &[u8]| {
        slot[8..11] == *extension && slot[..8].iter().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'))
    };
    let slots = contents[start..start + length].chunks_exact(32).enumerate();
    slots.filter(|(_, slot)| is_it(slot)).map(|(index, _)| (start + index * 32) as u64).collect()
}

fn patch(device: &MemoryDevice, offset: u64, bytes: &[u8]) {
    device.write_at(offset, bytes).unwrap();
}

/// Returns the time of creation that stands for a number.
fn time_of(mut number: u64) -> [u8; 5] {
    let mut take = |count| {
        let digit = number % count;
        number /= count;
        digit as u16
    };
    let (hundredths, half_seconds, minute, hour) = (take(200), take(30), take(60), take(24));
    let (day, month) = (take(28) + 1, take(12) + 1);
    let [time, date] = [hour << 11 | minute << 5 | half_seconds, (119 + number as u16) << 9 | month << 5 | day];
    let ([time_low, time_high], [date_low, date_high]) = (time.to_le_bytes(), date.to_le_bytes());
    [hundredths as u8, time_low, time_high, date_low, date_high]
}

#[test]
fn all_names_are_of_one_object() {
    for kind in KINDS {
        let Some(device) = image::format(kind).map(Arc::new) else { return };
        let (file_system, root) = mount(&device);
        let directory = root.mkdir(&superuser(), name("directory"), 0o755).unwrap().vnode;
        let file = put(&root, "one", &[1; 10_000]).unwrap();
        let (number, _) = identity(&root, "one");
        link(&directory, &file, "Two with a long name").unwrap();
        link(&root, &file, "three").unwrap();
        let paths = ["one", "directory/Two with a long name", "three"];
        let check_all = |root: &VnodeRef, contents: &[u8]| {
            for path in paths {
                let attributes = find(root, path).unwrap().attributes;
                assert_eq!((attributes.ino.get(), attributes.nlink, attributes.mode), (number, 3, 0o640), "{path}");
                assert!(get(root, path).unwrap() == contents, "{path}");
                assert_eq!(find(root, path).unwrap().vnode.getxattr(&superuser(), b"user.a").unwrap(), b"value");
            }
        };
        let changed = SetAttributes { mode: Some(0o640), ..Default::default() };
        find(&root, paths[1]).unwrap().vnode.setattr(&superuser(), &changed).unwrap();
        find(&root, paths[2]).unwrap().vnode.setxattr(&superuser(), b"user.a", b"value", XattrMode::Set).unwrap();
        put(&directory, "Two with a long name", &[2; 20_000]).unwrap();
        assert_eq!(find(&root, "three").unwrap().vnode.handle(), file.handle());
        check_all(&root, &[2; 20_000]);
        drop((root, directory, file, file_system));
        image::check(&device);
        let (file_system, root) = mount(&device);
        check_all(&root, &[2; 20_000]);
        assert_eq!(names(&root), ["directory", "one", "three"]);
        drop((root, file_system));
        image::check(&device);
    }
}

#[test]
fn names_can_be_removed_in_each_order() {
    let Some(device) = device() else { return };
    for (round, order) in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]].into_iter().enumerate() {
        let (mut file_system, mut root) = mount(&device);
        let free = root.statfs(&superuser()).unwrap().blocks_free;
        let file = put(&root, "a", &[round as u8; 50_000]).unwrap();
        link(&root, &file, "b").unwrap();
        link(&root, &file, "c").unwrap();
        drop(file);
        let all = ["a", "b", "c"];
        for (removed, index) in order.into_iter().enumerate() {
            if round % 2 == 1 {
                drop((root, file_system));
                image::check(&device);
                (file_system, root) = mount(&device);
            }
            unlink(&root, all[index]).unwrap();
            for &left in &order[removed + 1..] {
                assert_eq!(identity(&root, all[left]).1, 2 - removed as u32);
                assert!(get(&root, all[left]).unwrap() == [round as u8; 50_000]);
            }
        }
        file_system.sync().unwrap();
        file_system.sync().unwrap();
        if round > 1 {
            // A sidecar may have become longer.
            let now = root.statfs(&superuser()).unwrap().blocks_free;
            assert!((free - 1..=free).contains(&now), "round {round}: {free}, then {now}");
        }
        drop((root, file_system));
        image::check(&device);
        assert_eq!(stored(&device, b"DAT").len() + stored(&device, b"CNT").len(), 0);
    }
}

#[test]
fn objects_of_each_kind_have_links() {
    let Some(device) = device() else { return };
    let (file_system, root) = mount(&device);
    let special = [
        ("fifo", FileKind::Fifo, Device::default()),
        ("socket", FileKind::Socket, Device::default()),
        ("character", FileKind::CharacterDevice, Device { major: 5, minor: 1 }),
        ("block", FileKind::BlockDevice, Device { major: 259, minor: 70_000 }),
        ("empty", FileKind::Regular, Device::default()),
    ];
    for (text, kind, rdev) in special {
        let vnode = root.mknod(&superuser(), name(text), kind, 0o604, rdev).unwrap().vnode;
        link(&root, &vnode, &format!("{text} again")).unwrap();
    }
    let symlink = root.symlink(&superuser(), name("symlink"), b"target").unwrap().vnode;
    link(&root, &symlink, "symlink again").unwrap();
    let kinds = |root: &VnodeRef| {
        let mut kinds = Vec::new();
        let open = root.open_directory(&superuser()).unwrap();
        let mut add = |entry: vnode::DirectoryEntry<'_>| {
            kinds.push((entry.name.display().to_string(), entry.kind.unwrap(), entry.ino.get()));
            std::ops::ControlFlow::Continue(())
        };
        open.read(&superuser(), vnode::Cookie::START, &mut add).unwrap();
        kinds
    };
    let check_all = |root: &VnodeRef| {
        for (text, kind, rdev) in special {
            let (one, other) = (find(root, text).unwrap(), find(root, &format!("{text} again")).unwrap());
            let attributes = one.attributes;
            assert_eq!((attributes.kind, attributes.rdev, attributes.nlink, attributes.mode), (kind, rdev, 2, 0o604));
            assert_eq!(one.vnode.handle(), other.vnode.handle());
        }
        assert_eq!(find(root, "symlink again").unwrap().vnode.readlink(&superuser()).unwrap(), b"target");
        assert_eq!(identity(root, "symlink").1, 2);
        for (text, kind, number) in kinds(root) {
            let attributes = find(root, &text).unwrap().attributes;
            assert_eq!((attributes.kind, attributes.ino.get()), (kind, number), "{text}");
        }
    };
    check_all(&root);
    drop((root, symlink, file_system));
    image::check(&device);
    let (file_system, root) = mount(&device);
    check_all(&root);
    drop((root, file_system));
    image::check(&device);
}

#[test]
fn an_open_file_outlives_all_its_names() {
    let Some(device) = device() else { return };
    let (file_system, root) = mount(&device);
    let file = put(&root, "one", &[7; 30_000]).unwrap();
    link(&root, &file, "two").unwrap();
    let open = file.open(&superuser(), OpenFlags::READ_WRITE).unwrap();
    unlink(&root, "one").unwrap();
    unlink(&root, "two").unwrap();
    file_system.sync().unwrap();
    assert_eq!((nlink(&file), link(&root, &file, "three").err()), (0, Some(Errno::ENOENT)));
    put(&root, "other", &[8; 200_000]).unwrap();
    let mut bytes = vec![0; 30_000];
    vnode::read_fully(&*open, &superuser(), 0, &mut bytes).unwrap();
    assert!(bytes == [7; 30_000]);
    drop((root, file, open, file_system));
    image::check(&device);
}

#[test]
fn renames_move_names() {
    for journal in [true, false] {
        let Some(device) = device() else { return };
        move_names(&device, &Options { journal, ..with_sidecars() });
    }
}

fn move_names(device: &Arc<MemoryDevice>, options: &Options) {
    let file_system = image::mount(device, options.clone());
    let root = file_system.root();
    let directory = root.mkdir(&superuser(), name("directory"), 0o755).unwrap().vnode;
    let file = put(&root, "one", b"linked").unwrap();
    link(&root, &file, "two").unwrap();
    link(&directory, &file, "three").unwrap();
    // Both are names of one object: nothing happens.
    rename(&root, "one", &root, "two").unwrap();
    rename(&root, "one", &directory, "three").unwrap();
    root.rename(&superuser(), name("one"), &root, name("two"), RenameMode::Exchange).unwrap();
    let no_replace = root.rename(&superuser(), name("one"), &root, name("two"), RenameMode::NoReplace);
    assert_eq!((no_replace, nlink(&file)), (Err(Errno::EEXIST), 3));
    // A name moves, within and across directories, over another object, and is replaced.
    rename(&root, "two", &directory, "Moved to a longer name").unwrap();
    put(&directory, "other", b"other").unwrap();
    rename(&root, "one", &directory, "other").unwrap();
    assert_eq!((get(&directory, "other").unwrap(), nlink(&file)), (b"linked".to_vec(), 3));
    put(&root, "new", b"new").unwrap();
    rename(&root, "new", &directory, "three").unwrap();
    assert_eq!((get(&directory, "three").unwrap(), nlink(&file)), (b"new".to_vec(), 2));
    // Exchanges, also with a directory.
    root.mkdir(&superuser(), name("sub"), 0o755).unwrap();
    root.rename(&superuser(), name("sub"), &directory, name("other"), RenameMode::Exchange).unwrap();
    assert_eq!(find(&directory, "other").unwrap().attributes.kind, FileKind::Directory);
    assert_eq!(rename(&directory, "other", &root, "sub"), Err(Errno::ENOTDIR));
    assert_eq!(rename(&root, "sub", &directory, "other"), Err(Errno::EISDIR));
    directory.rename(&superuser(), name("three"), &root, name("sub"), RenameMode::Exchange).unwrap();
    assert_eq!((get(&root, "sub").unwrap(), get(&directory, "three").unwrap()), (b"new".to_vec(), b"linked".to_vec()));
    directory.rename(&superuser(), name("three"), &root, name("three"), RenameMode::Whiteout).unwrap();
    assert_eq!(find(&directory, "three").unwrap().attributes.kind, FileKind::CharacterDevice);
    let expected = [("three", 2), ("directory/Moved to a longer name", 2)];
    for (path, count) in expected {
        assert_eq!((identity(&root, path).1, get(&root, path).unwrap()), (count, b"linked".to_vec()));
    }
    drop((root, directory, file, file_system));
    image::check(device);
    let (file_system, root) = mount(device);
    for (path, count) in expected {
        assert_eq!((identity(&root, path).1, get(&root, path).unwrap()), (count, b"linked".to_vec()));
    }
    drop((root, file_system));
}

#[test]
fn numbers_handles_and_paths_stay_valid() {
    let Some(device) = device() else { return };
    let (file_system, root) = mount(&device);
    let directory = root.mkdir(&superuser(), name("directory"), 0o755).unwrap().vnode;
    let before = put(&directory, "one", &[1; 5000]).unwrap();
    let (number, handle) = (identity(&directory, "one").0, before.handle());
    link(&root, &before, "two").unwrap();
    let fifo = root.mknod(&superuser(), name("fifo"), FileKind::Fifo, 0o644, Device::default()).unwrap().vnode;
    let (fifo_number, fifo_handle) = (identity(&root, "fifo").0, fifo.handle());
    link(&directory, &fifo, "fifo").unwrap();
    assert_eq!((identity(&root, "two").0, identity(&directory, "fifo").0), (number, fifo_number));
    assert!([&b"two"[..], b"directory/one"].contains(&&*before.path().unwrap()));
    drop((root, directory, before, fifo, file_system));
    let (file_system, root) = mount(&device);
    let resolved = file_system.resolve(&superuser(), &handle).unwrap();
    assert_eq!(resolved.getattr(&superuser()).unwrap().ino.get(), number);
    assert_eq!(file_system.resolve(&superuser(), &fifo_handle).unwrap().kind(), FileKind::Fifo);
    let other = find(&root, "two").unwrap().vnode;
    assert_eq!(resolved.path().unwrap(), b"two");
    let later = other.handle();
    let directory = find(&root, "directory").unwrap().vnode;
    unlink(&directory, "one").unwrap();
    drop((resolved, other, directory, root, file_system));
    let (file_system, root) = mount(&device);
    for handle in [handle, later] {
        let resolved = file_system.resolve(&superuser(), &handle).unwrap();
        assert_eq!(resolved.getattr(&superuser()).unwrap().ino.get(), number);
    }
    unlink(&root, "two").unwrap();
    file_system.sync().unwrap();
    assert_eq!(file_system.resolve(&superuser(), &handle).err(), Some(Errno::ESTALE));
    drop((root, file_system));
    image::check(&device);
}

#[test]
fn what_cannot_be_linked_is_refused() {
    let Some(device) = device() else { return };
    let (file_system, root) = mount(&device);
    let directory = root.mkdir(&superuser(), name("directory"), 0o755).unwrap().vnode;
    let file = put(&root, "file", b"text").unwrap();
    assert_eq!(link(&root, &directory, "again"), Err(Errno::EPERM));
    assert_eq!(link(&root, &file, "directory"), Err(Errno::EEXIST));
    assert_eq!(link(&root, &file, "a:b"), Err(Errno::EINVAL));
    assert_eq!(link(&root, &file, "plyfs.lnk"), Err(Errno::EPERM));
    assert_eq!(link(&file, &file, "again"), Err(Errno::ENOTDIR));
    assert_eq!(nlink(&file), 1);
    drop((root, directory, file, file_system));
    for metadata in [MetadataMode::None, MetadataMode::Inline, MetadataMode::Paper] {
        let Some(device) = image::format(KINDS[1]).map(Arc::new) else { return };
        let file_system = image::mount(&device, image::in_entries(metadata));
        let root = file_system.root();
        let file = put(&root, "file", b"text").unwrap();
        assert_eq!(link(&root, &file, "again"), Err(Errno::EPERM), "{metadata:?}");
    }
}

#[test]
fn nobody_sees_the_store() {
    let Some(device) = device() else { return };
    let (file_system, root) = mount(&device);
    assert_eq!(nlink(&root), 2);
    let file = put(&root, "one", b"text").unwrap();
    link(&root, &file, "two").unwrap();
    assert_eq!((names(&root), nlink(&root)), (vec!["one".to_owned(), "two".to_owned()], 2));
    assert_eq!(find(&root, "PLYFS.LNK").err(), Some(Errno::ENOENT));
    assert_eq!(root.mkdir(&superuser(), name("Plyfs.Lnk"), 0o755).err(), Some(Errno::EPERM));
    assert_eq!(root.rmdir(&superuser(), name("PLYFS.LNK")), Err(Errno::ENOENT));
    assert_eq!(rename(&root, "one", &root, "PLYFS.LNK"), Err(Errno::EPERM));
    drop((root, file, file_system));
    // Another directory of that name makes links impossible.
    let Some(device) = image::format(KINDS[1]).map(Arc::new) else { return };
    let (file_system, root) = mount_elsewhere(&device);
    root.mkdir(&superuser(), name("PLYFX.LNK"), 0o755).unwrap();
    drop((root, file_system));
    let device = image::renamed_by_others(&device, b"PLYFX   LNK");
    let (file_system, root) = mount(&device);
    let file = put(&root, "one", b"text").unwrap();
    assert_eq!(link(&root, &file, "two"), Err(Errno::EPERM));
    assert_eq!(names(&root), ["PLYFS.LNK", "one"]);
    drop((root, file, file_system));
    image::check(&device);
}

#[test]
fn the_last_name_is_an_ordinary_file_again() {
    let Some(device) = device() else { return };
    let (file_system, root) = mount(&device);
    let file = put(&root, "temporary", &[5; 9000]).unwrap();
    file_system.sync().unwrap();
    link(&root, &file, "final").unwrap();
    file_system.sync().unwrap();
    unlink(&root, "temporary").unwrap();
    let other = put(&root, "replaced", b"old").unwrap();
    link(&root, &other, "old").unwrap();
    put(&root, "new", b"new").unwrap();
    rename(&root, "new", &root, "replaced").unwrap();
    drop((root, file, other, file_system));
    image::check(&device);
    let (file_system, root) = mount_elsewhere(&device);
    assert_eq!(get(&root, "final").unwrap(), [5; 9000]);
    assert_eq!((get(&root, "replaced").unwrap(), get(&root, "old").unwrap()), (b"new".to_vec(), b"old".to_vec()));
    drop((root, file_system));
    let (file_system, root) = mount(&device);
    assert_eq!((names(&root), identity(&root, "final").1), (vec!["final".into(), "old".into(), "replaced".into()], 1));
    drop((root, file_system));
}

#[test]
fn a_link_that_fails_for_lack_of_space_changes_nothing() {
    let kind = image::Kind { size: 2 << 20, sectors_per_cluster: 1, ..KINDS[0] };
    let Some(device) = image::format(kind).map(Arc::new) else { return };
    let (file_system, root) = mount(&device);
    let directory = root.mkdir(&superuser(), name("directory"), 0o755).unwrap().vnode;
    let file = put(&root, "file", &[1; 3000]).unwrap();
    let mut count = 0;
    while put(&directory, &format!("A file that fills the volume, {count}"), &[9; 5000]).is_ok() {
        count += 1;
    }
    let mut linked = Vec::new();
    let error = loop {
        let text = format!("A name so long that its slots take space soon, {}", linked.len());
        match link(&directory, &file, &text) {
            Ok(()) => linked.push(text),
            Err(errno) => break errno,
        }
    };
    assert_eq!((error, nlink(&file)), (Errno::ENOSPC, linked.len() as u32 + 1));
    assert!(get(&root, "file").unwrap() == [1; 3000]);
    drop((root, directory, file, file_system));
    image::check(&device);
    let (file_system, root) = mount(&device);
    assert!(get(&root, "file").unwrap() == [1; 3000]);
    assert_eq!(identity(&root, "file").1, linked.len() as u32 + 1);
    drop((root, file_system));
}

#[test]
fn names_that_another_system_changes() {
    let Some(device) = device() else { return };
    let (file_system, root) = mount(&device);
    let directory = root.mkdir(&superuser(), name("directory"), 0o755).unwrap().vnode;
    for text in ["moved", "written", "removed"] {
        let file = put(&root, text, text.as_bytes()).unwrap();
        link(&directory, &file, &format!("{text} too")).unwrap();
    }
    drop((root, directory, file_system));
    let (file_system, root) = mount_elsewhere(&device);
    let directory = find(&root, "directory").unwrap().vnode;
    assert_eq!(get(&root, "moved").unwrap(), b"", "other systems see empty files");
    rename(&root, "moved", &directory, "moved elsewhere").unwrap();
    let writable = SetAttributes { mode: Some(0o755), ..Default::default() };
    find(&root, "written").unwrap().vnode.setattr(&superuser(), &writable).unwrap();
    put(&root, "written", b"by another system").unwrap();
    unlink(&root, "removed").unwrap();
    drop((root, directory, file_system));
    assert_eq!(codes(&device, FsckMode::Check), [("hard-link-count", 2)]);
    let (file_system, root) = mount(&device);
    assert_eq!(get(&root, "directory/moved elsewhere").unwrap(), b"moved");
    assert_eq!(identity(&root, "directory/moved elsewhere"), identity(&root, "directory/moved too"));
    assert_eq!(get(&root, "written").unwrap(), b"by another system");
    assert_eq!(identity(&root, "written").1, 1);
    // The counts are too high: nothing is lost.
    for text in ["written", "removed"] {
        let path = format!("directory/{text} too");
        assert_eq!((get(&root, &path).unwrap(), identity(&root, &path).1), (text.as_bytes().to_vec(), 2));
        unlink(&find(&root, "directory").unwrap().vnode, &format!("{text} too")).unwrap();
    }
    drop((root, file_system));
    assert_eq!(stored(&device, b"DAT").len(), 3, "two files without names are still there");
    let (repaired, report) = image::own_report(&device, FsckMode::Preen);
    assert_eq!((report.counts["hard-link-nameless"].repaired, report.unrepaired()), (2, 0), "{report}");
    image::check(&repaired);
    let (file_system, root) = mount(&Arc::new(repaired));
    let mut saved = ["FSCK0000.REC", "FSCK0001.REC"].map(|path| get(&root, path).unwrap());
    saved.sort();
    assert_eq!(saved, [b"removed".to_vec(), b"written".to_vec()]);
    assert_eq!(identity(&root, "FSCK0000.REC").1, 1);
    drop((root, file_system));
}

/// Returns the codes of the problems that a check finds, with their numbers.
fn codes(device: &MemoryDevice, mode: FsckMode) -> Vec<(&'static str, u64)> {
    let report = image::own_report(device, mode).1;
    report.counts.iter().map(|(code, count)| (*code, count.found)).collect()
}

#[test]
fn a_check_counts_the_names_of_each_object() {
    for kind in KINDS {
        let Some(device) = image::format(kind).map(Arc::new) else { return };
        let (file_system, root) = mount(&device);
        let directory = root.mkdir(&superuser(), name("directory"), 0o755).unwrap().vnode;
        let file = put(&root, "one", b"text").unwrap();
        link(&root, &file, "two").unwrap();
        link(&directory, &file, "three").unwrap();
        let private = SetAttributes { mode: Some(0o600), uid: Some(1000), ..Default::default() };
        file.setattr(&superuser(), &private).unwrap();
        drop((root, directory, file, file_system));
        image::check(&device);
        let contents = device.contents();
        let is_count = |slot: &[u8]| slot[8..11] == *b"CNT" && slot[11] == 7;
        // The journal has one, too.
        let slots = contents.chunks_exact(32).enumerate().filter(|(_, slot)| is_count(slot));
        let counts: Vec<u64> = slots.map(|(index, _)| index as u64 * 32).collect();
        let missing: (u64, &[u8]) = (0, &[0xE5]);
        let wrong = [1, 2, 4, 64_000, 0, 65_001].map(time_of);
        let wrong = wrong.iter().map(|bytes| (CREATED, &bytes[..]));
        for (offset, bytes) in wrong.chain([missing]) {
            let damaged = MemoryDevice::clone(&device);
            counts.iter().for_each(|count| patch(&damaged, count + offset, bytes));
            assert_eq!(codes(&damaged, FsckMode::Check), [("hard-link-count", 1)], "{bytes:?}");
            let (repaired, report) = image::own_report(&damaged, FsckMode::Preen);
            assert_eq!(report.unrepaired(), 0, "{bytes:?}: {report}");
            image::check(&repaired);
            let (file_system, root) = mount(&Arc::new(repaired));
            for path in ["one", "two", "directory/three"] {
                assert_eq!((identity(&root, path).1, get(&root, path).unwrap()), (3, b"text".to_vec()), "{bytes:?}");
            }
            drop((root, file_system));
        }
    }
}

#[test]
fn an_object_that_lost_all_names_keeps_its_metadata_under_a_new_one() {
    for kind in KINDS {
        let Some(device) = image::format(kind).map(Arc::new) else { return };
        let (file_system, root) = mount(&device);
        let file = put(&root, "one", b"private").unwrap();
        link(&root, &file, "two").unwrap();
        let private = SetAttributes { mode: Some(0o600), uid: Some(1000), ..Default::default() };
        file.setattr(&superuser(), &private).unwrap();
        drop((root, file, file_system));
        let (file_system, root) = mount_elsewhere(&device);
        unlink(&root, "one").unwrap();
        unlink(&root, "two").unwrap();
        drop((root, file_system));
        assert_eq!(codes(&device, FsckMode::Check), [("hard-link-nameless", 1)]);
        let (repaired, _) = image::own_report(&device, FsckMode::Preen);
        image::check(&repaired);
        let (file_system, root) = mount(&Arc::new(repaired));
        let found = find(&root, "FSCK0000.REC").unwrap().attributes;
        assert_eq!((found.mode, found.uid, found.nlink), (0o600, 1000, 1));
        assert_eq!(get(&root, "FSCK0000.REC").unwrap(), b"private");
        drop((root, file_system));
    }
}

/// Names may be in a directory that cannot be read now.
#[test]
fn no_count_is_reduced_while_directories_are_damaged() {
    let Some(device) = device() else { return };
    let (file_system, root) = mount(&device);
    let directory = root.mkdir(&superuser(), name("DIRECT"), 0o755).unwrap().vnode;
    let file = put(&root, "one", b"text").unwrap();
    link(&directory, &file, "two").unwrap();
    drop((root, directory, file, file_system));
    let contents = device.contents();
    let entry = contents.chunks_exact(32).position(|slot| slot.starts_with(b"DIRECT     ")).unwrap() as u64 * 32;
    let damaged = MemoryDevice::clone(&device);
    patch(&damaged, entry + 26, &[0xF0, 0xFF]);
    for mode in [FsckMode::Check, FsckMode::Preen] {
        let found = codes(&damaged, mode);
        assert!(found.contains(&("start-invalid", 1)), "{mode:?}: {found:?}");
        assert!(!found.iter().any(|(code, _)| code.starts_with("hard-link")), "{mode:?}: {found:?}");
    }
    let repaired = image::own_report(&damaged, FsckMode::Repair).0;
    image::check(&repaired);
    let (file_system, root) = mount(&Arc::new(repaired));
    assert_eq!(identity(&root, "one").1, 2, "the directory was found again");
    assert_eq!(get(&root, "FSCK0000.DIR/two").unwrap(), b"text");
    drop((root, file_system));
}

#[test]
fn mtools_keep_names_that_they_move() {
    let Some(device) = device() else { return };
    let (file_system, root) = mount(&device);
    root.mkdir(&superuser(), name("directory"), 0o755).unwrap();
    let file = put(&root, "a long name", &[3; 9000]).unwrap();
    link(&root, &file, "another long name").unwrap();
    drop((root, file, file_system));
    let image_file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(image_file.path(), device.contents()).unwrap();
    for (program, to) in [("mren", "::renamed"), ("mmove", "::directory")] {
        let from = if program == "mren" { "::a long name" } else { "::renamed" };
        match std::process::Command::new(program).arg("-i").arg(image_file.path()).args([from, to]).output() {
            Ok(output) => assert!(output.status.success(), "{program}: {output:?}"),
            Err(error) => return println!("skipped: {program}: {error}"),
        }
    }
    let device = Arc::new(MemoryDevice::from_bytes(&std::fs::read(image_file.path()).unwrap()));
    let (file_system, root) = mount(&device);
    for path in ["directory/renamed", "another long name"] {
        assert_eq!((get(&root, path).unwrap(), identity(&root, path).1), (vec![3; 9000], 2), "{path}");
    }
    drop((root, file_system));
    image::check(&device);
}

#[test]
fn a_name_without_an_object_can_only_be_moved_and_removed() {
    let Some(device) = device() else { return };
    let (file_system, root) = mount(&device);
    let file = put(&root, "one", b"text").unwrap();
    link(&root, &file, "two").unwrap();
    link(&root, &file, "three").unwrap();
    drop((root, file, file_system));
    let (file_system, root) = mount_elsewhere(&device);
    let store = find(&root, "PLYFS.LNK").unwrap().vnode;
    let object = names(&store).into_iter().find(|name| name.ends_with("DAT")).unwrap();
    unlink(&store, &object).unwrap();
    drop((root, store, file_system));
    let (file_system, root) = mount(&device);
    let dangling = find(&root, "one").unwrap();
    let attributes = dangling.attributes;
    assert_eq!((attributes.size, attributes.mode, attributes.nlink), (0, 0, 1));
    assert_eq!(dangling.vnode.open(&superuser(), OpenFlags::READ).err(), Some(Errno::EIO));
    let how = Creation { mode: 0o644, flags: OpenFlags::WRITE };
    assert_eq!(root.create(&superuser(), name("one"), &how).err(), Some(Errno::EIO));
    let changes = SetAttributes { mode: Some(0o644), ..Default::default() };
    assert_eq!(dangling.vnode.setattr(&superuser(), &changes).err(), Some(Errno::EIO));
    assert_eq!(link(&root, &dangling.vnode, "four"), Err(Errno::EIO));
    rename(&root, "one", &root, "moved").unwrap();
    unlink(&root, "two").unwrap();
    put(&root, "new", b"new").unwrap();
    rename(&root, "new", &root, "three").unwrap();
    drop((root, dangling, file_system));
    image::check(&device);
    let (file_system, root) = mount(&device);
    assert_eq!(names(&root), ["moved", "three"]);
    assert_eq!(find(&root, "moved").unwrap().vnode.open(&superuser(), OpenFlags::READ).err(), Some(Errno::EIO));
    assert_eq!(get(&root, "three").unwrap(), b"new");
    drop((root, file_system));
}

#[test]
fn impossible_counts_never_remove_an_object_too_early() {
    let Some(device) = device() else { return };
    let (file_system, root) = mount(&device);
    let file = put(&root, "one", b"text").unwrap();
    link(&root, &file, "two").unwrap();
    drop((root, file, file_system));
    let count = stored(&device, b"CNT")[0];
    for number in [0, 65_001, 1 << 32] {
        let device = Arc::new(MemoryDevice::clone(&device));
        patch(&device, count + CREATED, &time_of(number));
        let (file_system, root) = mount(&device);
        assert_eq!(identity(&root, "one").1, 65_000);
        unlink(&root, "one").unwrap();
        assert_eq!(get(&root, "two").unwrap(), b"text");
        drop((root, file_system));
    }
    // No entry for the count at all.
    let without = Arc::new(MemoryDevice::clone(&device));
    patch(&without, count, &[0xE5]);
    let (file_system, root) = mount(&without);
    assert_eq!(identity(&root, "one").1, 65_000);
    unlink(&root, "one").unwrap();
    assert_eq!(get(&root, "two").unwrap(), b"text");
    drop((root, file_system));
    // The highest number of names.
    let full = Arc::new(MemoryDevice::clone(&device));
    patch(&full, count + CREATED, &time_of(64_999));
    let (file_system, root) = mount(&full);
    let file = find(&root, "one").unwrap().vnode;
    link(&root, &file, "three").unwrap();
    assert_eq!((link(&root, &file, "four"), nlink(&file)), (Err(Errno::EMLINK), 65_000));
    drop((root, file, file_system));
    // A number that is too low: the name that is left leads nowhere.
    let low = Arc::new(MemoryDevice::clone(&device));
    patch(&low, count + CREATED, &time_of(1));
    let (file_system, root) = mount(&low);
    let open = find(&root, "one").unwrap().vnode.open(&superuser(), OpenFlags::READ).unwrap();
    unlink(&root, "one").unwrap();
    assert_eq!(find(&root, "two").unwrap().vnode.open(&superuser(), OpenFlags::READ).err(), Some(Errno::EIO));
    drop((root, open, file_system));
}

#[test]
fn a_damaged_store_leads_to_no_other_file() {
    let Some(device) = device() else { return };
    let (file_system, root) = mount(&device);
    for text in ["a", "b"] {
        let file = put(&root, text, text.as_bytes()).unwrap();
        link(&root, &file, &format!("{text} too")).unwrap();
    }
    put(&root, "other", b"other").unwrap();
    drop((root, file_system));
    let objects = stored(&device, b"DAT");
    let contents = device.contents();
    let (one, other) = (objects[0] as usize, objects[1] as usize);
    let store = contents.chunks_exact(32).position(|slot| slot.starts_with(b"PLYFS   LNK")).unwrap() * 32;
    let damages: [(&str, u64, Vec<u8>); 7] = [
        ("two objects of one number", other as u64, contents[one..one + 11].to_vec()),
        ("an object that is a name", one as u64 + 11, {
            let mut bytes = contents[one + 11..one + 32].to_vec();
            bytes[0] = 5;
            bytes[2..7].copy_from_slice(&time_of(u64::from(
                u32::from_str_radix(str::from_utf8(&contents[one..one + 8]).unwrap(), 16).unwrap(),
            )));
            bytes[15..].fill(0);
            bytes
        }),
        ("an object that is a directory", one as u64 + 11, vec![0x10]),
        ("two objects with one chain", one as u64 + 26, contents[other + 26..other + 28].to_vec()),
        ("a chain that does not exist", one as u64 + 26, vec![0xF0, 0xFF]),
        ("a store that is no directory", store as u64 + 11, vec![0x06]),
        ("a store without clusters", store as u64 + 26, vec![0, 0]),
    ];
    for (title, offset, bytes) in damages {
        let damaged = Arc::new(MemoryDevice::clone(&device));
        patch(&damaged, offset, &bytes);
        let (file_system, root) = mount(&damaged);
        assert_eq!(get(&root, "other").unwrap(), b"other", "{title}");
        for path in ["a", "a too", "b", "b too"] {
            let contents = get(&root, path).unwrap_or_default();
            let is_own = contents.is_empty() || contents == path.as_bytes()[..1];
            assert!(is_own || title == "two objects with one chain", "{title}: {path}: {contents:?}");
        }
        names(&root);
        for path in ["a", "b too"] {
            let _ = find(&root, path).map(|entry| link(&root, &entry.vnode, "new"));
            let _ = rename(&root, path, &root, "renamed");
            let _ = unlink(&root, "renamed");
        }
        drop((root, file_system));
    }
}

#[test]
fn links_are_made_and_removed_at_the_same_time() {
    let Some(device) = device() else { return };
    let (file_system, root) = mount(&device);
    let directories = ["x", "y"].map(|text| root.mkdir(&superuser(), name(text), 0o755).unwrap().vnode);
    for number in 0..4 {
        put(&root, &format!("file {number}"), &[number; 3000]).unwrap();
    }
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (root, directories, file_system) = (&root, &directories, &file_system);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for _ in 0..400 {
                    let directory = &directories[random.usize(0..2)];
                    let (from, to) = (format!("link {}", random.u8(0..6)), format!("link {}", random.u8(0..6)));
                    match random.u8(0..6) {
                        0 | 1 => {
                            let file = find(root, &format!("file {}", random.u8(0..4))).unwrap().vnode;
                            let _ = link(directory, &file, &to);
                        }
                        2 => unlink(directory, &from).unwrap_or_default(),
                        3 => rename(directory, &from, &directories[random.usize(0..2)], &to).unwrap_or_default(),
                        4 => find(directory, &from)
                            .and_then(|entry| link(directory, &entry.vnode, &to))
                            .unwrap_or_default(),
                        _ => file_system.sync().unwrap(),
                    }
                }
            });
        }
    });
    for directory in &directories {
        for text in names(directory) {
            unlink(directory, &text).unwrap();
        }
    }
    for number in 0..4 {
        let path = format!("file {number}");
        assert_eq!((identity(&root, &path).1, get(&root, &path).unwrap()), (1, vec![number; 3000]));
    }
    drop((root, directories, file_system));
    image::check(&device);
}
