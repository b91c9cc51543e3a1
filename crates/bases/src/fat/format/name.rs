//! Long names: UTF-16 on the disk, bytes of UTF-8 outside, and the rules for both.

use std::fmt;

use super::long_name::LONG_NAME_MAX;

/// Characters that a name must not have, besides those before the space.
const FORBIDDEN: &str = "\"*/:<>?\\|";

/// The reason why a name cannot be stored as a long name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongNameError {
    /// It has no characters, or only dots and spaces.
    Empty,
    /// It has more than 255 code units.
    TooLong,
    /// It has this code unit, which is not allowed.
    Forbidden(u16),
    /// It ends with a dot or space, which others drop.
    Trailing,
}

impl fmt::Display for LongNameError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(formatter, "the name is empty"),
            Self::TooLong => write!(formatter, "the name has more than {LONG_NAME_MAX} UTF-16 code units"),
            Self::Forbidden(unit) => match char::from_u32((*unit).into()) {
                Some(character) => write!(formatter, "the name has the forbidden character {character:?}"),
                None => write!(formatter, "the name has the forbidden code unit {unit:#06x}"),
            },
            Self::Trailing => write!(formatter, "the name ends with a dot or space"),
        }
    }
}

impl std::error::Error for LongNameError {}

/// Checks that a name can be stored as a long name that all systems accept.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_long_name(units: &[u16]) -> Result<(), LongNameError> {
    let is_dot_or_space = |&unit: &u16| unit == u16::from(b'.') || unit == u16::from(b' ');
    if units.iter().all(is_dot_or_space) {
        return Err(LongNameError::Empty);
    }
    if units.len() > LONG_NAME_MAX {
        return Err(LongNameError::TooLong);
    }
    let is_forbidden =
        |unit: u16| unit < 0x20 || u8::try_from(unit).is_ok_and(|byte| FORBIDDEN.contains(char::from(byte)));
    match units.iter().copied().find(|&unit| is_forbidden(unit)) {
        Some(unit) => Err(LongNameError::Forbidden(unit)),
        None if units.last().is_some_and(is_dot_or_space) => Err(LongNameError::Trailing),
        None => Ok(()),
    }
}

/// Returns a name as bytes: UTF-8, in which an unpaired surrogate has the three bytes that its number would have.
pub fn units_to_name(units: &[u16]) -> Vec<u8> {
    let mut name = Vec::with_capacity(units.len() * 3);
    for character in char::decode_utf16(units.iter().copied()) {
        match character {
            Ok(character) => name.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(surrogate) => {
                let unit = surrogate.unpaired_surrogate();
                name.extend([0xE0 | (unit >> 12) as u8, 0x80 | (unit >> 6 & 0x3F) as u8, 0x80 | (unit & 0x3F) as u8]);
            }
        }
    }
    name
}

/// Returns the code units of a name, the only ones that [`units_to_name`] turns into it; `None` if there are none.
pub fn units_from_name(name: &[u8]) -> Option<Vec<u16>> {
    let mut units = Vec::with_capacity(name.len());
    let mut rest = name;
    while !rest.is_empty() {
        let valid = match std::str::from_utf8(rest) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(rest.get(..error.valid_up_to())?).ok()?,
        };
        units.extend(valid.encode_utf16());
        rest = rest.get(valid.len()..)?;
        if let Some((bytes, after)) = rest.split_first_chunk::<3>() {
            units.push(surrogate(*bytes, units.last().copied())?);
            rest = after;
        } else if !rest.is_empty() {
            return None;
        }
    }
    Some(units)
}

/// Returns the surrogate that three bytes stand for, unless it makes a pair with the unit before it.
fn surrogate(bytes: [u8; 3], before: Option<u16>) -> Option<u16> {
    let [0xED, second @ 0xA0..=0xBF, third @ 0x80..=0xBF] = bytes else { return None };
    let unit = 0xD000 | u16::from(second & 0x3F) << 6 | u16::from(third & 0x3F);
    let is_pair = unit >= 0xDC00 && before.is_some_and(|before| (0xD800..0xDC00).contains(&before));
    (!is_pair).then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_survive_as_bytes() {
        let names: [&[u16]; 6] =
            [&[], &[0x61], &[0xD83D, 0xDE00], &[0xD83D], &[0xDE00, 0xD83D], &[0xD800, 0x61, 0xDFFF, 0xDFFF, 0xFFFF]];
        for units in names {
            assert_eq!(units_from_name(&units_to_name(units)).as_deref(), Some(units));
        }
        assert_eq!(units_to_name(&[0xD83D, 0xDE00]), "😀".as_bytes());
        assert_eq!(units_to_name(&[0xD800]), [0xED, 0xA0, 0x80]);
    }

    #[test]
    fn other_bytes_are_no_name() {
        let names: [&[u8]; 6] = [
            b"\xFF",
            b"a\xC3",
            b"\xED\xA0",
            b"\xC0\x80",
            // A pair has four bytes.
            b"\xED\xA0\xBD\xED\xB8\x80",
            b"\xF8\x88\x80\x80\x80",
        ];
        assert!(names.iter().all(|name| units_from_name(name).is_none()));
    }

    #[test]
    fn rules_of_names_are_checked() {
        let check = |text: &str| check_long_name(&text.encode_utf16().collect::<Vec<_>>());
        assert_eq!((check("a b.c"), check(".profile"), check("+,;=[]")), (Ok(()), Ok(()), Ok(())));
        assert_eq!(
            (check(""), check(".."), check(". .")),
            (Err(LongNameError::Empty), Err(LongNameError::Empty), Err(LongNameError::Empty))
        );
        for character in FORBIDDEN.chars().chain(['\0', '\x1F']) {
            assert_eq!(check(&format!("a{character}b")), Err(LongNameError::Forbidden(character as u16)));
        }
        assert_eq!((check("a."), check("a ")), (Err(LongNameError::Trailing), Err(LongNameError::Trailing)));
        assert_eq!((check(&"é".repeat(255)), check(&"é".repeat(256))), (Ok(()), Err(LongNameError::TooLong)));
    }
}
