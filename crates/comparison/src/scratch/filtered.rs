//! Files whose data have another form below: what rot13fs, cryptfs, zstdfs, uuencodefs and sealfs stand on.
//!
//! A file is cut into blocks, each of which has a place of its own below. A code that keeps sizes fills it; another has
//! room for more, says in front how much it needs, and leaves a hole of the rest. The last block may be shorter. A
//! whole block of zeros below stands for one of zeros above.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::sync::{PoisonError, RwLock};

use fuser::{FileAttr, FileType};
use rustix::fs::{FallocateFlags, fallocate, fstat, ftruncate};
use rustix::io::{Errno, pwrite};

use super::pass_through::{Caller, Operations, PassThrough, Result, SetAttributes, read_all};

/// The bytes in front of a block that say how many it needs: one more than that, little-endian.
const LENGTH_BYTES: usize = 4;
/// The bytes that a file system makes holes of.
const PAGE_BYTES: usize = 4096;
/// How many files can be written at a time.
const LOCKS: usize = 64;

/// A code.
pub trait Code: Send + Sync + 'static {
    /// Bytes of a block.
    const BLOCK: usize;
    /// How many more it has room for below: 0 for a code that keeps sizes.
    const ROOM: usize;

    /// Encodes the block of a number.
    ///
    /// # Errors
    /// If it cannot.
    fn encode(&self, number: u64, plain: &[u8]) -> Result<Vec<u8>>;

    /// Decodes the block of a number, which had that length.
    ///
    /// # Errors
    /// If it cannot.
    fn decode(&self, number: u64, coded: &[u8], length: usize) -> Result<Vec<u8>>;
}

/// A file system that encodes data.
pub struct Filtered<C> {
    below: PassThrough,
    /// How it does.
    pub code: C,
    locks: [RwLock<()>; LOCKS],
}

impl<C: Code> Filtered<C> {
    /// Bytes that a block has below.
    const SLOT: usize = C::BLOCK + C::ROOM;

    /// Shows what lies there, decoded.
    pub fn over(below: PassThrough, code: C) -> Self {
        Self { below, code, locks: [const { RwLock::new(()) }; LOCKS] }
    }

    /// The size of a file that has so many bytes below.
    fn size_above(size: u64) -> u64 {
        let (blocks, rest) = (size / Self::SLOT as u64, size % Self::SLOT as u64);
        blocks * C::BLOCK as u64 + rest.saturating_sub(C::ROOM as u64)
    }

    /// How many bytes a file of that size has below.
    fn size_below(size: u64) -> Result<u64> {
        let (blocks, rest) = (size / C::BLOCK as u64, size % C::BLOCK as u64);
        let last = if rest == 0 { 0 } else { rest + C::ROOM as u64 };
        let whole = blocks.checked_mul(Self::SLOT as u64).and_then(|whole| whole.checked_add(last));
        whole.filter(|&size| size <= i64::MAX as u64).ok_or(Errno::FBIG)
    }

    fn size(&self, file: &OwnedFd) -> Result<u64> {
        Ok(Self::size_above(fstat(file)?.st_size as u64))
    }

    fn lock(&self, number: u64) -> &RwLock<()> {
        &self.locks[number as usize % LOCKS]
    }

    fn decode(&self, number: u64, slot: &[u8]) -> Result<Vec<u8>> {
        let length = slot.len().saturating_sub(C::ROOM);
        if slot.len() == Self::SLOT && slot.iter().all(|&byte| byte == 0) {
            return Ok(vec![0; length]);
        }
        let coded = match slot.split_first_chunk::<LENGTH_BYTES>() {
            Some((needed, rest)) if C::ROOM > 0 => {
                let needed = (u32::from_le_bytes(*needed) as usize).checked_sub(1);
                needed.and_then(|needed| rest.get(..needed)).ok_or(Errno::BADMSG)?
            }
            _ => slot,
        };
        let mut plain = self.code.decode(number, coded, length)?;
        plain.resize(length, 0);
        Ok(plain)
    }

    fn encode(&self, number: u64, plain: &[u8]) -> Result<Vec<u8>> {
        let coded = self.code.encode(number, plain)?;
        let mut slot = Vec::with_capacity(plain.len() + C::ROOM);
        if C::ROOM > 0 {
            slot.extend((coded.len() as u32 + 1).to_le_bytes());
        }
        slot.extend(coded);
        let fits = slot.len() <= plain.len() + C::ROOM;
        slot.resize(plain.len() + C::ROOM, 0);
        let is_hole = slot.iter().all(|&byte| byte == 0) && plain.iter().any(|&byte| byte != 0);
        if fits && !is_hole { Ok(slot) } else { Err(Errno::IO) }
    }

