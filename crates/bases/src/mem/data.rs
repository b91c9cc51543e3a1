//! The data of a regular file: a sparse map of pages, so that holes cost nothing.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use vnode::{Errno, Result, SeekTarget};

use super::budget::Budget;
use super::memory;

/// Allocation unit in bytes.
pub(crate) const PAGE_SIZE: u64 = 4096;

/// Maximum memory of a page in the map in bytes, without its contents.
const RESERVED_BYTES: u64 = 64;

/// Maximum size of a file in bytes, as Linux's `MAX_LFS_FILESIZE`.
pub(crate) const SIZE_MAX: u64 = i64::MAX as u64;

/// The contents of a regular file.
///
/// Invariants: each page in the map is one unit taken from the budget; bytes of a page past `size` are zero; pages
/// wholly past `size` are reserved only.
#[derive(Default)]
pub(crate) struct Data {
    size: u64,
    /// By page number. `None` is a page that is reserved but was never written: it reads as zeros.
    pages: BTreeMap<u64, Option<Box<[u8]>>>,
}

impl Data {
    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of pages taken from the budget.
    pub(crate) fn page_count(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Reads at `offset`; returns fewer bytes than requested only at the end.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        if offset >= self.size || buffer.is_empty() {
            return 0;
        }
        let length = buffer.len().min(usize::try_from(self.size - offset).unwrap_or(usize::MAX));
        let buffer = &mut buffer[..length];
        let end = offset + length as u64;
        let mut done = 0;
        for (&number, page) in self.pages.range(offset / PAGE_SIZE..=(end - 1) / PAGE_SIZE) {
            let Some(page) = page else { continue };
            let start = offset.max(number * PAGE_SIZE);
            let end_in_page = end.min((number + 1) * PAGE_SIZE);
            let range = (start - offset) as usize..(end_in_page - offset) as usize;
            buffer[done..range.start].fill(0);
            done = range.end;
            buffer[range].copy_from_slice(within(page, number, start, end_in_page));
        }
        buffer[done..].fill(0);
        length
    }

