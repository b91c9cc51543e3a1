//! Each sample as a file system from scratch, on the `fuser` crate alone.
//!
//! All stand on [`pass_through`]; those that change data on [`filtered`] too, those over two file
//! systems on [`pairs`], and those that keep what is deleted on [`copy`].

pub mod aclfs;
pub mod copy;
pub mod cryptfs;
pub mod filtered;
pub mod hidefs;
pub mod keepfs;
pub mod lb2fs;
pub mod pairs;
pub mod pass_through;
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
