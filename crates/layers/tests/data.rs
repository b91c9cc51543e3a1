//! Data layers against a model: whatever is done to a file above, it holds what a plain file would hold.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use common::codecs::{CODECS, Cutting, Slow, Stuck};
use common::steps::{Steps, Stepwise};
use common::{contents, create, memory, name, random, root, small_memory, user};
use vnode::layer::stack as stacked;
use vnode::{
    AllocateMode, Caller, Control, Creation, Errno, FileSystemRef, OpenFileRef, OpenFlags, SeekTarget, SetAttributes,
    VnodeRef,
};

const BLOCK_SIZES: [usize; 4] = [1, 7, 64, 4096];

/// Does the same to a file of a data layer and to a vector.
struct Model {
    caller: Caller,
    vnode: VnodeRef,
    file: OpenFileRef,
    appender: OpenFileRef,
    data: Vec<u8>,
    block_size: usize,
    /// The longest file the model makes.
    reach: usize,
}

impl Model {
    fn new(file_system: &FileSystemRef, block_size: usize) -> Self {
        let caller = root();
        let (vnode, file) = create(&file_system.root(), &caller, "file", 0o644);
        let appender = vnode.open(&caller, OpenFlags::WRITE.with(OpenFlags::APPEND)).unwrap();
        Self { caller, vnode, file, appender, data: Vec::new(), block_size, reach: block_size * 6 + 20 }
    }

    /// A place to do something: often on or beside the edge of a block, or the end of the file.
    fn place(&self, random: &mut fastrand::Rng) -> usize {
        let near = match random.u8(..4) {
            0 => random.usize(..=self.reach),
            1 => self.data.len(),
            _ => random.usize(..6) * self.block_size,
        };
        (near + random.usize(..3)).saturating_sub(1).min(self.reach)
    }

    fn bytes(&self, random: &mut fastrand::Rng) -> Vec<u8> {
        let longest = if random.bool() { self.block_size * 3 + 1 } else { 12 };
        // Zeros are the special case of every layer: make some.
        let zeros = random.u8(..4) == 0;
        (0..random.usize(..=longest)).map(|_| if zeros { 0 } else { random.u8(..) }).collect()
    }

