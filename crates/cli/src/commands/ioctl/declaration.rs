//! Declarations of commands, as a mount reports them.

use serde::Deserialize;

/// The declaration of a command, as the mount reports it.
#[derive(Debug, Deserialize)]
pub(crate) struct IoctlCommand {
    pub(crate) name: String,
    pub(crate) command: u32,
    pub(crate) bytes: usize,
    /// The command returns data.
    pub(crate) answers: bool,
    pub(crate) fields: Vec<IoctlField>,
}

/// A field of the command's data.
#[derive(Debug, Deserialize)]
pub(crate) struct IoctlField {
    pub(crate) name: String,
    pub(crate) offset: usize,
    /// Size of an integer in bytes.
    pub(crate) bytes: usize,
    pub(crate) unsigned: bool,
    /// Number of elements of an array; `None` for an integer.
    pub(crate) length: Option<usize>,
}
