//! The structures of ISO 9660 images and their extensions: pure functions over bytes, none of which trusts them.
//!
//! All numbers are checked against the bytes that they refer to. A structure that makes no sense is [`Malformed`].

pub(crate) mod boot_catalog;
pub(crate) mod boot_image;
pub(crate) mod calendar;
pub(crate) mod directory_record;
pub(crate) mod fields;
pub(crate) mod names;
pub(crate) mod path_table;
pub(crate) mod rock_ridge;
pub(crate) mod symlink;
pub(crate) mod system_use;
pub(crate) mod text;
pub(crate) mod time;
pub(crate) mod volume_descriptor;
pub(crate) mod zisofs;

pub(crate) use fields::Malformed;

/// Size of a logical sector in bytes: the unit of volume descriptors and sessions, and what no directory record crosses.
pub(crate) const SECTOR_SIZE: u32 = 2048;
