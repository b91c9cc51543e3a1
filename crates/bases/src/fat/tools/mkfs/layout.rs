//! The layout of a new file system: all numbers of its boot sector.

use super::defaults;
use super::error::{MkfsError, valid_clusters};
use super::options::MkfsOptions;
use crate::device::DeviceRef;
use crate::fat::format::{
    BootSector, ENTRY_SIZE, ExtendedFields, FatWidth, Label, MirroringFlags, NO_NAME, StateFlags, VolumeIdentity,
    is_valid_media, table_bytes,
};

/// Size in bytes below which the first cluster is not aligned: the lost sectors would matter.
const ALIGNED_MIN: u64 = 4 * 1024 * 1024;
/// Largest size of clusters in bytes that is chosen.
const CLUSTER_SIZE_MAX: u32 = 65_536;
/// Name of the system that made the file system.
const OEM_NAME: [u8; 8] = *b"PLYFS   ";

/// What is decided before the width and the size of clusters.
struct Request<'a> {
    options: &'a MkfsOptions,
    bytes_per_sector: u32,
    total_sectors: u32,
    floppy: Option<defaults::Floppy>,
}

/// The regions of a file system of one width and size of clusters.
#[derive(Clone, Copy, Debug)]
struct Regions {
    width: FatWidth,
    sectors_per_cluster: u32,
    reserved_sectors: u32,
    root_entries: u32,
    fat_sectors: u32,
    clusters: u32,
}

/// Returns the boot sector of a new file system.
///
/// # Errors
/// [`MkfsError`], before anything is written.
pub(crate) fn boot_sector(device: &DeviceRef, options: &MkfsOptions) -> Result<BootSector, MkfsError> {
    let request = Request::new(device, options)?;
    let regions = request.choose()?;
    request.boot_sector(&regions)
}

impl<'a> Request<'a> {
    fn new(device: &DeviceRef, options: &'a MkfsOptions) -> Result<Self, MkfsError> {
        let size = options.size.unwrap_or(device.size());
        if size > device.size() {
            return Err(MkfsError::Size(size, device.size()));
        }
        let bytes_per_sector = options.sector_size.or(device.logical_sector_size()).unwrap_or(512);
        if !bytes_per_sector.is_power_of_two() || !(512..=4096).contains(&bytes_per_sector) {
            return Err(MkfsError::SectorSize(bytes_per_sector));
        }
        let sectors = size / u64::from(bytes_per_sector);
        let total_sectors = u32::try_from(sectors).map_err(|_| MkfsError::TooManySectors(sectors))?;
        check_options(options)?;
        let may_be_floppy = bytes_per_sector == 512 && matches!(options.width, None | Some(FatWidth::Fat12));
        let floppy = defaults::floppy(size).filter(|_| may_be_floppy);
        Ok(Self { options, bytes_per_sector, total_sectors, floppy })
    }

    fn size(&self) -> u64 {
        u64::from(self.total_sectors) * u64::from(self.bytes_per_sector)
    }

    /// Returns the regions of the first width and size of clusters that fit.
    fn choose(&self) -> Result<Regions, MkfsError> {
        let preferred = defaults::width(self.size());
        let widths = match self.options.width {
            Some(width) => vec![width],
            None => vec![preferred, FatWidth::Fat16, FatWidth::Fat12, FatWidth::Fat32],
        };
        let mut error = MkfsError::TooSmall(self.total_sectors.into());
        for (index, &width) in widths.iter().enumerate() {
            match self.choose_cluster_size(width) {
                Ok(regions) => return Ok(regions),
                // That of the preferred width says most.
                Err(other) if index == 0 => error = other,
                Err(_) => (),
            }
        }
        Err(error)
    }

