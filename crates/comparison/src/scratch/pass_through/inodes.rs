//! The objects that the kernel knows, each by a descriptor that opens nothing.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Stat, fstat};
use rustix::io::Errno;

use super::Result;

/// The number of the root.
pub(crate) const ROOT: u64 = 1;
/// From here on objects are numbered that have none of their own which is free.
const OWN_NUMBERS: u64 = 1 << 62;

/// What makes an object below: its device and its number there.
type Identity = (u64, u64);

struct Inode {
    descriptor: Arc<OwnedFd>,
    identity: Identity,
    lookups: u64,
}

/// The objects that the kernel knows.
pub(crate) struct Inodes {
    device: u64,
    table: Mutex<Table>,
}

struct Table {
    inodes: HashMap<u64, Inode>,
    numbers: HashMap<Identity, u64>,
    next: u64,
}

impl Inodes {
    /// A table with the root only.
    pub(crate) fn new(root: OwnedFd) -> Result<Self> {
        let status = fstat(&root)?;
        let identity = (status.st_dev, status.st_ino);
        let root = Inode { descriptor: Arc::new(root), identity, lookups: 1 };
        let (inodes, numbers) = (HashMap::from([(ROOT, root)]), HashMap::from([(identity, ROOT)]));
        Ok(Self { device: status.st_dev, table: Mutex::new(Table { inodes, numbers, next: OWN_NUMBERS }) })
    }

    /// The descriptor of an object.
    pub(crate) fn get(&self, number: u64) -> Result<Arc<OwnedFd>> {
        self.table().inodes.get(&number).map(|inode| inode.descriptor.clone()).ok_or(Errno::STALE)
    }

    /// Counts a look-up of an object, and answers its number: that which it has below, if no other has it.
    pub(crate) fn enter(&self, descriptor: OwnedFd, status: &Stat) -> u64 {
        let identity = (status.st_dev, status.st_ino);
        let mut table = self.table();
        if let Some(&number) = table.numbers.get(&identity)
            && let Some(inode) = table.inodes.get_mut(&number)
        {
            inode.lookups += 1;
            return number;
        }
        let is_free = status.st_dev == self.device && !table.inodes.contains_key(&status.st_ino);
        let number = if is_free && status.st_ino > ROOT { status.st_ino } else { table.next };
        table.next += u64::from(number == table.next);
        table.numbers.insert(identity, number);
        table.inodes.insert(number, Inode { descriptor: Arc::new(descriptor), identity, lookups: 1 });
        number
    }

    /// Takes look-ups back.
    pub(crate) fn forget(&self, number: u64, lookups: u64) {
        let mut table = self.table();
        let Some(inode) = table.inodes.get_mut(&number).filter(|_| number != ROOT) else { return };
        inode.lookups = inode.lookups.saturating_sub(lookups);
        if inode.lookups == 0 {
            let identity = inode.identity;
            table.numbers.remove(&identity);
            table.inodes.remove(&number);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
