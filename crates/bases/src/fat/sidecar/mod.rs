//! Sidecars: what Unix knows of files and FAT does not, in a hidden log file `PLYFS.ATR` in each directory.
//!
//! The log has a record for each change of the owner, the mode, exact times and so on of an object in the directory, and the last one
//! counts. Records are found by the name of the object and the time of its creation, and if it was renamed by others, by its first
//! cluster. A record is on the disk before the entry that it belongs to, and a record is removed after its entry.

pub(crate) mod bytes;
pub(crate) mod extended_attributes;
pub(crate) mod log;
pub(crate) mod matching;
pub(crate) mod record;
pub(crate) mod store;
