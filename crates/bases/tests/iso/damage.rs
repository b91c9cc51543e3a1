//! Damaged images: whatever the bytes are, every operation ends, within bounds, without a panic.
//!
//! `ISO_SEED` and `ISO_MUTATIONS` select the first seed and the number of damaged images; each is damaged by its own seed.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use plyfs_bases::device::{Device, DeviceRef, MemoryDevice};
use plyfs_bases::iso::{IsoFileSystem, Options};
use vnode::{FileKind, FileSystem, Name, OpenFlags, Result};

use crate::image::{Workshop, root_user};
use crate::source;
use crate::tools::{genisoimage, run, xorriso};

/// Number of damaged images by default.
const MUTATIONS: u64 = 2_000;
/// Largest number of bytes that are read from one of them.
const BYTES_MAX: u64 = 1 << 30;
/// Longest CPU time for one of them, in seconds, without optimization.
const SECONDS_MAX: i64 = 10;
/// Largest memory of the test process, in KiB.
const MEMORY_MAX: u64 = 1 << 20;
/// Largest number of objects that one of them shows. They have fewer bytes.
const OBJECTS_MAX: usize = 100_000;

/// A device that counts the bytes that are read.
struct CountingDevice {
    device: MemoryDevice,
    bytes: AtomicU64,
}

impl Device for CountingDevice {
    fn size(&self) -> u64 {
        self.device.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let before = self.bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        assert!(before < BYTES_MAX, "too much is read");
        self.device.read_at(offset, buffer)
    }

    fn write_at(&self, _offset: u64, _data: &[u8]) -> Result<()> {
        panic!("images are not written to")
    }

    fn flush(&self) -> Result<()> {
        panic!("images are not written to")
    }
}

#[test]
fn damaged_images_are_read_within_bounds() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let count = number("ISO_MUTATIONS").unwrap_or(MUTATIONS);
    let first = number("ISO_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
    let workshop = Workshop::new();
    let images = images(&workshop);
    eprintln!("ISO_SEED={first} ISO_MUTATIONS={count}, {} images", images.len());
    let mut opened = 0;
    for seed in first..first + count {
        let mut random = Rng::with_seed(seed);
        let mut image = images[random.usize(..images.len())].clone();
        damage(&mut image, &mut random);
        let started = cpu_seconds();
        match catch_unwind(AssertUnwindSafe(|| read_everything(&image, &mut random))) {
            Ok(was_opened) => opened += u64::from(was_opened),
            Err(_) => panic!("replay with ISO_SEED={seed} ISO_MUTATIONS=1"),
        }
        let seconds = cpu_seconds() - started;
        assert!(seconds <= SECONDS_MAX, "{seconds} s; replay with ISO_SEED={seed} ISO_MUTATIONS=1");
    }
    eprintln!("{opened} of {count} could be opened");
    assert!(peak_memory() < MEMORY_MAX, "{} KiB", peak_memory());
    assert!(opened >= count / 3, "the damage is too large to test anything");
}

/// Returns the CPU time of this thread.
fn cpu_seconds() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec
}

/// Returns the largest memory of the process so far, in KiB.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Returns small images of all kinds.
fn images(workshop: &Workshop) -> Vec<Vec<u8>> {
    let source = workshop.source();
    fs::create_dir_all(source.join("dir/inner")).unwrap();
    source::file(&source.join("file"), 5000);
    source::file(&source.join("dir/inner/other file"), 100);
    source::file(&source.join("n".repeat(200)), 3);
    fs::write(source.join("zeros"), vec![0; 40_000]).unwrap();
    fs::write(source.join("words"), "some words ".repeat(7_000)).unwrap();
    std::os::unix::fs::symlink(vec!["part"; 60].join("/"), source.join("link")).unwrap();
    let deep = workshop.path("deep");
    source::deep(&deep, 10);
    let compressed = workshop.path("compressed");
    run("mkzftree", &[], &[&source, &compressed]);
    let path = |name: &str| workshop.path(name);
    xorriso(&["-R", "-J", "-no-pad"], &path("1"), &source);
    genisoimage(&["-R", "-J", "-no-pad"], &path("2"), &source);
    genisoimage(&["-R", "-no-pad"], &path("3"), &deep);
    xorriso(&["-R", "-no-pad", "-rr_reloc_dir", "/"], &path("4"), &deep);
    genisoimage(&["-R", "-z", "-no-pad"], &path("5"), &compressed);
    genisoimage(&["-no-pad"], &path("6"), &source.join("dir"));
    xorriso(&["--norock", "-J", "-no-pad", "-iso-level", "4"], &path("7"), &source);
    xorriso(&["-R", "-no-pad", "-b", "file", "-c", "catalog", "-no-emul-boot"], &path("8"), &source);
    for added in [&source, &deep] {
        let (image, added) = (path("9"), added.to_str().unwrap());
        let arguments = ["-dev", image.to_str().unwrap(), "-zisofs", "version_2=on", "-map", added, "/"];
        let filter = ["-set_filter_r", "--zisofs", "/", "--", "-commit", "-end"];
        run("xorriso", &[&arguments[..], &filter[..]].concat(), &[]);
    }
    (1..=9).map(|number: u32| read_image(&path(&number.to_string()))).collect()
}

