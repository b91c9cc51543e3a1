//! Damaged names.

use plyfs_bases::fat::format::{
    CaseBits, Entry, EntryAttributes, FatWidth, Link, LongNameSlot, ShortName, long_name_slots,
};
use plyfs_bases::fat::tools::fsck::{FsckMode, FsckOptions, fsck};
use plyfs_bases::fat::tools::tune::{TuneOptions, tune};

use crate::image::{WIDTHS, pattern};
use crate::repairs::{assert_repaired, assert_sound, check, codes, repair};
use crate::sample::Sample;

fn edit_slot(sample: &Sample, position: u64, edit: impl FnOnce(&mut LongNameSlot)) {
    let mut slot = LongNameSlot::decode(&sample.image.slot(position));
    edit(&mut slot);
    sample.image.write(position, &slot.encode());
}

#[test]
fn invalid_short_names_are_replaced() {
    for width in WIDTHS {
        for name in
            [b" A      TXT", b"A*      TXT", b"A       T\x01T", b"A.      TXT", b"A\x7f      TXT", b"/          "]
        {
            let sample = Sample::new(width);
            sample.image.edit(sample.file, |entry| entry.name.0 = *name);
            assert_repaired(&sample.image, &["name-invalid"]);
            let tree = sample.image.tree();
            assert_eq!((tree.len(), tree.values().filter(|contents| **contents == pattern(1, 3000)).count()), (6, 1));
        }
        // The long name stays.
        let sample = Sample::new(width);
        let (entry, slots) = sample.long.split_last().unwrap();
        let name = ShortName(*b"ALONG*~1TEX");
        sample.image.edit(*entry, |entry| entry.name = name);
        slots.iter().for_each(|&position| edit_slot(&sample, position, |slot| slot.checksum = name.checksum()));
        assert_repaired(&sample.image, &["name-invalid"]);
        assert_eq!(sample.image.tree()["/A long file name.text"], pattern(2, 1000));
    }
}

#[test]
fn reserved_bits_are_cleared() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        sample.image.edit(sample.file, |entry| entry.case = CaseBits(0xFF));
        assert_repaired(&sample.image, &["reserved-bits"]);
        assert_eq!(sample.image.entry(sample.file).case, CaseBits(0x1B));
        // The entries of a directory for itself and the one above have such bits, too.
        for index in [0, 32] {
            let position = sample.image.offset(sample.inner) + index;
            sample.image.edit(position, |entry| entry.case = CaseBits(0x20));
            assert_repaired(&sample.image, &["reserved-bits"]);
            assert_eq!(sample.image.entry(position).case, CaseBits(0));
        }
    }
}

#[test]
fn tolerated_short_names_stay() {
    for width in WIDTHS {
        for name in [b"a       txt", b"A B     T T", b"A+,;=[] TXT", b"\x05\x80      TXT"] {
            let sample = Sample::new(width);
            sample.image.edit(sample.file, |entry| entry.name.0 = *name);
            assert_sound(&sample.image, "tolerated name");
        }
    }
}

#[test]
fn duplicate_names_are_changed() {
    for width in WIDTHS {
        // The short name.
        let mut sample = Sample::new(width);
        sample.image.add_file(0, (b"A       TXT", ""), &pattern(30, 100));
        crate::boot::correct_free_count(&sample.image);
        assert_repaired(&sample.image, &["name-duplicate"]);
        let tree = sample.image.tree();
        assert_eq!((&tree["/A.TXT"], &tree["/A~1.TXT"]), (&pattern(1, 3000), &pattern(30, 100)));

        // The long name: it is lost.
        let mut sample = Sample::new(width);
        sample.image.add_file(0, (b"ALONGF~2TEX", "a LONG file name.text"), &pattern(31, 100));
        crate::boot::correct_free_count(&sample.image);
        assert_eq!(codes(&check(sample.image.device())), ["name-duplicate"]);
        repair(sample.image.device());
        assert_sound(&sample.image, "duplicate long name");
        let tree = sample.image.tree();
        assert_eq!(tree["/A long file name.text"], pattern(2, 1000));
        assert_eq!(tree.values().filter(|contents| **contents == pattern(31, 100)).count(), 1);

        // The short name beside different long ones: they stay.
        let mut sample = Sample::new(width);
        sample.image.add_file(0, (b"ALONGF~1TEX", "Another long name.text"), &pattern(32, 100));
        crate::boot::correct_free_count(&sample.image);
        assert_repaired(&sample.image, &["name-duplicate"]);
        let tree = sample.image.tree();
        assert_eq!(tree["/A long file name.text"], pattern(2, 1000));
        assert_eq!(tree["/Another long name.text"], pattern(32, 100));

        // Three of them.
        let mut sample = Sample::new(width);
        (0..3).for_each(|seed| drop(sample.image.add_file(0, (b"A       TXT", ""), &pattern(seed, 100))));
        crate::boot::correct_free_count(&sample.image);
        let report = assert_repaired(&sample.image, &["name-duplicate"]);
        assert_eq!(report.found(), 3);
    }
}

#[test]
fn long_names_that_break_a_rule_are_removed() {
    for width in WIDTHS {
        for name in ["a/long name.text", "a:long name.text", "..", "line\nbreak"] {
            let mut sample = Sample::new(width);
            sample.image.add_file(0, (b"BAD     TXT", name), &pattern(33, 100));
            crate::boot::correct_free_count(&sample.image);
            let found = codes(&check(sample.image.device()));
            assert_eq!(found, ["long-name-invalid"], "{name:?}");
            repair(sample.image.device());
            assert_sound(&sample.image, "invalid long name");
            assert!(sample.image.tree().contains_key("/BAD.TXT"));
        }
    }
}

