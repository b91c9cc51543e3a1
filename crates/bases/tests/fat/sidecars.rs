//! Sidecars that others have damaged, replaced or made up: nobody gets rights by them, and no metadata vanishes without a word.

use std::sync::Arc;

use plyfs_bases::device::MemoryDevice;
use vnode::{FileSystem, SetAttributes, VnodeRef, XattrMode};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::image::{self, KINDS, find, put, superuser, with_sidecars};

/// Returns a device with a new FAT16 file system.
fn device() -> Option<Arc<MemoryDevice>> {
    image::format(KINDS[1]).map(Arc::new)
}

/// Returns where the bytes are in the image, first and last.
fn position(image: &[u8], bytes: &[u8]) -> (usize, usize) {
    let mut found = image.windows(bytes.len()).enumerate().filter(|(_, window)| *window == bytes).map(|(at, _)| at);
    let first = found.next().unwrap();
    (first, found.last().unwrap_or(first))
}

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
    let header = position(&image, b"PLYFSATR").0;
    let seed = u32::from_le_bytes(image[header + 12..header + 16].try_into().unwrap());
    assert_ne!(seed, 0);
    file.setxattr(&superuser(), b"user.note", &forged_value(seed), XattrMode::Set).unwrap();
    drop((root, file, file_system));
    let mut image = device.contents();
    // The sector in which the append begins does not reach the disk.
    let value = position(&image, b"user.note").0;
    let item = value - 4 - position(&image[..value].iter().rev().copied().collect::<Vec<_>>(), b"TALP").0;
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
