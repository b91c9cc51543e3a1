//! Notifications to the kernel, and the structures of the device's ioctls.

use super::requests::wire_structures;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The code of a notification, in the field of a reply's errno.
pub(crate) mod notification {
    pub(crate) const POLL: i32 = 1;
    pub(crate) const INVAL_INODE: i32 = 2;
    pub(crate) const INVAL_ENTRY: i32 = 3;
    pub(crate) const STORE: i32 = 4;
    pub(crate) const RETRIEVE: i32 = 5;
    pub(crate) const DELETE: i32 = 6;
    pub(crate) const RESEND: i32 = 7;
    pub(crate) const INC_EPOCH: i32 = 8;
    pub(crate) const PRUNE: i32 = 9;
}

wire_structures! {
    NotifyInvalInode: 24 { node: u64, offset: i64, length: i64 }
    /// The name and a zero byte follow.
    NotifyInvalEntry: 16 { parent: u64, name_length: u32, flags: u32 }
    /// The name and a zero byte follow.
    NotifyDelete: 24 { parent: u64, child: u64, name_length: u32, padding: u32 }
    /// The data follows.
    NotifyStore: 24 { node: u64, offset: u64, size: u32, padding: u32 }
    NotifyRetrieve: 32 { unique: u64, node: u64, offset: u64, size: u32, padding: u32 }
    NotifyPoll: 8 { kernel_handle: u64 }
    /// `count` node ids follow.
    NotifyPrune: 16 { count: u32, padding: u32, spare: u64 }
    BackingMap: 16 { fd: i32, flags: u32, padding: u64 }
}
