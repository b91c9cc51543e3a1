//! The image of a command: its argument and options, and how it is opened.

use std::path::PathBuf;

use bases::device::OpenError;
use bases::iso::{IsoFileSystem, WalkError};
use clap::{Args, ValueHint};
use layers::command::{Exit, Failure, Outcome};
use layers::options::Options;
use layers::printable::escaped;

use crate::iso::{opening, options};
use crate::kinds::BaseError;

/// The image that a command works on.
#[derive(Args, Debug)]
pub(crate) struct ImageArguments {
    /// Image in a file, on a block device, or in a partition of either
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    image: PathBuf,
    /// Options of the base, as in a stack: session=1,names=raw (plyfs bases iso lists them)
    #[arg(short, long, value_name = "OPTION=VALUE,...")]
    options: Option<String>,
}

impl ImageArguments {
    /// Opens the image.
    pub(crate) fn open(&self) -> Outcome<IsoFileSystem> {
        let text = self.options.as_deref().unwrap_or_default();
        let pairs: Vec<(String, String)> = text
            .split(',')
            .filter(|option| !option.is_empty())
            .map(|option| option.split_once('=').unwrap_or((option, "")))
            .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
            .collect();
        let given = Options::new("iso", options::OPTIONS, &pairs)
            .map_err(|error| Failure::new(Exit::Unknown, format!("{error}; correct --options")))?;
        opening::open(&self.image, &given).map_err(failure)
    }
}

/// Returns the failure of opening an image.
fn failure(error: BaseError) -> Failure {
    match error {
        BaseError::Device(error) if error.is_in_use() => Failure::new(Exit::Busy, error),
        BaseError::Device(error @ OpenError::NoPermission(_)) => Failure::new(Exit::Permission, error),
        BaseError::Device(error) => Failure::new(Exit::Stack, error),
        BaseError::Option(error) => Failure::new(Exit::Unknown, format!("{error}; correct --options")),
        BaseError::Contents(message) | BaseError::Location(message) => Failure::new(Exit::Stack, message),
        BaseError::Directory(error) => Failure::new(Exit::Stack, error),
    }
}

/// Returns a line about an object of an image that cannot be read.
pub(crate) fn unreadable(error: &WalkError) -> String {
    format!("cannot read {}: {}", shown(&error.path), error.errno)
}

/// Returns a path as it is printed: on one line, and without control characters.
pub(crate) fn shown(path: &[u8]) -> String {
    if path.is_empty() { "/".to_owned() } else { escaped(&String::from_utf8_lossy(path)) }
}
