//! The block map of a file in memory: where its blocks are, what the next record says, and which bytes below are free.
//!
//! Blocks and records are only appended. What a record replaces is free at once if it was written after the last
//! synchronization and nobody has asked for one since: a power cut then takes both, or the reader goes back to what
//! was before both. What may be on stable storage is free when its replacement is: also what is older than a second, since
//! the kernel stores it by itself.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::format::{
    ALIGNMENT, Extent, HEADER_BYTES, Header, Record, Trailer, checksum, own_area, own_area_bytes, record_bytes,
};
use super::losses::Loss;
use super::ranges::Ranges;
use crate::{Errno, Result};

/// Number of records, beside one for each [`BLOCKS_PER_RECORD`], after which one contains the whole map.
const RECORDS_BETWEEN_WHOLE: usize = 16;
const BLOCKS_PER_RECORD: usize = 64;
/// Number of records after which one contains the whole map, however many blocks the file has: so a reader follows at most about as
/// many, even before it is known that the last whole one is stable.
const RECORDS_BETWEEN_WHOLE_MAX: usize = RECORDS_FOLLOWED_MAX / 4;
/// Number of bytes that may not be on stable storage yet: so many are read again when the file is next opened.
const UNSTABLE_BYTES_MAX: u64 = 64 << 20;
/// Number of bytes of blocks that are written again at once after a failed synchronization.
const RENEWED_BYTES_MAX: u64 = 64 << 20;
/// Number of records that a reader has to follow before the file is synchronized to free them, if one of them has the whole map; it
/// gives up at [`RECORDS_FOLLOWED_MAX`].
const RECORDS_MAX: usize = 4096;
/// Number of records that a reader has to follow, since nothing becomes stable, and from which on each has the whole map: by itself
/// it is enough.
const RECORDS_UNSTABLE_MAX: usize = RECORDS_FOLLOWED_MAX / 2;
/// Number of records after which a file is refused, since they could be without end.
pub(crate) const RECORDS_FOLLOWED_MAX: usize = 1 << 16;
/// Number of bytes that are replaced, and kept for the case of a power cut, before the file is synchronized to free them.
const RETAINED_BYTES_MIN: u64 = 1 << 20;
/// Time for which the kernel is taken to store nothing by itself: it does so after some seconds, or when memory is short.
const UNSTORED_TIME: Duration = Duration::from_secs(1);
/// Number of free bytes that are punched at once.
const FREE_BYTES_MAX: u64 = 64 << 10;

/// A record in the lower file, with the padding in front of it.
pub(crate) struct RecordSpan {
    pub(crate) range: Range<u64>,
    /// What it says was on stable storage.
    pub(crate) stable: u64,
    pub(crate) is_whole: bool,
}

