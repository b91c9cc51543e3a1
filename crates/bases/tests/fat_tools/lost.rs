//! Clusters that belong to nothing.

use plyfs_bases::fat::format::{Entry, EntryAttributes, FatWidth, Link, ShortName};

use plyfs_bases::fat::tools::ToolError;
use plyfs_bases::fat::tools::fsck::Repair;

use crate::image::{WIDTHS, pattern};
use crate::repairs::{assert_repaired, assert_sound, codes, repair};
use crate::sample::Sample;

#[test]
fn lost_chains_are_saved() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let lost = sample.image.copy().free(9);
        lost.iter().enumerate().for_each(|(index, &cluster)| {
            sample.image.write(sample.image.offset(cluster), &pattern(100 + index as u64, 512));
        });
        sample.image.link_all(&lost[..3]);
        // A loop, two that meet, and one that runs into a file.
        sample.image.set_link(lost[3], Link::Next(lost[4]));
        sample.image.set_link(lost[4], Link::Next(lost[3]));
        sample.image.set_link(lost[5], Link::Next(lost[7]));
        sample.image.set_link(lost[6], Link::Next(lost[7]));
        sample.image.set_link(lost[7], Link::Next(0x0BAD));
        sample.image.set_link(lost[8], Link::Next(sample.clusters[2]));
        if width == FatWidth::Fat12 {
            sample.image.set_link(lost[7], Link::Next(0xEEE));
        }
        crate::boot::correct_free_count(&sample.image);
        let report = assert_repaired(&sample.image, &["lost-chain"]);
        assert_eq!(report.found(), 5, "{report}");
        let tree = sample.image.tree();
        assert_eq!(tree["/FSCK0000.REC"].len(), 3 * 512);
        assert_eq!(tree["/FSCK0000.REC"][1024..], pattern(102, 512));
        assert_eq!(tree["/A.TXT"], pattern(1, 3000));
        let total: usize = (0..5).map(|index| tree[&format!("/FSCK000{index}.REC")].len()).sum();
        assert_eq!(total, 9 * 512);
    }
}

#[test]
fn lost_directories_keep_what_is_in_them() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let before = sample.image.tree();
        sample.image.write(sample.directory_entry, &[0xE5]);
        // It is in none, and the other one in it.
        let report = assert_repaired(&sample.image, &["lost-directory"]);
        assert_eq!(report.found(), 1);
        let tree = sample.image.tree();
        for (path, contents) in before.iter().filter(|(path, _)| path.starts_with("/DIR/")) {
            assert_eq!(&tree[&path.replace("/DIR/", "/FSCK0000.DIR/")], contents);
        }
    }
}

#[test]
fn loops_in_lost_directories_are_left_soon() {
    for width in WIDTHS {
        let mut sample = Sample::new(width);
        let lost = sample.image.free(200);
        sample.image.link_all(&lost);
        sample.image.set_link(lost[199], Link::Next(lost[100]));
        // The files of the directory have beginnings of their own, and run into the loop.
        let directory = sample.directory;
        for (number, &start) in lost.iter().enumerate().take(40) {
            let name: [u8; 11] = format!("LOOP{number:02}     ").as_bytes().try_into().unwrap();
            let mut entry = Entry::new(ShortName(name), EntryAttributes::ARCHIVE);
            entry.set_first_cluster(width, start);
            entry.size = 512;
            sample.image.add_entry(directory, &entry, "");
        }
        crate::boot::correct_free_count(&sample.image);
        sample.image.write(sample.directory_entry, &[0xE5]);
        let started = std::time::Instant::now();
        let report = repair(sample.image.device());
        assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
        assert_eq!(report.unrepaired(), 0, "{report}");
        assert!(codes(&report).contains(&"lost-directory"), "{report}");
        assert_sound(&sample.image, "loops");
        assert!(sample.image.tree().contains_key("/FSCK0000.DIR/LOOP39"));
    }
}

#[test]
fn lost_directories_without_an_end_are_chains() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        sample.image.write(sample.directory_entry, &[0xE5]);
        sample.image.write(sample.inner_entry, &[0xE5]);
        sample.image.set_link(sample.directory, Link::Next(sample.directory));
        let report = repair(sample.image.device());
        assert_eq!(report.unrepaired(), 0, "{report}");
        assert!(codes(&report).contains(&"lost-chain"), "{report}");
        assert_sound(&sample.image, "an endless directory");
        assert!(sample.image.tree().contains_key("/FSCK0000.DIR/C.DAT"));
    }
}

#[test]
fn many_lost_chains_are_saved_in_a_directory() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let lost = sample.image.copy().free(600);
        lost.iter().for_each(|&cluster| sample.image.set_link(cluster, Link::End));
        crate::boot::correct_free_count(&sample.image);
        let report = repair(sample.image.device());
        assert_eq!((codes(&report), report.unrepaired()), (vec!["lost-chain"], 0), "{report}");
        assert_sound(&sample.image, "many files");
        let tree = sample.image.tree();
        assert_eq!(tree.keys().filter(|path| path.ends_with(".REC")).count(), 600);
        let in_directory = tree.keys().filter(|path| path.contains(".DIR/FSCK")).count();
        assert_eq!(in_directory > 0, width != FatWidth::Fat32);
        assert_eq!(report.files, 604);
    }
}

#[test]
fn a_root_directory_without_any_room_keeps_chains_lost() {
    for width in [FatWidth::Fat12, FatWidth::Fat16] {
        let mut sample = Sample::new(width);
        let lost = sample.image.free(3);
        sample.image.link_all(&lost);
        let slots = sample.image.slots(0);
        for (index, &position) in slots.iter().enumerate().skip(6) {
            let name: [u8; 11] = format!("F{index:07}   ").as_bytes().try_into().unwrap();
            sample.image.write(position, &Entry::new(ShortName(name), EntryAttributes::ARCHIVE).encode());
        }
        let report = repair(sample.image.device());
        assert_eq!((codes(&report), report.unrepaired()), (vec!["lost-chain"], 1), "{report}");
        assert_eq!(report.findings[0].repair, Repair::Failed(ToolError::RootFull));
        assert_eq!(sample.image.chain(lost[0]), lost);
        // A directory with many files, in the last slot.
        sample.image.write(slots[20], &[0xE5]);
        let report = repair(sample.image.device());
        assert_eq!(report.unrepaired(), 0, "{report}");
        assert_sound(&sample.image, "last slot");
        assert!(sample.image.tree().contains_key("/FSCK0000.DIR/FSCK0000.REC"));
    }
}
