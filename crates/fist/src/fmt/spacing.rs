//! Spacing: the spaces between the tokens of C expressions and declarations, and the allowed line breaks.

use std::collections::HashSet;

use super::page::{Brace, PART_LAST};
use crate::parser::types::WORDS;
use crate::token::{Token, TokenKind};

/// The role of a token in its expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
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
pub(crate) struct Standing {
    pub(crate) is_spaced: bool,
    pub(crate) part: Option<u32>,
    pub(crate) list: Option<Brace>,
}

/// The state after a token.
#[derive(Debug)]
pub(crate) struct Spacing {
    before: Role,
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
        Spacing { before: Role::Begin, brackets: Vec::new(), conditions: vec![0] }
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
        matches!(token.kind, TokenKind::Name) && (WORDS.contains(&word) || types.contains(word))
    }

    /// Places the next token; `following` is the one after it.
    pub(crate) fn next(&mut self, text: &str, token: &Token, following: &Token, types: &HashSet<String>) -> Standing {
        let depth = self.brackets.len() as u32;
        let mut list = None;
        let role = match token.kind {
            TokenKind::Name => self.name(text, token, types),
            TokenKind::Mark("(") => {
                let is_cast = !self.is_behind_value() && self.before != Role::Control && self.before != Role::SizeOf;
                let is_cast = is_cast && self.is_type(text, following, types);
                self.open(if is_cast { Bracket::Cast } else { Bracket::Parenthesis });
                Role::Open
            }
            TokenKind::Mark("[") => {
                self.open(Bracket::Index);
                Role::OpenIndex
            }
            TokenKind::Mark("{") => {
                self.open(Bracket::List);
                list = Some(Brace::Begin);
                Role::OpenList
            }
            TokenKind::Mark(")" | "]" | "}") => match self.close() {
                Some(Bracket::Cast) => Role::CastEnd,
                Some(Bracket::List) => {
                    list = Some(Brace::End);
                    Role::Value
                }
                _ => Role::Value,
            },
            TokenKind::Mark(mark) => self.mark(mark),
            TokenKind::Text(_) => Role::Text,
            _ => Role::Value,
        };
        let is_closing = matches!(token.kind, TokenKind::Mark(")" | "]" | "}"));
        let is_spaced = !is_closing && self.is_spaced(role, token, text);
        let part = if is_closing { None } else { self.part(role, depth) };
        self.before = role;
        Standing { is_spaced, part, list }
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

    fn name(&self, text: &str, token: &Token, types: &HashSet<String>) -> Role {
        match token.span.of(text) {
            _ if self.before == Role::Dot => Role::Value,
            word if KEYWORDS.contains(&word) => Role::Keyword,
            word if CONTROLS.contains(&word) => Role::Control,
            "sizeof" => Role::SizeOf,
            _ if self.is_type(text, token, types) => Role::Type,
            // The name of a structure counts as a type name: `struct` precedes it.
            _ if self.before == Role::Type && text[..token.span.start as usize].trim_end().ends_with("struct") => {
                Role::Type
            }
            _ => Role::Value,
        }
    }

    /// Returns whether an operand precedes, so that an operator is binary.
    fn is_behind_value(&self) -> bool {
        matches!(self.before, Role::Value | Role::Text | Role::Postfix | Role::Type)
    }

    fn mark(&mut self, mark: &'static str) -> Role {
        let is_behind_value = self.is_behind_value();
        match mark {
            "," => Role::Comma,
            ";" => Role::Semicolon,
            "." | "->" => Role::Dot,
            "++" | "--" if is_behind_value => Role::Postfix,
            "++" | "--" | "!" | "~" => Role::Prefix(mark),
            "*" if matches!(self.before, Role::Type | Role::Pointer) => Role::Pointer,
            "+" | "-" | "*" | "&" | "%" if !is_behind_value => Role::Prefix(mark),
            "?" => {
                *self.conditions.last_mut().expect("that of no bracket is always there") += 1;
                Role::Binary(3)
            }
            ":" => {
                let open = self.conditions.last_mut().expect("that of no bracket is always there");
                *open = open.saturating_sub(1);
                Role::Binary(3)
            }
            _ => Role::Binary(weakness(mark)),
        }
    }

    fn is_spaced(&self, role: Role, token: &Token, text: &str) -> bool {
        match (self.before, role) {
            (_, Role::Comma | Role::Semicolon | Role::Dot | Role::Postfix | Role::OpenIndex) => false,
            // Two punctuators must not merge into one.
            (Role::Prefix(before @ ("+" | "-" | "++" | "--" | "&")), Role::Prefix(_)) => {
                token.span.of(text).starts_with(&before[before.len() - 1..])
            }
            (
                Role::Begin
                | Role::Open
                | Role::OpenIndex
                | Role::OpenList
                | Role::Prefix(_)
                | Role::Dot
                | Role::CastEnd
                | Role::Pointer,
                _,
            ) => false,
            (Role::Value | Role::Type | Role::SizeOf | Role::Postfix | Role::Text, Role::Open) => false,
            _ => true,
        }
    }

    /// The preference of a line break before a token: fewer brackets and weaker binding come first.
    fn part(&self, role: Role, depth: u32) -> Option<u32> {
        let level = |weakness: u32| Some(depth * 32 + weakness);
        match (self.before, role) {
            (_, Role::Comma | Role::Semicolon) => None,
            (Role::Semicolon, _) => level(0),
            (Role::Comma, _) => level(1),
            (Role::Binary(ASSIGNMENT), Role::OpenList) => None,
            (Role::Binary(ASSIGNMENT), _) => Some(PART_LAST),
            (Role::Binary(weakness), _) => level(weakness),
            (Role::Text, Role::Text) => level(14),
            (Role::Open, _) => Some(PART_LAST),
            _ => None,
        }
    }
}

/// Precedence of an assignment.
const ASSIGNMENT: u32 = 2;

/// Precedence of an operator: the lower the number, the more weakly it binds.
fn weakness(mark: &str) -> u32 {
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
