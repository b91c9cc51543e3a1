//! The state of a volume on the disk: whether it is in use, and how many of its clusters are free.

use vnode::{Errno, Result};

use crate::fat::format::{BOOT_SECTOR_SIZE, BootSector, InfoSector, StateFlags, VolumeFlags};

use super::storage::Storage;
use super::table::Table;

/// Returns whether the volume was left without being unmounted.
///
/// # Errors
/// `EIO`, `ENOMEM`.
pub(crate) fn is_marked_dirty(storage: &Storage, table: &mut Table) -> Result<bool> {
    let boot = BootSector::decode(&read_boot_sector(storage)?);
    let in_table = table.flags(storage)?.is_some_and(|flags| flags.is_dirty);
    Ok(boot.state.is_dirty() || in_table)
}

/// Returns whether the volume has a place that says whether it was unmounted.
///
/// # Errors
/// `EIO`, `ENOMEM`.
pub(crate) fn is_stored(storage: &Storage, table: &mut Table) -> Result<bool> {
    let boot = BootSector::decode(&read_boot_sector(storage)?);
    Ok(boot.has_state() || table.flags(storage)?.is_some())
}

/// Marks the volume as in use or as unmounted, in the boot sector. The table is changed in memory.
///
/// # Errors
/// As [`Storage::write`].
pub(crate) fn mark(storage: &Storage, table: &mut Table, is_dirty: bool) -> Result<()> {
    if let Some(flags) = table.flags(storage)? {
        table.set_flags(storage, VolumeFlags { is_dirty, ..flags })?;
    }
    let mut sector = read_boot_sector(storage)?;
    let boot = BootSector::decode(&sector);
    let state = boot.state.0;
    let state = if is_dirty { state | StateFlags::DIRTY } else { state & !StateFlags::DIRTY };
    BootSector::set_state(&mut sector, StateFlags(state));
    if boot.has_state() { storage.write(0, &sector) } else { Ok(()) }
}

/// Writes the number of free clusters, if it is known and the volume has a sector for it.
///
/// # Errors
/// As [`Storage::write`].
pub(crate) fn write_free_clusters(storage: &Storage, free_clusters: u32, next_free: u32) -> Result<()> {
    let Some(offset) = storage.geometry().info_offset() else { return Ok(()) };
    let mut sector = [0; BOOT_SECTOR_SIZE];
    storage.read(offset, &mut sector)?;
    if InfoSector::decode(&sector).is_none() {
        return Ok(());
    }
    let numbers = storage.geometry().cluster_numbers();
    let next_free = Some(next_free.clamp(numbers.start, numbers.end - 1));
    storage.write(offset, &InfoSector { free_clusters: Some(free_clusters), next_free }.encode())
}

fn read_boot_sector(storage: &Storage) -> Result<[u8; BOOT_SECTOR_SIZE]> {
    let mut sector = [0; BOOT_SECTOR_SIZE];
    storage.read(0, &mut sector).map_err(|_| Errno::EIO)?;
    Ok(sector)
}
