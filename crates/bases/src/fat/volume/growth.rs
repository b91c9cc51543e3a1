//! Growth of directories: the table without the links to their new clusters, which it must not have before these are zero on the disk.

use std::collections::HashMap;

use crate::fat::format::{FatWidth, Link, entry_length, entry_offset, write_entry};

use super::pages::{BLOCK_SIZE, ChangedBlock};

/// Largest size of an entry in bytes.
const ENTRY_MAX: usize = 4;

/// Returns changed blocks of the table as they are while the chains end with the clusters `ends`, and of those that are different then
/// also the final ones.
pub(crate) fn split(width: FatWidth, blocks: &[ChangedBlock], ends: &[u32]) -> (Vec<ChangedBlock>, Vec<ChangedBlock>) {
    let index: HashMap<u64, usize> = blocks.iter().enumerate().map(|(index, block)| (block.offset, index)).collect();
    let mut early = blocks.to_vec();
    for &end in ends {
        let (start, length) = (entry_offset(width, end), entry_length(width));
        let place = |at: usize| {
            let offset = start + at as u64;
            let block = offset / BLOCK_SIZE as u64 * BLOCK_SIZE as u64;
            index.get(&block).map(|&index| (index, (offset - block) as usize))
        };
        let places: Option<Vec<(usize, usize)>> = (0..length).map(place).collect();
        let Some(places) = places else { continue };
        let mut entry = [0; ENTRY_MAX];
        for (byte, &(block, at)) in entry.iter_mut().zip(&places) {
            *byte = early[block].bytes[at];
        }
        write_entry(width, end, &mut entry, Link::End.encode(width));
        for (byte, (block, at)) in entry.into_iter().zip(places) {
            early[block].bytes[at] = byte;
        }
    }
    let differs = |(one, other): &(&ChangedBlock, &ChangedBlock)| one.bytes != other.bytes;
    let late = blocks.iter().zip(&early).filter(differs).map(|(block, _)| block.clone()).collect();
    (early, late)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fat::format::read_entry;

    #[test]
    fn only_the_links_of_the_ends_are_late() {
        for width in [FatWidth::Fat12, FatWidth::Fat16, FatWidth::Fat32] {
            // The last cluster whose entry begins in the first block: with 12 bits, it ends in the second.
            let end = (512 * 8 / width.bits()) - u32::from(width != FatWidth::Fat12);
            let mut table = vec![0; 1024];
            for cluster in [end - 1, end] {
                let at = entry_offset(width, cluster) as usize;
                write_entry(width, cluster, &mut table[at..], 9).unwrap();
            }
            let blocks: Vec<ChangedBlock> = (0_u64..)
                .zip(table.chunks(512))
                .map(|(index, bytes)| ChangedBlock { offset: index * 512, bytes: bytes.to_vec() })
                .collect();
            let (early, late) = split(width, &blocks, &[end]);
            let bytes: Vec<u8> = early.into_iter().flat_map(|block| block.bytes).collect();
            let read = |cluster| read_entry(width, cluster, &bytes[entry_offset(width, cluster) as usize..]).unwrap();
            assert_eq!((read(end - 1), read(end)), (9, width.end()), "{width}");
            assert_eq!(late.len(), if width == FatWidth::Fat12 { 2 } else { 1 });
            assert!(late.iter().all(|block| blocks[block.offset as usize / 512].bytes == block.bytes));
        }
    }
}
