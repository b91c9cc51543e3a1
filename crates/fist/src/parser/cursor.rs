//! The parser's cursor over the tokens of a text, and the errors that it reports.

use std::collections::HashSet;

use crate::diagnostic::{Code, Diagnostic};
use crate::limits::MAX_NESTING_DEPTH;
use crate::text::{Span, Spanned};
use crate::token::{Token, TokenKind};
use crate::tree::Name;

pub(crate) struct Parser<'a> {
    pub(crate) text: &'a str,
    pub(crate) tokens: &'a [Token],
    pub(crate) position: usize,
    pub(crate) depth: u32,
    /// Names of types.
    pub(crate) types: HashSet<String>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// A syntax error that has already been reported.
pub(crate) struct SyntaxErrorReported;

pub(crate) type ParseResult<T> = Result<T, SyntaxErrorReported>;

impl<'a> Parser<'a> {
    /// Parses `%%`, or reports it missing.
    pub(crate) fn separator(&mut self) -> bool {
        let is_present = matches!(self.peek().kind, TokenKind::Separator);
        if is_present {
            self.next();
        }
        is_present
    }

    pub(crate) fn peek(&self) -> &'a Token {
        &self.tokens[self.position]
    }

    /// The token at this distance after the next; the end token beyond the last.
    pub(crate) fn peek_at(&self, count: usize) -> &'a Token {
        &self.tokens[(self.position + count).min(self.tokens.len() - 1)]
    }

    pub(crate) fn next(&mut self) -> &'a Token {
        let token = &self.tokens[self.position];
        if !matches!(token.kind, TokenKind::End) {
            self.position += 1;
        }
        token
    }

    /// Location of the preceding token.
    pub(crate) fn previous_span(&self) -> Span {
        self.position.checked_sub(1).map_or(Span::default(), |index| self.tokens[index].span)
    }

    pub(crate) fn span_since(&self, start: Span) -> Span {
        start.to(self.previous_span())
    }

    pub(crate) fn at(&self, mark: &str) -> bool {
        matches!(&self.peek().kind, TokenKind::Mark(found) if *found == mark)
    }

    pub(crate) fn at_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    /// The text of the next token, if it is a name.
    pub(crate) fn word(&self) -> Option<&'a str> {
        let token = self.peek();
        matches!(token.kind, TokenKind::Name).then(|| token.span.of(self.text))
    }

    pub(crate) fn eat(&mut self, mark: &str) -> bool {
        let is_present = self.at(mark);
        if is_present {
            self.position += 1;
        }
        is_present
    }

    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        let is_present = self.at_word(word);
        if is_present {
            self.position += 1;
        }
        is_present
    }

    pub(crate) fn expect(&mut self, mark: &'static str) -> ParseResult<Span> {
        if self.at(mark) {
            return Ok(self.next().span);
        }
        let found = self.describe_next();
        self.expected(&format!("`{mark}`"), found);
        Err(SyntaxErrorReported)
    }

    pub(crate) fn name(&mut self, what: &str) -> ParseResult<Name> {
        match self.word() {
            Some(word) => Ok(Spanned::new(word.to_owned(), self.next().span)),
            None => {
                let found = self.describe_next();
                self.expected(what, found);
                Err(SyntaxErrorReported)
            }
        }
    }

    /// The next token, as messages name it.
    pub(crate) fn describe_next(&self) -> String {
        let token = self.peek();
        match token.kind {
            TokenKind::End => "the description ends here".into(),
            TokenKind::Separator => "the next section begins here".into(),
            TokenKind::Directive => "a line for the preprocessor".into(),
            _ => format!("`{}` stands here", token.span.of(self.text).escape_debug()),
        }
    }

    pub(crate) fn expected(&mut self, what: &str, found: String) {
        let diagnostic = self.error(Code::Expected, format!("{what} is expected"));
        diagnostic.label = Some(found);
    }

    /// Reports an error at the next token.
    pub(crate) fn error(&mut self, code: Code, message: impl Into<String>) -> &mut Diagnostic {
        let span = self.peek().span;
        self.error_at(code, message, span)
    }

    pub(crate) fn error_at(&mut self, code: Code, message: impl Into<String>, span: Span) -> &mut Diagnostic {
        self.diagnostics.push(Diagnostic::error(code, message, span));
        self.diagnostics.last_mut().expect("one was just put there")
    }

    /// Parses one nesting level deeper, unless that is too deep.
    pub(crate) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        self.check_depth(self.depth)?;
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Checks the nesting depth: the one limit for everything that nests.
    pub(crate) fn check_depth(&mut self, depth: u32) -> ParseResult<()> {
        if depth < MAX_NESTING_DEPTH {
            return Ok(());
        }
        let what = format!("more than {MAX_NESTING_DEPTH} levels lie in each other here");
        self.error(Code::TooDeep, what).remedy = Some("put a part of it in a function of its own".into());
        Err(SyntaxErrorReported)
    }

    /// Returns whether a rule or a section begins here: a synchronization point after any error.
    pub(crate) fn at_sync_point(&self) -> bool {
        match self.peek().kind {
            TokenKind::End | TokenKind::Separator | TokenKind::RawEnd => true,
            TokenKind::Mark("%") => self.peek().begins_line && self.at_rule(),
            _ => false,
        }
    }

    /// Skips what cannot be parsed: past the next `;` or `}` outside nested braces, or to a synchronization point.
    pub(crate) fn recover(&mut self) {
        let mut depth = 0;
        while !self.at_sync_point() {
            match self.next().kind {
                TokenKind::Mark("{") => depth += 1,
                TokenKind::Mark("}") if depth <= 1 => return,
                TokenKind::Mark("}") => depth -= 1,
                TokenKind::Mark(";") if depth == 0 => return,
                _ => {}
            }
        }
    }

    /// Skips past the next `;` of the same block, or to its `}`.
    pub(crate) fn recover_in_block(&mut self) {
        let mut depth = 0;
        while !self.at_sync_point() {
            match self.peek().kind {
                TokenKind::Mark("{") => depth += 1,
                TokenKind::Mark("}") if depth == 0 => return,
                TokenKind::Mark("}") => {
                    depth -= 1;
                    if depth == 0 {
                        self.next();
                        return;
                    }
                }
                TokenKind::Mark(";") if depth == 0 => {
                    self.next();
                    return;
                }
                _ => {}
            }
            self.next();
        }
    }
}
