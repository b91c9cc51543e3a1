//! Metadata: the attributes of one object, ACLs and extended attributes included.

use vnode::Caller;

use crate::unix::protection::Protection;
use crate::unix::set_id;
use crate::unix::times::Times;

use super::xattr_store::XattrStore;

/// The attributes of an object without its contents.
pub(crate) struct Metadata {
    pub(crate) protection: Protection,
    pub(crate) nlink: u32,
    pub(crate) times: Times,
    pub(crate) xattrs: XattrStore,
}

impl Metadata {
    /// Clears set-id bits as the caller's privileges require and capabilities, and updates the times, after a change of data.
    pub(crate) fn data_changed(&mut self, caller: &Caller) {
        set_id::clear(&mut self.protection, caller, false);
        self.xattrs.forget_capability();
        self.times.modified();
    }
}
