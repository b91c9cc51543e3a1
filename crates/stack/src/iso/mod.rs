//! The kind of base `iso`: images of CDs, DVDs and Blu-ray discs in stack expressions.

#[cfg(feature = "commands")]
mod commands;
mod opening;
mod options;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use bases::iso;
use layers::options::Options;
use vnode::FileSystemRef;

use crate::kinds::{BaseError, BaseKind};

/// The kind.
pub(crate) const KIND: BaseKind = {
    let kind = BaseKind::new("iso", "PATH", "an image of a CD, DVD or Blu-ray disc, read-only", open)
        .with_options(options::OPTIONS)
        .with_probe("an ISO 9660 image", iso::is_iso);
    #[cfg(feature = "commands")]
    let kind = kind.with_commands(commands::COMMANDS);
    kind
};

fn open(location: &OsStr, given: &Options<'_>) -> Result<FileSystemRef, BaseError> {
    Ok(Arc::new(opening::open(Path::new(location), given)?))
}