    fn grow(&mut self, size: usize) {
        if self.data.len() < size {
            self.data.resize(size, 0);
        }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.grow(offset + bytes.len());
            self.data[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// One step; answers what it was.
    fn step(&mut self, random: &mut fastrand::Rng) -> String {
        let caller = self.caller.clone();
        match random.u8(..12) {
            0..=2 => {
                let (offset, bytes) = (self.place(random), self.bytes(random));
                assert_eq!(self.file.write_at(&caller, offset as u64, &bytes), Ok(bytes.len()));
                self.write(offset, &bytes);
                format!("write {offset} {}", bytes.len())
            }
            3 => {
                let bytes = self.bytes(random);
                let offset = self.data.len();
                if offset > self.reach {
                    return "nothing".to_owned();
                }
                assert_eq!(self.appender.write_at(&caller, 0, &bytes), Ok(bytes.len()));
                self.write(offset, &bytes);
                format!("append {}", bytes.len())
            }
            4 | 5 => {
                let size = self.place(random);
                self.file.truncate(&caller, size as u64).unwrap();
                self.data.resize(size, 0);
                format!("ftruncate {size}")
            }
            6 => {
                let size = self.place(random);
                let changes = SetAttributes { size: Some(size as u64), ..SetAttributes::default() };
                assert_eq!(self.vnode.setattr(&caller, &changes).unwrap().size, size as u64);
                self.data.resize(size, 0);
                format!("truncate {size}")
            }
            7 if random.u8(..5) == 0 => {
                self.file = self.vnode.open(&caller, OpenFlags::READ_WRITE.with(OpenFlags::TRUNCATE)).unwrap();
                self.data.clear();
                "open O_TRUNC".to_owned()
            }
            _ => self.allocate(random),
        }
    }

    fn allocate(&mut self, random: &mut fastrand::Rng) -> String {
        let mode = [
            AllocateMode::ALLOCATE.bits(),
            AllocateMode::KEEP_SIZE.bits(),
            AllocateMode::PUNCH_HOLE.bits() | AllocateMode::KEEP_SIZE.bits(),
            AllocateMode::ZERO_RANGE.bits(),
            AllocateMode::ZERO_RANGE.bits() | AllocateMode::KEEP_SIZE.bits(),
        ][random.usize(..5)];
        let mode = AllocateMode::from_bits(mode);
        let (offset, other) = (self.place(random), self.place(random));
        let (offset, end) = (offset.min(other), offset.max(other) + 1);
        self.file.allocate(&self.caller, mode, offset as u64, (end - offset) as u64).unwrap();
        if !mode.contains(AllocateMode::KEEP_SIZE) {
            self.grow(end);
        }
        if mode.contains(AllocateMode::PUNCH_HOLE) || mode.contains(AllocateMode::ZERO_RANGE) {
            let size = self.data.len();
            self.data[offset.min(size)..end.min(size)].fill(0);
        }
        format!("allocate {:#x} {offset}..{end}", mode.bits())
    }

    fn check(&self, random: &mut fastrand::Rng) {
        let size = self.data.len();
        assert_eq!(self.file.getattr(&self.caller).unwrap().size, size as u64, "fstat");
        assert_eq!(self.vnode.getattr(&self.caller).unwrap().size, size as u64, "stat");
        self.check_read(0, size + 5);
        let start = self.place(random);
        self.check_read(start, random.usize(1..=self.block_size * 2 + 3));
        self.check_seek(self.place(random));
    }

    fn check_read(&self, start: usize, length: usize) {
        let mut read = vec![0xee; length];
        let count = self.file.read_at(&self.caller, start as u64, &mut read).unwrap();
        let expected = &self.data[start.min(self.data.len())..(start + length).min(self.data.len())];
        assert!(read[..count] == *expected, "read {start} {length}: {count} bytes, {} expected", expected.len());
    }

    /// Data may be reported where there are only zeros, never a hole where there is data.
    fn check_seek(&self, offset: usize) {
        let size = self.data.len();
        let hole = self.file.seek(&self.caller, offset as u64, SeekTarget::Hole);
        let data = self.file.seek(&self.caller, offset as u64, SeekTarget::Data);
        if offset >= size {
            assert_eq!((hole, data), (Err(Errno::ENXIO), Err(Errno::ENXIO)), "seek {offset}");
            return;
        }
        let hole = hole.unwrap() as usize;
        assert!(hole >= offset && hole <= size && (hole == size || self.data[hole] == 0), "hole at {hole}");
        match data {
            Ok(data) => {
                let data = data as usize;
                assert!(data >= offset && data < size, "data at {data}");
                assert!(self.data[offset..data].iter().all(|byte| *byte == 0), "data before {data}");
                assert!(data == offset || hole == offset, "neither data nor hole at {offset}");
            }
            Err(error) => {
                assert_eq!(error, Errno::ENXIO);
                assert!(self.data[offset..].iter().all(|byte| *byte == 0), "data after {offset}");
            }
        }
    }
}

#[test]
fn a_file_holds_what_a_plain_file_would() {
    let mut random = random();
    for (codec, stack) in CODECS {
        for block_size in BLOCK_SIZES {
            let steps = if block_size > 1000 { 300 } else { 1500 };
            let lower = memory();
            let mut model = Model::new(&stack(block_size, lower), block_size);
            let mut done = Vec::new();
            for _ in 0..steps {
                let before = model.data.len();
                let step = model.step(&mut random);
                done.push(format!("{step} (size {before} -> {})", model.data.len()));
                let history = || done[done.len().saturating_sub(6)..].join("; ");
                let context = || println!("{codec}, blocks of {block_size}: {}", history());
                let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| model.check(&mut random)));
                if let Err(panic) = checked {
                    context();
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
}

#[test]
fn what_was_written_is_there_after_the_layer_is_put_on_again() {
    let mut random = random();
    for (codec, stack) in CODECS {
        let lower = memory();
        let mut model = Model::new(&stack(64, lower.clone()), 64);
        (0..200).for_each(|_| drop(model.step(&mut random)));
        let again = stack(64, lower);
        let vnode = again.root().lookup(&root(), name("file")).unwrap().vnode;
        assert_eq!(contents(&vnode, &root()), model.data, "{codec}");
        assert_eq!(
            again.resolve(&root(), &model.vnode.handle()).unwrap().getattr(&root()).unwrap().size,
            model.data.len() as u64
        );
    }
}

#[test]
fn appends_of_several_threads_neither_mix_nor_overwrite() {
    const THREADS: usize = 4;
    const RECORDS: usize = 200;
    for (codec, stack) in CODECS {
        let file_system = stack(64, memory());
        let (vnode, _) = create(&file_system.root(), &root(), "log", 0o644);
        thread::scope(|scope| {
            for writer in 0..THREADS {
                let vnode = &vnode;
                scope.spawn(move || {
                    let file = vnode.open(&root(), OpenFlags::WRITE.with(OpenFlags::APPEND)).unwrap();
                    for record in 0..RECORDS {
                        let line = format!("{writer} {record} {}\n", "x".repeat((record * 7 + writer) % 150));
                        assert_eq!(file.write_at(&root(), 0, line.as_bytes()), Ok(line.len()));
                    }
                });
            }
        });
        let text = String::from_utf8(contents(&vnode, &root())).unwrap();
        let mut next = [0; THREADS];
        for line in text.lines() {
            let mut words = line.split(' ');
            let mut number = || words.next().unwrap().parse::<usize>().unwrap();
            let (writer, record) = (number(), number());
            assert_eq!(record, next[writer], "{codec}");
            assert_eq!(words.next().unwrap().len(), (record * 7 + writer) % 150, "{codec}");
            next[writer] += 1;
        }
        assert_eq!(next, [RECORDS; THREADS], "{codec}");
    }
}

#[test]
fn writers_of_one_block_do_not_undo_each_other() {
    const THREADS: usize = 4;
    for (codec, stack) in CODECS {
        let file_system = stack(64, memory());
        let (vnode, _) = create(&file_system.root(), &root(), "file", 0o644);
        thread::scope(|scope| {
            for writer in 0..THREADS {
                let vnode = &vnode;
                scope.spawn(move || {
                    let file = vnode.open(&root(), OpenFlags::READ_WRITE).unwrap();
                    for offset in (writer..2000).step_by(THREADS) {
                        file.write_at(&root(), offset as u64, &[writer as u8 + 1]).unwrap();
                    }
                });
            }
        });
        let expected: Vec<u8> = (0..2000).map(|offset| (offset % THREADS) as u8 + 1).collect();
        assert_eq!(contents(&vnode, &root()), expected, "{codec}");
    }
}

/// A command to the layer `faulty` of a stack.
fn faulty(command: &str, arguments: &[(&str, &str)], file_system: &FileSystemRef) -> String {
    let arguments = arguments.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    file_system.control(&Control { target: "faulty".into(), command: command.into(), arguments }).unwrap()
}

fn wait_until_one_hangs(file_system: &FileSystemRef) {
    while !faulty("stats", &[], file_system).ends_with("stopped=1") {
        thread::sleep(Duration::from_millis(1));
    }
}

/// One that hangs below holds the lock of its blocks: others go on, unless they change the size. (In a block map, each change is one of
/// the whole file.)
#[test]
fn a_read_that_hangs_keeps_no_other_block_waiting() {
    const BLOCK: usize = 64;
    for (codec, stack) in CODECS.into_iter().filter(|(codec, _)| *codec != "mapped") {
        let file_system = stack(BLOCK, common::layer("faulty", &[], memory()));
        let (vnode, file) = create(&file_system.root(), &root(), "file", 0o644);
        assert_eq!(file.write_at(&root(), 0, &[1; 10 * BLOCK]), Ok(10 * BLOCK), "{codec}");
        let hanging = [("operations", "read"), ("offset", "0-7"), ("times", "1"), ("stop", "yes")];
        faulty("set", &hanging, &file_system);
        let (done, is_done) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(file.read_at(&root(), 3, &mut [0; 5]), Ok(5)));
            wait_until_one_hangs(&file_system);
            scope.spawn(|| {
                assert_eq!(file.write_at(&root(), BLOCK as u64, &[2; BLOCK]), Ok(BLOCK));
                assert_eq!(file.write_at(&root(), 2 * BLOCK as u64 + 7, &[3; BLOCK]), Ok(BLOCK));
                assert_eq!(file.read_at(&root(), 9 * BLOCK as u64, &mut [0; BLOCK]), Ok(BLOCK));
                done.send("others").unwrap();
            });
            let others = is_done.recv_timeout(Duration::from_secs(10));
            scope.spawn(|| {
                assert_eq!(file.write_at(&root(), 10 * BLOCK as u64 - 1, &[4; 2]), Ok(2));
                done.send("growth").unwrap();
            });
            let growth = is_done.recv_timeout(Duration::from_millis(50));
            faulty("off", &[], &file_system);
            assert_eq!(others, Ok("others"), "{codec}: a block waits for another");
            assert!(growth.is_err(), "{codec}: the size changes while somebody reads");
        });
        let mut expected = [vec![1; BLOCK], vec![2; BLOCK], vec![1; 8 * BLOCK]].concat();
        expected[2 * BLOCK + 7..3 * BLOCK + 7].fill(3);
        expected[10 * BLOCK - 1] = 4;
        expected.push(4);
        assert_eq!(contents(&vnode, &root()), expected, "{codec}");
    }
}

/// Neighbours share blocks, and one thread changes the size, while what is below takes its time.
#[test]
fn readers_and_writers_of_adjacent_ranges_see_their_own_data() {
    const THREADS: usize = 5;
    /// Not a multiple of the block.
    const RANGE: usize = 150;
    const ROUNDS: u8 = 40;
    for (codec, stack) in CODECS {
        let delayed = [("operations", "read:write"), ("chance", "20"), ("seed", "1"), ("delay", "1")];
        let file_system = stack(64, common::layer("faulty", &delayed, memory()));
        let (vnode, file) = create(&file_system.root(), &root(), "file", 0o644);
        let size = THREADS * RANGE;
        assert_eq!(file.write_at(&root(), 0, &vec![0; size]), Ok(size), "{codec}");
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let file = &file;
                scope.spawn(move || {
                    let mut read = [0; RANGE];
                    let offset = (thread * RANGE) as u64;
                    for round in 1..=ROUNDS {
                        assert_eq!(file.write_at(&root(), offset, &[round; RANGE]), Ok(RANGE), "{codec}");
                        assert_eq!(file.read_at(&root(), offset, &mut read), Ok(RANGE), "{codec}");
                        assert_eq!(read, [round; RANGE], "{codec}");
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..ROUNDS / 2 {
                    assert_eq!(file.write_at(&root(), size as u64 + 70, b"tail"), Ok(4), "{codec}");
                    file.truncate(&root(), size as u64).unwrap();
                }
            });
        });
        assert_eq!(contents(&vnode, &root()), vec![ROUNDS; size], "{codec}");
    }
}

