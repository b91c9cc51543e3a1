//! Block maps: what a power cut, a full disk, damage or somebody else below leaves of a file, and what space it takes.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::codecs::Mapped;
use common::{contents, create, memory, name, random, root, small_memory};
use fastrand::Rng;
use vnode::layer::{Layer, LayerFile, stack};
use vnode::{
    AllocateMode, Attributes, Caller, Control, Errno, FileSystemRef, OpenFileRef, OpenFlags, Promises, Result,
    SetAttributes, SetTime, Timestamp, VnodeRef,
};

const BLOCK_SIZE: usize = 1000;
/// The smallest part of a write that a disk makes as a whole.
const SECTOR_BYTES: usize = 512;
/// The longest file.
const REACH: usize = 12 * BLOCK_SIZE;

fn mapped(lower: FileSystemRef) -> FileSystemRef {
    stack(Mapped { block_size: BLOCK_SIZE }, lower)
}

/// The file below.
fn below(lower: &FileSystemRef) -> (VnodeRef, OpenFileRef) {
    let vnode = lower.root().lookup(&root(), name("file")).unwrap().vnode;
    let file = vnode.open(&root(), OpenFlags::READ_WRITE).unwrap();
    (vnode, file)
}

fn opened(file_system: &FileSystemRef) -> (VnodeRef, OpenFileRef) {
    let vnode = file_system.root().lookup(&root(), name("file")).unwrap().vnode;
    let file = vnode.open(&root(), OpenFlags::READ_WRITE).unwrap();
    (vnode, file)
}

/// A change of the lower file.
#[derive(Clone, Debug)]
enum LowerChange {
    Write(u64, Vec<u8>),
    Truncate(u64),
    Punch(u64, u64),
    /// All before is on the disk, but what was lost.
    Synchronize,
    /// A synchronization failed: of what was written since the one before, the kernel writes nothing more.
    LoseWrites,
}

/// Records what is done to the lower file.
struct Recorder {
    changes: Arc<Mutex<Vec<LowerChange>>>,
    /// Set to make the next synchronization fail.
    fails: Arc<AtomicBool>,
}

impl Recorder {
    fn add(&self, change: LowerChange) {
        self.changes.lock().unwrap().push(change);
    }
}

impl Layer for Recorder {
    type State = ();

    fn kind(&self) -> &'static str {
        "recorder"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn write_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        self.add(LowerChange::Write(offset, data.to_vec()));
        file.forward_write_at(caller, offset, data)
    }

    fn truncate(&self, file: &LayerFile<Self>, caller: &Caller, size: u64) -> Result<()> {
        self.add(LowerChange::Truncate(size));
        file.forward_truncate(caller, size)
    }

    fn allocate(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        mode: AllocateMode,
        at: u64,
        length: u64,
    ) -> Result<()> {
        if mode.contains(AllocateMode::PUNCH_HOLE) {
            self.add(LowerChange::Punch(at, length));
        }
        file.forward_allocate(caller, mode, at, length)
    }

    fn fsync(&self, file: &LayerFile<Self>, caller: &Caller, data_only: bool) -> Result<()> {
        if self.fails.swap(false, Ordering::Relaxed) {
            self.add(LowerChange::LoseWrites);
            return Err(Errno::EIO);
        }
        file.forward_fsync(caller, data_only)?;
        self.add(LowerChange::Synchronize);
        Ok(())
    }
}

/// A disk that loses what was not synchronized, and the states that the file above went through.
struct Scene {
    lower: FileSystemRef,
    file_system: FileSystemRef,
    file: OpenFileRef,
    changes: Arc<Mutex<Vec<LowerChange>>>,
    fails: Arc<AtomicBool>,
    /// Set if synchronizations may fail, and no new server begins, which would not know of it.
    is_of_one_server: bool,
    /// What is on the disk for certain, as it was before the first of the changes.
    disk: Vec<u8>,
    /// Contents of the file above, each with the number of changes below by then.
    states: Vec<(usize, Vec<u8>)>,
    /// Number of the state that is on the disk for certain, each with the number of changes below by then.
    promises: Vec<(usize, usize)>,
}

