//! Errors in the text of an expression: the problem, its location and its remedy.

use std::fmt;

use super::tree::{Mode, Span};
use crate::suggest;

/// An error in the text, with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The problem.
    pub problem: SyntaxProblem,
    /// Its location.
    pub span: Span,
}

/// A problem with the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyntaxProblem {
    /// The text contains nothing but whitespace.
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
    ExpectedBase(FoundToken),
    /// A path is empty (`""`).
    EmptyPath,
    /// A layer was expected.
    ExpectedLayer(FoundToken),
    /// A branch mode was expected.
    ExpectedMode(FoundToken),
    /// A word that is not a branch mode.
    UnknownMode {
        /// The word.
        word: String,
        /// The branch as it is written if the word belongs to its location; `None` for a stack in parentheses.
        quoted: Option<String>,
    },
    /// An option's name was expected.
    ExpectedKey {
        /// The token found instead.
        found: FoundToken,
        /// What the option is of.
        of: Construct,
    },
    /// An option has no `=`.
    ExpectedEquals {
        /// The option's name.
        key: String,
        /// The token found instead of the `=`.
        found: FoundToken,
        /// What the option is of.
        of: Construct,
        /// The option before it, with a value to which the word may belong.
        before: Option<(String, String)>,
    },
    /// An option has no value.
    ExpectedValue {
        /// The option's name.
        key: String,
        /// The token found instead of the value.
        found: FoundToken,
    },
    /// A token that cannot follow what precedes it.
    Unexpected {
        /// The token found.
        found: FoundToken,
        /// The construct that it follows.
        after: Construct,
    },
    /// A parenthesis is not closed.
    UnclosedParenthesis,
    /// A closing parenthesis without an opening one.
    UnopenedParenthesis,
    /// A word that can be neither the name of a layer nor the path of a FiST program.
    BadLayerName(String),
    /// Parentheses nested more deeply than the parser follows.
    TooDeep,
}

/// The token that the parser found instead of the expected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundToken {
    /// A word.
    Word(String),
    /// Punctuation.
    Character(char),
    /// The end of the text.
    End,
}

/// The construct that an unexpected token follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Construct {
    /// A branch of the source.
    Branch,
    /// The mode of a branch.
    Mode,
    /// A layer.
    Layer,
    /// The value of an option.
    Value,
}

impl SyntaxError {
    /// Creates an error from a problem and its location.
    pub(crate) fn new(problem: SyntaxProblem, span: Span) -> Self {
        SyntaxError { problem, span }
    }
}

impl Span {
    /// Returns two lines that show the location: the line of `text` that contains it, and carets below it.
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

impl fmt::Display for SyntaxProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let modes = || suggest::list(Mode::ALL.map(Mode::word));
        match self {
            SyntaxProblem::Empty => {
                write!(formatter, "the stack expression is empty; start it with a base such as /path or mem:")
            }
            SyntaxProblem::UnclosedQuote => {
                write!(formatter, "this double quote is never closed; close it, or write \\\" for the character itself")
            }
            SyntaxProblem::TrailingBackslash => {
                write!(formatter, "nothing follows this backslash; write \\\\ for the character itself")
            }
            SyntaxProblem::BadEscape => {
                write!(formatter, "\\x needs two hexadecimal digits; write \\x41, or \\\\x for a backslash and an x")
            }
            SyntaxProblem::Nul => write!(formatter, "a zero byte cannot be part of a name or value; remove it"),
            SyntaxProblem::ExpectedBase(found) => {
                write!(
                    formatter,
                    "expected a base, found {found}; write a path, kind:location, or a stack in parentheses"
                )
            }
            SyntaxProblem::EmptyPath => write!(formatter, "this path is empty; write \".\" for the current directory"),
            SyntaxProblem::ExpectedLayer(found) => {
                write!(formatter, "expected a layer, found {found}; name one, or remove the '|' before it")
            }
            SyntaxProblem::ExpectedMode(found) => {
                write!(formatter, "expected a branch mode after '=', found {found}; the modes are {}", modes())
            }
            SyntaxProblem::UnknownMode { word, quoted } => {
                write!(formatter, "unknown branch mode '{word}'; the modes are {}", modes())?;
                match quoted {
                    Some(quoted) => write!(formatter, "; if the '=' is part of the location, write {quoted}"),
                    None => Ok(()),
                }
            }
            SyntaxProblem::ExpectedKey { found, of } => {
                write!(formatter, "expected an option, found {found}; options are written (key=value, key=value)")?;
                formatter.write_str(of.parenthesis_remedy())
            }
            SyntaxProblem::ExpectedEquals { key, found, of, before } => {
                write!(formatter, "expected '=' after the option '{key}', found {found}; write {key}=value")?;
                if let Some((list, value)) = before {
                    write!(formatter, ", or, since lists have colons, {list}={value}:{key}")?;
                }
                formatter.write_str(of.parenthesis_remedy())
            }
            SyntaxProblem::ExpectedValue { key, found } => {
                write!(
                    formatter,
                    "expected a value for the option '{key}', found {found}; write {key}=value, or {key}=\"\" for an empty one"
                )
            }
            SyntaxProblem::Unexpected { found, after } => {
                write!(formatter, "unexpected {found} after {after}; {}", after.remedy())
            }
            SyntaxProblem::UnclosedParenthesis => {
                write!(formatter, "this parenthesis is never closed; add ')'")
            }
            SyntaxProblem::UnopenedParenthesis => write!(
                formatter,
                "this ')' closes nothing; remove it, or put the word in double quotes if it is part of a name"
            ),
            SyntaxProblem::BadLayerName(name) => write!(
                formatter,
                "'{name}' is neither the name of a layer nor a path that ends in .fist; write one of them"
            ),
            SyntaxProblem::TooDeep => write!(formatter, "too many parentheses within each other; use fewer"),
        }
    }
}

impl fmt::Display for FoundToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FoundToken::Word(word) => write!(formatter, "'{}'", word.escape_debug()),
            FoundToken::Character(character) => write!(formatter, "'{character}'"),
            FoundToken::End => write!(formatter, "the end"),
        }
    }
}

impl Construct {
    fn remedy(self) -> &'static str {
        match self {
            Construct::Branch => {
                "continue with '|' and a layer, or write a path with blanks or punctuation in double quotes"
            }
            Construct::Mode => "continue with ',' and a branch, or with '|' and a layer",
            Construct::Layer => "put '|' between two layers",
            Construct::Value => {
                "put ',' between two options and write a value with blanks or punctuation in double quotes"
            }
        }
    }

    /// Returns the remedy for a parenthesis that is not meant to begin options.
    fn parenthesis_remedy(self) -> &'static str {
        match self {
            Construct::Branch => " (a path with a parenthesis in it is written in double quotes)",
            Construct::Mode | Construct::Layer | Construct::Value => "",
        }
    }
}

impl fmt::Display for Construct {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Construct::Branch => "a base",
            Construct::Mode => "a branch mode",
            Construct::Layer => "a layer",
            Construct::Value => "a value",
        })
    }
}

/// Replaces control characters, to keep an excerpt on one line whatever the text contains.
fn visible(character: char) -> char {
    if character.is_control() { ' ' } else { character }
}
