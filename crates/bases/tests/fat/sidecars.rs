//! Sidecars that others have damaged, replaced or made up: nobody gets rights by them, and no metadata vanishes without a word.

use std::sync::Arc;

use plyfs_bases::device::{Device as _, DeviceRef, Effect, Fault, FaultyDevice, MemoryDevice, Operation};
use plyfs_bases::fat::tools::fsck::FsckMode;
use plyfs_bases::fat::{ErrorPolicy, FatFileSystem, MetadataMode, MountError, Options, Translation};
use vnode::{Device, Errno, FileKind, FileSystem, RenameMode, SetAttributes, VnodeRef, XattrMode};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::image::{self, KINDS, find, get, name, names, put, superuser, with_sidecars, without_sidecars};

/// Returns a device with a new FAT16 file system.
fn device() -> Option<Arc<MemoryDevice>> {
    image::format(KINDS[1]).map(Arc::new)
}

/// Returns where the bytes are in the image first.
fn position(image: &[u8], bytes: &[u8]) -> usize {
    image.windows(bytes.len()).position(|window| window == bytes).unwrap()
}

/// A change of a log that begins there.
type Damage = dyn Fn(&mut [u8]);

fn set(vnode: &VnodeRef, changes: SetAttributes) {
    vnode.setattr(&superuser(), &changes).unwrap();
}

/// Returns an item of a log that gives the root directory to user 1000.
fn forged_item(seed: u32) -> Vec<u8> {
    let mut encoded = vec![1];
    encoded.extend([0; 4 + 5 + 4]);
    for number in [0o040_777_u32, 1000, 1000, 0, 0] {
        encoded.extend(number.to_le_bytes());
    }
    encoded.extend([0; 4 * 12]);
    encoded.push(0x10);
    encoded.extend([0; 5 + 2 + 4 + 4 + 4 + 4]);
    let checksum = xxh3_64_with_seed(&encoded, seed.into());
    [&b"PLAT"[..], &(encoded.len() as u32).to_le_bytes(), &checksum.to_le_bytes(), &encoded].concat()
}

/// Returns the value of an attribute with items of a log at all offsets modulo 8.
fn forged_value(seed: u32) -> Vec<u8> {
    let mut value = vec![b'.'; 1024];
    for offset in 0..8 {
        while value.len() % 8 != offset {
            value.push(b'.');
        }
        value.extend(forged_item(seed));
    }
    value.resize(value.len() + 1500, b'.');
    value
}

#[test]
fn values_in_a_torn_record_are_no_records() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, with_sidecars());
    let root = file_system.root();
    set(&root, SetAttributes { mode: Some(0o1777), ..Default::default() });
    let file = put(&root, "mine", b"text").unwrap();
    set(&file, SetAttributes { uid: Some(1000), ..Default::default() });
    file_system.sync().unwrap();
    let image = device.contents();
    let header = position(&image, b"PLYFSATR");
    let seed = u32::from_le_bytes(image[header + 12..header + 16].try_into().unwrap());
    assert_ne!(seed, 0);
    file.setxattr(&superuser(), b"user.note", &forged_value(seed), XattrMode::Set).unwrap();
    drop((root, file, file_system));
    let mut image = device.contents();
    // The sector in which the append begins does not reach the disk.
    let value = position(&image, b"user.note");
    let item = value - 4 - position(&image[..value].iter().rev().copied().collect::<Vec<_>>(), b"TALP");
    assert_eq!(&image[item..item + 4], b"PLAT");
    image[item..(item + 1).next_multiple_of(512)].fill(0);
    for growth in 0..8_usize {
        let device = Arc::new(MemoryDevice::from_bytes(&image));
        for _ in 0..2 {
            let file_system = image::mount(&device, with_sidecars());
            let shown = file_system.root().getattr(&superuser()).unwrap();
            assert_eq!((shown.uid, shown.mode), (0, 0o1777), "{growth}");
            // The next append ends anywhere in what the power failure has left.
            let file = find(&file_system.root(), "mine").unwrap().vnode;
            let value = vec![b'x'; 900 + growth * 8];
            file.setxattr(&superuser(), b"user.other", &value, XattrMode::Set).unwrap();
            drop(file);
            drop(file_system);
        }
        let file_system = image::mount(&device, with_sidecars());
        let file = find(&file_system.root(), "mine").unwrap();
        assert_eq!(file.attributes.uid, 1000);
        assert_eq!(file.vnode.listxattr(&superuser()).unwrap(), b"user.other\0");
        drop((file, file_system));
        image::check(&device);
    }
}

