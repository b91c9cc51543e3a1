//! Tuning: everything in one piece, and nothing lost wherever it is interrupted.

use std::sync::Arc;

use fastrand::Rng;
use plyfs_bases::device::{Event, Fate, MemoryDevice, RecordingDevice};
use plyfs_bases::fat::format::{CodePage, FatWidth, Link, StateFlags};
use plyfs_bases::fat::tools::ToolError;
use plyfs_bases::fat::tools::tune::{TuneOptions, TuneReport, estimate, tune};

use crate::image::{Image, WIDTHS, pattern};
use crate::mutated::{number, seed};
use crate::repairs::{assert_sound, check, preen};

fn run(device: plyfs_bases::device::DeviceRef) -> Result<TuneReport, ToolError> {
    tune(device, &TuneOptions::default(), &mut |_| ())
}

/// Returns a file system whose files have clusters at random places among the first `clusters`, which leave `free` of them.
pub(crate) fn fragmented(width: FatWidth, random: &mut Rng, clusters: u32, free: usize, bad: usize) -> Image {
    let mut image = Image::new(width);
    let first = image.geometry.root_cluster().unwrap_or(1) + 1;
    let mut pool: Vec<u32> = (first..first + clusters).collect();
    random.shuffle(&mut pool);
    pool.split_off(pool.len() - bad).into_iter().for_each(|cluster| image.set_link(cluster, Link::Bad));
    let mut directories = vec![0];
    let mut number = 0_u32;
    while pool.len() > free + 12 {
        // A root directory of fixed size has few entries.
        let first = if directories.len() > 2 { 1 } else { 0 };
        let directory = directories[random.usize(first..directories.len())];
        let short: [u8; 11] = format!("F{number:07}   ").as_bytes().try_into().unwrap();
        let long = if random.bool() {
            format!("long name {number} {}", "x".repeat(random.usize(..40)))
        } else {
            String::new()
        };
        if directory != 0 || image.geometry.root_cluster().is_some() {
            // It may need another cluster.
            grow(&mut image, directory, &mut pool);
        }
        number += 1;
        if directories.len() < 12 && random.u8(..4) == 0 {
            let cluster = pool.pop().unwrap();
            image.add_directory_at(directory, (&short, &long), cluster);
            directories.push(cluster);
            continue;
        }
        let count = random.usize(..=12.min(pool.len() - free - 2));
        let chain = pool.split_off(pool.len() - count);
        let length = if count == 0 { 0 } else { count * 512 - random.usize(..512) };
        image.add_file_at(directory, (&short, &long), &chain, &pattern(u64::from(number), length));
    }
    crate::boot::correct_free_count(&image);
    image
}

/// Gives a directory a cluster of the pool if it has fewer than 8 free slots.
fn grow(image: &mut Image, directory: u32, pool: &mut Vec<u32>) {
    let slots = image.slots(directory);
    if image.slot(slots[slots.len() - 8])[0] != 0 {
        let new = pool.pop().unwrap();
        let start = if directory == 0 { image.geometry.root_cluster().unwrap() } else { directory };
        image.write(image.offset(new), &[0; 512]);
        image.set_link(*image.chain(start).last().unwrap(), Link::Next(new));
        image.set_link(new, Link::End);
    }
}

#[test]
fn files_and_free_clusters_become_contiguous() {
    let seed = seed();
    let mut random = Rng::with_seed(seed);
    for width in WIDTHS {
        for (clusters, free) in [(60, 0), (400, 0), (400, 1), (400, 200), (2000, 300)] {
            let image = fragmented(width, &mut random, clusters, free, 0);
            let context = format!("FAT_SEED={seed}, {width}, {clusters} clusters, {free} free");
            assert_sound(&image, &context);
            let before = image.tree();
            let estimate = estimate(image.device(), &TuneOptions::default(), &mut |_| ()).unwrap();
            let report = run(image.device()).unwrap();
            assert_eq!((estimate.misplaced, estimate.before), (report.misplaced, report.before));
            assert_sound(&image, &context);
            assert_eq!(image.tree(), before, "{context}");
            let after = report.after.unwrap();
            assert_eq!((after.fragmented, after.free_runs), (0, 1), "{context}\n{report}");
            assert_eq!(after.free_clusters, report.before.free_clusters);
            assert!(report.moved >= report.misplaced && report.moved <= 3 * u64::from(clusters), "{context}\n{report}");
            let again = run(image.device()).unwrap();
            assert_eq!((again.misplaced, again.moved), (0, 0), "{context}\n{again}");
        }
    }
}

#[test]
fn files_are_placed_around_bad_clusters() {
    let seed = seed();
    let mut random = Rng::with_seed(seed);
    for width in WIDTHS {
        let image = fragmented(width, &mut random, 500, 30, 12);
        let bad: Vec<u32> =
            image.geometry.cluster_numbers().filter(|&cluster| image.link(cluster) == Link::Bad).collect();
        let before = image.tree();
        let report = run(image.device()).unwrap();
        assert_sound(&image, &format!("FAT_SEED={seed}"));
        assert_eq!(image.tree(), before);
        assert!(bad.iter().all(|&cluster| image.link(cluster) == Link::Bad));
        assert_eq!(report.after.unwrap().fragmented, 0, "{report}");
    }
}

