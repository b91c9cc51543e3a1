//! Names as a Unix file system shows them: from identifiers of ISO 9660 and Joliet, made safe, and short enough.

use std::borrow::Cow;

use vnode::NAME_MAX;

use super::text;

/// How identifiers of plain ISO 9660 become names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameMapping {
    /// Lower-case letters; without the version 1, and without the dot of an empty extension.
    #[default]
    Lower,
    /// As `Lower`, with the letters as recorded.
    AsIs,
    /// Exactly as recorded, such as `README.TXT;1`.
    Raw,
}

/// Returns the name for an identifier of plain ISO 9660.
pub(crate) fn from_plain(identifier: &[u8], is_directory: bool, mapping: NameMapping) -> Vec<u8> {
    let shown = match mapping {
        NameMapping::Raw => identifier,
        _ if is_directory => identifier,
        _ => without_version(identifier),
    };
    match mapping {
        NameMapping::Lower => shown.to_ascii_lowercase(),
        NameMapping::AsIs | NameMapping::Raw => shown.to_vec(),
    }
}

/// Returns the name for an identifier of an enhanced descriptor: bytes, without the version 1 that some writers add.
pub(crate) fn from_enhanced(identifier: &[u8], is_directory: bool) -> Vec<u8> {
    let shown = if is_directory { identifier } else { identifier.strip_suffix(b";1").unwrap_or(identifier) };
    shown.to_vec()
}

/// Returns the name for an identifier of Joliet, without the version 1, which some writers omit.
pub(crate) fn from_joliet(identifier: &[u8], is_directory: bool) -> Vec<u8> {
    let mut name = text::utf8_from_utf16(identifier);
    if !is_directory && name.ends_with(b";1") {
        name.truncate(name.len() - 2);
    }
    name
}

fn without_version(identifier: &[u8]) -> &[u8] {
    let Some(name) = identifier.strip_suffix(b";1") else { return identifier };
    match name.strip_suffix(b".") {
        Some(stem) if !stem.is_empty() => stem,
        _ => name,
    }
}

/// Returns a name that a Unix file system may have: `/` and NUL become `_`, and so does every dot of `.` and `..`; the empty name
/// becomes `_`. A name of more than 255 bytes is cut off, and ends with a hash of all of it: `~` and 16 hexadecimal digits.
pub(crate) fn safe(name: Vec<u8>) -> Vec<u8> {
    let name = match &name[..] {
        b"" | b"." => b"_".to_vec(),
        b".." => b"__".to_vec(),
        _ if name.iter().any(is_forbidden) => {
            name.iter().map(|byte| if is_forbidden(byte) { b'_' } else { *byte }).collect()
        }
        _ => name,
    };
    if name.len() > NAME_MAX {
        with_suffix(&name, &format!("~{:016x}", xxhash_rust::xxh3::xxh3_64(&name)))
    } else {
        name
    }
}

/// Returns the name by which an object is shown if `count - 1` before it in its directory have the same name.
pub(crate) fn duplicate(name: &[u8], count: u32) -> Vec<u8> {
    with_suffix(name, &format!("~{count}"))
}

/// Returns what names have in common that can become equal when they are cut off for a number.
pub(crate) fn duplicate_stem(name: &[u8]) -> &[u8] {
    // A number has up to ten digits, and up to three bytes of a character are cut off with it.
    const LENGTH: usize = NAME_MAX - "~4294967295".len() - 3;
    name.get(..LENGTH).unwrap_or(name)
}

/// Returns the name with a suffix, and as much of it as there is room for: whole characters, if it is UTF-8.
fn with_suffix(name: &[u8], suffix: &str) -> Vec<u8> {
    let room = NAME_MAX - suffix.len();
    let mut kept = Cow::Borrowed(name);
    if name.len() > room {
        let is_boundary = |at: &usize| name.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80);
        let end = (room.saturating_sub(3)..=room).rev().find(is_boundary).unwrap_or(room);
        kept = Cow::Borrowed(&name[..end]);
    }
    [&kept, suffix.as_bytes()].concat()
}

fn is_forbidden(byte: &u8) -> bool {
    matches!(byte, b'/' | 0)
}

#[cfg(test)]
mod tests {
    use vnode::Name;

    use super::*;

    fn plain(identifier: &[u8], mapping: NameMapping) -> String {
        String::from_utf8(from_plain(identifier, false, mapping)).unwrap()
    }

    #[test]
    fn plain_names_lose_what_the_standard_requires() {
        use NameMapping::{AsIs, Lower, Raw};
        for (identifier, lower, as_is) in [
            ("README.TXT;1", "readme.txt", "README.TXT"),
            ("README.;1", "readme", "README"),
            ("README", "readme", "README"),
            ("README.", "readme.", "README."),
            ("README.TXT;2", "readme.txt;2", "README.TXT;2"),
            (".;1", ".", "."),
            (";1", "", ""),
        ] {
            assert_eq!(plain(identifier.as_bytes(), Lower), lower);
            assert_eq!(plain(identifier.as_bytes(), AsIs), as_is);
            assert_eq!(plain(identifier.as_bytes(), Raw), identifier);
        }
        assert_eq!(from_plain(b"DIR;1", true, Lower), b"dir;1");
    }

    #[test]
    fn joliet_names_may_have_a_version() {
        let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<_>>();
        assert_eq!(from_joliet(&utf16("Grüße.txt;1"), false), "Grüße.txt".as_bytes());
        assert_eq!(from_joliet(&utf16("Grüße.txt"), false), "Grüße.txt".as_bytes());
        assert_eq!(from_joliet(&utf16("a;1"), true), b"a;1");
        assert_eq!(from_enhanced(b"Mixed Case;1", false), b"Mixed Case");
    }

    #[test]
    fn unsafe_names_become_safe() {
        for (name, shown) in [("", "_"), (".", "_"), ("..", "__"), ("a/b\0c", "a_b_c"), ("...", "..."), ("/", "_")] {
            let safe = safe(name.into());
            assert_eq!(safe, shown.as_bytes());
            assert!(Name::new(&safe).is_ok());
        }
    }

    #[test]
    fn long_names_are_cut_off_and_stay_different() {
        let names = ["ü".repeat(128), "ü".repeat(129), "ü".repeat(128) + "u"].map(|name| safe(name.into()));
        for name in &names {
            assert!(Name::new(name).is_ok() && std::str::from_utf8(name).is_ok() && name.len() > 250);
        }
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
        assert_eq!(safe(vec![b'x'; 255]), [b'x'; 255]);
        let bytes = safe(vec![0x80; 300]);
        assert_eq!(bytes.len(), 255);
    }

    #[test]
    fn duplicates_are_numbered() {
        assert_eq!(duplicate(b"name", 2), b"name~2");
        assert_eq!(duplicate(&[b'x'; 255], 10).len(), 255);
    }
}
