//! Short names: 8 bytes and 3 of an extension, in upper case and in a code page; and their generation from long names.

use std::fmt;
use std::fmt::Write as _;

use super::case::upcase_character;
use super::code_page::CodePage;

/// Bytes before the extension.
const BASE: usize = 8;
/// Bytes of a name.
const LENGTH: usize = 11;
/// Stored in place of a first byte 0xE5, which would mark the entry as deleted.
const ESCAPED: u8 = 0x05;
const DELETED: u8 = 0xE5;
/// Numbers that are tried as tails before the name itself is varied.
const TAILS_BEFORE_HASH: u32 = 9;
/// Largest number of a tail.
const TAIL_MAX: u32 = 999_999;

/// A short name as it is stored: padded with spaces, without the dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortName(pub [u8; LENGTH]);

/// Bits of an entry by which a short name is shown in lower case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaseBits(pub u8);

impl CaseBits {
    /// What is before the dot is in lower case.
    pub const LOWER_BASE: u8 = 0x08;
    /// The extension is in lower case.
    pub const LOWER_EXTENSION: u8 = 0x10;

    /// Bits that Windows sets for encrypted files.
    pub const ENCRYPTED: u8 = 0x03;

    /// Returns these bits without those of other meanings.
    #[must_use]
    pub const fn known(self) -> Self {
        Self(self.0 & (Self::LOWER_BASE | Self::LOWER_EXTENSION))
    }
}

/// The reason why a short name is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortNameError {
    /// It starts with a space.
    LeadingSpace,
    /// It has this byte, which is not allowed.
    Forbidden(u8),
}

impl fmt::Display for ShortNameError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeadingSpace => write!(formatter, "the short name starts with a space"),
            Self::Forbidden(byte) => {
                write!(formatter, "the short name has the forbidden character '{}'", byte.escape_ascii())
            }
        }
    }
}

impl std::error::Error for ShortNameError {}

/// A short name that was generated for a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratedName {
    /// The short name.
    pub name: ShortName,
    /// The bits by which it is shown in the case of the long name, where they can.
    pub case: CaseBits,
    /// Whether it differs from the long name, which then has to be stored, too.
    pub needs_long_name: bool,
}

impl ShortName {
    /// The name of the entry of a directory for itself.
    pub const DOT: Self = Self(*b".          ");
    /// The name of the entry of a directory for its parent.
    pub const DOT_DOT: Self = Self(*b"..         ");

    /// Returns the checksum that the slots of the long name hold.
    pub fn checksum(&self) -> u8 {
        self.0.iter().fold(0, |sum: u8, &byte| sum.rotate_right(1).wrapping_add(byte))
    }

    /// Returns whether this is the name of a directory's entry for itself or its parent.
    pub fn is_dots(&self) -> bool {
        *self == Self::DOT || *self == Self::DOT_DOT
    }

    /// Returns the parts before and after the dot without padding, and with the first byte that they stand for.
    fn parts(&self) -> ([u8; LENGTH], usize, usize) {
        let mut bytes = self.0;
        if bytes[0] == ESCAPED {
            bytes[0] = DELETED;
        }
        let unpadded = |part: &[u8]| part.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
        let (base, extension) = bytes.split_at(BASE);
        (bytes, unpadded(base), unpadded(extension))
    }

    /// Returns the name as it is shown, with a dot before the extension if there is one.
    pub fn decode(&self, page: CodePage, case: CaseBits) -> String {
        let (bytes, base, extension) = self.parts();
        let mut shown = part_text(&bytes[..base], page, case.0 & CaseBits::LOWER_BASE != 0);
        if extension > 0 {
            shown.push('.');
            let is_lower = case.0 & CaseBits::LOWER_EXTENSION != 0;
            shown += &part_text(&bytes[BASE..BASE + extension], page, is_lower);
        }
        shown
    }

    /// Returns code units for the name that no code page changes: a byte outside of ASCII becomes a character for private use, from
    /// U+F780 to U+F7FF. Since long names may have these too, an asterisk comes first then, which they may not have.
    pub fn neutral_units(&self) -> Vec<u16> {
        let (bytes, base, extension) = self.parts();
        let mark = if bytes.is_ascii() { &b""[..] } else { b"*" };
        let unit = |&byte: &u8| if byte.is_ascii() { u16::from(byte) } else { 0xF700 | u16::from(byte) };
        let dot = if extension > 0 { &b"."[..] } else { &[] };
        let extension = &bytes[BASE..BASE + extension];
        mark.iter().chain(&bytes[..base]).chain(dot).chain(extension).map(unit).collect()
    }

