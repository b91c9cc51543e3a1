//! Commands as a mount declares them.

use serde::Deserialize;

/// A command, as the mount tells of it.
#[derive(Debug, Deserialize)]
pub(super) struct Command {
    pub(super) name: String,
    pub(super) command: u32,
    pub(super) bytes: usize,
    /// It gives data back.
    pub(super) answers: bool,
    pub(super) fields: Vec<Field>,
}

/// A field of its data.
#[derive(Debug, Deserialize)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) offset: usize,
    /// Bytes of an integer.
    pub(super) bytes: usize,
    pub(super) unsigned: bool,
    /// Of an array, how many; of an integer, nothing.
    pub(super) length: Option<usize>,
}
