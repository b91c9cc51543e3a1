//! A regular file or block device as a device, and the locks that keep others off it.

use std::fmt;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

use procfs::DescriptorPath;
use rustix::fs::{Advice, FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom};
use rustix::io::Errno as SystemError;
use vnode::Errno;

use super::open_error::{DeviceUser, OpenError};
use super::{Device, SECTOR_SIZE_MIN, check_range, system};

/// Intended use of a file or block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads without a lock, even what others are writing: to recognise the contents, or to describe them.
    Examine,
    /// Reads, and excludes writers.
    Read,
    /// Writes and excludes all others; if the object cannot be written, as [`Access::Read`].
    WriteIfPossible,
    /// Writes, and excludes all others.
    Write,
}

/// A regular file or block device.
///
/// Between processes, and between several devices in one, a lock on the whole file (flock(2)) excludes all others from what one
/// writes, and writers from what others read, until the device is dropped. A block device that is written is also opened exclusively
/// (`O_EXCL`), which the kernel refuses while it uses the device or a partition of it, and vice versa. Therefore two partitions of
/// one disk are used at a time, and one of them written, only if each is a block device of its own (`/dev/sdb1`, or losetup(8) for an
/// image). Programs that neither lock a file nor open a device exclusively are not excluded: such are most that format or check
/// images, and the kernel's loop devices. That the kernel has mounted what is only read is not noticed.
///
/// The size is that at opening. A file that others make shorter fails with `EIO` from there on, until a write makes it longer again.
pub struct FileDevice {
    file: OwnedFd,
    is_block_device: bool,
    is_read_only: bool,
    size: u64,
    sector_size: u32,
    logical_sector_size: Option<u32>,
    /// Cleared when the storage turns out to discard nothing.
    discards: AtomicBool,
    /// The same object, read past the page cache; none where that is not possible.
    direct: Option<OwnedFd>,
    /// Held for reading while data is stored before a flush, which waits for the result.
    storing: RwLock<()>,
    /// Data was lost then.
    has_lost: AtomicBool,
}

