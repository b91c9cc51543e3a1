//! Volumes under stress: many threads, little space, little memory, and devices that fail. Whatever fails, unmounted volumes are clean.
//!
//! `STRESS_SEED` replays a run, apart from the order of threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use plyfs_bases::device::{DeviceRef, FaultyDevice, MemoryDevice};
use plyfs_bases::fat::{FatFileSystem, MetadataMode, Options};
use vnode::{
    AllocateMode, Creation, Device, FileKind, FileSystem, OpenFileRef, OpenFlags, RenameMode, SetAttributes, VnodeRef,
    XattrMode,
};

use crate::image::{self, KINDS, Kind, get, in_entries, name, names, superuser, with_sidecars, without_sidecars};

/// Number of operations of each thread.
const STEPS: usize = 1500;
/// Number of names in a directory.
const NAMES: usize = 12;

fn seed() -> u64 {
    let seed = std::env::var("STRESS_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("STRESS_SEED={seed}");
    seed
}

/// A user of a volume, who has some files open.
struct User {
    random: Rng,
    root: VnodeRef,
    open: Vec<OpenFileRef>,
    size_max: usize,
}

impl User {
    fn new(seed: u64, root: VnodeRef, size_max: usize) -> Self {
        Self { random: Rng::with_seed(seed), root, open: Vec::new(), size_max }
    }

    fn name(&mut self) -> String {
        let number = self.random.usize(0..NAMES);
        if number.is_multiple_of(2) { format!("n{number}") } else { format!("A longer name, of number {number}") }
    }

    /// Returns a directory, which may not exist any more when it is used.
    fn directory(&mut self) -> VnodeRef {
        let mut directory = self.root.clone();
        for _ in 0..self.random.usize(0..3) {
            let text = self.name();
            match directory.lookup(&superuser(), name(&text)) {
                Ok(entry) if entry.attributes.is_directory() => directory = entry.vnode,
                _ => break,
            }
        }
        directory
    }

    /// Does something, whatever comes of it.
    fn step(&mut self) {
        let (directory, text, other) = (self.directory(), self.name(), self.name());
        let (own, other) = (name(&text), name(&other));
        let caller = superuser();
        let size = self.random.usize(0..self.size_max);
        let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
        match self.random.u8(0..23) {
            0..=4 => {
                if let Ok(created) = directory.create(&caller, own, &how) {
                    let _ = vnode::write_fully(&*created.file, &caller, 0, &vec![7; size]);
                    self.open.push(created.file);
                }
            }
            5 | 6 => drop(directory.mkdir(&caller, own, 0o755)),
            7 | 8 => drop(directory.unlink(&caller, own)),
            9 => drop(directory.rmdir(&caller, own)),
            10 | 11 => {
                let to = self.directory();
                let modes = [RenameMode::Replace, RenameMode::Replace, RenameMode::Exchange, RenameMode::Whiteout];
                let mode = modes[self.random.usize(0..modes.len())];
                let _ = directory.rename(&caller, own, &to, other, mode);
            }
            12 => drop(directory.symlink(&caller, own, &vec![b't'; 1 + size % 4095])),
            13 => drop(directory.mknod(&caller, own, FileKind::Fifo, 0o644, Device::default())),
            14 => {
                if let Ok(entry) = directory.lookup(&caller, own) {
                    let value = vec![1; size % 5000];
                    let _ = entry.vnode.setxattr(&caller, b"user.a", &value, XattrMode::Set);
                    let changes = SetAttributes { mode: Some(0o600), size: Some(size as u64), ..Default::default() };
                    let _ = entry.vnode.setattr(&caller, &changes);
                }
            }
            15 => drop(directory.tmpfile(&caller, &how).map(|created| self.open.push(created.file))),
            16 | 17 => {
                if let Some(file) = self.open.last() {
                    let _ = file.write_at(&caller, size as u64 / 2, &vec![9; size]);
                    let _ = file.allocate(&caller, AllocateMode::KEEP_SIZE, 0, 2 * size as u64 + 1);
                    let _ = file.read_at(&caller, 0, &mut vec![0; size]);
                    let _ = file.truncate(&caller, size as u64 / 3);
                }
            }
            18 => self.open.truncate(self.random.usize(0..4)),
            19..=21 => {
                if let Ok(entry) = self.directory().lookup(&caller, other) {
                    let _ = directory.link(&caller, &entry.vnode, own);
                }
            }
            _ => {
                if let Ok(open) = directory.open_directory(&caller) {
                    let _ = open.read(&caller, vnode::Cookie::START, &mut |_| std::ops::ControlFlow::Continue(()));
                }
            }
        }
    }
}

/// Reads everything below a directory.
fn read_all(directory: &VnodeRef) {
    for text in names(directory) {
        let entry = directory.lookup(&superuser(), name(&text)).unwrap();
        match entry.attributes.kind {
            FileKind::Directory => read_all(&entry.vnode),
            FileKind::Regular => drop(get(directory, &text).unwrap()),
            FileKind::Symlink => drop(entry.vnode.readlink(&superuser()).unwrap()),
            _ => {}
        }
    }
}

/// Lets several users work on a volume that is synchronized all the time, and checks it.
fn run(kind: Kind, options: Options, threads: u64, size_max: usize) {
    let Some(device) = image::format(kind).map(Arc::new) else { return };
    let seed = seed();
    let file_system = image::mount(&device, options.clone());
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let users: Vec<_> = (0..threads)
            .map(|thread| {
                let mut user = User::new(seed + thread, file_system.root(), size_max);
                scope.spawn(move || (0..STEPS).for_each(|_| user.step()))
            })
            .collect();
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                file_system.sync().unwrap();
                file_system.root().statfs(&superuser()).unwrap();
            }
        });
        let ends: Vec<_> = users.into_iter().map(|user| user.join()).collect();
        has_ended.store(true, Ordering::Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
    read_all(&file_system.root());
    drop(file_system);
    image::check(&device);
    read_all(&image::mount(&device, options).root());
}

