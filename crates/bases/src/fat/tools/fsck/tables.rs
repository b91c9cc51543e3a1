//! The file allocation tables beside each other.

use std::collections::BTreeMap;

use super::checker::Checker;
use super::problem::Problem;
use crate::fat::format::{Geometry, Link, entry_length, entry_offset, read_entry};
use crate::fat::tools::error::ToolError;
use crate::fat::tools::progress::{Meter, Phase};

/// Number of sectors that are compared at once.
const SECTORS: u32 = 64;
/// Weight of a wrong media byte beside that of an invalid entry.
const MEDIA_WEIGHT: u32 = 1000;

/// A sector of the tables that is not alike in all of them.
#[derive(Clone, Copy, Debug)]
struct Difference {
    sector: u32,
    /// The table that is believed.
    source: u8,
    /// The tables with as few faults in this sector, a bit for each.
    tied: u16,
}

/// What the comparison has found.
#[derive(Default)]
struct Comparison {
    differences: Vec<Difference>,
    /// Number of sectors that differ though all can be read.
    differing: u32,
    /// Number of sectors of each table that cannot be read.
    unreadable: Vec<(u8, u32)>,
    /// Number of sectors that differ in which a table has more faults than another one, for each table.
    worse: BTreeMap<u8, u32>,
}

impl Checker<'_> {
    /// Compares the tables in use and chooses for each sector the one that is believed.
    pub(crate) fn check_tables(&mut self) -> Result<(), ToolError> {
        let geometry = self.volume.geometry;
        if geometry.unaddressed_clusters() > 0 {
            self.found(Problem::TableShort(geometry.unaddressed_clusters()), None, Vec::new(), &mut |_| Ok(()))?;
        }
        let mut comparison = self.compare_tables()?;
        comparison.break_ties();
        for difference in &comparison.differences {
            if difference.source != geometry.used_fats().start {
                self.volume.table.set_source(difference.sector, difference.source);
            }
        }
        self.found_state = self.volume.state()?;
        let unreadable = comparison.unreadable.iter().map(|&(table, count)| Problem::TableUnreadable(table, count));
        let differing = (comparison.differing > 0).then_some(Problem::TablesDiffer(comparison.differing));
        for problem in unreadable.chain(differing) {
            let repair = &mut |checker: &mut Self| checker.align_tables(&comparison.differences);
            self.found(problem, None, Vec::new(), repair)?;
        }
        self.check_media()
    }

    fn compare_tables(&mut self) -> Result<Comparison, ToolError> {
        let geometry = self.volume.geometry;
        let mut comparison = Comparison::default();
        let total = geometry.fat_size();
        let mut meter = Meter::start(Phase::Tables, total, &mut *self.progress);
        for first in (0..geometry.fat_sectors()).step_by(SECTORS as usize) {
            let count = SECTORS.min(geometry.fat_sectors() - first);
            self.compare_sectors(first, count, &mut comparison);
            meter.add(u64::from(count) * u64::from(geometry.bytes_per_sector()), &mut *self.progress);
        }
        Ok(comparison)
    }

    fn compare_sectors(&self, first: u32, count: u32, comparison: &mut Comparison) {
        let geometry = self.volume.geometry;
        let size = geometry.bytes_per_sector() as usize;
        let mut copies = Vec::new();
        for table in geometry.used_fats() {
            let Some(start) = geometry.fat_offset(table) else { continue };
            let mut bytes = vec![0; count as usize * size];
            let offset = start + u64::from(first) * size as u64;
            let lost = self.volume.disk.read_available(offset, &mut bytes, size, 0);
            copies.push((table, bytes, lost));
        }
        let is_alike = copies.windows(2).all(|pair| matches!(pair, [(_, one, _), (_, other, _)] if one == other));
        if is_alike && copies.iter().all(|(.., lost)| lost.is_empty()) {
            return;
        }
        for index in 0..count {
            let range = index as usize * size..(index as usize + 1) * size;
            let sectors: Vec<(u8, Option<&[u8]>)> = copies
                .iter()
                .map(|(table, bytes, lost)| {
                    let is_lost = lost.iter().any(|part| part.contains(&range.start));
                    (*table, bytes.get(range.clone()).filter(|_| !is_lost))
                })
                .collect();
            compare_sector(&geometry, self.volume.boot.media, first + index, &sectors, comparison);
        }
    }

    /// Writes the believed contents of sectors to all tables.
    fn align_tables(&mut self, differences: &[Difference]) -> Result<(), ToolError> {
        let geometry = self.volume.geometry;
        let mut bytes = vec![0; geometry.bytes_per_sector() as usize];
        // A mark of use may be in memory.
        self.volume.flush()?;
        for difference in differences {
            let within = u64::from(difference.sector) * u64::from(geometry.bytes_per_sector());
            let source = geometry.fat_offset(difference.source).ok_or(ToolError::Inconsistent)?;
            self.volume.disk.read(source + within, &mut bytes)?;
            for table in geometry.used_fats().filter(|&table| table != difference.source) {
                let target = geometry.fat_offset(table).ok_or(ToolError::Inconsistent)?;
                self.volume.disk.write(target + within, &bytes)?;
            }
        }
        self.volume.flush()
    }

    /// Compares the first entry with the media byte.
    fn check_media(&mut self) -> Result<(), ToolError> {
        let media = u32::from(self.volume.boot.media);
        if self.volume.table.value(0)? & 0xFF == media {
            return Ok(());
        }
        let value = self.volume.geometry.width().mask() & !0xFF | media;
        let repair = &mut |checker: &mut Self| checker.volume.table.set_value(0, value);
        self.found(Problem::TableMedia, None, Vec::new(), repair).map(drop)
    }
}

