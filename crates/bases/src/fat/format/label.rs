//! Labels of volumes: 11 characters, in the boot sector and as an entry of the root directory.

use std::fmt;

use super::case::upcase_character;
use super::code_page::CodePage;

/// The label in the boot sector of a volume that has none.
pub const NO_NAME: [u8; 11] = *b"NO NAME    ";

/// A label as it is stored in the root directory and in the boot sector: in upper case and padded with spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(pub [u8; 11]);

/// The reason why a text is no label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelError {
    /// It has more than 11 bytes in the code page.
    TooLong,
    /// It has this character, which is not allowed or not in the code page.
    Forbidden(char),
    /// It is empty, or starts with a space.
    LeadingSpace,
    /// It is `NO NAME`, which stands for none.
    NoName,
}

impl fmt::Display for LabelError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(formatter, "a label has at most 11 bytes in the code page"),
            Self::Forbidden(character) => write!(formatter, "a label cannot have the character {character:?}"),
            Self::LeadingSpace => write!(formatter, "a label does not start with a space"),
            Self::NoName => write!(formatter, "the label NO NAME stands for none"),
        }
    }
}

impl std::error::Error for LabelError {}

/// Returns whether a byte must not be in a label.
fn is_forbidden(byte: u8) -> bool {
    byte < b' ' || byte == 0x7F || b"\"*+,./:;<=>?[\\]|".contains(&byte)
}

impl Label {
    /// Returns the label of a text, in upper case.
    ///
    /// # Errors
    /// If the text is none.
    pub fn encode(text: &str, page: CodePage) -> Result<Self, LabelError> {
        let text = text.trim_end_matches(' ');
        let mut bytes = Vec::new();
        for character in text.chars() {
            let is_allowed = !u8::try_from(character).is_ok_and(is_forbidden);
            let encoded = page.encode(upcase_character(character)).filter(|_| is_allowed);
            bytes.extend(encoded.ok_or(LabelError::Forbidden(character))?);
        }
        let mut label = [b' '; 11];
        if bytes.len() > label.len() {
            return Err(LabelError::TooLong);
        }
        label.iter_mut().zip(bytes).for_each(|(stored, byte)| *stored = byte);
        if label[0] == 0xE5 {
            label[0] = 0x05;
        }
        match label {
            [b' ', ..] => Err(LabelError::LeadingSpace),
            NO_NAME => Err(LabelError::NoName),
            _ => Ok(Self(label)),
        }
    }

    /// Returns the text of the label.
    pub fn decode(&self, page: CodePage) -> String {
        let mut bytes = self.0;
        if bytes[0] == 0x05 {
            bytes[0] = 0xE5;
        }
        page.decode(&bytes).trim_end_matches(' ').to_owned()
    }

    /// Returns whether a stored label follows the rules. Letters may be in lower case, which other systems write.
    pub fn is_valid(&self, page: CodePage) -> bool {
        let mut bytes = self.0;
        if bytes[0] == 0x05 {
            bytes[0] = 0xE5;
        }
        let text = page.decode(&bytes);
        !text.starts_with(' ') && text.chars().all(|character| !u8::try_from(character).is_ok_and(is_forbidden))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_survive_encoding() {
        let page = CodePage::by_number(850).unwrap();
        for (text, stored) in
            [("A disk", "A DISK"), ("élan", "ÉLAN"), ("12345678901", "12345678901"), ("Õ", "Õ"), ("A  ", "A")]
        {
            let label = Label::encode(text, page).unwrap();
            assert_eq!(label.decode(page), stored);
            assert!(label.is_valid(page));
        }
        assert_eq!(Label::encode("Õ", page).unwrap().0[0], 0x05);
    }

    #[test]
    fn invalid_labels_are_refused() {
        let encode = |text| Label::encode(text, CodePage::default()).unwrap_err();
        assert_eq!(encode("123456789012"), LabelError::TooLong);
        assert_eq!(
            (encode("a.b"), encode("Ж"), encode("\n")),
            (LabelError::Forbidden('.'), LabelError::Forbidden('Ж'), LabelError::Forbidden('\n'))
        );
        assert_eq!(
            (encode(""), encode(" a"), encode("no name")),
            (LabelError::LeadingSpace, LabelError::LeadingSpace, LabelError::NoName)
        );
        assert!(!Label(*b"A\0         ").is_valid(CodePage::default()));
        assert!(Label(*b"lower      ").is_valid(CodePage::default()));
    }
}
