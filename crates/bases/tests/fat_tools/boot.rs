//! Damaged boot and information sectors, labels and marks of the state.

use std::sync::Arc;

use plyfs_bases::device::MemoryDevice;
use plyfs_bases::fat::format::{
    Entry, EntryAttributes, ExtendedFields, FatWidth, InfoSector, Link, NO_NAME, ShortName, StateFlags,
};
use plyfs_bases::fat::tools::fsck::{Repair, fsck};
use plyfs_bases::fat::tools::mkfs::{MkfsOptions, mkfs};
use plyfs_bases::fat::tools::{ToolError, show_label};

use crate::image::{Image, WIDTHS, boot_sector};
use crate::repairs::{assert_repaired, assert_sound, check, codes, preen, repair};
use crate::sample::Sample;

/// Writes the number of free clusters to the information sector, after clusters were taken without the tools.
pub(crate) fn correct_free_count(image: &Image) {
    let Some(offset) = image.geometry.info_offset() else { return };
    let free: Vec<u32> =
        image.geometry.cluster_numbers().filter(|&cluster| image.link(cluster) == Link::Free).collect();
    let info = InfoSector { free_clusters: Some(free.len() as u32), next_free: free.first().copied().or(Some(2)) };
    image.write(offset, &info.encode());
}

#[test]
fn a_missing_signature_is_written() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        sample.image.write(510, &[0, 0]);
        let expected: &[&str] =
            if width == FatWidth::Fat32 { &["backup-differs", "boot-signature"] } else { &["boot-signature"] };
        // The copy has its signature, so it is repaired by the first repair, too.
        assert_eq!(codes(&check(sample.image.device())), expected);
        let report = repair(sample.image.device());
        assert_eq!(report.unrepaired(), 0, "{report}");
        assert_sound(&sample.image, "signature");
        assert_eq!(sample.image.read::<2>(510), [0x55, 0xAA]);
    }
}

#[test]
fn the_boot_sector_is_restored_from_its_copy() {
    let sample = Sample::new(FatWidth::Fat32);
    let before = sample.image.device.contents();
    for damage in [&[0; 512][..], &[0xFF; 512][..]] {
        sample.image.write(0, damage);
        let report = assert_repaired(&sample.image, &["boot-invalid"]);
        assert_eq!(report.files, 4);
    }
    assert!(sample.image.device.contents() == before);
    let report = preen(sample.image.device());
    assert_eq!(report.found(), 0);

    // With a field alone, and without a copy.
    sample.image.write(13, &[3]);
    assert_repaired(&sample.image, &["boot-invalid"]);
    sample.image.write(13, &[3]);
    assert_eq!(preen(sample.image.device()).findings[0].repair, Repair::Left);
    sample.image.write(6 * 512, &[0; 512]);
    let report = repair(sample.image.device());
    assert_eq!((codes(&report), report.findings[0].repair.clone()), (vec!["boot-invalid"], Repair::Impossible));
    assert_eq!(report.exit_code(), 4);
}

#[test]
fn a_boot_sector_with_wrong_regions_is_restored_from_its_copy() {
    let sample = Sample::new(FatWidth::Fat32);
    let before = sample.image.device.contents();
    sample.image.edit_boot(0, |boot| boot.reserved_sectors += 1);
    assert_repaired(&sample.image, &["boot-differs"]);
    assert!(sample.image.device.contents() == before);
}

#[test]
fn a_copy_that_differs_is_written() {
    let sample = Sample::new(FatWidth::Fat32);
    sample.image.write(6 * 512 + 3, b"X");
    assert_repaired(&sample.image, &["backup-differs"]);
    sample.image.write(6 * 512, &[0; 512]);
    assert_repaired(&sample.image, &["backup-differs"]);
}

/// Changes the fields of FAT32 in a boot sector and its copy.
fn edit_extended(image: &Image, edit: impl Fn(&mut ExtendedFields)) {
    for offset in [0, 6 * 512] {
        image.edit_boot(offset, |boot| edit(boot.extended.as_mut().unwrap()));
    }
}

