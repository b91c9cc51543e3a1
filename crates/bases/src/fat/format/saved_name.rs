//! Names that checks give to what has lost its own: `FSCK0000.REC` of a file, `FSCK0000.DIR` of a directory.

use super::short_name::ShortName;

/// Number of names with one extension.
pub const SAVED_NAMES: u32 = 10_000;

/// Extension of files.
pub const SAVED_FILE: &str = "REC";
/// Extension of directories.
pub const SAVED_DIRECTORY: &str = "DIR";

const PREFIX: &[u8; 4] = b"FSCK";
/// Digits of the number after the prefix.
const DIGITS: usize = 4;

impl ShortName {
    /// Returns the name that a check gives with this number, below [`SAVED_NAMES`], and extension.
    pub fn saved(number: u32, extension: &str) -> Self {
        let mut name = [b' '; 11];
        let number = format!("{number:04}");
        let text = PREFIX.iter().copied().chain(number.bytes()).chain(extension.bytes());
        name.iter_mut().zip(text).for_each(|(byte, value)| *byte = value);
        Self(name)
    }

    /// Returns whether a check may have given this name.
    pub fn is_saved(&self) -> bool {
        let Some(rest) = self.0.strip_prefix(PREFIX) else { return false };
        let (number, extension) = rest.split_at(DIGITS);
        let is_extension = [SAVED_FILE, SAVED_DIRECTORY].iter().any(|known| known.as_bytes() == extension);
        is_extension && number.iter().all(u8::is_ascii_digit)
    }
}

/// Returns whether a check may have given a name with these code units, regardless of case.
pub fn is_saved_name(units: &[u16]) -> bool {
    const DOT: u16 = b'.' as u16;
    let mut name = ShortName([b' '; 11]);
    let (Some(&DOT), Some(base)) = (units.get(PREFIX.len() + DIGITS), units.get(..PREFIX.len() + DIGITS)) else {
        return false;
    };
    let text = base.iter().chain(&units[base.len() + 1..]);
    let bytes = text.map(|&unit| u8::try_from(unit).map(|byte| byte.to_ascii_uppercase()));
    if units.len() != name.0.len() + 1 {
        return false;
    }
    name.0.iter_mut().zip(bytes).for_each(|(byte, value)| *byte = value.unwrap_or_default());
    name.is_saved()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_names_are_recognized() {
        assert_eq!(ShortName::saved(12, SAVED_FILE), ShortName(*b"FSCK0012REC"));
        assert_eq!(ShortName::saved(9999, SAVED_DIRECTORY), ShortName(*b"FSCK9999DIR"));
        assert!([b"FSCK0012REC", b"FSCK9999DIR"].into_iter().all(|name| ShortName(*name).is_saved()));
        assert!(![b"FSCK001AREC", b"FSCK0000TXT", b"FSCK    REC"].into_iter().any(|name| ShortName(*name).is_saved()));
        let is_saved = |name: &str| is_saved_name(&name.encode_utf16().collect::<Vec<_>>());
        assert!(["FSCK0012.REC", "fsck9999.dir"].into_iter().all(is_saved));
        assert!(
            !["FSCK0012.RECT", "FSCK0012REC", "FSCK0012.", "FSCK0012", "", "FSCK0012.RE\u{212}"]
                .into_iter()
                .any(is_saved)
        );
    }
}
