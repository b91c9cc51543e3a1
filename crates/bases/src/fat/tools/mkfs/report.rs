//! The report of formatting.

use std::fmt;

use serde_json::{Value, json};

use super::options::MkfsOptions;
use crate::fat::format::{CodePage, FatWidth, Label, NO_NAME};
use crate::fat::tools::volume::Volume;

/// What a new file system is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsReport {
    /// Width of table entries.
    pub width: FatWidth,
    /// Size of a sector in bytes.
    pub bytes_per_sector: u32,
    /// Sectors of a cluster.
    pub sectors_per_cluster: u32,
    /// Number of sectors.
    pub sectors: u32,
    /// Number of reserved sectors.
    pub reserved_sectors: u32,
    /// Number of file allocation tables.
    pub fats: u8,
    /// Sectors of each table.
    pub fat_sectors: u32,
    /// Entries of the root directory; 0 if it is in clusters.
    pub root_entries: u16,
    /// Number of clusters.
    pub clusters: u32,
    /// Number of clusters that must not be used.
    pub bad_clusters: usize,
    /// Media byte.
    pub media: u8,
    /// Serial number, as it is shown.
    pub serial: String,
    /// Label, if there is one.
    pub label: Option<String>,
}

impl MkfsReport {
    pub(crate) fn new(volume: &Volume, options: &MkfsOptions, bad_clusters: usize) -> Self {
        let (boot, geometry) = (&volume.boot, &volume.geometry);
        Self {
            width: geometry.width(),
            bytes_per_sector: geometry.bytes_per_sector(),
            sectors_per_cluster: geometry.sectors_per_cluster(),
            sectors: boot.total_sectors,
            reserved_sectors: geometry.reserved_sectors(),
            fats: geometry.fats(),
            fat_sectors: geometry.fat_sectors(),
            root_entries: boot.root_entries,
            clusters: geometry.clusters(),
            bad_clusters,
            media: boot.media,
            serial: boot.identity.map(|identity| identity.serial_text()).unwrap_or_default(),
            label: label_text(boot.label(), options.page),
        }
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "width": self.width.bits(),
            "bytes_per_sector": self.bytes_per_sector,
            "sectors_per_cluster": self.sectors_per_cluster,
            "sectors": self.sectors,
            "reserved_sectors": self.reserved_sectors,
            "fats": self.fats,
            "fat_sectors": self.fat_sectors,
            "root_entries": self.root_entries,
            "clusters": self.clusters,
            "bad_clusters": self.bad_clusters,
            "media": self.media,
            "serial": self.serial,
            "label": self.label,
        })
    }
}

fn label_text(label: Option<[u8; 11]>, page: CodePage) -> Option<String> {
    label.filter(|&label| label != NO_NAME).map(|label| Label(label).decode(page))
}

impl fmt::Display for MkfsReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cluster_size = self.bytes_per_sector * self.sectors_per_cluster;
        writeln!(formatter, "{} with {} clusters of {cluster_size} bytes", self.width, self.clusters)?;
        writeln!(formatter, "{} sectors of {} bytes", self.sectors, self.bytes_per_sector)?;
        writeln!(
            formatter,
            "{} reserved sectors, {} tables of {} sectors",
            self.reserved_sectors, self.fats, self.fat_sectors
        )?;
        if self.root_entries > 0 {
            writeln!(formatter, "{} entries in the root directory", self.root_entries)?;
        }
        if self.bad_clusters > 0 {
            writeln!(formatter, "{} bad clusters", self.bad_clusters)?;
        }
        write!(formatter, "serial number {}, ", self.serial)?;
        match &self.label {
            Some(label) => writeln!(formatter, "label {label}"),
            None => writeln!(formatter, "no label"),
        }
    }
}
