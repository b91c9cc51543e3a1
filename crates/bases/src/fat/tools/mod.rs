//! Tools for FAT file systems that nothing else uses meanwhile: formatting, checking, showing and tuning.
//!
//! Each is a function over a device that returns a plain report, which knows itself as text and as JSON.

mod allocate;
mod badsect;
mod chain;
mod cluster_map;
mod directory;
mod disk;
mod dump;
mod entries;
mod error;
pub mod fsck;
mod label;
pub mod mkfs;
mod printable;
mod progress;
mod replace;
mod surface;
mod table;
mod tree;
pub mod tune;
mod volume;

pub use badsect::{BadClusterUse, BadsectOptions, BadsectReport, badsect};
pub use chain::{ChainEnd, Run};
pub use dump::{Dump, dump_boot, dump_chain, dump_directory, dump_info, dump_table};
pub use error::ToolError;
pub use label::{LabelReport, set_label, set_serial, show_label};
pub use progress::{Phase, Progress, ProgressCallback};
