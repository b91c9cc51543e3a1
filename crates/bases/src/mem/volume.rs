//! A volume: the state shared by all inodes of one file system.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vnode::{Errno, Handle, InodeNumber, LiveTable, Result, StatFs};

use crate::allocator::return_free_memory;

use super::Options;
use super::budget::Budget;
use super::data::PAGE_SIZE;

/// The inode number of the root directory: the first.
pub(crate) const ROOT_NUMBER: InodeNumber = InodeNumber::new(1);

/// Number of pages that must have become free before memory is returned: 64 MiB.
const PAGES_WORTH_RETURNING: u64 = 16_384;

/// Number of inodes that must have become free before memory is returned: each takes about 600 bytes with its name.
const INODES_WORTH_RETURNING: u64 = 100_000;

/// Budgets, numbers, the table of inodes, of type `I`, and the lock for renames across directories.
pub(crate) struct Volume<I> {
    /// Pages of data and extended attributes.
    pub(crate) pages: Budget,
    /// Inodes, including unlinked ones that are still in use.
    pub(crate) inodes: Budget,
    /// Distinguishes this instance's handles from those of every other.
    instance: u64,
    last_number: AtomicU64,
    last_open: AtomicU64,
    renames: Mutex<()>,
    table: LiveTable<InodeNumber, I>,
}

impl<I> Volume<I> {
    /// Creates an empty volume.
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            pages: Budget::new(options.size / PAGE_SIZE),
            inodes: Budget::new(options.inodes),
            // Hash keys are random for each process and differ for each state within it.
            instance: RandomState::new().build_hasher().finish(),
            last_number: AtomicU64::new(ROOT_NUMBER.get() - 1),
            last_open: AtomicU64::new(0),
            renames: Mutex::new(()),
            table: LiveTable::default(),
        }
    }

    /// Returns a number for a new inode: the root's first.
    pub(crate) fn next_number(&self) -> InodeNumber {
        InodeNumber::new(self.last_number.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Returns a number for an open file, never reused.
    pub(crate) fn next_open_number(&self) -> u64 {
        self.last_open.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Locks the directory tree: only the holder of the lock moves objects between directories.
    pub(crate) fn lock_renames(&self) -> MutexGuard<'_, ()> {
        self.renames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the handle of inode `number`.
    pub(crate) fn handle(&self, number: InodeNumber) -> Handle {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.instance.to_le_bytes());
        bytes[8..].copy_from_slice(&number.get().to_le_bytes());
        Handle::new(&bytes).expect("16 bytes fit")
    }

    /// Returns the inode of a handle.
    ///
    /// # Errors
    /// `ESTALE` if it no longer exists, or the handle is not of this volume.
    pub(crate) fn resolve(&self, handle: &Handle) -> Result<Arc<I>> {
        let bytes: [u8; 16] = handle.as_bytes().try_into().map_err(|_| Errno::ESTALE)?;
        let [instance, number] = [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index])));
        if instance != self.instance {
            return Err(Errno::ESTALE);
        }
        self.table.find(&InodeNumber::new(number)).ok_or(Errno::ESTALE)
    }

    /// Reserves the memory of one more entry in the table, for the inode with this number.
    ///
    /// # Errors
    /// `ENOSPC` without memory.
    pub(crate) fn reserve_entry(&self, number: InodeNumber) -> Result<()> {
        self.table.reserve(&number).map_err(|_| Errno::ENOSPC)
    }

    /// Adds an inode to the table, by its number.
    pub(crate) fn register(&self, number: InodeNumber, inode: &Arc<I>) {
        self.table.insert(number, inode);
    }

    /// Removes an inode from the table.
    pub(crate) fn forget(&self, number: InodeNumber) {
        self.table.forget(&number);
    }

    /// Returns free memory to the system if much has become free. Must not be called with a lock held: it may take long.
    pub(crate) fn return_memory(&self) {
        let pages = self.pages.take_released(PAGES_WORTH_RETURNING);
        let inodes = self.inodes.take_released(INODES_WORTH_RETURNING);
        if pages || inodes {
            return_free_memory();
        }
    }

    /// Returns the state of the budgets.
    pub(crate) fn statfs(&self) -> StatFs {
        StatFs {
            block_size: PAGE_SIZE as u32,
            fragment_size: PAGE_SIZE as u32,
            blocks: self.pages.limit(),
            blocks_free: self.pages.left(),
            blocks_available: self.pages.left(),
            files: self.inodes.limit(),
            files_free: self.inodes.left(),
            name_max: vnode::NAME_MAX as u32,
        }
    }
}