/// The block map of a file.
pub(crate) struct Log {
    /// Identifier of the log, in its header and in each record.
    pub(crate) id: u64,
    pub(crate) block_size: usize,
    /// Bytes of the layer's own in the header; `None` if they were not made yet.
    pub(crate) own: Option<Arc<[u8]>>,
    /// Size of the file above in bytes.
    pub(crate) size: u64,
    /// Size of the lower file in bytes.
    pub(crate) lower_size: u64,
    /// Where the next blocks follow: the end of the lower file, or 0 if nothing in it was ever whole.
    pub(crate) end: u64,
    /// Where the last record ends; 0 if there is none.
    pub(crate) last: u64,
    /// Everything before is on stable storage.
    pub(crate) stable: u64,
    /// Everything before is on stable storage, or may be since somebody has asked for that.
    pub(crate) promised: u64,
    /// The first record: it stays, since a reader that finds it in part takes the file for one that was never whole.
    pub(crate) first: Range<u64>,
    /// When the last record was made.
    changed: Instant,
    /// An earlier time, and where the log ended by then.
    aging: (Instant, u64),
    /// Blocks that are not holes.
    pub(crate) map: BTreeMap<u64, Extent>,
    /// Records that a reader has to follow, the earliest first.
    pub(crate) records: Vec<RecordSpan>,
    /// Blocks with versions of which only reading can tell whether they have reached the storage: the earliest first.
    pub(crate) unverified: BTreeMap<u64, Vec<Extent>>,
    /// Number of bytes that may be read to tell.
    pub(crate) readable: u64,
    /// Set if the next record has to contain the whole map.
    pub(crate) needs_whole: bool,
    /// Where the record ends that says which blocks were set back, or stored again; until there is one, `u64::MAX`. A reader that goes
    /// back behind it meets versions that were not there: no position before it may be called stable.
    settled: u64,
    /// Set if a reader who follows the records comes to the first, or to one with the whole map that was stable by then. Otherwise one
    /// with the whole map counts only as long as all its blocks are there: each record has to be one.
    pub(crate) is_rooted: bool,
    /// An error of a synchronization that nobody was told yet.
    pub(crate) failed_sync: Option<Errno>,
    /// Set if a synchronization failed: the kernel may have dropped what was to be written, and the next one would not tell.
    pub(crate) has_lost_writes: bool,
    /// Number of synchronizations that failed.
    pub(crate) failed_syncs: u64,
    /// Set if nothing later than `stable` was reported as synchronized: not of a map that was read, until it is synchronized.
    pub(crate) is_stable_exact: bool,
    /// Bytes below of all blocks.
    stored: u64,
    /// Ranges that are free as soon as everything before a position is on stable storage.
    retained: VecDeque<(u64, Range<u64>)>,
    retained_bytes: u64,
    /// Ranges that are free.
    free: Ranges,
    /// Bytes that became free since the last time they were taken.
    freed_bytes: u64,
}

/// Changes of blocks that one record makes, with their bytes.
#[derive(Default)]
pub(crate) struct Draft {
    bytes: Vec<u8>,
    /// Blocks with the positions of their bytes in `bytes`; `None`: a hole.
    changes: BTreeMap<u64, Option<Extent>>,
}

/// Some of the blocks that are written again after a failed synchronization.
pub(crate) struct RenewalPiece {
    /// The blocks, with where they are.
    pub(crate) blocks: Vec<(u64, Extent)>,
    /// The block with which the next piece begins; `None` if this is the last.
    pub(crate) next: Option<u64>,
}

/// A record with the blocks in front of it, as it is appended to the lower file.
pub(crate) struct Commit {
    /// Where it begins in the lower file.
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
    record_start: u64,
    changes: BTreeMap<u64, Option<Extent>>,
    trailer: Trailer,
}

impl Draft {
    /// Stores the bytes of a block again, as they are below.
    ///
    /// # Errors
    /// `ENOMEM` if there is no memory for them.
    pub(crate) fn put_again(&mut self, block: u64, stored: &[u8], extent: Extent) -> Result<()> {
        self.put(block, stored, extent.plain as usize, extent.is_verbatim)?;
        if let Some(Some(again)) = self.changes.get_mut(&block) {
            again.kept = extent.kept;
        }
        Ok(())
    }

    /// Stores a block: its bytes below, and the number of those that they decode to.
    ///
    /// # Errors
    /// `ENOMEM` if there is no memory for them.
    pub(crate) fn put(&mut self, block: u64, stored: &[u8], plain: usize, is_verbatim: bool) -> Result<()> {
        self.bytes.try_reserve(stored.len()).map_err(|_| Errno::ENOMEM)?;
        let position = self.bytes.len() as u64;
        self.bytes.extend_from_slice(stored);
        let (stored, checksum) = (stored.len() as u32, checksum(stored));
        let extent = Extent { position, checksum, stored, plain: plain as u32, kept: plain as u32, is_verbatim };
        self.changes.insert(block, Some(extent));
        Ok(())
    }

    /// Makes a block a hole.
    pub(crate) fn remove(&mut self, block: u64) {
        self.changes.insert(block, None);
    }
}

