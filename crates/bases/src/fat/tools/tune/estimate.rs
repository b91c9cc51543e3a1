//! An estimate of what tuning would do, also of a file system that is in use or has errors.

use super::options::TuneOptions;
use super::report::{Fragmentation, TuneReport};
use super::target::Targets;
use crate::device::DeviceRef;
use crate::fat::format::{Geometry, Link};
use crate::fat::tools::cluster_map::ClusterMap;
use crate::fat::tools::directory::DirectoryStart;
use crate::fat::tools::error::ToolError;
use crate::fat::tools::progress::{Meter, Phase, ProgressCallback};
use crate::fat::tools::volume::Volume;

/// Reports how fragmented a file system is, and how many clusters tuning would move. Nothing is written.
///
/// The file system may be mounted, and may have errors: each chain counts up to where it ends, or runs into another one. The numbers are
/// exact if nothing is wrong and nothing changes meanwhile.
///
/// # Errors
/// If there is no file system, or its tables cannot be read.
pub fn estimate(
    device: DeviceRef,
    options: &TuneOptions,
    progress: ProgressCallback<'_>,
) -> Result<TuneReport, ToolError> {
    let mut volume = Volume::open(device)?;
    let geometry = volume.geometry;
    let (free, bad) = free_and_bad(&mut volume)?;
    let used = u64::from(geometry.clusters()).saturating_sub(free.count()).saturating_sub(bad.count());
    let mut meter = Meter::start(Phase::Tree, used, &mut *progress);
    let mut survey = Survey::new(&geometry, &bad);
    if let DirectoryStart::Cluster(start) = DirectoryStart::root(&geometry) {
        survey.add(&mut volume, start)?;
    }
    volume.walk(options.page, &mut |volume, entry| {
        let start = entry.named.entry.first_cluster(geometry.width());
        meter.add(survey.add(volume, start)?, &mut *progress);
        Ok(())
    })?;
    let Survey { mut before, misplaced, .. } = survey;
    before.count_free(&free);
    Ok(TuneReport { before, after: None, misplaced, moved: 0 })
}

/// Returns the clusters that are free, and those that must not be used.
fn free_and_bad(volume: &mut Volume) -> Result<(ClusterMap, ClusterMap), ToolError> {
    let (mut free, mut bad) = (ClusterMap::new(&volume.geometry), ClusterMap::new(&volume.geometry));
    for cluster in volume.geometry.cluster_numbers() {
        match volume.table.get(cluster)? {
            Link::Free => drop(free.insert(cluster)),
            Link::Bad => drop(bad.insert(cluster)),
            Link::Next(_) | Link::End => (),
        }
    }
    Ok((free, bad))
}

/// What has been counted.
struct Survey<'a> {
    before: Fragmentation,
    misplaced: u64,
    targets: Targets<'a>,
    /// Clusters of the chains so far.
    seen: ClusterMap,
}

impl<'a> Survey<'a> {
    fn new(geometry: &Geometry, bad: &'a ClusterMap) -> Self {
        let targets = Targets::new(geometry.cluster_numbers(), bad);
        Self { before: Fragmentation::default(), misplaced: 0, targets, seen: ClusterMap::new(geometry) }
    }

    /// Counts a chain. Returns the number of its clusters.
    fn add(&mut self, volume: &mut Volume, start: u32) -> Result<u64, ToolError> {
        let mut chain = Vec::new();
        let mut next = volume.follow(Link::Next(start))?;
        while let Ok(cluster) = next
            && self.seen.insert(cluster)
        {
            chain.push(cluster);
            let link = volume.table.get(cluster)?;
            next = volume.follow(link)?;
        }
        let places = self.targets.assign(chain.len() as u32);
        self.misplaced += chain.iter().zip(&places).filter(|(cluster, place)| cluster != place).count() as u64;
        self.before.count_chain(&chain);
        Ok(chain.len() as u64)
    }
}