    /// Reads what a file has of a range.
    fn read_range(&self, file: &OwnedFd, offset: u64, length: usize) -> Result<Vec<u8>> {
        let end = self.size(file)?.min(offset.saturating_add(length as u64));
        if offset >= end {
            return Ok(Vec::new());
        }
        let (first, skipped) = (offset / C::BLOCK as u64, (offset % C::BLOCK as u64) as usize);
        let length = (end - offset) as usize;
        let slots = (skipped + length).div_ceil(C::BLOCK) * Self::SLOT;
        let coded = read_all(file, first * Self::SLOT as u64, slots)?;
        let mut plain = Vec::with_capacity(skipped + length);
        for (number, slot) in (first..).zip(coded.chunks(Self::SLOT)) {
            plain.extend(self.decode(number, slot)?);
        }
        plain.drain(..skipped);
        plain.truncate(length);
        Ok(plain)
    }

    /// Writes whole blocks, of which the last may be shorter if it ends the file.
    fn write_blocks(&self, file: &OwnedFd, first: u64, plain: &[u8]) -> Result<()> {
        let mut slots = Vec::new();
        for (number, plain) in (first..).zip(plain.chunks(C::BLOCK)) {
            slots.extend(self.encode(number, plain)?);
        }
        let start = first * Self::SLOT as u64;
        reserve(file, start, slots.len())?;
        let mut done = 0;
        while done < slots.len() {
            done += pwrite(file, &slots[done..], start + done as u64)?;
        }
        if C::ROOM > 0 { punch(file, start, slots.chunks(Self::SLOT)) } else { Ok(()) }
    }

    /// Writes anywhere in a file, or behind its end.
    fn write_range(&self, file: &OwnedFd, offset: u64, data: &[u8]) -> Result<()> {
        let (block, end) = (C::BLOCK as u64, offset.saturating_add(data.len() as u64));
        Self::size_below(end)?;
        let size = self.size(file)?;
        if offset > size {
            self.resize(file, size, offset)?;
        }
        let start = offset - offset % block;
        // What the first and the last block hold besides is kept.
        let stop = size.min(end.next_multiple_of(block)).max(end);
        let last = (end - 1) / block * block;
        let mut plain = self.read_range(file, start, (offset - start) as usize)?;
        plain.extend(data);
        if stop > end {
            let kept = self.read_range(file, last, (stop - last) as usize)?;
            plain.extend(&kept[(end - last) as usize..]);
        }
        self.write_blocks(file, start / block, &plain)
    }

    /// Makes a file of a size shorter or longer, by zeros.
    fn resize(&self, file: &OwnedFd, size: u64, new: u64) -> Result<()> {
        let (block, below) = (C::BLOCK as u64, Self::size_below(new)?);
        // The last block of the shorter of the two is encoded anew: it ends elsewhere.
        let start = size.min(new) / block * block;
        if size != new && size.min(new) > start {
            let mut plain = self.read_range(file, start, (size.min(new) - start) as usize)?;
            plain.resize((new - start).min(block) as usize, 0);
            self.write_blocks(file, start / block, &plain)?;
        }
        ftruncate(file, below)?;
        let last = new / block * block;
        // What is no whole block is no hole.
        if last >= size && new > last {
            self.write_blocks(file, last / block, &vec![0; (new - last) as usize])?;
        }
        Ok(())
    }

    /// Makes zeros of a range that ends in the file: holes where whole blocks are.
    fn zero(&self, file: &OwnedFd, offset: u64, end: u64) -> Result<()> {
        let (block, slot) = (C::BLOCK as u64, Self::SLOT as u64);
        let (first, last) = (offset.div_ceil(block), end / block);
        if first >= last {
            return self.write_range(file, offset, &vec![0; (end - offset) as usize]);
        }
        for (from, to) in [(offset, first * block), (last * block, end)] {
            if from < to {
                self.write_range(file, from, &vec![0; (to - from) as usize])?;
            }
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(file, hole, first * slot, (last - first) * slot)
    }

    /// Reserves room for a range, which ends in the file or makes it longer if it may.
    fn allocate(&self, file: &OwnedFd, offset: u64, end: u64, keeps_size: bool) -> Result<()> {
        let (start, size) = (offset / C::BLOCK as u64 * Self::SLOT as u64, self.size(file)?);
        fallocate(file, FallocateFlags::KEEP_SIZE, start, Self::size_below(end)? - start)?;
        if end > size && !keeps_size { self.resize(file, size, end) } else { Ok(()) }
    }

    /// Opens a file so that parts of blocks can be written: for that it has to be read.
    fn widen(&self, number: u64, handle: u64, flags: i32) -> Result<u64> {
        if flags & libc::O_ACCMODE == libc::O_WRONLY {
            self.below.widen(number, handle).inspect_err(|_| self.below.release(handle))?;
        }
        Ok(handle)
    }

    fn truncate(&self, caller: &Caller, number: u64, handle: u64, size: u64) -> Result<()> {
        let _one = self.lock(number).write().unwrap_or_else(PoisonError::into_inner);
        let file = self.below.file(handle)?;
        let _acting = caller.act_without_groups()?;
        self.resize(&file, self.size(&file)?, size)
    }
}

/// Takes the room that is to be written, so that a full disk leaves blocks as they were. Some file systems cannot.
fn reserve(file: &OwnedFd, start: u64, length: usize) -> Result<()> {
    if length == 0 {
        return Ok(());
    }
    is_supported(fallocate(file, FallocateFlags::KEEP_SIZE, start, length as u64))
}

/// Makes holes of the zeros behind what blocks need. A file system that has no holes keeps them.
fn punch<'a>(file: &OwnedFd, mut start: u64, slots: impl Iterator<Item = &'a [u8]>) -> Result<()> {
    for slot in slots {
        let needed = slot.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let from = (start + needed as u64).next_multiple_of(PAGE_BYTES as u64);
        start += slot.len() as u64;
        if from < start {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            is_supported(fallocate(file, hole, from, start - from))?;
        }
    }
    Ok(())
}