/// One that hangs below holds the lock of its file, and of no other.
#[test]
fn a_write_that_hangs_keeps_no_other_file_waiting() {
    const FILES: usize = 300;
    let below = common::layer("faulty", &[], memory());
    let file_system = common::layer("rot13", &[("block-size", "64")], below);
    let files: Vec<OpenFileRef> =
        (0..FILES).map(|number| create(&file_system.root(), &root(), &format!("{number}"), 0o644).1).collect();
    faulty("set", &[("operations", "write"), ("times", "1"), ("stop", "yes")], &file_system);
    let (done, is_done) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| files[0].write_at(&root(), 0, b"hangs").unwrap());
        wait_until_one_hangs(&file_system);
        scope.spawn(|| {
            for file in &files[1..] {
                file.write_at(&root(), 0, b"data").unwrap();
            }
            done.send(()).unwrap();
        });
        let others = is_done.recv_timeout(Duration::from_secs(10));
        faulty("off", &[], &file_system);
        others.expect("a file waits for another");
    });
}

#[test]
fn truncation_while_others_write_and_read_leaves_no_damage() {
    for (codec, stack) in CODECS {
        let file_system = stack(64, vnode::layer::stack(Slow, memory()));
        let (vnode, file) = create(&file_system.root(), &root(), "file", 0o644);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..300u64 {
                    thread::sleep(Duration::from_micros(round % 7 * 30));
                    match round % 3 {
                        0 => drop(vnode.open(&root(), OpenFlags::WRITE.with(OpenFlags::TRUNCATE)).unwrap()),
                        1 => file.truncate(&root(), 70).unwrap(),
                        _ => {
                            let flags = OpenFlags::WRITE.with(OpenFlags::TRUNCATE);
                            let how = Creation { mode: 0o644, flags };
                            drop(file_system.root().create(&root(), name("file"), &how).unwrap());
                        }
                    }
                }
                done.store(true, Ordering::Relaxed);
            });
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    file.write_at(&root(), 1000, b"written").unwrap();
                    file.write_at(&root(), 60, b"written").unwrap();
                }
            });
            let mut data = [0; 2000];
            while !done.load(Ordering::Relaxed) {
                let length = file.read_at(&root(), 0, &mut data).unwrap_or_else(|error| panic!("{codec}: {error}"));
                assert!(data[..length].iter().all(|byte| b"written\0".contains(byte)), "{codec}");
            }
        });
    }
}

