//! Lines of a text: the line and column of a byte offset.

use crate::text::Span;

/// Offsets of the beginnings of the lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Offset of the first byte of each line, in ascending order; the first is 0.
    starts: Vec<usize>,
}

impl Lines {
    /// Computes the lines of a text.
    pub fn of(text: &str) -> Lines {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Lines { starts: [0].into_iter().chain(ends.map(|(end, _)| end + 1)).collect() }
    }

    /// Number of lines: one more than the number of line breaks.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// Returns the line of a byte, counted from 0.
    pub fn line(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start <= byte) - 1
    }

    /// Returns the offset of the first byte of a line; past the last line, the length of the text.
    pub fn start(&self, text: &str, line: usize) -> usize {
        self.starts.get(line).copied().unwrap_or(text.len())
    }

    /// Returns the line and column of a byte, both counted from 1 and in characters, as in messages.
    pub fn place(&self, text: &str, byte: usize) -> (usize, usize) {
        let line = self.line(byte);
        let before = text.get(self.starts[line]..byte).unwrap_or_default();
        (line + 1, before.chars().count() + 1)
    }

    /// Returns the whole lines that a span covers, and the number of the first, counted from 0.
    pub fn around(&self, text: &str, span: Span) -> (usize, Span) {
        let (first, last) = (self.line(span.start as usize), self.line(span.end as usize));
        (first, Span::new(self.starts[first], self.start(text, last + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_lines_and_columns() {
        let text = "a\n\u{fc}b\n\nc";
        let lines = Lines::of(text);
        assert_eq!(lines.count(), 4);
        assert_eq!([0, 1, 2, 4, 6, 7, 8].map(|byte| lines.line(byte)), [0, 0, 1, 1, 2, 3, 3]);
        assert_eq!([0, 4, 5, 8].map(|byte| lines.place(text, byte)), [(1, 1), (2, 2), (2, 3), (4, 2)]);
        assert_eq!(lines.around(text, Span::new(4, 4)), (1, Span::new(2, 6)));
        assert_eq!(lines.around(text, Span::new(0, 8)), (0, Span::new(0, 8)));
    }
}
