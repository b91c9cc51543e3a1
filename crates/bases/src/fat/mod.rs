//! `fat`: FAT12, FAT16 and FAT32 file systems on a device.
//!
//! [`mod@format`] encodes and decodes what is on the disk, and does nothing else. [`FatFileSystem`] mounts a volume. Of its modules,
//! each uses only those before it: `volume` has the table and the data of chains, `directory` the entries, `journal` and `sidecar` the
//! files of this base's own, and `tree` the inodes. [`tools`] make, check and change volumes that are not mounted.

mod directory;
mod entry_metadata;
mod file_system;
pub mod format;
mod journal;
mod links;
mod names;
mod options;
mod recognition;
mod recovery;
mod sidecar;
pub mod tools;
mod tree;
mod volume;

pub use file_system::{FatFileSystem, MountError, complete_journal};
pub use names::Translation;
pub use options::{ErrorPolicy, MetadataMode, MirrorMode, Options, OptionsError};
pub use recognition::is_file_system;
