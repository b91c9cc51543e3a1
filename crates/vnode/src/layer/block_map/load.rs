//! Reading a block map: the last record that is whole, with all that it builds on, and the blocks that have reached the storage.
//!
//! After a power cut the lower file may end with anything that was never synchronized: parts of records, records whose
//! predecessors are missing, and records whose blocks are. The file is what the last record says whose predecessors are all
//! there; a block of it that is not there is read from its version before.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::format::{
    ALIGNMENT, BLOCK_BYTES_MAX, ENTRY_BYTES, Extent, HEADER_BYTES, Header, HeaderState, Record, RecordReader,
    TRAILER_BYTES, Trailer, checksum, own_area_bytes, own_of_area,
};
use super::log::{Log, RECORDS_FOLLOWED_MAX, RecordSpan};
use crate::{Caller, Cancellation, Errno, OpenFile, Result, read_fully, zeros};

/// Number of bytes read at once.
const READ_BYTES: usize = 26_214 * ENTRY_BYTES;
/// Number of bytes at the end of a file that are searched for a record, unless it takes more space: a writer synchronizes long
/// before, but for a record of the whole map.
const SEARCHED_BYTES_MAX: u64 = 256 << 20;
/// Number of bytes of a file that are read at most, to find its record and what there is of its blocks, unless it takes more space.
const READ_BYTES_MAX: u64 = 256 << 20;
/// Smallest part of a file that a disk writes as a whole, in bytes.
const SECTOR_BYTES: u64 = 512;
/// Number of bytes in which zeros are searched for at once: whole sectors.
const PIECE_BYTES: u64 = 1 << 20;
/// Free bytes below, at least, for which the gaps between what is needed are punched.
const GAP_BYTES_MIN: u64 = 1 << 20;

/// A lower file that is read as a log of this kind of layer.
struct Reader<'a> {
    source: &'a Source<'a>,
    header: Header,
}

/// A lower file of which a bounded number of bytes is read.
struct Source<'a> {
    lower: &'a dyn OpenFile,
    cancellation: &'a Cancellation,
    /// Size in bytes.
    size: u64,
    /// Number of bytes that may still be read.
    left: Cell<u64>,
    /// Blocks that were read, by position, length and checksum, and whether they are missing.
    blocks: RefCell<BTreeMap<(u64, u32, u64), bool>>,
}

impl<'a> Source<'a> {
    fn new(lower: &'a dyn OpenFile, cancellation: &'a Cancellation, size: u64, left: u64) -> Self {
        Self { lower, cancellation, size, left: Cell::new(left), blocks: RefCell::default() }
    }

    /// Reads bytes that the lower file has.
    ///
    /// # Errors
    /// `EBADMSG` if too much was read; those of [`read_exactly`], and of the cancellation.
    fn read(&self, position: u64, buffer: &mut [u8]) -> Result<()> {
        self.cancellation.check()?;
        self.left.set(self.left.get().checked_sub(buffer.len() as u64).ok_or(Errno::EBADMSG)?);
        read_exactly(self.lower, &Caller::server(), position, buffer)
    }

    /// Returns whether a block has not reached the storage. If it has, and is damaged, it is there: whoever reads it is told.
    fn is_missing(&self, version: &Extent) -> Result<bool> {
        let key = (version.position, version.stored, version.checksum);
        if let Some(is_missing) = self.blocks.borrow().get(&key) {
            return Ok(*is_missing);
        }
        let mut bytes = zeros(version.stored as usize)?;
        self.read(version.position, &mut bytes)?;
        let is_missing = checksum(&bytes) != version.checksum && is_sector_missing(version.position, &bytes);
        self.blocks.borrow_mut().insert(key, is_missing);
        Ok(is_missing)
    }
}