fn open(device: &Arc<MemoryDevice>, options: Options) -> Result<FatFileSystem, MountError> {
    let device: DeviceRef = device.clone();
    FatFileSystem::open(device, "test", options)
}

#[test]
fn a_visible_file_with_the_name_of_a_sidecar_is_a_file() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, without_sidecars());
    let root = file_system.root();
    for kind in ["of file", "of directory"] {
        let directory = root.mkdir(&superuser(), name(kind), 0o755).unwrap().vnode;
        put(&directory, "a", b"text").unwrap();
        match kind {
            "of file" => drop(put(&directory, "PLYFX.ATR", b"notes").unwrap()),
            _ => drop(directory.mkdir(&superuser(), name("PLYFX.ATR"), 0o755).unwrap()),
        }
    }
    drop((root, file_system));
    let device = image::renamed_by_others(&device, b"PLYFX   ATR");
    let file_system = image::mount(&device, with_sidecars());
    let mode = SetAttributes { mode: Some(0o600), ..Default::default() };
    for kind in ["of file", "of directory"] {
        let directory = find(&file_system.root(), kind).unwrap().vnode;
        assert_eq!(names(&directory), ["PLYFS.ATR", "a"]);
        let file = find(&directory, "a").unwrap().vnode;
        assert_eq!(file.setattr(&superuser(), &mode), Err(Errno::EEXIST));
        assert_eq!(put(&directory, "new", b"").err(), Some(Errno::EEXIST));
        match kind {
            "of file" => assert_eq!(get(&directory, "plyfs.atr").unwrap(), b"notes"),
            _ => assert_eq!(put(&find(&directory, "PLYFS.ATR").unwrap().vnode, "b", b"").map(drop), Ok(())),
        }
        let to = name("renamed");
        let renamed = directory.rename(&superuser(), name("PLYFS.ATR"), &file_system.root(), to, RenameMode::Replace);
        assert_eq!(renamed, Ok(()), "{kind}");
        set(&file, mode);
        file_system.sync().unwrap();
        for number in 0..4 {
            put(&directory, &format!("v{number}"), &[number; 5000]).unwrap();
            set(&file, SetAttributes { mode: Some(0o700 + u32::from(number)), ..Default::default() });
            file_system.sync().unwrap();
        }
        let root = file_system.root();
        match kind {
            "of file" => root.unlink(&superuser(), to).unwrap(),
            _ => {
                find(&root, "renamed").unwrap().vnode.unlink(&superuser(), name("b")).unwrap();
                let log = put(&find(&root, "renamed").unwrap().vnode, "PLYFS.ATR", b"").err();
                assert_eq!(log, Some(Errno::EPERM));
                root.rmdir(&superuser(), to).unwrap();
            }
        }
    }
    drop(file_system);
    image::check(&device);
}

#[test]
fn a_root_directory_without_room_for_a_sidecar_is_not_used_with_one() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, without_sidecars());
    put(&file_system.root(), "PLYFX.ATR", b"notes").unwrap();
    drop(file_system);
    let device = image::renamed_by_others(&device, b"PLYFX   ATR");
    assert_eq!(open(&device, with_sidecars()).err(), Some(MountError::SidecarName));
    let auto = Options { metadata: MetadataMode::Auto, ..without_sidecars() };
    assert_eq!(get(&open(&device, auto).unwrap().root(), "PLYFS.ATR").unwrap(), b"notes");
}