#[test]
fn sizes_below_are_those_of_whole_blocks_with_their_overhead() {
    let lower = memory();
    let file_system = CODECS[3].1(4096, lower.clone());
    let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
    file.write_at(&root(), 0, &[1; 5000]).unwrap();
    let below = lower.root().lookup(&root(), name("file")).unwrap();
    assert_eq!(below.attributes.size, 4096 + 8 + 904 + 8);
    let entry = file_system.root().lookup(&root(), name("file")).unwrap();
    assert_eq!(entry.attributes.size, 5000);
}

#[test]
fn holes_stay_holes_where_the_layer_keeps_them() {
    const FAR: u64 = 1 << 40;
    for (codec, stack) in [CODECS[1], CODECS[3]] {
        let file_system = stack(4096, memory());
        let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
        file.write_at(&root(), FAR, b"end").unwrap();
        file.truncate(&root(), FAR * 2 + 5).unwrap();
        let attributes = file.getattr(&root()).unwrap();
        assert_eq!(attributes.size, FAR * 2 + 5, "{codec}");
        assert!(attributes.blocks < 100, "{codec} takes {} blocks", attributes.blocks);
        let data = file.seek(&root(), 0, SeekTarget::Data).unwrap();
        assert!(data <= FAR && data + 4096 > FAR, "{codec}");
        let mut read = [9; 10];
        assert_eq!(file.read_at(&root(), FAR * 2, &mut read), Ok(5));
        assert_eq!(read[..5], [0; 5]);
    }
}

