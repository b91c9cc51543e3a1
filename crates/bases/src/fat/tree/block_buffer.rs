//! The block of a file that was read last, where the options have files read in blocks: the next small read may find its data there.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use vnode::{Result, zeros};

use super::inode::Inode;

/// A block in memory.
struct Block {
    number: u64,
    /// Version of the file's data, see [`Inode::data_version`].
    version: u64,
    bytes: Vec<u8>,
}

/// The last block that was read of an open file.
#[derive(Default)]
pub(crate) struct BlockBuffer(Mutex<Option<Block>>);

impl BlockBuffer {
    /// Reads from a file of `size` bytes, whose state the caller holds locked. The buffer ends within the file.
    ///
    /// # Errors
    /// `EIO`, `ENOMEM`.
    pub(crate) fn read(&self, inode: &Inode, size: u64, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let block_size = u64::from(inode.volume.options.block);
        if block_size == 0 {
            return inode.volume.access().read(&inode.chain, offset, buffer);
        }
        let mut position = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let within = position % block_size;
            let length = (block_size - within).min(rest.len() as u64);
            let (part, after) = rest.split_at_mut(length as usize);
            if length == block_size {
                inode.volume.access().read(&inode.chain, position, part)?;
            } else {
                self.copy(inode, size, (position / block_size, within), part)?;
            }
            (position, rest) = (position + length, after);
        }
        Ok(())
    }

    /// Copies a part of a block, which is read unless it was the last one.
    fn copy(&self, inode: &Inode, size: u64, (number, within): (u64, u64), part: &mut [u8]) -> Result<()> {
        let version = inode.data_version.load(Ordering::Relaxed);
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = |block: &Block| block.number == number && block.version == version;
        if !last.as_ref().is_some_and(is_current) {
            let block_size = u64::from(inode.volume.options.block);
            let start = number * block_size;
            let mut bytes = zeros(size.saturating_sub(start).min(block_size) as usize)?;
            *last = None;
            inode.volume.access().read(&inode.chain, start, &mut bytes)?;
            *last = Some(Block { number, version, bytes });
        }
        let bytes = last.as_ref().map_or(&[][..], |block| &block.bytes);
        let found = bytes.get(within as usize..).and_then(|bytes| bytes.get(..part.len()));
        part.copy_from_slice(found.ok_or(vnode::Errno::EIO)?);
        Ok(())
    }
}