impl Log {
    /// Creates the map of an empty file.
    pub(crate) fn new(id: u64, block_size: usize) -> Self {
        Self {
            id,
            block_size,
            own: None,
            size: 0,
            lower_size: 0,
            end: 0,
            last: 0,
            stable: 0,
            promised: 0,
            first: 0..0,
            changed: Instant::now(),
            aging: (Instant::now(), 0),
            map: BTreeMap::new(),
            records: Vec::new(),
            unverified: BTreeMap::new(),
            readable: 0,
            needs_whole: true,
            settled: 0,
            is_rooted: true,
            failed_sync: None,
            has_lost_writes: false,
            failed_syncs: 0,
            is_stable_exact: true,
            stored: 0,
            retained: VecDeque::new(),
            retained_bytes: 0,
            free: Ranges::default(),
            freed_bytes: 0,
        }
    }

    /// Makes the bytes of the next record with the changes of a draft, for a file of `size` bytes.
    ///
    /// # Errors
    /// `ENOMEM`; `EFBIG` for more blocks than a record can name.
    pub(crate) fn commit(&self, kind: &str, draft: &Draft, size: u64) -> Result<Commit> {
        let start = self.end.next_multiple_of(ALIGNMENT);
        let header = if start == 0 { self.header_bytes() } else { 0 };
        let data = start + header;
        let (blocks, mut changes) = (&draft.bytes, draft.changes.clone());
        changes.values_mut().flatten().for_each(|extent| extent.position += data);
        let is_whole = self.needs_whole || !self.is_rooted || self.is_whole_due();
        let entries = if is_whole { self.after(&changes, size) } else { changes.clone().into_iter().collect() };
        let count = u32::try_from(entries.len()).ok().filter(|count| *count < 1 << 31).ok_or(Errno::EFBIG)?;
        let record_bytes = record_bytes(entries.len());
        let blocks_end = data + blocks.len() as u64;
        let end = blocks_end.next_multiple_of(ALIGNMENT) + record_bytes as u64;
        if end > i64::MAX as u64 - ALIGNMENT {
            return Err(Errno::EFBIG);
        }
        // Records that nobody waits for need not be followed, and are free.
        let previous = if is_whole { self.last_promised() } else { self.last };
        let mut trailer = Trailer::new(end, previous, self.stable, size, count, is_whole);
        // Only after lost writes may a reader need it.
        trailer.is_stable_exact = self.has_lost_writes && self.is_stable_exact;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact((end - start) as usize).map_err(|_| Errno::ENOMEM)?;
        if header > 0 {
            let first = (end, record_bytes.try_into().unwrap_or(u32::MAX));
            let header = Header::new(kind, self.block_size, self.id, first, self.own().len() as u32);
            bytes.extend_from_slice(&header.to_bytes());
            bytes.extend_from_slice(&own_area(self.own()));
        }
        bytes.extend_from_slice(blocks);
        bytes.resize((end - start) as usize - record_bytes, 0);
        Record { trailer, entries }.write_to(self.id, &mut bytes);
        Ok(Commit { start, bytes, record_start: blocks_end, changes, trailer })
    }

    /// Notes that a record is made at this time: what was written long before may be on stable storage, since the kernel stores
    /// it by itself.
    pub(crate) fn age(&mut self, now: Instant) {
        if now.duration_since(self.changed) >= UNSTORED_TIME {
            (self.promised, self.aging) = (self.end, (now, self.end));
        } else if now.duration_since(self.aging.0) >= UNSTORED_TIME {
            self.promised = self.promised.max(self.aging.1);
            self.aging = (now, self.end);
        }
        self.changed = now;
    }

    /// Notes that everything up to the end of the log may be on stable storage from now on.
    pub(crate) fn promise(&mut self) {
        self.promised = self.end;
    }

    fn own(&self) -> &[u8] {
        self.own.as_deref().unwrap_or_default()
    }

    /// Returns the number of bytes of the header, with those of the layer's own.
    pub(crate) fn header_bytes(&self) -> u64 {
        (HEADER_BYTES + own_area_bytes(self.own().len())) as u64
    }

    /// Returns where the last record ends that may be on stable storage; 0 if none may.
    fn last_promised(&self) -> u64 {
        let ends = self.records.iter().map(|record| record.range.end);
        ends.take_while(|end| *end <= self.promised).last().unwrap_or(0)
    }