#[test]
fn no_hole_is_found_past_the_end_that_others_give_a_file_meanwhile() {
    const WHOLE: u64 = 4 * 4096;
    for (left, offset, below) in (0..8)
        .flat_map(|left| [0, 50, 4096, 9000].map(|offset| (left, offset)))
        .flat_map(|(left, offset)| [108, 4104, 5000, 8208, 4 * 4104].map(|below| (left, offset, below)))
    {
        let cutting = stacked(Cutting { left: AtomicUsize::new(left), size: below }, memory());
        let file_system = CODECS[3].1(4096, cutting);
        let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
        file.write_at(&root(), 0, &[1; WHOLE as usize]).unwrap();
        let hole = file.seek(&root(), offset, SeekTarget::Hole);
        let size = file.getattr(&root()).unwrap().size;
        let expected = if offset < size { Ok(size) } else { Err(Errno::ENXIO) };
        assert_eq!(hole, expected, "from {offset}, cut to {below} below, before search {left}");
    }
}

#[test]
fn damaged_blocks_are_told_and_their_neighbours_stay_readable() {
    let lower = memory();
    let file_system = CODECS[3].1(64, lower.clone());
    let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
    file.write_at(&root(), 0, &[7; 200]).unwrap();
    let below = lower.root().lookup(&root(), name("file")).unwrap().vnode;
    let below = below.open(&root(), OpenFlags::READ_WRITE).unwrap();
    below.write_at(&root(), 72 + 20, b"!").unwrap();
    let mut read = [0; 64];
    assert_eq!(file.read_at(&root(), 0, &mut read), Ok(64));
    assert_eq!(file.read_at(&root(), 64, &mut read), Err(Errno::EBADMSG));
    assert_eq!(file.read_at(&root(), 128, &mut read), Ok(64));
    assert_eq!(file.write_at(&root(), 70, b"part"), Err(Errno::EBADMSG), "the rest of the block would be lost");
    assert_eq!(file.write_at(&root(), 64, &[8; 64]), Ok(64), "a whole block can be written anew");
    assert_eq!(file.read_at(&root(), 64, &mut read), Ok(64));
}

