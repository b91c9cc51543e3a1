//! The output page: lines of words, wrapped where they are too long.

use super::trivia::CommentPosition;

/// Maximum width of a line in columns, as far as it can be wrapped.
pub const MAX_LINE_COLUMNS: usize = 100;
/// Indentation of one level in columns.
pub(crate) const INDENT: usize = 4;

/// A word on a line: a token or a comment.
#[derive(Clone, Debug)]
pub(crate) struct Word<'a> {
    pub(crate) text: std::borrow::Cow<'a, str>,
    /// A space precedes it, unless it begins a line.
    pub(crate) is_spaced: bool,
    /// A line break is allowed before it: the lower the number, the more preferred.
    pub(crate) break_priority: Option<u32>,
    /// If it has to begin a line, that line gets no extra indentation.
    pub(crate) is_flush: bool,
    /// The position of a comment; `None` for a token.
    pub(crate) comment: Option<CommentPosition>,
    /// The brace of an initializer list, if it is one.
    pub(crate) list: Option<Brace>,
}

/// A brace of an initializer list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brace {
    /// `{`.
    Begin,
    /// `}`.
    End,
}

/// The least preferred break: used only if not even the next word fits.
pub(crate) const LAST_RESORT_BREAK: u32 = u32::MAX;

/// The text written so far.
#[derive(Debug, Default)]
pub(crate) struct Page {
    text: String,
    /// Width of the last line in columns.
    column: usize,
    /// An empty line is requested before the next one.
    pub(crate) blank_requested: bool,
    /// No empty line may precede the next one: a block has just begun.
    pub(crate) is_fresh: bool,
}

