//! Block maps whose lower file lost what was not stored, was damaged, was made to cost time, or was written by another server:
//! what was stored is found, and damage is told.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::codecs::Mapped;
use common::{create, layer, memory, name, root, small_memory, user};
use vnode::layer::{Layer, LayerFile, stack};
use vnode::{Caller, Errno, FileSystemRef, OpenFileRef, OpenFlags, Result, SetAttributes};

const BLOCK: usize = 16 << 10;

/// Lower files on which one call can fail, and whose writes are recorded.
#[derive(Clone, Default)]
struct Faults(Arc<FaultsState>);

#[derive(Default)]
struct FaultsState {
    fails_sync: AtomicBool,
    is_full: AtomicBool,
    syncs: AtomicU64,
    /// Number of writes that succeed before all others fail, plus 1; 0 if none fail.
    writes_left: AtomicU64,
    writes: Mutex<Vec<(u64, usize)>>,
    punches: Mutex<Vec<(u64, u64)>>,
}

impl Layer for Faults {
    type State = ();

    fn kind(&self) -> &'static str {
        "faults"
    }

    fn write_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        if self.0.is_full.swap(false, Ordering::Relaxed) {
            return Err(Errno::ENOSPC);
        }
        match self.0.writes_left.load(Ordering::Relaxed) {
            0 => {}
            1 => return Err(Errno::EIO),
            left => self.0.writes_left.store(left - 1, Ordering::Relaxed),
        }
        self.0.writes.lock().unwrap().push((offset, data.len()));
        file.forward_write_at(caller, offset, data)
    }

    fn allocate(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        mode: vnode::AllocateMode,
        at: u64,
        length: u64,
    ) -> Result<()> {
        if mode.contains(vnode::AllocateMode::PUNCH_HOLE) {
            self.0.punches.lock().unwrap().push((at, length));
        }
        file.forward_allocate(caller, mode, at, length)
    }

    fn fsync(&self, file: &LayerFile<Self>, caller: &Caller, data_only: bool) -> Result<()> {
        if self.0.fails_sync.swap(false, Ordering::Relaxed) {
            // Others have the time to be told that theirs succeeded.
            std::thread::sleep(Duration::from_millis(200));
            return Err(Errno::EIO);
        }
        self.0.syncs.fetch_add(1, Ordering::Relaxed);
        file.forward_fsync(caller, data_only)
    }
}

fn mapped(lower: FileSystemRef) -> FileSystemRef {
    stack(Mapped { block_size: BLOCK }, lower)
}

fn below(lower: &FileSystemRef) -> OpenFileRef {
    lower.root().lookup(&root(), name("file")).unwrap().vnode.open(&root(), OpenFlags::READ_WRITE).unwrap()
}

fn size(file: &OpenFileRef) -> u64 {
    file.getattr(&root()).unwrap().size
}

/// A block that [`Mapped`] stores as it is.
fn block(version: u8) -> Vec<u8> {
    let mut data: Vec<u8> = (0..BLOCK).map(|index| (index % 251) as u8 ^ version).collect();
    data[0] = 7;
    data[1] = version;
    data
}

fn read_block(file_system: &FileSystemRef, number: usize) -> Result<Vec<u8>> {
    read_open_block(&opened(file_system)?, number)
}

fn opened(file_system: &FileSystemRef) -> Result<OpenFileRef> {
    file_system.root().lookup(&root(), name("file"))?.vnode.open(&root(), OpenFlags::READ)
}

fn read_open_block(file: &OpenFileRef, number: usize) -> Result<Vec<u8>> {
    let mut data = vec![0; BLOCK];
    let length = vnode::read_fully(&**file, &root(), (number * BLOCK) as u64, &mut data)?;
    data.truncate(length);
    Ok(data)
}

