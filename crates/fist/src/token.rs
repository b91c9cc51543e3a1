//! Tokens of a FiST program.

use crate::text::Span;

/// A token and its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its kind.
    pub kind: TokenKind,
    /// Its location.
    pub span: Span,
    /// Nothing separates it from the preceding token.
    pub is_attached: bool,
    /// It is the first on its line.
    pub begins_line: bool,
}

/// The kind of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A name or a keyword.
    Name,
    /// An integer.
    Integer {
        /// Its value.
        value: u64,
        /// Has the suffix `u`.
        is_unsigned: bool,
        /// Has the suffix `l`.
        is_long: bool,
    },
    /// A character in single quotes.
    Character(u8),
    /// A string in double quotes, with escapes resolved; adjacent strings are separate tokens.
    Text(Vec<u8>),
    /// `$name`, `$0`, `$name:1`: an argument of an operation, and the file system that it belongs to.
    Variable {
        /// Length of the name in bytes, without `$`.
        name_length: u32,
        /// The number after `:`.
        branch: Option<u32>,
    },
    /// An operator or a bracket, one of [`MARKS`].
    Mark(&'static str),
    /// `%%` at the beginning of a line.
    Separator,
    /// `%{` at the beginning of a line.
    RawBegin,
    /// `%}` at the beginning of a line.
    RawEnd,
    /// A preprocessor line, which begins with `#`.
    Directive,
    /// The end of the text.
    End,
}

/// A comment, or a preprocessor condition with the text that it excludes: the parser ignores it, and the formatter
/// keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Its location, including its delimiters.
    pub span: Span,
    /// Nothing precedes it on its line.
    pub begins_line: bool,
}

/// Operators and brackets, each before any that is a prefix of it.
pub const MARKS: [&str; 46] = [
    "<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=",
    "%=", "&=", "|=", "^=", "{", "}", "(", ")", "[", "]", ";", ",", ":", "?", "=", "+", "-", "*", "/", "%", "&", "|",
    "^", "~", "!", "<", ">", ".",
];