/// What went wrong, but not that a file system cannot do it.
fn is_supported(done: Result<()>) -> Result<()> {
    if done == Err(Errno::OPNOTSUPP) { Ok(()) } else { done }
}

impl<C: Code> Operations for Filtered<C> {
    fn below(&self) -> &dyn Operations {
        &self.below
    }

    fn present(&self, found: FileAttr) -> FileAttr {
        match found.kind {
            FileType::RegularFile => FileAttr { size: Self::size_above(found.size), ..found },
            _ => found,
        }
    }

    fn setattr(&self, caller: &Caller, number: u64, changes: &SetAttributes) -> Result<FileAttr> {
        match (changes.size, changes.handle) {
            (Some(size), Some(handle)) => self.truncate(caller, number, handle, size)?,
            (Some(size), None) => {
                let handle = self.open(caller, number, libc::O_WRONLY)?;
                let done = self.truncate(caller, number, handle, size);
                self.below.release(handle);
                done?;
            }
            (None, _) => {}
        }
        self.below.setattr(caller, number, &SetAttributes { size: None, ..*changes })
    }

    fn create(&self, caller: &Caller, parent: u64, name: &OsStr, mode: u32, flags: i32) -> Result<(FileAttr, u64)> {
        let (made, handle) = self.below.create(caller, parent, name, mode, flags)?;
        let widened = self.widen(made.ino.0, handle, flags).inspect_err(|_| self.below.forget(made.ino.0, 1));
        Ok((made, widened?))
    }

    fn open(&self, caller: &Caller, number: u64, flags: i32) -> Result<u64> {
        self.widen(number, self.below.open(caller, number, flags)?, flags)
    }

    fn read(&self, number: u64, handle: u64, offset: u64, length: usize) -> Result<Vec<u8>> {
        let _shared = self.lock(number).read().unwrap_or_else(PoisonError::into_inner);
        self.read_range(&*self.below.file(handle)?, offset, length)
    }

    fn write(&self, caller: &Caller, number: u64, handle: u64, offset: u64, data: &[u8]) -> Result<usize> {
        let _one = self.lock(number).write().unwrap_or_else(PoisonError::into_inner);
        let _acting = caller.act_without_groups()?;
        if !data.is_empty() {
            self.write_range(&*self.below.file(handle)?, offset, data)?;
        }
        Ok(data.len())
    }

    fn fallocate(&self, number: u64, handle: u64, mode: i32, offset: u64, length: u64) -> Result<()> {
        let _one = self.lock(number).write().unwrap_or_else(PoisonError::into_inner);
        let file = self.below.file(handle)?;
        let (mode, end) = (FallocateFlags::from_bits_retain(mode as u32), offset.saturating_add(length));
        let keeps_size = mode.contains(FallocateFlags::KEEP_SIZE);
        if mode.difference(FallocateFlags::KEEP_SIZE).is_empty() {
            return self.allocate(&file, offset, end, keeps_size);
        }
        if mode != FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE {
            return Err(Errno::OPNOTSUPP);
        }
        let end = end.min(self.size(&file)?);
        if offset < end { self.zero(&file, offset, end) } else { Ok(()) }
    }

    fn lseek(&self, _number: u64, handle: u64, offset: u64, whence: i32) -> Result<u64> {
        // All is said to be data: which holes below are holes above is not looked for.
        let size = self.size(&*self.below.file(handle)?)?;
        match whence {
            _ if offset >= size => Err(Errno::NXIO),
            libc::SEEK_HOLE => Ok(size),
            _ => Ok(offset),
        }
    }
}
