//! Reads and writes of the device: in blocks of the size that the options have, and after errors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use plyfs_bases::device::{Device, DeviceRef, Effect, Fault, FaultyDevice, MemoryDevice, Operation};
use plyfs_bases::fat::tools::fsck::FsckMode;
use plyfs_bases::fat::{ErrorPolicy, FatFileSystem, MirrorMode, MountError, Options};
use vnode::{AllocateMode, Errno, FileSystem, OpenFlags};

use crate::image::{self, KINDS, find, get, name, names, put, superuser, with_sidecars, without_sidecars};
use crate::trapped::TrappedDevice;

const BLOCK: u32 = 16 << 10;

/// A device that notes what is read and written.
struct CountingDevice {
    device: MemoryDevice,
    reads: AtomicU64,
    writes: Mutex<Vec<(u64, u64)>>,
}

impl Device for CountingDevice {
    fn size(&self) -> u64 {
        self.device.size()
    }

    fn sector_size(&self) -> u32 {
        self.device.sector_size()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> vnode::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.device.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> vnode::Result<()> {
        self.writes.lock().unwrap().push((offset, data.len() as u64));
        self.device.write_at(offset, data)
    }

    fn flush(&self) -> vnode::Result<()> {
        self.device.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> vnode::Result<()> {
        self.device.discard(offset, length)
    }
}

#[test]
fn files_are_read_and_written_in_blocks() {
    let Some(device) = image::format(KINDS[1]) else { return };
    let device = Arc::new(CountingDevice { device, reads: AtomicU64::new(0), writes: Mutex::default() });
    let shared: DeviceRef = device.clone();
    let options = Options { block: BLOCK, ..without_sidecars() };
    let file_system = FatFileSystem::open(shared, "test", options.clone()).unwrap();
    let contents: Vec<u8> = (0..200_000_u32).map(|byte| (byte / 3) as u8).collect();
    let vnode = put(&file_system.root(), "file", &contents).unwrap();
    assert_eq!(vnode.getattr(&superuser()).unwrap().block_size, BLOCK);
    let longest = device.writes.lock().unwrap().iter().map(|(_, length)| *length).max();
    assert!(longest >= Some(u64::from(BLOCK)));
    let large = device.writes.lock().unwrap().iter().filter(|(_, length)| *length == u64::from(BLOCK)).count();
    assert!(large >= contents.len() / BLOCK as usize - 1, "{large}");
    let file = vnode.open(&superuser(), OpenFlags::READ_WRITE).unwrap();
    let before = device.reads.load(Ordering::Relaxed);
    let mut read = vec![0; contents.len()];
    for (index, part) in read.chunks_mut(1000).enumerate() {
        assert_eq!(file.read_at(&superuser(), index as u64 * 1000, part), Ok(part.len()));
    }
    assert!(read == contents);
    let reads = device.reads.load(Ordering::Relaxed) - before;
    assert!((1..=2 * contents.len() as u64 / u64::from(BLOCK) + 2).contains(&reads), "{reads}");
    // What was changed is read.
    file.write_at(&superuser(), 150_500, b"new").unwrap();
    let mut three = [0; 3];
    file.read_at(&superuser(), 150_500, &mut three).unwrap();
    assert_eq!(&three, b"new");
    file.truncate(&superuser(), 10).unwrap();
    file.truncate(&superuser(), 160_000).unwrap();
    file.read_at(&superuser(), 150_500, &mut three).unwrap();
    assert_eq!(three, [0; 3]);
    let bad = Options { block: 3000, ..options };
    let expected = MountError::Block { block: 3000, cluster_size: 2048 };
    let clean = Arc::new(image::format(KINDS[1]).unwrap());
    assert_eq!(FatFileSystem::open(clean, "test", bad).err(), Some(expected));
}

#[test]
fn what_could_not_be_written_is_tried_again_if_the_options_say_so() {
    let Some(initial) = image::format(KINDS[1]) else { return };
    for options in [without_sidecars(), with_sidecars()] {
        let device = Arc::new(MemoryDevice::clone(&initial));
        let shared: DeviceRef = device.clone();
        let faulty = Arc::new(FaultyDevice::new(shared));
        let options = Options { errors: ErrorPolicy::Continue, ..options };
        let file_system = FatFileSystem::open(faulty.clone(), "test", options.clone()).unwrap();
        let root = file_system.root();
        put(&root, "before", &[1; 100_000]).unwrap();
        file_system.sync().unwrap();
        put(&root, "during", &[2; 50_000]).unwrap();
        root.unlink(&superuser(), name("before")).unwrap();
        faulty.add(Fault::of([Operation::Write, Operation::Flush], Effect::Error(Errno::EIO)));
        assert_eq!(file_system.sync(), Err(Errno::EIO));
        assert_eq!(file_system.sync(), Err(Errno::EIO));
        faulty.repair();
        put(&root, "after", &[3; 50_000]).unwrap();
        // Clusters that become free with one synchronization are free on the disk with the next.
        file_system.sync().unwrap();
        file_system.sync().unwrap();
        let expected = image::own_report(&device, FsckMode::Check).1;
        assert!(expected.counts.keys().all(|code| ["dirty", "free-count", "next-free"].contains(code)), "{expected}");
        drop((root, file_system));
        assert!(!image::examine(&device).0, "it stays marked as in use");
        let file_system = image::mount(&device, options);
        assert_eq!(names(&file_system.root()), ["after", "during"]);
        assert_eq!(get(&file_system.root(), "during").unwrap(), [2; 50_000]);
        drop(file_system);
        image::check(&device);
    }
}

#[test]
fn a_damaged_volume_becomes_read_only_unless_the_options_say_otherwise() {
    let Some(device) = image::format(KINDS[1]).map(Arc::new) else { return };
    let file_system = image::mount(&device, without_sidecars());
    put(&file_system.root(), "damaged", &[1; 10_000]).unwrap();
    put(&file_system.root(), "other", &[2; 10_000]).unwrap();
    file_system.end_of_use().unwrap();
    drop(file_system);
    let mut bytes = device.contents();
    // The chain of the first file leads back to its first cluster, in both tables.
    let at = |text: &[u8]| bytes.windows(text.len()).position(|window| window == text).unwrap();
    let entry = at(b"DAMAGED    ");
    let first = u16::from_le_bytes([bytes[entry + 26], bytes[entry + 27]]);
    let sectors = u64::from(u16::from_le_bytes([bytes[22], bytes[23]]));
    let start = 512 * u64::from(u16::from_le_bytes([bytes[14], bytes[15]]));
    for table in 0..2 {
        let place = (start + table * sectors * 512) as usize + 2 * (usize::from(first) + 1);
        bytes[place..place + 2].copy_from_slice(&0_u16.to_le_bytes());
    }
    for errors in [ErrorPolicy::RemountReadOnly, ErrorPolicy::Continue] {
        let damaged = Arc::new(MemoryDevice::from_bytes(&bytes));
        let file_system = image::mount(&damaged, Options { errors, ..without_sidecars() });
        let root = file_system.root();
        put(&root, "earlier", b"1").unwrap();
        assert_eq!(get(&root, "damaged").err(), Some(Errno::EIO));
        assert_eq!(get(&root, "other").unwrap(), [2; 10_000], "the rest is readable");
        let later = put(&root, "later", b"1").err();
        assert_eq!(later, (errors == ErrorPolicy::RemountReadOnly).then_some(Errno::EROFS));
        file_system.sync().unwrap();
        drop((root, file_system));
        let again = image::mount(&damaged, Options { preen: false, ..without_sidecars() });
        find(&again.root(), "earlier").unwrap();
        drop(again);
        assert!(!image::examine(&damaged).0, "it is marked as in use");
    }
}

#[test]
fn the_second_part_of_an_append_is_where_the_first_ended_or_nowhere() {
    for is_shortened in [false, true] {
        let Some(device) = image::format(KINDS[1]) else { return };
        let device = Arc::new(TrappedDevice::new(device));
        let shared: DeviceRef = device.clone();
        let file_system = FatFileSystem::open(shared, "test", without_sidecars()).unwrap();
        let root = file_system.root();
        put(&root, "old", &[1; 100_000]).unwrap();
        let appended = put(&root, "appended", &[2; 2048]).unwrap();
        let filler = put(&root, "filler", b"").unwrap().open(&superuser(), OpenFlags::WRITE).unwrap();
        let free = root.statfs(&superuser()).unwrap().blocks_free;
        filler.allocate(&superuser(), AllocateMode::ALLOCATE, 0, (free - 2) * 2048).unwrap();
        file_system.sync().unwrap();
        file_system.sync().unwrap();
        root.unlink(&superuser(), name("old")).unwrap();
        let other = appended.open(&superuser(), OpenFlags::WRITE).unwrap();
        device.before_flush(move || {
            if is_shortened {
                std::thread::scope(|scope| scope.spawn(|| other.truncate(&superuser(), 3000)).join().unwrap()).unwrap();
            }
        });
        let open = appended.open(&superuser(), OpenFlags::WRITE.with(OpenFlags::APPEND)).unwrap();
        let written = open.write_at(&superuser(), 0, &[3; 20_000]).unwrap();
        assert!(device.has_run(), "the clusters of the old file were freed in the middle");
        let (expected, size) = if is_shortened { (4096, 3000) } else { (20_000, 22_048) };
        assert_eq!((written, appended.getattr(&superuser()).unwrap().size), (expected, size));
    }
}

#[test]
fn boot_code_in_place_of_the_state_is_neither_read_nor_written() {
    let Some(device) = image::format(KINDS[0]) else { return };
    let mut bytes = device.contents();
    // As on old floppies: the jump leads to code at 36, where later systems have a drive, a state and a signature.
    let code = [0xFA, 0x33, 0xC0, 0x8E, 0xD0, 0xBC, 0x00, 0x7C];
    bytes[..3].copy_from_slice(&[0xEB, 0x22, 0x90]);
    bytes[36..44].copy_from_slice(&code);
    let device = Arc::new(MemoryDevice::from_bytes(&bytes));
    let file_system = image::mount(&device, without_sidecars());
    assert!(!file_system.properties().needs.read_only);
    put(&file_system.root(), "file", &[1; 20_000]).unwrap();
    file_system.end_of_use().unwrap();
    assert_eq!(device.contents()[36..44], code);
    let (checked, report) = image::own_report(&device, FsckMode::Repair);
    assert_eq!((report.found(), &checked.contents()[36..44]), (0, &code[..]), "{report}");
    let file_system = image::mount(&device, without_sidecars());
    assert_eq!(get(&file_system.root(), "file").unwrap(), [1; 20_000]);
}

#[test]
fn a_volume_with_problems_that_preening_leaves_is_mounted_read_only() {
    let Some(device) = image::format(KINDS[1]).map(Arc::new) else { return };
    let file_system = image::mount(&device, without_sidecars());
    put(&file_system.root(), "ONE", &[1; 10_000]).unwrap();
    put(&file_system.root(), "TWO", &[2; 10_000]).unwrap();
    file_system.sync().unwrap();
    let mut bytes = device.contents();
    drop(file_system);
    let at = |text: &[u8]| bytes.windows(text.len()).position(|window| window == text).unwrap();
    let (one, two) = (at(b"ONE        "), at(b"TWO        "));
    let cluster = [bytes[one + 26], bytes[one + 27]];
    bytes[two + 26..two + 28].copy_from_slice(&cluster);
    let shared = Arc::new(MemoryDevice::from_bytes(&bytes));
    let file_system = image::mount(&shared, without_sidecars());
    assert!(file_system.properties().needs.read_only);
    assert_eq!(put(&file_system.root(), "new", b"").err(), Some(Errno::EROFS));
    assert_eq!(get(&file_system.root(), "ONE").unwrap(), [1; 10_000]);
    drop(file_system);
    let options = Options { errors: ErrorPolicy::Continue, ..without_sidecars() };
    let file_system = image::mount(&shared, options);
    put(&file_system.root(), "new", b"").unwrap();
}

/// Size in bytes from which a write counts as one of data.
const DATA_MIN: usize = 4096;

/// A faulty device whose flushes, or writes of data, wait while its gate is closed.
struct GatedDevice {
    device: FaultyDevice,
    gates_data: bool,
    is_closed: Mutex<bool>,
    changed: Condvar,
}

impl GatedDevice {
    fn new(device: &Arc<MemoryDevice>, gates_data: bool) -> Arc<Self> {
        let shared: DeviceRef = device.clone();
        let device = FaultyDevice::new(shared);
        Arc::new(Self { device, gates_data, is_closed: Mutex::new(false), changed: Condvar::new() })
    }

    fn pass(&self) {
        drop(self.changed.wait_while(self.is_closed.lock().unwrap(), |is_closed| *is_closed).unwrap());
    }

    fn set_closed(&self, is_closed: bool) {
        *self.is_closed.lock().unwrap() = is_closed;
        self.changed.notify_all();
    }
}

impl Device for GatedDevice {
    fn size(&self) -> u64 {
        self.device.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> vnode::Result<()> {
        self.device.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> vnode::Result<()> {
        if self.gates_data && data.len() >= DATA_MIN {
            self.pass();
        }
        self.device.write_at(offset, data)
    }

    fn flush(&self) -> vnode::Result<()> {
        if !self.gates_data {
            self.pass();
        }
        self.device.flush()
    }
}

#[test]
fn what_was_complete_before_a_bad_sector_of_data_is_stored() {
    let Some(device) = image::format(KINDS[1]).map(Arc::new) else { return };
    let shared: DeviceRef = device.clone();
    let faulty = Arc::new(FaultyDevice::new(shared));
    let file_system = FatFileSystem::open(faulty.clone(), "test", with_sidecars()).unwrap();
    let root = file_system.root();
    put(&root, "a", &[1; 50_000]).unwrap();
    put(&root, "b", &[2; 50_000]).unwrap();
    let file = put(&root, "c", b"").unwrap().open(&superuser(), OpenFlags::WRITE).unwrap();
    faulty.add(Fault::of([Operation::Write], Effect::Error(Errno::EIO)).times(1));
    assert_eq!(file.write_at(&superuser(), 0, &[3; 50_000]), Err(Errno::EIO));
    assert_eq!(put(&root, "later", b"").err(), Some(Errno::EROFS));
    assert_eq!(file_system.sync(), Ok(()));
    let options = Options { preen: false, ..with_sidecars() };
    let stored = image::mount(&Arc::new(MemoryDevice::clone(&device)), options);
    assert_eq!(names(&stored.root()), ["a", "b", "c"]);
    assert_eq!(get(&stored.root(), "a").unwrap(), [1; 50_000]);
    assert_eq!(get(&stored.root(), "b").unwrap(), [2; 50_000]);
    assert_eq!(get(&stored.root(), "c").unwrap(), b"");
    file_system.end_of_use().unwrap();
    assert!(!image::examine(&device).0, "it stays marked as in use");
}

#[test]
fn everybody_who_waits_learns_of_a_failed_synchronization() {
    let Some(device) = image::format(KINDS[1]).map(Arc::new) else { return };
    let gated = GatedDevice::new(&device, false);
    let options = Options { errors: ErrorPolicy::Continue, ..without_sidecars() };
    let file_system = FatFileSystem::open(gated.clone(), "test", options).unwrap();
    let open = |name| put(&file_system.root(), name, &[1; 5000]).unwrap().open(&superuser(), OpenFlags::WRITE).unwrap();
    let files = [open("a"), open("b"), open("c")];
    gated.set_closed(true);
    std::thread::scope(|scope| {
        let waiting = files.each_ref().map(|file| scope.spawn(|| file.fsync(&superuser(), false)));
        std::thread::sleep(Duration::from_millis(300));
        gated.device.add(Fault::of([Operation::Flush], Effect::Error(Errno::EIO)));
        gated.set_closed(false);
        assert_eq!(waiting.map(|waiting| waiting.join().unwrap()), [Err(Errno::EIO); 3]);
    });
    gated.device.repair();
    // Each may have one more failure to report.
    let _ = files.each_ref().map(|file| file.fsync(&superuser(), false));
    assert_eq!(files.map(|file| file.fsync(&superuser(), false)), [Ok(()); 3]);
}

#[test]
fn each_open_file_reports_lost_data_once() {
    let Some(device) = image::format(KINDS[1]).map(Arc::new) else { return };
    let faulty = Arc::new(FaultyDevice::new(device));
    let options = Options { errors: ErrorPolicy::Continue, ..without_sidecars() };
    let file_system = FatFileSystem::open(faulty.clone(), "test", options).unwrap();
    let vnode = put(&file_system.root(), "file", &[1; 5000]).unwrap();
    let file = vnode.open(&superuser(), OpenFlags::WRITE).unwrap();
    faulty.add(Fault::of([Operation::Flush], Effect::Error(Errno::EIO)).times(1));
    assert_eq!(file_system.sync(), Err(Errno::EIO));
    assert_eq!(file_system.sync(), Ok(()));
    assert_eq!(file.fsync(&superuser(), false), Err(Errno::EIO));
    assert_eq!(file.fsync(&superuser(), false), Ok(()));
    let later = vnode.open(&superuser(), OpenFlags::WRITE).unwrap();
    assert_eq!(later.fsync(&superuser(), false), Ok(()));
}

#[test]
fn a_change_that_is_running_is_completed_before_the_volume_is_unmounted() {
    let Some(device) = image::format(KINDS[1]).map(Arc::new) else { return };
    let gated = GatedDevice::new(&device, true);
    let file_system = FatFileSystem::open(gated.clone(), "test", without_sidecars()).unwrap();
    let vnode = put(&file_system.root(), "file", &[1; 10_000]).unwrap();
    let file = vnode.open(&superuser(), OpenFlags::WRITE).unwrap();
    file_system.sync().unwrap();
    gated.set_closed(true);
    std::thread::scope(|scope| {
        let write = scope.spawn(|| file.write_at(&superuser(), 0, &[2; 10_000]));
        std::thread::sleep(Duration::from_millis(200));
        let end = scope.spawn(|| file_system.end_of_use());
        std::thread::sleep(Duration::from_millis(300));
        let has_ended = end.is_finished();
        gated.set_closed(false);
        assert!(!has_ended);
        assert_eq!(write.join().unwrap(), Ok(10_000));
        end.join().unwrap().unwrap();
    });
    assert_eq!(file.write_at(&superuser(), 0, b"late"), Err(Errno::EROFS));
    image::check(&device);
}

#[test]
fn changes_are_stored_soon_after_the_last_one() {
    let Some(device) = image::format(KINDS[1]).map(Arc::new) else { return };
    let file_system = image::mount(&device, without_sidecars());
    put(&file_system.root(), "file", &[1; 10_000]).unwrap();
    let begun = Instant::now();
    let is_stored = || {
        let copy = Arc::new(MemoryDevice::clone(&device));
        let stored = image::mount(&copy, Options { read_only: true, ..without_sidecars() });
        get(&stored.root(), "file").ok() == Some(vec![1; 10_000])
    };
    while !is_stored() {
        assert!(begun.elapsed() < Duration::from_millis(4500));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(begun.elapsed() > Duration::from_millis(900), "{:?}", begun.elapsed());
}

/// A device that loses the writes of a range which a failed flush did not make stable.
struct ForgettingDevice {
    device: MemoryDevice,
    fails: std::sync::atomic::AtomicBool,
    unflushed: Mutex<Vec<(u64, Vec<u8>)>>,
}

impl Device for ForgettingDevice {
    fn size(&self) -> u64 {
        self.device.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> vnode::Result<()> {
        self.device.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> vnode::Result<()> {
        let mut before = vec![0; data.len()];
        self.device.read_at(offset, &mut before)?;
        self.unflushed.lock().unwrap().push((offset, before));
        self.device.write_at(offset, data)
    }

    fn flush(&self) -> vnode::Result<()> {
        let unflushed = std::mem::take(&mut *self.unflushed.lock().unwrap());
        if !self.fails.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        for (offset, before) in unflushed.into_iter().rev() {
            self.device.write_at(offset, &before)?;
        }
        Err(Errno::EIO)
    }
}

#[test]
fn what_a_failed_flush_has_lost_of_the_table_is_written_again() {
    let Some(device) = image::format(KINDS[1]) else { return };
    let lossy = Arc::new(ForgettingDevice { device, fails: false.into(), unflushed: Mutex::default() });
    let options = Options { errors: ErrorPolicy::Continue, ..without_sidecars() };
    let file_system = FatFileSystem::open(lossy.clone(), "test", options).unwrap();
    put(&file_system.root(), "file", &[1; 50_000]).unwrap();
    lossy.fails.store(true, Ordering::Relaxed);
    assert_eq!(file_system.sync(), Err(Errno::EIO));
    file_system.sync().unwrap();
    let report = image::own_report(&lossy.device, plyfs_bases::fat::tools::fsck::FsckMode::Check).1;
    assert!(report.counts.keys().all(|code| ["dirty", "free-count", "next-free"].contains(code)), "{report}");
    assert_eq!(report.files, 2, "one of them is the journal");
}

#[test]
fn an_outdated_copy_of_the_table_is_not_read() {
    let Some(device) = image::format(KINDS[2]).map(Arc::new) else { return };
    let shared: DeviceRef = device.clone();
    let faulty = Arc::new(FaultyDevice::new(shared));
    // Little memory: pages of the table are forgotten.
    let options = Options { mirror: MirrorMode::AtUnmount, memory: 1, journal: false, ..without_sidecars() };
    let file_system = FatFileSystem::open(faulty.clone(), "test", options).unwrap();
    let root = file_system.root();
    put(&root, "first", &[1; 50_000]).unwrap();
    file_system.sync().unwrap();
    // Other pages are used until that of the first file is forgotten.
    put(&root, "large", &vec![2; 20 << 20]).unwrap();
    file_system.sync().unwrap();
    get(&root, "large").unwrap();
    let bytes = device.contents();
    let table = 512 * u64::from(u16::from_le_bytes([bytes[14], bytes[15]]));
    faulty.add(Fault::of([Operation::Read], Effect::Error(Errno::EIO)).within(table..table + 512));
    let blocks_free = root.statfs(&superuser()).map(|statistics| statistics.blocks_free);
    let first = get(&root, "first");
    assert!(first.is_err() || first == Ok(vec![1; 50_000]));
    faulty.repair();
    if let Ok(blocks_free) = blocks_free {
        assert_eq!(blocks_free, root.statfs(&superuser()).unwrap().blocks_free);
    }
    assert_eq!(get(&root, "first").unwrap(), [1; 50_000]);
}

/// A device that takes a while for each write of data.
struct SlowDevice(MemoryDevice);

impl Device for SlowDevice {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> vnode::Result<()> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> vnode::Result<()> {
        if data.len() >= DATA_MIN {
            std::thread::sleep(Duration::from_millis(30));
        }
        self.0.write_at(offset, data)
    }

    fn flush(&self) -> vnode::Result<()> {
        self.0.flush()
    }
}

#[test]
fn others_are_stored_while_a_file_grows_by_zeros() {
    const SIZE: u64 = 60 << 20;
    let Some(device) = image::format(KINDS[2]) else { return };
    let slow = Arc::new(SlowDevice(device));
    let file_system = FatFileSystem::open(slow.clone(), "test", without_sidecars()).unwrap();
    let vnode = put(&file_system.root(), "file", &[1; 10_000]).unwrap();
    let file = vnode.open(&superuser(), OpenFlags::WRITE).unwrap();
    std::thread::scope(|scope| {
        let growth = scope.spawn(|| file.truncate(&superuser(), SIZE));
        std::thread::sleep(Duration::from_millis(300));
        put(&file_system.root(), "other", b"text").unwrap();
        file_system.sync().unwrap();
        assert!(!growth.is_finished());
        growth.join().unwrap().unwrap();
    });
    let contents = get(&file_system.root(), "file").unwrap();
    assert!(contents.len() as u64 == SIZE && contents[..10_000] == [1; 10_000]);
    assert!(contents[10_000..].iter().all(|&byte| byte == 0));
    // More than there is: nothing changes.
    let other = find(&file_system.root(), "other").unwrap().vnode.open(&superuser(), OpenFlags::WRITE).unwrap();
    let free = || file_system.root().statfs(&superuser()).unwrap().blocks_free;
    let before = free();
    assert_eq!(other.truncate(&superuser(), SIZE), Err(Errno::ENOSPC));
    assert_eq!((get(&file_system.root(), "other").unwrap(), free()), (b"text".to_vec(), before));
    assert_eq!(other.write_at(&superuser(), u64::from(u32::MAX), b"x"), Err(Errno::EFBIG));
    assert_eq!(get(&file_system.root(), "other").unwrap(), b"text");
    drop((vnode, file, other));
    file_system.end_of_use().unwrap();
    image::check(&slow.0);
}
