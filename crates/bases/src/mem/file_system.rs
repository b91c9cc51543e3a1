//! The file system in memory: its root, and what it declares.

use std::sync::Arc;

use vnode::{
    Caller, Claim, ClaimFlag, Control, ControlError, Description, Device, FileKind, FileSystem, Handle, Needs,
    Promises, Properties, Result, VnodeRef, profile,
};

use crate::unix::creation::Inherited;

use super::inode::{Content, Inode, NewInode};
use super::volume::Volume;
use super::{KIND, Options};

/// A file system in memory.
pub struct MemoryFileSystem {
    root: Arc<Inode>,
    options: Options,
    claimed: ClaimFlag,
}

impl MemoryFileSystem {
    /// Creates an empty file system.
    pub fn new(options: Options) -> Self {
        let volume = Arc::new(Volume::new(&options));
        let inherited = Inherited { mode: options.mode, gid: options.gid, access_acl: None, default_acl: None };
        let new = NewInode {
            kind: FileKind::Directory,
            device: Device::default(),
            uid: options.uid,
            inherited,
            content: Content::Directory(Box::default()),
        };
        let root = Inode::new(&volume, new).expect("the options leave room for the root");
        Self { root, options, claimed: ClaimFlag::default() }
    }
}

impl FileSystem for MemoryFileSystem {
    fn root(&self) -> VnodeRef {
        profile::vnode(self.root.clone())
    }

    fn resolve(&self, _caller: &Caller, handle: &Handle) -> Result<VnodeRef> {
        Ok(profile::vnode(self.root.volume.resolve(handle)?))
    }

    fn claim(&self) -> Result<Claim> {
        self.claimed.claim()
    }

    fn properties(&self) -> Properties {
        Properties {
            promises: Promises { persistent_handles: false, has_backing_files: false, ..Promises::TRANSPARENT },
            needs: Needs { access_times: true, ..Needs::NONE },
        }
    }

    fn describe(&self) -> Vec<Description> {
        let properties = self.properties();
        vec![Description { kind: KIND.to_owned(), details: self.options.to_string(), properties }]
    }

    fn control(&self, command: &Control) -> std::result::Result<String, ControlError> {
        Err(command.unknown_to(KIND))
    }
}