impl FileDevice {
    /// Opens a regular file or block device. Follows symlinks.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &Path, access: Access) -> Result<Self, OpenError> {
        let failed = |error| open_error(path, error);
        let object = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        // Opening anything else may block or have effects, so that the kind is known first.
        let is_block_device = match FileType::from_raw_mode(rustix::fs::fstat(&object).map_err(failed)?.st_mode) {
            FileType::RegularFile => false,
            FileType::BlockDevice => true,
            _ => return Err(OpenError::NotAFileOrDevice(path.to_owned())),
        };
        let (file, is_read_only) = open_object(path, object.as_fd(), is_block_device, access)?;
        if access != Access::Examine {
            lock(path, file.as_fd(), is_block_device, !is_read_only)?;
        }
        let mut device = Self::new(file, is_block_device, is_read_only).map_err(failed)?;
        // Whoever only looks reads little.
        if access != Access::Examine {
            device.direct = device.open_direct();
        }
        Ok(device)
    }

    /// Creates a regular file of `size` zeros, which take no space yet, and opens it for writing.
    ///
    /// # Errors
    /// [`OpenError::Exists`], and those of [`FileDevice::open`].
    pub fn create(path: &Path, size: u64) -> Result<Self, OpenError> {
        let failed = |error| open_error(path, error);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o666)).map_err(failed)?;
        lock(path, file.as_fd(), false, true)?;
        let created = rustix::fs::ftruncate(&file, size).and_then(|()| Self::new(file, false, false));
        created.map_err(|error| {
            let _ = rustix::fs::unlink(path);
            failed(error)
        })
    }

    fn new(file: OwnedFd, is_block_device: bool, is_read_only: bool) -> rustix::io::Result<Self> {
        let (size, sector_size, logical_sector_size) = if is_block_device {
            let logical = rustix::fs::ioctl_blksszget(&file)?;
            let physical = rustix::fs::ioctl_blkpbszget(&file)?;
            (rustix::fs::seek(&file, SeekFrom::End(0))?, untorn(logical, physical), Some(logical))
        } else {
            (rustix::fs::fstat(&file)?.st_size as u64, SECTOR_SIZE_MIN, None)
        };
        Ok(Self {
            file,
            is_block_device,
            is_read_only,
            size,
            sector_size,
            logical_sector_size,
            discards: AtomicBool::new(true),
            direct: None,
            storing: RwLock::new(()),
            has_lost: AtomicBool::new(false),
        })
    }

    /// Opens the object a second time, for reading past the page cache; `None` where its file system has no such reads.
    fn open_direct(&self) -> Option<OwnedFd> {
        let is_aligned = self.logical_sector_size.is_none_or(|size| size as usize <= DIRECT_UNIT);
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let open = || rustix::fs::open(DescriptorPath::new(self.file.as_fd()).as_c_str(), flags, Mode::empty()).ok();
        if is_aligned { open() } else { None }
    }

    /// Reads the first part of a long range past the page cache, and returns its size: whoever reads much at a time has a cache of its
    /// own, and a second copy in memory costs time and room for nothing. What the kernel refuses or fails to read is left to the caller.
    fn read_direct(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let is_aligned =
            offset.is_multiple_of(DIRECT_UNIT as u64) && buffer.as_ptr().addr().is_multiple_of(DIRECT_UNIT);
        let Some(direct) = self.direct.as_ref().filter(|_| is_aligned && buffer.len() >= DIRECT_MIN) else { return 0 };
        let length = buffer.len() / DIRECT_UNIT * DIRECT_UNIT;
        let count = rustix::io::pread(direct, &mut buffer[..length], offset).unwrap_or(0);
        count / DIRECT_UNIT * DIRECT_UNIT
    }

    fn discard_range(&self, offset: u64, length: u64) -> rustix::io::Result<()> {
        if !self.is_block_device {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            return rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.file, flags, offset, length));
        }
        // Only whole sectors are discarded.
        let unit = u64::from(self.logical_sector_size.unwrap_or(SECTOR_SIZE_MIN).max(1));
        let start = offset.next_multiple_of(unit);
        let end = (offset + length) / unit * unit;
        match end.checked_sub(start) {
            None | Some(0) => Ok(()),
            Some(length) => rustix::io::retry_on_intr(|| system::discard(self.file.as_fd(), start, length)),
        }
    }
}

impl fmt::Debug for FileDevice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, is_block_device, is_read_only, size, .. } = self;
        let mut fields = formatter.debug_struct("FileDevice");
        fields.field("file", file).field("is_block_device", is_block_device).field("is_read_only", is_read_only);
        fields.field("size", size).finish_non_exhaustive()
    }
}

impl Device for FileDevice {
    fn size(&self) -> u64 {
        self.size
    }

    fn sector_size(&self) -> u32 {
        self.sector_size
    }

