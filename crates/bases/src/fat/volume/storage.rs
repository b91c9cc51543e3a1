//! Storage: the device of a volume, which becomes read-only at the first error of a write.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use vnode::{Errno, Result};

use crate::device::DeviceRef;
use crate::fat::format::Geometry;
use crate::fat::journal::format::BLOCK_SIZE;
use crate::fat::options::{ErrorPolicy, Options};

use super::overlay::OverlaidDevice;

/// A device with the geometry of the file system on it.
pub(crate) struct Storage {
    device: DeviceRef,
    geometry: Geometry,
    /// How the volume is called in messages.
    title: String,
    is_read_only: bool,
    errors: ErrorPolicy,
    /// The disk does not take writes any more.
    has_failed: AtomicBool,
    /// Something is wrong on the disk, or could not be written.
    is_damaged: AtomicBool,
    has_ended: AtomicBool,
    /// Number of writes that have ended, successful or not.
    writes: AtomicU64,
    /// Number of writes that had ended when the last successful flush began.
    flushed_writes: AtomicU64,
    /// The range of data that was written last without a gap, and is not yet on its way to the device.
    data_run: Mutex<Range<u64>>,
}

/// Size in bytes from which on data that was written without a gap is on its way to the device: a device that waits for the next flush
/// before it begins idles while the rest is copied.
const WRITE_BACK_SIZE: u64 = 4 << 20;

impl Storage {
    /// Returns the storage of a file system on a device.
    pub(crate) fn new(device: DeviceRef, geometry: Geometry, title: String, options: &Options) -> Self {
        let is_read_only = options.read_only || device.is_read_only();
        Self {
            device,
            geometry,
            title,
            is_read_only,
            errors: options.errors,
            has_failed: AtomicBool::default(),
            is_damaged: AtomicBool::default(),
            has_ended: AtomicBool::default(),
            writes: AtomicU64::default(),
            flushed_writes: AtomicU64::default(),
            data_run: Mutex::default(),
        }
    }

    /// Returns the device.
    pub(crate) fn device(&self) -> &DeviceRef {
        &self.device
    }

    /// Refuses all writes from here on, and shows these blocks, by offset, with these contents.
    pub(crate) fn overlay(&mut self, blocks: impl IntoIterator<Item = (u64, [u8; BLOCK_SIZE])>) {
        self.set_read_only();
        self.device = Arc::new(OverlaidDevice::new(self.device.clone(), blocks));
    }

    /// Refuses all writes from here on, as on a read-only device.
    pub(crate) fn set_read_only(&mut self) {
        self.is_read_only = true;
    }

