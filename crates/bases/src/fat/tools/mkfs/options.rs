//! Options of formatting.

use vnode::Timestamp;

use crate::fat::format::{CodePage, FatWidth};

/// Options of formatting. What is not given is chosen by the size.
#[derive(Clone, Debug)]
pub struct MkfsOptions {
    /// Width of table entries. Default: FAT12 for floppies and below 4.1 MB, FAT16 below 512 MiB, FAT32 from there.
    pub width: Option<FatWidth>,
    /// Size of the file system in bytes. Default: that of the device.
    pub size: Option<u64>,
    /// Size of a sector in bytes: 512, 1024, 2048 or 4096. Default: that of the device, or 512.
    pub sector_size: Option<u32>,
    /// Sectors of a cluster: a power of two up to 128. Default: by width and size, as Windows chooses it.
    pub sectors_per_cluster: Option<u32>,
    /// Number of file allocation tables. Default: 2.
    pub fats: u8,
    /// Least number of reserved sectors; alignment may need more. Default: 32 on FAT32, otherwise 1.
    pub reserved_sectors: Option<u16>,
    /// Least number of entries of the root directory; whole sectors may have more. Not for FAT32. Default: 512, or what is
    /// usual for a floppy.
    pub root_entries: Option<u16>,
    /// Label. Default: none.
    pub label: Option<String>,
    /// Code page of the label.
    pub page: CodePage,
    /// Serial number. Default: made from the time.
    pub serial: Option<u32>,
    /// Media byte: 0xF0, or 0xF8 to 0xFF. Default: 0xF8, or what is usual for a floppy.
    pub media: Option<u8>,
    /// Sectors of the disk before the partition. Default: 0.
    pub hidden_sectors: u32,
    /// Heads of the disk, for firmware that addresses cylinders. Default: by size.
    pub heads: Option<u16>,
    /// Sectors of a track, for firmware that addresses cylinders. Default: by size.
    pub sectors_per_track: Option<u16>,
    /// Number of the drive for firmware. Default: 0x80, or 0 of a floppy.
    pub drive: Option<u8>,
    /// Sector of the copy of the boot sector on FAT32; 0 for none. Default: 6.
    pub backup_sector: Option<u16>,
    /// Whether the first cluster is at a multiple of the size of clusters. Default: yes.
    pub align: bool,
    /// Sectors that must not be used, counted from the beginning of the file system.
    pub bad_sectors: Vec<u64>,
    /// Read the whole device before, and mark what cannot be read. Default: no.
    pub check_surface: bool,
    /// Write a partition table with one partition that is the whole disk into the boot sector, for systems that look for
    /// one on disks that are not removable. Default: no.
    pub partition_table: bool,
    /// Time of the label. Default: that of the call.
    pub time: Timestamp,
    /// Minutes by which local time is ahead of UTC. Default: 0.
    pub offset_minutes: i32,
}

impl Default for MkfsOptions {
    fn default() -> Self {
        Self {
            width: None,
            size: None,
            sector_size: None,
            sectors_per_cluster: None,
            fats: 2,
            reserved_sectors: None,
            root_entries: None,
            label: None,
            page: CodePage::default(),
            serial: None,
            media: None,
            hidden_sectors: 0,
            heads: None,
            sectors_per_track: None,
            drive: None,
            backup_sector: None,
            align: true,
            bad_sectors: Vec::new(),
            check_surface: false,
            partition_table: false,
            time: Timestamp::now(),
            offset_minutes: 0,
        }
    }
}