    /// Writes at `offset`; writes fewer bytes than requested if space runs out half-way, or at the maximum size.
    ///
    /// # Errors
    /// `EFBIG` from the maximum size on, `ENOSPC` if not one byte fits, in the budget or in memory.
    pub(crate) fn write(&mut self, space: &Budget, offset: u64, data: &[u8]) -> Result<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        if offset >= SIZE_MAX {
            return Err(Errno::EFBIG);
        }
        let length = data.len().min(usize::try_from(SIZE_MAX - offset).unwrap_or(usize::MAX));
        let mut written = 0;
        while written < length {
            let position = offset + written as u64;
            let start = (position % PAGE_SIZE) as usize;
            let part = &data[written..length.min(written + PAGE_SIZE as usize - start)];
            if self.write_in_page(space, position / PAGE_SIZE, start, part).is_err() {
                break;
            }
            written += part.len();
        }
        if written == 0 {
            return Err(Errno::ENOSPC);
        }
        self.size = self.size.max(offset + written as u64);
        Ok(written)
    }

    fn write_in_page(&mut self, space: &Budget, number: u64, start: usize, part: &[u8]) -> Result<()> {
        match self.pages.entry(number) {
            Entry::Occupied(mut entry) => match entry.get_mut() {
                Some(page) => page[start..start + part.len()].copy_from_slice(part),
                reserved => *reserved = Some(page_with(start, part)?),
            },
            Entry::Vacant(entry) => {
                space.take(1)?;
                let page = page_with(start, part).inspect_err(|_| space.release(1))?;
                entry.insert(Some(page));
            }
        }
        Ok(())
    }

    /// Sets the size; space past it is returned.
    ///
    /// # Errors
    /// `EFBIG` past the maximum size.
    pub(crate) fn resize(&mut self, space: &Budget, size: u64) -> Result<()> {
        if size > SIZE_MAX {
            return Err(Errno::EFBIG);
        }
        if size <= self.size {
            let removed = self.pages.split_off(&size.div_ceil(PAGE_SIZE));
            space.release(removed.len() as u64);
            self.zero_in_page(size, size.next_multiple_of(PAGE_SIZE));
        }
        self.size = size;
        Ok(())
    }

    /// Reserves the pages of a range, all or none, and with `grow` raises the size to its end.
    ///
    /// # Errors
    /// `ENOSPC`.
    pub(crate) fn reserve(&mut self, space: &Budget, start: u64, end: u64, grow: bool) -> Result<()> {
        let pages = start / PAGE_SIZE..end.div_ceil(PAGE_SIZE);
        let missing = (pages.end - pages.start) - self.pages.range(pages.clone()).count() as u64;
        space.take(missing)?;
        memory::check_available(missing.saturating_mul(RESERVED_BYTES)).inspect_err(|_| space.release(missing))?;
        if missing > 0 {
            for number in pages {
                self.pages.entry(number).or_insert(None);
            }
        }
        if grow {
            self.size = self.size.max(end);
        }
        Ok(())
    }

    /// Turns a range into a hole; the size stays.
    pub(crate) fn punch(&mut self, space: &Budget, start: u64, end: u64) {
        self.zero_edges(start, end);
        let (first, last) = (start.div_ceil(PAGE_SIZE), end / PAGE_SIZE);
        if first < last {
            space.release(self.remove_pages(first, last));
        }
    }

    /// Makes a range read as zeros with its space reserved, and with `grow` raises the size to its end.
    ///
    /// # Errors
    /// `ENOSPC`.
    pub(crate) fn zero(&mut self, space: &Budget, start: u64, end: u64, grow: bool) -> Result<()> {
        self.reserve(space, start, end, grow)?;
        self.zero_edges(start, end);
        let (first, last) = (start.div_ceil(PAGE_SIZE), end / PAGE_SIZE);
        if first < last {
            self.pages.range_mut(first..last).for_each(|(_, page)| *page = None);
        }
        Ok(())
    }

    /// Removes a range of whole pages, moving down the data after it.
    ///
    /// # Errors
    /// `EINVAL` for partial pages, and for a range that reaches the end.
    pub(crate) fn collapse(&mut self, space: &Budget, start: u64, end: u64) -> Result<()> {
        if !start.is_multiple_of(PAGE_SIZE) || !end.is_multiple_of(PAGE_SIZE) || end >= self.size {
            return Err(Errno::EINVAL);
        }
        space.release(self.remove_pages(start / PAGE_SIZE, end / PAGE_SIZE));
        let shift = (end - start) / PAGE_SIZE;
        let tail = self.pages.split_off(&(end / PAGE_SIZE));
        self.pages.extend(tail.into_iter().map(|(number, page)| (number - shift, page)));
        self.size -= end - start;
        Ok(())
    }

    /// Inserts a hole of whole pages before `start`.
    ///
    /// # Errors
    /// `EINVAL` for partial pages, and at or past the end; `EFBIG` if the file would grow too large.
    pub(crate) fn insert(&mut self, start: u64, length: u64) -> Result<()> {
        if !start.is_multiple_of(PAGE_SIZE) || !length.is_multiple_of(PAGE_SIZE) || start >= self.size {
            return Err(Errno::EINVAL);
        }
        if self.size > SIZE_MAX - length {
            return Err(Errno::EFBIG);
        }
        let shift = length / PAGE_SIZE;
        let tail = self.pages.split_off(&(start / PAGE_SIZE));
        self.pages.extend(tail.into_iter().map(|(number, page)| (number + shift, page)));
        self.size += length;
        Ok(())
    }

    /// Returns the offset of the next data or hole at or after `offset`.
    ///
    /// # Errors
    /// `ENXIO` at or past the end, and if only a hole follows when seeking data.
    pub(crate) fn seek(&self, offset: u64, target: SeekTarget) -> Result<u64> {
        if offset >= self.size {
            return Err(Errno::ENXIO);
        }
        let mut pages = self.pages.range(offset / PAGE_SIZE..).filter(|(_, page)| page.is_some());
        match target {
            SeekTarget::Data => {
                let (&number, _) = pages.next().ok_or(Errno::ENXIO)?;
                Ok(offset.max(number * PAGE_SIZE))
            }
            SeekTarget::Hole => {
                let mut next = offset / PAGE_SIZE;
                while pages.next().is_some_and(|(&number, _)| number == next) {
                    next += 1;
                }
                Ok(offset.max(next.saturating_mul(PAGE_SIZE)).min(self.size))
            }
        }
    }

    /// Zeros the partial pages at both ends of a range.
    fn zero_edges(&mut self, start: u64, end: u64) {
        let (first, last) = (start.next_multiple_of(PAGE_SIZE), end - end % PAGE_SIZE);
        if first > last {
            self.zero_in_page(start, end);
        } else {
            self.zero_in_page(start, first);
            self.zero_in_page(last, end);
        }
    }

    /// Zeros a range within one page.
    fn zero_in_page(&mut self, start: u64, end: u64) {
        if start == end {
            return;
        }
        if let Some(Some(page)) = self.pages.get_mut(&(start / PAGE_SIZE)) {
            let base = start - start % PAGE_SIZE;
            page[(start - base) as usize..(end - base) as usize].fill(0);
        }
    }

    /// Removes the pages in `first..last`, and returns their number.
    fn remove_pages(&mut self, first: u64, last: u64) -> u64 {
        let mut middle = self.pages.split_off(&first);
        let mut tail = middle.split_off(&last);
        self.pages.append(&mut tail);
        middle.len() as u64
    }
}

/// Returns a new page of zeros, with `part` from `start` on.
fn page_with(start: usize, part: &[u8]) -> Result<Box<[u8]>> {
    if part.len() == PAGE_SIZE as usize {
        return memory::copy(part);
    }
    let mut page = memory::zeros(PAGE_SIZE as usize)?;
    page[start..start + part.len()].copy_from_slice(part);
    Ok(page)
}