impl Scene {
    /// A lower file of these bytes, which hold this file.
    fn new(disk: Vec<u8>, data: Vec<u8>) -> Self {
        let (lower, changes, fails) = (memory(), Arc::new(Mutex::default()), Arc::new(AtomicBool::new(false)));
        let (_, file) = create(&lower.root(), &root(), "file", 0o644);
        vnode::write_fully(&*file, &root(), 0, &disk).unwrap();
        let recorder = Recorder { changes: Arc::clone(&changes), fails: Arc::clone(&fails) };
        let file_system = mapped(stack(recorder, lower.clone()));
        let (_, file) = opened(&file_system);
        let (is_of_one_server, states, promises) = (false, vec![(0, data)], vec![(0, 0)]);
        Self { lower, file_system, file, changes, fails, is_of_one_server, disk, states, promises }
    }

    fn data(&self) -> &Vec<u8> {
        &self.states.last().unwrap().1
    }

    fn step(&mut self, random: &mut Rng) {
        let mut data = self.data().clone();
        let caller = root();
        match random.u8(..12) {
            0..=5 => {
                let at = random.usize(..=data.len().min(REACH - 1));
                let longest = if random.bool() { 30 } else { 3 * BLOCK_SIZE };
                let length = random.usize(1..=longest).min(REACH - at);
                let byte = random.u8(1..);
                let new: Vec<u8> = (0..length).map(|index| byte.wrapping_add((index / 100) as u8)).collect();
                assert_eq!(self.file.write_at(&caller, at as u64, &new), Ok(length));
                data.resize(data.len().max(at + length), 0);
                data[at..at + length].copy_from_slice(&new);
            }
            6 => {
                let size = if random.u8(..4) == 0 { 0 } else { random.usize(..REACH) };
                self.file.truncate(&caller, size as u64).unwrap();
                data.resize(size, 0);
            }
            7 => {
                let at = random.usize(..REACH);
                let length = random.usize(1..=REACH - at);
                let mode = AllocateMode::PUNCH_HOLE.bits() | AllocateMode::KEEP_SIZE.bits();
                self.file.allocate(&caller, AllocateMode::from_bits(mode), at as u64, length as u64).unwrap();
                let size = data.len();
                data[at.min(size)..(at + length).min(size)].fill(0);
            }
            8 if !self.is_of_one_server => {
                // The server is ended, or killed, and begins again: the map is read.
                let recorder = Recorder { changes: Arc::clone(&self.changes), fails: Arc::clone(&self.fails) };
                let file_system = mapped(stack(recorder, self.lower.clone()));
                let unused = create(&memory().root(), &caller, "unused", 0o600).1;
                let old = std::mem::replace(&mut self.file, unused);
                if random.bool() {
                    drop(old)
                } else {
                    std::mem::forget(old)
                }
                self.file = opened(&file_system).1;
                self.file_system = file_system;
            }
            9 if self.is_of_one_server => {
                self.fails.store(true, Ordering::Relaxed);
                assert_eq!(self.file.fsync(&caller, random.bool()), Err(Errno::EIO));
            }
            9 | 10 => {
                self.file.fsync(&caller, random.bool()).unwrap();
                self.promises.push((self.changes.lock().unwrap().len(), self.states.len() - 1));
            }
            _ => drop(self.file_system.root().lookup(&caller, name("file")).unwrap()),
        }
        let changes = self.changes.lock().unwrap().len();
        self.states.push((changes, data));
    }

