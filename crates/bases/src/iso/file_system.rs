//! The file system of an image: its root, its handles, and what it declares.

use std::sync::Arc;

use vnode::{
    Caller, Control, ControlError, Description, FileSystem, Handle, Name, Needs, Promises, Properties, Result, VnodeRef,
};

use super::directory_node::DirectoryNode;
use super::error::OpenError;
use super::information::Information;
use super::node::IsoNode;
use super::opening;
use super::volume::Volume;
use super::walk::{Walk, WalkError};
use super::{KIND, Options};
use crate::device::DeviceRef;

/// An ISO 9660 image as a read-only file system.
///
/// Objects are identified by the positions of their records, so that handles stay valid as long as the image exists, wherever it is
/// opened. A handle is accepted only if its object can be reached from the root by directories that name each other as child and
/// parent.
pub struct IsoFileSystem {
    volume: Arc<Volume>,
    information: Information,
}

impl IsoFileSystem {
    /// Opens the image on a device. `name` is what messages and descriptions call it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(device: DeviceRef, name: &str, options: Options) -> std::result::Result<Self, OpenError> {
        let device_size = device.size();
        match opening::open(device, options) {
            Ok(opened) => {
                let information = Information::new(name, device_size, &opened);
                Ok(Self { volume: Arc::new(opened.volume), information })
            }
            Err(cause) => Err(OpenError { name: name.to_owned(), cause }),
        }
    }

    /// Returns what is known of the image.
    pub fn information(&self) -> &Information {
        &self.information
    }

    /// Returns all objects, each directory before what is in it, in the order of their records. The walk acts as the server.
    pub fn walk(&self) -> Walk {
        Walk::new(self.root(), Vec::new())
    }

    /// Returns the object at a path from the root, and everything in it, as [`IsoFileSystem::walk`] does. Slashes at the beginning,
    /// at the end, and more than one in a row mean nothing; no symlink is followed.
    ///
    /// # Errors
    /// That of the first directory or object on the way that cannot be looked up, with its path.
    pub fn walk_at(&self, path: &[u8]) -> std::result::Result<Walk, WalkError> {
        let (mut vnode, mut reached) = (self.root(), Vec::new());
        for component in path.split(|byte| *byte == b'/').filter(|component| !component.is_empty()) {
            let separator: &[u8] = if reached.is_empty() { b"" } else { b"/" };
            reached = [&reached, separator, component].concat();
            let found = Name::new(component).and_then(|name| vnode.lookup(&Caller::server(), name));
            vnode = found.map_err(|errno| WalkError { path: reached.clone(), errno })?.vnode;
        }
        Ok(Walk::new(vnode, reached))
    }
}

impl FileSystem for IsoFileSystem {
    fn root(&self) -> VnodeRef {
        IsoNode::Directory(DirectoryNode::root(&self.volume)).vnode()
    }

    fn resolve(&self, caller: &Caller, handle: &Handle) -> Result<VnodeRef> {
        Ok(IsoNode::resolve(&self.volume, caller, handle)?.vnode())
    }

    fn fsid(&self) -> Option<u64> {
        Some(self.volume.hash)
    }

    fn properties(&self) -> Properties {
        Properties {
            promises: Promises { has_backing_files: false, shares_locks: false, ..Promises::TRANSPARENT },
            needs: Needs { read_only: true, ..Needs::NONE },
        }
    }

    fn describe(&self) -> Vec<Description> {
        let details = format!("{}, {}", self.information.name, self.volume.tree.options);
        vec![Description { kind: KIND.to_owned(), details, properties: self.properties() }]
    }

    fn control(&self, command: &Control) -> std::result::Result<String, ControlError> {
        Err(command.unknown_to(KIND))
    }
}