#[test]
fn missing_copies_and_information_sectors_are_created() {
    for sector in [0, 0xFFFF] {
        let sample = Sample::new(FatWidth::Fat32);
        edit_extended(&sample.image, |fields| fields.backup_sector = sector);
        // The old copy is data of somebody else.
        assert_repaired(&sample.image, &["backup-missing"]);
        assert_eq!(boot_sector(&*sample.image.device, 0).extended.unwrap().backup_sector, 2);
        edit_extended(&sample.image, |fields| fields.backup_sector = sector);
        sample.image.write(2 * 512, &[0; 512]);
        sample.image.write(6 * 512, &[0; 512]);
        assert_eq!(codes(&preen(sample.image.device())), ["backup-missing"]);
        assert_sound(&sample.image, "a copy");
        let fields = boot_sector(&*sample.image.device, 6 * 512).extended.unwrap();
        assert_eq!((fields.backup_sector, fields.info_sector), (6, 1));

        let sample = Sample::new(FatWidth::Fat32);
        let before = sample.image.device.contents();
        edit_extended(&sample.image, |fields| fields.info_sector = sector);
        sample.image.write(512, &[0; 512]);
        assert_repaired(&sample.image, &["info-missing"]);
        assert!(sample.image.device.contents() == before);
    }
    // The copy keeps a sector that is both.
    let sample = Sample::new(FatWidth::Fat32);
    edit_extended(&sample.image, |fields| fields.info_sector = 6);
    assert_repaired(&sample.image, &["info-missing"]);
    let fields = boot_sector(&*sample.image.device, 0).extended.unwrap();
    assert_eq!((fields.backup_sector, fields.info_sector), (6, 2));
    assert_eq!(boot_sector(&*sample.image.device, 6 * 512).extended, Some(fields));
    // Where all reserved sectors are used, there is no room.
    let sample = Sample::new(FatWidth::Fat32);
    edit_extended(&sample.image, |fields| fields.backup_sector = 0);
    (1..sample.image.geometry.reserved_sectors())
        .for_each(|sector| sample.image.write(u64::from(sector) * 512 + 20, &[1]));
    assert_eq!(codes(&check(sample.image.device())), Vec::<&str>::new());
}

#[test]
fn oddities_are_noted() {
    let device = Arc::new(MemoryDevice::new(64 << 20));
    mkfs(device.clone(), &MkfsOptions { fats: 3, ..MkfsOptions::default() }, &mut |_| ()).unwrap();
    let report = check(device);
    assert_eq!((report.found(), report.notes.len()), (0, 1), "{report}");
    assert!(report.to_string().contains("note: 3 file allocation tables"), "{report}");
    assert_eq!(report.to_json()["notes"].as_array().unwrap().len(), 1);
}

#[test]
fn clusters_without_entries_are_reported() {
    let device = Arc::new(MemoryDevice::new(6 << 20));
    let options = MkfsOptions {
        size: Some(4 << 20),
        width: Some(FatWidth::Fat16),
        sectors_per_cluster: Some(1),
        ..MkfsOptions::default()
    };
    mkfs(device.clone(), &options, &mut |_| ()).unwrap();
    let image = Image::open(device);
    image.edit_boot(0, |boot| boot.total_sectors += 1000);
    let report = repair(image.device());
    assert_eq!((codes(&report), report.exit_code()), (vec!["table-short"], 4));
    assert_eq!(report.findings[0].repair, Repair::Impossible);
    assert!(report.findings[0].problem.description().starts_with("has 9"), "{report}");
}

#[test]
fn the_information_sector_is_corrected() {
    let sample = Sample::new(FatWidth::Fat32);
    let image = &sample.image;
    let offset = image.geometry.info_offset().unwrap();
    image.write(offset, &[0; 4]);
    assert_repaired(image, &["info-invalid"]);
    let write = |free_clusters, next_free| image.write(offset, &InfoSector { free_clusters, next_free }.encode());
    write(Some(5), Some(2));
    assert_repaired(image, &["free-count"]);
    write(None, Some(0x0100_0000));
    assert_repaired(image, &["next-free"]);
    write(Some(u32::MAX - 1), Some(1));
    assert_repaired(image, &["free-count", "next-free"]);
    // Numbers that are not known are allowed.
    write(None, None);
    assert_eq!(check(image.device()).found(), 0);
}

#[test]
fn a_volume_that_was_in_use_is_marked_as_unmounted() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        sample.image.edit_boot(0, |boot| boot.state = StateFlags(StateFlags::DIRTY));
        let report = assert_repaired(&sample.image, &["dirty"]);
        assert_eq!(report.found(), 1);
        if width != FatWidth::Fat12 {
            let clean = sample.image.value(1);
            let bit = if width == FatWidth::Fat16 { 0x8000 } else { 0x0800_0000 };
            sample.image.set_value(1, clean & !bit);
            assert_eq!(codes(&preen(sample.image.device())), ["dirty"]);
            assert_eq!(sample.image.value(1), clean);
            sample.image.set_value(1, clean & !(bit >> 1));
            assert_repaired(&sample.image, &["disk-errors"]);
        }
        sample.image.edit_boot(0, |boot| boot.state = StateFlags(StateFlags::ERROR));
        assert_repaired(&sample.image, &["disk-errors"]);
    }
}

