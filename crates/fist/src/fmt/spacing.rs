//! Spacing: the spaces between the tokens of C expressions and declarations, and the allowed line breaks.

use std::collections::HashSet;

use super::page::{Brace, LAST_RESORT_BREAK};
use crate::parser::types::TYPE_KEYWORDS;
use crate::token::{Token, TokenKind};

/// The role of a token in its expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenRole {
    /// The beginning: no token precedes.
    Begin,
    /// An operand, or a token that ends one: an operator that follows is binary.
    Value,
    /// A keyword or name of a type.
    Type,
    /// `*` in a type.
    Pointer,
    /// `return`, `case` and the like.
    Keyword,
    /// `if`, `while` and the like, whose parenthesis is not an operand.
    Control,
    SizeOf,
    Open,
    OpenIndex,
    OpenList,
    /// The end of a cast: it forms one operand with what follows.
    CastEnd,
    Prefix(&'static str),
    Postfix,
    /// A binary operator, and how weakly it binds.
    Binary(u32),
    Comma,
    Semicolon,
    Dot,
    Text,
}

/// An open bracket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bracket {
    Parenthesis,
    Cast,
    Index,
    List,
}

/// How a token is placed after the preceding one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenPlacement {
    pub(crate) is_spaced: bool,
    pub(crate) break_priority: Option<u32>,
    pub(crate) list: Option<Brace>,
}

/// The state after a token.
#[derive(Debug)]
pub(crate) struct Spacing {
    before: TokenRole,
    brackets: Vec<Bracket>,
    /// Number of conditionals without their `:` so far, per open bracket and outside of any.
    conditions: Vec<u32>,
}

/// Keywords that an operand follows.
const KEYWORDS: [&str; 8] = ["return", "case", "else", "do", "typedef", "extern", "static", "inline"];
/// Keywords that a parenthesis follows.
const CONTROLS: [&str; 4] = ["if", "while", "for", "switch"];

impl Spacing {
    pub(crate) fn new() -> Spacing {
        Spacing { before: TokenRole::Begin, brackets: Vec::new(), conditions: vec![0] }
    }

    /// Number of open brackets.
    pub(crate) fn depth(&self) -> usize {
        self.brackets.len()
    }

    /// Returns whether a `:` here would belong to no conditional.
    pub(crate) fn is_label_end(&self) -> bool {
        self.brackets.is_empty() && self.conditions[0] == 0
    }

    /// Returns whether this token is a keyword or name of a type.
    fn is_type(&self, text: &str, token: &Token, types: &HashSet<String>) -> bool {
        let word = token.span.of(text);
        matches!(token.kind, TokenKind::Name) && (TYPE_KEYWORDS.contains(&word) || types.contains(word))
    }

    /// Places the next token; `following` is the one after it.
    pub(crate) fn next(
        &mut self,
        text: &str,
        token: &Token,
        following: &Token,
        types: &HashSet<String>,
    ) -> TokenPlacement {
        let depth = self.brackets.len() as u32;
        let mut list = None;
        let role = match token.kind {
            TokenKind::Name => self.name(text, token, types),
            TokenKind::Mark("(") => {
                let is_cast =
                    !self.is_after_value() && self.before != TokenRole::Control && self.before != TokenRole::SizeOf;
                let is_cast = is_cast && self.is_type(text, following, types);
                self.open(if is_cast { Bracket::Cast } else { Bracket::Parenthesis });
                TokenRole::Open
            }
            TokenKind::Mark("[") => {
                self.open(Bracket::Index);
                TokenRole::OpenIndex
            }
            TokenKind::Mark("{") => {
                self.open(Bracket::List);
                list = Some(Brace::Begin);
                TokenRole::OpenList
            }
            TokenKind::Mark(")" | "]" | "}") => match self.close() {
                Some(Bracket::Cast) => TokenRole::CastEnd,
                Some(Bracket::List) => {
                    list = Some(Brace::End);
                    TokenRole::Value
                }
                _ => TokenRole::Value,
            },
            TokenKind::Mark(mark) => self.mark(mark),
            TokenKind::Text(_) => TokenRole::Text,
            _ => TokenRole::Value,
        };
        let is_closing = matches!(token.kind, TokenKind::Mark(")" | "]" | "}"));
        let is_spaced = !is_closing && self.is_spaced(role, token, text);
        let break_priority = if is_closing { None } else { self.break_priority(role, depth) };
        self.before = role;
        TokenPlacement { is_spaced, break_priority, list }
    }

    fn open(&mut self, bracket: Bracket) {
        self.brackets.push(bracket);
        self.conditions.push(0);
    }

