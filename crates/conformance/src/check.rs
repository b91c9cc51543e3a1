//! Failures of tests: a message and a source location, propagated by `?`.

use std::fmt;
use std::panic::Location;

use crate::Errno;

/// The result of a test.
pub type Outcome<T = ()> = Result<T, Failure>;

/// The reason why a test failed, and the source location.
#[derive(Debug)]
pub struct Failure {
    message: String,
    location: &'static Location<'static>,
}

impl Failure {
    /// Returns a failure at the caller's source location.
    #[track_caller]
    pub fn new(message: impl Into<String>) -> Self {
        let mut message = message.into();
        // Some values are long; their beginning suffices.
        if let Some((cut, _)) = message.char_indices().nth(600) {
            message.truncate(cut);
            message.push('…');
        }
        Self { message, location: Location::caller() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.location.file().rsplit("/src/").next();
        write!(formatter, "{} at {}:{}", self.message, file.unwrap_or_default(), self.location.line())
    }
}

impl From<Errno> for Failure {
    #[track_caller]
    fn from(error: Errno) -> Self {
        Self::new(format!("unexpected error {error:?}"))
    }
}

/// Fails the test unless the condition holds; the remaining arguments are the message.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::Failure::new(format!($($message)+)));
        }
    };
}

/// Fails the test unless both values are equal; a third argument describes them.
macro_rules! same {
    ($found:expr, $expected:expr) => {
        same!($found, $expected, stringify!($found))
    };
    ($found:expr, $expected:expr, $($message:tt)+) => {
        match (&$found, &$expected) {
            (found, expected) if found != expected => {
                let what = format!($($message)+);
                return Err($crate::Failure::new(format!("{what}: expected {expected:?}, got {found:?}")));
            }
            _ => {}
        }
    };
}

/// Fails the test unless the expression fails with one of these error numbers.
macro_rules! refused {
    ($result:expr, $($errno:ident)|+) => {
        match $result {
            Err(error) if [$(libc::$errno),+].contains(&error.number()) => {}
            Err(error) => {
                return Err($crate::Failure::new(format!(
                    "{}: expected {}, got {error:?}",
                    stringify!($result), stringify!($($errno)|+)
                )));
            }
            Ok(_) => {
                return Err($crate::Failure::new(format!(
                    "{}: expected {}, but it succeeded",
                    stringify!($result), stringify!($($errno)|+)
                )));
            }
        }
    };
}

pub(crate) use {ensure, refused, same};
