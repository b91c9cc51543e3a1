//! The surface of a device: which sectors can be read, and written back.

use std::ops::Range;

use super::disk::Disk;
use super::error::ToolError;
use super::progress::{Meter, Phase, ProgressCallback};

/// Number of bytes that are read at once.
const CHUNK: u64 = 1024 * 1024;

/// A test of a device.
pub(crate) struct Surface<'a> {
    /// The device.
    pub(crate) disk: &'a Disk,
    /// Size of what is tested by itself if more cannot be read at once.
    pub(crate) sector_size: u32,
    /// Whether everything is written back as it was read, and read again.
    pub(crate) writes_back: bool,
}

impl Surface<'_> {
    /// Tests a range of bytes that starts with a sector, and calls `found` for each part that fails.
    ///
    /// # Errors
    /// If the device takes no writes at all.
    pub(crate) fn scan(
        &self,
        range: Range<u64>,
        progress: ProgressCallback<'_>,
        found: &mut dyn FnMut(Range<u64>),
    ) -> Result<(), ToolError> {
        if self.writes_back && self.disk.0.is_read_only() {
            return Err(ToolError::ReadOnly);
        }
        let mut meter = Meter::start(Phase::Surface, range.end.saturating_sub(range.start), &mut *progress);
        let mut offset = range.start;
        let mut buffer = vec![0; CHUNK as usize];
        while offset < range.end {
            let length = (range.end - offset).min(CHUNK);
            let part = buffer.get_mut(..length as usize).unwrap_or_default();
            let lost = self.disk.read_available(offset, part, self.sector_size as usize, 0);
            let in_device = |part: &Range<usize>| offset + part.start as u64..offset + part.end as u64;
            lost.iter().map(in_device).for_each(&mut *found);
            if self.writes_back {
                let failed = self.write_back(offset, part, &lost)?;
                failed.iter().map(in_device).for_each(&mut *found);
            }
            offset += length;
            meter.add(length, &mut *progress);
        }
        Ok(())
    }

    /// Writes sectors back as they were read, and returns those that are not the same afterwards.
    fn write_back(&self, offset: u64, read: &[u8], lost: &[Range<usize>]) -> Result<Vec<Range<usize>>, ToolError> {
        let size = (self.sector_size as usize).max(1);
        let sectors: Vec<Range<usize>> = (0..read.len())
            .step_by(size)
            .map(|start| start..(start + size).min(read.len()))
            .filter(|sector| !lost.iter().any(|part| part.contains(&sector.start)))
            .collect();
        let mut failed = Vec::new();
        let data = |sector: &Range<usize>| read.get(sector.clone()).unwrap_or_default();
        for sector in &sectors {
            match self.disk.write(offset + sector.start as u64, data(sector)) {
                Err(ToolError::ReadOnly) => return Err(ToolError::ReadOnly),
                Err(_) => failed.push(sector.clone()),
                Ok(()) => (),
            }
        }
        self.disk.flush()?;
        let mut again = vec![0; size];
        for sector in sectors {
            let again = again.get_mut(..sector.len()).unwrap_or_default();
            let is_same = self.disk.read(offset + sector.start as u64, again).is_ok() && again == data(&sector);
            if !is_same && !failed.contains(&sector) {
                failed.push(sector);
            }
        }
        Ok(failed)
    }
}
