//! Block maps: blocks of variable size in a log, for encodings that change the length of data, or that must not overwrite.
//!
//! The lower file is a log: a header, then blocks, each time followed by a record of where they are. Nothing in it is ever
//! overwritten. So a write above is one write below, made as a whole or not at all; what is replaced stays until its
//! replacement is on stable storage, and is then given back by punching holes.
//!
//! To be read in this order: `format` (the bytes), `log` (the map in memory, and which bytes are free), `load` (finding the last
//! record that is whole), `losses` (what failed synchronizations may have lost), `file` (the operations).

pub(crate) mod file;
pub(crate) mod format;
pub(crate) mod load;
pub(crate) mod log;
pub(crate) mod losses;
mod ranges;
