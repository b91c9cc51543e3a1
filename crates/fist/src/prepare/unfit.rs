//! Why a program cannot be prepared.

use std::fmt;

/// Why a program cannot be prepared for a target. A checked one always can be for this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The target has no such error or flag.
    Missing(&'static str),
    /// There are more errors of the description's own than numbers that are free.
    TooManyErrors,
    /// A constant divides by zero, or is no length.
    BadConstant(String),
    /// What is called so is too large.
    TooLarge(String),
    /// Two labels of a switch in this function have the same value.
    SameLabels(String),
}

impl fmt::Display for Unfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Missing(name) => write!(formatter, "the target has no `{name}`"),
            Unfit::TooManyErrors => formatter.write_str("the target has too few numbers of errors that are free"),
            Unfit::BadConstant(name) => write!(formatter, "`{name}` has no value on the target"),
            Unfit::TooLarge(name) => write!(formatter, "`{name}` is too large on the target"),
            Unfit::SameLabels(name) => {
                write!(formatter, "two labels of a switch in `{name}` are the same on the target")
            }
        }
    }
}

impl std::error::Error for Unfit {}
