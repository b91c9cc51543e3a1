//! Everything that there is to do with a FAT volume: reading, changing, and the tools.

use std::sync::Arc;

use bases::device::{DeviceRef, MemoryDevice};
use bases::fat::format::CodePage;
use bases::fat::tools::fsck::{FsckMode, FsckOptions, Question, fsck};
use bases::fat::tools::tune::{TuneOptions, tune};
use bases::fat::tools::{dump_boot, dump_chain, dump_directory, dump_info, dump_table};
use bases::fat::{FatFileSystem, MetadataMode, Options};
use fastrand::Rng;
use vnode::{Caller, FileSystem, Timestamp};

use crate::Input;
use crate::changes::change;
use crate::device::BoundedDevice;
use crate::walk::walk;

/// Memory for what is not in use in bytes.
const MEMORY: u64 = 1 << 20;

/// Mounts a volume, reads and changes everything, checks and repairs it as it was and as it is then, and mounts it again. Returns
/// whether it could be mounted.
///
/// # Panics
/// If a check finds anything that the repair before it should have repaired.
pub fn fat(input: &Input) -> bool {
    let choices = input.choices();
    let (image, mut random) = (input.image(), Rng::with_seed(input.seed()));
    let mut is_mounted = false;
    if choices[0] & 1 == 0 {
        let device = Arc::new(BoundedDevice::new(image.clone()));
        is_mounted = mount(device.clone(), choices, &mut random);
        if is_mounted && choices[0] & 2 == 0 {
            check(device.copy(), choices);
        }
    }
    if choices[0] & 4 == 0 {
        let repaired = check(image, choices);
        mount(Arc::new(BoundedDevice::new(repaired)), choices, &mut random);
    }
    is_mounted
}

/// Mounts a volume and uses it; returns whether it could be mounted.
fn mount(device: DeviceRef, choices: [u8; Input::CHOICES], random: &mut Rng) -> bool {
    let metadata = [MetadataMode::Auto, MetadataMode::None, MetadataMode::Sidecar][usize::from(choices[1] % 3)];
    let options = Options {
        metadata,
        read_only: choices[2] & 1 != 0,
        journal: choices[2] & 2 == 0,
        memory: MEMORY,
        ..Options::default()
    };
    let Ok(file_system) = FatFileSystem::open(device, "image", options) else { return false };
    let caller = Caller::server();
    let objects = walk(&file_system, &caller);
    if choices[2] & 4 == 0 {
        change(&file_system, &objects, &caller, random);
        let _ = file_system.sync();
        drop(objects);
        walk(&file_system, &caller);
    }
    let _ = file_system.end();
    true
}

/// Dumps and checks a volume in all ways, and returns it repaired.
fn check(image: MemoryDevice, choices: [u8; Input::CHOICES]) -> MemoryDevice {
    let shared: DeviceRef = Arc::new(BoundedDevice::new(image.clone()));
    let page = CodePage::default();
    let _ = dump_boot(shared.clone(), page);
    let _ = dump_info(shared.clone());
    let _ = dump_table(shared.clone(), 0..64);
    let _ = dump_directory(shared.clone(), "/", page);
    let _ = dump_chain(shared, "/", page);
    let number = usize::from(choices[3] & 3);
    let device = Arc::new(BoundedDevice::new(image));
    let run = |mode| {
        let options = FsckOptions { mode, time: Timestamp::default(), ..FsckOptions::default() };
        let mut answer = |question: &Question| *question.answers.get(number).unwrap_or(&question.suggested);
        fsck(device.clone(), &options, &mut answer, &mut |_| {})
    };
    let _ = run(FsckMode::Check);
    if choices[3] & 4 == 0 {
        let _ = run(FsckMode::Preen);
    }
    if run(FsckMode::Repair).is_ok_and(|report| report.unrepaired() == 0) {
        let again = run(FsckMode::Check).expect("what was repaired can be checked");
        assert!(again.found() == 0, "after the repair: {again}");
        if choices[3] & 8 == 0 {
            let _ = tune(device.clone(), &TuneOptions::default(), &mut |_| {});
            let tuned = run(FsckMode::Check).expect("what was tuned can be checked");
            assert!(tuned.found() == 0, "after moving clusters: {tuned}");
        }
    }
    device.copy()
}