    /// Returns blocks from this one on that are not on stable storage, for a record with the whole map, which is the next.
    pub(crate) fn renewal_piece(&mut self, first: u64) -> RenewalPiece {
        (self.needs_whole, self.settled, self.is_rooted) = (true, u64::MAX, false);
        let (mut blocks, mut bytes) = (Vec::new(), 0);
        for (block, extent) in self.map.range(first..).filter(|(_, extent)| extent.position >= self.stable) {
            bytes += u64::from(extent.stored);
            if bytes > RENEWED_BYTES_MAX && !blocks.is_empty() {
                return RenewalPiece { blocks, next: Some(*block) };
            }
            blocks.push((*block, *extent));
        }
        RenewalPiece { blocks, next: None }
    }

    /// Returns the number of bytes that writing all blocks again takes that are not on stable storage, at most; `None` if they are
    /// one piece.
    pub(crate) fn renewal_bytes(&self) -> Option<u64> {
        let unstable = self.map.values().filter(|extent| extent.position >= self.stable);
        let bytes: u64 = unstable.map(|extent| u64::from(extent.stored)).sum();
        // A piece is at least half full, unless it is the last.
        let pieces = 2 * (bytes / RENEWED_BYTES_MAX) + 1;
        let record = record_bytes(self.map.len()) as u64 + ALIGNMENT;
        (bytes > RENEWED_BYTES_MAX).then(|| bytes + pieces * record)
    }

    /// Returns the number of records that are followed only because no later one has the whole map.
    pub(crate) fn unpromised_records(&self) -> usize {
        self.records.iter().rev().take_while(|record| record.range.end > self.promised).count()
    }

    fn is_whole_due(&self) -> bool {
        let since = self.records.iter().rev().take_while(|record| !record.is_whole).count();
        since >= records_between_whole(self.map.len()) || self.records.len() >= RECORDS_UNSTABLE_MAX
    }

    /// Returns the whole map as it will be.
    fn after(&self, changes: &BTreeMap<u64, Option<Extent>>, size: u64) -> Vec<(u64, Option<Extent>)> {
        let mut map = self.map.clone();
        cut(&mut map, self.block_size, size);
        for (block, change) in changes {
            match change {
                Some(extent) => drop(map.insert(*block, *extent)),
                None => drop(map.remove(block)),
            }
        }
        map.into_iter().map(|(block, extent)| (block, Some(extent))).collect()
    }

    /// Takes over a commit that is in the lower file. Nobody may have asked for a synchronization since it was made.
    pub(crate) fn apply(&mut self, commit: Commit) {
        let Commit { start, record_start, changes, trailer, .. } = commit;
        if start == 0 {
            self.first = record_start..trailer.end;
        }
        let mut replaced = cut(&mut self.map, self.block_size, trailer.size);
        for (block, change) in changes {
            replaced.extend(match change {
                Some(extent) => self.map.insert(block, extent),
                None => self.map.remove(&block),
            });
            self.stored += change.map_or(0, |extent| u64::from(extent.stored));
        }
        for extent in replaced {
            self.stored -= u64::from(extent.stored);
            self.release(extent.position..extent.end(), trailer.end);
        }
        if trailer.is_whole {
            if self.settled == u64::MAX {
                self.settled = trailer.end;
            }
            let kept = self.records.len() - self.unpromised_records();
            for record in self.records.drain(kept..).collect::<Vec<_>>() {
                self.free_record(record.range);
            }
        }
        self.records.push(RecordSpan {
            range: record_start..trailer.end,
            stable: trailer.stable,
            is_whole: trailer.is_whole,
        });
        self.needs_whole = false;
        (self.size, self.lower_size) = (trailer.size, trailer.end);
        (self.end, self.last) = (trailer.end, trailer.end);
    }

    /// Frees a range: at once if nothing of it can be on stable storage, or else when everything before `until` is.
    pub(crate) fn release(&mut self, range: Range<u64>, until: u64) {
        if range.start < self.promised {
            self.retained_bytes += range.end - range.start;
            self.retained.push_back((until, range));
        } else {
            self.free(range);
        }
    }

