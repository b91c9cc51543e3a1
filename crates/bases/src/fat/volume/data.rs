//! Data of a chain: reading, writing and zeroing bytes in runs that are as long as the disk has them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use vnode::{Errno, Result, zeros};

use super::allocation::Clusters;
use super::chain::Chain;
use super::run::Run;
use super::storage::Storage;

/// Number of clusters by which a chain is followed at a time. Between two times, others get the table.
const STEPS_MAX: u32 = 4096;

/// Maximum number of zeros written at once, in bytes.
const ZEROS_MAX: u64 = 256 * 1024;

/// Where the data of chains is.
#[derive(Clone, Copy)]
pub(crate) struct DataAccess<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) clusters: &'a Mutex<Clusters>,
    /// Size of reads and writes in bytes, which begin at multiples of it; 0 for those of any size.
    pub(crate) block: u32,
}

impl DataAccess<'_> {
    /// Locks the table.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Clusters> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows a chain to the cluster with an index, so that whatever needs it next has the table locked for a short time only.
    ///
    /// # Errors
    /// As [`Chain::approach`].
    pub(crate) fn approach(&self, chain: &mut Chain, index: u32) -> Result<()> {
        while !chain.approach(self.lock().table(), self.storage, index, STEPS_MAX)? {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Fills the buffer from `offset` in a chain.
    ///
    /// # Errors
    /// `EIO`.
    pub(crate) fn read(&self, chain: &Mutex<Chain>, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            let (position, length) = self.find(chain, offset + done as u64, (buffer.len() - done) as u64)?;
            let part = buffer.get_mut(done..done + length as usize).ok_or(Errno::EIO)?;
            self.storage.read(position, part)?;
            done += length as usize;
        }
        Ok(())
    }

    /// Writes at `offset` in a chain, whose clusters exist.
    ///
    /// # Errors
    /// As [`Storage::write_data`].
    pub(crate) fn write(&self, chain: &Mutex<Chain>, offset: u64, data: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            let (position, length) = self.find(chain, offset + done as u64, (data.len() - done) as u64)?;
            self.storage.write_data(position, &data[done..done + length as usize])?;
            done += length as usize;
        }
        Ok(())
    }

    /// Writes zeros from `offset` to `end` in a chain, whose clusters exist.
    ///
    /// # Errors
    /// As [`Storage::write_data`]; `ENOMEM`.
    pub(crate) fn zero(&self, chain: &Mutex<Chain>, offset: u64, end: u64) -> Result<()> {
        let mut position = offset;
        if position >= end {
            return Ok(());
        }
        let zeros = zeros((end - position).min(ZEROS_MAX) as usize)?;
        while position < end {
            let length = (end - position).min(ZEROS_MAX);
            self.write(chain, position, &zeros[..length as usize])?;
            position += length;
        }
        Ok(())
    }

    /// Returns where a byte of a chain is on the device, and how many of `length` bytes from there on follow each other.
    fn find(&self, chain: &Mutex<Chain>, offset: u64, length: u64) -> Result<(u64, u64)> {
        let cluster_size = u64::from(self.storage.geometry().cluster_size());
        let index = u32::try_from(offset / cluster_size).map_err(|_| Errno::EIO)?;
        let within = offset % cluster_size;
        let count = (within + length).div_ceil(cluster_size).min(u64::from(u32::MAX)) as u32;
        let run = {
            let mut chain = chain.lock().unwrap_or_else(PoisonError::into_inner);
            self.approach(&mut chain, index)?;
            let mut clusters = self.lock();
            chain.find(clusters.table(), self.storage, index, count)?
        };
        let start = self.offset_of(run)?;
        let length = length.min(u64::from(run.count) * cluster_size - within);
        Ok((start + within, length.min(self.block_end(offset).saturating_sub(offset))))
    }

    /// Returns where the block ends that has a byte.
    fn block_end(&self, offset: u64) -> u64 {
        match u64::from(self.block) {
            0 => u64::MAX,
            block => (offset / block + 1) * block,
        }
    }

    fn offset_of(&self, run: Run) -> Result<u64> {
        self.storage.geometry().cluster_offset(run.cluster).ok_or(Errno::EIO)
    }
}
