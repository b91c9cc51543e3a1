//! Tokens: what the text of a description is made of.

use crate::text::Span;

/// A token and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Where it stands.
    pub span: Span,
    /// Nothing stands between the token before and this one.
    pub is_attached: bool,
    /// It is the first of its line.
    pub begins_line: bool,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A name, or a word of the language.
    Name,
    /// An integer.
    Integer {
        /// Its value.
        value: u64,
        /// Written with `u`.
        is_unsigned: bool,
        /// Written with `l`.
        is_long: bool,
    },
    /// A character in single quotes.
    Character(u8),
    /// A string in double quotes, its escapes resolved; strings side by side are one token each.
    Text(Vec<u8>),
    /// `$name`, `$0`, `$name:1`: an argument of an operation, and of which file system.
    Variable {
        /// How many bytes of the token the name is, without `$`.
        name_length: u32,
        /// What follows `:`.
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
    /// A line for the preprocessor, which begins with `#`.
    Directive,
    /// The end of the text.
    End,
}

/// A comment, or a condition of the preprocessor with what it leaves out: it says nothing to the parser, and is kept for whoever
/// writes the text anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Where it stands, its marks included.
    pub span: Span,
    /// Nothing stands before it on its line.
    pub begins_line: bool,
}

/// Operators and brackets, the longer before the shorter that they begin with.
pub const MARKS: [&str; 46] = [
    "<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=",
    "%=", "&=", "|=", "^=", "{", "}", "(", ")", "[", "]", ";", ",", ":", "?", "=", "+", "-", "*", "/", "%", "&", "|",
    "^", "~", "!", "<", ">", ".",
];
