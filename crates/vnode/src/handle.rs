//! Handles: the persistent identity of a vnode.

use std::fmt;

use crate::{Errno, Result};

/// The most bytes of a handle: NFSv3's 64 less 16 for a front end's message authentication code.
pub const HANDLE_MAX: usize = 48;

/// The identity of a file system object: opaque bytes, equal for equal objects and for nothing else.
///
/// A vnode's handle never changes while the vnode is held. It stays valid over renames and, where [`crate::Properties::persistent_handles`] says so, over a restart of
/// the server; [`crate::FileSystem::resolve`] turns it back into a vnode. It is never given to another object, also
/// after this one is gone (a base puts the generation number in). A layer over one lower tree uses the lower handle
/// as it is; a fan-out layer makes its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    length: u8,
    bytes: [u8; HANDLE_MAX],
}

impl Handle {
    /// The handle of these bytes.
    ///
    /// # Errors
    /// `EOVERFLOW` for more than [`HANDLE_MAX`] bytes.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > HANDLE_MAX {
            return Err(Errno::EOVERFLOW);
        }
        let mut handle = Self { length: bytes.len() as u8, bytes: [0; HANDLE_MAX] };
        handle.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(handle)
    }

    /// The bytes of the handle.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}
