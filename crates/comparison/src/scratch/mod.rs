//! Each sample as a file system from scratch, on the `fuser` crate alone.

pub mod hidefs;
pub mod keepfs;
pub mod pass_through;
pub mod snoopfs;
pub mod trashfs;
