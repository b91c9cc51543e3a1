//! Lines of a text: which one a byte is on, and how far from its beginning.

use crate::text::Span;

/// Where the lines of a text begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    /// The first byte of each, in their order; the first is 0.
    starts: Vec<usize>,
}

impl Lines {
    /// The lines of a text.
    pub fn of(text: &str) -> Lines {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Lines { starts: [0].into_iter().chain(ends.map(|(end, _)| end + 1)).collect() }
    }

    /// How many there are: one more than line breaks.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// The line that a byte is on, counted from 0.
    pub fn line(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start <= byte) - 1
    }

    /// The first byte of a line; of one behind the last, that behind the text.
    pub fn start(&self, text: &str, line: usize) -> usize {
        self.starts.get(line).copied().unwrap_or(text.len())
    }

    /// The line and the column in it, both counted from 1 and in characters, as messages name places.
    pub fn place(&self, text: &str, byte: usize) -> (usize, usize) {
        let line = self.line(byte);
        let before = text.get(self.starts[line]..byte).unwrap_or_default();
        (line + 1, before.chars().count() + 1)
    }

    /// The lines that a part of the text is on, whole, with the number of the first, counted from 0.
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
