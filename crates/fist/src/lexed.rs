//! Output of the lexer.

use crate::diagnostic::Diagnostic;
use crate::token::{Comment, Token};

/// The tokens, comments and diagnostics of a text.
#[derive(Clone, Debug)]
pub struct Lexed {
    /// The tokens, the last of them [`TokenKind::End`](crate::token::TokenKind::End).
    pub tokens: Vec<Token>,
    /// The comments, in source order, including preprocessor conditions and the text that they exclude.
    pub comments: Vec<Comment>,
    /// The diagnostics.
    pub diagnostics: Vec<Diagnostic>,
}

impl Lexed {
    pub(crate) fn none() -> Lexed {
        Lexed { tokens: Vec::new(), comments: Vec::new(), diagnostics: Vec::new() }
    }
}