    fn close(&mut self) -> Option<Bracket> {
        if self.conditions.len() > 1 {
            self.conditions.pop();
        }
        self.brackets.pop()
    }

    fn name(&self, text: &str, token: &Token, types: &HashSet<String>) -> TokenRole {
        match token.span.of(text) {
            _ if self.before == TokenRole::Dot => TokenRole::Value,
            word if KEYWORDS.contains(&word) => TokenRole::Keyword,
            word if CONTROLS.contains(&word) => TokenRole::Control,
            "sizeof" => TokenRole::SizeOf,
            _ if self.is_type(text, token, types) => TokenRole::Type,
            // The name of a structure counts as a type name: `struct` precedes it.
            _ if self.before == TokenRole::Type && text[..token.span.start as usize].trim_end().ends_with("struct") => {
                TokenRole::Type
            }
            _ => TokenRole::Value,
        }
    }

    /// Returns whether an operand precedes, so that an operator is binary.
    fn is_after_value(&self) -> bool {
        matches!(self.before, TokenRole::Value | TokenRole::Text | TokenRole::Postfix | TokenRole::Type)
    }

    fn mark(&mut self, mark: &'static str) -> TokenRole {
        let is_after_value = self.is_after_value();
        match mark {
            "," => TokenRole::Comma,
            ";" => TokenRole::Semicolon,
            "." | "->" => TokenRole::Dot,
            "++" | "--" if is_after_value => TokenRole::Postfix,
            "++" | "--" | "!" | "~" => TokenRole::Prefix(mark),
            "*" if matches!(self.before, TokenRole::Type | TokenRole::Pointer) => TokenRole::Pointer,
            "+" | "-" | "*" | "&" | "%" if !is_after_value => TokenRole::Prefix(mark),
            "?" => {
                *self.conditions.last_mut().expect("that of no bracket is always there") += 1;
                TokenRole::Binary(3)
            }
            ":" => {
                let open = self.conditions.last_mut().expect("that of no bracket is always there");
                *open = open.saturating_sub(1);
                TokenRole::Binary(3)
            }
            _ => TokenRole::Binary(binding_weakness(mark)),
        }
    }

    fn is_spaced(&self, role: TokenRole, token: &Token, text: &str) -> bool {
        match (self.before, role) {
            (
                _,
                TokenRole::Comma | TokenRole::Semicolon | TokenRole::Dot | TokenRole::Postfix | TokenRole::OpenIndex,
            ) => false,
            // Two punctuators must not merge into one.
            (TokenRole::Prefix(before @ ("+" | "-" | "++" | "--" | "&")), TokenRole::Prefix(_)) => {
                token.span.of(text).starts_with(&before[before.len() - 1..])
            }
            (
                TokenRole::Begin
                | TokenRole::Open
                | TokenRole::OpenIndex
                | TokenRole::OpenList
                | TokenRole::Prefix(_)
                | TokenRole::Dot
                | TokenRole::CastEnd
                | TokenRole::Pointer,
                _,
            ) => false,
            (
                TokenRole::Value | TokenRole::Type | TokenRole::SizeOf | TokenRole::Postfix | TokenRole::Text,
                TokenRole::Open,
            ) => false,
            _ => true,
        }
    }

    /// The preference of a line break before a token: fewer brackets and weaker binding come first.
    fn break_priority(&self, role: TokenRole, depth: u32) -> Option<u32> {
        let level = |binding_weakness: u32| Some(depth * 32 + binding_weakness);
        match (self.before, role) {
            (_, TokenRole::Comma | TokenRole::Semicolon) => None,
            (TokenRole::Semicolon, _) => level(0),
            (TokenRole::Comma, _) => level(1),
            (TokenRole::Binary(ASSIGNMENT), TokenRole::OpenList) => None,
            (TokenRole::Binary(ASSIGNMENT), _) => Some(LAST_RESORT_BREAK),
            (TokenRole::Binary(binding_weakness), _) => level(binding_weakness),
            (TokenRole::Text, TokenRole::Text) => level(14),
            (TokenRole::Open, _) => Some(LAST_RESORT_BREAK),
            _ => None,
        }
    }
}

/// Precedence of an assignment.
const ASSIGNMENT: u32 = 2;

/// Precedence of an operator: the lower the number, the more weakly it binds.
fn binding_weakness(mark: &str) -> u32 {
    match mark {
        "||" => 4,
        "&&" => 5,
        "|" => 6,
        "^" => 7,
        "&" => 8,
        "==" | "!=" => 9,
        "<" | "<=" | ">" | ">=" => 10,
        "<<" | ">>" => 11,
        "+" | "-" => 12,
        "*" | "/" | "%" => 13,
        _ => ASSIGNMENT,
    }
}
