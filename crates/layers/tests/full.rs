//! Storage below data layers that is full, or fails within a write: what fails has changed no byte, and what is written in
//! part is there up to the count that was answered.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::codecs::{Breaking, Breaks, CODECS, PutOn};
use common::{create, layer, memory, name, random, root, small_memory};
use vnode::layer::stack;
use vnode::{AllocateMode, Control, Errno, FileSystemRef, OpenFileRef, OpenFlags, Result, SetAttributes, VnodeRef};

const BLOCK_SIZES: [usize; 4] = [64, 512, 4096, 16_384];
const PUNCH: u32 = AllocateMode::PUNCH_HOLE.bits() | AllocateMode::KEEP_SIZE.bits();
const ZERO: u32 = AllocateMode::ZERO_RANGE.bits();

/// A change of a file in one call.
enum Step {
    Write(usize, Vec<u8>),
    Append(Vec<u8>),
    Truncate(usize),
    SetSize(usize),
    Allocate(u32, usize, usize),
}

impl Step {
    fn any(random: &mut fastrand::Rng, size: usize, block: usize) -> Self {
        let place = |random: &mut fastrand::Rng| random.usize(..=size + block / 2);
        let length = [1, 40, block, 3 * block][random.usize(..4)];
        match random.u8(..8) {
            0..=2 => Self::Write(place(random), bytes(random, length)),
            3 => Self::Append(bytes(random, length)),
            4 => Self::Truncate(place(random)),
            5 => Self::SetSize(place(random)),
            6 => Self::Allocate(PUNCH, place(random), length),
            _ => Self::Allocate(ZERO, place(random), length),
        }
    }

    /// What it is, without its data.
    fn title(&self) -> String {
        match self {
            Self::Write(offset, bytes) => format!("write {offset} {}", bytes.len()),
            Self::Append(bytes) => format!("append {}", bytes.len()),
            Self::Truncate(size) => format!("ftruncate {size}"),
            Self::SetSize(size) => format!("truncate {size}"),
            Self::Allocate(mode, offset, length) => format!("allocate {mode:#x} {offset} {length}"),
        }
    }

    /// Does it; the number of bytes that were written, for writes.
    fn run(&self, vnode: &VnodeRef, file: &OpenFileRef) -> Result<usize> {
        let caller = root();
        match self {
            Self::Write(offset, bytes) => file.write_at(&caller, *offset as u64, bytes),
            Self::Append(bytes) => {
                let appender = vnode.open(&caller, OpenFlags::WRITE.with(OpenFlags::APPEND))?;
                appender.write_at(&caller, 0, bytes)
            }
            Self::Truncate(size) => file.truncate(&caller, *size as u64).map(|()| 0),
            Self::SetSize(size) => {
                let changes = SetAttributes { size: Some(*size as u64), ..SetAttributes::default() };
                vnode.setattr(&caller, &changes).map(|_| 0)
            }
            Self::Allocate(mode, offset, length) => {
                let mode = AllocateMode::from_bits(*mode);
                file.allocate(&caller, mode, *offset as u64, *length as u64).map(|()| 0)
            }
        }
    }

    /// What a file that held `data` holds after it, with the first `count` bytes of what was to be written.
    fn applied(&self, data: &[u8], count: usize) -> Vec<u8> {
        let (mut data, end) = (data.to_vec(), data.len());
        let mut put = |offset: usize, bytes: &[u8]| {
            if data.len() < offset + bytes.len() {
                data.resize(offset + bytes.len(), 0);
            }
            data[offset..offset + bytes.len()].copy_from_slice(bytes);
        };
        match self {
            Self::Write(offset, bytes) => put(*offset, &bytes[..count]),
            Self::Append(bytes) => put(end, &bytes[..count]),
            Self::Truncate(size) | Self::SetSize(size) => data.resize(*size, 0),
            Self::Allocate(ZERO, offset, length) => put(*offset, &vec![0; *length]),
            Self::Allocate(_, offset, length) => {
                let end = (offset + length).min(data.len());
                data[(*offset).min(end)..end].fill(0);
            }
        }
        data
    }
}

/// Bytes of which some pieces need more room than others.
fn bytes(random: &mut fastrand::Rng, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let piece = random.usize(1..=length.div_ceil(2)).min(length - bytes.len());
        let kind = random.u8(..3);
        bytes.extend((0..piece).map(|_| [0, random.u8(1..224), random.u8(224..)][kind as usize]));
    }
    bytes
}

fn tell(file_system: &FileSystemRef, command: &str, arguments: &[(&str, &str)]) {
    let arguments = arguments.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let control = Control { target: "faulty".to_owned(), command: command.to_owned(), arguments };
    file_system.control(&control).unwrap();
}

/// All of a file, as a stack shows it that was built anew.
fn contents(put_on: PutOn, block: usize, lower: &FileSystemRef) -> Result<Vec<u8>> {
    let file_system = put_on(block, lower.clone());
    let vnode = file_system.root().lookup(&root(), name("file"))?.vnode;
    let file = vnode.open(&root(), OpenFlags::READ)?;
    let mut data = vec![0; file.getattr(&root())?.size as usize + 10];
    let length = vnode::read_fully(&*file, &root(), 0, &mut data)?;
    data.truncate(length);
    Ok(data)
}

