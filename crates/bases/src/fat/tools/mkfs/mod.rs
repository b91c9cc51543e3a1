//! Makes an empty file system.

mod defaults;
mod error;
mod layout;
mod options;
mod report;
mod write;

use std::collections::BTreeSet;

pub use error::MkfsError;
pub use options::MkfsOptions;
pub use report::MkfsReport;

use super::disk::Disk;
use super::error::ToolError;
use super::progress::ProgressCallback;
use super::surface::Surface;
use super::volume::Volume;
use crate::device::DeviceRef;
use crate::fat::format::Geometry;

/// Returns what [`mkfs`] would make, and writes nothing. The device is not read for bad sectors.
///
/// # Errors
/// Those of [`mkfs`], as far as they are about the options.
pub fn plan(device: DeviceRef, options: &MkfsOptions) -> Result<MkfsReport, MkfsError> {
    let boot = layout::boot_sector(&device, options)?;
    let volume = Volume::of_boot_sector(Disk(device), boot)?;
    let options = MkfsOptions { check_surface: false, ..options.clone() };
    let bad_clusters = bad_clusters(&volume, &options, &mut |_| ())?;
    Ok(MkfsReport::new(&volume, &options, bad_clusters.len()))
}

/// Makes an empty file system on a device. What was on it is lost.
///
/// # Errors
/// [`MkfsError`]: if the options contradict each other or the device, nothing is written.
pub fn mkfs(device: DeviceRef, options: &MkfsOptions, progress: ProgressCallback<'_>) -> Result<MkfsReport, MkfsError> {
    let mut boot = layout::boot_sector(&device, options)?;
    let mut volume = Volume::of_boot_sector(Disk(device.clone()), boot.clone())?;
    if device.is_read_only() {
        return Err(MkfsError::Device(ToolError::ReadOnly));
    }
    let bad_clusters = bad_clusters(&volume, options, progress)?;
    if let Some(fields) = &mut boot.extended {
        // The root directory needs a good one.
        let good = volume.geometry.cluster_numbers().find(|cluster| !bad_clusters.contains(cluster));
        fields.root_cluster = good.ok_or(MkfsError::TooSmall(boot.total_sectors.into()))?;
        volume = Volume::of_boot_sector(Disk(device), boot)?;
    }
    write::write(&mut volume, options, &bad_clusters, progress)?;
    Ok(MkfsReport::new(&volume, options, bad_clusters.len()))
}

/// Returns the clusters that must not be used.
fn bad_clusters(
    volume: &Volume,
    options: &MkfsOptions,
    progress: ProgressCallback<'_>,
) -> Result<BTreeSet<u32>, MkfsError> {
    let geometry = volume.geometry;
    let sector_size = u64::from(geometry.bytes_per_sector());
    let mut sectors: BTreeSet<u64> = options.bad_sectors.iter().copied().collect();
    if options.check_surface {
        let surface = Surface { disk: &volume.disk, sector_size: geometry.bytes_per_sector(), writes_back: false };
        surface.scan(0..geometry.size(), progress, &mut |range| {
            sectors.extend(range.start / sector_size..range.end.div_ceil(sector_size));
        })?;
    }
    sectors.into_iter().map(|sector| bad_cluster(&geometry, sector)).collect()
}

fn bad_cluster(geometry: &Geometry, sector: u64) -> Result<u32, MkfsError> {
    let offset = sector.checked_mul(geometry.bytes_per_sector().into());
    offset.and_then(|offset| geometry.cluster_at(offset)).ok_or(MkfsError::BadSector(sector))
}
