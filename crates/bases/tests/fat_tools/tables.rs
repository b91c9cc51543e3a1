//! Tables that differ.

use plyfs_bases::fat::format::{FatWidth, Link};

use crate::image::{WIDTHS, pattern};
use crate::repairs::{assert_repaired, preen};
use crate::sample::Sample;

#[test]
fn the_first_table_is_believed() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        sample.image.set_value_in(1, sample.clusters[1], 0);
        assert_repaired(&sample.image, &["tables-differ"]);
        assert_eq!(sample.image.tree()["/A.TXT"], pattern(1, 3000));
        // Neither is impossible.
        sample.image.set_value_in(1, sample.clusters[1], width.end());
        assert_eq!(preen(sample.image.device()).unrepaired(), 0);
        assert_eq!(sample.image.tree()["/A.TXT"], pattern(1, 3000));
    }
}

#[test]
fn a_table_with_impossible_values_is_not_believed() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let before = sample.image.device.contents();
        sample.image.set_value_in(0, sample.clusters[1], sample.image.geometry.cluster_numbers().end);
        assert_repaired(&sample.image, &["tables-differ"]);
        assert!(sample.image.device.contents() == before);
        // All of it.
        let garbage = pattern(9, sample.image.geometry.fat_size() as usize);
        sample.image.write(sample.image.geometry.fat_offset(0).unwrap(), &garbage);
        assert_repaired(&sample.image, &["tables-differ"]);
        assert!(sample.image.device.contents() == before);
    }
}

#[test]
fn one_impossible_value_leaves_the_first_table_the_current_one() {
    // Of the second table, several sectors are older; the first one has an impossible value in one of them.
    for width in [FatWidth::Fat16, FatWidth::Fat32] {
        let sample = Sample::new(width);
        let start = |table| sample.image.geometry.fat_offset(table).unwrap();
        let current = sample.image.device.contents();
        for sector in 1..5 {
            sample.image.write(start(1) + sector * 512, &[0xFF; 4]);
        }
        let before = sample.image.value(sample.clusters[1]);
        sample.image.set_value_in(0, sample.clusters[1], sample.image.geometry.cluster_numbers().end);
        preen(sample.image.device());
        assert_eq!(sample.image.value(sample.clusters[1]), before, "of each sector, the better one");
        let contents = sample.image.device.contents();
        let range = start(0) as usize + 512..start(0) as usize + 5 * 512;
        assert!(contents[range.clone()] == current[range], "otherwise the first one");
    }
}

#[test]
fn the_media_byte_is_repeated() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let value = sample.image.value(0);
        sample.image.set_value(0, value & !0xFF | 0x11);
        assert_repaired(&sample.image, &["table-media"]);
        assert_eq!(sample.image.value(0), value);
    }
}

#[test]
fn a_table_that_is_used_alone_is_not_compared() {
    let sample = Sample::new(FatWidth::Fat32);
    for offset in [0, 6 * 512] {
        sample.image.edit_boot(offset, |boot| boot.extended.as_mut().unwrap().mirroring.0 = 0x81);
    }
    sample.image.set_value_in(0, sample.clusters[1], 0);
    let lost = sample.image.copy().free(1)[0];
    sample.image.set_value_in(1, lost, Link::End.encode(FatWidth::Fat32));
    crate::boot::correct_free_count(&sample.image);
    let report = crate::repairs::repair(sample.image.device());
    assert!(!report.counts.contains_key("tables-differ"), "{report}");
    assert_eq!(crate::repairs::check(sample.image.device()).found(), 0);
    assert_eq!(sample.image.value(sample.clusters[1]), 0);
}
