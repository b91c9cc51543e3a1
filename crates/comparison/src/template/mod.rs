//! Each sample as a layer in Rust on the layer template.
//!
//! Beside them stands what several need: `branches`, `copy`, `ioctl` and `listing`.

pub mod aclfs;
pub mod cryptfs;
pub mod hidefs;
pub mod keepfs;
pub mod lb2fs;
pub mod quotafs;
pub mod rot13fs;
pub mod sealfs;
pub mod snoopfs;
pub mod trashfs;
pub mod unionfs;
pub mod usenetfs;
pub mod uuencodefs;
pub mod versionfs;
pub mod zstdfs;

mod branches;
mod copy;
mod ioctl;
mod listing;
