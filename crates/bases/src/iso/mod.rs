//! `iso`: images of CDs, DVDs and Blu-ray discs (ISO 9660), read-only, as Unix trees.
//!
//! Reads Rock Ridge, Joliet and ISO 9660:1999 names, relocated directories, files of several extents, interleaved files, images of
//! several sessions and of whole sectors, zisofs, and El Torito. An image may say anything: what makes no sense is an error of the
//! object concerned, and memory and time are bounded. The formats are described in `docs/formats/iso.md`.
//!
//! From the bottom: `format` decodes structures; `tree`, `sections` and `system_use_reader` read them from a device;
//! `directory_head` and `directory_reader` make objects of them; `volume` caches these; `node` and the files above it are the vnode
//! interface.

mod boot_directory;
mod cache;
mod decompression;
mod directory;
mod directory_head;
mod directory_node;
mod directory_reader;
mod error;
mod file;
mod file_system;
mod format;
mod handle;
mod information;
mod node;
mod object;
mod open_directory;
mod opening;
mod operations;
mod options;
mod raw_sectors;
mod read_ahead;
mod recognition;
mod sections;
mod sessions;
mod system_use_reader;
mod tree;
mod volume;
mod walk;

pub use error::{OpenError, OpenErrorCause};
pub use file_system::IsoFileSystem;
pub use format::boot_catalog::{BootImage, BootMedium, BootPlatform};
pub use format::names::NameMapping;
pub use format::volume_descriptor::{VolumeTexts, VolumeTimes};
pub use information::{BootInformation, Information, SessionInformation};
pub use options::{Options, OptionsError};
pub use recognition::is_iso;
pub use tree::TreeKind;
pub use walk::{Walk, WalkEntry, WalkError};

/// Name of this base in a stack.
const KIND: &str = "iso";
