//! Names as they are shown and looked up: long names as they are, short names by one of three translations.

use crate::fat::format::{CaseBits, CodePage, Entry, LongNameReader, ShortName, check_long_name, units_from_name};

use vnode::{Errno, NAME_MAX, Name, Result};

/// How a file is shown that has only a short name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Translation {
    /// As it is stored: in upper case, or in lower case where the entry says so.
    #[default]
    Stored,
    /// In lower case.
    Lower,
    /// Name and extension as one string without a dot between them.
    Joined,
}

/// The rules for the names of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NameRules {
    pub(crate) page: CodePage,
    pub(crate) translation: Translation,
}

impl NameRules {
    /// Returns the code units of a short name as it is shown if there is no long one.
    pub(crate) fn shown_short(&self, name: &ShortName, case: CaseBits) -> Vec<u16> {
        let text = match self.translation {
            Translation::Stored => name.decode(self.page, case),
            Translation::Lower => name.decode(self.page, CaseBits(CaseBits::LOWER_BASE | CaseBits::LOWER_EXTENSION)),
            Translation::Joined => joined(name, self.page),
        };
        text.encode_utf16().collect()
    }

    /// Returns the code units of a short name with its dot.
    pub(crate) fn dotted_short(&self, name: &ShortName) -> Vec<u16> {
        name.decode(self.page, CaseBits::default()).encode_utf16().collect()
    }

    /// Returns a name that is created, as code units.
    ///
    /// # Errors
    /// `EINVAL` for a name that cannot be stored: with a character that the format forbids, with a dot or space at its end, or in
    /// bytes that are not UTF-8; `ENAMETOOLONG`.
    pub(crate) fn units_to_create(&self, name: Name<'_>) -> Result<Vec<u16>> {
        let units = units_from_name(name.as_bytes()).ok_or(Errno::EINVAL)?;
        check_long_name(&units).map_err(|_| Errno::EINVAL)?;
        Ok(units)
    }

    /// Returns a name that is looked up, as code units; `None` if no file can have it.
    pub(crate) fn units_to_find(&self, name: Name<'_>) -> Option<Vec<u16>> {
        units_from_name(name.as_bytes())
    }
}

fn joined(name: &ShortName, page: CodePage) -> String {
    let dotted = name.decode(page, CaseBits::default());
    match dotted.rsplit_once('.') {
        Some((base, extension)) if !base.is_empty() => format!("{base}{extension}"),
        _ => dotted,
    }
}

/// Returns the bytes of a shown name if it is a name of one component.
pub(crate) fn valid_name(bytes: Vec<u8>) -> Option<Vec<u8>> {
    if bytes.len() <= NAME_MAX && Name::new(&bytes).is_ok() { Some(bytes) } else { None }
}

/// Returns the long name of an entry from the slots before it that were read; `None` if it has none or an invalid one.
pub(crate) fn finish_long_name(reader: &mut LongNameReader, entry: &Entry) -> Option<Vec<u16>> {
    reader.finish(&entry.name).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(translation: Translation, name: &[u8; 11], case: u8) -> String {
        let rules = NameRules { translation, ..Default::default() };
        String::from_utf16(&rules.shown_short(&ShortName(*name), CaseBits(case))).unwrap()
    }

    #[test]
    fn short_names_are_shown_by_each_translation() {
        let names = |translation| {
            [(b"README  TXT", 0), (b"README  TXT", 0x18), (b"MAKEFILE   ", 0x08)]
                .map(|(name, case)| shown(translation, name, case))
        };
        assert_eq!(names(Translation::Stored), ["README.TXT", "readme.txt", "makefile"]);
        assert_eq!(names(Translation::Lower), ["readme.txt", "readme.txt", "makefile"]);
        assert_eq!(names(Translation::Joined), ["READMETXT", "READMETXT", "MAKEFILE"]);
    }

    #[test]
    fn names_that_cannot_be_stored_are_refused() {
        let rules = NameRules::default();
        let create = |name: &[u8]| rules.units_to_create(Name::new(name).unwrap()).map(|units| units.len());
        assert_eq!(create("é漢🐟".as_bytes()), Ok(4));
        assert_eq!(create(&[b'x'; 255]), Ok(255));
        for name in [&b"a:b"[..], b"a\\b", b"a?", b"trailing.", b"trailing ", b"...", b"\xff", b"a\n"] {
            assert_eq!(create(name), Err(Errno::EINVAL), "{name:?}");
        }
    }
}
