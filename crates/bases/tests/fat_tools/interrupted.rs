//! Repairs that are interrupted by a power failure: the next repair finishes them, and what was sound stays so.

use std::sync::Arc;

use fastrand::Rng;
use plyfs_bases::device::{Fate, RecordingDevice};
use plyfs_bases::fat::format::{EntryAttributes, FatWidth, Link, LongNameSlot};

use crate::image::{Image, WIDTHS, pattern};
use crate::mutated::{number, seed};
use crate::repairs::{assert_sound, repair};
use crate::sample::Sample;

/// Returns a file system with many problems, none of which concerns the contents of `/DIR/B.BIN` and
/// `/A long file name.text`.
fn damaged(width: FatWidth) -> Image {
    let mut sample = Sample::new(width);
    let image = &sample.image;
    let lost = image.copy().free(8);
    image.link_all(&lost[..3]);
    image.set_link(lost[3], Link::Next(lost[4]));
    image.set_link(lost[4], Link::Next(lost[3]));
    sample.image = Image::open(sample.image.device.clone());
    // A file that runs into another one, one with a loop, one that is too long and one too short.
    let [shared, looped, long, short] = [b"SHARED     ", b"LOOP       ", b"LONG       ", b"SHORT      "]
        .map(|name| *sample.image.add_file(0, (name, ""), &pattern(5, 2500)).last().unwrap());
    let image = &sample.image;
    let chain = |position: u64| image.chain(image.entry(position).first_cluster(width));
    image.set_link(chain(shared)[1], Link::Next(sample.clusters[2]));
    let looped = chain(looped);
    image.set_link(looped[4], Link::Next(looped[1]));
    image.edit(long, |entry| entry.size = 600);
    image.edit(short, |entry| entry.size = 60_000);
    // Directories without their first two entries, with a wrong one, and with a size.
    let dot = image.slots(sample.directory)[0];
    image.write(dot, &[0xE5]);
    let above = image.slots(sample.inner)[1];
    image.edit(above, |entry| entry.set_first_cluster(width, 99));
    image.edit(sample.directory_entry, |entry| entry.size = 1);
    // Names.
    let mut slot = LongNameSlot::decode(&image.slot(sample.long[0]));
    slot.cluster = 4;
    image.write(sample.long[0], &slot.encode());
    image.edit(sample.file, |entry| entry.name.0[1] = b'*');
    sample.image.add_file(0, (b"TWICE      ", ""), &pattern(6, 100));
    sample.image.add_file(0, (b"TWICE      ", ""), &pattern(7, 100));
    let image = &sample.image;
    image.edit(short, |entry| entry.attributes |= EntryAttributes::READ_ONLY);
    image.set_value_in(1, sample.clusters[0], 0);
    sample.image
}

fn assert_kept(image: &Image, context: &str) {
    let tree = image.tree();
    assert_eq!(tree["/DIR/B.BIN"], pattern(3, 512), "{context}");
    assert_eq!(tree["/A long file name.text"], pattern(2, 1000), "{context}");
    for seed in [6, 7] {
        assert!(tree.values().any(|contents| *contents == pattern(seed, 100)), "{context}: file {seed}");
    }
    assert!(tree.values().any(|contents| *contents == pattern(1, 3000)), "{context}: A.TXT");
    let data = pattern(5, 2500);
    assert!(tree.values().any(|contents| contents.starts_with(&data[..600])), "{context}: LONG");
    assert!(tree.values().filter(|contents| contents.starts_with(&data)).count() >= 2, "{context}: LOOP, SHORT");
}

#[test]
fn an_interrupted_repair_is_finished_by_the_next() {
    let seed = seed();
    let mut random = Rng::with_seed(seed);
    let rounds = number("FAT_ROUNDS").unwrap_or(60);
    for width in WIDTHS {
        let image = damaged(width);
        let recording = Arc::new(RecordingDevice::new(&image.device));
        let report = repair(recording.clone());
        assert!(report.counts.len() > 10, "{report}");
        assert_eq!(report.unrepaired(), 0, "{report}");
        let repaired = Image::open(Arc::new(recording.current()));
        assert_sound(&repaired, "uninterrupted");
        assert_kept(&repaired, "uninterrupted");
        let events = recording.event_count();
        for round in 0..rounds {
            let count = random.usize(..=events);
            let likely = random.u8(..10);
            let left = recording.image(count, |_, _| if random.u8(..10) < likely { Fate::Kept } else { Fate::Lost });
            let left = Image::open(Arc::new(left));
            let context = format!("FAT_SEED={seed}, round {round}, {width}, {count} of {events} events");
            let report = repair(left.device());
            assert_eq!(report.unrepaired(), 0, "{context}\n{report}");
            assert_sound(&left, &context);
            assert_kept(&left, &context);
        }
    }
}
