//! Reads files that are compressed with zisofs, block by block.

use std::sync::Arc;

use flate2::{Decompress, FlushDecompress, Status};
use vnode::{Errno, Result, zeros};

use super::format::Malformed;
use super::format::zisofs::Compression;
use super::object::RecordPosition;
use super::sections::FileSections;
use super::volume::Volume;

/// A compressed file.
pub(crate) struct CompressedFile<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) position: RecordPosition,
    pub(crate) sections: &'a FileSections,
    pub(crate) compression: Compression,
}

impl CompressedFile<'_> {
    /// Checks the header of the file.
    ///
    /// # Errors
    /// `EIO` if it cannot be read, or does not say what the directory says.
    pub(crate) fn check(&self) -> Result<()> {
        let mut header = [0; 24];
        let header = header.get_mut(..self.compression.header_bytes()).ok_or(Errno::EIO)?;
        self.sections.read(&self.volume.tree, 0, header)?;
        self.compression.check_header(header).map_err(|Malformed| Errno::EIO)
    }

    /// Fills the buffer from an offset in the decompressed file, which it does not exceed.
    ///
    /// # Errors
    /// `EIO` if the data are damaged or not in the image, `ENOMEM`.
    pub(crate) fn read(&self, mut offset: u64, buffer: &mut [u8]) -> Result<()> {
        let block_size = self.compression.block_size();
        let mut rest = buffer;
        while !rest.is_empty() {
            let (number, within) = (offset / block_size, (offset % block_size) as usize);
            let length = rest.len().min(block_size as usize - within);
            let (part, after) = rest.split_at_mut(length);
            match self.block(number)? {
                Some(block) => part.copy_from_slice(block.get(within..within + length).ok_or(Errno::EIO)?),
                None => part.fill(0),
            }
            offset += length as u64;
            rest = after;
        }
        Ok(())
    }

    /// Returns a block; `None` for zeros.
    fn block(&self, number: u64) -> Result<Option<Arc<Vec<u8>>>> {
        let key = (self.position, number);
        if let Some(block) = self.volume.blocks.get(&key) {
            return Ok(Some(block));
        }
        let mut positions = [0; 16];
        let positions = positions.get_mut(..self.compression.positions_length()).ok_or(Errno::EIO)?;
        self.sections.read(&self.volume.tree, self.compression.positions_offset(number), positions)?;
        let (start, end) = self.compression.positions(positions).map_err(|Malformed| Errno::EIO)?;
        if end > self.sections.size() || end - start > self.compression.stored_bytes_max() {
            return Err(Errno::EIO);
        }
        if start == end {
            return Ok(None);
        }
        let mut stored = zeros((end - start) as usize)?;
        self.sections.read(&self.volume.tree, start, &mut stored)?;
        let block = Arc::new(decompress(&stored, self.compression.size_of_block(number) as usize)?);
        self.volume.blocks.insert(key, &block, block.len() as u64);
        Ok(Some(block))
    }
}

/// Decompresses a block that has exactly this size.
fn decompress(stored: &[u8], size: usize) -> Result<Vec<u8>> {
    let mut block = zeros(size)?;
    let mut decompress = Decompress::new(true);
    let status = decompress.decompress(stored, &mut block, FlushDecompress::Finish).map_err(|_| Errno::EIO)?;
    if status == Status::StreamEnd && decompress.total_out() == size as u64 { Ok(block) } else { Err(Errno::EIO) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_exactly_its_size() {
        // A stream with one stored block: "abc".
        let stored = [0x78, 0x01, 1, 3, 0, 0xfc, 0xff, b'a', b'b', b'c', 0x02, 0x4d, 0x01, 0x27];
        assert_eq!(decompress(&stored, 3), Ok(b"abc".to_vec()));
        for size in [0, 2, 4] {
            assert_eq!(decompress(&stored, size), Err(Errno::EIO), "{size}");
        }
        let mut wrong = stored;
        wrong[7] = b'b';
        assert_eq!(decompress(&wrong, 3), Err(Errno::EIO), "the checksum is checked");
        assert_eq!(decompress(&stored[..12], 3), Err(Errno::EIO));
        assert_eq!(decompress(&[], 3), Err(Errno::EIO));
    }
}
