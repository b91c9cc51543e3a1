//! Damaged directories.

use plyfs_bases::fat::format::{ENTRY_SIZE, Entry, EntryAttributes, FatWidth, ShortName};
use plyfs_bases::fat::tools::fsck::Repair;

use crate::image::{WIDTHS, pattern};
use crate::repairs::{assert_repaired, assert_sound, check, codes, repair};
use crate::sample::Sample;

#[test]
fn a_directory_has_no_size() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        sample.image.edit(sample.directory_entry, |entry| entry.size = 512);
        assert_repaired(&sample.image, &["directory-size"]);
    }
}

#[test]
fn wrong_entries_for_itself_and_above_are_corrected() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let [dot, above] = [0, 1].map(|index| sample.image.slots(sample.inner)[index]);
        sample.image.edit(dot, |entry| entry.set_first_cluster(width, 77));
        assert_repaired(&sample.image, &["dot-wrong"]);
        sample.image.edit(dot, |entry| entry.attributes = EntryAttributes::ARCHIVE);
        assert_repaired(&sample.image, &["dot-wrong"]);
        sample.image.edit(above, |entry| entry.set_first_cluster(width, 0));
        assert_repaired(&sample.image, &["dotdot-wrong"]);
        sample.image.edit(above, |entry| entry.attributes = EntryAttributes::VOLUME_LABEL);
        assert_repaired(&sample.image, &["dotdot-wrong"]);
        // That of a directory in the root directory has no cluster.
        let above = sample.image.slots(sample.directory)[1];
        sample.image.edit(above, |entry| entry.set_first_cluster(width, sample.directory));
        assert_repaired(&sample.image, &["dotdot-wrong"]);
        assert_eq!(sample.image.tree().len(), 6);
    }
}

#[test]
fn missing_entries_for_itself_and_above_are_created() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let before = sample.image.tree();
        let [dot, above] = [0, 1].map(|index| sample.image.slots(sample.inner)[index]);
        sample.image.write(dot, &[0xE5]);
        assert_repaired(&sample.image, &["dot-missing"]);
        sample.image.write(above, &[0xE5]);
        assert_repaired(&sample.image, &["dotdot-missing"]);
        assert_eq!(sample.image.tree(), before);
    }
}

#[test]
fn entries_move_to_make_room_for_those_that_are_missing() {
    for width in WIDTHS {
        // The slots of a file with a long name are where both should be.
        let mut sample = Sample::new(width);
        let (directory, _) = sample.image.add_directory(0, (b"OTHER      ", ""));
        sample.image.add_file(directory, (b"LONGNA~1   ", "long name of a moved file"), &pattern(8, 600));
        sample.image.add_file(directory, (b"LAST       ", ""), &pattern(9, 600));
        let before = sample.image.tree();
        let slots = sample.image.slots(directory);
        for index in 0..6 {
            let moved = sample.image.slot(slots[index + 2]);
            sample.image.write(slots[index], &moved);
        }
        sample.image.write(slots[4], &[0; ENTRY_SIZE]);
        crate::boot::correct_free_count(&sample.image);
        let report = repair(sample.image.device());
        assert_eq!(codes(&report), ["dot-missing", "dotdot-missing"]);
        assert_sound(&sample.image, "moved entries");
        assert_eq!(sample.image.tree(), before);

        // An empty cluster.
        let mut sample = Sample::new(width);
        let (directory, _) = sample.image.add_directory(0, (b"OTHER      ", ""));
        let offset = sample.image.offset(directory);
        sample.image.write(offset, &[0; 64]);
        sample.image.write(offset + 64, &[b'X'; 64]);
        crate::boot::correct_free_count(&sample.image);
        let report = repair(sample.image.device());
        assert_eq!(codes(&report), ["dot-missing", "dotdot-missing", "entries-after-end"]);
        assert_sound(&sample.image, "empty directory");
        assert_eq!(sample.image.tree().len(), 7);
    }
}

