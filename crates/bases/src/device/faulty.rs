//! A device that fails as storage does, for tests.

use std::fmt;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vnode::{Errno, Result};

use super::{Device, DeviceRef};

/// An operation of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// [`Device::read_at`].
    Read,
    /// [`Device::write_at`].
    Write,
    /// [`Device::flush`].
    Flush,
    /// [`Device::discard`].
    Discard,
}

/// What a faulty operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Fails with this error and does nothing.
    Error(Errno),
    /// Does nothing and succeeds; a read returns zeros.
    Lost,
    /// Performs a read, write or discard of only the first bytes, this many at most, and fails with `EIO`. A flush fails at once.
    Torn(u64),
    /// Pulls the device out: this operation and all later ones fail with `EIO`.
    PullOut,
}

/// A programmed fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Operations of these kinds fail.
    pub operations: Vec<Operation>,
    /// Only operations that touch a byte of this range fail. A flush touches all.
    pub range: Range<u64>,
    /// Number of such operations that succeed first.
    pub skipped: u64,
    /// Number of such operations that fail after that; `None` for all.
    pub count: Option<u64>,
    /// What they do instead.
    pub effect: Effect,
}

impl Fault {
    /// Returns a fault of all operations of these kinds, anywhere, from the first on.
    pub fn of(operations: impl Into<Vec<Operation>>, effect: Effect) -> Self {
        Self { operations: operations.into(), range: 0..u64::MAX, skipped: 0, count: None, effect }
    }

    /// Returns the fault of sectors that can be neither read nor written: `EIO`.
    pub fn bad_sectors(range: Range<u64>) -> Self {
        Self::of([Operation::Read, Operation::Write], Effect::Error(Errno::EIO)).within(range)
    }

    /// Restricts the fault to operations that touch a byte of this range.
    pub fn within(self, range: Range<u64>) -> Self {
        Self { range, ..self }
    }

    /// Lets this number of operations that the fault applies to succeed first.
    pub fn after(self, skipped: u64) -> Self {
        Self { skipped, ..self }
    }

    /// Lets this number of operations fail, and the later ones succeed.
    pub fn times(self, count: u64) -> Self {
        Self { count: Some(count), ..self }
    }

    /// Counts an operation, and returns whether the fault applies to it.
    fn strikes(&mut self, operation: Operation, touched: &Range<u64>) -> bool {
        let is_flush = operation == Operation::Flush;
        let touches = is_flush || touched.start < self.range.end && self.range.start < touched.end;
        if !self.operations.contains(&operation) || !touches {
            return false;
        }
        if let Some(skipped) = self.skipped.checked_sub(1) {
            self.skipped = skipped;
            return false;
        }
        match &mut self.count {
            None => true,
            Some(0) => false,
            Some(count) => {
                *count -= 1;
                true
            }
        }
    }
}

/// Number of operations that a [`FaultyDevice`] was asked for, with those that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCounts {
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number of flushes.
    pub flushes: u64,
    /// Number of discards.
    pub discards: u64,
}

/// Another device with programmed faults, for tests. Without any, it behaves as the other one.
pub struct FaultyDevice {
    device: DeviceRef,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    faults: Vec<Fault>,
    counts: OperationCounts,
    is_pulled_out: bool,
}

impl FaultyDevice {
    /// Returns a device on another one, without faults.
    pub fn new(device: DeviceRef) -> Self {
        Self { device, state: Mutex::default() }
    }

    /// Adds a fault. Of several that apply to an operation, the first has its effect; all count the operation.
    pub fn add(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// Removes all faults, and plugs the device in again.
    pub fn repair(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.is_pulled_out = false;
    }

    /// Pulls the device out: all later operations fail with `EIO`.
    pub fn pull_out(&self) {
        self.state().is_pulled_out = true;
    }

    /// Pulls the device out after this number of further writes, discards and flushes.
    pub fn pull_out_after(&self, changes: u64) {
        let all = [Operation::Write, Operation::Discard, Operation::Flush];
        self.add(Fault::of(all, Effect::PullOut).after(changes));
    }

    /// Returns the number of operations so far.
    pub fn counts(&self) -> OperationCounts {
        self.state().counts
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation, and returns the effect of the fault that applies to it.
    fn strike(&self, operation: Operation, offset: u64, length: u64) -> Option<Effect> {
        let mut state = self.state();
        let counts = &mut state.counts;
        *match operation {
            Operation::Read => &mut counts.reads,
            Operation::Write => &mut counts.writes,
            Operation::Flush => &mut counts.flushes,
            Operation::Discard => &mut counts.discards,
        } += 1;
        let touched = offset..offset.saturating_add(length);
        let mut effect = None;
        for fault in &mut state.faults {
            if fault.strikes(operation, &touched) {
                effect = effect.or(Some(fault.effect));
            }
        }
        state.is_pulled_out |= effect == Some(Effect::PullOut);
        if state.is_pulled_out { Some(Effect::PullOut) } else { effect }
    }
}

impl fmt::Debug for FaultyDevice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FaultyDevice").field("faults", &self.state().faults).finish_non_exhaustive()
    }
}

impl Device for FaultyDevice {
    fn size(&self) -> u64 {
        self.device.size()
    }

    fn sector_size(&self) -> u32 {
        self.device.sector_size()
    }

    fn logical_sector_size(&self) -> Option<u32> {
        self.device.logical_sector_size()
    }