    /// Frees a range at once.
    pub(crate) fn free(&mut self, range: Range<u64>) {
        self.freed_bytes += range.end - range.start;
        self.free.add(range);
    }

    /// Frees a record that no reader has to follow, unless it is the first.
    fn free_record(&mut self, range: Range<u64>) {
        if range.end != self.first.end {
            self.free(range);
        }
    }

    /// Sets the map that a reader found.
    pub(crate) fn set_map(&mut self, map: BTreeMap<u64, Extent>) {
        self.stored = map.values().map(|extent| u64::from(extent.stored)).sum();
        self.map = map;
    }

    /// Replaces a block of which no newer version has reached the storage.
    pub(crate) fn set_back(&mut self, block: u64, version: Option<Extent>) {
        let newest = match version {
            Some(version) => self.map.insert(block, version),
            None => self.map.remove(&block),
        };
        let bytes = |extent: Option<Extent>| extent.map_or(0, |extent| u64::from(extent.stored));
        self.stored = self.stored + bytes(version) - bytes(newest);
        (self.needs_whole, self.settled) = (true, u64::MAX);
    }

    /// Records that everything before `end` is on stable storage.
    pub(crate) fn set_stable(&mut self, end: u64) {
        self.promised = self.promised.max(end);
        if end < self.settled || self.has_lost_writes {
            return;
        }
        self.stable = self.stable.max(end);
        self.is_stable_exact = true;
        self.is_rooted |= self.records.iter().any(|record| record.is_whole && record.range.end <= self.stable);
        while self.retained.front().is_some_and(|(until, _)| *until <= self.stable) {
            let (_, range) = self.retained.pop_front().expect("there is one");
            self.retained_bytes -= range.end - range.start;
            self.free(range);
        }
        // A reader finds the last stable record, or a later one, and follows it to one with the whole map that was stable by
        // what that says.
        let is_stable = |record: &&RecordSpan| record.range.end <= self.stable;
        let known = self.records.iter().rev().find(is_stable).map_or(0, |record| record.stable);
        let is_enough = |record: &RecordSpan| record.is_whole && record.range.end <= known;
        let unneeded = self.records.iter().rposition(is_enough).unwrap_or(0);
        for record in self.records.drain(..unneeded).collect::<Vec<_>>() {
            self.free_record(record.range);
        }
    }

    /// Returns what failed synchronizations mean for the file.
    pub(crate) fn loss(&self) -> Option<Loss> {
        (self.has_lost_writes || self.failed_sync.is_some()).then_some(Loss { untold: self.failed_sync })
    }

    /// Returns whether the file should be synchronized: to free what is retained, or for a reader's sake.
    pub(crate) fn needs_sync(&self) -> bool {
        if self.has_lost_writes {
            // Only for somebody who waits for it.
            return false;
        }
        !self.is_rooted
            || self.retained_bytes > RETAINED_BYTES_MIN.max(self.stored)
            || self.end - self.stable > UNSTABLE_BYTES_MAX
            || self.has_unneeded_records()
    }

    /// Returns whether there are many records, and those before one with the whole map are free once that is known to be stable.
    fn has_unneeded_records(&self) -> bool {
        self.records.len() > RECORDS_MAX && self.records[1..].iter().any(|record| record.is_whole)
    }

    /// Returns whether there is anything that a synchronization would free.
    pub(crate) fn has_retained(&self) -> bool {
        self.retained_bytes > 0
    }

    /// Returns whether anything has become free.
    pub(crate) fn has_free(&self) -> bool {
        self.freed_bytes > 0
    }

    /// Returns whether enough is free to be punched.
    pub(crate) fn should_punch(&self) -> bool {
        self.freed_bytes >= FREE_BYTES_MAX
    }

    /// Returns the free pages, which are the caller's to punch.
    pub(crate) fn take_free(&mut self, page_size: u64) -> Vec<Range<u64>> {
        if std::mem::take(&mut self.freed_bytes) == 0 { Vec::new() } else { self.free.take_pages(page_size) }
    }

