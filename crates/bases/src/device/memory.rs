//! A device in memory, for tests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use vnode::Result;

use super::{Device, SECTOR_SIZE_MIN, check_range};

/// Size in bytes of the pages that the contents are kept in.
const PAGE_SIZE: usize = 4096;

type Page = [u8; PAGE_SIZE];

/// A device in memory, for tests: initially zeros, which take no memory.
///
/// A clone has the same contents, and shares the memory of what neither of them has written since.
pub struct MemoryDevice {
    size: u64,
    sector_size: u32,
    /// The pages that have been written, by number.
    pages: RwLock<BTreeMap<u64, Arc<Page>>>,
}

impl MemoryDevice {
    /// Returns a device of `size` zeros.
    pub fn new(size: u64) -> Self {
        Self { size, sector_size: SECTOR_SIZE_MIN, pages: RwLock::default() }
    }

    /// Returns a device with these contents.
    pub fn from_bytes(contents: &[u8]) -> Self {
        let device = Self::new(contents.len() as u64);
        device.copy_in(0, contents);
        device
    }

    /// Sets the size in bytes, a power of two from 512, of the sectors that are not torn and that partition tables count.
    pub fn with_sector_size(self, sector_size: u32) -> Self {
        assert!(sector_size >= SECTOR_SIZE_MIN && sector_size.is_power_of_two(), "no sector size: {sector_size}");
        Self { sector_size, ..self }
    }

    /// Returns the contents.
    pub fn contents(&self) -> Vec<u8> {
        let mut contents = vec![0; self.size as usize];
        self.copy_out(0, &mut contents);
        contents
    }

    /// Returns the memory in bytes that the contents take.
    pub fn allocated_bytes(&self) -> u64 {
        (self.read_pages().len() * PAGE_SIZE) as u64
    }

    /// Sets a range to zero and frees the memory of whole pages in it. The range must end within the device.
    fn zero(&self, offset: u64, length: u64) {
        let (end, page_size) = (offset + length, PAGE_SIZE as u64);
        let mut pages = self.write_pages();
        let numbers: Vec<u64> =
            pages.range(offset / page_size..end.div_ceil(page_size)).map(|(page, _)| *page).collect();
        for number in numbers {
            let start = number * page_size;
            if offset <= start && start + page_size <= end {
                pages.remove(&number);
            } else if let Some(page) = pages.get_mut(&number) {
                let within = offset.saturating_sub(start) as usize..(end - start).min(page_size) as usize;
                Arc::make_mut(page)[within].fill(0);
            }
        }
    }

    fn copy_out(&self, offset: u64, buffer: &mut [u8]) {
        let pages = self.read_pages();
        for (number, within, range) in pieces(offset, buffer.len()) {
            match pages.get(&number) {
                Some(page) => buffer[range.clone()].copy_from_slice(&page[within..within + range.len()]),
                None => buffer[range].fill(0),
            }
        }
    }

    fn copy_in(&self, offset: u64, data: &[u8]) {
        let mut pages = self.write_pages();
        for (number, within, range) in pieces(offset, data.len()) {
            let page = pages.entry(number).or_insert_with(|| Arc::new([0; PAGE_SIZE]));
            Arc::make_mut(page)[within..within + range.len()].copy_from_slice(&data[range]);
        }
    }

    fn read_pages(&self) -> RwLockReadGuard<'_, BTreeMap<u64, Arc<Page>>> {
        self.pages.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_pages(&self) -> RwLockWriteGuard<'_, BTreeMap<u64, Arc<Page>>> {
        self.pages.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the parts of a range that are in one page each: the number of the page, the offset in it, and the bytes of the range.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let position = offset + done as u64;
        let within = (position % PAGE_SIZE as u64) as usize;
        let range = done..length.min(done + PAGE_SIZE - within);
        done = range.end;
        (!range.is_empty()).then_some((position / PAGE_SIZE as u64, within, range))
    })
}

impl Clone for MemoryDevice {
    fn clone(&self) -> Self {
        Self { size: self.size, sector_size: self.sector_size, pages: RwLock::new(self.read_pages().clone()) }
    }
}

impl fmt::Debug for MemoryDevice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MemoryDevice").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Device for MemoryDevice {
    fn size(&self) -> u64 {
        self.size
    }

    fn sector_size(&self) -> u32 {
        self.sector_size
    }

    fn logical_sector_size(&self) -> Option<u32> {
        // Without a size of its own, it is as an image in a file.
        (self.sector_size != SECTOR_SIZE_MIN).then_some(self.sector_size)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_range(self.size, offset, buffer.len() as u64)?;
        self.copy_out(offset, buffer);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        check_range(self.size, offset, data.len() as u64)?;
        self.copy_in(offset, data);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Sets the range to zero.
    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_range(self.size, offset, length)?;
        self.zero(offset, length);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use vnode::Errno;

    use super::*;

    #[test]
    fn ranges_across_pages_are_written_and_read() {
        let device = MemoryDevice::new(u64::MAX);
        let data: Vec<u8> = (0..10_000_u32).map(|byte| byte as u8).collect();
        device.write_at(1 << 40, &data).unwrap();
        device.write_at((1 << 40) + 4_000, b"abc").unwrap();
        let mut read = vec![7; 10_002];
        device.read_at((1 << 40) - 1, &mut read).unwrap();
        assert_eq!((read[0], &read[1..4_001], &read[4_001..4_004]), (0, &data[..4_000], &b"abc"[..]));
        assert_eq!((&read[4_004..10_001], read[10_001]), (&data[4_003..], 0));
        assert_eq!(device.allocated_bytes(), 3 * 4096);
    }

    #[test]
    fn ranges_beyond_the_end_fail() {
        let device = MemoryDevice::from_bytes(b"12345");
        let mut buffer = [0; 2];
        assert_eq!(device.read_at(4, &mut buffer), Err(Errno::EIO));
        assert_eq!(device.write_at(u64::MAX, b"x"), Err(Errno::EIO));
        assert_eq!(device.discard(5, 1), Err(Errno::EIO));
        assert_eq!(device.contents(), b"12345");
    }

    #[test]
    fn clones_are_independent() {
        let device = MemoryDevice::from_bytes(&[1; 5_000]);
        let clone = device.clone();
        clone.write_at(4_999, &[2]).unwrap();
        device.write_at(0, &[3]).unwrap();
        assert_eq!((device.contents()[4_999], clone.contents()[0]), (1, 1));
    }

    #[test]
    fn discarded_ranges_are_zero_and_take_no_memory() {
        let device = MemoryDevice::from_bytes(&[1; 5 * 4096]);
        device.discard(100, 3 * 4096).unwrap();
        let contents = device.contents();
        assert!(contents[..100].iter().chain(&contents[100 + 3 * 4096..]).all(|byte| *byte == 1));
        assert!(contents[100..100 + 3 * 4096].iter().all(|byte| *byte == 0));
        assert_eq!(device.allocated_bytes(), 3 * 4096);
        device.discard(0, 5 * 4096).unwrap();
        assert_eq!(device.allocated_bytes(), 0);
    }
}
