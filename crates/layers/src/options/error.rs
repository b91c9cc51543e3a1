//! Errors in the options of layers and bases, reported so that the user can correct them.

use std::fmt;

use vnode::Errno;

/// An error in an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// Name of the layer or base.
    pub member: &'static str,
    /// Key of the option, as given.
    pub key: String,
    /// The problem with the option.
    pub problem: OptionProblem,
}

/// The kind of problem with an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionProblem {
    /// The layer or base does not have the option.
    UnknownKey {
        /// Keys that it has.
        valid: Vec<&'static str>,
    },
    /// The option is given more than once.
    GivenTwice,
    /// The layer or base requires the option.
    Missing,
    /// The layer or base requires the option in the present circumstances.
    MissingHere {
        /// Why it is required.
        cause: &'static str,
    },
    /// The value is invalid.
    BadValue {
        /// The value.
        value: String,
        /// Description of the valid values.
        expected: String,
    },
    /// The option conflicts with another one.
    Conflict {
        /// Key of the other option.
        with: &'static str,
    },
    /// A file named by the option cannot be used.
    File {
        /// Path of the file.
        path: String,
        /// The cause.
        error: Errno,
    },
    /// A branch, rather than an option, that cannot be used.
    Branch {
        /// The cause.
        error: Errno,
    },
    /// A branch, rather than an option, that could be read and is refused.
    RefusedBranch(Refusal),
    /// The branches together, rather than an option: the layer cannot join these.
    Unjoinable {
        /// Description of the cause and the remedy.
        message: String,
    },
    /// An operation, rather than an option: it was interrupted half-way and cannot be finished.
    Unfinished {
        /// Description of the cause.
        message: String,
    },
    /// A file named by the option has a line that cannot be parsed.
    FileLine {
        /// Path of the file.
        path: String,
        /// Line number, counted from 1.
        line: usize,
        /// Description of the problem.
        message: String,
    },
}

/// The reason to refuse a branch that could be read, found in the branch's own metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Users other than the server can have written the branch's state directory.
    StateOfOthers,
    /// A later version has written the branch's state directory.
    LaterVersion,
    /// The register of branches in the branch's state directory is not text.
    UnknownRegister,
    /// Another union uses the branch for writing.
    InUse,
    /// Another union has taken or dropped snapshots in the branch since it was last written here.
    OtherSnapshots,
    /// The branch has files whose data are elsewhere, and has lost the extended attributes that record this.
    WithoutMarks,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::StateOfOthers => "its .wh..wh.plyfs, or something in it, is not the server's own, so others can have written it",
            Self::LaterVersion => "a later version of plyfs has written to it",
            Self::UnknownRegister => "its .wh..wh.plyfs/branches is not understood",
            Self::InUse => "another union may write to it, and only one at a time may",
            Self::OtherSnapshots => "another union has taken or dropped snapshots in it",
            Self::WithoutMarks => {
                "it was copied without its extended attributes, and has files whose data are elsewhere: they would be read as zeros"
            }
        })
    }
}

impl OptionError {
    /// Returns whether the error concerns a branch that another union writes to.
    pub fn is_in_use(&self) -> bool {
        self.problem == OptionProblem::RefusedBranch(Refusal::InUse)
    }

    /// Returns whether the error is that of a branch which cannot be used, rather than one of the options.
    pub fn is_failed_branch(&self) -> bool {
        matches!(self.problem, OptionProblem::Branch { .. })
    }

    /// Returns whether the error is in the value rather than in the key, which is where a message should point.
    pub fn is_about_value(&self) -> bool {
        match self.problem {
            OptionProblem::BadValue { .. } | OptionProblem::File { .. } | OptionProblem::FileLine { .. } => true,
            OptionProblem::UnknownKey { .. }
            | OptionProblem::GivenTwice
            | OptionProblem::Missing
            | OptionProblem::MissingHere { .. }
            | OptionProblem::Branch { .. }
            | OptionProblem::RefusedBranch(_)
            | OptionProblem::Unjoinable { .. }
            | OptionProblem::Unfinished { .. }
            | OptionProblem::Conflict { .. } => false,
        }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { member, key, problem } = self;
        match problem {
            OptionProblem::UnknownKey { valid } if valid.is_empty() => {
                write!(formatter, "`{member}` has no option `{key}`; it takes no options")
            }
            OptionProblem::UnknownKey { valid } => {
                write!(formatter, "`{member}` has no option `{key}`; it has {}", all_of(valid))
            }
            OptionProblem::GivenTwice => write!(formatter, "option `{key}` of `{member}` is given twice"),
            OptionProblem::Missing => write!(formatter, "`{member}` needs the option `{key}`"),
            OptionProblem::MissingHere { cause } => write!(formatter, "`{member}` needs the option `{key}`: {cause}"),
            OptionProblem::BadValue { value, expected } => {
                write!(formatter, "option `{key}` of `{member}` cannot be `{value}`: expected {expected}")
            }
            OptionProblem::Conflict { with } => {
                write!(formatter, "options `{key}` and `{with}` of `{member}` exclude each other")
            }
            OptionProblem::File { path, error } => {
                write!(formatter, "option `{key}` of `{member}`: cannot use `{path}`: {error}")
            }
            OptionProblem::Branch { error } => write!(formatter, "`{member}` cannot use the branch {key}: {error}"),
            OptionProblem::RefusedBranch(why) => write!(formatter, "`{member}` cannot use the branch {key}: {why}"),
            OptionProblem::Unjoinable { message } => {
                write!(formatter, "`{member}` cannot join the branches: {message}")
            }
            OptionProblem::Unfinished { message } => {
                write!(formatter, "`{member}` cannot finish the merging of snapshots that was stopped: {message}")
            }
            OptionProblem::FileLine { path, line, message } => {
                write!(formatter, "option `{key}` of `{member}`: {path}, line {line}: {message}")
            }
        }
    }
}

impl std::error::Error for OptionError {}

/// Joins words, as in `a, b and c`.
pub(crate) fn all_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