    /// What a power cut leaves on the disk after so many changes.
    fn cut(&self, point: usize, random: &mut Rng) -> Vec<u8> {
        let changes = self.changes.lock().unwrap();
        let changes = &changes[..point];
        let certain = changes.iter().rposition(|change| matches!(change, LowerChange::Synchronize)).unwrap_or(0);
        let lost = lost(changes);
        let luck = [0.0, 0.3, 0.7, 0.95, 1.0][random.usize(..5)];
        let mut disk = self.disk.clone();
        for (index, change) in changes.iter().enumerate() {
            let mut happens = |is_lost: bool| index < certain && !is_lost || random.f64() < luck;
            match change {
                LowerChange::Write(at, bytes) => {
                    let (at, end) = (*at as usize, *at as usize + bytes.len());
                    if end > disk.len() && happens(false) {
                        disk.resize(end, 0);
                    }
                    let mut start = at;
                    while start < end {
                        let sector_end = ((start / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
                        // The size is no page.
                        if lost[index] && index < certain {
                            disk.resize(disk.len().max(sector_end), 0);
                        }
                        if happens(lost[index]) {
                            disk.resize(disk.len().max(sector_end), 0);
                            disk[start..sector_end].copy_from_slice(&bytes[start - at..sector_end - at]);
                        }
                        start = sector_end;
                    }
                }
                LowerChange::Truncate(size) => {
                    // What comes after it is not in the file before it.
                    if !happens(false) {
                        break;
                    }
                    disk.resize(*size as usize, 0);
                }
                LowerChange::Punch(at, length) => {
                    let end = (at + length).min(disk.len() as u64) as usize;
                    let pages = (*at as usize..end).step_by(4096);
                    pages.filter(|_| happens(false)).for_each(|page| disk[page..(page + 4096).min(end)].fill(0));
                }
                LowerChange::Synchronize | LowerChange::LoseWrites => {}
            }
        }
        disk
    }

    /// Checks what is found after a power cut after so many changes.
    fn check(&self, point: usize, found: &[u8]) {
        let first = self.promises.iter().rev().find(|(changes, _)| *changes <= point).unwrap().1;
        // The step that was under way may be done.
        let last = self.states.iter().position(|(changes, _)| *changes > point).unwrap_or(self.states.len() - 1);
        let versions = || self.states[first..=last].iter().map(|(_, data)| data);
        let is_of_one = versions().any(|data| data.len() == found.len());
        let lengths = || versions().map(Vec::len).collect::<Vec<_>>();
        assert!(is_of_one, "{} bytes after {point} changes, not of {:?} from {first}", found.len(), lengths());
        let shortest = versions().map(Vec::len).min().unwrap();
        for (index, byte) in found.iter().enumerate() {
            let is_known = *byte == 0 && index >= shortest || versions().any(|data| data.get(index) == Some(byte));
            assert!(is_known, "byte {index} of {} is {byte}, in no state from {first} to {last}", found.len());
        }
    }
}

/// Returns which of the changes a failed synchronization may have lost.
fn lost(changes: &[LowerChange]) -> Vec<bool> {
    let (mut lost, mut first) = (vec![false; changes.len()], 0);
    for (index, change) in changes.iter().enumerate() {
        match change {
            LowerChange::Synchronize => first = index,
            LowerChange::LoseWrites => lost[std::mem::replace(&mut first, index)..index].fill(true),
            _ => {}
        }
    }
    lost
}

/// `BLOCK_MAP_ROUNDS` is the number of files. Everything that is found after a cut may be what was there since the last fsync, and what is done then is as safe.
#[test]
fn a_power_cut_takes_nothing_that_was_synchronized() {
    let mut random = random();
    let rounds = std::env::var("BLOCK_MAP_ROUNDS").map_or(100, |rounds| rounds.parse().expect("a number"));
    for round in 0..rounds {
        let (mut disk, mut data) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let mut scene = Scene::new(disk, data);
            scene.is_of_one_server = random.bool();
            assert_eq!(scene.data(), &read_all(&scene.file_system), "round {round}");
            (0..random.usize(1..60)).for_each(|_| scene.step(&mut random));
            let changes = scene.changes.lock().unwrap().len();
            let mut left = None;
            for _ in 0..6 {
                let point = random.usize(..=changes);
                let cut = scene.cut(point, &mut random);
                let after = Scene::new(cut.clone(), Vec::new());
                let found = read_all(&after.file_system);
                scene.check(point, &found);
                left = Some((cut, found));
            }
            (disk, data) = left.unwrap();
        }
    }
}

fn read_all(file_system: &FileSystemRef) -> Vec<u8> {
    let (vnode, _) = opened(file_system);
    let found = contents(&vnode, &root());
    let entry = file_system.root().lookup(&root(), name("file")).unwrap();
    assert_eq!(entry.attributes.size, found.len() as u64, "what is listed is what is read");
    found
}

#[test]
fn a_lower_file_that_another_wrote_is_refused_and_left_alone() {
    for text in [&b"text"[..], &[b'x'; 5000], &[0xff; 64]] {
        let lower = memory();
        let (_, file) = create(&lower.root(), &root(), "file", 0o644);
        file.write_at(&root(), 0, text).unwrap();
        let file_system = mapped(lower.clone());
        let (vnode, file) = opened(&file_system);
        assert_eq!(file.read_at(&root(), 0, &mut [0; 10]), Err(Errno::EBADMSG));
        assert_eq!(file.write_at(&root(), 0, b"new"), Err(Errno::EBADMSG));
        assert_eq!(file.truncate(&root(), 3), Err(Errno::EBADMSG));
        assert_eq!(vnode.getattr(&root()).unwrap().size, text.len() as u64, "it can be seen");
        assert_eq!(contents(&below(&lower).0, &root()), text);
        file.truncate(&root(), 0).unwrap();
        file.write_at(&root(), 0, b"new").unwrap();
        assert_eq!(contents(&vnode, &root()), b"new");
    }
}

/// Whatever is changed below: no panic, no endless search, no byte of another place.
#[test]
fn damage_below_is_told() {
    let mut random = random();
    for round in 0..300 {
        let mut scene = Scene::new(Vec::new(), Vec::new());
        (0..40).for_each(|_| scene.step(&mut random));
        let versions = scene.states;
        let mut bytes = contents(&below(&scene.lower).0, &root());
        for _ in 0..random.usize(1..4) {
            if bytes.is_empty() {
                continue;
            }
            let at = random.usize(..bytes.len());
            match random.u8(..4) {
                0 => bytes[at] ^= 1 << random.u8(..8),
                1 => bytes.truncate(at),
                2 => {
                    let end = (at + random.usize(..2000)).min(bytes.len());
                    bytes[at..end].fill(0);
                }
                _ => {
                    let from = random.usize(..bytes.len());
                    let length = random.usize(..500).min(bytes.len() - from.max(at));
                    bytes.copy_within(from..from + length, at);
                }
            }
        }
        let damaged = Scene::new(bytes, Vec::new());
        let size = damaged.file.getattr(&root()).unwrap().size;
        let mut data = vec![0; 100];
        for at in (0..size.min(2 * REACH as u64)).step_by(100) {
            let Ok(length) = damaged.file.read_at(&root(), at, &mut data) else { continue };
            for (index, byte) in data[..length].iter().enumerate() {
                let index = at as usize + index;
                let is_known = *byte == 0 || versions.iter().any(|(_, data)| data.get(index) == Some(byte));
                assert!(is_known, "round {round}: byte {index} is {byte}");
            }
        }
    }
}

fn blocks(lower: &FileSystemRef) -> u64 {
    lower.root().lookup(&root(), name("file")).unwrap().attributes.blocks
}

/// Data that do not become shorter.
fn noise(length: usize, random: &mut Rng) -> Vec<u8> {
    (0..length).map(|_| random.u8(1..)).collect()
}

#[test]
fn space_is_given_back() {
    let mut random = random();
    let lower = memory();
    let file_system = stack(Mapped { block_size: 65536 }, lower.clone());
    let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
    let data = noise(1 << 20, &mut random);
    // In pieces that are no whole blocks, as programs write.
    for (index, piece) in data.chunks(4000).enumerate() {
        file.write_at(&root(), (index * 4000) as u64, piece).unwrap();
    }
    drop(file);
    let written = blocks(&lower) * 512;
    assert!(written < data.len() as u64 * 5 / 4, "{written} bytes for {}", data.len());
    let (vnode, file) = opened(&file_system);
    for _ in 0..40 {
        file.write_at(&root(), 0, &data).unwrap();
        file.fsync(&root(), true).unwrap();
    }
    drop(file);
    let written = blocks(&lower) * 512;
    assert!(written < data.len() as u64 * 5 / 4, "{written} bytes after it was written again");
    let (_, file) = opened(&file_system);
    file.truncate(&root(), 1000).unwrap();
    file.fsync(&root(), true).unwrap();
    drop(file);
    let written = blocks(&lower) * 512;
    assert!(written < 1 << 18, "{written} bytes after it was cut");
    assert_eq!(contents(&vnode, &root()), data[..1000]);
}

#[test]
fn a_file_that_is_never_synchronized_takes_a_bounded_part_more() {
    let mut random = random();
    let lower = memory();
    let file_system = stack(Mapped { block_size: 65536 }, lower.clone());
    let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
    let data = noise(4 << 20, &mut random);
    file.write_at(&root(), 0, &data).unwrap();
    file.fsync(&root(), false).unwrap();
    let mut most = 0;
    for _ in 0..100 {
        let at = random.usize(..data.len() - (1 << 19));
        file.write_at(&root(), at as u64, &data[at..at + (1 << 19)]).unwrap();
        most = most.max(blocks(&lower) * 512);
    }
    assert!(most < 10 << 20, "{most} bytes for {}", data.len());
    assert_eq!(contents(&opened(&file_system).0, &root()), data);
}

#[test]
fn what_is_given_back_when_a_file_is_closed_leaves_its_times() {
    let lower = memory();
    let file_system = stack(Mapped { block_size: 65536 }, lower.clone());
    let (vnode, file) = create(&file_system.root(), &root(), "file", 0o644);
    for index in 0..20 {
        file.write_at(&root(), index * 3000, &[3; 3000]).unwrap();
    }
    let time = Timestamp { seconds: 1_000_000, nanoseconds: 5 };
    let changes = SetAttributes { mtime: Some(SetTime::To(time)), ..SetAttributes::default() };
    vnode.setattr(&root(), &changes).unwrap();
    let before = blocks(&lower);
    drop(file);
    assert!(blocks(&lower) < before, "something was given back");
    let Attributes { mtime, .. } = vnode.getattr(&root()).unwrap();
    assert_eq!(mtime, time);
}

#[test]
fn a_full_disk_is_used_up_to_what_can_be_freed() {
    let mut random = random();
    let lower = small_memory(64 * 4096);
    let file_system = stack(Mapped { block_size: 4096 }, lower.clone());
    let (vnode, file) = create(&file_system.root(), &root(), "file", 0o644);
    let data = noise(20 * 4096, &mut random);
    file.write_at(&root(), 0, &data).unwrap();
    file.fsync(&root(), false).unwrap();
    // Three times as much as the disk has.
    for _ in 0..10 {
        assert_eq!(file.write_at(&root(), 0, &data), Ok(data.len()));
    }
    assert_eq!(contents(&vnode, &root()), data);
    assert_eq!(file.write_at(&root(), 0, &noise(70 * 4096, &mut random)), Err(Errno::ENOSPC));
    assert_eq!(contents(&vnode, &root()), data);
}

#[test]
fn blocks_keep_the_size_that_their_file_began_with() {
    let lower = memory();
    let data: Vec<u8> = (0..10_000_u32).map(|index| (index / 3) as u8).collect();
    let (_, file) = create(&stack(Mapped { block_size: 777 }, lower.clone()).root(), &root(), "file", 0o644);
    file.write_at(&root(), 0, &data).unwrap();
    let (vnode, file) = opened(&stack(Mapped { block_size: 4096 }, lower.clone()));
    assert_eq!(contents(&vnode, &root()), data);
    file.write_at(&root(), 5000, b"more").unwrap();
    let (vnode, _) = opened(&stack(Mapped { block_size: 64 }, lower));
    assert_eq!(contents(&vnode, &root())[4999..5005], [(4999 / 3) as u8, b'm', b'o', b'r', b'e', (5004 / 3) as u8]);
}

#[test]
fn what_another_server_wrote_to_the_lower_file_is_seen() {
    let lower = memory();
    let (one, other) = (mapped(lower.clone()), mapped(lower));
    let (vnode, file) = create(&one.root(), &root(), "file", 0o644);
    file.write_at(&root(), 0, b"first").unwrap();
    let (other_vnode, other_file) = opened(&other);
    assert_eq!(contents(&other_vnode, &root()), b"first");
    file.write_at(&root(), 5, b" second").unwrap();
    let mut data = [0; 20];
    assert_eq!(other_file.read_at(&root(), 0, &mut data), Ok(12));
    other_file.write_at(&root(), 0, b"F").unwrap();
    assert_eq!(file.read_at(&root(), 0, &mut data), Ok(12));
    assert_eq!(&data[..12], b"First second");
    assert_eq!(vnode.getattr(&root()).unwrap().size, 12);
}

/// A change waits for it.
#[test]
fn a_read_that_hangs_keeps_no_other_read_waiting() {
    let faulty = common::layer("faulty", &[], memory());
    let control = |command: &str, arguments: &[(&str, &str)]| {
        let arguments = arguments.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        faulty.control(&Control { target: "faulty".into(), command: command.into(), arguments }).unwrap()
    };
    let (_, file) = create(&mapped(faulty.clone()).root(), &root(), "file", 0o644);
    file.write_at(&root(), 0, &[1; 5 * BLOCK_SIZE]).unwrap();
    control("set", &[("operations", "read"), ("times", "1"), ("stop", "yes")]);
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(file.read_at(&root(), 3, &mut [0; 5]), Ok(5)));
        while !control("stats", &[]).ends_with("stopped=1") {
            std::thread::sleep(Duration::from_millis(1));
        }
        scope.spawn(|| {
            assert_eq!(file.read_at(&root(), 5, &mut [0; 10]), Ok(10));
            assert_eq!(file.read_at(&root(), 2 * BLOCK_SIZE as u64, &mut [0; BLOCK_SIZE]), Ok(BLOCK_SIZE));
            done.send(()).unwrap();
        });
        let others = is_done.recv_timeout(Duration::from_secs(10));
        control("off", &[]);
        assert_eq!(others, Ok(()), "a read waits for another");
    });
}