/// Reads the block map of a lower file. `block_size` is that of a file which has none yet, `new_id` the identifier of its log.
///
/// # Errors
/// `EBADMSG` if the lower file was not written by this kind of layer, or is damaged; those of the lower file system.
pub(crate) fn load(
    lower: &dyn OpenFile,
    cancellation: &Cancellation,
    kind: &str,
    block_size: usize,
    new_id: u64,
) -> Result<Log> {
    let attributes = lower.getattr(&Caller::server())?;
    let size = attributes.size;
    let empty = || {
        let mut log = Log::new(new_id, block_size);
        log.lower_size = size;
        log
    };
    if size == 0 {
        return Ok(empty());
    }
    let allocated = attributes.blocks.saturating_mul(512);
    // As much as is there may have to be read twice: to find the record, and to see which of its blocks are there.
    let source = Source::new(lower, cancellation, size, READ_BYTES_MAX.max(allocated.saturating_mul(2)));
    let mut bytes = [0; HEADER_BYTES];
    let length = HEADER_BYTES.min(usize::try_from(size).unwrap_or(usize::MAX));
    read_exactly(lower, &Caller::server(), 0, &mut bytes[..length])?;
    let header = match Header::parse(&bytes[..length], kind) {
        HeaderState::Valid(header) => header,
        // A header that was stored is damaged, not absent.
        HeaderState::Absent if Reader::is_any_stable(&source, kind)? => return Err(Errno::EBADMSG),
        HeaderState::Absent => return Ok(empty()),
        HeaderState::Foreign => return Err(Errno::EBADMSG),
    };
    let reader = Reader { source: &source, header };
    let own = reader.own(size)?;
    match reader.last_records()? {
        // Without the bytes of the layer's own, nothing can be decoded: and nothing was promised.
        Some(records) if own.is_none() && records[0].trailer.stable == 0 && reader.own_is_missing(size)? => Ok(empty()),
        Some(_) if own.is_none() => Err(Errno::EBADMSG),
        Some(records) => {
            let mut log = build(&records, header, size);
            log.own = own;
            log.readable = source.left.get();
            if allocated > log.needed_bytes() + GAP_BYTES_MIN.max(log.needed_bytes() / 2) {
                log.gaps().into_iter().for_each(|gap| log.free(gap));
            }
            Ok(log)
        }
        None if reader.never_was_whole(size)? => Ok(empty()),
        None => Err(Errno::EBADMSG),
    }
}