#[test]
fn a_volume_stays_marked_while_problems_are_left() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        sample.image.set_link(sample.clusters[5], Link::Next(sample.clusters[2]));
        sample.image.edit_boot(0, |boot| boot.state = StateFlags(StateFlags::DIRTY));
        let report = preen(sample.image.device());
        assert_eq!((report.found(), report.unrepaired()), (2, 2));
        assert!(boot_sector(&*sample.image.device, 0).state.is_dirty());
    }
}

#[test]
fn labels_are_made_to_agree() {
    for width in WIDTHS {
        let label = |image: &Image| {
            let report = show_label(image.device(), Default::default()).unwrap();
            (report.root, report.boot)
        };
        let set_boot = |image: &Image, label: [u8; 11]| {
            for offset in [Some(0), image.geometry.backup_offset()].into_iter().flatten() {
                image.edit_boot(offset, |boot| boot.identity.as_mut().unwrap().label.as_mut().unwrap().0 = label);
            }
        };
        let sample = Sample::new(width);
        set_boot(&sample.image, *b"OTHER      ");
        assert_repaired(&sample.image, &["label-differs"]);
        assert_eq!(label(&sample.image), (Some("SAMPLE".into()), Some("SAMPLE".into())));

        set_boot(&sample.image, NO_NAME);
        assert_repaired(&sample.image, &["label-differs"]);

        // Without a label in the root directory.
        let position = sample.image.slots(0)[0];
        sample.image.write(position, &[0xE5]);
        assert_repaired(&sample.image, &["label-differs"]);
        assert_eq!(label(&sample.image), (None, None));

        let mut sample = Sample::new(width);
        let label = |text: &[u8; 11]| Entry::new(ShortName(*text), EntryAttributes::VOLUME_LABEL);
        sample.image.add_entry(0, &label(b"SECOND     "), "");
        assert_eq!(codes(&check(sample.image.device())), ["label-duplicate"]);
        repair(sample.image.device());
        assert_sound(&sample.image, "two labels");
        let directory = sample.directory;
        sample.image.add_entry(directory, &label(b"SECOND     "), "");
        assert_eq!(codes(&check(sample.image.device())), ["label-misplaced"]);
        repair(sample.image.device());
        assert_sound(&sample.image, "label in a directory");

        let position = sample.image.slots(0)[0];
        sample.image.write(position, b"A\x01");
        assert_eq!(codes(&check(sample.image.device())), ["label-differs", "label-invalid"]);
        repair(sample.image.device());
        assert_sound(&sample.image, "invalid label");

        // What only files and directories have.
        let sample = Sample::new(width);
        let position = sample.image.slots(0)[0];
        let damages: [&dyn Fn(&mut Entry); 3] =
            [&|entry| entry.size = 1, &|entry| entry.set_first_cluster(width, 7), &|entry| {
                entry.attributes |= EntryAttributes::DIRECTORY
            }];
        for damage in damages {
            let image = sample.image.copy();
            image.edit(position, damage);
            assert_repaired(&image, &["label-differs", "label-invalid"]);
        }
    }
}

#[test]
fn a_device_that_cannot_be_written_is_only_checked() {
    let device = Arc::new(crate::unreadable::ReadOnly(Sample::new(FatWidth::Fat16).image.device()));
    assert_eq!(check(device.clone()).found(), 0);
    let sample = Sample::new(FatWidth::Fat16);
    sample.image.edit(sample.file, |entry| entry.size = 0);
    let device = Arc::new(crate::unreadable::ReadOnly(sample.image.device()));
    assert_eq!(codes(&check(device.clone())), ["chain-beyond-size"]);
    let options = plyfs_bases::fat::tools::fsck::FsckOptions {
        mode: plyfs_bases::fat::tools::fsck::FsckMode::Preen,
        ..Default::default()
    };
    let result = fsck(device, &options, &mut |question| question.suggested, &mut |_| ());
    assert_eq!(result.unwrap_err(), ToolError::ReadOnly);
}
