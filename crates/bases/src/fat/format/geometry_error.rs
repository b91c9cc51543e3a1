//! The reasons why a boot sector describes no file system on a device.

use std::fmt;

/// The reason why a boot sector describes no file system on this device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// Bytes per sector are no power of two from 512 to 4,096.
    SectorSize(u16),
    /// Sectors per cluster are no power of two.
    ClusterSize(u8),
    /// There is no reserved sector, not even the boot sector itself.
    NoReservedSectors,
    /// There is no file allocation table.
    NoTables,
    /// The tables have no sectors.
    EmptyTables,
    /// The media byte is not defined.
    Media(u8),
    /// The version of the format is not known.
    Version(u16),
    /// The number of entries of the root directory does not fill sectors.
    RootEntries(u16),
    /// There is neither a root directory of a fixed size nor one in clusters.
    NoRoot,
    /// The first cluster of the root directory does not exist.
    RootCluster(u32),
    /// The only table in use does not exist.
    ActiveTable(u8),
    /// The reserved sectors, the tables and the root directory leave no cluster.
    NoClusters,
    /// There are more clusters than the width of the tables allows.
    TooManyClusters(u32),
    /// The file system, of so many bytes, is larger than the device.
    BeyondDevice {
        /// Size of the file system in bytes.
        size: u64,
        /// Size of the device in bytes.
        device: u64,
    },
}

impl fmt::Display for GeometryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SectorSize(size) => {
                write!(formatter, "sectors have {size} bytes, and not a power of two from 512 to 4096")
            }
            Self::ClusterSize(sectors) => {
                write!(formatter, "clusters have {sectors} sectors, which is no power of two")
            }
            Self::NoReservedSectors => write!(formatter, "there is no reserved sector"),
            Self::NoTables => write!(formatter, "there is no file allocation table"),
            Self::EmptyTables => write!(formatter, "file allocation tables have no sectors"),
            Self::Media(media) => write!(formatter, "the media byte {media:#04x} is not defined"),
            Self::Version(version) => {
                write!(formatter, "the format has the unknown version {}.{}", version >> 8, version & 0xFF)
            }
            Self::RootEntries(entries) => {
                write!(formatter, "the root directory has {entries} entries, which do not fill sectors")
            }
            Self::NoRoot => write!(formatter, "the root directory has no entries"),
            Self::RootCluster(cluster) => {
                write!(formatter, "the root directory starts in cluster {cluster}, which does not exist")
            }
            Self::ActiveTable(table) => write!(formatter, "the table in use, {table}, does not exist"),
            Self::NoClusters => write!(formatter, "there is no cluster"),
            Self::TooManyClusters(clusters) => {
                write!(formatter, "there are {clusters} clusters, more than the tables can describe")
            }
            Self::BeyondDevice { size, device } => {
                write!(formatter, "the file system has {size} bytes, but the device only {device}")
            }
        }
    }
}

impl std::error::Error for GeometryError {}