    /// Returns the number of bytes below that a reader needs.
    pub(crate) fn needed_bytes(&self) -> u64 {
        self.stored + self.records.iter().map(|record| record.range.end - record.range.start).sum::<u64>()
    }

    /// Returns the ranges below that nobody needs.
    pub(crate) fn gaps(&self) -> Vec<Range<u64>> {
        let versions = self.map.values().chain(self.unverified.values().flatten());
        let mut needed: Vec<Range<u64>> = versions.map(|extent| extent.position..extent.end()).collect();
        needed.extend(self.records.iter().map(|record| record.range.clone()));
        needed.push(self.first.clone());
        needed.extend(self.retained.iter().map(|(_, range)| range.clone()));
        needed.sort_by_key(|range| range.start);
        let mut gaps = Vec::new();
        let mut end = self.header_bytes();
        for range in needed {
            if range.start > end {
                gaps.push(end..range.start);
            }
            end = end.max(range.end);
        }
        gaps.push(end..self.end.max(end));
        gaps
    }
}

/// Returns the number of records, in a file of so many blocks, after which one contains the whole map.
fn records_between_whole(blocks: usize) -> usize {
    RECORDS_BETWEEN_WHOLE_MAX.min(RECORDS_BETWEEN_WHOLE + blocks / BLOCKS_PER_RECORD)
}

