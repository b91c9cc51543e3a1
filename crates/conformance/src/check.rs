//! How a test fails: a message and the place, carried up by `?`.

use std::fmt;
use std::panic::Location;

use crate::Errno;

/// What a test ends with.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Why a test failed, and where.
#[derive(Debug)]
pub struct Failure {
    message: String,
    location: &'static Location<'static>,
}

impl Failure {
    /// A failure at the caller's place.
    #[track_caller]
    pub fn new(message: impl Into<String>) -> Self {
        let mut message = message.into();
        // Some values are long; their start tells enough.
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

/// Fails the test unless the condition holds; the rest is the message.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::Failure::new(format!($($message)+)));
        }
    };
}

/// Fails the test unless both values are equal; a third argument says what they are.
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

/// Fails the test unless the expression is refused with one of these error numbers.
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
