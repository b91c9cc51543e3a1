//! The bytes of a block map: the header of a file, and the records of its log.
//!
//! All numbers are little-endian. `docs/formats/block-map.md` shows a file byte by byte.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::{Errno, Result};

/// Records end at multiples of this many bytes, so that they can be searched for.
pub(crate) const ALIGNMENT: u64 = 64;
/// Size of the header in bytes.
pub(crate) const HEADER_BYTES: usize = 64;
/// Size of an entry of a record in bytes.
pub(crate) const ENTRY_BYTES: usize = 40;
/// Size of the trailer of a record in bytes.
pub(crate) const TRAILER_BYTES: usize = 64;
/// Maximum number of bytes of the layer's own in a header.
pub(crate) const OWN_BYTES_MAX: usize = 4096;
/// Maximum size of a block in bytes.
pub(crate) const BLOCK_BYTES_MAX: usize = 16 << 20;

const HEADER_MAGIC: [u8; 8] = *b"PlyfsLog";
const TRAILER_MAGIC: [u8; 8] = *b"PlyfsMap";
const VERSION: u32 = 1;
const KIND_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 8;
/// Bit of a trailer's number of entries: they are the whole map.
const WHOLE: u32 = 1 << 31;
/// Flag of a trailer that states the last position that was reported as synchronized, not an earlier one.
const STABLE_EXACT: u32 = 1;
/// Flag of an entry: the block is stored verbatim.
const VERBATIM: u32 = 1;

/// What stands at the beginning of a lower file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Size in bytes of the blocks of this file.
    pub(crate) block_size: usize,
    /// Identifier of this log: a record of another log, even a copy of it in the data of this file, is no record of it.
    pub(crate) log: u64,
    /// Where the first record ends: a file that is shorter was never whole.
    pub(crate) first_end: u64,
    /// Length of the first record in bytes: a file where parts of it were never written was never whole.
    pub(crate) first_bytes: u32,
    /// Number of bytes of the layer's own that follow the header.
    pub(crate) own_bytes: u32,
    kind: [u8; KIND_BYTES],
}

/// What the first bytes of a lower file say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderState {
    /// Zeros only, or not all of a header: it was never written.
    Absent,
    /// A header of this kind of layer and a known version.
    Valid(Header),
    /// Anything else.
    Foreign,
}

/// A block of the file, as it is stored below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Where it begins in the lower file.
    pub(crate) position: u64,
    /// Checksum of its bytes there.
    pub(crate) checksum: u64,
    /// Number of its bytes there.
    pub(crate) stored: u32,
    /// Number of bytes that it has when decoded.
    pub(crate) plain: u32,
    /// Number of those that still belong to the file: the others were cut off.
    pub(crate) kept: u32,
    /// Set if the encoder refused it.
    pub(crate) is_verbatim: bool,
}

/// The end of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// Where it ends in the lower file.
    pub(crate) end: u64,
    /// Where the record before it ends; 0 for the first.
    pub(crate) previous: u64,
    /// Everything before this position was on stable storage when the record was written.
    pub(crate) stable: u64,
    /// Size of the file above in bytes.
    pub(crate) size: u64,
    /// Number of entries in front of it.
    pub(crate) entries: u32,
    /// Set if the entries are all blocks of the file; otherwise they are those that the record changes.
    pub(crate) is_whole: bool,
    /// Set if nothing later than `stable` was reported as synchronized when the record was written.
    pub(crate) is_stable_exact: bool,
    checksum: u64,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) trailer: Trailer,
    /// Blocks by number, ascending; `None`: a hole.
    pub(crate) entries: Vec<(u64, Option<Extent>)>,
}

/// Returns the checksum of bytes.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

impl Header {
    /// Creates the header of a log of a layer of this kind.
    pub(crate) fn new(kind: &str, block_size: usize, log: u64, first: (u64, u32), own_bytes: u32) -> Self {
        let (first_end, first_bytes) = first;
        let mut name = [0; KIND_BYTES];
        let length = kind.len().min(KIND_BYTES);
        name[..length].copy_from_slice(&kind.as_bytes()[..length]);
        Self { block_size, log, first_end, first_bytes, own_bytes, kind: name }
    }

