//! Tunes a file system: each file and directory becomes one piece, one after the other, and the free clusters follow them.

mod estimate;
mod moves;
mod options;
mod owners;
mod report;
mod target;

pub use estimate::estimate;
pub use options::TuneOptions;
pub use report::{Fragmentation, TuneReport};

use super::error::ToolError;
use super::fsck::{FsckOptions, RepairChoice, fsck};
use super::progress::{Meter, Phase, ProgressCallback};
use super::volume::Volume;
use crate::device::DeviceRef;
use moves::Mover;
use owners::Owners;
use target::Targets;

/// Makes each file and directory contiguous, and the free clusters, too. At any interruption all files have their contents;
/// a check then frees the clusters that were in use twice.
///
/// # Errors
/// [`ToolError::Inconsistent`] if the check of the file system finds anything; [`ToolError::NoSpace`] if no cluster is free
/// though one has to be moved.
pub fn tune(device: DeviceRef, options: &TuneOptions, progress: ProgressCallback<'_>) -> Result<TuneReport, ToolError> {
    let check = FsckOptions { page: options.page, dosfs: options.dosfs, findings_max: 0, ..FsckOptions::default() };
    if fsck(device.clone(), &check, &mut |_| RepairChoice::Leave, progress)?.found() > 0 {
        return Err(ToolError::Inconsistent);
    }
    let mut volume = Volume::open(device)?;
    let owners = Owners::find(&mut volume, options.page)?;
    let before = fragmentation(&mut volume, &owners)?;
    let misplaced = misplaced(&mut volume, &owners)?;
    let mut report = TuneReport { before, after: None, misplaced, moved: 0 };
    if misplaced > 0 {
        if volume.disk.0.is_read_only() {
            return Err(ToolError::ReadOnly);
        }
        volume.set_dirty(true)?;
        let mut mover = Mover { volume: &mut volume, owners, moved: 0 };
        let result = move_all(&mut mover, misplaced, progress);
        report.moved = mover.moved;
        volume.flush()?;
        volume.refresh_info()?;
        volume.set_dirty(false)?;
        result?;
    }
    let owners = Owners::find(&mut volume, options.page)?;
    report.after = Some(fragmentation(&mut volume, &owners)?);
    Ok(report)
}

/// Moves all chains to their places.
fn move_all(mover: &mut Mover<'_>, misplaced: u64, progress: ProgressCallback<'_>) -> Result<(), ToolError> {
    let mut meter = Meter::start(Phase::Moving, misplaced, &mut *progress);
    let bad = mover.owners.bad.clone();
    let mut targets = Targets::new(mover.volume.geometry.cluster_numbers(), &bad);
    for number in 0..mover.owners.heads.len() {
        let start = mover.owners.heads.get(number).map_or(0, |head| head.start);
        let length = mover.volume.sound_chain(start)?.len() as u32;
        let places = targets.assign(length);
        if places.len() != length as usize {
            return Err(ToolError::NoSpace);
        }
        mover.move_chain(number, &places, &mut |moved| meter.add(moved, &mut *progress))?;
    }
    Ok(())
}

/// Returns the number of clusters that are not in their places.
fn misplaced(volume: &mut Volume, owners: &Owners) -> Result<u64, ToolError> {
    let mut targets = Targets::new(volume.geometry.cluster_numbers(), &owners.bad);
    let mut misplaced = 0;
    for head in &owners.heads {
        let chain = volume.sound_chain(head.start)?;
        let places = targets.assign(chain.len() as u32);
        misplaced += chain.iter().zip(&places).filter(|(cluster, place)| cluster != place).count() as u64;
    }
    Ok(misplaced)
}

fn fragmentation(volume: &mut Volume, owners: &Owners) -> Result<Fragmentation, ToolError> {
    let mut result = Fragmentation::default();
    for head in &owners.heads {
        let chain = volume.sound_chain(head.start)?;
        result.count_chain(&chain);
    }
    result.count_free(&owners.free);
    Ok(result)
}
