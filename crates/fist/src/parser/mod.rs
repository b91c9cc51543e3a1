//! The parser: tokens to a tree, by recursive descent. After an error it goes on behind the next `;`, `}`, rule or section, so
//! that one run tells all errors.

mod cursor;
pub(crate) mod declarations;
mod expressions;
mod items;
pub(crate) mod rules;
mod statements;
pub(crate) mod types;

use crate::diagnostic::{Code, Diagnostic};
use crate::lexer::lex;
use crate::text::Spanned;
use crate::token::{Comment, TokenKind};
use crate::tree::Description;
use cursor::Parser;

/// What became of a text.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// What could be read of it.
    pub description: Description,
    /// The comments, in their order.
    pub comments: Vec<Comment>,
    /// What is wrong, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

impl Parsed {
    /// The comments of the text that was read, as they are written: without conditions of the preprocessor.
    pub fn written_comments(&self, text: &str) -> Vec<Spanned<String>> {
        let spans = self.comments.iter().map(|comment| comment.span);
        let written = spans.map(|span| Spanned::new(span.of(text).trim_end().to_owned(), span));
        written.filter(|comment| comment.value.starts_with("//") || comment.value.starts_with("/*")).collect()
    }
}

/// Reads a description.
pub fn parse(text: &str) -> Parsed {
    let lexed = lex(text);
    let mut parser = Parser {
        text,
        tokens: &lexed.tokens,
        position: 0,
        depth: 0,
        types: types::known_names(),
        diagnostics: lexed.diagnostics,
    };
    let description = parser.description();
    let mut diagnostics = parser.diagnostics;
    diagnostics.sort_by_key(|diagnostic| diagnostic.span);
    Parsed { description, comments: lexed.comments, diagnostics }
}

impl Parser<'_> {
    fn description(&mut self) -> Description {
        let mut description = Description::default();
        if matches!(self.peek().kind, TokenKind::RawBegin) {
            self.next();
            description.preamble = self.items();
            if matches!(self.peek().kind, TokenKind::RawEnd) {
                self.next();
            } else {
                let found = self.found();
                self.wrong(Code::Unclosed, "the section that begins with `%{` is not closed")
                    .at(found)
                    .remedy("write `%}` on a line of its own");
            }
        }
        description.declarations = self.declarations();
        if self.separator() {
            description.rules = self.rules();
        }
        if self.separator() {
            description.code = self.items();
        }
        if !matches!(self.peek().kind, TokenKind::End) {
            let found = self.found();
            self.expected("the end of the description", found);
        }
        description
    }
}

#[cfg(test)]
pub(crate) mod tests;
