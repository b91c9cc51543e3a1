//! A partition of another device, and the choice of the partition or whole device that has certain contents.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use vnode::{Errno, Result};

use super::table::{PartitionTable, TableError};
use super::{Device, DeviceRef, SECTOR_SIZE_MIN, check_range};

/// A range of another device, as a device.
pub struct Partition {
    device: DeviceRef,
    start: u64,
    size: u64,
}

impl Partition {
    /// Returns the range of `size` bytes that begins at `start`, a multiple of 512.
    ///
    /// # Errors
    /// `EINVAL` if the range begins elsewhere, or does not end within the device.
    pub fn new(device: DeviceRef, start: u64, size: u64) -> Result<Self> {
        let is_aligned = start.is_multiple_of(u64::from(SECTOR_SIZE_MIN));
        check_range(device.size(), start, size).ok().filter(|()| is_aligned).ok_or(Errno::EINVAL)?;
        Ok(Self { device, start, size })
    }

    /// Returns offset on the device and length of what of a range is in the partition; `None` past the largest offset.
    fn part_within(&self, offset: u64, length: u64) -> Option<(u64, u64)> {
        Some((self.start.checked_add(offset)?, length.min(self.size.saturating_sub(offset))))
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Partition")
            .field("start", &self.start)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Device for Partition {
    fn size(&self) -> u64 {
        self.size
    }

    fn sector_size(&self) -> u32 {
        // A partition may begin within a sector of the device, whose sectors are then not its own.
        let alignment = 1 << self.start.trailing_zeros().min(31);
        self.device.sector_size().min(alignment)
    }

    fn logical_sector_size(&self) -> Option<u32> {
        self.device.logical_sector_size()
    }

    fn is_read_only(&self) -> bool {
        self.device.is_read_only()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_range(self.size, offset, buffer.len() as u64)?;
        self.device.read_at(self.start + offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        check_range(self.size, offset, data.len() as u64)?;
        self.device.write_at(self.start + offset, data)
    }

    fn flush(&self) -> Result<()> {
        self.device.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_range(self.size, offset, length)?;
        self.device.discard(self.start + offset, length)
    }

    fn prefetch(&self, offset: u64, length: u64) {
        if let Some((start, length)) = self.part_within(offset, length) {
            self.device.prefetch(start, length);
        }
    }

    fn start_writing_back(&self, offset: u64, length: u64) {
        if let Some((start, length)) = self.part_within(offset, length) {
            self.device.start_writing_back(start, length);
        }
    }

    fn backing(&self) -> Option<(BorrowedFd<'_>, u64)> {
        let (file, offset) = self.device.backing()?;
        Some((file, offset.checked_add(self.start)?))
    }
}

/// The reason why no part of a device is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionError {
    /// The device has no partition table.
    NoTable,
    /// The device has no partition of this number.
    Missing {
        /// The number.
        number: u32,
        /// The numbers of the partitions that it has.
        existing: Vec<u32>,
    },
    /// Neither the device nor any of its partitions has the contents; or the partition of this number has not.
    NoneFits(Option<u32>),
    /// Several partitions have the contents.
    Several(Vec<u32>),
    /// The partition table is damaged.
    Table(TableError),
    /// The device cannot be read.
    Device(Errno),
}

impl fmt::Display for PartitionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTable => formatter.write_str("it has no partition table; leave partition= out"),
            Self::Missing { number, existing } if existing.is_empty() => {
                write!(formatter, "it has no partition {number}, nor any other; leave partition= out")
            }
            Self::Missing { number, existing } => {
                write!(formatter, "it has no partition {number}; it has {}", all_of(existing))
            }
            Self::NoneFits(None) => formatter.write_str("neither it nor a partition of it has the expected contents"),
            Self::NoneFits(Some(number)) => {
                write!(formatter, "partition {number} has other contents; choose another with partition=")
            }
            Self::Several(numbers) => {
                write!(formatter, "it has several such partitions, {}; choose one with partition=", all_of(numbers))
            }
            Self::Table(error) => error.fmt(formatter),
            Self::Device(errno) => write!(formatter, "it cannot be read: {errno}"),
        }
    }
}

impl std::error::Error for PartitionError {}

