//! Formatting: what is made is valid for others, whatever the options.

use std::sync::Arc;

use plyfs_bases::device::{Device, MemoryDevice};
use plyfs_bases::fat::format::{FatWidth, Link};
use plyfs_bases::fat::tools::mkfs::{MkfsError, MkfsOptions, MkfsReport, mkfs};
use plyfs_bases::fat::tools::show_label;

use crate::external;
use crate::image::{Image, boot_sector};
use crate::repairs::assert_sound;

const MIB: u64 = 1 << 20;

fn make(size: u64, options: &MkfsOptions) -> Result<(Image, MkfsReport), MkfsError> {
    let device = Arc::new(MemoryDevice::new(size));
    let report = mkfs(device.clone(), options, &mut |_| ())?;
    Ok((Image::open(device), report))
}

fn assert_valid(size: u64, options: &MkfsOptions) -> (Image, MkfsReport) {
    let context = format!("{size} bytes with {options:?}");
    let (image, report) = make(size, options).unwrap_or_else(|error| panic!("{context}: {error}"));
    if size <= 64 * MIB {
        assert_sound(&image, &context);
        if let Some((is_valid, text)) = external::run("mdir", &["-i", "IMAGE", "::/"], &image) {
            assert!(is_valid, "{context}: mdir says:\n{text}");
        }
        if let Some((is_valid, text)) = external::run("minfo", &["-i", "IMAGE", "::/"], &image) {
            assert!(is_valid, "{context}: minfo says:\n{text}");
            let clusters = format!("sector size: {} bytes", report.bytes_per_sector);
            assert!(text.contains(&clusters), "{context}: minfo says:\n{text}");
        }
    }
    (image, report)
}

#[test]
fn defaults_follow_the_size() {
    let expected = [
        (160 << 10, FatWidth::Fat12, 512),
        (360 << 10, FatWidth::Fat12, 1024),
        (720 << 10, FatWidth::Fat12, 1024),
        (1200 << 10, FatWidth::Fat12, 512),
        (1440 << 10, FatWidth::Fat12, 512),
        (2880 << 10, FatWidth::Fat12, 1024),
        (100 << 10, FatWidth::Fat12, 512),
        (4 * MIB, FatWidth::Fat12, 1024),
        (5 * MIB, FatWidth::Fat16, 1024),
        (40 * MIB, FatWidth::Fat16, 2048),
        (511 * MIB, FatWidth::Fat16, 8192),
        (512 * MIB, FatWidth::Fat32, 4096),
        (9 << 30, FatWidth::Fat32, 8192),
        (40 << 30, FatWidth::Fat32, 32_768),
    ];
    for (size, width, cluster_size) in expected {
        let (_, report) = assert_valid(size, &MkfsOptions::default());
        assert_eq!(
            (report.width, report.bytes_per_sector * report.sectors_per_cluster),
            (width, cluster_size),
            "{size}"
        );
    }
    let (image, _) = assert_valid(1440 << 10, &MkfsOptions::default());
    let boot = boot_sector(&*image.device, 0);
    let floppy = (boot.media, boot.root_entries, boot.fat_sectors, boot.sectors_per_track, boot.heads, boot.drive);
    assert_eq!(floppy, (0xF0, 224, 9, 18, 2, 0));
}

#[test]
fn every_width_sector_and_cluster_size_is_valid() {
    let mut made = 0;
    for width in [FatWidth::Fat12, FatWidth::Fat16, FatWidth::Fat32] {
        for sector_size in [512, 1024, 2048, 4096] {
            for power in 0..8 {
                let sectors_per_cluster = 1 << power;
                let clusters = match width {
                    FatWidth::Fat12 => 300,
                    FatWidth::Fat16 => 5000,
                    FatWidth::Fat32 => 66_000,
                };
                let size = u64::from(sector_size * sectors_per_cluster) * clusters + MIB;
                let options = MkfsOptions {
                    width: Some(width),
                    sector_size: Some(sector_size),
                    sectors_per_cluster: Some(sectors_per_cluster),
                    ..MkfsOptions::default()
                };
                let is_small = size <= 24 * MIB || size <= 64 * MIB && width == FatWidth::Fat32;
                if is_small {
                    assert_valid(size, &options);
                    made += 1;
                } else {
                    make(size, &options).unwrap();
                }
            }
        }
    }
    assert!(made > 30);
}

