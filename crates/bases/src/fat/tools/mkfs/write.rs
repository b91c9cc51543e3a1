//! Writing of an empty file system.

use std::collections::BTreeSet;

use super::options::MkfsOptions;
use crate::fat::format::{BOOT_SECTOR_SIZE, BootSector, DosDateTime, FatWidth, Geometry, Label, Link, NO_NAME};
use crate::fat::tools::entries::label_entry;
use crate::fat::tools::error::ToolError;
use crate::fat::tools::progress::{Meter, Phase, ProgressCallback};
use crate::fat::tools::volume::Volume;

/// Number of bytes that are cleared at once.
const CHUNK: u64 = 1024 * 1024;
/// Boot code: asks the firmware for the next device, and if that returns, stops.
const BOOT_CODE: [u8; 4] = [0xCD, 0x18, 0xEB, 0xFE];
/// Offset of the boot code, to which the jump leads.
const fn code_offset(width: FatWidth) -> usize {
    if matches!(width, FatWidth::Fat32) { 0x5A } else { 0x3E }
}

/// Writes an empty file system; bad clusters are marked. The boot sector is the last to be written, so that an interrupted
/// run leaves none.
pub(crate) fn write(
    volume: &mut Volume,
    options: &MkfsOptions,
    bad_clusters: &BTreeSet<u32>,
    progress: ProgressCallback<'_>,
) -> Result<(), ToolError> {
    let geometry = volume.geometry;
    volume.disk.write(0, &vec![0; geometry.bytes_per_sector() as usize])?;
    volume.disk.flush()?;
    let end = geometry.data_offset();
    let mut meter = Meter::start(Phase::Formatting, end, &mut *progress);
    let zeros = vec![0; CHUNK as usize];
    let mut offset = 0;
    while offset < end {
        let length = (end - offset).min(CHUNK);
        volume.disk.write(offset, zeros.get(..length as usize).unwrap_or_default())?;
        offset += length;
        meter.add(length, &mut *progress);
    }
    write_tables(volume, bad_clusters)?;
    write_root(volume, options)?;
    volume.refresh_info()?;
    let info = volume.info();
    let sector = boot_sector(volume, options);
    if let Some(backup) = geometry.backup_offset() {
        volume.disk.write(backup, &sector)?;
        let after = backup + u64::from(geometry.bytes_per_sector());
        if let Some(info) = info.filter(|_| after < geometry.reserved_size()) {
            volume.disk.write(after, &info.encode())?;
        }
    }
    volume.flush()?;
    volume.disk.write(0, &sector)?;
    volume.disk.flush()
}

fn write_tables(volume: &mut Volume, bad_clusters: &BTreeSet<u32>) -> Result<(), ToolError> {
    let width = volume.geometry.width();
    let media = u32::from(volume.boot.media);
    volume.table.set_value(0, width.mask() & !0xFF | media)?;
    volume.table.set_value(1, width.end())?;
    bad_clusters.iter().try_for_each(|&cluster| volume.table.set(cluster, Link::Bad))?;
    if let Some(root) = volume.geometry.root_cluster() {
        volume.table.set(root, Link::End)?;
        volume.clear_cluster(root)?;
    }
    volume.table.write_back()
}

/// Writes the label, the only entry of the root directory.
fn write_root(volume: &mut Volume, options: &MkfsOptions) -> Result<(), ToolError> {
    let Some(label) = volume.boot.label().filter(|&label| label != NO_NAME) else { return Ok(()) };
    let entry = label_entry(Label(label), DosDateTime::encode(options.time, options.offset_minutes));
    let offset = match (volume.geometry.root_region(), volume.geometry.root_cluster()) {
        (Some((offset, _)), _) => offset,
        (None, Some(cluster)) => volume.offset(cluster)?,
        (None, None) => return Ok(()),
    };
    volume.disk.write(offset, &entry)
}

fn boot_sector(volume: &Volume, options: &MkfsOptions) -> [u8; BOOT_SECTOR_SIZE] {
    let mut sector = [0; BOOT_SECTOR_SIZE];
    volume.boot.encode(&mut sector);
    let code = sector.iter_mut().skip(code_offset(volume.geometry.width()));
    code.zip(BOOT_CODE).for_each(|(byte, code)| *byte = code);
    if options.partition_table {
        write_partition_table(&mut sector, &volume.boot, &volume.geometry);
    }
    sector
}

/// Writes a partition table with one partition, which starts with the boot sector itself.
fn write_partition_table(sector: &mut [u8; BOOT_SECTOR_SIZE], boot: &BootSector, geometry: &Geometry) {
    const DISK_SIGNATURE: usize = 440;
    const FIRST_PARTITION: usize = 446;
    let kind = match geometry.width() {
        FatWidth::Fat12 => 0x01,
        FatWidth::Fat16 if boot.total_sectors < 65_536 => 0x04,
        FatWidth::Fat16 => 0x0E,
        FatWidth::Fat32 => 0x0C,
    };
    let serial = boot.identity.map_or(0, |identity| identity.serial);
    let mut partition = [0; 16];
    // The first sector of the first track, and a last one beyond what cylinders can address.
    partition[..8].copy_from_slice(&[0, 0, 1, 0, kind, 0xFE, 0xFF, 0xFF]);
    partition[12..].copy_from_slice(&boot.total_sectors.to_le_bytes());
    sector[DISK_SIGNATURE..][..4].copy_from_slice(&serial.to_le_bytes());
    sector[FIRST_PARTITION..][..16].copy_from_slice(&partition);
}