    /// Checks a stored name by the rules of the format. Spaces inside are allowed; letters in lower case, and characters
    /// that only long names may have, are tolerated, because other systems read them.
    ///
    /// # Errors
    /// The first rule that the name breaks.
    pub fn check(&self, page: CodePage) -> Result<(), ShortNameError> {
        let (bytes, _, _) = self.parts();
        if self.is_dots() {
            return Ok(());
        }
        if bytes[0] == b' ' {
            return Err(ShortNameError::LeadingSpace);
        }
        let (base, extension) = bytes.split_at(BASE);
        check_part(base, page).and_then(|()| check_part(extension, page))
    }

    /// Returns the short name for a name: itself if it can be stored so, otherwise one that `is_taken` denies. `None` if
    /// the directory has taken a million of them.
    ///
    /// The name must be valid as a long one.
    pub fn generate(
        units: &[u16],
        page: CodePage,
        is_taken: &mut dyn FnMut(&ShortName) -> bool,
    ) -> Option<GeneratedName> {
        let basis = Basis::of(units, page);
        let plain = basis.name(None);
        if !basis.is_lossy && !is_taken(&plain) {
            let case = basis.case();
            let needs_long_name = !plain.decode(page, case).encode_utf16().eq(units.iter().copied());
            let case = if needs_long_name { CaseBits::default() } else { case };
            return Some(GeneratedName { name: plain, case, needs_long_name });
        }
        let hashed = basis.hashed(units);
        let tails = (1..=TAILS_BEFORE_HASH).map(|tail| (&basis, tail));
        let hashed_tails = (1..=TAILS_BEFORE_HASH).map(|tail| (&hashed, tail));
        let rest = (TAILS_BEFORE_HASH + 1..=TAIL_MAX).map(|tail| (&basis, tail));
        let name = tails.chain(hashed_tails).chain(rest).map(|(basis, tail)| basis.name(Some(tail)));
        let name = name.into_iter().find(|name| !is_taken(name))?;
        Some(GeneratedName { name, case: CaseBits::default(), needs_long_name: true })
    }
}

/// Returns whether a character of ASCII must not be in a short name.
fn is_forbidden(byte: u8) -> bool {
    is_harmful(byte) || b"+,;=[]".contains(&byte)
}

/// Returns whether a character of ASCII in a short name cannot be tolerated.
fn is_harmful(byte: u8) -> bool {
    byte < b' ' || byte == 0x7F || b"\"*./:<>?\\|".contains(&byte)
}

fn check_part(part: &[u8], page: CodePage) -> Result<(), ShortNameError> {
    let mut rest = part;
    while let Some((character, length)) = page.decode_first(rest) {
        match rest.first() {
            Some(&byte) if character.is_ascii() && is_harmful(byte) => return Err(ShortNameError::Forbidden(byte)),
            _ => rest = rest.get(length..).unwrap_or_default(),
        }
    }
    Ok(())
}

fn part_text(part: &[u8], page: CodePage, is_lower: bool) -> String {
    let text = page.decode(part);
    let lower = |character: char| {
        let mut lower = character.to_lowercase();
        match (lower.next(), lower.next()) {
            (Some(lower), None) => lower,
            _ => character,
        }
    };
    if is_lower { text.chars().map(lower).collect() } else { text }
}

/// What short names are generated from: the characters of the name in upper case, each with its bytes.
struct Basis {
    base: Vec<Vec<u8>>,
    extension: Vec<Vec<u8>>,
    /// The name has characters in lower case: before the dot, after it.
    has_lower: [bool; 2],
    /// The name has characters that were dropped or replaced.
    is_lossy: bool,
}

impl Basis {
    fn of(units: &[u16], page: CodePage) -> Self {
        let characters: Vec<char> =
            char::decode_utf16(units.iter().copied()).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        let start = characters.iter().position(|&character| character != '.').unwrap_or(characters.len());
        let dot = characters.iter().rposition(|&character| character == '.').filter(|&dot| dot > start);
        let (base, extension) = match dot {
            Some(dot) => (&characters[start..dot], &characters[dot + 1..]),
            None => (&characters[start..], &[][..]),
        };
        let mut basis = Self {
            base: Vec::new(),
            extension: Vec::new(),
            has_lower: [base, extension]
                .map(|part| part.iter().any(|&character| upcase_character(character) != character)),
            is_lossy: start > 0,
        };
        basis.base = basis.part(base, page, BASE);
        basis.extension = basis.part(extension, page, LENGTH - BASE);
        if basis.base.is_empty() {
            basis.base.push(vec![b'_']);
            basis.is_lossy = true;
        }
        basis
    }

