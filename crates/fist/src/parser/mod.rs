//! The parser: tokens to a syntax tree, by recursive descent. After an error it resumes after the next `;` or `}`, or
//! at the next rule or section, so that one run reports all errors.

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

/// Output of the parser.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The part of the text that could be parsed.
    pub description: Description,
    /// The comments, in source order.
    pub comments: Vec<Comment>,
    /// The diagnostics, in source order.
    pub diagnostics: Vec<Diagnostic>,
}

impl Parsed {
    /// Returns the comments of the parsed text as written, excluding preprocessor conditions.
    pub fn written_comments(&self, text: &str) -> Vec<Spanned<String>> {
        let spans = self.comments.iter().map(|comment| comment.span);
        let written = spans.map(|span| Spanned::new(span.of(text).trim_end().to_owned(), span));
        written.filter(|comment| comment.value.starts_with("//") || comment.value.starts_with("/*")).collect()
    }
}

/// Parses a FiST program.
pub fn parse(text: &str) -> Parsed {
    let lexed = lex(text);
    let mut parser = Parser {
        text,
        tokens: &lexed.tokens,
        position: 0,
        depth: 0,
        types: types::predefined_type_names(),
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
                let found = self.describe_next();
                self.error(Code::Unclosed, "the section that begins with `%{` is not closed")
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
            let found = self.describe_next();
            self.expected("the end of the description", found);
        }
        description
    }
}

#[cfg(test)]
pub(crate) mod tests;