    /// Returns its bytes.
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&HEADER_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.block_size as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.log.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_end.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.first_bytes.to_le_bytes());
        bytes[36..52].copy_from_slice(&self.kind);
        bytes[52..56].copy_from_slice(&self.own_bytes.to_le_bytes());
        let sum = checksum(&bytes[..56]);
        bytes[56..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the first bytes of a lower file, [`HEADER_BYTES`] unless it is shorter, for a layer of this kind.
    pub(crate) fn parse(bytes: &[u8], kind: &str) -> HeaderState {
        if bytes.len() < HEADER_BYTES && (HEADER_MAGIC.starts_with(bytes) || bytes.starts_with(&HEADER_MAGIC))
            || bytes.iter().all(|byte| *byte == 0)
        {
            return HeaderState::Absent;
        }
        if bytes.len() < HEADER_BYTES
            || bytes[..8] != HEADER_MAGIC
            || number(bytes, 56) != checksum(&bytes[..56])
            || half(bytes, 8) != VERSION
        {
            return HeaderState::Foreign;
        }
        let found = Self {
            block_size: half(bytes, 12) as usize,
            log: number(bytes, 16),
            first_end: number(bytes, 24),
            first_bytes: half(bytes, 32),
            own_bytes: half(bytes, 52),
            kind: bytes[36..52].try_into().expect("16 bytes"),
        };
        let is_known = found.kind == Self::new(kind, 0, 0, (0, 0), 0).kind
            && (1..=BLOCK_BYTES_MAX).contains(&found.block_size)
            && found.own_bytes as usize <= OWN_BYTES_MAX;
        if is_known { HeaderState::Valid(found) } else { HeaderState::Foreign }
    }
}

/// Returns the number of bytes that so many bytes of the layer's own take behind a header, with their checksum.
pub(crate) const fn own_area_bytes(own_bytes: usize) -> usize {
    if own_bytes == 0 { 0 } else { (own_bytes + CHECKSUM_BYTES).next_multiple_of(ALIGNMENT as usize) }
}

/// Returns the area behind a header with these bytes of the layer's own.
pub(crate) fn own_area(own: &[u8]) -> Vec<u8> {
    let mut area = own.to_vec();
    area.resize(own_area_bytes(own.len()), 0);
    if let Some(end) = area.len().checked_sub(CHECKSUM_BYTES) {
        let sum = checksum(&area[..end]);
        area[end..].copy_from_slice(&sum.to_le_bytes());
    }
    area
}

/// Returns the bytes of the layer's own, so many, of such an area; `None` if they are others.
pub(crate) fn own_of_area(area: &[u8], own_bytes: usize) -> Option<&[u8]> {
    let Some(end) = area.len().checked_sub(CHECKSUM_BYTES) else { return Some(&[]) };
    (number(area, end) == checksum(&area[..end])).then(|| &area[..own_bytes])
}

/// Returns the maximum number of bytes below of a block of this size: an encoding may make it longer.
pub(crate) const fn stored_bytes_max(block_size: usize) -> usize {
    2 * block_size + 4096
}

impl Extent {
    fn to_bytes(self, block: u64) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&block.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.position.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.checksum.to_le_bytes());
        let flags = if self.is_verbatim { VERBATIM } else { 0 };
        for (index, half) in [self.stored, self.plain, self.kept, flags].into_iter().enumerate() {
            bytes[24 + 4 * index..28 + 4 * index].copy_from_slice(&half.to_le_bytes());
        }
        bytes
    }

    /// Reads an entry of a record that begins at `limit`.
    fn parse(bytes: &[u8], block_size: usize, limit: u64) -> Result<(u64, Option<Self>)> {
        let block = number(bytes, 0);
        if bytes[8..].iter().all(|byte| *byte == 0) {
            return Ok((block, None));
        }
        let extent = Self {
            position: number(bytes, 8),
            checksum: number(bytes, 16),
            stored: half(bytes, 24),
            plain: half(bytes, 28),
            kept: half(bytes, 32),
            is_verbatim: half(bytes, 36) & VERBATIM != 0,
        };
        let is_within = extent.position >= HEADER_BYTES as u64
            && extent.position.checked_add(u64::from(extent.stored)).is_some_and(|end| end <= limit);
        let has_sizes = (1..=stored_bytes_max(block_size)).contains(&(extent.stored as usize))
            && (1..=block_size).contains(&(extent.plain as usize))
            && extent.kept <= extent.plain
            && (!extent.is_verbatim || extent.stored == extent.plain);
        if is_within && has_sizes { Ok((block, Some(extent))) } else { Err(Errno::EBADMSG) }
    }

    /// Returns where it ends in the lower file.
    pub(crate) fn end(&self) -> u64 {
        self.position + u64::from(self.stored)
    }
}