    /// Returns the bytes of each character, as far as they have room.
    fn part(&mut self, characters: &[char], page: CodePage, room: usize) -> Vec<Vec<u8>> {
        let mut part = Vec::new();
        let mut length = 0;
        for &character in characters {
            if character == ' ' || character == '.' {
                self.is_lossy = true;
                continue;
            }
            let is_allowed = !u8::try_from(character).is_ok_and(is_forbidden);
            let encoded = page.encode(upcase_character(character)).filter(|_| is_allowed);
            self.is_lossy |= encoded.is_none();
            let encoded = encoded.unwrap_or_else(|| vec![b'_']);
            length += encoded.len();
            if length > room {
                self.is_lossy = true;
                break;
            }
            part.push(encoded);
        }
        part
    }

    /// Returns the bits by which the name is shown in lower case.
    fn case(&self) -> CaseBits {
        let [base, extension] = self.has_lower;
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        CaseBits(bit(base, CaseBits::LOWER_BASE) | bit(extension, CaseBits::LOWER_EXTENSION))
    }

    /// Returns the name with a number at the end of what is before the dot.
    fn name(&self, tail: Option<u32>) -> ShortName {
        let tail = tail.map(|tail| format!("~{tail}")).unwrap_or_default();
        let mut base = Vec::with_capacity(BASE);
        for character in &self.base {
            if base.len() + character.len() + tail.len() > BASE {
                break;
            }
            base.extend_from_slice(character);
        }
        base.extend_from_slice(tail.as_bytes());
        let mut name = [b' '; LENGTH];
        let stored = name.iter_mut();
        stored.zip(base).for_each(|(byte, value)| *byte = value);
        let extension = self.extension.iter().flatten();
        name.iter_mut().skip(BASE).zip(extension).for_each(|(byte, &value)| *byte = value);
        if name[0] == DELETED {
            name[0] = ESCAPED;
        }
        ShortName(name)
    }

