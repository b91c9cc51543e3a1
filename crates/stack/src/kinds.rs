//! The kinds of bases: the word before the colon, the location after it, the options, and how each is opened.

use std::ffi::OsStr;
use std::fmt;

use bases::device::{self, DeviceRef};
use bases::dir;
use layers::options::Options;
use layers::{OptionError, OptionSpecification};
use vnode::FileSystemRef;

#[cfg(feature = "commands")]
use layers::command::MemberCommand;

/// A kind of base.
#[derive(Clone, Copy, Debug)]
pub struct BaseKind {
    /// The word before the colon.
    pub name: &'static str,
    /// Form of the location, such as `PATH`.
    pub location: &'static str,
    /// One-line summary.
    pub summary: &'static str,
    /// Set if the location is a path, which is made absolute before anything is opened.
    pub location_is_path: bool,
    /// Options that the base takes in parentheses. Default: none.
    pub options: &'static [OptionSpecification],
    /// How a plain path is recognised as one of this kind. Default: not at all.
    pub probe: Option<Probe>,
    /// Commands that the base adds to the command line. Default: none.
    #[cfg(feature = "commands")]
    pub commands: &'static [MemberCommand],
    pub(crate) open: OpenBase,
}

/// Opens a base at a location, with options that are among those of its kind, each given once.
pub type OpenBase = fn(&OsStr, &Options<'_>) -> Result<FileSystemRef, BaseError>;

/// How the contents of a file or block device are recognised.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Noun for the contents, such as `a FAT file system`.
    pub contents: &'static str,
    /// Returns whether a device or partition, of any size, has such contents; reads only what that takes. What it reads may be
    /// damaged, and others may be writing it.
    pub recognises: fn(&DeviceRef) -> vnode::Result<bool>,
}

/// Key of the option that selects a partition, for every kind of base that is recognised in one.
pub const PARTITION: &str = "partition";

impl BaseKind {
    /// Returns a kind of base whose locations are not paths, without options. `open` gets what follows the colon.
    pub const fn new(name: &'static str, location: &'static str, summary: &'static str, open: OpenBase) -> Self {
        Self {
            name,
            location,
            summary,
            location_is_path: false,
            options: &[],
            probe: None,
            #[cfg(feature = "commands")]
            commands: &[],
            open,
        }
    }

    /// Declares that locations are paths: a location is required, and relative ones begin at the working directory.
    pub const fn with_paths(self) -> Self {
        Self { location_is_path: true, ..self }
    }

    /// Lists the options that the base takes in parentheses.
    pub const fn with_options(self, options: &'static [OptionSpecification]) -> Self {
        Self { options, ..self }
    }

    /// Declares that locations are paths of files and block devices, and how their contents are recognised, so that a plain path is
    /// opened as a base of this kind. `contents` is a noun such as `a FAT file system`.
    ///
    /// The first kind, by name, that recognises a file or device opens it. If none recognises the whole, its partitions are probed:
    /// the only one that is recognised, or the one that the option [`PARTITION`] selects. The base finds that partition again
    /// (`bases::device::find_volume`).
    pub const fn with_probe(self, contents: &'static str, recognises: fn(&DeviceRef) -> vnode::Result<bool>) -> Self {
        Self { probe: Some(Probe { contents, recognises }), location_is_path: true, ..self }
    }

    /// Adds commands to the command line: `plyfs NAME …` for each, where plyfs is the program that registers the base.
    #[cfg(feature = "commands")]
    pub const fn with_commands(self, commands: &'static [MemberCommand]) -> Self {
        Self { commands, ..self }
    }

    /// Returns a sentence that says which plain paths are opened as a base of this kind; `None` if it recognises none.
    pub fn recognition(&self) -> Option<String> {
        let Probe { contents, .. } = self.probe?;
        Some(format!("The plain path of a file or block device that contains {contents} means the same."))
    }

    /// Returns how the base is written in a stack.
    pub fn synopsis(&self) -> BaseSynopsis {
        let options = if self.options.is_empty() { "" } else { "(OPTION=VALUE, ...)" };
        BaseSynopsis { name: self.name, location: self.location, options }
    }
}

/// How a base is written in a stack: `name:LOCATION(OPTION=VALUE, ...)` with [`BaseSynopsis::to_string`](ToString::to_string), or in
/// its parts, for pages that set them in different fonts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseSynopsis {
    /// The word before the colon.
    pub name: &'static str,
    /// Form of the location.
    pub location: &'static str,
    /// Its options in parentheses; empty if it has none.
    pub options: &'static str,
}

impl fmt::Display for BaseSynopsis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}{}", self.name, self.location, self.options)
    }
}

/// Reason why a base cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaseError {
    /// The directory cannot be served.
    Directory(dir::OpenError),
    /// The file or block device cannot be opened.
    Device(device::OpenError),
    /// The location is invalid; the text names the cause.
    Location(String),
    /// An option has an invalid value.
    Option(OptionError),
    /// The contents of the location are not what the base presents, or damaged; the text names the location, the cause and the
    /// remedy.
    Contents(String),
}

impl From<dir::OpenError> for BaseError {
    fn from(error: dir::OpenError) -> Self {
        Self::Directory(error)
    }
}

impl From<device::OpenError> for BaseError {
    fn from(error: device::OpenError) -> Self {
        Self::Device(error)
    }
}

impl From<OptionError> for BaseError {
    fn from(error: OptionError) -> Self {
        Self::Option(error)
    }
}

/// Kind of base that the plain path of a directory denotes.
pub const DIRECTORY: &str = "dir";