impl Trailer {
    /// Creates the trailer of a record; its checksum is set when the bytes of the record are made.
    pub(crate) fn new(end: u64, previous: u64, stable: u64, size: u64, entries: u32, is_whole: bool) -> Self {
        Self { end, previous, stable, size, entries, is_whole, is_stable_exact: false, checksum: 0 }
    }

    fn to_bytes(self, log: u64) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..8].copy_from_slice(&TRAILER_MAGIC);
        for (index, number) in [log, self.end, self.previous, self.stable, self.size].into_iter().enumerate() {
            bytes[8 + 8 * index..16 + 8 * index].copy_from_slice(&number.to_le_bytes());
        }
        let entries = self.entries | if self.is_whole { WHOLE } else { 0 };
        bytes[48..52].copy_from_slice(&entries.to_le_bytes());
        bytes[52..56].copy_from_slice(&(if self.is_stable_exact { STABLE_EXACT } else { 0 }).to_le_bytes());
        bytes
    }

    /// Returns the identifier of the log that a trailer is of; `None` if the bytes are no trailer.
    pub(crate) fn log_of(bytes: &[u8]) -> Option<u64> {
        (bytes[..8] == TRAILER_MAGIC).then(|| number(bytes, 8))
    }

    /// Reads the bytes before `end` in the lower file as the trailer of a record of this log. `None` if they are none.
    pub(crate) fn parse(bytes: &[u8], log: u64, end: u64) -> Option<Self> {
        let entries = half(bytes, 48);
        let trailer = Self {
            end: number(bytes, 16),
            previous: number(bytes, 24),
            stable: number(bytes, 32),
            size: number(bytes, 40),
            entries: entries & !WHOLE,
            is_whole: entries & WHOLE != 0,
            is_stable_exact: half(bytes, 52) == STABLE_EXACT,
            checksum: number(bytes, 56),
        };
        let is_ours = bytes[..8] == TRAILER_MAGIC
            && number(bytes, 8) == log
            && trailer.end == end
            && half(bytes, 52) <= STABLE_EXACT;
        let is_possible =
            trailer.previous <= trailer.start()? && trailer.stable <= end && trailer.size <= i64::MAX as u64;
        (is_ours && is_possible && (trailer.previous > 0 || trailer.is_whole)).then_some(trailer)
    }

    /// Returns where the entries of the record begin in the lower file; `None` if they would not fit in front.
    pub(crate) fn start(&self) -> Option<u64> {
        self.end.checked_sub(record_bytes(self.entries as usize) as u64).filter(|start| *start >= HEADER_BYTES as u64)
    }
}

/// Returns the length in bytes of a record with this many entries. Whatever part of it a disk writes as a whole is not only zeros.
pub(crate) const fn record_bytes(entries: usize) -> usize {
    (entries * ENTRY_BYTES).next_multiple_of(ALIGNMENT as usize) + TRAILER_BYTES
}

impl Record {
    /// Appends its bytes.
    pub(crate) fn write_to(&self, log: u64, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        for (block, extent) in &self.entries {
            match extent {
                Some(extent) => bytes.extend_from_slice(&extent.to_bytes(*block)),
                None => {
                    bytes.extend_from_slice(&block.to_le_bytes());
                    bytes.extend_from_slice(&[0; ENTRY_BYTES - 8]);
                }
            }
        }
        bytes.resize(start + record_bytes(self.entries.len()) - TRAILER_BYTES, 0);
        bytes.extend_from_slice(&self.trailer.to_bytes(log)[..TRAILER_BYTES - 8]);
        let sum = checksum(&bytes[start..]);
        bytes.extend_from_slice(&sum.to_le_bytes());
    }
}

