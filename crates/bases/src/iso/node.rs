//! Vnodes: the objects of an opened image.

use std::sync::Arc;

use vnode::profile::{self, Part};
use vnode::{Attributes, Caller, Entry, Errno, FileKind, Handle, Name, Result, VnodeRef};

use super::KIND;
use super::boot_directory::{self, BootFile};
use super::directory::Named;
use super::directory_node::{DirectoryNode, inode_number};
use super::handle::HandleTarget;
use super::object::{Content, Metadata};
use super::volume::Volume;
use crate::unix::permissions;

/// An object of an opened image.
#[derive(Clone)]
pub(crate) enum IsoNode {
    Directory(Arc<DirectoryNode>),
    /// Any other object that a directory lists.
    Object {
        parent: Arc<DirectoryNode>,
        named: Named,
    },
    /// The directory of boot files, in the root directory.
    BootDirectory {
        root: Arc<DirectoryNode>,
    },
    /// A boot file, by its index.
    BootFile {
        root: Arc<DirectoryNode>,
        index: usize,
    },
}

impl Part for IsoNode {
    const PART: &'static str = KIND;
}

impl IsoNode {
    /// Returns the object of a handle.
    ///
    /// # Errors
    /// `ESTALE` if it is no handle of this image, or no directory that can be reached from the root lists the object.
    pub(crate) fn resolve(volume: &Arc<Volume>, caller: &Caller, handle: &Handle) -> Result<Self> {
        let root = || DirectoryNode::root(volume);
        match HandleTarget::decode(handle, volume.hash)? {
            HandleTarget::Directory(block) => Ok(Self::Directory(DirectoryNode::resolve(volume, caller, block)?)),
            HandleTarget::Object(position) => {
                let parent = DirectoryNode::resolve(volume, caller, position.directory)?;
                let directory = parent.directory()?;
                let named = directory.at(position.offset).ok_or(Errno::ESTALE)?;
                match named.object.content {
                    Content::Directory(_) | Content::Damaged => Err(Errno::ESTALE),
                    _ => Ok(Self::Object { named: named.for_vnode(), parent }),
                }
            }
            HandleTarget::BootDirectory if volume.boot.is_some() => Ok(Self::BootDirectory { root: root() }),
            HandleTarget::BootFile(index) => {
                let index = usize::try_from(index).map_err(|_| Errno::ESTALE)?;
                volume.boot.as_ref().and_then(|boot| boot.files.get(index)).ok_or(Errno::ESTALE)?;
                Ok(Self::BootFile { root: root(), index })
            }
            HandleTarget::BootDirectory => Err(Errno::ESTALE),
        }
    }

    /// Returns the object with this name in a directory.
    ///
    /// # Errors
    /// `ENOENT`, `EACCES`, `ENOTDIR`; `EIO` for an object that is damaged, and for a name that is not there in a directory with
    /// records that make no sense: it could be among them.
    pub(crate) fn find(&self, caller: &Caller, name: Name<'_>) -> Result<Self> {
        let name = name.as_bytes();
        match self {
            Self::Directory(node) => {
                permissions::check(&node.metadata.protection(), caller, permissions::SEARCH)?;
                let directory = node.directory()?;
                if let Some(named) = directory.find(name) {
                    return Self::of(node, named);
                }
                let is_boot = node.volume.boot.as_ref().is_some_and(|boot| *boot.name == *name);
                match node.parent() {
                    None if is_boot => Ok(Self::BootDirectory { root: Arc::clone(node) }),
                    _ if directory.is_damaged => Err(Errno::EIO),
                    _ => Err(Errno::ENOENT),
                }
            }
            Self::Object { .. } if self.kind() == FileKind::Directory => {
                permissions::check(&self.metadata().protection(), caller, permissions::SEARCH)?;
                Err(Errno::ENOENT)
            }
            Self::BootDirectory { root } => {
                permissions::check(&self.metadata().protection(), caller, permissions::SEARCH)?;
                let found = root.volume.boot.as_ref().and_then(|boot| boot.find(name));
                let (index, _) = found.ok_or(Errno::ENOENT)?;
                Ok(Self::BootFile { root: Arc::clone(root), index })
            }
            Self::Object { .. } | Self::BootFile { .. } => Err(Errno::ENOTDIR),
        }
    }

