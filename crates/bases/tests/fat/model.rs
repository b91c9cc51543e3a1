//! Random operations over a FAT volume and over `mem` side by side: each step answers the same on both, also after the volume was
//! unmounted and mounted again, and fsck.fat finds every unmounted volume clean.
//!
//! `MODEL_SEED` replays a failure, `MODEL_STEPS` says how many steps are made.

use std::sync::Arc;

use fastrand::Rng;
use plyfs_bases::device::MemoryDevice;
use plyfs_bases::fat::{MetadataMode, Options};
use plyfs_bases::mem::{self, MemoryFileSystem};
use vnode::{Caller, Description, FileSystem, Handle, Properties, Result, SetAttributes, SetTime, Timestamp, VnodeRef};

use crate::image::{self, Kind};
use crate::operation::{Action, Operation};
use crate::side::Side;

const STEPS: usize = 3000;
/// How many operations before a difference are shown.
const SHOWN: usize = 12;
/// How often the whole trees are compared, in steps.
const WHOLE: usize = 250;
/// How often the volume is unmounted, in steps.
const REMOUNTED: usize = 500;
/// How often it is synchronized, in steps.
const SYNCHRONIZED: usize = 40;

#[test]
fn fat12_behaves_like_mem() {
    run(image::KINDS[0], MetadataMode::Sidecar);
}

#[test]
fn fat16_behaves_like_mem() {
    run(image::KINDS[1], MetadataMode::Sidecar);
}

#[test]
fn fat32_behaves_like_mem() {
    run(image::KINDS[2], MetadataMode::Sidecar);
}

#[test]
fn fat16_with_inline_metadata_behaves_like_mem() {
    run(image::KINDS[1], MetadataMode::Inline);
}

#[test]
fn fat32_with_inline_metadata_behaves_like_mem() {
    run(image::KINDS[2], MetadataMode::Inline);
}

#[test]
fn fat12_with_metadata_of_the_paper_behaves_like_mem() {
    run(image::KINDS[0], MetadataMode::Paper);
}

#[test]
fn fat16_with_metadata_of_the_paper_behaves_like_mem() {
    run(image::KINDS[1], MetadataMode::Paper);
}

/// A file system that outlives the sides that it is on.
struct Shared(Arc<dyn FileSystem>);

impl FileSystem for Shared {
    fn root(&self) -> VnodeRef {
        self.0.root()
    }

    fn resolve(&self, caller: &Caller, handle: &Handle) -> Result<VnodeRef> {
        self.0.resolve(caller, handle)
    }

    fn properties(&self) -> Properties {
        self.0.properties()
    }

