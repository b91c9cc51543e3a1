//! The reasons why a file system is not made.

use std::fmt;

use crate::fat::format::{FatWidth, LabelError};
use crate::fat::tools::error::ToolError;

/// The reason why a file system is not made. Nothing is written then, except for errors of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MkfsError {
    /// The device failed.
    Device(ToolError),
    /// The size of the file system, in bytes, is larger than the device.
    Size(u64, u64),
    /// There are more sectors than a boot sector can count.
    TooManySectors(u64),
    /// There are too few sectors for any file system.
    TooSmall(u64),
    /// The size of a sector in bytes.
    SectorSize(u32),
    /// The number of sectors of a cluster.
    ClusterSize(u32),
    /// There is no table.
    NoTables,
    /// The number of reserved sectors, and the least one.
    ReservedSectors(u32, u32),
    /// The root directory has no entries, or FAT32 has some.
    RootEntries(u16),
    /// The sector of the copy of the boot sector, and the number of reserved sectors.
    BackupSector(u16, u32),
    /// The media byte is not defined.
    Media(u8),
    /// The label is none.
    Label(LabelError),
    /// The number of clusters is not one of this width.
    Clusters {
        /// The width.
        width: FatWidth,
        /// Bytes of a cluster.
        cluster_size: u32,
        /// The number of clusters that there would be.
        clusters: u32,
    },
    /// No size of clusters makes a file system of this width.
    NoClusterSize(FatWidth),
    /// This bad sector is not in a cluster.
    BadSector(u64),
    /// A partition table is only for whole disks.
    PartitionTable,
}

impl From<ToolError> for MkfsError {
    fn from(error: ToolError) -> Self {
        Self::Device(error)
    }
}

/// Returns the numbers of clusters that file systems of a width are made with. They keep a distance from those on which
/// implementations disagree.
pub(crate) const fn valid_clusters(width: FatWidth) -> (u32, u32) {
    match width {
        FatWidth::Fat12 => (1, 4084),
        FatWidth::Fat16 => (4087, 65_524),
        FatWidth::Fat32 => (65_529, FatWidth::Fat32.clusters_max()),
    }
}

impl fmt::Display for MkfsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(formatter),
            Self::Size(size, device) => {
                write!(formatter, "the size is {size} bytes, but the device has only {device}; use a smaller size")
            }
            Self::TooManySectors(sectors) => {
                write!(formatter, "{sectors} sectors are too many; use larger sectors, or a smaller size")
            }
            Self::TooSmall(sectors) => {
                write!(formatter, "{sectors} sectors are too few for a file system; use a larger size")
            }
            Self::SectorSize(size) => {
                write!(formatter, "sectors of {size} bytes are not possible; use 512, 1024, 2048 or 4096")
            }
            Self::ClusterSize(sectors) => {
                write!(formatter, "clusters of {sectors} sectors are not possible; use 1, 2, 4, 8, 16, 32, 64 or 128")
            }
            Self::NoTables => write!(formatter, "there must be at least one file allocation table; use 2"),
            Self::ReservedSectors(sectors, least) => {
                write!(formatter, "{sectors} reserved sectors are not possible; use {least} to 65535")
            }
            Self::RootEntries(0) => {
                write!(formatter, "the root directory must have at least one entry; use 16 or more")
            }
            Self::RootEntries(entries) => write!(
                formatter,
                "a root directory of {entries} entries is not possible; FAT32 has none of a fixed size"
            ),
            Self::BackupSector(sector, reserved) => write!(
                formatter,
                "the copy of the boot sector cannot be in sector {sector}; use 2 to {}, or 0 for none",
                reserved.saturating_sub(1)
            ),
            Self::Media(media) => {
                write!(formatter, "the media byte {media:#04x} is not defined; use 0xf0, or 0xf8 to 0xff")
            }
            Self::Label(error) => write!(formatter, "{error}; choose another"),
            Self::Clusters { width, cluster_size, clusters } => {
                let (least, most) = valid_clusters(*width);
                write!(formatter, "{width} has {least} to {most} clusters, but there would be {clusters} ")?;
                write!(formatter, "of {cluster_size} bytes; use another width or size of clusters")
            }
            Self::NoClusterSize(width) => {
                let (least, _) = valid_clusters(*width);
                write!(formatter, "no size of clusters makes a {width} file system of this size, ")?;
                write!(formatter, "which has at least {least} clusters; use another width")
            }
            Self::BadSector(sector) => {
                write!(formatter, "the bad sector {sector} is not in a cluster, so the device cannot be used")
            }
            Self::PartitionTable => {
                write!(formatter, "a partition table is only for whole disks, which have no hidden sectors")
            }
        }
    }
}

impl std::error::Error for MkfsError {}