    /// Returns the object that an entry of a directory stands for.
    fn of(parent: &Arc<DirectoryNode>, named: &Named) -> Result<Self> {
        match named.object.content {
            Content::Directory(_) => Ok(Self::Directory(parent.child(named)?)),
            Content::Damaged => Err(Errno::EIO),
            _ => Ok(Self::Object { parent: Arc::clone(parent), named: named.for_vnode() }),
        }
    }

    /// Returns the object as the result of a look-up.
    pub(crate) fn entry(self) -> Entry {
        let attributes = self.attributes();
        Entry { vnode: self.vnode(), attributes }
    }

    /// Returns the object as others see it.
    pub(crate) fn vnode(self) -> VnodeRef {
        profile::vnode(Arc::new(self))
    }

    pub(crate) fn volume(&self) -> &Arc<Volume> {
        match self {
            Self::Directory(node) => &node.volume,
            Self::Object { parent, .. } => &parent.volume,
            Self::BootDirectory { root } | Self::BootFile { root, .. } => &root.volume,
        }
    }

    pub(crate) fn metadata(&self) -> Metadata {
        let boot = |root: &DirectoryNode, kind| boot_directory::metadata(&root.volume.tree, kind, root.metadata.mtime);
        match self {
            Self::Directory(node) => node.metadata,
            Self::Object { named, .. } => named.object.metadata,
            Self::BootDirectory { root } => boot(root, FileKind::Directory),
            Self::BootFile { root, .. } => boot(root, FileKind::Regular),
        }
    }

    pub(crate) fn kind(&self) -> FileKind {
        match self {
            Self::Directory(_) | Self::BootDirectory { .. } => FileKind::Directory,
            Self::Object { named, .. } => named.object.metadata.kind,
            Self::BootFile { .. } => FileKind::Regular,
        }
    }

    pub(crate) fn attributes(&self) -> Attributes {
        let volume = self.volume();
        let (ino, (size, stored)) = match self {
            Self::Directory(node) => (node.inode_number(), (u64::from(node.head.length), u64::from(node.head.length))),
            Self::Object { named, .. } => (inode_number(volume, named), named.object.sizes()),
            Self::BootDirectory { .. } => (boot_directory::inode_number(None), (0, 0)),
            Self::BootFile { index, .. } => {
                let size = self.boot_file().map_or(0, |file| file.size);
                (boot_directory::inode_number(Some(*index)), (size, size))
            }
        };
        self.metadata().attributes(ino, size, stored, volume.tree.block_size)
    }

    /// Returns the boot file that this is.
    pub(crate) fn boot_file(&self) -> Option<&BootFile> {
        match self {
            Self::BootFile { root, index } => root.volume.boot.as_ref()?.files.get(*index),
            _ => None,
        }
    }

    pub(crate) fn handle(&self) -> Handle {
        let target = match self {
            Self::Directory(node) => HandleTarget::Directory(node.head.block),
            Self::Object { named, .. } => HandleTarget::Object(named.object.position),
            Self::BootDirectory { .. } => HandleTarget::BootDirectory,
            Self::BootFile { index, .. } => HandleTarget::BootFile(*index as u32),
        };
        target.encode(self.volume().hash)
    }

    pub(crate) fn path(&self) -> Vec<u8> {
        let boot = |root: &DirectoryNode| root.volume.boot.as_ref().map_or(&b""[..], |boot| &boot.name).to_vec();
        match self {
            Self::Directory(node) => node.path_to(b""),
            Self::Object { parent, named } => parent.path_to(&named.name),
            Self::BootDirectory { root } => boot(root),
            Self::BootFile { root, .. } => {
                let name = self.boot_file().map_or("", |file| &file.name);
                [&boot(root)[..], b"/", name.as_bytes()].concat()
            }
        }
    }

    /// Returns the directory that contains this one; the root's is the root.
    ///
    /// # Errors
    /// `ENOTDIR`.
    pub(crate) fn parent(&self) -> Result<Self> {
        match self {
            Self::Directory(node) => Ok(Self::Directory(Arc::clone(node.parent().unwrap_or(node)))),
            Self::Object { parent, .. } if self.kind() == FileKind::Directory => {
                Ok(Self::Directory(Arc::clone(parent)))
            }
            Self::BootDirectory { root } => Ok(Self::Directory(Arc::clone(root))),
            Self::Object { .. } | Self::BootFile { .. } => Err(Errno::ENOTDIR),
        }
    }
}