/// Returns the volume with certain contents on a device: the whole device, or the only partition that has them; if a number is given,
/// the partition of that number, which has to have them.
///
/// `fits` returns whether a device has the contents. It is called at most twice for each partition.
///
/// # Errors
/// [`PartitionError`].
pub fn find_volume(
    device: &DeviceRef,
    number: Option<u32>,
    fits: &mut dyn FnMut(&DeviceRef) -> Result<bool>,
) -> std::result::Result<DeviceRef, PartitionError> {
    if number.is_none() && fits(device).map_err(PartitionError::Device)? {
        return Ok(Arc::clone(device));
    }
    let table = match PartitionTable::read(device.as_ref()) {
        Ok(Some(table)) => table,
        Ok(None) if number.is_some() => return Err(PartitionError::NoTable),
        Ok(None) => return Err(PartitionError::NoneFits(None)),
        Err(TableError::Device(errno)) => return Err(PartitionError::Device(errno)),
        Err(error) => return Err(PartitionError::Table(error)),
    };
    let result = find_partition(device, &table, number, fits);
    match result {
        Err(PartitionError::NoneFits(_)) => {
            // The table does not say in which sectors it counts, unless the device determines it.
            let other = table.with_other_sector_size(device.as_ref());
            other.map_or(result, |table| find_partition(device, &table, number, fits))
        }
        result => result,
    }
}

fn find_partition(
    device: &DeviceRef,
    table: &PartitionTable,
    number: Option<u32>,
    fits: &mut dyn FnMut(&DeviceRef) -> Result<bool>,
) -> std::result::Result<DeviceRef, PartitionError> {
    let (mut found, mut error) = (Vec::new(), None);
    for entry in &table.entries {
        if number.is_some_and(|number| number != entry.number) {
            continue;
        }
        let partition = Partition::new(Arc::clone(device), entry.start, entry.size).map_err(PartitionError::Device)?;
        let partition: DeviceRef = Arc::new(partition);
        match fits(&partition) {
            Ok(true) => found.push((entry.number, partition)),
            Ok(false) => {}
            // Only a part of the device may be unreadable.
            Err(errno) => error = error.or(Some(errno)),
        }
    }
    if found.len() > 1 {
        return Err(PartitionError::Several(found.iter().map(|(number, _)| *number).collect()));
    }
    let existing = || table.entries.iter().map(|entry| entry.number);
    match (found.pop(), error, number) {
        (Some((_, partition)), ..) => Ok(partition),
        (None, Some(errno), _) => Err(PartitionError::Device(errno)),
        (None, None, Some(number)) if !existing().any(|other| other == number) => {
            Err(PartitionError::Missing { number, existing: existing().collect() })
        }
        (None, None, number) => Err(PartitionError::NoneFits(number)),
    }
}