#[test]
fn names_of_own_files_are_reserved_in_every_mode() {
    for metadata in [MetadataMode::Auto, MetadataMode::None, MetadataMode::Inline, MetadataMode::Sidecar] {
        for translation in [Translation::Stored, Translation::Lower, Translation::Joined] {
            let Some(device) = device() else { return };
            let file_system = image::mount(&device, Options { metadata, translation, ..without_sidecars() });
            let root = file_system.root();
            let directory = root.mkdir(&superuser(), name("directory"), 0o755).unwrap().vnode;
            put(&root, "a", b"").unwrap();
            let joined: &[&str] = if translation == Translation::Joined { &["PLYFSATR", "plyfsatr"] } else { &[] };
            for text in [&["PLYFS.ATR", "plyfs.atr", "Plyfs.Atr"], joined].concat() {
                let context = format!("{metadata:?} {translation:?} {text}");
                for parent in [&root, &directory] {
                    assert_eq!(put(parent, text, b"").err(), Some(Errno::EPERM), "{context}");
                    let made = parent.mkdir(&superuser(), name(text), 0o755);
                    assert_eq!(made.err(), Some(Errno::EPERM), "{context}");
                    let renamed = root.rename(&superuser(), name("a"), parent, name(text), RenameMode::Replace);
                    assert_eq!(renamed, Err(Errno::EPERM), "{context}");
                }
                let journal = text.to_ascii_uppercase().replace("ATR", "JNL");
                assert_eq!(put(&root, &journal, b"").err(), Some(Errno::EPERM), "{context}");
            }
            if translation == Translation::Joined {
                continue;
            }
            put(&root, "PLYFSATR", b"other").unwrap();
            drop((root, directory, file_system));
            let joined = Options { metadata, translation: Translation::Joined, ..without_sidecars() };
            let file_system = image::mount(&device, joined);
            assert_eq!(get(&file_system.root(), "PLYFSATR").unwrap(), b"other", "{metadata:?}");
        }
    }
}

#[test]
fn nothing_takes_the_place_of_a_visible_file_with_the_name_of_a_sidecar() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, without_sidecars());
    put(&file_system.root(), "PLYFX.ATR", b"notes").unwrap();
    put(&file_system.root(), "a", b"text").unwrap();
    drop(file_system);
    let device = image::renamed_by_others(&device, b"PLYFX   ATR");
    let file_system = image::mount(&device, without_sidecars());
    let root = file_system.root();
    for (from, to, mode) in [
        ("a", "PLYFS.ATR", RenameMode::Replace),
        ("a", "plyfs.atr", RenameMode::Exchange),
        ("PLYFS.ATR", "a", RenameMode::Exchange),
    ] {
        assert_eq!(root.rename(&superuser(), name(from), &root, name(to), mode), Err(Errno::EPERM));
    }
    root.rename(&superuser(), name("PLYFS.ATR"), &root, name("b"), RenameMode::Replace).unwrap();
    assert_eq!(names(&root), ["a", "b"]);
}

