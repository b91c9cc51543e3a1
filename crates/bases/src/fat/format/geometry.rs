//! Geometry: where the regions of a file system are, derived from its boot sector and checked.

use super::boot_sector::{BootSector, is_valid_media};
use super::entry::ENTRY_SIZE;
use super::geometry_error::GeometryError;
use super::table::{entry_offset, table_bytes};
use super::width::FatWidth;

/// Number of the first cluster of data; the entries before it hold other things.
const FIRST_CLUSTER: u32 = 2;

/// Where everything is. The constructor guarantees that all regions follow each other within the device, and that no
/// number computed here overflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    width: FatWidth,
    bytes_per_sector: u32,
    sectors_per_cluster: u32,
    reserved_sectors: u32,
    fats: u8,
    fat_sectors: u32,
    active_fat: Option<u8>,
    root_entries: u32,
    root_cluster: u32,
    total_sectors: u32,
    data_sector: u32,
    clusters: u32,
    unaddressed_clusters: u32,
    info_sector: Option<u32>,
    backup_sector: Option<u32>,
}

impl Geometry {
    /// Derives the geometry of a file system on a device of `device_size` bytes.
    ///
    /// Clusters that the tables are too short for do not count, see [`Geometry::unaddressed_clusters`]. A FAT32 file
    /// system may have fewer clusters than the specification prescribes for it.
    ///
    /// # Errors
    /// The first rule that the boot sector breaks.
    pub fn new(boot: &BootSector, device_size: u64) -> Result<Self, GeometryError> {
        let geometry = Self::of_regions(boot)?;
        if geometry.width == FatWidth::Fat32 && !geometry.contains(geometry.root_cluster) {
            return Err(GeometryError::RootCluster(geometry.root_cluster));
        }
        let size = geometry.size();
        if size > device_size {
            return Err(GeometryError::BeyondDevice { size, device: device_size });
        }
        Ok(geometry)
    }

    /// Derives the regions without looking at the device or the root directory's first cluster.
    fn of_regions(boot: &BootSector) -> Result<Self, GeometryError> {
        check_fields(boot)?;
        let bytes_per_sector = u32::from(boot.bytes_per_sector);
        let sectors_per_cluster = u32::from(boot.sectors_per_cluster);
        let root_bytes = u32::from(boot.root_entries) * ENTRY_SIZE as u32;
        if !root_bytes.is_multiple_of(bytes_per_sector) {
            return Err(GeometryError::RootEntries(boot.root_entries));
        }
        let reserved_sectors = u32::from(boot.reserved_sectors);
        let data_sector = u64::from(reserved_sectors)
            + u64::from(boot.fats) * u64::from(boot.fat_sectors)
            + u64::from(root_bytes / bytes_per_sector);
        let data_sector = u32::try_from(data_sector).map_err(|_| GeometryError::NoClusters)?;
        let data_sectors = boot.total_sectors.checked_sub(data_sector).ok_or(GeometryError::NoClusters)?;
        let whole_clusters = data_sectors / sectors_per_cluster;
        let (width, clusters) = clusters_of(boot, whole_clusters)?;
        let extended = boot.extended;
        let reserved = |sector: u16| Some(u32::from(sector)).filter(|&sector| sector > 0 && sector < reserved_sectors);
        let info_sector = extended.and_then(|fields| reserved(fields.info_sector));
        let backup_sector = extended.and_then(|fields| reserved(fields.backup_sector));
        Ok(Self {
            width,
            bytes_per_sector,
            sectors_per_cluster,
            reserved_sectors,
            fats: boot.fats,
            fat_sectors: boot.fat_sectors,
            active_fat: extended.and_then(|fields| fields.mirroring.active()),
            root_entries: boot.root_entries.into(),
            root_cluster: extended.map_or(0, |fields| fields.root_cluster),
            total_sectors: boot.total_sectors,
            data_sector,
            clusters,
            unaddressed_clusters: whole_clusters - clusters,
            // What is written there would replace the copy of the boot sector.
            info_sector: info_sector.filter(|_| info_sector != backup_sector),
            backup_sector,
        })
    }

    /// Returns the width of table entries.
    pub fn width(&self) -> FatWidth {
        self.width
    }

    /// Returns the size of a sector in bytes.
    pub fn bytes_per_sector(&self) -> u32 {
        self.bytes_per_sector
    }

    /// Returns the number of sectors in a cluster.
    pub fn sectors_per_cluster(&self) -> u32 {
        self.sectors_per_cluster
    }

    /// Returns the size of a cluster in bytes: 512 to 524,288.
    pub fn cluster_size(&self) -> u32 {
        self.bytes_per_sector * self.sectors_per_cluster
    }