#[test]
fn how_a_file_was_opened_still_counts() {
    let file_system = CODECS[3].1(64, memory());
    let (vnode, file) = create(&file_system.root(), &root(), "file", 0o644);
    file.write_at(&root(), 0, b"data").unwrap();
    let reader = vnode.open(&root(), OpenFlags::READ).unwrap();
    let writer = vnode.open(&root(), OpenFlags::WRITE).unwrap();
    assert_eq!(reader.write_at(&root(), 0, b"x"), Err(Errno::EBADF));
    assert_eq!(reader.truncate(&root(), 0), Err(Errno::EINVAL));
    assert_eq!(reader.allocate(&root(), AllocateMode::ALLOCATE, 0, 10), Err(Errno::EBADF));
    assert_eq!(writer.read_at(&root(), 0, &mut [0; 4]), Err(Errno::EBADF));
    assert_eq!(reader.copy_range(&root(), 0, &writer, 0, 4), Err(Errno::EXDEV));
    assert_eq!(writer.allocate(&root(), AllocateMode::COLLAPSE_RANGE, 0, 64), Err(Errno::EOPNOTSUPP));
    assert_eq!(writer.write_at(&root(), i64::MAX as u64, b"x"), Err(Errno::EFBIG));
}

#[test]
fn who_may_only_write_may_write_part_of_a_block() {
    for (codec, stack) in CODECS {
        let file_system = stack(64, memory());
        let (vnode, file) = create(&file_system.root(), &root(), "drop", 0o622);
        let changes = SetAttributes { mode: Some(0o622), ..SetAttributes::default() };
        vnode.setattr(&root(), &changes).unwrap();
        file.write_at(&root(), 0, &[b'a'; 100]).unwrap();
        assert!(matches!(vnode.open(&user(7), OpenFlags::READ), Err(Errno::EACCES)), "{codec}");
        let writer = vnode.open(&user(7), OpenFlags::WRITE).unwrap();
        writer.write_at(&user(7), 98, b"bcd").unwrap();
        assert_eq!(writer.read_at(&user(7), 0, &mut [0; 4]), Err(Errno::EBADF));
        assert_eq!(contents(&vnode, &root())[95..], *b"aaabcd", "{codec}");
        let cut = SetAttributes { size: Some(3), ..SetAttributes::default() };
        assert_eq!(vnode.setattr(&user(7), &cut).unwrap().size, 3, "{codec}");
        assert_eq!(contents(&vnode, &root()), b"aaa");
        vnode.setattr(&root(), &SetAttributes { mode: Some(0o600), ..SetAttributes::default() }).unwrap();
        assert_eq!(vnode.setattr(&user(7), &cut), Err(Errno::EACCES));
        writer.truncate(&user(7), 2).unwrap();
        assert_eq!(contents(&vnode, &root()), b"aa", "an open file stays as it was opened");
    }
}

#[test]
fn data_layers_stack_on_each_other() {
    let mut random = random();
    let file_system = CODECS.iter().fold(memory(), |lower, (_, stack)| stack(48, lower));
    let file_system = CODECS[3].1(100, file_system);
    let mut model = Model::new(&file_system, 100);
    for _ in 0..500 {
        model.step(&mut random);
        model.check(&mut random);
    }
}

#[test]
fn a_full_disk_leaves_what_was_written_readable() {
    let mut random = random();
    for (codec, stack) in CODECS {
        for block_size in [7, 64, 1000, 5000] {
            for first in [0, 1, 3, 100, 4000] {
                // A map of so many blocks is longer than what they hold.
                if codec == "mapped" && block_size < 64 && first == 4000 {
                    continue;
                }
                let file_system = stack(block_size, small_memory(5 * 4096));
                let (_, file) = create(&file_system.root(), &root(), "file", 0o644);
                let mut data = vec![b'a'; first];
                file.write_at(&root(), 0, &data).unwrap();
                loop {
                    let more: Vec<u8> = (0..random.usize(1..9000)).map(|_| random.u8(1..)).collect();
                    match file.write_at(&root(), data.len() as u64, &more) {
                        Ok(length) => data.extend_from_slice(&more[..length]),
                        Err(error) => {
                            assert_eq!(error, Errno::ENOSPC);
                            break;
                        }
                    }
                }
                let size = file.getattr(&root()).unwrap().size as usize;
                assert_eq!(size, data.len(), "{codec}, blocks of {block_size}, after {first}");
                let mut read = vec![0; size];
                assert_eq!(file.read_at(&root(), 0, &mut read), Ok(size), "{codec}, blocks of {block_size}");
                assert!(read == data, "{codec}, blocks of {block_size}, after {first}");
            }
        }
    }
}