#[test]
fn a_full_directory_grows_for_those_that_are_missing() {
    for width in WIDTHS {
        let mut sample = Sample::new(width);
        let (directory, _) = sample.image.add_directory(0, (b"OTHER      ", ""));
        let slots = sample.image.slots(directory);
        for (index, &position) in slots.iter().enumerate() {
            let mut name = *b"FILE0      ";
            name[4] = b'A' + index as u8;
            sample.image.write(position, &Entry::new(ShortName(name), EntryAttributes::ARCHIVE).encode());
        }
        crate::boot::correct_free_count(&sample.image);
        assert_eq!(codes(&check(sample.image.device())), ["dot-missing", "dotdot-missing"]);
        let report = repair(sample.image.device());
        assert_eq!(report.unrepaired(), 0, "{report}");
        assert_sound(&sample.image, "full directory");
        assert_eq!(sample.image.tree().keys().filter(|path| path.starts_with("/OTHER/FILE")).count(), slots.len());
    }
}

#[test]
fn entries_for_itself_and_above_elsewhere_are_removed() {
    for width in WIDTHS {
        let mut sample = Sample::new(width);
        for (directory, name) in [(0, ShortName::DOT), (0, ShortName::DOT_DOT), (sample.directory, ShortName::DOT_DOT)]
        {
            let mut entry = Entry::new(name, EntryAttributes::DIRECTORY);
            entry.set_first_cluster(width, sample.directory);
            sample.image.add_entry(directory, &entry, "");
            assert_repaired(&sample.image, &["dot-misplaced"]);
        }
        assert_eq!(sample.image.tree().len(), 6);
    }
}

#[test]
fn entries_after_the_end_are_removed() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let before = sample.image.tree();
        for directory in [0, sample.directory] {
            let slots = sample.image.slots(directory);
            let copied = sample.image.slot(slots[4]);
            sample.image.write(slots[slots.len() - 2], &copied);
            assert_repaired(&sample.image, &["entries-after-end"]);
        }
        assert_eq!(sample.image.tree(), before);
    }
}

#[test]
fn hidden_entries_are_shown_again() {
    for width in WIDTHS {
        for (directory, index) in [(false, 1), (true, 2)] {
            let sample = Sample::new(width);
            let directory = if directory { sample.directory } else { 0 };
            let mut expected = sample.image.tree();
            let position = sample.image.slots(directory)[index];
            sample.image.write(position, &[0]);
            let lost = if directory == 0 { "/A.TXT" } else { "/DIR/B.BIN" };
            let found = codes(&check(sample.image.device()));
            assert!(found.contains(&"entries-hidden"), "{found:?}");
            let report = crate::repairs::preen(sample.image.device());
            assert_eq!(report.unrepaired(), 0, "{report}");
            assert_sound(&sample.image, "hidden entries");
            let contents = expected.remove(lost).unwrap();
            expected.insert("/FSCK0000.REC".into(), contents);
            let mut tree = sample.image.tree();
            let length = expected["/FSCK0000.REC"].len();
            tree.get_mut("/FSCK0000.REC").unwrap().truncate(length);
            assert_eq!(tree, expected);
        }
    }
}

#[test]
fn a_directory_that_is_none_becomes_a_file() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let data = pattern(77, 512);
        sample.image.write(sample.image.offset(sample.inner), &data);
        let report = repair(sample.image.device());
        assert!(report.counts.contains_key("directory-corrupt"), "{report}");
        assert_sound(&sample.image, "no directory");
        assert_eq!(sample.image.tree()["/DIR/sub directory"], data);
    }
}

#[test]
fn a_directory_with_too_many_entries_is_reported() {
    let mut sample = Sample::new(FatWidth::Fat16);
    let (directory, _) = sample.image.add_directory(0, (b"LARGE      ", ""));
    let clusters = [vec![directory], sample.image.free(65_536 / 16)].concat();
    sample.image.link_all(&clusters);
    let mut number = 0_u32;
    for (index, position) in sample.image.slots(directory).into_iter().enumerate() {
        if index >= 2 {
            let mut name = *b"F0000000   ";
            name[1..8].copy_from_slice(format!("{number:07}").as_bytes());
            sample.image.write(position, &Entry::new(ShortName(name), EntryAttributes::ARCHIVE).encode());
            number += 1;
        }
    }
    let report = repair(sample.image.device());
    assert_eq!(codes(&report), ["directory-too-large"], "{report}");
    assert_eq!((report.findings[0].repair.clone(), report.exit_code()), (Repair::Impossible, 4));
    assert_eq!(report.files, 4 + u64::from(number));
}