#[test]
fn several_users_at_once_leave_a_clean_volume() {
    run(KINDS[2], with_sidecars(), 4, 20_000);
    run(KINDS[0], without_sidecars(), 4, 20_000);
    run(KINDS[2], in_entries(MetadataMode::Inline), 3, 20_000);
    run(KINDS[1], in_entries(MetadataMode::Paper), 3, 20_000);
}

#[test]
fn little_memory_is_enough_for_several_users() {
    run(KINDS[1], Options { memory: 0, ..with_sidecars() }, 3, 20_000);
}

#[test]
fn a_full_volume_is_clean() {
    for kind in [
        Kind { size: 1 << 20, sectors_per_cluster: 1, ..KINDS[0] },
        Kind { size: 3 << 20, sectors_per_cluster: 1, ..KINDS[1] },
    ] {
        run(kind, with_sidecars(), 1, 150_000);
        run(kind, without_sidecars(), 2, 150_000);
    }
}

#[test]
fn a_device_that_is_pulled_out_does_no_harm() {
    let seed = seed();
    let mut random = Rng::with_seed(seed);
    let Some(initial) = image::format(Kind { size: 4 << 20, sectors_per_cluster: 4, ..KINDS[0] }) else { return };
    for round in 0..40 {
        let device: DeviceRef = Arc::new(MemoryDevice::clone(&initial));
        let faulty = Arc::new(FaultyDevice::new(device));
        faulty.pull_out_after(random.u64(0..300));
        let options = if round % 2 == 0 { with_sidecars() } else { without_sidecars() };
        let Ok(file_system) = FatFileSystem::open(faulty, "pulled out", options) else { continue };
        let mut user = User::new(seed + round, file_system.root(), 20_000);
        for step in 0..200 {
            user.step();
            if step % 20 == 0 {
                let _ = file_system.sync();
            }
        }
    }
}
