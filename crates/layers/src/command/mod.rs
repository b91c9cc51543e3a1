//! Commands that layers and bases add to the command line of the program that registers them.
//!
//! The commands of a layer are clients of it: they run in the process of the command line, which offers them what they need as a
//! [`CommandHost`], and reach a running mount only by its control commands. Those of a base work on what the base presents, such as
//! an image that is not mounted.

mod failure;
mod host;

use std::fmt;

pub use clap;

pub use failure::{Exit, Failure, Outcome};
pub use host::{CommandHost, MountAnswers, Print, ProgressBar};

/// A command that a layer or base adds to the command line.
#[derive(Clone, Copy)]
pub struct MemberCommand {
    /// The name, which must differ from those of the other commands and their aliases.
    pub name: &'static str,
    /// Returns the arguments, help texts and subcommands.
    pub command: fn() -> clap::Command,
    /// Runs the command with the arguments that were given.
    pub run: fn(&clap::ArgMatches, &dyn CommandHost) -> Outcome,
}

/// The mount command of another file system that a stack with a layer replaces: when the program is called as `mount.NAME`,
/// `mount.fuse.NAME` or `plyfs-NAME`, it takes the source and the options of that file system.
#[derive(Clone, Copy, Debug)]
pub struct MountTranslator {
    /// Name of the other file system, as in `mount -t NAME`.
    pub name: &'static str,
    /// Letters by which its command takes options with a value (`-u VALUE`), with the names of the options.
    pub letters: &'static [(char, &'static str)],
    /// Letters by which its command takes options without a value, when it is called as `plyfs-NAME`, with the names of the options.
    pub switches: &'static [(char, &'static str)],
    /// Translates its source and its options, which are separated.
    ///
    /// # Errors
    /// Everything that has no equivalent, each with the reason, in one line.
    pub translate: fn(source: &str, options: &[String]) -> Result<TranslatedMount, String>,
}

/// A mount of another file system as a mount of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TranslatedMount {
    /// The stack expression.
    pub stack: String,
    /// The mount options.
    pub options: Vec<String>,
    /// What differs or has no effect, for the user.
    pub notes: Vec<String>,
}

impl fmt::Debug for MemberCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MemberCommand").field("name", &self.name).finish_non_exhaustive()
    }
}