    fn choose_cluster_size(&self, width: FatWidth) -> Result<Regions, MkfsError> {
        if let Some(sectors_per_cluster) = self.options.sectors_per_cluster {
            let regions = self.regions(width, sectors_per_cluster)?;
            let (least, most) = valid_clusters(width);
            let cluster_size = sectors_per_cluster * self.bytes_per_sector;
            return match regions.clusters {
                clusters if (least..=most).contains(&clusters) => Ok(regions),
                clusters => Err(MkfsError::Clusters { width, cluster_size, clusters }),
            };
        }
        let usual = match self.floppy {
            Some(floppy) => floppy.sectors_per_cluster,
            None => (defaults::cluster_size(width, self.size()) / self.bytes_per_sector).max(1),
        };
        let mut sizes: Vec<u32> = (0..8).map(|power| 1 << power).collect();
        sizes.retain(|sectors| sectors * self.bytes_per_sector <= CLUSTER_SIZE_MAX);
        sizes.sort_by_key(|sectors| sectors.trailing_zeros().abs_diff(usual.trailing_zeros()));
        let (least, most) = valid_clusters(width);
        let mut error = MkfsError::TooSmall(self.total_sectors.into());
        for sectors_per_cluster in sizes {
            match self.regions(width, sectors_per_cluster) {
                Ok(regions) if (least..=most).contains(&regions.clusters) => return Ok(regions),
                Ok(_) => error = MkfsError::NoClusterSize(width),
                Err(MkfsError::TooSmall(_)) => (),
                Err(other) => error = other,
            }
        }
        Err(error)
    }

    /// Returns the regions of one width and size of clusters, whether or not their number is valid.
    fn regions(&self, width: FatWidth, sectors_per_cluster: u32) -> Result<Regions, MkfsError> {
        let is_fat32 = width == FatWidth::Fat32;
        let least_reserved = if is_fat32 { 2 } else { 1 };
        let reserved = self.options.reserved_sectors.map_or(if is_fat32 { 32 } else { 1 }, u32::from);
        if reserved < least_reserved {
            return Err(MkfsError::ReservedSectors(reserved, least_reserved));
        }
        let root_entries = self.root_entries(width)?;
        let root_sectors = root_entries * ENTRY_SIZE as u32 / self.bytes_per_sector;
        let too_small = || MkfsError::TooSmall(self.total_sectors.into());
        let fats = u32::from(self.options.fats);
        let data_sectors = |reserved: u32, fat_sectors: u32| {
            let before = fats.checked_mul(fat_sectors)?.checked_add(reserved)?.checked_add(root_sectors)?;
            self.total_sectors.checked_sub(before)
        };
        let mut fat_sectors = 1;
        let data = loop {
            let data = data_sectors(reserved, fat_sectors).ok_or_else(too_small)?;
            let entries = (data / sectors_per_cluster).min(width.clusters_max()) + 2;
            let needed = table_bytes(width, entries).div_ceil(self.bytes_per_sector.into());
            match u32::try_from(needed) {
                Ok(needed) if needed > fat_sectors => fat_sectors = needed,
                _ => break data,
            }
        };
        let is_aligned = self.options.align && self.size() >= ALIGNED_MIN;
        let start = self.total_sectors - data;
        let padding = if is_aligned { start.next_multiple_of(sectors_per_cluster) - start } else { 0 };
        let reserved_sectors = reserved + padding;
        if reserved_sectors > u32::from(u16::MAX) {
            return Err(MkfsError::ReservedSectors(reserved_sectors, least_reserved));
        }
        let data = data_sectors(reserved_sectors, fat_sectors).ok_or_else(too_small)?;
        let clusters = data / sectors_per_cluster;
        Ok(Regions { width, sectors_per_cluster, reserved_sectors, root_entries, fat_sectors, clusters })
    }

