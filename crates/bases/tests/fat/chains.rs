//! Chains that images have: those that run into other files, and those that are long and in pieces.

use std::sync::Arc;

use plyfs_bases::device::{DeviceRef, Effect, Fault, FaultyDevice, MemoryDevice, Operation};
use plyfs_bases::fat::{ErrorPolicy, FatFileSystem, Options};
use vnode::{AllocateMode, Errno, FileSystem, OpenFlags};

use crate::image::{self, KINDS, find, get, put, superuser, without_sidecars};

/// Returns the first cluster that the entry with a short name in the root directory of a FAT16 image has.
fn first_cluster(bytes: &[u8], short_name: &[u8]) -> u16 {
    let entry = bytes.windows(short_name.len()).position(|window| window == short_name).unwrap();
    u16::from_le_bytes([bytes[entry + 26], bytes[entry + 27]])
}

/// Sets the link of a cluster in both tables of a FAT16 image.
fn set_link(bytes: &mut [u8], cluster: u16, link: u16) {
    let sectors = usize::from(u16::from_le_bytes([bytes[22], bytes[23]]));
    let start = 512 * usize::from(u16::from_le_bytes([bytes[14], bytes[15]]));
    for table in 0..2 {
        let at = start + table * sectors * 512 + 2 * usize::from(cluster);
        bytes[at..at + 2].copy_from_slice(&link.to_le_bytes());
    }
}

/// Returns an image that is marked as in use, on which the chain of the file A leads into that of B after A's only cluster with data.
fn with_chain_into_another() -> Option<Vec<u8>> {
    let device = Arc::new(image::format(KINDS[1])?);
    let file_system = image::mount(&device, without_sidecars());
    put(&file_system.root(), "A", &[1; 100]).unwrap();
    put(&file_system.root(), "B", &[2; 100_000]).unwrap();
    file_system.sync().unwrap();
    let mut bytes = device.contents();
    let (a, b) = (first_cluster(&bytes, b"A          "), first_cluster(&bytes, b"B          "));
    set_link(&mut bytes, a, b);
    Some(bytes)
}

#[test]
fn reserving_space_frees_nothing_that_a_chain_runs_into() {
    let Some(bytes) = with_chain_into_another() else { return };
    let device = Arc::new(MemoryDevice::from_bytes(&bytes));
    let file_system = image::mount(&device, Options { preen: false, ..without_sidecars() });
    let root = file_system.root();
    let file = find(&root, "A").unwrap().vnode.open(&superuser(), OpenFlags::READ_WRITE).unwrap();
    file.allocate(&superuser(), AllocateMode::KEEP_SIZE, 0, 200).unwrap();
    drop(file);
    file_system.sync().unwrap();
    file_system.sync().unwrap();
    put(&root, "N", &[3; 200_000]).unwrap();
    assert!(get(&root, "B").unwrap() == [2; 100_000]);
    assert_eq!(get(&root, "A").unwrap(), [1; 100]);
}

#[test]
fn a_failed_write_frees_nothing_that_a_chain_runs_into() {
    let Some(bytes) = with_chain_into_another() else { return };
    let device: DeviceRef = Arc::new(MemoryDevice::from_bytes(&bytes));
    let faulty = Arc::new(FaultyDevice::new(device));
    let options = Options { preen: false, errors: ErrorPolicy::Continue, ..without_sidecars() };
    let file_system = FatFileSystem::open(faulty.clone(), "test", options).unwrap();
    let root = file_system.root();
    let file = find(&root, "A").unwrap().vnode.open(&superuser(), OpenFlags::READ_WRITE).unwrap();
    // The first change has marked the volume as in use.
    put(&root, "first", b"").unwrap();
    file_system.sync().unwrap();
    faulty.add(Fault::of([Operation::Write], Effect::Error(Errno::EIO)));
    assert_eq!(file.write_at(&superuser(), 0, &[4; 50]).err(), Some(Errno::EIO));
    faulty.repair();
    file_system.sync().unwrap();
    file_system.sync().unwrap();
    put(&root, "N", &[3; 200_000]).unwrap();
    assert!(get(&root, "B").unwrap() == [2; 100_000]);
}