/// Shortens a map to a file of `size` bytes. Returns the blocks that it loses.
pub(crate) fn cut(map: &mut BTreeMap<u64, Extent>, block_size: usize, size: u64) -> Vec<Extent> {
    let block_size = block_size as u64;
    let lost = map.split_off(&size.div_ceil(block_size));
    let last = size / block_size;
    if let Some(extent) = map.get_mut(&last) {
        extent.kept = extent.kept.min((size - last * block_size) as u32);
    }
    lost.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 1000;

    fn write(log: &mut Log, blocks: &[u64], size: u64) {
        let mut draft = Draft::default();
        blocks.iter().for_each(|block| draft.put(*block, &[7; 5000], BLOCK, false).unwrap());
        let commit = log.commit("test", &draft, size).unwrap();
        assert_eq!(commit.start, log.end);
        assert_eq!(commit.start + commit.bytes.len() as u64, commit.trailer.end);
        log.apply(commit);
    }

    #[test]
    fn what_may_be_stable_is_kept_until_its_replacement_is() {
        let mut log = Log::new(1, BLOCK);
        write(&mut log, &[0], 1000);
        write(&mut log, &[0], 1000);
        assert_eq!(log.take_free(1).len(), 1, "nobody has synchronized");
        let first_sync = log.end;
        log.promised = log.end;
        write(&mut log, &[0], 1000);
        assert!(log.take_free(1).is_empty(), "the synchronization may have ended");
        log.set_stable(first_sync);
        assert!(log.take_free(1).is_empty(), "the replacement is not stable");
        write(&mut log, &[0], 1000);
        assert_eq!(log.take_free(1).len(), 1, "the third version never was");
        log.set_stable(log.end);
        assert_eq!(log.take_free(1).len(), 1, "the second");
    }

    #[test]
    fn what_is_older_than_a_second_may_be_stable() {
        let mut log = Log::new(1, BLOCK);
        let start = Instant::now();
        let mut write_at = |milliseconds: u64| {
            log.age(start + Duration::from_millis(milliseconds));
            write(&mut log, &[0], 1000);
            (log.promised, log.end)
        };
        let (_, first) = write_at(0);
        assert_eq!(write_at(900).0, 0);
        let (_, third) = write_at(1800);
        assert!(write_at(2700).0 < third, "it is new");
        assert!(write_at(3600).0 >= first, "writes without a pause");
        let (_, sixth) = write_at(3700);
        assert_eq!(write_at(4800).0, sixth, "a pause");
    }

    #[test]
    fn only_records_since_the_last_stable_whole_one_are_kept() {
        let mut log = Log::new(1, BLOCK);
        for round in 0..500 {
            write(&mut log, &[round % 10], 10_000);
            if round % 7 == 0 {
                log.set_stable(log.end);
            }
        }
        assert!(
            log.records[0].is_whole && log.records.len() <= 2 * RECORDS_BETWEEN_WHOLE + 10,
            "{}",
            log.records.len()
        );
        let needed = log.needed_bytes();
        let gaps: u64 = log.gaps().iter().map(|gap| gap.end - gap.start).sum();
        assert!(needed + gaps + log.retained_bytes + HEADER_BYTES as u64 <= log.end + 64 * 500);
        log.needs_whole = true;
        for _ in 0..2 {
            write(&mut log, &[], 10_000);
            log.set_stable(log.end);
        }
        assert_eq!(log.records.len(), 2, "the whole one, and the one that says that it is stable");
    }

    #[test]
    fn however_many_blocks_a_file_has_its_records_are_followed() {
        assert_eq!(records_between_whole(0), RECORDS_BETWEEN_WHOLE);
        for blocks in [5_000_000, usize::MAX] {
            // Between two whole ones, of which the second is not known to be stable, and since then.
            assert!(2 * records_between_whole(blocks) <= RECORDS_UNSTABLE_MAX, "{blocks}");
        }
    }

    #[test]
    fn a_file_of_many_blocks_is_not_synchronized_at_each_write() {
        const BLOCKS: u64 = 400_000;
        let mut log = Log::new(1, BLOCK);
        let extent = |position| Extent { position, checksum: 0, stored: 1, plain: 1, kept: 1, is_verbatim: true };
        log.set_map((0..BLOCKS).map(|block| (block, extent(block))).collect());
        let (mut syncs, mut records) = (0, 0);
        for _ in 0..3 * records_between_whole(log.map.len()) {
            write(&mut log, &[], BLOCKS * BLOCK as u64);
            records = records.max(log.records.len());
            if log.needs_sync() {
                log.set_stable(log.end);
                syncs += 1;
            }
        }
        assert!(syncs <= 10, "{syncs}");
        assert!(records <= records_between_whole(log.map.len()) + 3, "{records}");
    }

    #[test]
    fn while_nothing_becomes_stable_the_last_of_many_records_is_enough_by_itself() {
        let mut log = Log::new(1, BLOCK);
        for _ in 0..RECORDS_FOLLOWED_MAX / 2 + 50 {
            write(&mut log, &[], 0);
            log.has_lost_writes = true;
            log.promised = log.end;
        }
        assert!(!log.needs_sync());
        assert!(log.records.iter().rev().take(20).all(|record| record.is_whole));
    }

    #[test]
    fn nothing_is_called_stable_before_a_record_says_what_was_set_back() {
        let mut log = Log::new(1, BLOCK);
        write(&mut log, &[0], 1000);
        let version = log.map[&0];
        write(&mut log, &[0], 1000);
        log.set_back(0, Some(version));
        let before = log.end;
        log.set_stable(before);
        assert_eq!(log.stable, 0);
        write(&mut log, &[0], 1000);
        assert!(log.records.last().unwrap().is_whole);
        log.set_stable(before);
        assert_eq!(log.stable, 0, "a synchronization that began before");
        write(&mut log, &[], 1000);
        log.set_stable(log.end);
        assert_eq!(log.stable, log.end);
    }

    #[test]
    fn a_cut_takes_blocks_and_the_end_of_one() {
        let mut log = Log::new(1, BLOCK);
        write(&mut log, &[0, 1, 2, 3], 4000);
        write(&mut log, &[], 1500);
        assert_eq!(
            log.map.iter().map(|(block, extent)| (*block, extent.kept)).collect::<Vec<_>>(),
            [(0, 1000), (1, 500)]
        );
        write(&mut log, &[], 4000);
        assert_eq!(log.map[&1].kept, 500, "what was cut off reads as zeros");
        write(&mut log, &[], 1000);
        assert_eq!(log.map.len(), 1);
        assert_eq!(log.map[&0].kept, 1000);
    }
}