    /// Returns a basis that few other names have: two characters, and a hash of the whole name.
    fn hashed(&self, units: &[u16]) -> Self {
        let step = |hash: u32, &unit: &u16| (hash ^ u32::from(unit)).wrapping_mul(0x0100_0193);
        let hash = units.iter().fold(0x811C_9DC5, step);
        let mut digits = String::new();
        let _ = write!(digits, "{:04X}", (hash >> 16) ^ (hash & 0xFFFF));
        let base = self.base.iter().take(2).cloned().chain(digits.bytes().map(|digit| vec![digit])).collect();
        Self { base, extension: self.extension.clone(), has_lower: self.has_lower, is_lossy: true }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn generate(text: &str, page: u16, taken: &[&[u8; 11]]) -> GeneratedName {
        let units: Vec<u16> = text.encode_utf16().collect();
        let page = CodePage::by_number(page).unwrap();
        ShortName::generate(&units, page, &mut |name| taken.contains(&&name.0)).unwrap()
    }

    #[test]
    fn names_that_fit_need_no_long_name() {
        let fits = [
            ("README.TXT", b"README  TXT", 0),
            ("readme.txt", b"README  TXT", 0x18),
            ("readme.TXT", b"README  TXT", 0x08),
            ("README.txt", b"README  TXT", 0x10),
            ("12345678", b"12345678   ", 0),
            ("a.b", b"A       B  ", 0x18),
            ("{$%'-_@~`!(}", b"{$%'-_@~`!(", 0),
        ];
        for (text, name, case) in &fits[..6] {
            let generated = generate(text, 437, &[]);
            let expected = GeneratedName { name: ShortName(**name), case: CaseBits(*case), needs_long_name: false };
            assert_eq!(generated, expected, "{text}");
            assert_eq!(generated.name.decode(CodePage::default(), generated.case), *text);
        }
        assert!(generate(fits[6].0, 437, &[]).needs_long_name);
    }

    #[test]
    fn names_that_do_not_fit_get_a_tail() {
        let cases = [
            ("ReadMe.txt", b"README  TXT"),
            ("A long name.text", b"ALONGN~1TEX"),
            (".profile", b"PROFIL~1   "),
            ("a.tar.gz", b"ATAR~1  GZ "),
            ("a+b", b"A_B~1      "),
            ("name.", b"NAME       "),
            ("日本語", b"___~1      "),
            ("...", b"_~1        "),
            ("a b", b"AB~1       "),
        ];
        for (text, name) in cases {
            let generated = generate(text, 437, &[]);
            assert_eq!(generated.name, ShortName(*name), "{text}");
            assert!(generated.needs_long_name && generated.case == CaseBits(0), "{text}");
            assert_eq!(generated.name.check(CodePage::default()), Ok(()), "{text}");
        }
    }

    #[test]
    fn taken_names_are_avoided() {
        let generated = generate("readme.txt", 437, &[b"README  TXT", b"README~1TXT"]);
        assert_eq!(generated.name, ShortName(*b"README~2TXT"));
        assert!(generated.needs_long_name);
        let mut taken = HashSet::new();
        for index in 0..300 {
            let units: Vec<u16> = format!("a long name {index}").encode_utf16().collect();
            let mut queries = 0;
            let generated = ShortName::generate(&units, CodePage::default(), &mut |name| {
                queries += 1;
                taken.contains(name)
            });
            assert!(taken.insert(generated.unwrap().name) && queries < 30);
        }
        let units: Vec<u16> = "a long name".encode_utf16().collect();
        let mut free = None;
        let last = ShortName::generate(&units, CodePage::default(), &mut |name| {
            name.0 != *b"A~999999   " && free.replace(*name) != Some(*name)
        });
        assert_eq!(last.unwrap().name, ShortName(*b"A~999999   "));
        assert_eq!(ShortName::generate(&units, CodePage::default(), &mut |_| true), None);
    }

    #[test]
    fn code_pages_decide_what_fits() {
        assert_eq!(
            generate("été", 850, &[]),
            GeneratedName { name: ShortName(*b"\x90T\x90        "), case: CaseBits(8), needs_long_name: false }
        );
        assert_eq!(generate("été", 437, &[]).name, ShortName(*b"\x90T\x90        "));
        assert_eq!(generate("été", 866, &[]).name, ShortName(*b"_T_~1      "));
        // 0xE5 is stored as 0x05, and a character of two bytes is not divided.
        let generated = generate("хлеб", 866, &[]);
        assert_eq!(generate("Хх", 866, &[]).name.decode(CodePage::by_number(866).unwrap(), CaseBits(0)), "ХХ");
        assert!(!generated.needs_long_name);
        assert_eq!(generate("å", 1252, &[]).name, ShortName(*b"\xC5          "));
        assert_eq!(generate("х", 1251, &[]).name, ShortName(*b"\xD5          "));
        let page = CodePage::by_number(932).unwrap();
        let generated = generate("表表表表表", 932, &[]);
        assert_eq!(generated.name, ShortName(*b"\x95\x5C\x95\x5C\x95\x5C~1   "));
        assert_eq!(generated.name.check(page), Ok(()));
        assert_eq!(ShortName(*b"\x05A         ").decode(CodePage::by_number(437).unwrap(), CaseBits(0)), "σA");
    }

    #[test]
    fn rules_of_short_names_are_checked() {
        let check = |name: &[u8; 11]| ShortName(*name).check(CodePage::default());
        assert_eq!((check(b"A B     C D"), check(b"\x05          "), check(b"..         ")), (Ok(()), Ok(()), Ok(())));
        assert_eq!(check(b" A         "), Err(ShortNameError::LeadingSpace));
        assert_eq!(check(b"A?         "), Err(ShortNameError::Forbidden(b'?')));
        assert_eq!(check(b"A\x05         "), Err(ShortNameError::Forbidden(5)));
        assert_eq!(check(b"...        "), Err(ShortNameError::Forbidden(b'.')));
        assert_eq!((check(b"A       tXT"), check(b"A+,;=[]    ")), (Ok(()), Ok(())));
    }

    #[test]
    fn checksum_is_that_of_the_format() {
        assert_eq!(ShortName(*b"LONGNA~1TXT").checksum(), 0xF4);
        assert_eq!(ShortName([0; 11]).checksum(), 0);
    }
}