#[test]
fn a_block_that_was_synchronized_outlives_a_write_that_found_no_space_at_first() {
    let (lower, faults) = (memory(), Faults::default());
    let file_system = mapped(stack(faults.clone(), lower.clone()));
    let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
    let write = |number: usize, version: u8| {
        assert_eq!(file.write_at(&root(), (number * BLOCK) as u64, &block(version)), Ok(BLOCK));
    };
    write(0, 1);
    file.fsync(&root(), false).unwrap();
    for version in 2..=17 {
        write(if version == 5 { 0 } else { 1 }, version);
    }
    let before = size(&below(&lower));
    // The next record has the whole map.
    faults.0.is_full.store(true, Ordering::Relaxed);
    write(0, 18);
    // The power is cut: the record is on the disk, the block in front of it is not.
    std::mem::forget(file);
    below(&lower).write_at(&root(), before, &vec![0; BLOCK]).unwrap();
    let found = read_block(&mapped(lower), 0).map(|data| data[1]);
    assert!(matches!(found, Ok(1 | 5 | 18)), "{found:?}: none of the versions");
}

#[test]
fn a_header_that_was_lost_is_not_called_stored() {
    let (lower, faults) = (memory(), Faults::default());
    let file_system = mapped(stack(faults.clone(), lower.clone()));
    let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
    file.write_at(&root(), 0, &block(1)).unwrap();
    faults.0.fails_sync.store(true, Ordering::Relaxed);
    assert_eq!(file.fsync(&root(), false), Err(Errno::EIO));
    // The kernel has dropped the page that it could not write, as xfs does at once and others when memory is short.
    below(&lower).write_at(&root(), 0, &[0; 192]).unwrap();
    let result = file.fsync(&root(), false);
    drop(file);
    let found = read_block(&mapped(lower), 0).map(|data| data.len());
    assert!(result.is_err() || found == Ok(BLOCK), "fsync {result:?}, then {found:?} bytes");
}

#[test]
fn lost_writes_are_remembered_when_the_map_is_read_again() {
    let (lower, faults) = (memory(), Faults::default());
    let file_system = mapped(stack(faults.clone(), lower.clone()));
    let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
    file.write_at(&root(), 0, &block(1)).unwrap();
    faults.0.fails_sync.store(true, Ordering::Relaxed);
    assert_eq!(file.fsync(&root(), false), Err(Errno::EIO));
    // What a write leaves that fails, and that cannot be cut off either.
    let lower_file = below(&lower);
    lower_file.write_at(&root(), size(&lower_file), &[1; 64]).unwrap();
    let count = faults.0.writes.lock().unwrap().len();
    let result = file.fsync(&root(), false);
    let again = faults.0.writes.lock().unwrap().len() - count;
    assert!(result.is_err() || again > 0, "fsync {result:?} with nothing written again");
}

#[test]
fn lost_writes_are_remembered_when_nobody_has_used_the_file_meanwhile() {
    for is_map_in_memory in [true, false] {
        let (lower, faults) = (memory(), Faults::default());
        let file_system = mapped(stack(faults.clone(), lower.clone()));
        let (vnode, first) = create(&file_system.root(), &root(), "file", 0o644);
        first.write_at(&root(), 0, &block(1)).unwrap();
        first.fsync(&root(), false).unwrap();
        let stable = size(&below(&lower));
        first.write_at(&root(), 0, &block(2)).unwrap();
        let handle = vnode.handle();
        drop(vnode);
        let kept = is_map_in_memory.then_some(first);
        // Nobody looks the file up, which reads the map.
        let open = || file_system.resolve(&root(), &handle).unwrap().open(&root(), OpenFlags::READ).unwrap();
        faults.0.fails_sync.store(true, Ordering::Relaxed);
        assert_eq!(open().fsync(&root(), false), Err(Errno::EIO));
        drop(kept);
        let lost = size(&below(&lower));
        assert_eq!(open().fsync(&root(), false), Ok(()));
        // The power is cut, and what was lost was never on the disk.
        punch(&lower, stable, lost);
        let version = read_block(&mapped(lower), 0).map(|data| data.get(1).copied());
        assert_eq!(version, Ok(Some(2)), "map in memory: {is_map_in_memory}");
    }
}