#[test]
fn options_are_stored() {
    let options = MkfsOptions {
        width: Some(FatWidth::Fat32),
        sectors_per_cluster: Some(1),
        fats: 1,
        reserved_sectors: Some(40),
        label: Some("my disk".into()),
        serial: Some(0x1234_ABCD),
        media: Some(0xFA),
        hidden_sectors: 63,
        heads: Some(7),
        sectors_per_track: Some(9),
        drive: Some(0x81),
        backup_sector: Some(12),
        ..MkfsOptions::default()
    };
    let (image, report) = assert_valid(36 * MIB, &options);
    let boot = boot_sector(&*image.device, 0);
    let stored = (boot.fats, boot.reserved_sectors, boot.media, boot.hidden_sectors, boot.heads);
    assert_eq!(stored, (1, 40, 0xFA, 63, 7));
    assert_eq!((boot.sectors_per_track, boot.drive, boot.extended.unwrap().backup_sector), (9, 0x81, 12));
    assert_eq!(boot_sector(&*image.device, 12 * 512), boot);
    assert_eq!((report.serial.as_str(), report.label.as_deref()), ("1234-ABCD", Some("MY DISK")));
    assert_eq!(report.to_json()["serial"], "1234-ABCD");
    let label = show_label(image.device(), Default::default()).unwrap();
    assert_eq!((label.root.as_deref(), label.boot.as_deref()), (Some("MY DISK"), Some("MY DISK")));

    let options = MkfsOptions { backup_sector: Some(0), ..options };
    let (image, _) = make(36 * MIB, &options).unwrap();
    assert_eq!(image.geometry.backup_offset(), None);
    // There is room for one.
    assert_eq!(crate::repairs::codes(&crate::repairs::check(image.device())), ["backup-missing"]);

    let options =
        MkfsOptions { width: Some(FatWidth::Fat16), root_entries: Some(100), fats: 3, ..MkfsOptions::default() };
    let (image, report) = make(16 * MIB, &options).unwrap();
    assert_eq!((report.root_entries, report.fats), (112, 3));
    assert_eq!(crate::repairs::check(image.device()).found(), 0);
}

#[test]
fn clusters_are_aligned_if_requested() {
    let options = MkfsOptions { sectors_per_cluster: Some(8), ..MkfsOptions::default() };
    let (image, _) = assert_valid(20 * MIB, &options);
    assert_eq!(image.geometry.data_offset() % 4096, 0);
    let options = MkfsOptions { align: false, ..options };
    let (image, report) = assert_valid(20 * MIB, &options);
    assert_eq!(report.reserved_sectors, 1);
    assert_ne!(image.geometry.data_offset() % 4096, 0);
}

#[test]
fn bad_sectors_are_marked() {
    let (image, _) = make(36 * MIB, &MkfsOptions { width: Some(FatWidth::Fat32), ..MkfsOptions::default() }).unwrap();
    let first = image.geometry.data_offset() / 512;
    let options = MkfsOptions {
        width: Some(FatWidth::Fat32),
        bad_sectors: vec![first, first + 1, first + 9],
        ..MkfsOptions::default()
    };
    let (image, report) = assert_valid(36 * MIB, &options);
    assert_eq!(report.bad_clusters, 3);
    assert_eq!(image.geometry.root_cluster(), Some(4));
    assert_eq!([2, 3, 11].map(|cluster| image.link(cluster)), [Link::Bad; 3]);
    let options = MkfsOptions { bad_sectors: vec![3], ..options };
    assert_eq!(make(36 * MIB, &options).err(), Some(MkfsError::BadSector(3)));
}

