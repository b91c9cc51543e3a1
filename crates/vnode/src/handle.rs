//! Handles: the persistent identity of a vnode.

use std::fmt;

use crate::{Errno, Result};

/// Maximum size of a handle in bytes: the 64 of NFSv3 less 16 for a front end's message authentication code.
pub const HANDLE_MAX: usize = 48;

/// The identity of a file system object: opaque bytes, equal only for equal objects.
///
/// A vnode's handle never changes while the vnode is referenced. It stays valid across renames and, where
/// [`crate::Promises::persistent_handles`] is set, across a restart of the server; [`crate::FileSystem::resolve`]
/// turns it back into a vnode. It is never reused for another object, even after this one is gone (a base includes the
/// generation number). A layer over one lower tree uses the lower handle unchanged; a fan-out layer creates its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    length: u8,
    bytes: [u8; HANDLE_MAX],
}

impl Handle {
    /// Creates the handle with these bytes.
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

    /// Returns the bytes of the handle.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}
