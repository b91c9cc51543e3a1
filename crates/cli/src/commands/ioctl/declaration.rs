//! Declarations of commands, as a mount reports them.

use serde::Deserialize;

/// The declaration of a command, as the mount reports it.
#[derive(Debug, Deserialize)]
pub(super) struct Command {
    pub(super) name: String,
    pub(super) command: u32,
    pub(super) bytes: usize,
    /// The command returns data.
    pub(super) answers: bool,
    pub(super) fields: Vec<Field>,
}

/// A field of the command's data.
#[derive(Debug, Deserialize)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) offset: usize,
    /// Size of an integer in bytes.
    pub(super) bytes: usize,
    pub(super) unsigned: bool,
    /// Number of elements of an array; `None` for an integer.
    pub(super) length: Option<usize>,
}