/// However many files there are of which a synchronization has failed: then any that is there may be one of them.
#[test]
fn a_file_that_is_new_has_lost_nothing() {
    let failures = ((1 << 16) + 1).to_string();
    let lower = layer("faulty", &[("operations", "fsync"), ("times", &failures), ("error", "EIO")], memory());
    let faults = Faults::default();
    let file_system = mapped(stack(faults.clone(), lower));
    for _ in 0..(1 << 16) + 1 {
        let (_, file) = create(&file_system.root(), &root(), "failing", 0o644);
        assert_eq!(file.fsync(&root(), false), Err(Errno::EIO));
        file_system.root().unlink(&root(), name("failing")).unwrap();
    }
    let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
    file.write_at(&root(), 0, &block(1)).unwrap();
    let count = faults.0.writes.lock().unwrap().len();
    assert_eq!(file.fsync(&root(), false), Ok(()));
    assert_eq!(faults.0.writes.lock().unwrap().len(), count, "nothing is written again");
}

#[test]
fn an_error_that_nobody_was_told_is_told_when_the_file_is_opened_again() {
    let (lower, faults) = (memory(), Faults::default());
    let file_system = mapped(stack(faults.clone(), lower));
    let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
    faults.0.fails_sync.store(true, Ordering::Relaxed);
    // More than the server leaves unsynchronized.
    let many: Vec<u8> = (0..64).flat_map(|_| block(1)).collect();
    for part in 0..70 {
        file.write_at(&root(), (part * many.len()) as u64, &many).unwrap();
    }
    assert!(!faults.0.fails_sync.load(Ordering::Relaxed), "the server has synchronized it");
    drop(file);
    let again = opened(&file_system).unwrap();
    assert_eq!(again.fsync(&root(), false), Err(Errno::EIO));
    assert_eq!(again.fsync(&root(), false), Ok(()), "once");
}

/// Whoever synchronizes a file for reading only has no part in what was lost, and gets it stored all the same; what is written
/// again changes no data, and takes no set-ID bits away.
#[test]
fn a_readers_synchronization_writes_again_what_was_lost_and_clears_no_set_id_bits() {
    let (lower, faults) = (memory(), Faults::default());
    let file_system = mapped(stack(faults.clone(), lower.clone()));
    let (node, file) = create(&file_system.root(), &root(), "file", 0o644);
    file.write_at(&root(), 0, &block(1)).unwrap();
    faults.0.fails_sync.store(true, Ordering::Relaxed);
    assert_eq!(file.fsync(&root(), false), Err(Errno::EIO));
    node.setattr(&root(), &SetAttributes { mode: Some(0o6755), ..SetAttributes::default() }).unwrap();
    let reader = node.open(&user(3), OpenFlags::READ).unwrap();
    let count = faults.0.writes.lock().unwrap().len();
    assert_eq!(reader.fsync(&user(3), false), Ok(()));
    assert!(faults.0.writes.lock().unwrap().len() > count, "nothing is written again");
    assert_eq!(reader.getattr(&root()).unwrap().mode & 0o7000, 0o6000);
}

/// Number of bytes of blocks that are written again at once.
const PIECE_BYTES: usize = 64 << 20;
/// Blocks of a file of which several pieces are written again.
const MANY_BLOCKS: usize = 2 * PIECE_BYTES / BLOCK + 100;
/// Those of them that had an earlier version, which is on stable storage.
const STABLE_BLOCKS: usize = 100;

/// A file of many blocks that a failed synchronization may have lost.
struct LostWrites {
    lower: FileSystemRef,
    faults: Faults,
    file: OpenFileRef,
    /// What is on stable storage ends there.
    stable: u64,
}

