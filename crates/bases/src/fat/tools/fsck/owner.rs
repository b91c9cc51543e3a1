//! What owns chains: files, directories and the root directory.

/// A file or directory, and its chain as the entry describes it.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    /// Path.
    pub(crate) path: String,
    /// Position of the entry; `None` for the root directory.
    pub(crate) position: Option<u64>,
    /// Positions of the slots of the long name.
    pub(crate) slots: Vec<u64>,
    /// Whether it is a directory.
    pub(crate) is_directory: bool,
    /// Whether it may have a cluster without a size.
    pub(crate) may_own_cluster: bool,
    /// Size in bytes.
    pub(crate) size: u32,
    /// First cluster.
    pub(crate) start: u32,
    /// First cluster of the directory above, as an entry `..` says it.
    pub(crate) parent: u32,
}

impl Owner {
    /// Returns the number of clusters that the size needs; a directory has as many as its chain.
    pub(crate) fn needed(&self, cluster_size: u32) -> u32 {
        match self.size.div_ceil(cluster_size) {
            _ if self.is_directory => u32::MAX,
            0 if self.may_own_cluster => 1,
            needed => needed,
        }
    }
}

/// A chain that runs into one that was there before.
#[derive(Clone, Debug)]
pub(crate) struct SharedChain {
    /// The later owner.
    pub(crate) owner: Owner,
    /// Number of clusters that are its own.
    pub(crate) own_clusters: u32,
    /// The first cluster that it shares.
    pub(crate) cluster: u32,
    /// Whether this cluster belongs to a directory that the owner is in, or below.
    pub(crate) is_above: bool,
}
