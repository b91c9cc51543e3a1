//! What can be wrong with the text of an expression, where, and what to do about it.

use std::fmt;

use super::tree::{Mode, Span};
use crate::suggest;

/// An error in the text, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// What is wrong.
    pub problem: Problem,
    /// Where.
    pub span: Span,
}

/// What is wrong with the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// There is nothing but blanks.
    Empty,
    /// A double quote is not closed.
    UnclosedQuote,
    /// The text ends in a backslash.
    TrailingBackslash,
    /// `\x` without two hexadecimal digits.
    BadEscape,
    /// A zero byte, which no name or value can contain.
    Nul,
    /// A base was expected.
    ExpectedBase(Found),
    /// A path is empty (`""`).
    EmptyPath,
    /// A layer was expected.
    ExpectedLayer(Found),
    /// A branch mode was expected.
    ExpectedMode(Found),
    /// A word that is no branch mode.
    UnknownMode(String),
    /// An option's name was expected.
    ExpectedKey(Found),
    /// An option has no `=`.
    ExpectedEquals {
        /// The option's name.
        key: String,
        /// What stands in place of the `=`.
        found: Found,
    },
    /// An option has no value.
    ExpectedValue {
        /// The option's name.
        key: String,
        /// What stands in place of the value.
        found: Found,
    },
    /// Something that cannot follow what stands before it.
    Unexpected {
        /// What was found.
        found: Found,
        /// What it follows.
        after: Place,
    },
    /// A parenthesis is not closed.
    UnclosedParenthesis,
    /// A parenthesis is closed that was not opened.
    UnopenedParenthesis,
    /// A word that can be neither the name of a layer nor the path of a description.
    BadLayerName(String),
    /// More parentheses within each other than the parser follows.
    TooDeep,
}

/// What the parser found instead of what it expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A word.
    Word(String),
    /// Punctuation.
    Character(char),
    /// The end of the text.
    End,
}

/// What an unexpected piece of text follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A branch of the source.
    Branch,
    /// A layer.
    Layer,
    /// The value of an option.
    Value,
}

impl SyntaxError {
    /// Joins a problem and its place.
    pub(crate) fn new(problem: Problem, span: Span) -> Self {
        SyntaxError { problem, span }
    }
}

impl Span {
    /// Two lines that show the place: the line of `text` that it is in, and carets below it.
    pub fn excerpt(self, text: &str) -> String {
        let floor = |offset: usize| text.floor_char_boundary(offset.min(text.len()));
        let start = floor(self.start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |length| start + length);
        let end = floor(self.end).clamp(start, line_end);
        let line: String = text[line_start..line_end].chars().map(visible).collect();
        let blanks = text[line_start..start].chars().count();
        let carets = text[start..end].chars().count().max(1);
        format!("{line}\n{}{}", " ".repeat(blanks), "^".repeat(carets))
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "column {}: {}", self.span.column(), self.problem)
    }
}

impl std::error::Error for SyntaxError {}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let modes = || suggest::list(Mode::ALL.map(Mode::word));
        match self {
            Problem::Empty => {
                write!(formatter, "the stack expression is empty; start it with a base such as /path or mem:")
            }
            Problem::UnclosedQuote => {
                write!(formatter, "this double quote is never closed; close it, or write \\\" for the character itself")
            }
            Problem::TrailingBackslash => {
                write!(formatter, "nothing follows this backslash; write \\\\ for the character itself")
            }
            Problem::BadEscape => {
                write!(formatter, "\\x needs two hexadecimal digits; write \\x41, or \\\\x for a backslash and an x")
            }
            Problem::Nul => write!(formatter, "a zero byte cannot be part of a name or value; remove it"),
            Problem::ExpectedBase(found) => {
                write!(
                    formatter,
                    "expected a base, found {found}; write a path, kind:location, or a stack in parentheses"
                )
            }
            Problem::EmptyPath => write!(formatter, "this path is empty; write \".\" for the current directory"),
            Problem::ExpectedLayer(found) => {
                write!(formatter, "expected a layer, found {found}; name one, or remove the '|' before it")
            }
            Problem::ExpectedMode(found) => {
                write!(formatter, "expected a branch mode after '=', found {found}; the modes are {}", modes())
            }
            Problem::UnknownMode(word) => write!(
                formatter,
                "unknown branch mode '{word}'; the modes are {} (a path with '=' in it is written in double quotes)",
                modes()
            ),
            Problem::ExpectedKey(found) => {
                write!(formatter, "expected an option, found {found}; options are written (key=value, key=value)")
            }
            Problem::ExpectedEquals { key, found } => {
                write!(formatter, "expected '=' after the option '{key}', found {found}; write {key}=value")
            }
            Problem::ExpectedValue { key, found } => {
                write!(
                    formatter,
                    "expected a value for the option '{key}', found {found}; write {key}=value, or {key}=\"\" for an empty one"
                )
            }
            Problem::Unexpected { found, after } => {
                write!(formatter, "unexpected {found} after {after}; {}", after.remedy())
            }
            Problem::UnclosedParenthesis => {
                write!(formatter, "this parenthesis is never closed; add ')'")
            }
            Problem::UnopenedParenthesis => write!(
                formatter,
                "this ')' closes nothing; remove it, or put the word in double quotes if it is part of a name"
            ),
            Problem::BadLayerName(name) => write!(
                formatter,
                "'{name}' is neither the name of a layer nor a path that ends in .fist; write one of them"
            ),
            Problem::TooDeep => write!(formatter, "too many parentheses within each other; use fewer"),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Word(word) => write!(formatter, "'{}'", word.escape_debug()),
            Found::Character(character) => write!(formatter, "'{character}'"),
            Found::End => write!(formatter, "the end"),
        }
    }
}

impl Place {
    fn remedy(self) -> &'static str {
        match self {
            Place::Branch => {
                "continue with '|' and a layer, or write a path with blanks or punctuation in double quotes"
            }
            Place::Layer => "put '|' between two layers",
            Place::Value => "put ',' between two options and write a value with blanks or punctuation in double quotes",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Place::Branch => "a base",
            Place::Layer => "a layer",
            Place::Value => "a value",
        })
    }
}

/// Keeps an excerpt on one line whatever the text contains.
fn visible(character: char) -> char {
    if character.is_control() { ' ' } else { character }
}
