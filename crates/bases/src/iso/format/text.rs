//! Text in volume descriptors and names: padded ASCII, and the big-endian UTF-16 of Joliet.

/// The character set of a volume's identifiers and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CharacterSet {
    /// Bytes: ASCII by the standard, whatever the writer used in practice.
    Bytes,
    /// UTF-16 or UCS-2, big-endian (Joliet).
    Utf16,
}

/// Returns an identifier without its padding, for people to read.
pub(crate) fn identifier(bytes: &[u8], character_set: CharacterSet) -> String {
    let text = match character_set {
        CharacterSet::Bytes => String::from_utf8_lossy(bytes),
        CharacterSet::Utf16 => String::from_utf16_lossy(&units(bytes).collect::<Vec<_>>()).into(),
    };
    text.trim_matches(|character: char| character == '\0' || character == ' ').to_owned()
}

/// Returns big-endian UTF-16 as UTF-8. A surrogate without its partner becomes the three bytes that UTF-8 would have for that
/// number, as in WTF-8: names with such halves stay different from each other. An odd last byte is ignored.
pub(crate) fn utf8_from_utf16(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    for decoded in char::decode_utf16(units(bytes)) {
        match decoded {
            Ok(character) => text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(error) => {
                let unit = error.unpaired_surrogate();
                text.extend([0xe0 | (unit >> 12) as u8, 0x80 | (unit >> 6 & 0x3f) as u8, 0x80 | (unit & 0x3f) as u8]);
            }
        }
    }
    text
}

fn units(bytes: &[u8]) -> impl Iterator<Item = u16> + '_ {
    bytes.chunks_exact(2).map(|unit| u16::from_be_bytes([unit[0], unit[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_no_part_of_an_identifier() {
        assert_eq!(identifier(b"CDROM   \0\0", CharacterSet::Bytes), "CDROM");
        assert_eq!(identifier(b"\0C\0D\0 \0\0\0", CharacterSet::Utf16), "CD");
        assert_eq!(identifier(b"\xffA ", CharacterSet::Bytes), "\u{fffd}A");
    }

    #[test]
    fn utf16_becomes_utf8() {
        assert_eq!(utf8_from_utf16(&[0, b'a', 0x20, 0xac, 0xd8, 0x3d, 0xde, 0x00, 7]), "a€😀".as_bytes());
    }

    #[test]
    fn halves_of_pairs_stay_different() {
        let (high, other, low) =
            (utf8_from_utf16(&[0xd8, 0, 0, b'x']), utf8_from_utf16(&[0xd8, 1]), utf8_from_utf16(&[0xdc, 0]));
        assert_eq!(high, b"\xed\xa0\x80x");
        assert_eq!((other, low), (b"\xed\xa0\x81".to_vec(), b"\xed\xb0\x80".to_vec()));
    }
}
