//! A kind of layer as whoever builds stacks sees it: its name, what it does, its options, and how to put it on.

use vnode::FileSystemRef;

use crate::options::{OptionError, OptionSpecification};

/// A kind of layer.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name in stack expressions.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// The options that it takes.
    pub options: &'static [OptionSpecification],
    pub(crate) build: Build,
}

pub(crate) type Build = fn(&[(String, String)], FileSystemRef) -> Result<FileSystemRef, OptionError>;

impl Kind {
    /// Makes the layer of its options and puts it on `lower`.
    ///
    /// # Errors
    /// For an option that does not exist or cannot have that value.
    pub fn stack(&self, options: &[(String, String)], lower: FileSystemRef) -> Result<FileSystemRef, OptionError> {
        (self.build)(options, lower)
    }
}