impl LostWrites {
    fn on(lower: FileSystemRef) -> Self {
        let faults = Faults::default();
        let file_system = mapped(stack(faults.clone(), lower.clone()));
        let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
        let write = |number: usize, version: u8| {
            assert_eq!(file.write_at(&root(), (number * BLOCK) as u64, &block(version)), Ok(BLOCK));
        };
        (0..STABLE_BLOCKS).for_each(|number| write(number, 1));
        file.fsync(&root(), false).unwrap();
        let stable = size(&below(&lower));
        write(0, 1);
        faults.0.fails_sync.store(true, Ordering::Relaxed);
        assert_eq!(file.fsync(&root(), false), Err(Errno::EIO));
        let many: Vec<u8> = (0..MANY_BLOCKS / 20).flat_map(|_| block(2)).collect();
        for part in 0..20 {
            assert_eq!(file.write_at(&root(), (part * many.len()) as u64, &many), Ok(many.len()));
        }
        Self { lower, faults, file, stable }
    }
}

#[test]
fn what_a_failed_synchronization_lost_is_written_again_in_pieces_of_bounded_size() {
    let scene = LostWrites::on(memory());
    scene.faults.0.writes.lock().unwrap().clear();
    scene.faults.0.syncs.store(0, Ordering::Relaxed);
    let lost = size(&below(&scene.lower));
    assert_eq!(scene.file.fsync(&root(), false), Ok(()));
    let writes: Vec<usize> = scene.faults.0.writes.lock().unwrap().iter().map(|(_, length)| *length).collect();
    let record_bytes = MANY_BLOCKS * 40 + 256;
    assert!(writes.iter().all(|length| *length <= PIECE_BYTES + record_bytes), "{writes:?}");
    assert!(writes.len() >= 3 && writes.iter().sum::<usize>() >= (MANY_BLOCKS - 20) * BLOCK, "{writes:?}");
    assert_eq!(scene.faults.0.syncs.load(Ordering::Relaxed), writes.len() as u64, "each is stored before the next");
    // The power is cut, and nothing is left of what was lost.
    punch(&scene.lower, scene.stable, lost);
    std::mem::forget(scene.file);
    let after = opened(&mapped(scene.lower)).unwrap();
    for number in (0..MANY_BLOCKS / 20 * 20).step_by(97) {
        assert_eq!(read_open_block(&after, number), Ok(block(2)), "{number}");
    }
}

/// Makes a range of the lower file read as zeros, as what has never reached the storage.
fn punch(lower: &FileSystemRef, start: u64, end: u64) {
    let mode =
        vnode::AllocateMode::from_bits(vnode::AllocateMode::PUNCH_HOLE.bits() | vnode::AllocateMode::KEEP_SIZE.bits());
    below(lower).allocate(&root(), mode, start, end - start).unwrap();
}

#[test]
fn a_power_cut_while_lost_writes_are_written_again_takes_nothing_that_was_stable() {
    for pieces in 0..3 {
        let scene = LostWrites::on(memory());
        let lost = size(&below(&scene.lower));
        scene.faults.0.writes_left.store(pieces + 1, Ordering::Relaxed);
        assert_eq!(scene.file.fsync(&root(), false), Err(Errno::EIO), "{pieces}");
        std::mem::forget(scene.file);
        punch(&scene.lower, scene.stable, lost);
        let after = opened(&mapped(scene.lower)).unwrap();
        for number in 0..STABLE_BLOCKS {
            assert_eq!(read_open_block(&after, number), Ok(block(1)), "{pieces} pieces, block {number}");
        }
        assert!(read_open_block(&after, MANY_BLOCKS / 2).is_ok_and(|found| found.is_empty()), "{pieces}");
    }
}

