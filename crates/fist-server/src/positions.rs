//! Positions: converts between byte offsets of a text and the protocol's positions.

use fist::lines::Lines;
use fist::text::Span;
use lsp_types::{Position, PositionEncodingKind, Range};

/// The unit of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Bytes.
    Utf8,
    /// UTF-16 code units, the default for editors that announce no encoding.
    Utf16,
}

impl Encoding {
    /// Returns the best of the encodings that the editor supports.
    pub(crate) fn of(known: Option<&[PositionEncodingKind]>) -> Encoding {
        match known.is_some_and(|known| known.contains(&PositionEncodingKind::UTF8)) {
            true => Encoding::Utf8,
            false => Encoding::Utf16,
        }
    }

    /// Returns the protocol's name of the encoding.
    pub(crate) fn kind(self) -> PositionEncodingKind {
        match self {
            Encoding::Utf8 => PositionEncodingKind::UTF8,
            Encoding::Utf16 => PositionEncodingKind::UTF16,
        }
    }

    fn length(self, character: char) -> usize {
        match self {
            Encoding::Utf8 => character.len_utf8(),
            Encoding::Utf16 => character.len_utf16(),
        }
    }

    /// Returns the position of a byte; for one past the text, that of its end.
    pub(crate) fn position(self, text: &str, lines: &Lines, byte: usize) -> Position {
        let byte = byte.min(text.len());
        let line = lines.line(byte);
        let before = text.get(lines.start(text, line)..byte).unwrap_or_default();
        let column: usize = before.chars().map(|character| self.length(character)).sum();
        Position { line: line as u32, character: column as u32 }
    }

    /// Returns the range of a span.
    pub(crate) fn range(self, text: &str, lines: &Lines, span: Span) -> Range {
        let position = |byte| self.position(text, lines, byte as usize);
        Range { start: position(span.start), end: position(span.end) }
    }

    /// Returns the byte at a position; for one past the end of its line or of the text, that end.
    pub(crate) fn byte(self, text: &str, lines: &Lines, position: Position) -> usize {
        let start = lines.start(text, position.line as usize);
        let mut column = 0;
        for (offset, character) in text[start..].char_indices() {
            if column >= position.character as usize || matches!(character, '\n' | '\r') {
                return start + offset;
            }
            column += self.length(character);
        }
        text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_convert_to_bytes_and_back() {
        let text = "a\u{fc}\u{1f600}b\r\nlast";
        let lines = Lines::of(text);
        for (encoding, column) in [(Encoding::Utf8, 7), (Encoding::Utf16, 4)] {
            let position = Position { line: 0, character: column };
            assert_eq!(encoding.byte(text, &lines, position), 7);
            assert_eq!(encoding.position(text, &lines, 7), position);
            assert_eq!(encoding.byte(text, &lines, Position { line: 0, character: 99 }), 8);
            assert_eq!(encoding.byte(text, &lines, Position { line: 1, character: 2 }), 12);
            assert_eq!(encoding.byte(text, &lines, Position { line: 9, character: 0 }), text.len());
        }
    }
}
