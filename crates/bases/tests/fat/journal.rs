//! The journal's file: what another system, a check or a damaged volume make of it.

use std::sync::Arc;

use plyfs_bases::device::{DeviceRef, Effect, Fate, Fault, FaultyDevice, MemoryDevice, Operation, RecordingDevice};
use plyfs_bases::fat::{FatFileSystem, Options};
use vnode::{Errno, FileSystem, OpenFlags, RenameMode};

use crate::image::{self, KINDS, Kind, find, get, name, names, put, superuser, without_sidecars};

const KIND: Kind = Kind { size: 16 << 20, ..KINDS[1] };
const NAME: &[u8; 11] = b"PLYFS   JNL";
/// Attributes hidden, system and archive.
const OWN: u8 = 0x26;

/// Returns what power failures leave that interrupt a rename between directories while the journal holds a batch.
fn interrupted() -> Vec<MemoryDevice> {
    let Some(initial) = image::format(KIND) else { return Vec::new() };
    let device = Arc::new(RecordingDevice::new(&initial));
    let shared: DeviceRef = device.clone();
    let file_system = FatFileSystem::open(shared, "recorded", without_sidecars()).unwrap();
    let root = file_system.root();
    let [one, two] = ["one", "two"].map(|text| root.mkdir(&superuser(), name(text), 0o755).unwrap().vnode);
    put(&one, "file", &[1; 50_000]).unwrap();
    file_system.sync().unwrap();
    let begun = device.event_count();
    put(&two, "new", &[2; 100_000]).unwrap();
    one.rename(&superuser(), name("file"), &two, name("moved"), RenameMode::Replace).unwrap();
    file_system.sync().unwrap();
    let images = (begun..=device.event_count()).map(|count| device.image(count, |_, _| Fate::Kept));
    let images: Vec<MemoryDevice> = images.filter(has_batch).collect();
    assert!(images.len() > 2, "{}", images.len());
    images
}

fn has_batch(device: &MemoryDevice) -> bool {
    device.contents().chunks(512).any(|sector| sector.starts_with(b"PLYFSJNL"))
}

/// Returns the names in the directories of [`interrupted`].
fn all_names(file_system: &FatFileSystem) -> [Vec<String>; 2] {
    ["one", "two"].map(|directory| names(&find(&file_system.root(), directory).unwrap().vnode))
}

/// Returns where the root directory is, and after it the first cluster.
fn root_region(bytes: &[u8]) -> std::ops::Range<usize> {
    let number = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let start = 512 * (number(14) + 2 * number(22));
    start..start + 32 * number(17)
}

/// Returns the positions of the entries with the journal's name.
fn entries(bytes: &[u8]) -> Vec<usize> {
    root_region(bytes).step_by(32).filter(|&at| bytes[at..].starts_with(NAME)).collect()
}

/// Returns a volume that has a journal, and was unmounted.
fn with_journal() -> Option<Vec<u8>> {
    let device = Arc::new(image::format(KIND)?);
    let file_system = image::mount(&device, without_sidecars());
    put(&file_system.root(), "first", &[1; 5000]).unwrap();
    // Its name becomes that of the journal where a test says so.
    file_system.root().mkdir(&superuser(), name("XLYFS.JNL"), 0o755).unwrap();
    drop(file_system);
    image::check(&device);
    Some(device.contents())
}

/// Mounts a volume twice with a change, and returns what is left. `inspect` sees the file system after the first change.
fn use_twice(bytes: &[u8], inspect: impl FnOnce(&FatFileSystem)) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::from_bytes(bytes));
    drop(image::mount(&device, Options { read_only: true, ..without_sidecars() }));
    let file_system = image::mount(&device, without_sidecars());
    put(&file_system.root(), "second", &[2; 5000]).unwrap();
    inspect(&file_system);
    drop(file_system);
    let file_system = image::mount(&device, without_sidecars());
    put(&file_system.root(), "third", &[3; 5000]).unwrap();
    assert_eq!(get(&file_system.root(), "first").unwrap(), [1; 5000]);
    drop(file_system);
    device
}

#[test]
fn a_batch_is_not_applied_after_another_system_has_checked_the_volume() {
    for image in interrupted() {
        let device = Arc::new(image::repair(&image));
        let before = all_names(&image::mount(&device, Options { read_only: true, ..without_sidecars() }));
        let file_system = image::mount(&device, without_sidecars());
        assert_eq!(all_names(&file_system), before);
        put(&file_system.root(), "large", &[3; 200_000]).unwrap();
        drop(file_system);
        assert!(!has_batch(&device), "it is forgotten");
        image::check(&device);
    }
}

#[test]
fn a_batch_whose_clusters_were_freed_is_not_applied() {
    for image in interrupted() {
        // A check that leaves the mark.
        let mut bytes = image::repair(&image).contents();
        bytes[37] |= 1;
        let device = Arc::new(MemoryDevice::from_bytes(&bytes));
        let file_system = image::mount(&device, Options { preen: false, ..without_sidecars() });
        for directory in ["one", "two"] {
            for file in names(&find(&file_system.root(), directory).unwrap().vnode) {
                get(&file_system.root(), &format!("{directory}/{file}")).unwrap();
            }
        }
    }
}

#[test]
fn a_volume_that_cannot_be_written_is_shown_with_its_batch_complete() {
    for image in interrupted() {
        let complete = Arc::new(MemoryDevice::clone(&image));
        let expected = all_names(&image::mount(&complete, without_sidecars()));
        let bytes = image.contents();
        let device = Arc::new(image);
        let file_system = image::mount(&device, Options { read_only: true, ..without_sidecars() });
        assert_eq!(all_names(&file_system), expected);
        drop(file_system);
        assert!(device.contents() == bytes, "nothing is written");
        let faulty = Arc::new(FaultyDevice::new(device.clone()));
        faulty.add(Fault::of([Operation::Write], Effect::Error(Errno::EIO)));
        let file_system = FatFileSystem::open(faulty, "test", without_sidecars()).unwrap();
        assert_eq!(all_names(&file_system), expected);
        assert_eq!(put(&file_system.root(), "other", b"").err(), Some(Errno::EROFS));
    }
}

