//! Code pages: the character sets of short names and labels.

use encoding_rs::Encoding;
use oem_cp::OEMCPHashMap;
use oem_cp::code_table::{DECODING_TABLE_CP_MAP, ENCODING_TABLE_CP_MAP};
use oem_cp::code_table_type::TableType;

/// First of the private characters that stand for bytes without a character, so that every name can be told from the
/// others.
const PRIVATE: u32 = 0xF700;

/// A character set in which ASCII has its usual codes, and every other character one or two bytes.
#[derive(Clone, Copy, Debug)]
pub struct CodePage {
    number: u16,
    tables: Tables,
}

#[derive(Clone, Copy, Debug)]
enum Tables {
    /// One byte for each character.
    Oem(&'static TableType, &'static OEMCPHashMap<char, u8>),
    /// One or two bytes for each character.
    Windows(&'static Encoding),
}

impl PartialEq for CodePage {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for CodePage {}

impl Default for CodePage {
    /// Returns code page 437, of the first personal computers.
    fn default() -> Self {
        let tables = match (DECODING_TABLE_CP_MAP.get(&437), ENCODING_TABLE_CP_MAP.get(&437)) {
            (Some(decoding), Some(encoding)) => Tables::Oem(decoding, encoding),
            _ => Tables::Windows(encoding_rs::WINDOWS_1252),
        };
        Self { number: 437, tables }
    }
}

impl CodePage {
    /// Returns the code page of a number; `None` if it is not known.
    ///
    /// Known are those of DOS with one byte for each character (437, 720, 737, 775, 850, 852, 855, 857, 858, 860–866, 869
    /// and 874), those of Windows (1250–1258), and 932, 936, 949 and 950 with up to two bytes.
    pub fn by_number(number: u16) -> Option<Self> {
        if let (Some(decoding), Some(encoding)) =
            (DECODING_TABLE_CP_MAP.get(&number), ENCODING_TABLE_CP_MAP.get(&number))
        {
            return Some(Self { number, tables: Tables::Oem(decoding, encoding) });
        }
        let encoding = match number {
            932 => encoding_rs::SHIFT_JIS,
            936 => encoding_rs::GBK,
            949 => encoding_rs::EUC_KR,
            950 => encoding_rs::BIG5,
            1250 => encoding_rs::WINDOWS_1250,
            1251 => encoding_rs::WINDOWS_1251,
            1252 => encoding_rs::WINDOWS_1252,
            1253 => encoding_rs::WINDOWS_1253,
            1254 => encoding_rs::WINDOWS_1254,
            1255 => encoding_rs::WINDOWS_1255,
            1256 => encoding_rs::WINDOWS_1256,
            1257 => encoding_rs::WINDOWS_1257,
            1258 => encoding_rs::WINDOWS_1258,
            _ => return None,
        };
        Some(Self { number, tables: Tables::Windows(encoding) })
    }

    /// Returns the number of the code page.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the one or two bytes of a character; `None` if it has none.
    pub fn encode(&self, character: char) -> Option<Vec<u8>> {
        if character.is_ascii() {
            return Some(vec![character as u8]);
        }
        let private = u32::from(character).wrapping_sub(PRIVATE);
        if (0x80..=0xFF).contains(&private) {
            let byte = private as u8;
            return (self.decode_first(&[byte]) == Some((character, 1))).then(|| vec![byte]);
        }
        match self.tables {
            Tables::Oem(_, encoding) => encoding.get(&character).map(|&byte| vec![byte]),
            Tables::Windows(encoding) => {
                let mut buffer = [0; 4];
                let (bytes, _, has_unmappable) = encoding.encode(character.encode_utf8(&mut buffer));
                let is_whole =
                    !has_unmappable && bytes.first().is_some_and(|byte| !byte.is_ascii()) && bytes.len() <= 2;
                is_whole.then(|| bytes.into_owned())
            }
        }
    }

    /// Returns the first character and its number of bytes; `None` at the end.
    pub fn decode_first(&self, bytes: &[u8]) -> Option<(char, usize)> {
        let &byte = bytes.first()?;
        if byte.is_ascii() {
            return Some((char::from(byte), 1));
        }
        let private = char::from_u32(PRIVATE + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER);
        match self.tables {
            Tables::Oem(decoding, _) => Some((decoding.decode_char_checked(byte).unwrap_or(private), 1)),
            Tables::Windows(encoding) => {
                let decode = |length: usize| {
                    let text = encoding.decode_without_bom_handling_and_without_replacement(bytes.get(..length)?)?;
                    let mut characters = text.chars();
                    characters.next().filter(|_| characters.next().is_none()).map(|character| (character, length))
                };
                Some(decode(1).or_else(|| decode(2)).unwrap_or((private, 1)))
            }
        }
    }

    /// Returns all characters. A byte that has none becomes a private character, which [`CodePage::encode`] turns back.
    pub fn decode(&self, bytes: &[u8]) -> String {
        let mut text = String::new();
        let mut rest = bytes;
        while let Some((character, length)) = self.decode_first(rest) {
            text.push(character);
            rest = rest.get(length..).unwrap_or_default();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [u16; 32] = [
        437, 720, 737, 775, 850, 852, 855, 857, 858, 860, 861, 862, 863, 864, 865, 866, 869, 874, 932, 936, 949, 950,
        1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258, 437,
    ];

    #[test]
    fn every_byte_survives_decoding() {
        for number in NUMBERS {
            let page = CodePage::by_number(number).unwrap();
            assert_eq!(page.number(), number);
            for byte in 0..=255 {
                let (character, length) = page.decode_first(&[byte]).unwrap();
                assert_eq!((page.encode(character), length), (Some(vec![byte]), 1), "{number} {byte:#x}");
            }
        }
    }

    #[test]
    fn characters_have_their_known_codes() {
        let encode = |number, character| CodePage::by_number(number).unwrap().encode(character);
        assert_eq!(encode(437, 'é'), Some(vec![0x82]));
        assert_eq!(encode(850, 'Á'), Some(vec![0xB5]));
        assert_eq!(encode(852, 'ř'), Some(vec![0xFD]));
        assert_eq!(encode(866, 'Ж'), Some(vec![0x86]));
        assert_eq!(encode(1252, '€'), Some(vec![0x80]));
        assert_eq!(encode(932, '表'), Some(vec![0x95, 0x5C]));
        assert_eq!((encode(437, 'Ж'), encode(932, '😀'), encode(1252, 'Ж')), (None, None, None));
        assert_eq!(CodePage::default(), CodePage::by_number(437).unwrap());
        assert_eq!(CodePage::by_number(65001), None);
    }

    #[test]
    fn pairs_of_bytes_are_one_character() {
        let page = CodePage::by_number(932).unwrap();
        assert_eq!(page.decode(&[0x95, 0x5C, b'A', 0xB1]), "表Aｱ");
        assert_eq!(page.decode(&[b'A', 0x95]), "A\u{F795}");
    }
}
