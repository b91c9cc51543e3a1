//! Names: one component of a path, as bytes, checked once.

use std::borrow::Cow;
use std::fmt;

use crate::{Errno, Result};

/// Maximum length of a name in bytes, as Linux's NAME_MAX. A layer that lengthens names meets this limit below itself.
pub const NAME_MAX: usize = 255;

/// Returns whether a character controls how a terminal shows the text around it: a control character, or one that changes the
/// direction of text (Unicode's `Bidi_Control`). Names may contain them.
pub fn is_terminal_control(character: char) -> bool {
    let is_bidi =
        matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || is_bidi
}

/// One component of a path: 1 to [`NAME_MAX`] bytes, none of them `/` or NUL, and neither `.` nor `..`.
///
/// Bytes, not text: a file system keeps what it was given, and so do we.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// Checks `bytes` once, so that no code below has to. Costs nothing else: the name borrows the bytes.
    ///
    /// # Errors
    /// `ENOENT` for the empty name (as Linux does for an empty path), `ENAMETOOLONG` beyond [`NAME_MAX`] bytes,
    /// `EINVAL` for `.`, `..`, a slash or a NUL.
    pub fn new(bytes: &'a [u8]) -> Result<Self> {
        match bytes {
            b"" => Err(Errno::ENOENT),
            b"." | b".." => Err(Errno::EINVAL),
            _ if bytes.len() > NAME_MAX => Err(Errno::ENAMETOOLONG),
            _ if bytes.iter().any(|&byte| byte == b'/' || byte == 0) => Err(Errno::EINVAL),
            _ => Ok(Self(bytes)),
        }
    }

    /// Returns the bytes of the name.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the name with invalid UTF-8 replaced, for messages only.
    pub fn display(self) -> impl fmt::Display + 'a {
        String::from_utf8_lossy(self.0)
    }

    /// Returns a copy that owns its bytes.
    pub fn to_owned(self) -> NameBuf {
        NameBuf(self.0.into())
    }
}

/// An owned [`Name`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameBuf(Box<[u8]>);

impl NameBuf {
    /// Takes the bytes and checks them as [`Name::new`] does.
    ///
    /// # Errors
    /// As [`Name::new`].
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self> {
        let bytes = bytes.into();
        Name::new(&bytes)?;
        Ok(Self(bytes))
    }

    /// Returns the name, borrowed.
    pub fn as_name(&self) -> Name<'_> {
        Name(&self.0)
    }

    /// Returns the bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A name that a layer has derived from another, or left as it is.
pub(crate) struct NameCow<'a>(Cow<'a, [u8]>);

impl<'a> NameCow<'a> {
    /// Checks the bytes as [`Name::new`] does.
    ///
    /// # Errors
    /// As [`Name::new`].
    pub(crate) fn new(bytes: Cow<'a, [u8]>) -> Result<Self> {
        Name::new(&bytes)?;
        Ok(Self(bytes))
    }

    /// Returns the name, borrowed.
    pub(crate) fn as_name(&self) -> Name<'_> {
        Name(&self.0)
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(self.0), formatter)
    }
}

impl fmt::Debug for NameBuf {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_name(), formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_component() {
        assert_eq!(Name::new(b"").unwrap_err(), Errno::ENOENT);
        assert_eq!(Name::new(b"..").unwrap_err(), Errno::EINVAL);
        assert_eq!(Name::new(b"a/b").unwrap_err(), Errno::EINVAL);
        assert_eq!(Name::new(b"a\0").unwrap_err(), Errno::EINVAL);
        assert_eq!(Name::new(&[b'x'; 256]).unwrap_err(), Errno::ENAMETOOLONG);
        assert_eq!(Name::new(&[0xff; 255]).unwrap().as_bytes().len(), 255);
    }
}
