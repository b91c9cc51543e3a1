//! Encoding of the journal: one batch of blocks that change together, with a checksum over all of it.
//!
//! A header block is followed by an index, which has an offset and a checksum for each block of the batch, and by the blocks. All
//! numbers are in little-endian order.

use xxhash_rust::xxh3::xxh3_64;

/// Unit of the journal in bytes: what a device writes as a whole.
pub(crate) const BLOCK_SIZE: usize = 512;

/// The first bytes of a header.
const MAGIC: [u8; 8] = *b"PLYFSJNL";
/// Version of the encoding.
const VERSION: u32 = 1;

const VERSION_AT: usize = 8;
const COUNT_AT: usize = 12;
const SEQUENCE_AT: usize = 16;
const CHECKSUM_AT: usize = 24;
/// Size of an index entry: offset and checksum.
const INDEX_ENTRY_SIZE: usize = 16;
const INDEX_ENTRIES_PER_BLOCK: usize = BLOCK_SIZE / INDEX_ENTRY_SIZE;

/// A block of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournalBlock {
    /// Offset on the device in bytes.
    pub(crate) offset: u64,
    /// Checksum of what is there before.
    pub(crate) before: u64,
    /// What is there afterwards.
    pub(crate) bytes: [u8; BLOCK_SIZE],
}

/// Returns the checksum of the contents of a block.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// Returns the number of blocks that a journal of this size holds in a batch.
pub(crate) fn capacity(size: u64) -> usize {
    let blocks = usize::try_from(size).unwrap_or(usize::MAX) / BLOCK_SIZE;
    let per_index_block = INDEX_ENTRIES_PER_BLOCK + 1;
    let left = blocks.saturating_sub(1);
    left / per_index_block * INDEX_ENTRIES_PER_BLOCK + (left % per_index_block).saturating_sub(1)
}

/// Returns a batch as the journal contains it.
pub(crate) fn encode(sequence: u64, blocks: &[JournalBlock]) -> Vec<u8> {
    let data_at = data_offset(blocks.len());
    let mut bytes = vec![0; data_at + blocks.len() * BLOCK_SIZE];
    put(&mut bytes, 0, &MAGIC);
    put(&mut bytes, VERSION_AT, &VERSION.to_le_bytes());
    put(&mut bytes, COUNT_AT, &(blocks.len() as u32).to_le_bytes());
    put(&mut bytes, SEQUENCE_AT, &sequence.to_le_bytes());
    for (index, block) in blocks.iter().enumerate() {
        let at = BLOCK_SIZE + index * INDEX_ENTRY_SIZE;
        put(&mut bytes, at, &block.offset.to_le_bytes());
        put(&mut bytes, at + 8, &block.before.to_le_bytes());
        put(&mut bytes, data_at + index * BLOCK_SIZE, &block.bytes);
    }
    let sum = checksum(&bytes);
    put(&mut bytes, CHECKSUM_AT, &sum.to_le_bytes());
    bytes
}

/// Returns whether a file that begins like this is a journal that holds something, of any version.
pub(crate) fn is_journal(file: &[u8]) -> bool {
    file.starts_with(&MAGIC)
}

/// Returns whether a journal that begins like this is one of another version.
pub(crate) fn is_of_other_version(journal: &[u8]) -> bool {
    is_journal(journal) && u32_at(journal, VERSION_AT) != Some(VERSION)
}

/// Returns the sequence number and the blocks of the batch in a journal; `None` if it has no complete one.
pub(crate) fn decode(journal: &[u8]) -> Option<(u64, Vec<JournalBlock>)> {
    if !is_journal(journal) || u32_at(journal, VERSION_AT)? != VERSION {
        return None;
    }
    let count = usize::try_from(u32_at(journal, COUNT_AT)?).ok()?;
    if count > capacity(journal.len() as u64) {
        return None;
    }
    let data_at = data_offset(count);
    let mut batch = journal.get(..data_at + count * BLOCK_SIZE)?.to_vec();
    let sum = u64_at(&batch, CHECKSUM_AT)?;
    put(&mut batch, CHECKSUM_AT, &[0; 8]);
    if checksum(&batch) != sum {
        return None;
    }
    let block = |index: usize| {
        let at = BLOCK_SIZE + index * INDEX_ENTRY_SIZE;
        let bytes = batch.get(data_at + index * BLOCK_SIZE..)?.first_chunk()?;
        Some(JournalBlock { offset: u64_at(&batch, at)?, before: u64_at(&batch, at + 8)?, bytes: *bytes })
    };
    let blocks = (0..count).map(block).collect::<Option<_>>()?;
    Some((u64_at(&batch, SEQUENCE_AT)?, blocks))
}

/// Returns the offset of the first block in a journal with this number of them.
fn data_offset(count: usize) -> usize {
    (1 + count.div_ceil(INDEX_ENTRIES_PER_BLOCK)) * BLOCK_SIZE
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(field) = bytes.get_mut(at..at + value.len()) {
        field.copy_from_slice(value);
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|field| u32::from_le_bytes(*field))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|field| u64::from_le_bytes(*field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(count: usize) -> Vec<JournalBlock> {
        let block = |index: usize| JournalBlock {
            offset: index as u64 * 4096,
            before: index as u64 + 7,
            bytes: [index as u8; BLOCK_SIZE],
        };
        (0..count).map(block).collect()
    }

    #[test]
    fn batches_survive_encoding() {
        for count in [1, 2, 32, 33, 100] {
            let mut bytes = encode(5, &batch(count));
            assert!(bytes.len() <= BLOCK_SIZE * (2 + count + count / 32));
            bytes.resize(bytes.len() + 1000, 0xAA);
            assert_eq!(decode(&bytes), Some((5, batch(count))), "{count}");
        }
    }

    #[test]
    fn a_journal_holds_as_many_blocks_as_fit() {
        for blocks in 0..200 {
            let size = blocks * BLOCK_SIZE;
            let most = capacity(size as u64);
            assert!(most == 0 || encode(0, &batch(most)).len() <= size, "{blocks}");
            assert!(encode(0, &batch(most + 1)).len() > size, "{blocks}");
        }
    }

    #[test]
    fn what_is_incomplete_or_changed_is_no_batch() {
        let bytes = encode(5, &batch(40));
        for at in (0..bytes.len()).step_by(97) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert_eq!(decode(&changed), None, "{at}");
            assert_eq!(decode(&bytes[..at]), None, "{at}");
        }
        let mut many = bytes;
        many[COUNT_AT..COUNT_AT + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(decode(&many), None);
        assert_eq!(decode(&[0; 4096]), None);
    }
}