/// Reads the entries of a record piece by piece, so that a number that is a lie reserves no memory.
pub(crate) struct RecordReader {
    trailer: Trailer,
    log: u64,
    block_size: usize,
    limit: u64,
    sum: Xxh3,
    entries: Vec<(u64, Option<Extent>)>,
}

impl RecordReader {
    /// Begins to read the record of this trailer; `None` if its entries would not fit in front of it.
    pub(crate) fn new(trailer: Trailer, log: u64, block_size: usize) -> Option<Self> {
        Some(Self { trailer, log, block_size, limit: trailer.start()?, sum: Xxh3::new(), entries: Vec::new() })
    }

    /// Takes the next whole entries, and what fills up the last.
    ///
    /// # Errors
    /// `EBADMSG` if they are not possible.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.sum.update(bytes);
        let rest = self.trailer.entries as usize - self.entries.len();
        for bytes in bytes.chunks_exact(ENTRY_BYTES).take(rest) {
            let entry = Extent::parse(bytes, self.block_size, self.limit)?;
            if self.entries.last().is_some_and(|last| last.0 >= entry.0) || (self.trailer.is_whole && entry.1.is_none())
            {
                return Err(Errno::EBADMSG);
            }
            self.entries.push(entry);
        }
        Ok(())
    }

    /// Returns the record.
    ///
    /// # Errors
    /// `EBADMSG` if its checksum is another.
    pub(crate) fn finish(mut self) -> Result<Record> {
        self.sum.update(&self.trailer.to_bytes(self.log)[..TRAILER_BYTES - 8]);
        match self.sum.digest() == self.trailer.checksum {
            true => Ok(Record { trailer: self.trailer, entries: self.entries }),
            false => Err(Errno::EBADMSG),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: Extent = Extent { position: 64, checksum: 7, stored: 100, plain: 300, kept: 200, is_verbatim: false };

    fn record() -> (Record, Vec<u8>) {
        let entries = vec![(3, Some(EXTENT)), (9, None)];
        let end = 64 + 128 + record_bytes(2) as u64;
        let trailer = Trailer::new(end, 64, 128, 5000, 2, false);
        let record = Record { trailer, entries };
        let mut bytes = Vec::new();
        record.write_to(42, &mut bytes);
        (record, bytes)
    }

    fn read(bytes: &[u8], log: u64, end: u64) -> Option<Record> {
        let at = bytes.len() - TRAILER_BYTES;
        let trailer = Trailer::parse(&bytes[at..], log, end)?;
        let mut reader = RecordReader::new(trailer, log, 4096)?;
        reader.take(&bytes[..at]).ok()?;
        reader.finish().ok()
    }

    #[test]
    fn records_are_read_as_they_were_written_and_nothing_else_is() {
        let (record, bytes) = record();
        assert_eq!(bytes.len(), record_bytes(2));
        let end = record.trailer.end;
        let again = read(&bytes, 42, end).unwrap();
        assert_eq!((again.trailer.size, &again.entries), (5000, &record.entries));
        assert_eq!(read(&bytes, 43, end), None, "of another log");
        assert_eq!(read(&bytes, 42, end + 64), None, "a copy elsewhere");
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&damaged, 42, end), None, "bit {bit}");
        }
    }

    #[test]
    fn headers_are_ours_absent_or_foreign() {
        let header = Header::new("zstd", 65536, 42, (256, 128), 0);
        let bytes = header.to_bytes();
        assert_eq!(Header::parse(&bytes, "zstd"), HeaderState::Valid(header));
        assert_eq!(Header::parse(&bytes, "lz4"), HeaderState::Foreign);
        assert_eq!(Header::parse(&[0; HEADER_BYTES], "zstd"), HeaderState::Absent);
        assert_eq!(Header::parse(&bytes[..40], "zstd"), HeaderState::Absent);
        assert_eq!(Header::parse(b"text", "zstd"), HeaderState::Foreign);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::parse(&damaged, "zstd"), HeaderState::Foreign, "bit {bit}");
        }
    }
}
