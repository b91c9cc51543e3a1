//! What the lexer makes of a text.

use crate::diagnostic::Diagnostic;
use crate::token::{Comment, Token};

/// What became of a text.
#[derive(Clone, Debug)]
pub struct Lexed {
    /// The tokens, the last of them [`TokenKind::End`](crate::token::TokenKind::End).
    pub tokens: Vec<Token>,
    /// The comments, in their order, with conditions of the preprocessor and what these leave out.
    pub comments: Vec<Comment>,
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
}

impl Lexed {
    pub(crate) fn none() -> Lexed {
        Lexed { tokens: Vec::new(), comments: Vec::new(), diagnostics: Vec::new() }
    }
}
