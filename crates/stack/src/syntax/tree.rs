//! The syntax tree of a stack expression.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// A range of bytes in the expression's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset just past the last byte.
    pub end: usize,
}

/// A value and its location in the text.
///
/// Equality compares only the values: two expressions are equal if they say the same, however they are spaced.
#[derive(Clone, Debug)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Its location in the text.
    pub span: Span,
}

/// A source and the layers on it, bottom first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// One branch, or several to be joined by a fan-out layer. Never empty.
    pub source: Vec<Spanned<Branch>>,
    /// The layers, from the bottom up.
    pub layers: Vec<Spanned<Layer>>,
}

/// One lower tree and its mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The tree.
    pub tree: BranchTree,
    /// The mode written after it, if any.
    pub mode: Option<Spanned<Mode>>,
    /// The options written after the mode, in that order; a key may occur more than once. Empty without a mode.
    pub options: Vec<Argument>,
}

/// Content of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchTree {
    /// A base.
    Base(Base),
    /// A stack in parentheses.
    Stack(Box<Stack>),
}

/// The bottom of a stack, and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The kind written before the colon; `None` for a plain path: a directory, or a file or block device whose contents determine
    /// the kind.
    pub kind: Option<Spanned<String>>,
    /// The path, or the text after the colon. May be empty only after a kind.
    pub location: Spanned<OsString>,
    /// The options, in the order written; a key may occur more than once.
    pub arguments: Vec<Argument>,
}

/// Permitted use of a branch by a fan-out layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Read and write, new objects included.
    ReadWrite,
    /// Read only.
    ReadOnly,
    /// Read and change what exists, but create nothing.
    NoCreate,
}

/// A layer and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The name of the layer, or the path of its FiST program.
    pub name: Spanned<LayerName>,
    /// The options, in the order written; a key may occur more than once.
    pub arguments: Vec<Argument>,
}

/// Reference to a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerName {
    /// A layer of this build.
    Name(String),
    /// The path of a FiST program.
    Description(PathBuf),
}

/// One `key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The option's name.
    pub key: Spanned<String>,
    /// Its value, quotes and backslashes removed.
    pub value: Spanned<OsString>,
}

impl Span {
    /// Returns the column of the first byte, counted in bytes from 1.
    pub fn column(self) -> usize {
        self.start + 1
    }

    /// Returns the span from the start of `self` to the end of `other`.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end }
    }
}

impl<T> Spanned<T> {
    /// Creates a value with its location.
    pub fn new(value: T, span: Span) -> Self {
        Spanned { value, span }
    }
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Spanned<T> {}

impl Mode {
    /// Every mode, in the order of the documentation.
    pub const ALL: [Mode; 3] = [Mode::ReadWrite, Mode::ReadOnly, Mode::NoCreate];

    /// Returns the word that names the mode in an expression.
    pub fn word(self) -> &'static str {
        match self {
            Mode::ReadWrite => "rw",
            Mode::ReadOnly => "ro",
            Mode::NoCreate => "nc",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.word())
    }
}