#[test]
fn without_space_for_all_that_was_lost_nothing_is_written_again() {
    let scene = LostWrites::on(small_memory(((MANY_BLOCKS + STABLE_BLOCKS) * BLOCK + PIECE_BYTES + (16 << 20)) as u64));
    let before = size(&below(&scene.lower));
    assert_eq!(scene.file.fsync(&root(), false), Err(Errno::ENOSPC));
    assert_eq!(size(&below(&scene.lower)), before);
    assert_eq!(scene.file.fsync(&root(), false), Err(Errno::ENOSPC), "they are not taken for stored");
    let mut found = vec![0; BLOCK];
    assert_eq!(scene.file.read_at(&root(), 0, &mut found), Ok(BLOCK));
    assert_eq!(found, block(2));
    scene.file.truncate(&root(), BLOCK as u64).unwrap();
    assert_eq!(scene.file.fsync(&root(), false), Ok(()), "what is left has space");
}

#[test]
fn a_synchronization_beside_one_that_fails_does_not_call_stored_what_that_lost() {
    let (lower, faults) = (memory(), Faults::default());
    let file_system = mapped(stack(faults.clone(), lower));
    let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
    file.write_at(&root(), 0, &block(1)).unwrap();
    faults.0.fails_sync.store(true, Ordering::Relaxed);
    let writes = || faults.0.writes.lock().unwrap().len();
    let before = writes();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| file.fsync(&root(), false));
        while faults.0.fails_sync.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        assert_eq!(file.fsync(&root(), false), Err(Errno::EIO));
        assert_eq!(first.join().unwrap(), Err(Errno::EIO));
    });
    assert_eq!(file.fsync(&root(), false), Ok(()));
    assert!(writes() > before, "nothing was written again");
}

#[test]
fn a_bit_that_flips_does_not_make_a_file_empty() {
    let lower = memory();
    {
        let file_system = mapped(lower.clone());
        let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
        for version in 1..100 {
            file.write_at(&root(), 0, &block(version)).unwrap();
            file.fsync(&root(), false).unwrap();
        }
    }
    assert_eq!(read_block(&mapped(lower.clone()), 0).map(|data| data[1]), Ok(99));
    let file = below(&lower);
    let mut failed = Vec::new();
    for position in (0..size(&file)).step_by(8) {
        let mut old = [0; 8];
        file.read_at(&root(), position, &mut old).unwrap();
        if old == [0; 8] {
            continue;
        }
        file.write_at(&root(), position, &old.map(|byte| byte ^ 4)).unwrap();
        if read_block(&mapped(lower.clone()), 0).is_ok_and(|data| data.is_empty()) {
            failed.push(position);
        }
        file.write_at(&root(), position, &old).unwrap();
    }
    assert!(failed.is_empty(), "empty after damage at {failed:?} of {}", size(&file));
}

#[test]
fn a_header_of_zeros_does_not_make_a_synchronized_file_empty() {
    let lower = memory();
    {
        let file_system = mapped(lower.clone());
        let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
        for version in 1..4 {
            file.write_at(&root(), 0, &block(version)).unwrap();
            file.fsync(&root(), false).unwrap();
        }
    }
    below(&lower).write_at(&root(), 0, &[0; 512]).unwrap();
    let found = read_block(&mapped(lower), 0).map(|data| data.len());
    assert!(found.is_err(), "{found:?} bytes");
}

#[test]
fn a_file_that_another_server_has_written_anew_with_the_same_length_is_read_anew() {
    let lower = memory();
    let (one, other) = (mapped(lower.clone()), mapped(lower.clone()));
    let (_, file) = create(&one.root(), &root(), "file", 0o644);
    file.write_at(&root(), 0, &block(1)).unwrap();
    {
        let flags = OpenFlags::READ_WRITE.with(OpenFlags::TRUNCATE);
        let again = other.root().lookup(&root(), name("file")).unwrap().vnode.open(&root(), flags).unwrap();
        again.write_at(&root(), 0, &block(2)).unwrap();
    }
    let written = file.write_at(&root(), BLOCK as u64, &block(3));
    let found = [0, 1].map(|number| read_block(&mapped(lower.clone()), number).map(|data| data.get(1).copied()));
    assert!(written.is_err() || found == [Ok(Some(2)), Ok(Some(3))], "{written:?}, then {found:?}");
}