fn read_image(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    assert!(bytes.len() < 1 << 20, "{} is not small", path.display());
    bytes
}

/// Changes some bytes, numbers or runs, mostly in the descriptors and directories at the beginning.
fn damage(image: &mut Vec<u8>, random: &mut Rng) {
    const INTERESTING: [u32; 12] =
        [0, 1, 2, 16, 20, 30, 2048, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0xffff_f800, 0x0001_0000];
    for _ in 0..random.usize(1..=12) {
        let start = if random.u8(..4) == 0 { 0 } else { 18 * 2048 };
        let end = image.len().min(if random.u8(..3) == 0 { usize::MAX } else { 60 * 2048 });
        let at = random.usize(start..end - 64);
        match random.u8(..6) {
            0 => image[at] = random.u8(..),
            1 => image[at] ^= 1 << random.u8(..8),
            2 => {
                let number = INTERESTING[random.usize(..INTERESTING.len())];
                image[at..at + 4].copy_from_slice(&number.to_le_bytes());
            }
            3 => {
                // Where numbers of records are, more often than elsewhere.
                let aligned = at / 2048 * 2048 + [2, 10, 2 + 136, 10 + 136, 2 + 238, 10 + 238][random.usize(..6)];
                let number = random.u32(..image.len() as u32 / 2048 + 3);
                image[aligned..aligned + 4].copy_from_slice(&number.to_le_bytes());
            }
            4 => {
                let (from, length) = (random.usize(18 * 2048..end - 64), random.usize(1..64));
                image.copy_within(from..from + length, at);
            }
            _ => {
                let (from, to) = (random.usize(18..end / 2048), random.usize(18..end / 2048));
                image.copy_within(from * 2048..from * 2048 + 2048, to * 2048);
            }
        }
    }
    if random.u8(..8) == 0 {
        image.truncate(random.usize(17 * 2048..image.len()));
    }
}

/// Opens an image and does everything that there is to do; returns whether it could be opened.
fn read_everything(image: &[u8], random: &mut Rng) -> bool {
    let options = ["", "rock=no", "rock=no,joliet=no", "rock=no,joliet=no,enhanced=no,memory=4m", "zisofs=no"];
    let options = Options::parse(options[random.usize(..options.len())]).unwrap();
    let bytes = AtomicU64::new(0);
    let device: DeviceRef = Arc::new(CountingDevice { device: MemoryDevice::from_bytes(image), bytes });
    let Ok(file_system) = IsoFileSystem::open(device, "damaged", options) else { return false };
    let _ = file_system.information().to_string();
    let caller = root_user();
    let mut objects = 0;
    for entry in file_system.walk().flatten() {
        objects += 1;
        assert!(objects < OBJECTS_MAX);
        assert!(entry.path.split(|byte| *byte == b'/').all(|name| name.is_empty() || Name::new(name).is_ok()));
        assert_eq!(entry.vnode.path().as_deref(), Ok(&entry.path[..]));
        let resolved = file_system.resolve(&caller, &entry.vnode.handle()).unwrap();
        assert_eq!(resolved.getattr(&caller).unwrap(), entry.attributes);
        match entry.attributes.kind {
            FileKind::Regular => {
                let Ok(file) = entry.vnode.open(&caller, OpenFlags::READ) else { continue };
                let size = entry.attributes.size;
                for offset in [0, size / 2, size.saturating_sub(30_000)] {
                    let _ = file.read_at(&caller, offset, &mut vec![0; 100_000]);
                }
            }
            FileKind::Symlink => drop(entry.vnode.readlink(&caller)),
            FileKind::Directory => drop(entry.vnode.parent(&caller).unwrap()),
            _ => {}
        }
    }
    true
}
