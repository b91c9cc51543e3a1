//! Random damage: no tool panics or runs on and on, and what a repair leaves is sound.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use plyfs_bases::device::MemoryDevice;
use plyfs_bases::fat::format::{CodePage, FatWidth};
use plyfs_bases::fat::tools::fsck::{FsckMode, FsckOptions, LostChains, Repair, RepairChoice, fsck};
use plyfs_bases::fat::tools::tune::{TuneOptions, estimate, tune};
use plyfs_bases::fat::tools::{
    BadsectOptions, ToolError, badsect, dump_boot, dump_chain, dump_directory, dump_info, dump_table, show_label,
};

use crate::image::{Image, WIDTHS, boot_sector};
use crate::repairs::check;
use crate::tune::fragmented;

/// Time within which all tools have looked at one image.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Returns a number of the environment.
pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns the seed of a random test, and prints it.
pub(crate) fn seed() -> u64 {
    let seed = number("FAT_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("FAT_SEED={seed}");
    seed
}

/// Damages what is not data: fields of the boot sector, entries of tables, and slots of directories.
fn damage(image: &Image, random: &mut Rng) {
    let geometry = image.geometry;
    let clusters = geometry.cluster_numbers();
    // Most is where the files are.
    let cluster = |random: &mut Rng| match random.u8(..8) {
        0 => random.u32(clusters.clone()),
        _ => random.u32(clusters.start..clusters.start + 420),
    };
    for _ in 0..random.usize(1..12) {
        match random.u8(..10) {
            0 => image.write(random.u64(..512), &[random.u8(..)]),
            1 => image.write(random.u64(..geometry.reserved_size()), &[random.u8(..)]),
            2 | 3 => {
                let value = match random.u8(..4) {
                    0 => random.u32(..),
                    1 => 0,
                    _ => cluster(random),
                };
                image.set_value(cluster(random), value);
            }
            4 => image.set_value_in(random.u8(..geometry.fats()), cluster(random), cluster(random)),
            5 => {
                let offset = image.offset(cluster(random));
                (0..512).step_by(32).for_each(|slot| image.write(offset + slot, &[random.u8(..)]));
            }
            _ => {
                let directories: Vec<u32> = directories(image);
                let directory = directories[random.usize(..directories.len())];
                let slots = image.slots(directory);
                let slot = slots[random.usize(..slots.len())];
                let offset = slot + random.u64(..32);
                let byte = match random.u8(..4) {
                    0 => random.u8(..),
                    1 => image.read::<1>(offset)[0] ^ (1 << random.u8(..8)),
                    2 => 0xE5,
                    _ => 0,
                };
                image.write(offset, &[byte]);
            }
        }
    }
}

/// Returns the first clusters of the directories that were there before any damage, as far as it can be seen.
fn directories(image: &Image) -> Vec<u32> {
    let mut found = vec![0];
    for position in image.slots(0) {
        let entry = image.entry(position);
        if entry.is_directory() && image.geometry.contains(entry.first_cluster(image.width())) {
            found.push(entry.first_cluster(image.width()));
        }
    }
    found
}

/// Runs everything that only reads.
fn read_all(device: &Arc<MemoryDevice>) {
    let page = CodePage::default();
    let before = device.contents();
    let _ = dump_boot(device.clone(), page);
    let _ = dump_info(device.clone());
    let _ = dump_table(device.clone(), 0..1000);
    let _ = dump_directory(device.clone(), "/F0000001", page);
    let _ = dump_directory(device.clone(), "/", page);
    let _ = dump_chain(device.clone(), "/F0000002", page);
    let _ = show_label(device.clone(), page);
    let _ = estimate(device.clone(), &TuneOptions { page, ..TuneOptions::default() }, &mut |_| ());
    assert!(device.contents() == before, "something was changed");
}

#[test]
fn damaged_file_systems_are_repaired() {
    let seed = seed();
    let rounds = number("FAT_MUTATIONS").unwrap_or(30);
    for width in WIDTHS {
        let sample = fragmented(width, &mut Rng::with_seed(seed), 400, 60, 3);
        let rounds = if width == FatWidth::Fat32 { rounds.div_ceil(4) } else { rounds };
        for round in 0..rounds {
            let context = format!("FAT_SEED={seed}, round {round}, {width}");
            println!("{context}");
            let mut random = Rng::with_seed(seed.wrapping_add(round));
            let image = sample.copy();
            damage(&image, &mut random);
            let started = Instant::now();
            read_all(&image.device);
            repair_randomly(&image.device, &mut random, &context);
            let _ =
                badsect(image.device(), &BadsectOptions { relocate: true, ..BadsectOptions::default() }, &mut |_| ());
            assert!(started.elapsed() < TIME_MAX, "{context}: it took {:?}", started.elapsed());
        }
    }
}

fn repair_randomly(device: &Arc<MemoryDevice>, random: &mut Rng, context: &str) {
    let first = fsck(device.clone(), &FsckOptions::default(), &mut |_| RepairChoice::Leave, &mut |_| ()).unwrap();
    let options = FsckOptions { mode: FsckMode::Preen, ..FsckOptions::default() };
    let is_preened = random.bool();
    if is_preened {
        fsck(device.clone(), &options, &mut |_| panic!("preening asks nothing"), &mut |_| ()).unwrap();
    }
    let options = FsckOptions { mode: FsckMode::Repair, ..options };
    let mut answer = |question: &plyfs_bases::fat::tools::fsck::Question| {
        let possible: Vec<RepairChoice> =
            question.answers.iter().copied().filter(|&answer| answer != RepairChoice::Leave).collect();
        possible[random.usize(..possible.len())]
    };
    let repaired = fsck(device.clone(), &options, &mut answer, &mut |_| ()).unwrap();
    let is_possible = |repair: &Repair| !matches!(repair, Repair::Impossible);
    if repaired.findings.iter().any(|finding| !is_possible(&finding.repair)) {
        // Nothing repairs, for example, a boot sector without a copy.
        return;
    }
    if repaired.findings.iter().any(|finding| finding.repair == Repair::Failed(ToolError::RootFull)) {
        // Regions at other places make a root directory of what was none.
        let options = FsckOptions { lost: LostChains::Free, ..options };
        let freed = fsck(device.clone(), &options, &mut answer, &mut |_| ()).unwrap();
        assert_eq!((freed.unrepaired(), check(device.clone()).found()), (0, 0), "{context}\n{freed}");
        return;
    }
    assert_eq!(repaired.unrepaired(), 0, "{context}\nfirst\n{first}repaired\n{repaired}");
    let after = check(device.clone());
    assert_eq!(after.found(), 0, "{context}\nfirst\n{first}repaired\n{repaired}after\n{after}");
    let image = Image::open(device.clone());
    drop(image.tree());
    // Without its mark, fsck.fat misses the label of a boot sector, which this check does not expect there; and it refuses many tables.
    let boot = boot_sector(&**device, 0);
    if number("FAT_EXTERNAL").is_some() && boot.label().is_some() && boot.fats <= 2 {
        crate::external::assert_clean(&image, context);
    }
    let tuned = tune(device.clone(), &TuneOptions::default(), &mut |_| ());
    assert!(tuned.is_ok() || tuned == Err(ToolError::NoSpace), "{context}: {tuned:?}");
    assert_eq!(check(device.clone()).found(), 0, "{context} after tuning");
}

#[test]
fn noise_is_no_file_system() {
    let seed = seed();
    let mut random = Rng::with_seed(seed);
    for _ in 0..200 {
        let mut bytes = vec![0; 64 * 1024];
        random.fill(&mut bytes);
        if random.bool() {
            // Valid enough to be looked at further.
            bytes[11..18].copy_from_slice(&[0, 2, 1 << random.u8(..3), 1, 0, random.u8(1..4), 16]);
            bytes[18..24].copy_from_slice(&[0, 128, 0, 0xF8, random.u8(..2), 0]);
            bytes[36..40].copy_from_slice(&[1, 0, 0, 0]);
        }
        let device = Arc::new(MemoryDevice::from_bytes(&bytes));
        read_all(&device);
        let options = FsckOptions { mode: FsckMode::Repair, ..FsckOptions::default() };
        let _ = fsck(device.clone(), &options, &mut |question| question.suggested, &mut |_| ());
    }
}