/// Returns the bytes of page `number` between the file offsets `start` and `end`.
fn within(page: &[u8], number: u64, start: u64, end: u64) -> &[u8] {
    let base = number * PAGE_SIZE;
    &page[(start - base) as usize..(end - base) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with the expected contents as a plain vector.
    struct Model {
        bytes: Vec<u8>,
    }

    impl Model {
        fn write(&mut self, offset: usize, data: &[u8]) {
            if self.bytes.len() < offset + data.len() {
                self.bytes.resize(offset + data.len(), 0);
            }
            self.bytes[offset..offset + data.len()].copy_from_slice(data);
        }

        fn zero(&mut self, start: usize, end: usize) {
            let end = end.min(self.bytes.len());
            if start < end {
                self.bytes[start..end].fill(0);
            }
        }
    }

    #[test]
    fn random_changes_leave_the_same_bytes_as_in_a_vector() {
        let seed: u64 =
            std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
        println!("SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let space = Budget::new(1000);
        let (mut data, mut model) = (Data::default(), Model { bytes: Vec::new() });
        for step in 0..5000 {
            let (start, length) = (random.usize(0..50_000), random.usize(1..12_000));
            let (from, to) = (start as u64, (start + length) as u64);
            match random.u8(0..9) {
                0..=2 => {
                    let bytes: Vec<u8> = (0..length).map(|_| random.u8(1..)).collect();
                    assert_eq!(data.write(&space, from, &bytes), Ok(length));
                    model.write(start, &bytes);
                }
                3 => {
                    data.resize(&space, from).unwrap();
                    model.bytes.resize(start, 0);
                }
                4 => {
                    data.punch(&space, from, to);
                    model.zero(start, start + length);
                }
                5 => {
                    let grow = random.bool();
                    data.zero(&space, from, to, grow).unwrap();
                    if grow && model.bytes.len() < start + length {
                        model.bytes.resize(start + length, 0);
                    }
                    model.zero(start, start + length);
                }
                6 => {
                    data.reserve(&space, from, to, false).unwrap();
                }
                7 => {
                    let (from, to) = (from / PAGE_SIZE * PAGE_SIZE, to / PAGE_SIZE * PAGE_SIZE);
                    if from < to && data.collapse(&space, from, to).is_ok() {
                        model.bytes.drain(from as usize..to as usize);
                    }
                }
                _ => {
                    let (from, length) = (from / PAGE_SIZE * PAGE_SIZE, PAGE_SIZE * random.u64(1..3));
                    if data.size() < 60_000 && data.insert(from, length).is_ok() {
                        let hole = std::iter::repeat_n(0, length as usize);
                        model.bytes.splice(from as usize..from as usize, hole);
                    }
                }
            }
            let mut bytes = vec![1; model.bytes.len() + 10];
            let read = data.read(0, &mut bytes);
            assert_eq!(data.size(), model.bytes.len() as u64, "step {step}");
            assert!(bytes[..read] == model.bytes[..], "step {step}");
            assert_eq!(space.limit() - space.left(), data.page_count(), "step {step}");
        }
    }

    #[test]
    fn holes_cost_nothing_up_to_the_largest_size() {
        let space = Budget::new(2);
        let mut data = Data::default();
        assert_eq!(data.write(&space, SIZE_MAX - 1, b"xy"), Ok(1));
        assert_eq!(data.write(&space, SIZE_MAX, b"x"), Err(Errno::EFBIG));
        assert_eq!((data.size(), data.page_count()), (SIZE_MAX, 1));
        assert_eq!(data.seek(5, SeekTarget::Data), Ok(SIZE_MAX / PAGE_SIZE * PAGE_SIZE));
        assert_eq!(data.seek(SIZE_MAX - 1, SeekTarget::Hole), Ok(SIZE_MAX));
        assert_eq!(data.resize(&space, SIZE_MAX + 1), Err(Errno::EFBIG));
        let mut byte = [0; 4];
        assert_eq!(data.read(SIZE_MAX - 1, &mut byte), 1);
        assert_eq!(byte[0], b'x');
    }

    #[test]
    fn a_write_that_runs_out_of_space_is_short_and_then_fails() {
        let space = Budget::new(2);
        let mut data = Data::default();
        assert_eq!(data.write(&space, 4000, &[7; 10_000]), Ok(2 * 4096 - 4000));
        assert_eq!(data.write(&space, 8192, b"x"), Err(Errno::ENOSPC));
        assert_eq!(data.reserve(&space, 0, 3 * 4096, true), Err(Errno::ENOSPC));
        assert_eq!((data.size(), data.page_count()), (8192, 2));
    }

    #[test]
    fn reserved_pages_are_holes_that_have_their_space() {
        let space = Budget::new(10);
        let mut data = Data::default();
        data.reserve(&space, 0, 3 * 4096, true).unwrap();
        assert_eq!((data.size(), data.page_count()), (3 * 4096, 3));
        assert_eq!(data.seek(0, SeekTarget::Data), Err(Errno::ENXIO));
        data.write(&space, 5000, b"x").unwrap();
        assert_eq!(data.seek(0, SeekTarget::Data), Ok(4096));
        assert_eq!(data.seek(4096, SeekTarget::Hole), Ok(8192));
    }
}