    /// Returns the geometry.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the name of the volume for messages.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Returns whether the volume was mounted without permission to write.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns whether a write has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Returns whether damage was found, or a write has failed.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Acquire)
    }

    /// Returns whether a failed write leaves the volume writable.
    pub(crate) fn continues(&self) -> bool {
        self.errors == ErrorPolicy::Continue
    }

    /// Checks that an operation may change the volume.
    ///
    /// # Errors
    /// `EROFS` if it was mounted read-only, is damaged, a write has failed, or it is no longer mounted.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_storable()?;
        if self.is_damaged() && !self.continues() { Err(Errno::EROFS) } else { Ok(()) }
    }

    /// Checks that changes can be stored, also those that were made before damage was found.
    ///
    /// # Errors
    /// `EROFS`.
    pub(crate) fn check_storable(&self) -> Result<()> {
        let is_writable = !self.is_read_only && !self.has_failed() && !self.has_ended.load(Ordering::Acquire);
        if is_writable { Ok(()) } else { Err(Errno::EROFS) }
    }

    /// Refuses all writes from here on.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Fills the buffer from `offset`.
    ///
    /// # Errors
    /// `EIO`.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.device.read_at(offset, buffer)
    }

    /// Writes data of a file at `offset`.
    ///
    /// # Errors
    /// `EROFS`; `ENOSPC` of the file system that holds an image; `EIO`, after which only changes that were made before are stored.
    pub(crate) fn write_data(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.check_storable()?;
        match self.put(offset, data) {
            // Nothing that describes files is wrong on the disk, or will be: what is complete can be stored.
            Err(errno) if errno != Errno::ENOSPC => {
                self.report(format_args!("a write of data failed ({errno})"));
                Err(Errno::EIO)
            }
            Ok(()) => {
                let mut run = self.data_run.lock().unwrap_or_else(PoisonError::into_inner);
                *run = if run.end == offset { run.start } else { offset }..offset + data.len() as u64;
                Ok(())
            }
            result => result,
        }
    }

    /// Has the device begin with data if much of it was written without a gap. No lock may be held.
    pub(crate) fn start_writing_back(&self) {
        let run = {
            let mut run = self.data_run.lock().unwrap_or_else(PoisonError::into_inner);
            if run.end - run.start < WRITE_BACK_SIZE {
                return;
            }
            let next = run.end..run.end;
            std::mem::replace(&mut *run, next)
        };
        self.device.start_writing_back(run.start, run.end - run.start);
    }

    /// Writes what describes files at `offset`.
    ///
    /// # Errors
    /// `EROFS`; `EIO`, after which the volume is read-only.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.check_storable()?;
        self.put(offset, data).map_err(|errno| self.fail("a write failed", errno))
    }

    /// Writes, and counts the write once it has ended: only a flush that begins afterwards makes it stable. A write that failed may have
    /// changed a part of its range.
    fn put(&self, offset: u64, data: &[u8]) -> Result<()> {
        let result = self.device.write_at(offset, data);
        self.writes.fetch_add(1, Ordering::AcqRel);
        result
    }

    /// Makes all completed writes stable, if there were any since the last flush.
    ///
    /// # Errors
    /// `EIO`, after which the volume is read-only.
    pub(crate) fn flush(&self) -> Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        if self.has_failed() {
            return Err(Errno::EIO);
        }
        let writes = self.writes.load(Ordering::Acquire);
        if self.flushed_writes.load(Ordering::Acquire) >= writes {
            return Ok(());
        }
        self.device.flush().map_err(|errno| self.fail("writes could not be made stable", errno))?;
        self.flushed_writes.fetch_max(writes, Ordering::AcqRel);
        Ok(())
    }

    /// Makes the volume read-only unless the options have it otherwise, and says so once. Returns the error of the operation that
    /// failed.
    pub(crate) fn fail(&self, what: &str, errno: Errno) -> Errno {
        if !self.continues() {
            self.has_failed.store(true, Ordering::Release);
        }
        self.report(format_args!("{what} ({errno})"));
        Errno::EIO
    }

    /// Notes damage of the volume, which becomes read-only unless the options have it otherwise. `problem` is the code by which a check
    /// reports it. Returns the error of the operation that found it.
    pub(crate) fn damage(&self, problem: &str, details: fmt::Arguments<'_>) -> Errno {
        self.report(format_args!("{problem}: {details}"));
        Errno::EIO
    }

    /// Says once that the volume is damaged.
    fn report(&self, what: fmt::Arguments<'_>) {
        if self.is_damaged.swap(true, Ordering::AcqRel) {
            return;
        }
        let (title, remedy) = (&self.title, self.remedy());
        match self.errors {
            ErrorPolicy::Continue => tracing::error!("{title}: {what}; {remedy}"),
            ErrorPolicy::RemountReadOnly if self.is_read_only => tracing::error!("{title}: {what}; {remedy}"),
            ErrorPolicy::RemountReadOnly => {
                tracing::error!("{title}: {what}; the volume is read-only from here on; {remedy}");
            }
        }
    }

    /// Returns what to do about a damaged volume.
    pub(crate) fn remedy(&self) -> String {
        format!("unmount it and run: plyfs fat fsck '{}'", self.title.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::device::{Device, Effect, Fault, FaultyDevice, MemoryDevice, Operation};
    use crate::fat::format::{BOOT_SECTOR_SIZE, BootSector};

    /// A device whose writes wait twice, so that a test decides what happens meanwhile.
    struct SlowDevice {
        device: FaultyDevice,
        steps: Barrier,
    }

    impl Device for SlowDevice {
        fn size(&self) -> u64 {
            self.device.size()
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
            self.device.read_at(offset, buffer)
        }

        fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
            self.steps.wait();
            self.steps.wait();
            self.device.write_at(offset, data)
        }

        fn flush(&self) -> Result<()> {
            self.device.flush()
        }
    }

    /// A device that notes what it is to begin to store.
    struct WriteBackDevice {
        device: MemoryDevice,
        started: Mutex<Vec<(u64, u64)>>,
    }

    impl Device for WriteBackDevice {
        fn size(&self) -> u64 {
            self.device.size()
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
            self.device.read_at(offset, buffer)
        }

        fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
            self.device.write_at(offset, data)
        }

        fn flush(&self) -> Result<()> {
            self.device.flush()
        }

        fn start_writing_back(&self, offset: u64, length: u64) {
            self.started.lock().unwrap().push((offset, length));
        }
    }

    /// Returns the storage of an empty floppy disk.
    fn floppy(device: DeviceRef, errors: ErrorPolicy) -> Storage {
        let boot = BootSector {
            bytes_per_sector: 512,
            sectors_per_cluster: 1,
            reserved_sectors: 1,
            fats: 2,
            root_entries: 224,
            total_sectors: 2880,
            media: 0xF0,
            fat_sectors: 9,
            extended: None,
            ..BootSector::decode(&[0; BOOT_SECTOR_SIZE])
        };
        let geometry = Geometry::new(&boot, device.size()).unwrap();
        Storage::new(device, geometry, "test".to_owned(), &Options { errors, ..Options::default() })
    }

    fn device() -> FaultyDevice {
        FaultyDevice::new(Arc::new(MemoryDevice::new(2880 * 512)))
    }

    #[test]
    fn a_write_that_ends_after_a_flush_is_flushed_by_the_next_one() {
        let slow = Arc::new(SlowDevice { device: device(), steps: Barrier::new(2) });
        let storage = floppy(slow.clone(), ErrorPolicy::RemountReadOnly);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| storage.write_data(100_000, &[1; 512]));
            slow.steps.wait();
            storage.flush().unwrap();
            slow.steps.wait();
            writer.join().unwrap().unwrap();
        });
        let flushes = slow.device.counts().flushes;
        storage.flush().unwrap();
        assert_eq!(slow.device.counts().flushes, flushes + 1);
        storage.flush().unwrap();
        assert_eq!(slow.device.counts().flushes, flushes + 1, "there is nothing to flush");
    }

    #[test]
    fn the_device_begins_with_long_data_before_it_is_flushed() {
        const PART: u64 = WRITE_BACK_SIZE / 4;
        let device = Arc::new(WriteBackDevice { device: MemoryDevice::new(64 * PART), started: Mutex::default() });
        let storage = floppy(device.clone(), ErrorPolicy::RemountReadOnly);
        let data = vec![1; PART as usize];
        let write = |parts: &[u64]| {
            for part in parts {
                storage.write_data(part * PART, &data).unwrap();
                storage.start_writing_back();
            }
            device.started.lock().unwrap().drain(..).map(|(offset, length)| (offset / PART, length / PART)).collect()
        };
        let started: Vec<(u64, u64)> = write(&[0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(started, [(0, 4)]);
        assert_eq!(write(&[7]), [(4, 4)]);
        assert_eq!(write(&[10, 10, 12, 13, 11, 10]), [], "nothing is as long without a gap");
        assert_eq!(write(&[20, 21, 22, 30, 31, 32, 33]), [(30, 4)]);
        storage.write(40 * PART, &vec![1; WRITE_BACK_SIZE as usize]).unwrap();
        assert_eq!(write(&[]), [], "what describes files waits for its flush");
    }

    #[test]
    fn writes_stay_unflushed_after_an_error() {
        let faulty = Arc::new(device());
        let storage = floppy(faulty.clone(), ErrorPolicy::Continue);
        storage.write(0, &[1; 512]).unwrap();
        faulty.add(Fault::of([Operation::Flush], Effect::Error(Errno::EIO)).times(1));
        assert_eq!(storage.flush(), Err(Errno::EIO));
        storage.flush().unwrap();
        assert_eq!(faulty.counts().flushes, 2);
        faulty.add(Fault::of([Operation::Write], Effect::Torn(100)).times(1));
        assert_eq!(storage.write(0, &[2; 512]), Err(Errno::EIO));
        storage.flush().unwrap();
        assert_eq!(faulty.counts().flushes, 3, "a part of the failed write may be on the disk");
    }
}