impl Page {
    pub(crate) fn finish(mut self) -> String {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Begins a line, after an empty one if the source had one or one is requested.
    fn begin(&mut self, indent: usize, was_blank: bool) {
        if !self.text.is_empty() {
            let is_blank = (was_blank || self.blank_requested) && !self.is_fresh;
            self.text.push_str(if is_blank { "\n\n" } else { "\n" });
        }
        (self.blank_requested, self.is_fresh) = (false, false);
        self.indent(indent);
    }

    fn indent(&mut self, indent: usize) {
        self.text.extend(std::iter::repeat_n(' ', indent));
        self.column = indent;
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.column = match text.rsplit_once('\n') {
            Some((_, last)) => last.chars().count(),
            None => self.column + text.chars().count(),
        };
    }

    /// Appends text to the last line.
    pub(crate) fn append(&mut self, text: &str) {
        self.push(text);
    }

    /// Writes a comment on lines of its own.
    pub(crate) fn comment(&mut self, text: &str, indent: usize, was_blank: bool) {
        self.begin(indent, was_blank);
        let mut lines = text.lines();
        self.push(lines.next().unwrap_or_default());
        let rest: Vec<&str> = lines.collect();
        // The stars of its lines are aligned; other drawings are left as they are.
        if rest.iter().all(|line| line.trim_start().starts_with('*')) {
            for line in rest {
                self.push("\n");
                self.indent(indent + 1);
                self.push(line.trim());
            }
        } else {
            self.push(&text[text.find('\n').unwrap_or(text.len())..]);
        }
    }

    /// Writes a line, wrapped if it is too long.
    pub(crate) fn line(&mut self, words: &[Word<'_>], indent: usize, was_blank: bool) {
        self.begin(indent, was_blank);
        self.words(words, indent, indent + 2 * INDENT);
    }

    /// Writes words from the current position; continuation lines are indented by `further`.
    fn words(&mut self, words: &[Word<'_>], indent: usize, further: usize) {
        let mut index = 0;
        while index < words.len() {
            if index > 0 {
                self.break_before(words, index, indent, further);
            }
            let word = &words[index];
            self.push(&word.text);
            index += 1;
            if word.list == Some(Brace::Begin) && !self.list_fits(&words[index - 1..]) {
                let length = list_length(&words[index - 1..]) - 1;
                self.list(&words[index..index + length], indent);
                index += length;
            }
        }
    }

    /// Writes the separator before a word: nothing, a space, or a line break.
    fn break_before(&mut self, words: &[Word<'_>], index: usize, indent: usize, further: usize) {
        let (before, word) = (&words[index - 1], &words[index]);
        let ends = |word: &Word<'_>| matches!(word.comment, Some(CommentPosition::Trailing | CommentPosition::OwnLine));
        let must = ends(before) || word.comment == Some(CommentPosition::OwnLine);
        if must || word.break_priority.is_some_and(|level| !self.fits(&words[index..], level)) {
            let token = words[index..].iter().find(|word| word.comment.is_none());
            let is_flush = token.is_some_and(|token| token.is_flush);
            self.text.push('\n');
            self.indent(if is_flush { indent } else { further });
        } else if word.is_spaced {
            self.push(" ");
        }
    }

    /// Returns whether the words up to the next break of at least this preference fit on the line, after a space.
    fn fits(&self, words: &[Word<'_>], level: u32) -> bool {
        let mut column = self.column + usize::from(words[0].is_spaced);
        for (index, word) in words.iter().enumerate() {
            let is_next = index > 0 && word.break_priority.is_some_and(|other| other <= level);
            // A comment before the brace of a wrapped list ends its line.
            let is_behind = word.comment.is_some() && index + 1 == words.len();
            if is_next
                || is_behind
                || matches!(word.comment, Some(CommentPosition::Trailing | CommentPosition::OwnLine))
            {
                return true;
            }
            column += usize::from(index > 0 && word.is_spaced);
            match word.text.split_once('\n') {
                Some((first, _)) => return column + first.chars().count() <= MAX_LINE_COLUMNS,
                None => column += word.text.chars().count(),
            }
            if column > MAX_LINE_COLUMNS {
                return false;
            }
        }
        true
    }

    /// Returns whether the list whose opening brace has just been written fits on the line, along with what cannot be
    /// separated from it.
    fn list_fits(&self, words: &[Word<'_>]) -> bool {
        let length = list_length(words);
        let mut column = self.column;
        for (index, word) in words.iter().enumerate().skip(1) {
            if index >= length && word.break_priority.is_some() {
                break;
            }
            let is_broken = matches!(word.comment, Some(CommentPosition::Trailing | CommentPosition::OwnLine))
                || word.text.contains('\n');
            if is_broken && index < length {
                return false;
            }
            if is_broken {
                break;
            }
            column += usize::from(word.is_spaced) + word.text.chars().count();
            if column > MAX_LINE_COLUMNS {
                return false;
            }
        }
        true
    }

    /// Writes the rest of a list on lines of its own, with its closing brace.
    fn list(&mut self, words: &[Word<'_>], indent: usize) {
        let (close, mut inner) = words.split_last().expect("a list is closed");
        if let Some((first, rest)) =
            inner.split_first().filter(|(first, _)| first.comment == Some(CommentPosition::Trailing))
        {
            self.push(" ");
            self.push(&first.text);
            inner = rest;
        }
        if !inner.is_empty() {
            self.text.push('\n');
            self.indent(indent + INDENT);
            for (index, row) in rows(inner).enumerate() {
                if index > 0 {
                    self.text.push('\n');
                    self.indent(indent + INDENT);
                }
                self.words(row, indent + INDENT, indent + INDENT);
            }
        }
        self.text.push('\n');
        self.indent(indent);
        self.push(&close.text);
    }
}

/// Number of words in the list that begins here, including its braces.
fn list_length(words: &[Word<'_>]) -> usize {
    let mut depth = 0;
    for (index, word) in words.iter().enumerate() {
        match word.list {
            Some(Brace::Begin) => depth += 1,
            Some(Brace::End) => depth -= 1,
            None => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    words.len()
}

/// The rows of a list: a nested list has a row of its own.
fn rows<'w, 'a>(mut words: &'w [Word<'a>]) -> impl Iterator<Item = &'w [Word<'a>]> {
    std::iter::from_fn(move || {
        if words.is_empty() {
            return None;
        }
        let mut depth = 0;
        let mut end = words.len();
        for (index, word) in words.iter().enumerate() {
            let is_between = depth == 0 && index > 0 && word.break_priority.is_some();
            if is_between && leads_list(&words[index..]) {
                end = index;
                break;
            }
            match word.list {
                Some(Brace::Begin) => depth += 1,
                Some(Brace::End) => depth -= 1,
                None => {}
            }
        }
        let (row, rest) = words.split_at(end);
        words = rest;
        Some(row)
    })
}

/// Returns whether a list begins here, perhaps after comments.
fn leads_list(words: &[Word<'_>]) -> bool {
    words.iter().find(|word| word.comment.is_none()).is_some_and(|word| word.list == Some(Brace::Begin))
}