/// Counts the bytes that are read.
#[derive(Clone, Default)]
struct Reads(Arc<AtomicU64>);

impl Layer for Reads {
    type State = ();

    fn kind(&self) -> &'static str {
        "reads"
    }

    fn read_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.0.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        file.forward_read_at(caller, offset, buffer)
    }
}

const HOSTILE_BLOCK: u32 = 16 << 20;
const HOSTILE_STORED: u32 = 2 * HOSTILE_BLOCK + 4096;

/// A lower file of some kilobytes and a hole, whose record has blocks of these numbers, each so much after the one before.
fn hostile(numbers: &[u64], distance: u64) -> FileSystemRef {
    let sum = |bytes: &[u8]| xxhash_rust::xxh3::xxh3_64(bytes).to_le_bytes();
    let count = numbers.len() as u64;
    let start = (192 + u64::from(HOSTILE_STORED) + count * distance).next_multiple_of(64);
    let entry_bytes = (count * 40).next_multiple_of(64);
    let end = start + entry_bytes + 64;
    let mut header = [b"PlyfsLog".as_slice(), &1_u32.to_le_bytes(), &HOSTILE_BLOCK.to_le_bytes()].concat();
    [7, end].iter().for_each(|number: &u64| header.extend(number.to_le_bytes()));
    header.extend((entry_bytes as u32 + 64).to_le_bytes());
    header.extend(b"mapped\0\0\0\0\0\0\0\0\0\0");
    header.extend(100_u32.to_le_bytes());
    header.extend(sum(&header));
    let own = vec![0; 120];
    header.extend([own.as_slice(), &sum(&own)].concat());
    let of_hole = sum(&vec![0; HOSTILE_STORED as usize]);
    let mut record = Vec::new();
    for (index, number) in numbers.iter().enumerate() {
        record.extend([number.to_le_bytes(), (192 + index as u64 * distance).to_le_bytes(), of_hole].concat());
        [HOSTILE_STORED, HOSTILE_BLOCK, HOSTILE_BLOCK, 0].iter().for_each(|half| record.extend(half.to_le_bytes()));
    }
    record.resize(entry_bytes as usize, 0);
    record.extend(*b"PlyfsMap");
    [7, end, 0, 0, 1 << 40].iter().for_each(|number: &u64| record.extend(number.to_le_bytes()));
    record.extend((count as u32 | 1 << 31).to_le_bytes());
    record.extend([0; 4]);
    record.extend(sum(&record));
    let lower = memory();
    let (_, file) = create(&lower.root(), &root(), "file", 0o644);
    file.write_at(&root(), 0, &header).unwrap();
    file.write_at(&root(), start, &record).unwrap();
    lower
}

/// Finds the first data of a file. Returns that, and the number of bytes that are read for it.
fn seek(lower: FileSystemRef, from: u64) -> (Result<u64>, u64) {
    let reads = Reads::default();
    let file_system = mapped(stack(reads.clone(), lower));
    let vnode = file_system.root().lookup(&root(), name("file")).unwrap().vnode;
    let file = vnode.open(&root(), OpenFlags::READ).unwrap();
    let before = reads.0.load(Ordering::Relaxed);
    let result = file.seek(&root(), from, vnode::SeekTarget::Data);
    (result, reads.0.load(Ordering::Relaxed) - before)
}