    fn describe(&self) -> Vec<Description> {
        self.0.describe()
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Returns whether FAT can do it: there are no holes, and entries hold neither second names nor extended attributes, nor anything
/// of the root directory.
fn is_supported(operation: &Operation, metadata: MetadataMode) -> bool {
    match operation.action {
        Action::Copy { .. } => false,
        Action::Allocate { mode, .. } => mode & !0x11 == 0,
        _ if metadata == MetadataMode::Sidecar => true,
        Action::Link { .. } | Action::LinkHeld { .. } => false,
        Action::GetXattr { .. } | Action::SetXattr { .. } | Action::ListXattr | Action::RemoveXattr { .. } => false,
        Action::Chmod { .. } | Action::Chown { .. } | Action::Times { .. } | Action::Hold { .. } => {
            !operation.path.is_empty()
        }
        _ => true,
    }
}

/// Changes an operation to one whose result FAT can hold. Offsets are smaller: what is before them is written as zeros, and all files
/// together have to fit. Entries have every other second from 1980 on.
fn make_storable(operation: &mut Operation, metadata: MetadataMode) {
    const OFFSET_MAX: u64 = 50_001;
    const YEAR_1981: i64 = 347_155_200;
    match &mut operation.action {
        Action::Times { atime, mtime } if metadata != MetadataMode::Sidecar => {
            for time in [atime, mtime] {
                if let Some(SetTime::To(Timestamp { seconds, nanoseconds })) = time {
                    (*seconds, *nanoseconds) = ((*seconds).max(YEAR_1981) & !1, 0);
                }
            }
        }
        Action::Truncate { size } | Action::Resize { size, .. } => *size = (*size).min(OFFSET_MAX),
        Action::Read { offset, .. }
        | Action::Write { offset, .. }
        | Action::Allocate { offset, .. }
        | Action::Seek { offset, .. } => *offset = (*offset).min(OFFSET_MAX),
        _ => {}
    }
}

fn run(kind: Kind, metadata: MetadataMode) {
    let Some(device) = image::format(kind) else { return };
    let device = Arc::new(device);
    let seed = number("MODEL_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let steps = number("MODEL_STEPS").map_or(STEPS, |steps| steps as usize);
    println!("MODEL_SEED={seed} MODEL_STEPS={steps} on {kind:?} with {metadata:?}");
    let has_times = metadata == MetadataMode::Sidecar;
    let options = mem::Options { size: 1 << 30, inodes: 100_000, mode: 0o777, uid: 0, gid: 0 };
    let model: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new(options));
    let mut memory = Side::new(Box::new(Shared(model.clone())), has_times);
    let (mut file_system, mut fat) = mount(&device, metadata);
    if metadata == MetadataMode::Sidecar {
        let mode = SetAttributes { mode: Some(0o777), ..Default::default() };
        file_system.root().setattr(&image::superuser(), &mode).unwrap();
    }
    let mut random = Rng::with_seed(seed);
    let mut done: Vec<Operation> = Vec::new();
    for step in 0..steps {
        if step % SYNCHRONIZED == 0 {
            file_system.sync().unwrap();
        }
        if step % REMOUNTED == REMOUNTED - 1 {
            drop((fat, memory));
            assert_eq!(Arc::strong_count(&file_system), 1, "nobody else mounts it");
            drop(file_system);
            image::check(&device);
            (file_system, fat) = mount(&device, metadata);
            memory = Side::new(Box::new(Shared(model.clone())), has_times);
        }
        let mut operation = Operation::random(&mut random);
        if !is_supported(&operation, metadata) {
            continue;
        }
        make_storable(&mut operation, metadata);
        let expected = memory.apply(&operation);
        let found = fat.apply(&operation);
        done.push(operation);
        if expected != found {
            let first = done.len().saturating_sub(SHOWN);
            let shown: Vec<String> = done[first..].iter().map(|operation| format!("  {operation:?}")).collect();
            panic!("MODEL_SEED={seed}, step {step}:\n{}\nmem: {expected}\nfat: {found}", shown.join("\n"));
        }
        if step % WHOLE == 0 || step % REMOUNTED == REMOUNTED - 1 {
            let (expected, found) = (memory.tree(), fat.tree());
            if let Some((expected, found)) = expected.iter().zip(&found).find(|(expected, found)| expected != found) {
                panic!("MODEL_SEED={seed}, tree at step {step}:\nmem: {expected}\nfat: {found}");
            }
            assert_eq!(expected.len(), found.len(), "MODEL_SEED={seed}, tree at step {step}");
        }
    }
    drop((fat, memory));
    drop(file_system);
    image::check(&device);
}

fn mount(device: &Arc<MemoryDevice>, metadata: MetadataMode) -> (Arc<dyn FileSystem>, Side) {
    // A root directory without an entry has the mode of the mount.
    let options = Options { metadata, directory_mode: 0o777, ..image::without_sidecars() };
    let file_system: Arc<dyn FileSystem> = Arc::new(image::mount(device, options));
    let side = Side::new(Box::new(Shared(file_system.clone())), metadata == MetadataMode::Sidecar);
    (file_system, side)
}
