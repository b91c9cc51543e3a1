//! Pending changes: what the next synchronization brings to the disk.

use std::collections::HashMap;
use std::sync::Arc;

use vnode::InodeNumber;

/// Clusters that are freed once no entry on the disk refers to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreedChain {
    pub(crate) first: u32,
    /// Number of clusters that are known to belong to the chain.
    pub(crate) length_max: u32,
}

/// In which order a synchronization without a journal writes the store and other directories: so that a power failure in between
/// leaves counts of names that are too high rather than too low, and no object without an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkOrder {
    /// Objects get names: the store first.
    StoreFirst,
    /// Objects lose names: the store last.
    StoreLast,
}

/// Changes in memory that the disk lacks, of inodes of type `I`. The references keep the inodes in memory.
pub(crate) struct Pending<I> {
    /// Objects whose entries have other attributes.
    pub(crate) inodes: HashMap<InodeNumber, Arc<I>>,
    /// Directories with changed blocks or records.
    pub(crate) directories: HashMap<InodeNumber, Arc<I>>,
    /// Files that have more clusters than they need.
    pub(crate) truncated: HashMap<InodeNumber, Arc<I>>,
    pub(crate) frees: Vec<FreedChain>,
    /// Number of changed blocks of directories.
    pub(crate) blocks: usize,
    /// Number of operations that are making changes.
    pub(crate) operations: usize,
    /// Clusters that were the last ones of directories before these got more.
    pub(crate) grown: Vec<u32>,
    /// Present if names of objects in the store have changed.
    pub(crate) link_order: Option<LinkOrder>,
    /// An operation waits for a synchronization, since it needs another order.
    pub(crate) is_out_of_order: bool,
}

impl<I> Default for Pending<I> {
    fn default() -> Self {
        Self {
            inodes: HashMap::new(),
            directories: HashMap::new(),
            truncated: HashMap::new(),
            frees: Vec::new(),
            blocks: 0,
            operations: 0,
            grown: Vec::new(),
            link_order: None,
            is_out_of_order: false,
        }
    }
}

impl<I> Pending<I> {
    /// Returns whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.inodes.is_empty() && self.directories.is_empty() && self.truncated.is_empty() && self.frees.is_empty()
    }

    /// Returns whether clusters will become free.
    pub(crate) fn frees_clusters(&self) -> bool {
        !self.frees.is_empty() || !self.truncated.is_empty()
    }

    /// Returns how many clusters of removed objects will become free, as far as the lengths of their chains are known.
    pub(crate) fn clusters_to_free(&self) -> u64 {
        self.frees.iter().map(|chain| chain.length_max).filter(|&length| length != u32::MAX).map(u64::from).sum()
    }

    /// Returns the number of blocks that a synchronization has to write, at most.
    pub(crate) fn blocks_max(&self) -> usize {
        self.blocks + self.inodes.len() + self.directories.len()
    }
}