    /// Returns the number of clusters.
    pub fn clusters(&self) -> u32 {
        self.clusters
    }

    /// Returns the number of clusters on the device that the tables have no entries for.
    pub fn unaddressed_clusters(&self) -> u32 {
        self.unaddressed_clusters
    }

    /// Returns the numbers of all clusters.
    pub fn cluster_numbers(&self) -> std::ops::Range<u32> {
        FIRST_CLUSTER..self.clusters + FIRST_CLUSTER
    }

    /// Returns whether a cluster of this number exists.
    pub fn contains(&self, cluster: u32) -> bool {
        self.cluster_numbers().contains(&cluster)
    }

    /// Returns the offset of a cluster in bytes; `None` if it does not exist.
    pub fn cluster_offset(&self, cluster: u32) -> Option<u64> {
        let index = cluster.checked_sub(FIRST_CLUSTER).filter(|&index| index < self.clusters)?;
        Some(self.data_offset() + u64::from(index) * u64::from(self.cluster_size()))
    }

    /// Returns the cluster that has this byte; `None` before the first and after the last.
    pub fn cluster_at(&self, offset: u64) -> Option<u32> {
        let index = offset.checked_sub(self.data_offset())? / u64::from(self.cluster_size());
        u32::try_from(index).ok().filter(|&index| index < self.clusters).map(|index| index + FIRST_CLUSTER)
    }

    /// Returns the size of the reserved sectors in bytes; the first table follows them.
    pub fn reserved_size(&self) -> u64 {
        u64::from(self.reserved_sectors) * u64::from(self.bytes_per_sector)
    }

    /// Returns the number of reserved sectors.
    pub fn reserved_sectors(&self) -> u32 {
        self.reserved_sectors
    }

    /// Returns the number of file allocation tables.
    pub fn fats(&self) -> u8 {
        self.fats
    }

    /// Returns the tables that are in use, of which the first is read and all are written.
    pub fn used_fats(&self) -> std::ops::Range<u8> {
        self.active_fat.map_or(0..self.fats, |active| active..active + 1)
    }

    /// Returns the number of sectors of each table.
    pub fn fat_sectors(&self) -> u32 {
        self.fat_sectors
    }

    /// Returns the size of the sectors of each table in bytes.
    pub fn fat_size(&self) -> u64 {
        u64::from(self.fat_sectors) * u64::from(self.bytes_per_sector)
    }

    /// Returns the number of bytes of a table that hold the entries of all clusters.
    pub fn used_fat_size(&self) -> u64 {
        table_bytes(self.width, self.clusters + FIRST_CLUSTER)
    }

    /// Returns the offset of a table in bytes; `None` if it does not exist.
    pub fn fat_offset(&self, table: u8) -> Option<u64> {
        (table < self.fats).then(|| self.reserved_size() + u64::from(table) * self.fat_size())
    }

    /// Returns the offset of a cluster's entry in a table, in bytes from the start of the device. The entries 0 and 1
    /// exist, too.
    pub fn entry_offset(&self, table: u8, cluster: u32) -> Option<u64> {
        let exists = cluster < self.clusters + FIRST_CLUSTER;
        self.fat_offset(table).filter(|_| exists).map(|start| start + entry_offset(self.width, cluster))
    }

    /// Returns offset and size of the root directory in bytes; `None` on FAT32, which has it in clusters.
    pub fn root_region(&self) -> Option<(u64, u32)> {
        let offset = self.reserved_size() + u64::from(self.fats) * self.fat_size();
        (self.width != FatWidth::Fat32).then(|| (offset, self.root_entries * ENTRY_SIZE as u32))
    }

    /// Returns the first cluster of the root directory; `None` unless on FAT32.
    pub fn root_cluster(&self) -> Option<u32> {
        (self.width == FatWidth::Fat32).then_some(self.root_cluster)
    }

    /// Returns the offset of the first cluster in bytes.
    pub fn data_offset(&self) -> u64 {
        u64::from(self.data_sector) * u64::from(self.bytes_per_sector)
    }

    /// Returns the size of the whole file system in bytes.
    pub fn size(&self) -> u64 {
        u64::from(self.total_sectors) * u64::from(self.bytes_per_sector)
    }

    /// Returns the offset of the sector with the free counts in bytes, if there is one.
    pub fn info_offset(&self) -> Option<u64> {
        self.info_sector.map(|sector| u64::from(sector) * u64::from(self.bytes_per_sector))
    }

    /// Returns the offset of the copy of the boot sector in bytes, if there is one.
    pub fn backup_offset(&self) -> Option<u64> {
        self.backup_sector.map(|sector| u64::from(sector) * u64::from(self.bytes_per_sector))
    }
}

