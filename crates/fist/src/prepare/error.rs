//! Reasons why a program cannot be prepared.

use std::fmt;

/// The reason why a program cannot be prepared for a target. A checked program can always be prepared for this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrepareError {
    /// The target does not define this error or flag.
    Missing(&'static str),
    /// The program declares more errors than the target has free numbers.
    TooManyErrors,
    /// A constant divides by zero, or is not a valid length.
    BadConstant(String),
    /// The named item is too large.
    TooLarge(String),
    /// Two labels of a switch in this function have equal values.
    SameLabels(String),
}

impl fmt::Display for PrepareError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrepareError::Missing(name) => write!(formatter, "the target has no `{name}`"),
            PrepareError::TooManyErrors => {
                formatter.write_str("the target has too few numbers of errors that are free")
            }
            PrepareError::BadConstant(name) => write!(formatter, "`{name}` has no value on the target"),
            PrepareError::TooLarge(name) => write!(formatter, "`{name}` is too large on the target"),
            PrepareError::SameLabels(name) => {
                write!(formatter, "two labels of a switch in `{name}` are the same on the target")
            }
        }
    }
}

impl std::error::Error for PrepareError {}
