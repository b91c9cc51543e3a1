//! Bad sectors: looks for them, and marks their clusters so that nothing uses them.

mod report;

pub use report::{BadClusterUse, BadsectReport};

use super::cluster_map::ClusterMap;
use super::directory::DirectoryStart;
use super::error::ToolError;
use super::progress::ProgressCallback;
use super::surface::Surface;
use super::volume::Volume;
use crate::device::DeviceRef;
use crate::fat::format::{CodePage, Geometry, Link};

/// Options of a search for bad sectors.
#[derive(Clone, Debug)]
pub struct BadsectOptions {
    /// Read the whole file system. Default: yes.
    pub scan: bool,
    /// Write back everything that is read, and compare it. Default: no.
    pub write_test: bool,
    /// Sectors that are known to be bad, counted from the beginning of the file system. Default: none.
    pub sectors: Vec<u64>,
    /// Mark clusters with bad sectors that nothing uses. Default: yes; otherwise they are only reported.
    pub mark: bool,
    /// Give files and directories other clusters in place of bad ones. What cannot be read is zeros in a file, and deleted
    /// entries in a directory. Default: no.
    pub relocate: bool,
    /// Code page of short names.
    pub page: CodePage,
}

impl Default for BadsectOptions {
    fn default() -> Self {
        Self {
            scan: true,
            write_test: false,
            sectors: Vec::new(),
            mark: true,
            relocate: false,
            page: CodePage::default(),
        }
    }
}

/// Looks for bad sectors and marks their clusters.
///
/// # Errors
/// If there is no file system, its tables cannot be read, or nothing can be written though it should be.
pub fn badsect(
    device: DeviceRef,
    options: &BadsectOptions,
    progress: ProgressCallback<'_>,
) -> Result<BadsectReport, ToolError> {
    let mut volume = Volume::open(device)?;
    let mut report = BadsectReport::default();
    let bad = find_bad(&volume, options, &mut report, progress)?;
    report.found = bad.count();
    if report.found == 0 {
        return Ok(report);
    }
    let writes = options.mark || options.relocate;
    if writes && volume.disk.0.is_read_only() {
        return Err(ToolError::ReadOnly);
    }
    mark_unused(&mut volume, options, &bad, &mut report)?;
    report_used(&mut volume, options, &bad, &mut report)?;
    if writes {
        volume.flush()?;
        volume.refresh_info()?;
        volume.flush()?;
    }
    Ok(report)
}

/// Returns the clusters with bad sectors; those outside of clusters are in the report.
fn find_bad(
    volume: &Volume,
    options: &BadsectOptions,
    report: &mut BadsectReport,
    progress: ProgressCallback<'_>,
) -> Result<ClusterMap, ToolError> {
    let geometry = volume.geometry;
    let mut bad = ClusterMap::new(&geometry);
    let mut add = |range: std::ops::Range<u64>| {
        let sector_size = u64::from(geometry.bytes_per_sector());
        for sector in range.start / sector_size..range.end.div_ceil(sector_size) {
            let offset = sector * sector_size;
            match geometry.cluster_at(offset) {
                Some(cluster) => drop(bad.insert(cluster)),
                None => report.list_other(offset, sector_size, part_name(&geometry, offset)),
            }
        }
    };
    for sector in &options.sectors {
        let offset = sector.checked_mul(geometry.bytes_per_sector().into()).filter(|&offset| offset < geometry.size());
        let offset = offset.ok_or(ToolError::NoSector(*sector))?;
        add(offset..offset + 1);
    }
    if options.scan {
        let surface =
            Surface { disk: &volume.disk, sector_size: geometry.bytes_per_sector(), writes_back: options.write_test };
        surface.scan(0..geometry.size(), progress, &mut add)?;
    }
    Ok(bad)
}

fn part_name(geometry: &Geometry, offset: u64) -> &'static str {
    let tables_end = geometry.reserved_size() + u64::from(geometry.fats()) * geometry.fat_size();
    if offset < geometry.reserved_size() {
        "the reserved sectors"
    } else if offset < tables_end {
        "the file allocation tables"
    } else if offset < geometry.data_offset() {
        "the root directory"
    } else {
        "the end"
    }
}

/// Marks clusters that are free.
fn mark_unused(
    volume: &mut Volume,
    options: &BadsectOptions,
    bad: &ClusterMap,
    report: &mut BadsectReport,
) -> Result<(), ToolError> {
    for cluster in bad.iter() {
        match volume.table.get(cluster)? {
            Link::Bad => report.list(cluster, BadClusterUse::Marked),
            Link::Free => {
                if options.mark {
                    volume.table.set(cluster, Link::Bad)?;
                    report.marked += 1;
                } else {
                    report.left += 1;
                }
                report.list(cluster, BadClusterUse::Free);
            }
            Link::Next(_) | Link::End => (),
        }
    }
    if options.mark { volume.flush() } else { Ok(()) }
}