    fn is_read_only(&self) -> bool {
        self.device.is_read_only()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self.strike(Operation::Read, offset, buffer.len() as u64) {
            None => self.device.read_at(offset, buffer),
            Some(Effect::Error(errno)) => Err(errno),
            Some(Effect::PullOut) => Err(Errno::EIO),
            Some(Effect::Lost) => {
                buffer.fill(0);
                Ok(())
            }
            Some(Effect::Torn(length)) => {
                let length = length.min(buffer.len() as u64) as usize;
                self.device.read_at(offset, &mut buffer[..length])?;
                Err(Errno::EIO)
            }
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        match self.strike(Operation::Write, offset, data.len() as u64) {
            None => self.device.write_at(offset, data),
            Some(Effect::Error(errno)) => Err(errno),
            Some(Effect::PullOut) => Err(Errno::EIO),
            Some(Effect::Lost) => Ok(()),
            Some(Effect::Torn(length)) => {
                self.device.write_at(offset, &data[..length.min(data.len() as u64) as usize])?;
                Err(Errno::EIO)
            }
        }
    }

    fn flush(&self) -> Result<()> {
        match self.strike(Operation::Flush, 0, 0) {
            None => self.device.flush(),
            Some(Effect::Error(errno)) => Err(errno),
            Some(Effect::Lost) => Ok(()),
            Some(Effect::Torn(_) | Effect::PullOut) => Err(Errno::EIO),
        }
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        match self.strike(Operation::Discard, offset, length) {
            None => self.device.discard(offset, length),
            Some(Effect::Error(errno)) => Err(errno),
            Some(Effect::PullOut) => Err(Errno::EIO),
            Some(Effect::Lost) => Ok(()),
            Some(Effect::Torn(limit)) => {
                self.device.discard(offset, length.min(limit))?;
                Err(Errno::EIO)
            }
        }
    }

    /// Returns none: faults are those of operations on this device.
    fn backing(&self) -> Option<(BorrowedFd<'_>, u64)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::MemoryDevice;
    use super::*;

    fn devices() -> (Arc<MemoryDevice>, FaultyDevice) {
        let memory = Arc::new(MemoryDevice::from_bytes(&[1; 4096]));
        (memory.clone(), FaultyDevice::new(memory))
    }

    #[test]
    fn bad_sectors_fail_until_they_are_repaired() {
        let (_, device) = devices();
        device.add(Fault::bad_sectors(1024..1536));
        let mut buffer = [0; 512];
        assert_eq!(device.read_at(512, &mut buffer), Ok(()));
        assert_eq!(device.read_at(513, &mut buffer), Err(Errno::EIO));
        assert_eq!(device.write_at(1535, &[2]), Err(Errno::EIO));
        assert_eq!(device.write_at(1536, &[2]), Ok(()));
        assert_eq!(device.flush(), Ok(()));
        device.repair();
        assert_eq!(device.read_at(1024, &mut buffer), Ok(()));
        assert_eq!(device.counts(), OperationCounts { reads: 3, writes: 2, flushes: 1, discards: 0 });
    }

    #[test]
    fn faults_are_counted() {
        let (_, device) = devices();
        device.add(Fault::of([Operation::Write], Effect::Error(Errno::ENOSPC)).within(0..512).after(1).times(2));
        let results: Vec<Result<()>> = (0..5).map(|_| device.write_at(0, &[0])).collect();
        assert_eq!(results, [Ok(()), Err(Errno::ENOSPC), Err(Errno::ENOSPC), Ok(()), Ok(())]);
    }

    #[test]
    fn lost_and_torn_writes_leave_old_contents() {
        let (memory, device) = devices();
        device.add(Fault::of([Operation::Write], Effect::Lost).times(1));
        device.add(Fault::of([Operation::Write], Effect::Torn(512)).after(1).times(1));
        assert_eq!(device.write_at(0, &[2; 1024]), Ok(()));
        assert_eq!(memory.contents()[0], 1);
        assert_eq!(device.write_at(0, &[2; 1024]), Err(Errno::EIO));
        assert_eq!((memory.contents()[511], memory.contents()[512]), (2, 1));
        assert_eq!(device.write_at(0, &[3; 1024]), Ok(()));
        assert_eq!(memory.contents()[1023], 3);
    }

    #[test]
    fn flushes_fail_or_are_lost() {
        let (_, device) = devices();
        device.add(Fault::of([Operation::Flush], Effect::Error(Errno::EIO)).within(0..1).times(1));
        assert_eq!((device.flush(), device.flush()), (Err(Errno::EIO), Ok(())));
        device.add(Fault::of([Operation::Discard], Effect::Torn(1)));
        assert_eq!(device.discard(0, 2), Err(Errno::EIO));
    }

    #[test]
    fn a_device_that_is_pulled_out_fails_for_good() {
        let (_, device) = devices();
        device.pull_out_after(1);
        let mut buffer = [0; 1];
        assert_eq!(device.write_at(0, &[1]), Ok(()));
        assert_eq!(device.read_at(0, &mut buffer), Ok(()));
        assert_eq!(device.flush(), Err(Errno::EIO));
        assert_eq!(device.read_at(0, &mut buffer), Err(Errno::EIO));
        device.repair();
        assert_eq!(device.read_at(0, &mut buffer), Ok(()));
        device.pull_out();
        assert_eq!(device.discard(0, 1), Err(Errno::EIO));
    }
}