#[test]
fn a_full_file_system_is_tuned_by_a_single_free_cluster() {
    let seed = seed();
    let mut random = Rng::with_seed(seed);
    for free in [0, 1, 2] {
        let image = fragmented(FatWidth::Fat12, &mut random, 300, 40, 0);
        let used = image.geometry.cluster_numbers().filter(|&cluster| image.link(cluster) != Link::Free).count() as u32;
        // Everything else is bad.
        let mut left = free;
        for cluster in image.geometry.cluster_numbers().rev() {
            if image.link(cluster) == Link::Free {
                match left {
                    0 => image.set_link(cluster, Link::Bad),
                    _ => left -= 1,
                }
            }
        }
        let before = image.tree();
        let result = run(image.device());
        let context = format!("FAT_SEED={seed}, {free} free clusters of {used}");
        assert_sound(&image, &context);
        assert_eq!(image.tree(), before, "{context}");
        match free {
            0 => assert_eq!(result, Err(ToolError::NoSpace), "{context}"),
            _ => assert!(result.unwrap().moved > 0, "{context}"),
        }
    }
}

#[test]
fn nothing_is_lost_by_a_power_failure() {
    let seed = seed();
    let mut random = Rng::with_seed(seed);
    let rounds = number("FAT_ROUNDS").unwrap_or(40);
    for width in WIDTHS {
        let free = random.usize(2..60);
        let image = fragmented(width, &mut random, 200, free, 0);
        let before = image.tree();
        let recording = Arc::new(RecordingDevice::new(&image.device));
        run(recording.clone()).unwrap();
        let events = recording.event_count();
        for round in 0..rounds {
            let count = random.usize(..=events);
            let likely = random.u8(..10);
            let mut fate = |_: usize, event: &Event| match random.u8(..10) {
                kept if kept < likely => Fate::Kept,
                // Entries of 12 bits may cross sectors.
                9 if width != FatWidth::Fat12 => {
                    let sectors = event.sectors(512);
                    Fate::Torn(0..random.u64(..=sectors))
                }
                _ => Fate::Lost,
            };
            let left: MemoryDevice = recording.image(count, &mut fate);
            let left = Image::open(Arc::new(left));
            let context = format!("FAT_SEED={seed}, round {round}, {width}, {count} of {events} events");
            let report = preen(left.device());
            assert_eq!(report.unrepaired(), 0, "{context}\n{report}");
            assert_sound(&left, &context);
            let mut tree = left.tree();
            tree.retain(|path, _| !path.starts_with("/FSCK"));
            assert!(tree == before, "{context}: files differ");
            let tuned = run(left.device());
            assert!(tuned.is_ok() || tuned == Err(ToolError::NoSpace), "{context}: {tuned:?}");
        }
    }
}

#[test]
fn every_beginning_of_the_writes_is_repaired() {
    let seed = seed();
    for width in WIDTHS {
        let image = fragmented(width, &mut Rng::with_seed(seed), 40, 3, 1);
        let before = image.tree();
        let recording = Arc::new(RecordingDevice::new(&image.device));
        assert!(run(recording.clone()).unwrap().moved > 0);
        for count in 0..=recording.event_count() {
            let left = Image::open(Arc::new(recording.image(count, |_, _| Fate::Kept)));
            let context = format!("FAT_SEED={seed}, {width}, {count} events");
            let report = preen(left.device());
            assert_eq!(report.unrepaired(), 0, "{context}\n{report}");
            match count % 16 {
                0 => assert_sound(&left, &context),
                _ => assert_eq!(check(left.device()).found(), 0, "{context}"),
            }
            let mut tree = left.tree();
            tree.retain(|path, _| !path.starts_with("/FSCK"));
            assert!(tree == before, "{context}: files differ");
        }
    }
}

#[test]
fn what_is_in_use_or_damaged_is_estimated() {
    for width in WIDTHS {
        let sample = crate::sample::Sample::new(width);
        let image = &sample.image;
        let expected = estimate(image.device(), &TuneOptions::default(), &mut |_| ()).unwrap();
        assert!(expected.before.chains >= 6 && expected.after.is_none(), "{expected}");
        image.edit_boot(0, |boot| boot.state = StateFlags(StateFlags::DIRTY));
        assert_eq!(estimate(image.device(), &TuneOptions::default(), &mut |_| ()), Ok(expected));
        // A loop, and two chains that meet.
        image.set_link(sample.clusters[5], Link::Next(sample.clusters[0]));
        image.set_link(sample.inner, Link::Next(sample.clusters[2]));
        let before = image.device.contents();
        let report = estimate(image.device(), &TuneOptions::default(), &mut |_| ()).unwrap();
        assert_eq!(report.before.chains, expected.before.chains);
        assert!(image.device.contents() == before);
    }
}

#[test]
fn a_file_system_with_problems_is_not_tuned() {
    let sample = crate::sample::Sample::new(FatWidth::Fat16);
    sample.image.edit(sample.file, |entry| entry.size = 0);
    let before = sample.image.device.contents();
    assert_eq!(run(sample.image.device()), Err(ToolError::Inconsistent));
    assert!(sample.image.device.contents() == before);
    assert_eq!(check(sample.image.device()).found(), 1);
    assert_eq!(TuneOptions::default().page, CodePage::default());
}