/// The owner of a bad cluster.
struct BadOwner {
    path: String,
    /// Position of the entry; `None` for the root directory.
    position: Option<u64>,
    start: u32,
    is_directory: bool,
}

/// Reports clusters that are in use, or replaces them.
fn report_used(
    volume: &mut Volume,
    options: &BadsectOptions,
    bad: &ClusterMap,
    report: &mut BadsectReport,
) -> Result<(), ToolError> {
    let mut rest = bad.clone();
    for cluster in bad.iter() {
        if matches!(volume.table.get(cluster)?, Link::Bad | Link::Free) {
            rest.remove(cluster);
        }
    }
    while rest.next(0).is_some() {
        // A directory that moves takes the positions of entries with it, so owners are looked for again after that.
        let owners = owners(volume, options.page, &rest)?;
        let mut has_moved_directory = false;
        for (cluster, mut owner) in owners {
            if has_moved_directory {
                break;
            }
            rest.remove(cluster);
            let usage = if options.relocate {
                let usage = relocate(volume, bad, &mut owner, cluster)?;
                has_moved_directory = owner.is_directory && matches!(usage, BadClusterUse::Relocated(..));
                report.marked += u64::from(matches!(usage, BadClusterUse::Relocated(..)));
                usage
            } else {
                BadClusterUse::Used(owner.path)
            };
            report.left += u64::from(!matches!(usage, BadClusterUse::Relocated(..)));
            report.list(cluster, usage);
        }
        if !has_moved_directory {
            report.left += rest.count();
            rest.iter().for_each(|cluster| report.list(cluster, BadClusterUse::Lost));
            break;
        }
    }
    Ok(())
}

/// Gives the owner another cluster. What only this cluster prevents is part of the result; a device that fails ends the work.
fn relocate(
    volume: &mut Volume,
    bad: &ClusterMap,
    owner: &mut BadOwner,
    cluster: u32,
) -> Result<BadClusterUse, ToolError> {
    let path = std::mem::take(&mut owner.path);
    // Another cluster of the same chain may have been replaced before.
    let start = match owner.position {
        Some(position) => volume.start_of(position).unwrap_or(owner.start),
        None => volume.geometry.root_cluster().unwrap_or(owner.start),
    };
    match volume.replace_cluster(start, owner.position, cluster, Some(bad), owner.is_directory) {
        Ok(new) => Ok(BadClusterUse::Relocated(path, new)),
        Err(error @ (ToolError::Write { .. } | ToolError::Flush(_))) => Err(error),
        Err(error) => Ok(BadClusterUse::NotRelocated(path, error)),
    }
}

/// Returns the owners of clusters, directories first.
fn owners(volume: &mut Volume, page: CodePage, wanted: &ClusterMap) -> Result<Vec<(u32, BadOwner)>, ToolError> {
    let mut found: Vec<(u32, BadOwner)> = Vec::new();
    let mut claimed = ClusterMap::new(&volume.geometry);
    if let DirectoryStart::Cluster(start) = DirectoryStart::root(&volume.geometry) {
        for cluster in claim(volume, &mut claimed, start, wanted)? {
            found.push((cluster, BadOwner { path: "/".into(), position: None, start, is_directory: true }));
        }
    }
    volume.walk(page, &mut |volume, entry| {
        let named = entry.named;
        let start = named.entry.first_cluster(volume.geometry.width());
        for cluster in claim(volume, &mut claimed, start, wanted)? {
            let (path, is_directory) = (entry.path(page), named.entry.is_directory());
            found.push((cluster, BadOwner { path, position: Some(named.position), start, is_directory }));
        }
        Ok(())
    })?;
    found.sort_by_key(|(_, owner)| !owner.is_directory);
    Ok(found)
}

/// Returns the wanted clusters of a chain up to one that another chain has.
fn claim(
    volume: &mut Volume,
    claimed: &mut ClusterMap,
    start: u32,
    wanted: &ClusterMap,
) -> Result<Vec<u32>, ToolError> {
    let mut found = Vec::new();
    let mut next = volume.follow(Link::Next(start))?;
    while let Ok(cluster) = next
        && claimed.insert(cluster)
    {
        if wanted.contains(cluster) {
            found.push(cluster);
        }
        let link = volume.table.get(cluster)?;
        next = volume.follow(link)?;
    }
    Ok(found)
}