#[test]
fn a_hostile_file_does_not_cost_more_reading_than_is_promised() {
    let numbers: Vec<u64> = (0..24).collect();
    let (result, read) = seek(hostile(&numbers, 0), 0);
    assert_eq!(result, Ok(0), "many blocks at one place");
    assert!(read <= 40 << 20, "{} MiB: it is read once", read >> 20);
    let (result, read) = seek(hostile(&numbers, HOSTILE_STORED.into()), 0);
    assert_eq!(result, Err(Errno::EBADMSG), "many blocks of nothing");
    assert!(read <= 256 << 20, "{} MiB", read >> 20);
    let (result, read) = seek(hostile(&numbers, 1), 0);
    assert_eq!(result, Err(Errno::EBADMSG), "blocks that overlap");
    assert!(read <= 2 << 20, "{} MiB: none of the blocks has to be read", read >> 20);
    assert_eq!(seek(hostile(&numbers[..1], 0), 0).0, Ok(0), "one block is in order");
}

/// A record of the whole map has 40 bytes for each block: the server is killed while it writes one of eight million blocks.
#[test]
fn what_was_synchronized_is_found_before_a_long_record_that_was_written_in_part() {
    let lower = memory();
    {
        let file_system = mapped(lower.clone());
        let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
        file.write_at(&root(), 0, &block(1)).unwrap();
        file.fsync(&root(), false).unwrap();
    }
    let lower_file = below(&lower);
    let (start, piece) = (size(&lower_file), vec![3; 1 << 20]);
    for index in 0..300 {
        assert_eq!(lower_file.write_at(&root(), start + index * piece.len() as u64, &piece), Ok(piece.len()));
    }
    let file_system = mapped(lower.clone());
    assert_eq!(read_block(&file_system, 0), Ok(block(1)));
    let vnode = file_system.root().lookup(&root(), name("file")).unwrap().vnode;
    let file = vnode.open(&root(), OpenFlags::READ_WRITE).unwrap();
    assert_eq!(file.write_at(&root(), BLOCK as u64, &block(2)), Ok(BLOCK), "it can be written again");
    drop(file);
    assert_eq!([0, 1].map(|number| read_block(&mapped(lower.clone()), number)), [Ok(block(1)), Ok(block(2))]);
}

#[test]
fn a_block_of_the_highest_number_is_beyond_the_end_of_the_file() {
    assert_eq!(seek(hostile(&[u64::MAX], 0), 5).0, Err(Errno::ENXIO));
}

#[test]
fn damage_of_a_file_that_nobody_synchronized_is_told_and_not_read_as_zeros() {
    let lower = memory();
    {
        let file_system = mapped(lower.clone());
        let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
        file.write_at(&root(), 0, &block(1)).unwrap();
    }
    let file = below(&lower);
    let mut byte = [0];
    file.read_at(&root(), 5000, &mut byte).unwrap();
    file.write_at(&root(), 5000, &[byte[0] ^ 1]).unwrap();
    let found = read_block(&mapped(lower), 0);
    assert!(found.is_err(), "{:?}", found.map(|data| data[..8].to_vec()));
}

/// Nobody asks for a synchronization, as with most files; but the kernel writes what is older than half a minute by itself.
#[test]
fn a_power_cut_does_not_take_what_the_kernel_stored_long_ago() {
    check_all_after_punches(|_| std::thread::sleep(Duration::from_millis(1100)));
}

#[test]
fn a_power_cut_does_not_take_what_a_synchronization_of_the_file_system_has_stored() {
    check_all_after_punches(|file_system| file_system.sync().unwrap());
}

/// Checks files of one block and of several that are written once, or more often, after something has stored what they had.
fn check_all_after_punches(store: impl Fn(&FileSystemRef) + Copy + Send) {
    let cases = [
        (8, false, 1),
        (8, true, 1),
        (8, false, 8),
        (8, false, 20),
        (8, true, 20),
        (1, true, 1),
        (1, false, 8),
        (1, false, 20),
        (1, true, 20),
    ];
    std::thread::scope(|scope| {
        for (blocks, is_closed, writes) in cases {
            scope.spawn(move || check_after_punches(blocks, is_closed, writes, store));
        }
    });
}

