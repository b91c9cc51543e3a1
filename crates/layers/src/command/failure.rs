//! The outcome of a command: success, or an exit status with one line that names the cause and the remedy.

use std::fmt;

use crate::printable::escaped;

/// Reason why a command ended. The numbers are stable: a code is never reused for another reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success.
    Success = 0,
    /// A command of `plyfs shell` failed, a check found something, or another failure without a code of its own.
    Failure = 1,
    /// The command line is invalid.
    Usage = 2,
    /// The stack expression has a syntax error.
    Expression = 3,
    /// The expression names a kind, layer or option that does not exist, or gives an option an invalid value.
    Unknown = 4,
    /// A base or layer cannot be opened.
    Stack = 5,
    /// The mount point is missing or not a directory.
    MountPoint = 6,
    /// The mount point is already a mount of Plyfs.
    Mounted = 7,
    /// FUSE is not available.
    NoFuse = 8,
    /// The user lacks permission.
    Permission = 9,
    /// The mount failed for another reason.
    Mount = 10,
    /// No such mount exists.
    NoMount = 11,
    /// The mount, a branch, or an image or device is in use.
    Busy = 12,
    /// The server of a mount does not answer.
    NoAnswer = 13,
    /// The server ended before the mount was usable.
    Died = 14,
}

impl Exit {
    /// Returns the exit status of the process.
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// A failed command: the code, and one line that names the cause and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code to end with.
    pub exit: Exit,
    /// Cause and remedy, in one line.
    pub message: String,
    /// The location in the expression that the message refers to: two more lines.
    pub excerpt: Option<String>,
}

/// The result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Returns a failure without an excerpt.
    pub fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Failure { exit, message: escaped(&message.to_string()), excerpt: None }
    }

    /// Returns a failure that was already reported where it happened.
    pub fn silent(exit: Exit) -> Self {
        Failure { exit, message: String::new(), excerpt: None }
    }

    /// Returns whether nothing is left to report.
    pub fn is_silent(&self) -> bool {
        self.message.is_empty()
    }

    /// Returns the failure with an excerpt below its message.
    pub fn with_excerpt(mut self, excerpt: String) -> Self {
        self.excerpt = Some(excerpt);
        self
    }

    /// Returns the failure for a message whose first line names the failure, and whose other lines show it.
    pub fn from_lines(exit: Exit, message: &str) -> Self {
        match message.split_once('\n') {
            Some((first, rest)) => Failure::new(exit, first).with_excerpt(rest.trim_end().to_owned()),
            None => Failure::new(exit, message),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        match &self.excerpt {
            Some(excerpt) => write!(formatter, "\n{}", indented(excerpt)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        Failure::new(Exit::Usage, error)
    }
}

fn indented(excerpt: &str) -> String {
    excerpt.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_on_one_line() {
        assert_eq!(Failure::new(Exit::Failure, "no \n name").to_string(), "no \\n name");
    }
}