impl Comparison {
    /// Chooses, where several tables have as few faults in a sector, the first one: the others may have been written only at the end of
    /// use. One that is worse in most of the sectors that differ is garbage, and comes last.
    fn break_ties(&mut self) {
        for difference in &mut self.differences {
            let tied = self.worse.iter().filter(|(table, _)| difference.tied >> (**table).min(15) & 1 != 0);
            let rank = |(_, worse): &(&u8, &u32)| if **worse > self.differing / 2 { **worse } else { 0 };
            if let Some((&table, _)) = tied.min_by_key(rank) {
                difference.source = table;
            }
        }
    }
}

/// Compares one sector of all tables; a sector that cannot be read is none.
fn compare_sector(
    geometry: &Geometry,
    media: u8,
    sector: u32,
    copies: &[(u8, Option<&[u8]>)],
    comparison: &mut Comparison,
) {
    for &(table, _) in copies.iter().filter(|(_, bytes)| bytes.is_none()) {
        match comparison.unreadable.iter_mut().find(|(other, _)| *other == table) {
            Some((_, count)) => *count += 1,
            None => comparison.unreadable.push((table, 1)),
        }
    }
    let readable = || copies.iter().filter_map(|&(table, bytes)| bytes.map(|bytes| (table, bytes)));
    let Some((_, first)) = readable().next() else { return };
    let differs = readable().any(|(_, bytes)| bytes != first);
    comparison.differing += u32::from(differs);
    if !differs && copies.iter().all(|(_, bytes)| bytes.is_some()) {
        return;
    }
    let counted: Vec<(u8, u32)> =
        readable().map(|(table, bytes)| (table, faults(geometry, media, sector, bytes))).collect();
    let Some(&(source, least)) = counted.iter().min_by_key(|(_, count)| *count) else { return };
    for &(table, count) in counted.iter().filter(|_| differs) {
        *comparison.worse.entry(table).or_default() += u32::from(count > least);
    }
    let tables = counted.iter().filter(|(table, count)| *count == least && u32::from(*table) < u16::BITS);
    let tied = tables.fold(0, |tied, (table, _)| tied | 1 << table);
    comparison.differences.push(Difference { sector, source, tied });
}

/// Returns a measure of how much in a sector of a table cannot be right.
fn faults(geometry: &Geometry, media: u8, sector: u32, bytes: &[u8]) -> u32 {
    let (width, start) = (geometry.width(), u64::from(sector) * u64::from(geometry.bytes_per_sector()));
    let end = start + bytes.len() as u64;
    let first = (start * 8).div_ceil(u64::from(width.bits()));
    let mut faults = 0;
    for cluster in (first..).map_while(|cluster| u32::try_from(cluster).ok()) {
        let offset = entry_offset(width, cluster);
        if cluster >= geometry.cluster_numbers().end || offset + entry_length(width) as u64 > end {
            break;
        }
        let within = offset.saturating_sub(start) as usize;
        let value = bytes.get(within..).and_then(|bytes| read_entry(width, cluster, bytes)).unwrap_or(0);
        match (cluster, Link::decode(width, value)) {
            (0, _) => faults += if value & 0xFF == u32::from(media) { 0 } else { MEDIA_WEIGHT },
            (1, _) => (),
            (_, Link::Next(next)) if !geometry.contains(next) => faults += 1,
            _ => (),
        }
    }
    faults
}