#[test]
fn entries_of_dosfs_are_left_alone() {
    for width in [FatWidth::Fat12, FatWidth::Fat16] {
        let mut sample = Sample::new(width);
        let cluster = sample.image.free(1)[0];
        sample.image.link_all(&[cluster]);
        // An empty file with a cluster, and the rest of its name, in a directory.
        let mut entry = Entry::new(ShortName(*b".profile.x "), EntryAttributes(0xC0));
        entry.set_first_cluster(width, cluster);
        let directory = sample.directory;
        sample.image.add_entry(directory, &entry, "");
        let rest = Entry::new(ShortName(*b"and more of"), EntryAttributes::VOLUME_LABEL);
        sample.image.add_entry(directory, &rest, "");
        let found = codes(&check(sample.image.device()));
        assert_eq!(found, ["chain-beyond-size", "label-misplaced", "name-invalid"]);
        let before = sample.image.device.contents();
        let options = FsckOptions { mode: FsckMode::Repair, dosfs: true, ..FsckOptions::default() };
        let report = fsck(sample.image.device(), &options, &mut |question| question.suggested, &mut |_| ()).unwrap();
        assert_eq!(report.found(), 0, "{report}");
        assert!(sample.image.device.contents() == before);
        // An entry with more clusters has too many.
        let more = sample.image.free(1)[0];
        sample.image.link_all(&[cluster, more]);
        let report = fsck(sample.image.device(), &options, &mut |question| question.suggested, &mut |_| ()).unwrap();
        assert_eq!((codes(&report), report.unrepaired()), (vec!["chain-beyond-size"], 0));
        assert_eq!((sample.image.link(cluster), sample.image.link(more)), (Link::End, Link::Free));
        let tuned = tune(sample.image.device(), &TuneOptions { dosfs: true, ..TuneOptions::default() }, &mut |_| ());
        assert!(tuned.is_ok(), "{tuned:?}");
    }
}

#[test]
fn slots_of_no_entry_are_removed() {
    for width in WIDTHS {
        // The sample's long name has two slots, the end first.
        let damaged = |code: &str, name: &str, damage: &dyn Fn(&Sample)| {
            let sample = Sample::new(width);
            damage(&sample);
            let found = codes(&check(sample.image.device()));
            assert_eq!(found, [code], "on {width}");
            repair(sample.image.device());
            assert_sound(&sample.image, code);
            let tree = sample.image.tree();
            assert_eq!(tree.len(), 6 - usize::from(name.is_empty()), "{code}");
            if !name.is_empty() {
                assert_eq!(tree[name], pattern(2, 1000), "{code}");
            }
        };
        let short = "/ALONGF~1.TEX";
        damaged("long-name-stray", short, &|sample| sample.image.write(sample.long[0], &[0xE5]));
        damaged("long-name-nested", "/A long file n", &|sample| {
            edit_slot(sample, sample.long[1], |slot| slot.order |= 0x40);
        });
        damaged("long-name-sequence", short, &|sample| edit_slot(sample, sample.long[1], |slot| slot.order = 7));
        damaged("long-name-sequence", short, &|sample| edit_slot(sample, sample.long[0], |slot| slot.order = 0x7F));
        damaged("long-name-checksums", short, &|sample| {
            edit_slot(sample, sample.long[1], |slot| slot.checksum ^= 1);
        });
        damaged("long-name-checksum", short, &|sample| {
            sample.long[..2].iter().for_each(|&position| edit_slot(sample, position, |slot| slot.checksum ^= 1));
        });
        damaged("long-name-length", short, &|sample| edit_slot(sample, sample.long[1], |slot| slot.units[4] = 0));
        damaged("long-name-unfinished", short, &|sample| {
            edit_slot(sample, sample.long[0], |slot| slot.order = 0x43);
            edit_slot(sample, sample.long[1], |slot| slot.order = 2);
        });
        damaged("long-name-reserved", "/A long file name.text", &|sample| {
            sample.image.write(sample.long[1] + 11, &[0x4F])
        });
        damaged("long-name-reserved", "/A long file name.text", &|sample| {
            edit_slot(sample, sample.long[1], |slot| (slot.kind, slot.cluster) = (1, 7));
        });
    }
}

#[test]
fn slots_before_a_free_slot_are_removed() {
    for width in WIDTHS {
        let mut sample = Sample::new(width);
        let directory = sample.directory;
        let entry = Entry::new(ShortName(*b"GONE       "), EntryAttributes::ARCHIVE);
        let positions = sample.image.add_entry(directory, &entry, "a name that is gone");
        sample.image.write(*positions.last().unwrap(), &[0xE5]);
        assert_repaired(&sample.image, &["long-name-orphan"]);
        // At the end of the directory, and many of them.
        let slots = long_name_slots(&[0x61; 200], &entry.name);
        for _ in 0..20 {
            for slot in &slots[1..] {
                let bytes = slot.encode();
                let entry = Entry::decode(&bytes);
                sample.image.add_entry(directory, &entry, "");
            }
        }
        crate::boot::correct_free_count(&sample.image);
        assert_eq!(codes(&check(sample.image.device())), ["long-name-stray"]);
        repair(sample.image.device());
        assert_sound(&sample.image, "stray slots");
        assert_eq!(sample.image.tree().len(), 6);
    }
}
