//! A volume: an opened image, with the caches that all its objects share.

use std::sync::{Arc, Mutex, PoisonError};

use vnode::{Result, StatFs};

use super::boot_directory::BootDirectory;
use super::cache::Cache;
use super::directory::Directory;
use super::directory_head::DirectoryHead;
use super::directory_reader;
use super::object::RecordPosition;
use super::tree::Tree;

/// Part of the memory for caches that decompressed blocks take.
const BLOCKS_PART: u64 = 4;

/// Length in bytes from which a directory is large: many callers may read smaller ones at once.
const LARGE: u32 = 64 << 10;

/// An opened image.
pub(crate) struct Volume {
    pub(crate) tree: Tree,
    /// The head of the root directory.
    pub(crate) root: DirectoryHead,
    /// Distinguishes the tree, and so handles, from those of other images.
    pub(crate) hash: u64,
    /// Number of logical blocks.
    pub(crate) block_count: u32,
    pub(crate) boot: Option<BootDirectory>,
    directories: Cache<u32, Directory>,
    /// Held while a large directory is read: several at once would take more memory than the cache together.
    reads_large: Mutex<()>,
    /// Decompressed blocks, by file and number.
    pub(crate) blocks: Cache<(RecordPosition, u64), Vec<u8>>,
}

impl Volume {
    /// Returns the volume of a tree. Boot files are added later: their directory depends on the root's.
    pub(crate) fn new(tree: Tree, root: DirectoryHead, hash: u64, block_count: u32) -> Self {
        let memory = tree.options.memory;
        let blocks = Cache::new(memory / BLOCKS_PART);
        let directories = Cache::new(memory - memory / BLOCKS_PART);
        Self { tree, root, hash, block_count, boot: None, directories, reads_large: Mutex::default(), blocks }
    }

    /// Returns the objects of the directory with this head.
    ///
    /// # Errors
    /// `EIO`; `ENOMEM` if it takes more memory than the options allow.
    pub(crate) fn directory(&self, head: &DirectoryHead) -> Result<Arc<Directory>> {
        if let Some(directory) = self.directories.get(&head.block) {
            return Ok(directory);
        }
        let is_large = head.length > LARGE;
        let _one_at_a_time = is_large.then(|| self.reads_large.lock().unwrap_or_else(PoisonError::into_inner));
        // It may have been read meanwhile.
        if is_large && let Some(directory) = self.directories.get(&head.block) {
            return Ok(directory);
        }
        let directory = Arc::new(directory_reader::read(&self.tree, head, self.directories.limit())?);
        self.directories.insert(head.block, &directory, directory.memory);
        Ok(directory)
    }

    /// Returns the sizes of the volume.
    pub(crate) fn statfs(&self) -> StatFs {
        StatFs {
            block_size: self.tree.block_size,
            fragment_size: self.tree.block_size,
            blocks: u64::from(self.block_count),
            name_max: vnode::NAME_MAX as u32,
            ..StatFs::default()
        }
    }
}
