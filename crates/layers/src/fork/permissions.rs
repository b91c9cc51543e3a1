//! Permissions of a directory: owner, mode, and all of its user-visible extended attributes.

use vnode::{Caller, Result, VnodeRef};

use crate::union::branch::encoding;
use crate::union::branch::whiteout;

/// Permissions of one directory at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryPermissions {
    mode: u32,
    uid: u32,
    gid: u32,
    /// Hash of the user-visible extended attributes.
    attributes: u64,
}

impl DirectoryPermissions {
    /// The present permissions of the directory.
    pub(crate) fn of(directory: &VnodeRef) -> Result<Self> {
        let attributes = directory.getattr(&Caller::server())?;
        let xattrs = whiteout::user_xattrs(directory)?;
        let text = xattrs.iter().flat_map(|(name, value)| {
            [&(name.len() as u64).to_be_bytes()[..], name, &(value.len() as u64).to_be_bytes(), value].concat()
        });
        Ok(Self {
            mode: attributes.mode,
            uid: attributes.uid,
            gid: attributes.gid,
            attributes: encoding::hash(&text.collect::<Vec<u8>>()),
        })
    }

    /// Their form in the journal.
    pub(crate) fn words(&self) -> String {
        format!("{:o} {} {} {:x}", self.mode, self.uid, self.gid, self.attributes)
    }

    pub(crate) fn parse_words(words: [&str; 4]) -> Option<Self> {
        let [mode, uid, gid, attributes] = words;
        Some(Self {
            mode: u32::from_str_radix(mode, 8).ok()?,
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            attributes: u64::from_str_radix(attributes, 16).ok()?,
        })
    }
}