    /// Returns the number of entries of the root directory, which fill sectors.
    fn root_entries(&self, width: FatWidth) -> Result<u32, MkfsError> {
        let entries = match (width, self.options.root_entries) {
            (FatWidth::Fat32, None | Some(0)) => return Ok(0),
            (FatWidth::Fat32, Some(entries)) => return Err(MkfsError::RootEntries(entries)),
            (_, Some(0)) => return Err(MkfsError::RootEntries(0)),
            (_, Some(entries)) => u32::from(entries),
            (_, None) => self.floppy.map_or(512, |floppy| floppy.root_entries.into()),
        };
        let per_sector = self.bytes_per_sector / ENTRY_SIZE as u32;
        let entries = entries.next_multiple_of(per_sector);
        // The largest number that the field holds.
        Ok(entries.min(u32::from(u16::MAX) / per_sector * per_sector))
    }

    fn boot_sector(&self, regions: &Regions) -> Result<BootSector, MkfsError> {
        let options = self.options;
        let is_fat32 = regions.width == FatWidth::Fat32;
        let (heads, sectors_per_track) = match self.floppy {
            Some(floppy) => (floppy.heads, floppy.sectors_per_track),
            None => defaults::disk_geometry(self.total_sectors),
        };
        let label = match &options.label {
            Some(label) => Label::encode(label, options.page).map_err(MkfsError::Label)?.0,
            None => NO_NAME,
        };
        let media = options.media.or(self.floppy.map(|floppy| floppy.media)).unwrap_or(0xF8);
        Ok(BootSector {
            jump: [0xEB, if is_fat32 { 0x58 } else { 0x3C }, 0x90],
            oem_name: OEM_NAME,
            // Both are checked, or chosen from a list.
            bytes_per_sector: self.bytes_per_sector as u16,
            sectors_per_cluster: regions.sectors_per_cluster as u8,
            reserved_sectors: regions.reserved_sectors as u16,
            fats: options.fats,
            root_entries: regions.root_entries as u16,
            total_sectors: self.total_sectors,
            media,
            fat_sectors: regions.fat_sectors,
            sectors_per_track: options.sectors_per_track.unwrap_or(sectors_per_track),
            heads: options.heads.unwrap_or(heads),
            hidden_sectors: options.hidden_sectors,
            extended: if is_fat32 { Some(self.extended(regions)?) } else { None },
            drive: options.drive.unwrap_or(if media == 0xF8 { 0x80 } else { 0 }),
            state: StateFlags(0),
            identity: Some(VolumeIdentity {
                serial: options.serial.unwrap_or_else(|| self.serial()),
                label: Some((label, *regions.width.type_name())),
            }),
            has_signature: true,
        })
    }

    fn extended(&self, regions: &Regions) -> Result<ExtendedFields, MkfsError> {
        let reserved = regions.reserved_sectors;
        let backup_sector = match self.options.backup_sector {
            Some(sector) => sector,
            None if reserved > 6 => 6,
            None => 0,
        };
        if backup_sector != 0 && !(2..regions.reserved_sectors).contains(&u32::from(backup_sector)) {
            return Err(MkfsError::BackupSector(backup_sector, regions.reserved_sectors));
        }
        Ok(ExtendedFields {
            mirroring: MirroringFlags::default(),
            version: 0,
            root_cluster: 2,
            info_sector: 1,
            backup_sector,
        })
    }

    /// Returns a serial number from the time.
    fn serial(&self) -> u32 {
        let time = self.options.time;
        (time.seconds as u32).rotate_left(12) ^ time.nanoseconds
    }
}

fn check_options(options: &MkfsOptions) -> Result<(), MkfsError> {
    if let Some(sectors) = options.sectors_per_cluster.filter(|sectors| !sectors.is_power_of_two() || *sectors > 128) {
        return Err(MkfsError::ClusterSize(sectors));
    }
    if let Some(media) = options.media.filter(|&media| !is_valid_media(media)) {
        return Err(MkfsError::Media(media));
    }
    if options.fats == 0 {
        return Err(MkfsError::NoTables);
    }
    if options.partition_table && options.hidden_sectors != 0 {
        return Err(MkfsError::PartitionTable);
    }
    Ok(())
}