    fn logical_sector_size(&self) -> Option<u32> {
        self.logical_sector_size
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> vnode::Result<()> {
        check_range(self.size, offset, buffer.len() as u64)?;
        let mut done = self.read_direct(offset, buffer);
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(&self.file, rest, offset + done as u64) {
                // The file has become shorter.
                Ok(0) => return Err(Errno::EIO),
                Ok(count) => done += count,
                Err(SystemError::INTR) => {}
                Err(_) => return Err(Errno::EIO),
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> vnode::Result<()> {
        if self.is_read_only {
            return Err(Errno::EROFS);
        }
        check_range(self.size, offset, data.len() as u64)?;
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pwrite(&self.file, rest, offset + done as u64) {
                Ok(0) => return Err(Errno::EIO),
                Ok(count) => done += count,
                Err(SystemError::INTR) => {}
                Err(error) => return Err(write_error(error)),
            }
        }
        Ok(())
    }

    fn flush(&self) -> vnode::Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        let flushed = rustix::io::retry_on_intr(|| rustix::fs::fdatasync(&self.file));
        // Then the result of all that was being stored meanwhile is known.
        drop(self.storing.write().unwrap_or_else(PoisonError::into_inner));
        if self.has_lost.swap(false, Ordering::AcqRel) { Err(Errno::EIO) } else { flushed.map_err(|_| Errno::EIO) }
    }

    fn discard(&self, offset: u64, length: u64) -> vnode::Result<()> {
        if self.is_read_only {
            return Err(Errno::EROFS);
        }
        check_range(self.size, offset, length)?;
        if length == 0 || !self.discards.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.discard_range(offset, length) {
            Err(SystemError::OPNOTSUPP | SystemError::NOSYS | SystemError::NOTTY | SystemError::INVAL) => {
                self.discards.store(false, Ordering::Relaxed);
                Ok(())
            }
            result => result.map_err(write_error),
        }
    }

    fn prefetch(&self, offset: u64, length: u64) {
        // A length of 0 would mean the rest of the file.
        if let Some(length) = NonZeroU64::new(length) {
            let _ = rustix::fs::fadvise(&self.file, offset, Some(length), Advice::WillNeed);
        }
    }

    fn start_writing_back(&self, offset: u64, length: u64) {
        // A length of 0 would mean the rest of the file.
        if length == 0 || self.is_read_only {
            return;
        }
        let _storing = self.storing.read().unwrap_or_else(PoisonError::into_inner);
        match system::start_writing_back(self.file.as_fd(), offset, length) {
            Ok(()) | Err(SystemError::INTR | SystemError::INVAL | SystemError::NOSYS | SystemError::SPIPE) => {}
            // A file system that finds no place for the data forgets it, and tells nobody else.
            Err(_) => self.has_lost.store(true, Ordering::Release),
        }
    }

    fn backing(&self) -> Option<(BorrowedFd<'_>, u64)> {
        Some((self.file.as_fd(), 0))
    }
}

/// Multiple of which offset, size and memory of direct reads are, in bytes: that of pages, so that no page of the page cache which also
/// has something else takes part.
const DIRECT_UNIT: usize = 4096;

/// Size in bytes from which on reads are direct. Smaller ones gain from the kernel's reading ahead.
const DIRECT_MIN: usize = 64 << 10;

/// Largest sector size in bytes that the kernel's page cache writes at once.
const SECTOR_SIZE_MAX: u32 = 4096;

/// Returns the size of the aligned writes that a block device does not tear, from its logical and physical sector sizes.
fn untorn(logical: u32, physical: u32) -> u32 {
    let size = logical.max(physical.min(SECTOR_SIZE_MAX));
    if size.is_power_of_two() { size.clamp(SECTOR_SIZE_MIN, SECTOR_SIZE_MAX) } else { SECTOR_SIZE_MIN }
}

/// Opens the object that an `O_PATH` descriptor is on, and returns whether it is only open for reading.
fn open_object(
    path: &Path,
    object: BorrowedFd<'_>,
    is_block_device: bool,
    access: Access,
) -> Result<(OwnedFd, bool), OpenError> {
    if !procfs::is_mounted() {
        return Err(OpenError::NoProc);
    }
    let name = DescriptorPath::new(object);
    let open =
        |flags| rustix::io::retry_on_intr(|| rustix::fs::open(name.as_c_str(), flags | OFlags::CLOEXEC, Mode::empty()));
    let for_reading = || open(OFlags::RDONLY).map_err(|error| open_error(path, error));
    if matches!(access, Access::Examine | Access::Read) {
        return Ok((for_reading()?, true));
    }
    let exclusive = if is_block_device { OFlags::EXCL } else { OFlags::empty() };
    let opened = open(OFlags::RDWR | exclusive).and_then(|file| {
        // The kernel opens a write-protected device, and refuses the writes.
        let is_protected = is_block_device && system::is_write_protected(file.as_fd())?;
        if is_protected { Err(SystemError::ROFS) } else { Ok(file) }
    });
    match opened {
        Ok(file) => Ok((file, false)),
        Err(SystemError::BUSY) if is_block_device => {
            Err(OpenError::InUse { path: path.to_owned(), user: DeviceUser::Kernel })
        }
        Err(SystemError::ROFS | SystemError::ACCESS | SystemError::PERM) if access == Access::WriteIfPossible => {
            Ok((for_reading()?, true))
        }
        Err(error) => Err(open_error(path, error)),
    }
}

fn open_error(path: &Path, error: SystemError) -> OpenError {
    let path = path.to_owned();
    match error {
        SystemError::NOENT | SystemError::NOTDIR => OpenError::Missing(path),
        SystemError::EXIST => OpenError::Exists(path),
        SystemError::ACCESS | SystemError::PERM => OpenError::NoPermission(path),
        SystemError::ROFS => OpenError::ReadOnly(path),
        error => OpenError::Failed(path, Errno::new(error.raw_os_error())),
    }
}

/// Time for which a lock on a block device is tried: udev(7) locks a device for a moment while it looks at it.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// Interval between two attempts.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// Locks an open file against others.
fn lock(path: &Path, file: BorrowedFd<'_>, is_block_device: bool, is_exclusive: bool) -> Result<(), OpenError> {
    let operation = match is_exclusive {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    let end = Instant::now() + if is_block_device { LOCK_PATIENCE } else { Duration::ZERO };
    loop {
        return match rustix::io::retry_on_intr(|| rustix::fs::flock(file, operation)) {
            Err(SystemError::WOULDBLOCK) if Instant::now() < end => {
                sleep(LOCK_INTERVAL);
                continue;
            }
            Err(SystemError::WOULDBLOCK) => Err(OpenError::InUse { path: path.to_owned(), user: DeviceUser::Process }),
            result => result.map_err(|error| open_error(path, error)),
        };
    }
}

/// Returns the error of a write as the interface has it.
fn write_error(error: SystemError) -> Errno {
    match error {
        SystemError::NOSPC | SystemError::DQUOT => Errno::ENOSPC,
        // The latter for a device that has become write-protected.
        SystemError::ROFS | SystemError::PERM => Errno::EROFS,
        _ => Errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{FileExt, MetadataExt, symlink};

    use super::*;

    fn image(size: u64) -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        fs::File::create(&path).unwrap().set_len(size).unwrap();
        (directory, path)
    }

    #[test]
    fn long_reads_find_what_was_written_at_any_alignment() {
        let size = 1 << 20;
        let (_directory, path) = image(size);
        let device = FileDevice::open(&path, Access::Write).unwrap();
        let mut expected: Vec<u8> = (0..size).map(|_| fastrand::u8(..)).collect();
        device.write_at(0, &expected).unwrap();
        let mut memory = vec![0; expected.len() + DIRECT_UNIT];
        let page = memory.as_ptr().align_offset(DIRECT_UNIT);
        for round in 0..100 {
            // Not yet on the disk.
            let change = fastrand::usize(..expected.len() - 1000);
            expected[change..change + 1000].fill(round);
            device.write_at(change as u64, &expected[change..change + 1000]).unwrap();
            let unit = fastrand::choice([1, 512, DIRECT_UNIT]).unwrap();
            let start = fastrand::usize(..expected.len() / 2) / unit * unit;
            let length = fastrand::usize(1..expected.len() / 2);
            let shift = page + fastrand::choice([0, 16]).unwrap();
            let buffer = &mut memory[shift..shift + length];
            device.read_at(start as u64, buffer).unwrap();
            assert!(buffer == &expected[start..start + length], "{length} bytes from {start} on");
        }
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(300_000).unwrap();
        let buffer = &mut memory[page..page + (512 << 10)];
        assert_eq!(device.read_at(0, buffer), Err(Errno::EIO));
    }

    #[test]
    fn what_is_written_is_read_within_the_size() {
        let (_directory, path) = image(10_000);
        let device = FileDevice::open(&path, Access::Write).unwrap();
        assert_eq!((device.size(), device.sector_size(), device.is_read_only()), (10_000, 512, false));
        device.write_at(9_990, b"0123456789").unwrap();
        device.flush().unwrap();
        let mut buffer = [0; 12];
        device.read_at(9_988, &mut buffer).unwrap();
        assert_eq!(&buffer, b"\0\x000123456789");
        for offset in [9_989, 10_000, u64::MAX] {
            assert_eq!(device.read_at(offset, &mut buffer), Err(Errno::EIO));
            assert_eq!(device.write_at(offset, &buffer), Err(Errno::EIO));
            assert_eq!(device.discard(offset, 12), Err(Errno::EIO));
        }
        assert_eq!(device.read_at(10_000, &mut []), Ok(()));
        assert_eq!(fs::metadata(&path).unwrap().len(), 10_000);
    }

    #[test]
    fn what_is_already_being_stored_is_there() {
        let (_directory, path) = image(100_000);
        let device = FileDevice::open(&path, Access::Write).unwrap();
        device.write_at(10, &[7; 50_000]).unwrap();
        for (offset, length) in [(0, 100_000), (10, 0), (99_999, 5), (u64::MAX, 1), (1, u64::MAX)] {
            device.start_writing_back(offset, length);
        }
        device.flush().unwrap();
        let mut buffer = [0; 50_000];
        device.read_at(10, &mut buffer).unwrap();
        assert!(buffer.iter().all(|&byte| byte == 7));
        assert_eq!(fs::metadata(&path).unwrap().len(), 100_000);
    }

    #[test]
    fn what_was_lost_before_a_flush_is_its_error() {
        let (_directory, path) = image(100_000);
        let device = FileDevice::open(&path, Access::Write).unwrap();
        device.has_lost.store(true, Ordering::Release);
        assert_eq!((device.flush(), device.flush()), (Err(Errno::EIO), Ok(())));
        // While something is being stored, its result is not known.
        std::thread::scope(|scope| {
            let storing = device.storing.read().unwrap();
            let flush = scope.spawn(|| device.flush());
            std::thread::sleep(Duration::from_millis(20));
            device.has_lost.store(true, Ordering::Release);
            drop(storing);
            assert_eq!(flush.join().unwrap(), Err(Errno::EIO));
        });
    }

    #[test]
    fn a_file_that_became_shorter_fails() {
        let (_directory, path) = image(8192);
        let device = FileDevice::open(&path, Access::Read).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(5000).unwrap();
        let mut buffer = [0; 4096];
        assert_eq!(device.read_at(0, &mut buffer), Ok(()));
        assert_eq!(device.read_at(4096, &mut buffer), Err(Errno::EIO));
    }

    #[test]
    fn a_device_that_is_read_only_refuses_changes() {
        let (_directory, path) = image(4096);
        let device = FileDevice::open(&path, Access::Read).unwrap();
        assert!(device.is_read_only());
        assert_eq!(device.write_at(0, b"x"), Err(Errno::EROFS));
        assert_eq!(device.discard(0, 1), Err(Errno::EROFS));
        assert_eq!(device.flush(), Ok(()));
    }

    #[test]
    fn writers_exclude_all_others_and_readers_exclude_writers() {
        let (_directory, path) = image(4096);
        let in_use = |access| FileDevice::open(&path, access).err();
        let by_process = OpenError::InUse { path: path.clone(), user: DeviceUser::Process };
        assert!(by_process.is_in_use());
        let writer = FileDevice::open(&path, Access::Write).unwrap();
        for access in [Access::Read, Access::WriteIfPossible, Access::Write] {
            assert_eq!(in_use(access), Some(by_process.clone()));
        }
        assert_eq!(in_use(Access::Examine), None);
        drop(writer);
        let reader = FileDevice::open(&path, Access::Read).unwrap();
        assert_eq!(in_use(Access::Read), None);
        assert_eq!(in_use(Access::Write), Some(by_process.clone()));
        assert_eq!(in_use(Access::WriteIfPossible), Some(by_process.clone()));
        drop(reader);
        let other_name = path.with_file_name("link");
        fs::hard_link(&path, &other_name).unwrap();
        let _writer = FileDevice::open(&other_name, Access::WriteIfPossible).unwrap();
        assert_eq!(in_use(Access::Read), Some(by_process));
    }

    #[test]
    fn only_files_and_devices_are_opened() {
        let (directory, path) = image(0);
        let error = |path: &Path| FileDevice::open(path, Access::WriteIfPossible).unwrap_err();
        let missing = directory.path().join("missing");
        assert_eq!(error(&missing), OpenError::Missing(missing));
        assert_eq!(error(&path.join("below")), OpenError::Missing(path.join("below")));
        assert_eq!(error(directory.path()), OpenError::NotAFileOrDevice(directory.path().to_owned()));
        let fifo = directory.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(error(&fifo), OpenError::NotAFileOrDevice(fifo));
        assert_eq!(error(Path::new("/dev/null")), OpenError::NotAFileOrDevice("/dev/null".into()));
        let link = directory.path().join("link");
        symlink(&path, &link).unwrap();
        assert_eq!(FileDevice::open(&link, Access::Write).unwrap().size(), 0);
        let looped = directory.path().join("looped");
        symlink(&looped, &looped).unwrap();
        assert_eq!(error(&looped), OpenError::Failed(looped, Errno::ELOOP));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_read_where_that_is_enough() {
        // sysfs opens such a file for writing not even for root.
        let path = Path::new("/sys/kernel/uevent_seqnum");
        let device = FileDevice::open(path, Access::WriteIfPossible).unwrap();
        assert!(device.is_read_only());
        drop(device);
        assert_eq!(FileDevice::open(path, Access::Write).unwrap_err(), OpenError::NoPermission(path.to_owned()));
    }

    #[test]
    fn descriptors_are_not_inherited() {
        let (_directory, path) = image(512);
        for access in [Access::Examine, Access::Read, Access::Write] {
            let device = FileDevice::open(&path, access).unwrap();
            let flags = rustix::io::fcntl_getfd(device.backing().unwrap().0).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
    }

    #[test]
    fn a_created_file_has_its_size_and_replaces_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let device = FileDevice::create(&path, 1 << 20).unwrap();
        assert_eq!((device.size(), fs::metadata(&path).unwrap().len()), (1 << 20, 1 << 20));
        assert!(FileDevice::open(&path, Access::Read).unwrap_err().is_in_use());
        assert_eq!(FileDevice::create(&path, 1).unwrap_err(), OpenError::Exists(path));
    }

    #[test]
    fn discarded_space_is_given_back() {
        let (_directory, path) = image(1 << 20);
        fs::File::options().write(true).open(&path).unwrap().write_all_at(&[1; 1 << 20], 0).unwrap();
        let device = FileDevice::open(&path, Access::Write).unwrap();
        device.flush().unwrap();
        let before = fs::metadata(&path).unwrap().blocks();
        device.discard(4096, 512 << 10).unwrap();
        device.flush().unwrap();
        assert!(fs::metadata(&path).unwrap().blocks() <= before - 1000);
        let mut ends = [0; 1];
        device.read_at(4095, &mut ends).unwrap();
        assert_eq!(ends, [1]);
        assert_eq!(device.size(), 1 << 20);
    }

    #[test]
    fn sector_sizes_of_devices_are_limited() {
        assert_eq!(untorn(512, 512), 512);
        assert_eq!(untorn(512, 4096), 4096);
        assert_eq!(untorn(512, 65536), 4096);
        assert_eq!(untorn(2048, 2048), 2048);
        assert_eq!(untorn(0, 0), 512);
        assert_eq!(untorn(520, 520), 512);
    }
}