/// Does random steps with a file of each data layer, each step between `start` and `end`, which make storage fail and work
/// again, and checks the file after each.
fn try_steps(
    lower: fn() -> FileSystemRef,
    start: impl Fn(&FileSystemRef, &mut fastrand::Rng),
    end: impl Fn(&FileSystemRef),
) {
    let mut random = random();
    let mut failed = 0;
    for (codec, put_on) in CODECS {
        for block in BLOCK_SIZES {
            for _ in 0..40 {
                let lower = lower();
                let file_system = put_on(block, lower.clone());
                let (vnode, file) = create(&file_system.root(), &root(), "file", 0o644);
                let size = random.usize(1..4 * block);
                let mut data = bytes(&mut random, size);
                assert_eq!(file.write_at(&root(), 0, &data), Ok(size));
                for _ in 0..8 {
                    let step = Step::any(&mut random, data.len(), block);
                    start(&lower, &mut random);
                    let result = step.run(&vnode, &file);
                    end(&lower);
                    failed += usize::from(result.is_err());
                    let found = contents(put_on, block, &lower);
                    let expected = result.map_or_else(|_| data.clone(), |count| step.applied(&data, count));
                    let length = data.len();
                    assert!(
                        found.as_ref() == Ok(&expected),
                        "{codec}, blocks of {block}, {length} bytes: {} answers {result:?}: {}",
                        step.title(),
                        match found {
                            Err(error) => format!("cannot be read: {error:?}"),
                            Ok(found) => {
                                let first = found.iter().zip(&expected).position(|(one, other)| one != other);
                                format!("{} bytes, not {}, other from {first:?}", found.len(), expected.len())
                            }
                        }
                    );
                    data = expected;
                }
            }
        }
    }
    assert!(failed > 50, "only {failed} steps failed");
}

#[test]
fn what_finds_no_room_changes_nothing() {
    let room = |lower: &FileSystemRef, random: &mut fastrand::Rng| {
        let most = [1, 30, 700, 9000][random.usize(..4)];
        tell(lower, "set", &[("room", &random.usize(..most).to_string())]);
        tell(lower, "on", &[]);
    };
    try_steps(|| layer("faulty", &[("room", "0")], memory()).off(), room, |lower| tell(lower, "off", &[]));
}

/// Switches the rules of `faulty` off.
trait Off {
    fn off(self) -> Self;
}

impl Off for FileSystemRef {
    fn off(self) -> Self {
        tell(&self, "off", &[]);
        self
    }
}

#[test]
fn what_finds_no_page_changes_nothing() {
    let fill = |lower: &FileSystemRef, random: &mut fastrand::Rng| {
        let free = lower.root().statfs(&root()).unwrap().blocks_available;
        let pages = free.saturating_sub(random.u64(..4));
        let (_, filler) = create(&lower.root(), &root(), "filler", 0o600);
        if pages > 0 {
            filler.allocate(&root(), AllocateMode::ALLOCATE, 0, pages * 4096).unwrap();
        }
    };
    try_steps(|| small_memory(64 * 4096), fill, |lower| lower.root().unlink(&root(), name("filler")).unwrap());
}

#[test]
fn a_call_that_fails_or_is_cut_short_below_changes_nothing() {
    thread_local! {
        static BREAKS: Arc<Breaks> = Arc::default();
    }
    let breaks = || BREAKS.with(Arc::clone);
    let lower = || stack(Breaking(BREAKS.with(Arc::clone)), memory());
    let start = |_: &FileSystemRef, random: &mut fastrand::Rng| {
        breaks().short.store(random.usize(..2) * random.usize(..6000), Ordering::Relaxed);
        breaks().left.store(random.usize(1..6), Ordering::Relaxed);
    };
    let end = |_: &FileSystemRef| breaks().left.store(0, Ordering::Relaxed);
    try_steps(lower, start, end);
}

#[test]
fn padding_takes_no_room() {
    let (codec, put_on) = CODECS[4];
    assert_eq!(codec, "packed");
    let lower = small_memory(9 * 4096);
    let file_system = put_on(16_384, lower.clone());
    let (vnode, file) = create(&file_system.root(), &root(), "file", 0o644);
    let bytes = |from: u8, length: usize| (0..length).map(|index| from + (index % 20) as u8).collect::<Vec<u8>>();
    // Each block needs 4 pages and a few bytes of the 9 that it may have.
    assert_eq!(file.write_at(&root(), 0, &bytes(1, 16_384)), Ok(16_384));
    assert_eq!(vnode.getattr(&root()).unwrap().blocks, 5 * 8);
    assert_eq!(file.write_at(&root(), 16_384, &bytes(1, 10_000)), Ok(10_000));
    assert_eq!(vnode.getattr(&root()).unwrap().blocks, 8 * 8);
    assert_eq!(file.write_at(&root(), 26_384, &bytes(230, 6_000)), Err(Errno::ENOSPC));
    assert_eq!(file.write_at(&root(), 0, &[0; 16_384]), Ok(16_384));
    assert_eq!(vnode.getattr(&root()).unwrap().blocks, 4 * 8, "what is no longer needed is a hole");
    assert_eq!(file.write_at(&root(), 26_384, &bytes(230, 6_000)), Ok(6_000));
}