#[test]
fn a_partition_table_does_not_disturb() {
    for width in crate::image::WIDTHS {
        let size = if width == FatWidth::Fat12 { 2 * MIB } else { 40 * MIB };
        let options = MkfsOptions { width: Some(width), partition_table: true, ..MkfsOptions::default() };
        let (image, report) = assert_valid(size, &options);
        let sector = image.read::<512>(0);
        assert_eq!(sector[454..462], [&0_u32.to_le_bytes()[..], &report.sectors.to_le_bytes()].concat());
    }
}

#[test]
fn what_would_not_be_valid_is_refused_before_anything_is_written() {
    let default = MkfsOptions::default;
    let refused = |size: u64, options: MkfsOptions| {
        let device = Arc::new(MemoryDevice::new(size));
        let error = mkfs(device.clone(), &options, &mut |_| ()).unwrap_err();
        assert_eq!(device.allocated_bytes(), 0, "{error}");
        assert!(!error.to_string().is_empty());
        error
    };
    let is_refused = |options: MkfsOptions, expected: MkfsError| assert_eq!(refused(16 * MIB, options), expected);
    is_refused(MkfsOptions { size: Some(17 * MIB), ..default() }, MkfsError::Size(17 * MIB, 16 * MIB));
    is_refused(MkfsOptions { sector_size: Some(256), ..default() }, MkfsError::SectorSize(256));
    is_refused(MkfsOptions { sector_size: Some(8192), ..default() }, MkfsError::SectorSize(8192));
    is_refused(MkfsOptions { sectors_per_cluster: Some(3), ..default() }, MkfsError::ClusterSize(3));
    is_refused(MkfsOptions { sectors_per_cluster: Some(256), ..default() }, MkfsError::ClusterSize(256));
    is_refused(MkfsOptions { fats: 0, ..default() }, MkfsError::NoTables);
    is_refused(MkfsOptions { media: Some(1), ..default() }, MkfsError::Media(1));
    is_refused(MkfsOptions { root_entries: Some(0), ..default() }, MkfsError::RootEntries(0));
    is_refused(MkfsOptions { reserved_sectors: Some(0), ..default() }, MkfsError::ReservedSectors(0, 1));
    is_refused(MkfsOptions { partition_table: true, hidden_sectors: 1, ..default() }, MkfsError::PartitionTable);
    let fat32 = || MkfsOptions { width: Some(FatWidth::Fat32), ..default() };
    is_refused(fat32(), MkfsError::NoClusterSize(FatWidth::Fat32));
    is_refused(
        MkfsOptions { width: Some(FatWidth::Fat12), sectors_per_cluster: Some(1), ..default() },
        MkfsError::Clusters { width: FatWidth::Fat12, cluster_size: 512, clusters: 32_711 },
    );
    let error = refused(40 * MIB, MkfsOptions { backup_sector: Some(32), ..fat32() });
    assert!(matches!(error, MkfsError::BackupSector(32, _)));
    assert!(matches!(refused(40 * MIB, MkfsOptions { label: Some("a*b".into()), ..fat32() }), MkfsError::Label(_)));
    assert!(matches!(refused(4096, default()), MkfsError::TooSmall(8)));
    assert!(matches!(refused(0, default()), MkfsError::TooSmall(0)));
    assert!(matches!(refused(4 << 40, default()), MkfsError::TooManySectors(_)));
}

#[test]
fn an_interrupted_run_leaves_no_file_system() {
    let device = MemoryDevice::new(2 * MIB);
    mkfs(Arc::new(device.clone()), &MkfsOptions::default(), &mut |_| ()).unwrap();
    let recording = Arc::new(plyfs_bases::device::RecordingDevice::new(&device));
    mkfs(recording.clone(), &MkfsOptions::default(), &mut |_| ()).unwrap();
    let events = recording.event_count();
    for count in 3..events - 1 {
        let image = recording.image(count, |_, _| plyfs_bases::device::Fate::Kept);
        let boot = boot_sector(&image, 0);
        assert!(!boot.has_signature || count >= events - 2, "after {count} of {events}");
    }
    assert_eq!(recording.size(), 2 * MIB);
}