/// Joins numbers, as in `1, 2 and 5`.
fn all_of(numbers: &[u32]) -> String {
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    match words.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::samples;
    use super::super::{Effect, Fault, FaultyDevice, MemoryDevice, Operation};
    use super::*;

    /// Writes the mark by which `fits` recognises a volume.
    fn mark(device: &dyn Device, start: u64) {
        device.write_at(start, b"volume").unwrap();
    }

    fn fits(device: &DeviceRef) -> Result<bool> {
        let mut buffer = [0; 6];
        device.read_at(0, &mut buffer)?;
        Ok(&buffer == b"volume")
    }

    fn find(device: &DeviceRef, number: Option<u32>) -> std::result::Result<(u64, u64), PartitionError> {
        let found = find_volume(device, number, &mut fits)?;
        let end = found.size();
        // The position is found by a mark of its own.
        found.write_at(end - 1, b"!").unwrap();
        let mut contents = vec![0; device.size() as usize];
        device.read_at(0, &mut contents).unwrap();
        let last = contents.iter().rposition(|byte| *byte == b'!').unwrap() as u64;
        found.write_at(end - 1, &[0]).unwrap();
        Ok((last + 1 - end, end))
    }

    #[test]
    fn partitions_are_confined_to_their_range() {
        let device: DeviceRef = Arc::new(MemoryDevice::from_bytes(&[1; 4096]));
        let partition = Partition::new(Arc::clone(&device), 1024, 1000).unwrap();
        let mut buffer = [0; 1000];
        assert_eq!(partition.write_at(0, &[2; 1000]), Ok(()));
        assert_eq!(partition.read_at(0, &mut buffer), Ok(()));
        assert_eq!(buffer, [2; 1000]);
        for (offset, length) in [(1, 1000), (1000, 1), (u64::MAX, 1), (u64::MAX - 999, 1000)] {
            assert_eq!(partition.read_at(offset, &mut buffer[..length]), Err(Errno::EIO));
            assert_eq!(partition.write_at(offset, &buffer[..length]), Err(Errno::EIO));
            assert_eq!(partition.discard(offset, length as u64), Err(Errno::EIO));
        }
        assert_eq!(partition.discard(500, 500), Ok(()));
        let mut whole = [0; 4096];
        device.read_at(0, &mut whole).unwrap();
        let expected = [vec![1; 1024], vec![2; 500], vec![0; 500], vec![1; 2072]].concat();
        assert_eq!(whole.as_slice(), expected);
        for (start, size) in [(100, 100), (4096, 1), (0, 4097), (u64::MAX - 511, 512), (512, u64::MAX)] {
            assert_eq!(Partition::new(Arc::clone(&device), start, size).err(), Some(Errno::EINVAL));
        }
    }

    #[test]
    fn sectors_are_those_that_the_partition_is_aligned_to() {
        let device: DeviceRef = Arc::new(MemoryDevice::new(1 << 20).with_sector_size(4096));
        let sector_size = |start| Partition::new(Arc::clone(&device), start, 512).unwrap().sector_size();
        assert_eq!([0, 512, 1024, 8192].map(sector_size), [4096, 512, 1024, 4096]);
    }

    #[test]
    fn the_whole_device_comes_first() {
        let device: DeviceRef = Arc::new(samples::mbr_with_logical());
        assert_eq!(find(&device, None), Err(PartitionError::NoneFits(None)));
        let [first, ..] = samples::LOGICAL_LAYOUT;
        mark(device.as_ref(), first.1);
        mark(device.as_ref(), 0);
        assert_eq!(find(&device, None), Ok((0, device.size())));
        assert_eq!(find(&device, Some(1)), Ok((first.1, first.2)));
    }

    #[test]
    fn the_only_partition_that_fits_is_found() {
        let device: DeviceRef = Arc::new(samples::mbr_with_logical());
        let (number, start, size) = samples::LOGICAL_LAYOUT[2];
        mark(device.as_ref(), start);
        assert_eq!(find(&device, None), Ok((start, size)));
        assert_eq!(find(&device, Some(number)), Ok((start, size)));
        assert_eq!(find(&device, Some(1)), Err(PartitionError::NoneFits(Some(1))));
        let existing = samples::LOGICAL_LAYOUT.map(|(number, ..)| number).to_vec();
        let missing = find(&device, Some(3)).unwrap_err();
        assert_eq!(missing, PartitionError::Missing { number: 3, existing });
        assert_eq!(missing.to_string(), "it has no partition 3; it has 1, 5 and 6");
        let (_, first, _) = samples::LOGICAL_LAYOUT[0];
        mark(device.as_ref(), first);
        let several = find(&device, None).unwrap_err();
        assert_eq!(several.to_string(), "it has several such partitions, 1 and 6; choose one with partition=");
    }

    #[test]
    fn sectors_of_a_table_in_an_image_are_found_by_what_fits() {
        // The table of a disk with sectors of 4096 bytes, in an image that does not say so.
        let device: DeviceRef = Arc::new(samples::mbr_of_large_sectors());
        let (_, start, size) = samples::LARGE_SECTOR_LAYOUT;
        assert_eq!(find(&device, None), Err(PartitionError::NoneFits(None)));
        mark(device.as_ref(), start);
        assert_eq!(find(&device, None), Ok((start, size)));
        assert_eq!(find(&device, Some(1)), Ok((start, size)));
    }

    #[test]
    fn unreadable_partitions_do_not_hide_others() {
        let memory = Arc::new(samples::mbr_with_logical());
        let [(_, first, _), _, (_, last, size)] = samples::LOGICAL_LAYOUT;
        let device = Arc::new(FaultyDevice::new(memory));
        device.add(Fault::bad_sectors(first..first + 1));
        let device_ref: DeviceRef = device.clone();
        let partition = |number| find_volume(&device_ref, number, &mut fits).map(|found| found.size());
        assert_eq!(partition(None), Err(PartitionError::Device(Errno::EIO)));
        mark(device_ref.as_ref(), last);
        assert_eq!(partition(None), Ok(size));
        device.add(Fault::of([Operation::Read], Effect::Error(Errno::EIO)));
        assert_eq!(partition(None), Err(PartitionError::Device(Errno::EIO)));
    }

    #[test]
    fn a_device_without_a_table_has_no_partitions() {
        let device: DeviceRef = Arc::new(MemoryDevice::new(4096));
        assert_eq!(find(&device, Some(1)), Err(PartitionError::NoTable));
        assert_eq!(find(&device, None), Err(PartitionError::NoneFits(None)));
        let empty: DeviceRef = Arc::new(MemoryDevice::new(6));
        assert_eq!(find(&empty, Some(1)), Err(PartitionError::NoTable));
    }
}