impl Reader<'_> {
    /// Returns the bytes of the layer's own in a file of `size` bytes, unless they are not there.
    fn own(&self, size: u64) -> Result<Option<Arc<[u8]>>> {
        let own_bytes = self.header.own_bytes as usize;
        let mut area = vec![0; own_area_bytes(own_bytes)];
        if size < (HEADER_BYTES + area.len()) as u64 {
            return Ok(None);
        }
        self.source.read(HEADER_BYTES as u64, &mut area)?;
        Ok(own_of_area(&area, own_bytes).map(Arc::from))
    }

    /// Returns whether parts of the bytes of the layer's own in a file of `size` bytes have never reached the storage.
    fn own_is_missing(&self, size: u64) -> Result<bool> {
        let end = (HEADER_BYTES + own_area_bytes(self.header.own_bytes as usize)) as u64;
        Ok(size < end || self.has_missing_sector(HEADER_BYTES as u64, end)?)
    }

    /// Returns whether parts of the first record of a file of `size` bytes have never reached the storage.
    fn never_was_whole(&self, size: u64) -> Result<bool> {
        let Header { first_end, first_bytes, .. } = self.header;
        if size < first_end {
            return Ok(true);
        }
        self.has_missing_sector(first_end.saturating_sub(first_bytes.into()), first_end)
    }

    /// Returns whether the part of any sector that is in a range has only zeros.
    fn has_missing_sector(&self, mut start: u64, end: u64) -> Result<bool> {
        while start < end {
            let piece_end = (start / PIECE_BYTES * PIECE_BYTES + PIECE_BYTES).min(end);
            let mut piece = zeros((piece_end - start) as usize)?;
            self.source.read(start, &mut piece)?;
            if is_sector_missing(start, &piece) {
                return Ok(true);
            }
            start = piece_end;
        }
        Ok(false)
    }

    /// Returns whether a lower file without a header has a whole record that says that anything was on stable storage.
    fn is_any_stable(source: &Source<'_>, kind: &str) -> Result<bool> {
        let is_stable = |end: u64, bytes: &[u8]| {
            let Some(log) = Trailer::log_of(bytes) else { return Ok(None) };
            let Some(trailer) = Trailer::parse(bytes, log, end).filter(|trailer| trailer.stable > 0) else {
                return Ok(None);
            };
            let header = Header::new(kind, BLOCK_BYTES_MAX, log, (0, 0), 0);
            Ok(Reader { source, header }.record(trailer)?.map(|_| Step::Found(())))
        };
        Ok(search(source, is_stable)?.is_some())
    }

    /// Returns the last whole record of the file and those that it builds on, the latest first.
    fn last_records(&self) -> Result<Option<Vec<Record>>> {
        search(self.source, |end, bytes| {
            let Some(trailer) = Trailer::parse(bytes, self.header.log, end) else { return Ok(None) };
            Ok(Some(match self.follow(trailer)? {
                Ok(records) => Step::Found(records),
                Err(missing) => Step::Before(missing),
            }))
        })
    }

    /// Returns this record and those that it builds on, the latest first; or that one is missing, unless one before it has the whole
    /// map and all blocks of it are there.
    fn follow(&self, last: Trailer) -> Result<std::result::Result<Vec<Record>, MissingRecord>> {
        let (mut records, mut trailer) = (Vec::new(), last);
        let missing = loop {
            let Some(record) = self.record(trailer)? else { break trailer.end };
            records.push(record);
            if trailer.is_whole && (trailer.end <= last.stable || trailer.previous == 0) {
                self.check_space(&records)?;
                return Ok(Ok(records));
            }
            let previous = trailer.previous;
            let start = previous.checked_sub(TRAILER_BYTES as u64).filter(|_| records.len() < RECORDS_FOLLOWED_MAX);
            let Some(start) = start else { break trailer.end };
            let mut bytes = [0; TRAILER_BYTES];
            self.source.read(start, &mut bytes)?;
            match Trailer::parse(&bytes, self.header.log, previous) {
                Some(before) => trailer = before,
                None => break previous,
            }
        };
        self.check_space(&records)?;
        for index in (0..records.len()).rev() {
            if records[index].trailer.is_whole && self.is_complete(&records[index], last.stable)? {
                records.truncate(index + 1);
                return Ok(Ok(records));
            }
        }
        let is_resumable = last.is_stable_exact && !records.is_empty();
        let stable = if is_resumable { last.stable } else { 0 };
        Ok(Err(MissingRecord { end: missing, stable }))
    }

    /// Checks that the file has room for all blocks of these records, each of which is at a place of its own.
    fn check_space(&self, records: &[Record]) -> Result<()> {
        let entries = records.iter().flat_map(|record| &record.entries);
        let mut places: Vec<_> =
            entries.filter_map(|entry| entry.1.map(|extent| (extent.position, extent.stored))).collect();
        places.sort_unstable();
        places.dedup();
        let stored = places.iter().fold(0_u64, |sum, (_, stored)| sum.saturating_add((*stored).into()));
        if stored > self.source.size { Err(Errno::EBADMSG) } else { Ok(()) }
    }

    /// Returns whether all blocks of a record are there, of which those before `stable` are.
    fn is_complete(&self, record: &Record, stable: u64) -> Result<bool> {
        for extent in record.entries.iter().filter_map(|(_, extent)| extent.as_ref()) {
            if extent.position >= stable && self.source.is_missing(extent)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads a record; `None` if it is not whole.
    fn record(&self, trailer: Trailer) -> Result<Option<Record>> {
        let Header { log, block_size, .. } = self.header;
        let (Some(mut reader), Some(mut start)) = (RecordReader::new(trailer, log, block_size), trailer.start()) else {
            return Ok(None);
        };
        let end = trailer.end - TRAILER_BYTES as u64;
        let mut buffer = zeros((end - start).min(READ_BYTES as u64) as usize)?;
        while start < end {
            let length = buffer.len().min((end - start) as usize);
            let piece = &mut buffer[..length];
            self.source.read(start, piece)?;
            if reader.take(piece).is_err() {
                return Ok(None);
            }
            start += length as u64;
        }
        Ok(reader.finish().ok())
    }
}

/// Builds the map of a lower file of `size` bytes from records, the latest first.
fn build(records: &[Record], header: Header, size: u64) -> Log {
    let last = records[0].trailer;
    let mut log = Log::new(header.log, header.block_size);
    (log.size, log.end, log.lower_size, log.last) = (last.size, size, size, last.end);
    // Somebody may have synchronized since.
    (log.stable, log.is_stable_exact, log.promised) = (last.stable, false, size);
    log.needs_whole = false;
    log.first = header.first_end.saturating_sub(header.first_bytes.into()).min(size)..header.first_end.min(size);
    let first = records[records.len() - 1].trailer;
    log.is_rooted = first.previous == 0 || first.end <= last.stable;
    let (mut versions, mut replaced) = (BTreeMap::new(), Vec::new());
    for record in records.iter().rev() {
        let start = record.trailer.start().expect("it was read");
        let Trailer { end, stable, is_whole, .. } = record.trailer;
        log.records.push(RecordSpan { range: start..end, stable, is_whole });
        add_versions(&mut versions, &mut replaced, record, header.block_size);
    }
    let mut map = BTreeMap::new();
    for (block, mut all) in versions {
        let Some(newest) = all.last().copied() else { continue };
        map.insert(block, newest);
        if newest.position >= last.stable {
            log.unverified.insert(block, all);
        } else {
            all.retain(|version| version.position != newest.position);
            replaced.extend(all);
        }
    }
    log.set_map(map);
    replaced.into_iter().for_each(|extent| log.release(extent.position..extent.end(), size));
    log
}

/// Adds what a record says to the versions of blocks, the earliest first.
fn add_versions(
    versions: &mut BTreeMap<u64, Vec<Extent>>,
    replaced: &mut Vec<Extent>,
    record: &Record,
    block_size: usize,
) {
    let size = record.trailer.size;
    replaced.extend(versions.split_off(&size.div_ceil(block_size as u64)).into_values().flatten());
    let last = size / block_size as u64;
    if let Some(all) = versions.get_mut(&last) {
        let kept = (size % block_size as u64) as u32;
        all.iter_mut().for_each(|version| version.kept = version.kept.min(kept));
    }
    if record.trailer.is_whole {
        let named: BTreeSet<u64> = record.entries.iter().map(|entry| entry.0).collect();
        versions.retain(|block, all| {
            let stays = named.contains(block);
            if !stays {
                replaced.append(all);
            }
            stays
        });
    }
    for (block, extent) in &record.entries {
        let Some(extent) = extent else {
            replaced.extend(versions.remove(block).unwrap_or_default());
            continue;
        };
        let all = versions.entry(*block).or_default();
        all.pop_if(|newest| newest.position == extent.position);
        all.push(*extent);
    }
}

/// Decides for each block that may not have reached the storage which of its versions has. Returns the number of blocks of
/// which the newest has not.
///
/// # Errors
/// `EBADMSG` if that takes more reading than a file may cause; those of the lower file system, and of the cancellation. Then
/// nothing is decided.
pub(crate) fn verify(log: &mut Log, lower: &dyn OpenFile, cancellation: &Cancellation) -> Result<usize> {
    let source = Source::new(lower, cancellation, log.lower_size, log.readable);
    let mut decided = Vec::new();
    for (block, versions) in &log.unverified {
        let mut there = None;
        for version in versions.iter().rev() {
            if version.position < log.stable || !source.is_missing(version)? {
                there = Some(*version);
                break;
            }
        }
        decided.push((*block, there));
    }
    let (end, mut set_back) = (log.lower_size, 0);
    for (block, there) in decided {
        let versions = log.unverified.remove(&block).unwrap_or_default();
        let newest = versions.last().map(|version| version.position);
        if there.map(|version| version.position) != newest {
            log.set_back(block, there);
            set_back += 1;
        }
        let others = versions.iter().filter(|version| Some(version.position) != there.map(|there| there.position));
        others.for_each(|version| log.release(version.position..version.end(), end));
    }
    Ok(set_back)
}

/// Returns whether the part of any sector that is in the bytes at `position` has only zeros.
fn is_sector_missing(position: u64, bytes: &[u8]) -> bool {
    let first = bytes.len().min((SECTOR_BYTES - position % SECTOR_BYTES) as usize);
    let (first, others) = bytes.split_at(first);
    let is_zero = |part: &[u8]| part.iter().all(|byte| *byte == 0);
    is_zero(first) || others.chunks(SECTOR_BYTES as usize).any(is_zero)
}

/// What a search found at an end of a record.
enum Step<T> {
    Found(T),
    /// What is searched for ends before this record, since what builds on a missing one is no more use than that.
    Before(MissingRecord),
}

/// A record on which others build, and which is missing.
struct MissingRecord {
    end: u64,
    /// The last position that was reported as synchronized, as one of those that build on it says; 0 if none does.
    stable: u64,
}

/// Runs something on the bytes before each possible end of a record in a lower file, the last first, until it has found what
/// it searches for. As much is searched as the file takes space: a record of the whole map of many blocks may be longer than
/// anything else that is not stable, and be there in part. After a failed synchronization, more may be missing: then the search is
/// resumed, once, at the last position that was reported as synchronized, if a record that was found states it: one that is only
/// known to be stable may be older than what was reported, which would be lost.
fn search<T>(source: &Source<'_>, find: impl Fn(u64, &[u8]) -> Result<Option<Step<T>>>) -> Result<Option<T>> {
    let (stable, left) = (Cell::new(0), source.left.get());
    if let Some(found) = search_from(source, source.size, &stable, &find)? {
        return Ok(Some(found));
    }
    if stable.get() == 0 {
        return Ok(None);
    }
    source.left.set(left);
    search_from(source, stable.get(), &Cell::new(0), &find)
}

/// Searches downwards from a position. Stops where the end of what is searched is reached, or what is missing is beyond it, with
/// the highest position that a record states to be the last that was reported as synchronized in `stable`.
fn search_from<T>(
    source: &Source<'_>,
    position: u64,
    stable: &Cell<u64>,
    find: &impl Fn(u64, &[u8]) -> Result<Option<Step<T>>>,
) -> Result<Option<T>> {
    let last = position.min(source.size) / ALIGNMENT * ALIGNMENT;
    // What may be read is twice the space that the file takes: the other half is for what is found.
    let reach = SEARCHED_BYTES_MAX.max(source.left.get() / 2);
    let lowest = last.saturating_sub(reach).max(HEADER_BYTES as u64);
    let (mut end, mut window, mut window_start) = (last, Vec::new(), last);
    while end >= lowest + TRAILER_BYTES as u64 {
        let start = end - TRAILER_BYTES as u64;
        if start < window_start {
            window_start = end.saturating_sub(READ_BYTES as u64 / ALIGNMENT * ALIGNMENT).max(lowest);
            let is_far = last - end >= SEARCHED_BYTES_MAX || source.left.get() < end - window_start;
            if stable.get() > 0 && is_far {
                return Ok(None);
            }
            window = zeros((end - window_start) as usize)?;
            source.read(window_start, &mut window)?;
        }
        let from = (start - window_start) as usize;
        end = match find(end, &window[from..from + TRAILER_BYTES])? {
            Some(Step::Found(found)) => return Ok(Some(found)),
            Some(Step::Before(missing)) => {
                stable.set(stable.get().max(missing.stable));
                missing.end / ALIGNMENT * ALIGNMENT - ALIGNMENT
            }
            None => end - ALIGNMENT,
        };
    }
    Ok(None)
}

/// Reads bytes that the lower file has, by its size: fewer do not mean that the others were never written.
///
/// # Errors
/// `EIO` if there are fewer; those of the lower file system.
pub(crate) fn read_exactly(lower: &dyn OpenFile, caller: &Caller, position: u64, buffer: &mut [u8]) -> Result<()> {
    if read_fully(lower, caller, position, buffer)? < buffer.len() { Err(Errno::EIO) } else { Ok(()) }
}
