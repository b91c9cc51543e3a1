//! `fat`: FAT12, FAT16 and FAT32 file systems on a device.
//!
//! [`mod@format`] encodes and decodes what is on the disk, and does nothing else.

pub mod format;
