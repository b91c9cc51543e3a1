//! Directories of an opened image, each with the way to it from the root.

use std::sync::Arc;

use vnode::{Caller, Errno, InodeNumber, Result};

use super::directory::{Directory, Named};
use super::directory_head::DirectoryHead;
use super::object::{Content, Metadata};
use super::volume::Volume;

/// Largest number of directories on the way to an object. Linux has no longer paths.
const DEPTH_MAX: usize = 2_048;

/// A directory of an opened image.
///
/// Invariant: every directory on the way is listed in the one before it and names that as its parent. So there is one way to each,
/// and none is on the way to itself, whatever the image says.
pub(crate) struct DirectoryNode {
    pub(crate) volume: Arc<Volume>,
    pub(crate) head: DirectoryHead,
    pub(crate) metadata: Metadata,
    /// The directory that lists it, and the name there; `None` for the root.
    parent: Option<(Arc<DirectoryNode>, Arc<[u8]>)>,
    depth: usize,
}

impl DirectoryNode {
    /// Returns the root directory.
    pub(crate) fn root(volume: &Arc<Volume>) -> Arc<Self> {
        let head = volume.root;
        Arc::new(Self { volume: Arc::clone(volume), head, metadata: head.metadata, parent: None, depth: 0 })
    }

    /// Returns the directory that begins in this block, if it can be reached from the root.
    ///
    /// # Errors
    /// `ESTALE` if it cannot; `EIO`, `ENOMEM`; the error of a cancelled caller.
    pub(crate) fn resolve(volume: &Arc<Volume>, caller: &Caller, block: u32) -> Result<Arc<Self>> {
        let mut heads = Vec::new();
        let mut current = block;
        while current != volume.root.block {
            caller.cancellation().check()?;
            let head = DirectoryHead::read(&volume.tree, current)?.ok_or(Errno::ESTALE)?;
            current = head.parent;
            heads.push(head);
            if heads.len() > DEPTH_MAX {
                return Err(Errno::ESTALE);
            }
        }
        let mut node = Self::root(volume);
        while let Some(head) = heads.pop() {
            caller.cancellation().check()?;
            let directory = node.directory()?;
            let named = directory.subdirectory(head.block).ok_or(Errno::ESTALE)?;
            node = node.with_child(named, head);
        }
        Ok(node)
    }

    /// Returns a directory that this one lists.
    ///
    /// # Errors
    /// `EIO` if it is no directory, or names another one as its parent.
    pub(crate) fn child(self: &Arc<Self>, named: &Named) -> Result<Arc<Self>> {
        let Content::Directory(block) = named.object.content else { return Err(Errno::EIO) };
        let head = DirectoryHead::read(&self.volume.tree, block)?.ok_or(Errno::EIO)?;
        if head.parent != self.head.block || self.depth >= DEPTH_MAX {
            return Err(Errno::EIO);
        }
        Ok(self.with_child(named, head))
    }

    fn with_child(self: &Arc<Self>, named: &Named, head: DirectoryHead) -> Arc<Self> {
        Arc::new(Self {
            volume: Arc::clone(&self.volume),
            head,
            metadata: if head.has_posix { head.metadata } else { named.object.metadata },
            parent: Some((Arc::clone(self), Arc::clone(&named.name))),
            depth: self.depth + 1,
        })
    }

    /// Returns the objects that it has.
    ///
    /// # Errors
    /// As [`Volume::directory`].
    pub(crate) fn directory(&self) -> Result<Arc<Directory>> {
        self.volume.directory(&self.head)
    }

    /// Returns the directory that lists this one; `None` for the root.
    pub(crate) fn parent(&self) -> Option<&Arc<Self>> {
        self.parent.as_ref().map(|(parent, _)| parent)
    }

    /// Returns the inode number: that of the directory that begins in a block is its offset in the image.
    pub(crate) fn inode_number(&self) -> InodeNumber {
        directory_number(&self.volume, self.head.block)
    }

    /// Returns the path from the root: components joined by `/`, the last of them `last`, if it is not empty.
    pub(crate) fn path_to(&self, last: &[u8]) -> Vec<u8> {
        let mut names = Vec::with_capacity(self.depth + 1);
        let mut current = &self.parent;
        while let Some((parent, name)) = current {
            names.push(&**name);
            current = &parent.parent;
        }
        names.reverse();
        names.extend((!last.is_empty()).then_some(last));
        names.join(&b'/')
    }
}

impl Drop for DirectoryNode {
    /// Drops the directories on the way in a loop: recursion into a deep tree could overflow the stack.
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some((node, _)) = parent {
            parent = Arc::into_inner(node).and_then(|mut node| node.parent.take());
        }
    }
}

/// Returns the inode number of the object that an entry stands for: the offset in the image of the record that describes it. For a
/// directory, that is its own first one.
pub(crate) fn inode_number(volume: &Volume, named: &Named) -> InodeNumber {
    let position = named.object.position;
    match named.object.content {
        Content::Directory(block) => directory_number(volume, block),
        _ => InodeNumber::new(volume.tree.offset_of(position.directory) + u64::from(position.offset)),
    }
}

fn directory_number(volume: &Volume, block: u32) -> InodeNumber {
    // 0 means to readers of directories that there is no entry.
    InodeNumber::new(volume.tree.offset_of(block).max(1))
}