#[test]
fn an_empty_journal_is_replaced() {
    let Some(mut bytes) = with_journal() else { return };
    let at = entries(&bytes)[0];
    // Its clusters become those of another file.
    let (journal, other) = (bytes[at..at + 32].to_vec(), bytes.windows(11).position(|w| w == b"XLYFS   JNL").unwrap());
    assert!(bytes[other + 32..other + 64] == [0; 32]);
    bytes[other + 32..other + 64].copy_from_slice(&journal);
    bytes[other + 32..other + 43].copy_from_slice(b"OTHER      ");
    bytes[at + 26..at + 32].fill(0);
    let device = use_twice(&bytes, |_| ());
    let bytes = device.contents();
    assert_eq!(entries(&bytes), [at]);
    assert!(bytes[at + 28..at + 32] != [0; 4] && bytes[at + 11] == OWN);
    image::check(&device);
}

#[test]
fn a_journal_that_lost_its_attributes_is_replaced() {
    let Some(mut bytes) = with_journal() else { return };
    let at = entries(&bytes)[0];
    bytes[at + 11] = 0x20;
    let device = Arc::new(MemoryDevice::from_bytes(&bytes));
    let file_system = image::mount(&device, without_sidecars());
    let visible = find(&file_system.root(), "PLYFS.JNL").unwrap();
    let file = visible.vnode.open(&superuser(), OpenFlags::READ_WRITE).unwrap();
    put(&file_system.root(), "second", &[2; 5000]).unwrap();
    file.write_at(&superuser(), 0, &[7; 5000]).unwrap();
    file_system.sync().unwrap();
    assert_eq!(find(&file_system.root(), "PLYFS.JNL").err(), Some(Errno::ENOENT));
    drop((file, visible, file_system));
    image::check(&device);
    let device = use_twice(&device.contents(), |_| ());
    let bytes = device.contents();
    let found = entries(&bytes);
    assert!(found.len() == 1 && bytes[found[0] + 11] == OWN);
    image::check(&device);
}

#[test]
fn a_directory_with_the_name_of_the_journal_is_left_alone() {
    let Some(mut bytes) = with_journal() else { return };
    let (journal, other) = (entries(&bytes)[0], bytes.windows(11).position(|w| w == b"XLYFS   JNL").unwrap());
    bytes[other] = b'P';
    bytes[journal] = b'X';
    let device = use_twice(&bytes, |file_system| {
        assert!(names(&file_system.root()).contains(&"PLYFS.JNL".to_owned()));
    });
    assert_eq!(entries(&device.contents()), [other]);
    image::check(&device);
}

#[test]
fn a_damaged_journal_does_not_prevent_mounting() {
    let Some(bytes) = with_journal() else { return };
    let at = entries(&bytes)[0];
    let (first, size) = (u16::from_le_bytes([bytes[at + 26], bytes[at + 27]]), bytes[at + 28..at + 32].to_vec());
    let sectors = u64::from(u16::from_le_bytes([bytes[22], bytes[23]]));
    let start = 512 * u64::from(u16::from_le_bytes([bytes[14], bytes[15]]));
    let with_link = |index: u16, next: u16| {
        let mut bytes = bytes.clone();
        for table in 0..2 {
            let place = (start + table * sectors * 512) as usize + 2 * usize::from(first + index);
            bytes[place..place + 2].copy_from_slice(&next.to_le_bytes());
        }
        bytes
    };
    let with_size = |size: u32| {
        let mut bytes = bytes.clone();
        bytes[at + 28..at + 32].copy_from_slice(&size.to_le_bytes());
        bytes
    };
    let size = u32::from_le_bytes(size.try_into().unwrap());
    let damaged = [
        ("longer", with_size(size / 2)),
        ("much longer", with_size(20_000)),
        ("tiny", with_size(1)),
        ("huge", with_size(u32::MAX)),
        ("loop", with_link(3, first + 1)),
        ("short", with_link(3, 0xFFFF)),
        ("free", with_link(0, 0)),
        ("invalid", with_link(2, 0xFFF0)),
    ];
    for (what, mut bytes) in damaged {
        println!("{what}");
        let device = use_twice(&bytes, |_| ());
        assert_eq!(entries(&device.contents()).len(), 1);
        // A volume that was not unmounted is preened first, and may have to be left read-only.
        bytes[37] |= 1;
        for read_only in [true, false] {
            let device = Arc::new(MemoryDevice::from_bytes(&bytes));
            let file_system = image::mount(&device, Options { read_only, ..without_sidecars() });
            assert_eq!(get(&file_system.root(), "first").unwrap(), [1; 5000]);
        }
    }
}

#[test]
fn a_journal_of_another_version_is_left_alone() {
    let Some(mut bytes) = with_journal() else { return };
    let at = entries(&bytes)[0];
    let cluster = usize::from(u16::from_le_bytes([bytes[at + 26], bytes[at + 27]]));
    let journal = root_region(&bytes).end + (cluster - 2) * 512 * usize::from(bytes[13]);
    bytes[journal..journal + 12].copy_from_slice(b"PLYFSJNL\x02\0\0\0");
    let device = use_twice(&bytes, |_| ());
    let left = device.contents();
    assert!(left[journal..journal + 512] == bytes[journal..journal + 512]);
    assert_eq!(entries(&left), [at]);
    image::check(&device);
}
