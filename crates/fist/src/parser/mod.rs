//! The parser: tokens to a tree, by recursive descent. After an error it goes on behind the next `;`, `}`, rule or section, so
//! that one run tells all errors.

pub(crate) mod declarations;
mod expressions;
mod items;
pub(crate) mod rules;
mod statements;
pub(crate) mod types;

use std::collections::HashSet;

use crate::diagnostic::{Code, Diagnostic};
use crate::lexer::lex;
use crate::limits::DEPTH_MAX;
use crate::text::{Span, Spanned};
use crate::token::{Comment, Token, TokenKind};
use crate::tree::{Description, Name};

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

struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token],
    position: usize,
    depth: u32,
    /// Names of types.
    types: HashSet<String>,
    diagnostics: Vec<Diagnostic>,
}

/// Something could not be read; it has been told.
struct Unreadable;

type Read<T> = Result<T, Unreadable>;

impl<'a> Parser<'a> {
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

    /// `%%`, or what comes where it is missing.
    fn separator(&mut self) -> bool {
        let is_there = matches!(self.peek().kind, TokenKind::Separator);
        if is_there {
            self.next();
        }
        is_there
    }

    fn peek(&self) -> &'a Token {
        &self.tokens[self.position]
    }

    /// The token so many after the next; the last is the end.
    fn ahead(&self, count: usize) -> &'a Token {
        &self.tokens[(self.position + count).min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> &'a Token {
        let token = &self.tokens[self.position];
        if !matches!(token.kind, TokenKind::End) {
            self.position += 1;
        }
        token
    }

    /// Where the token before ended.
    fn before(&self) -> Span {
        self.position.checked_sub(1).map_or(Span::default(), |index| self.tokens[index].span)
    }

    fn since(&self, start: Span) -> Span {
        start.to(self.before())
    }

    fn at(&self, mark: &str) -> bool {
        matches!(&self.peek().kind, TokenKind::Mark(found) if *found == mark)
    }

    fn at_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    /// The next token's text, if it is a name.
    fn word(&self) -> Option<&'a str> {
        let token = self.peek();
        matches!(token.kind, TokenKind::Name).then(|| token.span.of(self.text))
    }

    fn eat(&mut self, mark: &str) -> bool {
        let is_there = self.at(mark);
        if is_there {
            self.position += 1;
        }
        is_there
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let is_there = self.at_word(word);
        if is_there {
            self.position += 1;
        }
        is_there
    }

    fn expect(&mut self, mark: &'static str) -> Read<Span> {
        if self.at(mark) {
            return Ok(self.next().span);
        }
        let found = self.found();
        self.expected(&format!("`{mark}`"), found);
        Err(Unreadable)
    }

    fn name(&mut self, what: &str) -> Read<Name> {
        match self.word() {
            Some(word) => Ok(Spanned::new(word.to_owned(), self.next().span)),
            None => {
                let found = self.found();
                self.expected(what, found);
                Err(Unreadable)
            }
        }
    }

    /// The next token, as messages call it.
    fn found(&self) -> String {
        let token = self.peek();
        match token.kind {
            TokenKind::End => "the description ends here".into(),
            TokenKind::Separator => "the next section begins here".into(),
            TokenKind::Directive => "a line for the preprocessor".into(),
            _ => format!("`{}` stands here", token.span.of(self.text).escape_debug()),
        }
    }

    fn expected(&mut self, what: &str, found: String) {
        let diagnostic = self.wrong(Code::Expected, format!("{what} is expected"));
        diagnostic.label = Some(found);
    }

    /// Tells what is wrong at the next token.
    fn wrong(&mut self, code: Code, message: impl Into<String>) -> &mut Diagnostic {
        let span = self.peek().span;
        self.wrong_at(code, message, span)
    }

    fn wrong_at(&mut self, code: Code, message: impl Into<String>, span: Span) -> &mut Diagnostic {
        self.diagnostics.push(Diagnostic::error(code, message, span));
        self.diagnostics.last_mut().expect("one was just put there")
    }

    /// One level deeper, unless that is too deep.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.within_depth(self.depth)?;
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Whether one level more may lie in so many: the one limit of all that lies in each other.
    fn within_depth(&mut self, depth: u32) -> Read<()> {
        if depth < DEPTH_MAX {
            return Ok(());
        }
        let what = format!("more than {DEPTH_MAX} levels lie in each other here");
        self.wrong(Code::TooDeep, what).remedy = Some("put a part of it in a function of its own".into());
        Err(Unreadable)
    }

    /// Whether a rule or a section begins here: there reading can go on after any error.
    fn at_border(&self) -> bool {
        match self.peek().kind {
            TokenKind::End | TokenKind::Separator | TokenKind::RawEnd => true,
            TokenKind::Mark("%") => self.peek().begins_line && self.at_rule(),
            _ => false,
        }
    }

    /// Skips what cannot be read: up to behind the next `;` or `}` that is not within other braces, or to a border.
    fn recover(&mut self) {
        let mut depth = 0;
        while !self.at_border() {
            match self.next().kind {
                TokenKind::Mark("{") => depth += 1,
                TokenKind::Mark("}") if depth <= 1 => return,
                TokenKind::Mark("}") => depth -= 1,
                TokenKind::Mark(";") if depth == 0 => return,
                _ => {}
            }
        }
    }

    /// Skips to behind the next `;` of the same block, or to before its `}`.
    fn recover_in_block(&mut self) {
        let mut depth = 0;
        while !self.at_border() {
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

#[cfg(test)]
pub(crate) mod tests;
