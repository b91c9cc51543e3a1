//! What may be wrong with an option, told so that it can be put right.

use std::fmt;

use vnode::Errno;

/// An option that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The layer.
    pub layer: &'static str,
    /// The key of the option, as it was given.
    pub key: String,
    /// What is wrong with it.
    pub problem: OptionProblem,
}

/// What is wrong with an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionProblem {
    /// The layer does not have it.
    UnknownKey {
        /// The keys that it has.
        valid: Vec<&'static str>,
    },
    /// It is given more than once.
    GivenTwice,
    /// The layer cannot do without it.
    Missing,
    /// The value cannot be what it is.
    BadValue {
        /// The value.
        value: String,
        /// What it may be, in words.
        expected: String,
    },
    /// It cannot be given together with another one.
    Conflict {
        /// The key of the other one.
        with: &'static str,
    },
    /// A file that it names cannot be used.
    File {
        /// The path.
        path: String,
        /// Why.
        error: Errno,
    },
    /// It is no option but a branch that cannot be used.
    Branch {
        /// Why.
        error: Errno,
    },
    /// It is no option but a branch that could be read, and is refused.
    RefusedBranch(Refusal),
    /// It is no option: what was stopped half-way cannot be finished.
    Unfinished {
        /// Why, in words.
        message: String,
    },
    /// A file that it names has a line that cannot be understood.
    FileLine {
        /// The path.
        path: String,
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong with it, in words.
        message: String,
    },
}

/// Why a branch that could be read is refused: for what it says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Others than the server can have written its state directory.
    StateOfOthers,
    /// A later version has written its state directory.
    LaterVersion,
    /// What its state directory knows branches by is no text.
    UnknownRegister,
    /// Another union is using it to write.
    InUse,
    /// Another union has taken or dropped snapshots in it since it was last written here.
    OtherSnapshots,
    /// It has files whose data are elsewhere, and has lost the extended attributes that say so.
    WithoutMarks,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::StateOfOthers => "its .wh..wh.plyfs is not the server's own, so others can have written it",
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
    /// Whether it is about a branch that another union writes to.
    pub fn is_in_use(&self) -> bool {
        self.problem == OptionProblem::RefusedBranch(Refusal::InUse)
    }

    /// Whether the value is wrong, rather than the key: where a message should point.
    pub fn is_about_value(&self) -> bool {
        match self.problem {
            OptionProblem::BadValue { .. } | OptionProblem::File { .. } | OptionProblem::FileLine { .. } => true,
            OptionProblem::UnknownKey { .. }
            | OptionProblem::GivenTwice
            | OptionProblem::Missing
            | OptionProblem::Branch { .. }
            | OptionProblem::RefusedBranch(_)
            | OptionProblem::Unfinished { .. }
            | OptionProblem::Conflict { .. } => false,
        }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layer, key, problem } = self;
        match problem {
            OptionProblem::UnknownKey { valid } if valid.is_empty() => {
                write!(formatter, "`{layer}` has no option `{key}`; it takes no options")
            }
            OptionProblem::UnknownKey { valid } => {
                write!(formatter, "`{layer}` has no option `{key}`; it has {}", all_of(valid))
            }
            OptionProblem::GivenTwice => write!(formatter, "option `{key}` of `{layer}` is given twice"),
            OptionProblem::Missing => write!(formatter, "`{layer}` needs the option `{key}`"),
            OptionProblem::BadValue { value, expected } => {
                write!(formatter, "option `{key}` of `{layer}` cannot be `{value}`: expected {expected}")
            }
            OptionProblem::Conflict { with } => {
                write!(formatter, "options `{key}` and `{with}` of `{layer}` exclude each other")
            }
            OptionProblem::File { path, error } => {
                write!(formatter, "option `{key}` of `{layer}`: cannot use `{path}`: {error}")
            }
            OptionProblem::Branch { error } => write!(formatter, "`{layer}` cannot use the branch {key}: {error}"),
            OptionProblem::RefusedBranch(why) => write!(formatter, "`{layer}` cannot use the branch {key}: {why}"),
            OptionProblem::Unfinished { message } => {
                write!(formatter, "`{layer}` cannot finish the merging of snapshots that was stopped: {message}")
            }
            OptionProblem::FileLine { path, line, message } => {
                write!(formatter, "option `{key}` of `{layer}`: {path}, line {line}: {message}")
            }
        }
    }
}

impl std::error::Error for OptionError {}

/// `a, b and c`.
fn all_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
