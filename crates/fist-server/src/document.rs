//! A document: its text, and the results of analysing it.

use fist::diagnostic::Diagnostic;
use fist::lexer::lex;
use fist::lines::Lines;
use fist::load::Loaded;
use fist::parser::parse;
use fist::text::Span;
use fist::token::{Comment, Token, TokenKind};
use fist::tree::Description;

use crate::symbols::{self, Symbol};

/// A text that is open in an editor.
#[derive(Debug)]
pub(crate) struct Document {
    pub text: String,
    pub lines: Lines,
    pub tokens: Vec<Token>,
    pub comments: Vec<Comment>,
    pub tree: Description,
    /// The text of the tree: like `text`, with unclosed blocks closed.
    pub closed: String,
    pub symbols: Vec<Symbol>,
    pub diagnostics: Vec<Diagnostic>,
}

/// A section of a FiST program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Preamble,
    Declarations,
    Rules,
    Code,
}

impl Document {
    /// Parses and checks the text of a file with this name.
    pub(crate) fn new(file: &str, text: String) -> Document {
        let Loaded { text, diagnostics, .. } = Loaded::of(file, text);
        let lexed = lex(&text);
        let depth = section(&lexed.tokens, text.len()).1;
        let closed = format!("{text}\n{}", "}".repeat(depth as usize));
        let tree = parse(&closed).description;
        let symbols = symbols::of(&closed, &tree);
        let lines = Lines::of(&text);
        Document { lines, tokens: lexed.tokens, comments: lexed.comments, tree, closed, symbols, diagnostics, text }
    }

    /// Returns the index of the token that contains a byte, or ends there.
    pub(crate) fn token_at(&self, byte: usize) -> Option<usize> {
        let first = self.tokens.partition_point(|token| (token.span.end as usize) < byte);
        let holds = |index: &usize| {
            let token = &self.tokens[*index];
            token.kind != TokenKind::End && (token.span.start as usize) <= byte && byte <= token.span.end as usize
        };
        // Between two adjacent tokens, a word is preferred to a punctuator.
        let candidates = [first, first + 1].into_iter().filter(|index| *index < self.tokens.len()).filter(holds);
        let is_mark = |index: &usize| matches!(self.tokens[*index].kind, TokenKind::Mark(_));
        candidates.min_by_key(is_mark)
    }

    /// Returns the text of a token.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.tokens[index].span.of(&self.text)
    }

    /// Returns the index of the token before this one, if it is one of these punctuators.
    pub(crate) fn preceding_punctuator(&self, index: usize, marks: &[&str]) -> Option<usize> {
        let before = index.checked_sub(1)?;
        matches!(self.tokens[before].kind, TokenKind::Mark(mark) if marks.contains(&mark)).then_some(before)
    }

    /// Returns whether a byte is in a comment or in quotes, where words have no meaning.
    pub(crate) fn is_quoted(&self, byte: usize) -> bool {
        let comment = self.comments.iter().any(|comment| {
            let is_line = comment.span.of(&self.text).starts_with("//");
            let end = comment.span.end as usize;
            (comment.span.start as usize) < byte && (byte < end || is_line && byte == end)
        });
        let quoted = |token: &Token| {
            let is_text = matches!(token.kind, TokenKind::Text(_) | TokenKind::Character(_));
            let (start, end) = (token.span.start as usize, token.span.end as usize);
            let written = token.span.of(&self.text);
            let is_closed = written.len() > 1 && written.ends_with(['"', '\'']);
            is_text && start < byte && (byte < end || byte == end && !is_closed)
        };
        comment || self.tokens.iter().any(quoted)
    }

    /// Returns the section that a byte is in, and the number of braces open around it.
    pub(crate) fn section(&self, byte: usize) -> (Section, u32) {
        section(&self.tokens, byte)
    }

    /// Returns the symbol that a name refers to at a byte: the innermost.
    pub(crate) fn symbol(&self, name: &str, byte: usize) -> Option<&Symbol> {
        let known = self.symbols.iter().filter(|symbol| symbol.name == name && symbol.is_in_scope_at(byte));
        known.min_by_key(|symbol| symbol.rank())
    }

    /// Returns the span of the whole text.
    pub(crate) fn whole(&self) -> Span {
        Span::new(0, self.text.len())
    }
}

fn section(tokens: &[Token], byte: usize) -> (Section, u32) {
    let (mut section, mut depth) = (Section::Declarations, 0_u32);
    for token in tokens.iter().take_while(|token| (token.span.end as usize) <= byte) {
        match (&token.kind, section) {
            (TokenKind::RawBegin, _) => (section, depth) = (Section::Preamble, 0),
            (TokenKind::RawEnd, _) => (section, depth) = (Section::Declarations, 0),
            (TokenKind::Separator, Section::Declarations | Section::Preamble) => {
                (section, depth) = (Section::Rules, 0);
            }
            (TokenKind::Separator, _) => (section, depth) = (Section::Code, 0),
            (TokenKind::Mark("{"), _) => depth += 1,
            (TokenKind::Mark("}"), _) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    (section, depth)
}