#[test]
fn a_file_that_others_put_in_place_of_a_symlink_is_a_file() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, with_sidecars());
    let root = file_system.root();
    for text in ["replaced", "rewritten", "kept"] {
        root.symlink(&superuser(), name(text), b"target").unwrap();
    }
    for (text, kind) in [("fifo", FileKind::Fifo), ("device", FileKind::BlockDevice), ("kept fifo", FileKind::Fifo)] {
        root.mknod(&superuser(), name(text), kind, 0o600, Device { major: 8, minor: 1 }).unwrap();
    }
    drop((root, file_system));
    let others = image::mount(&device, without_sidecars());
    let root = others.root();
    for (text, contents) in [("replaced", &b"important text of the user"[..]), ("fifo", b""), ("device", b"")] {
        root.unlink(&superuser(), name(text)).unwrap();
        put(&root, text, contents).unwrap();
    }
    put(&root, "rewritten", b"important text of the user").unwrap();
    drop((root, others));
    for _ in 0..2 {
        let file_system = image::mount(&device, with_sidecars());
        let root = file_system.root();
        for text in ["replaced", "rewritten", "fifo", "device"] {
            let found = find(&root, text).unwrap().attributes;
            assert_eq!(found.kind, FileKind::Regular, "{text}");
            assert_eq!(found.mode, if ["fifo", "device"].contains(&text) { 0o600 } else { 0o755 }, "{text}");
        }
        assert_eq!(get(&root, "replaced").unwrap(), b"important text of the user");
        assert_eq!(find(&root, "kept").unwrap().vnode.readlink(&superuser()).unwrap(), b"target");
        assert_eq!(find(&root, "kept fifo").unwrap().attributes.kind, FileKind::Fifo);
        let open = root.open_directory(&superuser()).unwrap();
        open.read(&superuser(), vnode::Cookie::START, &mut |entry| {
            let is_kept = entry.name.display().to_string().starts_with("kept");
            assert_eq!(entry.kind == Some(FileKind::Regular), !is_kept, "{}", entry.name.display());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        // What is stored is the same.
        put(&root, "replaced", b"important text of the user").unwrap();
    }
}

/// Returns a device with sidecars in the root and in a directory, with private files in both.
fn private_files() -> Option<Arc<MemoryDevice>> {
    let device = device()?;
    let file_system = image::mount(&device, Options { journal: false, ..with_sidecars() });
    let directory = file_system.root().mkdir(&superuser(), name("directory"), 0o700).unwrap().vnode;
    for parent in [&file_system.root(), &directory] {
        set(&put(parent, "private", b"text").unwrap(), SetAttributes { mode: Some(0o600), ..Default::default() });
        parent.symlink(&superuser(), name("link"), b"target").unwrap();
    }
    drop((directory, file_system));
    Some(device)
}

/// Returns a copy of a device after a change of the logs, or of their entries, of which `is_root` says whether it is the root's.
fn changed(device: &MemoryDevice, bytes: &[u8], change: impl Fn(&mut [u8], bool)) -> Arc<MemoryDevice> {
    let mut image = device.contents();
    let found: Vec<usize> =
        image.windows(bytes.len()).enumerate().filter(|(_, window)| *window == bytes).map(|(at, _)| at).collect();
    assert_eq!(found.len(), 2);
    found.into_iter().enumerate().for_each(|(index, at)| change(&mut image[at..], index == 0));
    Arc::new(MemoryDevice::from_bytes(&image))
}

fn repaired(device: &MemoryDevice, codes: &[&str]) -> Arc<MemoryDevice> {
    let report = image::own_report(device, FsckMode::Check).1;
    let found: Vec<&str> = report.counts.keys().copied().filter(|code| !["dirty"].contains(code)).collect();
    assert_eq!(found, codes, "{report}");
    let (repaired, report) = image::own_report(device, FsckMode::Repair);
    assert_eq!(report.unrepaired(), 0, "{report}");
    image::check(&repaired);
    Arc::new(repaired)
}

fn auto() -> Options {
    Options { metadata: MetadataMode::Auto, ..without_sidecars() }
}

#[test]
fn a_damaged_log_of_a_directory_makes_nothing_public() {
    let Some(device) = private_files() else { return };
    let damages: [&Damage; 3] = [&|log| log[8] = 2, &|log| log[0] = 0, &|log| log[..512].fill(0)];
    for damage in damages {
        let damaged = changed(&device, b"PLYFSATR\x01", |log, is_root| {
            if !is_root {
                damage(log)
            }
        });
        let file_system = open(&damaged, auto()).unwrap();
        let root = file_system.root();
        assert_eq!(find(&root, "directory/private").err(), Some(Errno::EIO));
        assert_eq!(find(&root, "private").unwrap().attributes.mode, 0o600);
        let directory = find(&root, "directory").unwrap().vnode;
        assert!(put(&directory, "new", b"").is_err());
        drop((root, directory, file_system));
        let repaired = repaired(&damaged, &["sidecar-invalid"]);
        let file_system = open(&repaired, auto()).unwrap();
        let directory = find(&file_system.root(), "directory").unwrap();
        assert_eq!(
            (directory.attributes.mode, names(&directory.vnode)),
            (0o700, ["PLYFS~1.ATR", "link", "private"].map(str::to_owned).to_vec())
        );
        put(&directory.vnode, "new", b"").unwrap();
    }
}

#[test]
fn a_damaged_log_of_the_root_directory_is_not_taken_for_an_empty_one() {
    let Some(device) = private_files() else { return };
    let damaged = changed(&device, b"PLYFSATR\x01", |log, is_root| {
        if is_root {
            log[8] = 2
        }
    });
    for options in [auto(), with_sidecars()] {
        assert_eq!(open(&damaged, options).err(), Some(MountError::SidecarInvalid));
    }
    open(&damaged, without_sidecars()).unwrap();
    let repaired = repaired(&damaged, &["sidecar-invalid"]);
    let file_system = open(&repaired, with_sidecars()).unwrap();
    assert_eq!(names(&file_system.root()), ["PLYFS~1.ATR", "directory", "link", "private"]);
    assert_eq!(find(&file_system.root(), "directory/private").unwrap().attributes.mode, 0o600);
}

#[test]
fn logs_that_lost_their_attributes_make_nothing_public() {
    let Some(device) = private_files() else { return };
    let visible = |log: &mut [u8]| log[11] = 0x20;
    let damaged = changed(&device, b"PLYFS   ATR", |log, _| visible(log));
    for options in [auto(), with_sidecars()] {
        assert_eq!(open(&damaged, options).err(), Some(MountError::SidecarVisible));
    }
    assert_eq!(names(&open(&damaged, without_sidecars()).unwrap().root()).len(), 4);
    let in_directory = changed(&device, b"PLYFS   ATR", |log, is_root| {
        if !is_root {
            visible(log)
        }
    });
    let file_system = open(&in_directory, auto()).unwrap();
    assert_eq!(find(&file_system.root(), "directory/private").err(), Some(Errno::EIO));
    drop(file_system);
    for damaged in [damaged, in_directory] {
        let repaired = repaired(&damaged, &["sidecar-visible"]);
        let file_system = open(&repaired, auto()).unwrap();
        for path in ["private", "directory/private"] {
            assert_eq!(find(&file_system.root(), path).unwrap().attributes.mode, 0o600);
        }
        assert_eq!(names(&file_system.root()), ["directory", "link", "private"]);
    }
}

#[test]
fn logs_that_became_directories_make_nothing_public() {
    let Some(device) = private_files() else { return };
    for (attributes, codes) in [(0x16, &["sidecar-directory"][..]), (0x10, &["sidecar-directory", "sidecar-visible"])] {
        let damaged = changed(&device, b"PLYFS   ATR", |log, is_root| {
            if !is_root {
                log[11] = attributes;
            }
        });
        let file_system = open(&damaged, auto()).unwrap();
        assert_eq!(find(&file_system.root(), "directory/private").err(), Some(Errno::EIO), "{attributes:x}");
        drop(file_system);
        let repaired = repaired(&damaged, codes);
        let file_system = open(&repaired, auto()).unwrap();
        assert_eq!(find(&file_system.root(), "directory/private").unwrap().attributes.mode, 0o600, "{attributes:x}");
        assert_eq!(names(&find(&file_system.root(), "directory").unwrap().vnode), ["link", "private"]);
    }
}

#[test]
fn nothing_but_the_root_directory_has_its_cluster() {
    let Some(device) = image::format(KINDS[2]) else { return };
    let device = Arc::new(device);
    let file_system = image::mount(&device, without_sidecars());
    let root = file_system.root();
    root.mkdir(&superuser(), name("TREE"), 0o755).unwrap();
    put(&root, "FILE", b"text").unwrap();
    put(&root, "OTHER", b"other").unwrap();
    drop((root, file_system));
    let mut bytes = device.contents();
    let root_cluster = bytes[44..48].to_vec();
    for short in [b"TREE       ", b"FILE       "] {
        let at = bytes.windows(11).position(|window| window == short).unwrap();
        bytes[at + 20..at + 22].copy_from_slice(&root_cluster[2..]);
        bytes[at + 26..at + 28].copy_from_slice(&root_cluster[..2]);
    }
    let device = Arc::new(MemoryDevice::from_bytes(&bytes));
    let file_system = image::mount(&device, without_sidecars());
    let root = file_system.root();
    for text in ["TREE", "FILE"] {
        assert_eq!(find(&root, text).err(), Some(Errno::EIO), "{text}");
    }
    assert_eq!((names(&root).len(), get(&root, "OTHER").unwrap()), (3, b"other".to_vec()));
    assert_eq!(put(&root, "new", b"").err(), Some(Errno::EROFS));
}

#[test]
fn what_an_append_that_failed_has_left_hides_no_later_record() {
    let Some(device) = device() else { return };
    let shared: DeviceRef = device.clone();
    let faulty = Arc::new(FaultyDevice::new(shared));
    let options = Options { errors: ErrorPolicy::Continue, ..with_sidecars() };
    let file_system = FatFileSystem::open(faulty.clone(), "test", options.clone()).unwrap();
    let root = file_system.root();
    let file = put(&root, "a", b"text").unwrap();
    file_system.sync().unwrap();
    let image = device.contents();
    let log = position(&image, b"PLYFSATR");
    let end = log + 1 + image[log..log + 2048].iter().rposition(|&byte| byte != 0).unwrap();
    set(&file, SetAttributes { mode: Some(0o600), ..Default::default() });
    faulty.add(Fault::of([Operation::Flush], Effect::Error(Errno::EIO)));
    assert_eq!(file_system.sync(), Err(Errno::EIO));
    faulty.repair();
    // The record was only in the cache of the disk.
    device.write_at(end as u64, &vec![0; log + 2048 - end]).unwrap();
    set(&put(&root, "b", b"text").unwrap(), SetAttributes { mode: Some(0o640), ..Default::default() });
    drop((root, file, file_system));
    let file_system = image::mount(&device, options);
    let mode = |text| find(&file_system.root(), text).unwrap().attributes.mode;
    assert_eq!((mode("a"), mode("b")), (0o600, 0o640));
}

#[test]
fn short_names_and_long_ones_never_share_a_record() {
    let Some(device) = image::format(KINDS[1]).map(Arc::new) else { return };
    // In the code page, this is a short name of the byte 9A.
    let pair = ["\u{DC}", "\u{F79A}"];
    for first in [0, 1] {
        let file_system = image::mount(&device, with_sidecars());
        let root = file_system.root();
        for (index, uid) in [(first, 1000), (1 - first, 1001)] {
            let file = put(&root, pair[index], b"text").unwrap();
            let changes = SetAttributes { mode: Some(0o600), uid: Some(uid), ..SetAttributes::default() };
            file.setattr(&superuser(), &changes).unwrap();
        }
        drop((root, file_system));
        let file_system = image::mount(&device, with_sidecars());
        let root = file_system.root();
        let shown = |index: usize| {
            let attributes = find(&root, pair[index]).unwrap().attributes;
            (attributes.mode, attributes.uid)
        };
        assert_eq!([shown(first), shown(1 - first)], [(0o600, 1000), (0o600, 1001)]);
        pair.iter().for_each(|text| root.unlink(&superuser(), name(text)).unwrap());
    }
}
