//! The writer: sections, declarations, rules and items, each on lines of its own.

use std::collections::HashSet;

use super::page::{INDENT, MAX_LINE_COLUMNS, Page, Word};
use super::spacing::Spacing;
use super::trivia::{self, CommentPosition, Trivia};
use crate::lexed::Lexed;
use crate::token::{Token, TokenKind};
use crate::tree::{Description, ItemKind};

/// The names of types: those of the language, and those that the FiST program defines.
pub(crate) fn type_names(description: &Description) -> HashSet<String> {
    let items = description.preamble.iter().chain(&description.code);
    let aliases = items.filter_map(|item| match &item.kind {
        ItemKind::TypeAlias(variable) => variable.name.as_ref().map(|name| name.value.clone()),
        _ => None,
    });
    crate::parser::types::predefined_type_names().into_iter().chain(aliases).collect()
}

/// Walks the tokens of a syntactically valid FiST program.
pub(crate) struct Writer<'a> {
    text: &'a str,
    tokens: &'a [Token],
    trivia: Vec<Trivia>,
    types: HashSet<String>,
    position: usize,
    pub(crate) page: Page,
    /// Nesting level of blocks.
    pub(crate) level: usize,
    /// The current line.
    line: Vec<Word<'a>>,
    /// An empty line preceded it in the source.
    was_blank: bool,
    spacing: Spacing,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(text: &'a str, lexed: &'a Lexed, types: HashSet<String>) -> Writer<'a> {
        Writer {
            text,
            tokens: &lexed.tokens,
            trivia: trivia::of(text, lexed),
            types,
            position: 0,
            page: Page::default(),
            level: 0,
            line: Vec::new(),
            was_blank: false,
            spacing: Spacing::new(),
        }
    }

    pub(crate) fn write(mut self) -> String {
        if matches!(self.peek().kind, TokenKind::RawBegin) {
            self.token_on_own_line();
            self.page.is_fresh = true;
            self.items();
            self.comments_on_own_lines();
            self.page.blank_requested = false;
            self.no_blank();
            self.token_on_own_line();
            self.page.blank_requested = true;
        }
        while !self.at_section_end() {
            self.declaration();
        }
        if self.separator() {
            while !self.at_section_end() {
                self.rule();
            }
        }
        if self.separator() {
            self.items();
        }
        self.comments_on_own_lines();
        self.page.finish()
    }

    /// Writes `%%`, with empty lines around it.
    fn separator(&mut self) -> bool {
        let is_there = matches!(self.peek().kind, TokenKind::Separator);
        if is_there {
            self.page.blank_requested = true;
            self.comments_on_own_lines();
            self.token_on_own_line();
            self.page.blank_requested = true;
        }
        is_there
    }

    fn at_section_end(&self) -> bool {
        matches!(self.peek().kind, TokenKind::Separator | TokenKind::RawEnd | TokenKind::End)
    }

    pub(crate) fn peek(&self) -> &'a Token {
        &self.tokens[self.position]
    }

    fn peek_at(&self, count: usize) -> &'a Token {
        &self.tokens[(self.position + count).min(self.tokens.len() - 1)]
    }

    pub(crate) fn at(&self, mark: &str) -> bool {
        matches!(self.peek().kind, TokenKind::Mark(found) if found == mark)
    }

    pub(crate) fn at_word(&self, word: &str) -> bool {
        matches!(self.peek().kind, TokenKind::Name) && self.peek().span.of(self.text) == word
    }

    pub(crate) fn at_end(&self) -> bool {
        matches!(self.peek().kind, TokenKind::End)
    }

    /// Returns whether comments precede the next token.
    pub(crate) fn has_comments(&self) -> bool {
        !self.trivia[self.position].comments.is_empty()
    }

    fn indent(&self) -> usize {
        self.level * INDENT
    }

    /// Writes the current line.
    pub(crate) fn end_line(&mut self) {
        let words = std::mem::take(&mut self.line);
        if !words.is_empty() {
            self.page.line(&words, self.indent(), self.was_blank);
        }
        self.spacing = Spacing::new();
    }

    /// Writes the comments before the next token on lines of their own, because the level changes or another section
    /// begins.
    pub(crate) fn comments_on_own_lines(&mut self) {
        for comment in std::mem::take(&mut self.trivia[self.position].comments) {
            if comment.position == CommentPosition::Trailing && !self.page.is_empty() {
                self.page.append(" ");
                self.page.append(&comment.text);
            } else {
                self.page.comment(&comment.text, self.indent(), comment.is_after_blank);
            }
        }
    }

    /// Drops the empty line before the next token.
    pub(crate) fn no_blank(&mut self) {
        self.trivia[self.position].is_after_blank = false;
    }

    /// Writes the next token with the spacing of an expression.
    pub(crate) fn token(&mut self) {
        let placement = self.spacing.next(self.text, self.peek(), self.peek_at(1), &self.types);
        self.put(placement.is_spaced, false, placement.break_priority);
        if let Some(word) = self.line.last_mut() {
            word.list = placement.list;
        }
    }

    /// Writes a keyword that begins a statement or a part of one.
    pub(crate) fn word(&mut self, is_spaced: bool) {
        self.spacing = Spacing::new();
        self.token();
        let word = self.line.last_mut().expect("one was just put there");
        (word.is_spaced, word.is_flush) = (is_spaced, true);
    }

    /// Writes the next token, with or without a space before it.
    pub(crate) fn plain(&mut self, is_spaced: bool) {
        self.put(is_spaced, true, None);
    }

    /// Adds the next token to the line, with the comments before it.
    fn put(&mut self, is_spaced: bool, is_flush: bool, mut break_priority: Option<u32>) {
        let trivia = std::mem::take(&mut self.trivia[self.position]);
        let begins = self.line.is_empty();
        let mut is_spaced = is_spaced;
        for comment in trivia.comments {
            let has_words = !self.line.is_empty();
            match comment.position {
                CommentPosition::Trailing if !has_words && !self.page.is_empty() => {
                    self.page.append(" ");
                    self.page.append(&comment.text);
                }
                CommentPosition::OwnLine if !has_words => {
                    self.page.comment(&comment.text, self.indent(), comment.is_after_blank);
                }
                position => {
                    if !has_words {
                        self.was_blank = comment.is_after_blank;
                    }
                    let is_behind_open = self.line.last().is_some_and(|word| matches!(&*word.text, "(" | "[" | "{"));
                    self.line.push(Word {
                        text: comment.text.into(),
                        is_spaced: position == CommentPosition::Trailing || !is_behind_open,
                        // A comment that trails a token stays there.
                        break_priority: if position == CommentPosition::Leading { break_priority.take() } else { None },
                        is_flush,
                        comment: Some(position),
                        list: None,
                    });
                    is_spaced = !matches!(self.peek().kind, TokenKind::Mark("," | ";" | ")" | "]"));
                }
            }
        }
        if begins && self.line.is_empty() {
            self.was_blank = trivia.is_after_blank;
        }
        let text = self.peek().span.of(self.text).trim_end().into();
        self.line.push(Word { text, is_spaced, break_priority, is_flush, comment: None, list: None });
        self.position += usize::from(!self.at_end());
    }

    /// Writes the next token on a line of its own.
    fn token_on_own_line(&mut self) {
        self.plain(false);
        self.end_line();
    }

    /// Writes tokens up to a punctuator outside any bracket, inclusive.
    pub(crate) fn run(&mut self, end: &str) {
        let depth = self.spacing.depth();
        while !self.at_end() {
            let is_end = self.at(end) && self.spacing.depth() == depth;
            self.token();
            if is_end {
                return;
            }
        }
    }

    /// Writes a parenthesized part.
    pub(crate) fn parentheses(&mut self) {
        let depth = self.spacing.depth();
        self.token();
        while !self.at_end() && self.spacing.depth() > depth {
            self.token();
        }
    }

    /// Writes a label of `switch`, up to its `:`.
    pub(crate) fn label(&mut self) {
        self.token();
        while !(self.at_end() || self.at(":") && self.spacing.is_label_end()) {
            self.token();
        }
        self.plain(false);
        self.end_line();
    }

    fn declaration(&mut self) {
        let mut is_spaced = false;
        while !self.at_end() {
            if self.at("{") {
                self.fields(";");
                if self.at(";") {
                    self.plain(false);
                }
                break;
            }
            let is_mark = matches!(self.peek().kind, TokenKind::Mark(_));
            let is_last = self.at(";");
            self.plain(is_spaced && !is_mark);
            is_spaced = !is_mark;
            if is_last {
                break;
            }
        }
        self.end_line();
    }

    fn rule(&mut self) {
        self.page.blank_requested = true;
        while !self.at("{") && !self.at_end() {
            self.plain(false);
        }
        self.block();
        self.end_line();
        self.page.blank_requested = true;
    }

    /// Writes functions, data, types and constants.
    fn items(&mut self) {
        while !self.at_section_end() {
            let is_definition = self.is_definition();
            self.page.blank_requested |= is_definition;
            self.item();
            self.page.blank_requested |= is_definition;
        }
    }

    fn item(&mut self) {
        if matches!(self.peek().kind, TokenKind::Directive) {
            return self.token_on_own_line();
        }
        if self.at(";") && !self.has_comments() && self.is_behind("}") {
            // A redundant semicolon.
            self.position += 1;
            return self.page.append(";");
        }
        if self.at_word("struct") && matches!(self.peek_at(2).kind, TokenKind::Mark("{")) {
            self.token();
            self.token();
            self.fields(";");
        } else if self.at_word("enum") {
            self.token();
            self.fields(",");
        }
        loop {
            let is_end = self.at(";") && self.spacing.depth() == 0;
            if self.at("{") && self.spacing.depth() == 0 && self.is_behind(")") {
                self.block();
                break;
            }
            if self.at_section_end() {
                break;
            }
            self.token();
            if is_end {
                break;
            }
        }
        self.end_line();
    }

    fn is_behind(&self, mark: &'static str) -> bool {
        self.position > 0 && self.tokens[self.position - 1].kind == TokenKind::Mark(mark)
    }

    /// Returns whether the item is a function with a body.
    fn is_definition(&self) -> bool {
        let kinds = self.tokens[self.position..].iter().map(|token| &token.kind);
        let mut before = &TokenKind::End;
        for kind in kinds {
            match (before, kind) {
                (TokenKind::Mark(")"), TokenKind::Mark("{")) => return true,
                (_, TokenKind::Mark(";" | "{" | "=") | TokenKind::Directive | TokenKind::Separator) => return false,
                (_, TokenKind::RawEnd | TokenKind::End) => return false,
                _ => before = kind,
            }
        }
        false
    }

    /// Writes fields or enumerators in braces: on one line if they are on one in the source and fit, else each on its
    /// own.
    fn fields(&mut self, end: &str) {
        let close = self.close_of_braces();
        let between = self.tokens[self.position].span.end as usize..self.tokens[close].span.start as usize;
        let has_comments = self.trivia[self.position..=close].iter().any(|trivia| !trivia.comments.is_empty());
        let (position, words) = (self.position, self.line.len());
        if !self.text[between].contains('\n') && !has_comments {
            self.fields_in_line(close);
            if self.width() + self.indent() < MAX_LINE_COLUMNS {
                return;
            }
            self.position = position;
            self.line.truncate(words);
        }
        self.plain(true);
        self.end_line();
        self.page.is_fresh = true;
        self.level += 1;
        while self.position < close {
            while self.position < close && !(self.at(end) && self.spacing.depth() == 0) {
                self.token();
            }
            if self.position < close {
                self.token();
            }
            self.end_line();
        }
        self.close_block();
    }

    /// Writes fields on one line, with spaces inside the braces.
    fn fields_in_line(&mut self, close: usize) {
        self.plain(true);
        self.spacing = Spacing::new();
        let first = self.line.len();
        while self.position < close {
            self.token();
            self.line.last_mut().expect("one was just put there").break_priority = None;
        }
        if let Some(word) = self.line.get_mut(first) {
            word.is_spaced = true;
        }
        self.plain(self.line.len() > first);
        self.spacing = Spacing::new();
    }

    /// Returns the token that closes the braces that begin here.
    fn close_of_braces(&self) -> usize {
        let mut depth = 0;
        for (index, token) in self.tokens.iter().enumerate().skip(self.position) {
            match token.kind {
                TokenKind::Mark("{") => depth += 1,
                TokenKind::Mark("}") => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return index;
            }
        }
        self.tokens.len() - 1
    }

    /// Width of the current line in columns.
    fn width(&self) -> usize {
        self.line.iter().map(|word| usize::from(word.is_spaced) + word.text.chars().count()).sum()
    }

    /// Writes the `}` of a block, one level further out; the line continues.
    pub(crate) fn close_block(&mut self) {
        self.comments_on_own_lines();
        self.level -= 1;
        self.page.blank_requested = false;
        self.no_blank();
        self.plain(false);
    }
}
