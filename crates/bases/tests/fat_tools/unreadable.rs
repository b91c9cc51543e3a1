//! Devices that cannot be read in places.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use plyfs_bases::device::{Device, DeviceRef, Fault, FaultyDevice};
use plyfs_bases::fat::format::FatWidth;
use plyfs_bases::fat::format::Link;
use plyfs_bases::fat::tools::ToolError;
use plyfs_bases::fat::tools::fsck::{FsckOptions, fsck};
use vnode::{Errno, Result};

use crate::image::{WIDTHS, pattern};
use crate::repairs::{assert_sound, check, codes, repair};
use crate::sample::Sample;

/// A device that can only be read.
pub(crate) struct ReadOnly(pub(crate) DeviceRef);

impl Device for ReadOnly {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, _: u64, _: &[u8]) -> Result<()> {
        Err(Errno::EROFS)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

/// A device that cannot read a range before it is written to.
struct Remapping {
    device: DeviceRef,
    bad: Mutex<Option<Range<u64>>>,
}

impl Device for Remapping {
    fn size(&self) -> u64 {
        self.device.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset + buffer.len() as u64;
        match &*self.bad.lock().unwrap() {
            Some(bad) if offset < bad.end && bad.start < end => Err(Errno::EIO),
            _ => self.device.read_at(offset, buffer),
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let end = offset + data.len() as u64;
        self.bad.lock().unwrap().take_if(|bad| offset <= bad.start && bad.end <= end);
        self.device.write_at(offset, data)
    }

    fn flush(&self) -> Result<()> {
        self.device.flush()
    }
}

fn with_bad_sectors(sample: &Sample, range: std::ops::Range<u64>) -> Arc<FaultyDevice> {
    let device = Arc::new(FaultyDevice::new(sample.image.device()));
    device.add(Fault::bad_sectors(range));
    device
}

#[test]
fn tables_are_read_from_another_copy() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let start = sample.image.geometry.fat_offset(0).unwrap();
        let device = with_bad_sectors(&sample, start..start + 512);
        let report = check(device.clone());
        assert_eq!((codes(&report), report.files), (vec!["table-unreadable"], 4));
        // A write makes the disk use another sector.
        sample.image.write(start, &[0xAA; 512]);
        device.repair();
        device.add(Fault::bad_sectors(start..start + 512).times(0));
        let report = repair(device.clone());
        assert_eq!(report.unrepaired(), 0, "{report}");
        assert_sound(&sample.image, "table");
    }
}

#[test]
fn tables_that_cannot_be_read_at_all_end_the_check() {
    let sample = Sample::new(FatWidth::Fat16);
    let (first, second) = (sample.image.geometry.fat_offset(0).unwrap(), sample.image.geometry.fat_offset(1).unwrap());
    let device = with_bad_sectors(&sample, first..first + 512);
    device.add(Fault::bad_sectors(second..second + 512));
    let result = fsck(device, &FsckOptions::default(), &mut |question| question.suggested, &mut |_| ());
    assert!(matches!(result, Err(ToolError::Read { .. })), "{result:?}");
}

#[test]
fn directories_move_to_readable_clusters() {
    for width in WIDTHS {
        let mut sample = Sample::new(width);
        let directory = sample.directory;
        // Enough for two clusters.
        (0..16_u8).for_each(|index| {
            let name = [b'F', b'A' + index, b' ', b' ', b' ', b' ', b' ', b' ', b' ', b' ', b' '];
            sample.image.add_file(directory, (&name, ""), &[index; 10]);
        });
        crate::boot::correct_free_count(&sample.image);
        let chain = sample.image.chain(directory);
        assert_eq!(chain.len(), 2);
        let before = sample.image.tree();
        for (index, &bad) in chain.iter().enumerate() {
            let image = sample.image.copy();
            let offset = image.offset(bad);
            let device = Arc::new(FaultyDevice::new(image.device()));
            device.add(Fault::bad_sectors(offset..offset + 512));
            let report = check(device.clone());
            assert!(codes(&report).contains(&"directory-unreadable"), "{report}");
            let report = repair(device.clone());
            assert_eq!(report.unrepaired(), 0, "{report}");
            assert_eq!(image.link(bad), Link::Bad);
            assert_eq!(check(device).found(), 0);
            assert_sound(&image, "moved directory");
            let tree = image.tree();
            assert_eq!(tree["/A.TXT"], pattern(1, 3000));
            let kept = before.keys().filter(|path| path.starts_with("/DIR/F") && tree.contains_key(*path)).count();
            assert_eq!(kept, [5, 11][index]);
        }
    }
}

#[test]
fn a_root_directory_of_fixed_size_is_written_again() {
    let mut sample = Sample::new(FatWidth::Fat16);
    for index in 0..40_u8 {
        let name = [b'F', b'A' + index / 26, b'A' + index % 26, b' ', b' ', b' ', b' ', b' ', b' ', b' ', b' '];
        sample.image.add_file(0, (&name, ""), &[index; 10]);
    }
    let (offset, _) = sample.image.geometry.root_region().unwrap();
    let device = with_bad_sectors(&sample, offset + 512..offset + 1024);
    assert!(codes(&check(device)).contains(&"directory-unreadable"));
    let device =
        Arc::new(Remapping { device: sample.image.device(), bad: Mutex::new(Some(offset + 512..offset + 1024)) });
    let report = repair(device.clone());
    assert_eq!(report.unrepaired(), 0, "{report}");
    assert_eq!(report.counts["lost-chain"].found, 16);
    assert_eq!(check(device).found(), 0);
    assert_sound(&sample.image, "root directory");

    // One that stays as it is.
    let device = with_bad_sectors(&sample, offset + 1024..offset + 1536);
    let report = repair(device.clone());
    assert!(report.counts["directory-unreadable"].repaired == 0 && report.unrepaired() > 0, "{report}");
}

#[test]
fn a_boot_sector_that_cannot_be_read_is_reported() {
    let sample = Sample::new(FatWidth::Fat32);
    let report = check(with_bad_sectors(&sample, 0..512));
    assert_eq!((codes(&report), report.files), (vec!["boot-unreadable"], 4));
    let sample = Sample::new(FatWidth::Fat16);
    let report = check(with_bad_sectors(&sample, 0..512));
    assert_eq!((codes(&report), report.files, report.exit_code()), (vec!["boot-unreadable"], 0, 4));
}