/// Writes a file of so many blocks, stores it, writes its first block so many times, and cuts the power.
fn check_after_punches(blocks: usize, is_closed: bool, writes: u8, store: impl Fn(&FileSystemRef)) {
    let (lower, faults) = (memory(), Faults::default());
    let file_system = mapped(stack(faults.clone(), lower.clone()));
    let (vnode, file) = create(&file_system.root(), &root(), "file", 0o644);
    let write = |number: usize, version: u8| {
        file.write_at(&root(), (number * BLOCK) as u64, &block(version)).unwrap();
    };
    (0..blocks).for_each(|number| write(number, 1));
    (0..12).for_each(|version| write(0, version + 2));
    // All this is on the disk by the time of the next write.
    store(&file_system);
    let stored = below(&lower);
    let mut disk = vec![0; size(&stored) as usize];
    vnode::read_fully(&*stored, &root(), 0, &mut disk).unwrap();
    faults.0.punches.lock().unwrap().clear();
    (0..writes).for_each(|version| write(0, version + 20));
    if is_closed {
        drop(file);
    }
    // The power is cut: what was punched is on the disk, what was written within the last seconds is not.
    for (at, length) in faults.0.punches.lock().unwrap().iter() {
        let end = ((at + length) as usize).min(disk.len());
        disk[(*at as usize).min(end)..end].fill(0);
    }
    let after = memory();
    create(&after.root(), &root(), "file", 0o644).1.write_at(&root(), 0, &disk).unwrap();
    let after = mapped(after);
    let found: Vec<_> = (0..blocks).map(|number| read_block(&after, number).map(|data| data.get(1).copied())).collect();
    let is_kept = found[1..].iter().all(|found| *found == Ok(Some(1))) && matches!(found[0], Ok(Some(13..)));
    assert!(is_kept, "{blocks} blocks, closed {is_closed}, {writes} writes: {found:?}");
    drop(vnode);
}

/// After a remount, records state an earlier position as stable than was last reported as synchronized.
#[test]
fn what_was_synchronized_before_a_remount_is_never_replaced_by_what_is_older() {
    for megabytes in [100, 300] {
        let lower = memory();
        {
            let file_system = mapped(lower.clone());
            let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
            file.write_at(&root(), 0, &block(1)).unwrap();
            file.fsync(&root(), false).unwrap();
            file.write_at(&root(), 0, &block(2)).unwrap();
            file.write_at(&root(), BLOCK as u64, &block(2)).unwrap();
            file.fsync(&root(), false).unwrap();
        }
        let acknowledged = size(&below(&lower));
        let faults = Faults::default();
        faults.0.fails_sync.store(true, Ordering::Relaxed);
        let file_system = mapped(stack(faults, lower.clone()));
        let vnode = file_system.root().lookup(&root(), name("file")).unwrap().vnode;
        let file = vnode.open(&root(), OpenFlags::READ_WRITE).unwrap();
        let many: Vec<u8> = (0..64).flat_map(|_| block(3)).collect();
        for part in 0..megabytes {
            file.write_at(&root(), (10 * BLOCK + part * many.len()) as u64, &many).unwrap();
        }
        let last = size(&below(&lower));
        file.write_at(&root(), (5 * BLOCK) as u64, &block(4)).unwrap();
        // The server is killed, and the power goes: nothing is written at the end.
        std::mem::forget(file);
        punch(&lower, acknowledged, last);
        for number in 0..2 {
            let found = read_block(&mapped(lower.clone()), number).map(|data| data.get(1).copied());
            let is_refused = megabytes == 300 && found == Err(Errno::EBADMSG);
            assert!(found == Ok(Some(2)) || is_refused, "{megabytes} MB, block {number}: {found:?}");
        }
    }
}