#[test]
fn what_fails_for_want_of_space_leaves_the_size() {
    let stack = CODECS[2].1;
    let file_system = stack(64, small_memory(8 * 4096));
    let (vnode, file) = create(&file_system.root(), &root(), "file", 0o644);
    file.write_at(&root(), 0, b"some").unwrap();
    assert_eq!(file.write_at(&root(), 1 << 20, b"x"), Err(Errno::ENOSPC));
    assert_eq!(file.truncate(&root(), 1 << 20), Err(Errno::ENOSPC));
    assert_eq!(file.allocate(&root(), AllocateMode::ZERO_RANGE, 0, 1 << 20), Err(Errno::ENOSPC));
    assert_eq!(contents(&vnode, &root()), b"some");
}

#[test]
fn a_file_that_cannot_be_cut_stays_whole() {
    // A block map cuts nothing below.
    for (codec, stack) in CODECS.into_iter().filter(|(codec, _)| *codec != "mapped") {
        let file_system = stack(64, vnode::layer::stack(Stuck, memory()));
        let (vnode, file) = create(&file_system.root(), &root(), "file", 0o644);
        let data: Vec<u8> = (0..150).collect();
        file.write_at(&root(), 0, &data).unwrap();
        for size in [10, 64, 100, 140] {
            assert_eq!(file.truncate(&root(), size), Err(Errno::EIO), "{codec}");
            assert_eq!(contents(&vnode, &root()), data, "{codec}");
        }
    }
}

/// What is done to a file: how much of the data was written, if any are.
type Change = fn(&OpenFileRef, &Caller) -> vnode::Result<Option<usize>>;

/// Each cancelled at each step below: it is done, or not done, or the first part of the data is written.
#[test]
fn what_is_cancelled_at_any_step_leaves_the_file_readable_and_as_it_was() {
    const NEW: [u8; 150] = [9; 150];
    let changes: [(&str, Change); 5] = [
        ("beyond the end", |file, caller| file.write_at(caller, 500, &NEW).map(Some)),
        ("within", |file, caller| file.write_at(caller, 30, &NEW).map(Some)),
        ("grow", |file, caller| file.truncate(caller, 700).map(|()| None)),
        ("cut", |file, caller| file.truncate(caller, 100).map(|()| None)),
        ("allocate", |file, caller| file.allocate(caller, AllocateMode::from_bits(0), 0, 600).map(|()| None)),
    ];
    let old: Vec<u8> = (1..=200).collect();
    for ((codec, put_on), (title, change)) in
        CODECS.iter().flat_map(|codec| changes.iter().map(move |change| (codec, change)))
    {
        let scene = || {
            let steps = Arc::new(Steps::default());
            let file_system = put_on(64, vnode::layer::stack(Stepwise(Arc::clone(&steps)), memory()));
            let (vnode, file) = create(&file_system.root(), &root(), "file", 0o644);
            file.write_at(&root(), 0, &old).unwrap();
            (steps, vnode, file)
        };
        let (steps, vnode, file) = scene();
        steps.run(0, |caller| change(&file, caller)).0.unwrap();
        let new = contents(&vnode, &root());
        for step in 1.. {
            let (steps, vnode, file) = scene();
            let (result, has_step) = steps.run(step, |caller| change(&file, caller));
            let expected = match result {
                Ok(Some(written)) if written < NEW.len() && *title == "within" => {
                    [&old[..30], &NEW[..written], &old[30 + written..]].concat()
                }
                Ok(Some(written)) => new[..new.len() - NEW.len() + written].to_vec(),
                Ok(None) => new.clone(),
                Err(error) => {
                    assert_eq!(error, Errno::EINTR);
                    old.clone()
                }
            };
            let expected = if result == Ok(Some(NEW.len())) { new.clone() } else { expected };
            assert_eq!(contents(&vnode, &root()), expected, "{codec}: {title} at {step}: {result:?}");
            if !has_step {
                break;
            }
            assert!(step < 1_000, "{codec}: {title} has no end");
        }
    }
}