/// Checks what each field says by itself.
fn check_fields(boot: &BootSector) -> Result<(), GeometryError> {
    use GeometryError as E;
    let size = boot.bytes_per_sector;
    let rules = [
        (size.is_power_of_two() && (512..=4096).contains(&size), E::SectorSize(size)),
        (boot.sectors_per_cluster.is_power_of_two(), E::ClusterSize(boot.sectors_per_cluster)),
        (boot.reserved_sectors > 0, E::NoReservedSectors),
        (boot.fats > 0, E::NoTables),
        (boot.fat_sectors > 0, E::EmptyTables),
        (is_valid_media(boot.media), E::Media(boot.media)),
        (boot.extended.is_some() || boot.root_entries > 0, E::NoRoot),
    ];
    rules.into_iter().try_for_each(|(holds, error)| if holds { Ok(()) } else { Err(error) })?;
    let Some(extended) = boot.extended else { return Ok(()) };
    if extended.version != 0 {
        return Err(E::Version(extended.version));
    }
    match extended.mirroring.active() {
        Some(active) if active >= boot.fats => Err(E::ActiveTable(active)),
        _ => Ok(()),
    }
}

/// Returns the width, and the number of clusters that the tables have entries for.
fn clusters_of(boot: &BootSector, whole_clusters: u32) -> Result<(FatWidth, u32), GeometryError> {
    let width = match boot.extended {
        Some(_) => FatWidth::Fat32,
        None => FatWidth::of_old_layout(whole_clusters),
    };
    if whole_clusters > width.clusters_max() {
        return Err(GeometryError::TooManyClusters(whole_clusters));
    }
    let table_bits = u64::from(boot.fat_sectors) * u64::from(boot.bytes_per_sector) * 8;
    let entries = u32::try_from(table_bits / u64::from(width.bits())).unwrap_or(u32::MAX);
    match whole_clusters.min(entries.saturating_sub(FIRST_CLUSTER)) {
        0 => Err(GeometryError::NoClusters),
        clusters => Ok((width, clusters)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::boot_sector::{BOOT_SECTOR_SIZE, ExtendedFields, MirroringFlags};
    use super::*;

    /// 1.44 MB floppy.
    fn floppy() -> BootSector {
        let boot = BootSector::decode(&[0; BOOT_SECTOR_SIZE]);
        BootSector {
            bytes_per_sector: 512,
            sectors_per_cluster: 1,
            reserved_sectors: 1,
            fats: 2,
            root_entries: 224,
            total_sectors: 2880,
            media: 0xF0,
            fat_sectors: 9,
            extended: None,
            ..boot
        }
    }

    fn fat32() -> BootSector {
        let extended = ExtendedFields {
            mirroring: MirroringFlags(0),
            version: 0,
            root_cluster: 2,
            info_sector: 1,
            backup_sector: 6,
        };
        BootSector {
            bytes_per_sector: 4096,
            sectors_per_cluster: 128,
            reserved_sectors: 32,
            root_entries: 0,
            total_sectors: u32::MAX,
            fat_sectors: 40_000,
            extended: Some(extended),
            ..floppy()
        }
    }

    #[test]
    fn regions_of_a_floppy_follow_each_other() {
        let geometry = Geometry::new(&floppy(), 1_474_560).unwrap();
        assert_eq!(geometry.width(), FatWidth::Fat12);
        assert_eq!(
            (geometry.fat_offset(0), geometry.fat_offset(1), geometry.fat_offset(2)),
            (Some(512), Some(5120), None)
        );
        assert_eq!(geometry.root_region(), Some((9728, 7168)));
        assert_eq!((geometry.data_offset(), geometry.clusters()), (16_896, 2847));
        assert_eq!(geometry.cluster_offset(2), Some(16_896));
        assert_eq!(geometry.cluster_offset(2848), Some(1_474_048));
        assert_eq!((geometry.cluster_offset(1), geometry.cluster_offset(2849)), (None, None));
        assert_eq!((geometry.cluster_at(16_895), geometry.cluster_at(17_408)), (None, Some(3)));
        assert_eq!(geometry.cluster_at(1_474_560), None);
        assert_eq!(geometry.used_fat_size(), 4274);
    }

    #[test]
    fn the_largest_fat32_is_addressed() {
        let geometry = Geometry::new(&fat32(), u64::MAX).unwrap();
        assert_eq!((geometry.width(), geometry.cluster_size()), (FatWidth::Fat32, 524_288));
        assert_eq!((geometry.info_offset(), geometry.backup_offset()), (Some(4096), Some(24_576)));
        let last = geometry.cluster_numbers().last().unwrap();
        assert!(geometry.cluster_offset(last).unwrap() + 524_288 <= geometry.size());
        assert_eq!((geometry.root_region(), geometry.root_cluster()), (None, Some(2)));
    }

    #[test]
    fn the_number_of_clusters_decides_the_width() {
        let of = |clusters: u32| {
            let boot = BootSector { fat_sectors: 300, total_sectors: 1 + 600 + 14 + clusters, ..floppy() };
            Geometry::new(&boot, u64::MAX).map(|geometry| geometry.width())
        };
        assert_eq!((of(4084), of(4085)), (Ok(FatWidth::Fat12), Ok(FatWidth::Fat16)));
        assert_eq!((of(65_524), of(65_525)), (Ok(FatWidth::Fat16), Err(GeometryError::TooManyClusters(65_525))));
    }

    #[test]
    fn clusters_without_entries_do_not_count() {
        let geometry = Geometry::new(&BootSector { fat_sectors: 1, ..floppy() }, u64::MAX).unwrap();
        assert_eq!((geometry.clusters(), geometry.unaddressed_clusters()), (339, 2863 - 339));
        assert!(geometry.used_fat_size() <= geometry.fat_size());
    }

    #[test]
    fn one_table_may_be_in_use_alone() {
        let mut boot = fat32();
        boot.extended.as_mut().unwrap().mirroring = MirroringFlags(0x81);
        assert_eq!(Geometry::new(&boot, u64::MAX).unwrap().used_fats(), 1..2);
        boot.extended.as_mut().unwrap().mirroring = MirroringFlags(0x01);
        assert_eq!(Geometry::new(&boot, u64::MAX).unwrap().used_fats(), 0..2);
    }

    #[test]
    fn sectors_outside_of_the_reserved_ones_are_none() {
        let mut boot = fat32();
        let extended = boot.extended.as_mut().unwrap();
        (extended.info_sector, extended.backup_sector) = (0xFFFF, 32);
        let geometry = Geometry::new(&boot, u64::MAX).unwrap();
        assert_eq!((geometry.info_offset(), geometry.backup_offset()), (None, None));
        // One sector has one use.
        let extended = boot.extended.as_mut().unwrap();
        (extended.info_sector, extended.backup_sector) = (6, 6);
        let geometry = Geometry::new(&boot, u64::MAX).unwrap();
        assert_eq!((geometry.info_offset(), geometry.backup_offset()), (None, Some(24_576)));
    }

    #[test]
    fn every_rule_is_checked() {
        use GeometryError as E;
        let refused = |change: &dyn Fn(&mut BootSector), expected| {
            let mut boot = floppy();
            change(&mut boot);
            assert_eq!(Geometry::new(&boot, 1 << 40), Err(expected));
        };
        refused(&|boot| boot.bytes_per_sector = 256, E::SectorSize(256));
        refused(&|boot| boot.bytes_per_sector = 1536, E::SectorSize(1536));
        refused(&|boot| boot.bytes_per_sector = 8192, E::SectorSize(8192));
        refused(&|boot| boot.sectors_per_cluster = 0, E::ClusterSize(0));
        refused(&|boot| boot.sectors_per_cluster = 3, E::ClusterSize(3));
        refused(&|boot| boot.reserved_sectors = 0, E::NoReservedSectors);
        refused(&|boot| boot.fats = 0, E::NoTables);
        refused(&|boot| boot.fat_sectors = 0, E::EmptyTables);
        refused(&|boot| boot.media = 0xF1, E::Media(0xF1));
        refused(&|boot| boot.root_entries = 0, E::NoRoot);
        refused(&|boot| boot.root_entries = 17, E::RootEntries(17));
        refused(&|boot| boot.total_sectors = 33, E::NoClusters);
        refused(&|boot| boot.fat_sectors = u32::MAX, E::NoClusters);
        refused(&|boot| boot.total_sectors = u32::MAX, E::TooManyClusters(u32::MAX - 33));
        let refused = |change: &dyn Fn(&mut ExtendedFields), expected| {
            let mut boot = fat32();
            change(boot.extended.as_mut().unwrap());
            assert_eq!(Geometry::new(&boot, u64::MAX), Err(expected));
        };
        refused(&|extended| extended.version = 0x0102, E::Version(0x0102));
        refused(&|extended| extended.mirroring = MirroringFlags(0x82), E::ActiveTable(2));
        refused(&|extended| extended.root_cluster = 1, E::RootCluster(1));
        refused(&|extended| extended.root_cluster = u32::MAX, E::RootCluster(u32::MAX));
        let error = E::BeyondDevice { size: 1_474_560, device: 1_474_559 };
        assert_eq!(Geometry::new(&floppy(), 1_474_559), Err(error));
    }
}
