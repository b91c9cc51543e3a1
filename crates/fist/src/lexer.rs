//! The lexer: source text to tokens. It reports and skips invalid characters, so that the rest is still read.

use crate::diagnostic::{Code, Diagnostic};
use crate::lexed::Lexed;
use crate::limits::{MAX_LEXICAL_DIAGNOSTICS, MAX_NAME_BYTES, MAX_SOURCE_BYTES, MAX_TOKENS};
use crate::text::Span;
use crate::token::{Comment, MARKS, Token, TokenKind};

/// Tokenizes a text, excluding the tokens that preprocessor conditions remove.
pub fn lex(text: &str) -> Lexed {
    let mut lexer = Lexer { text, position: 0, begins_line: true, lexed: Lexed::none() };
    if text.len() > MAX_SOURCE_BYTES {
        let what = format!("the description is longer than {} MiB", MAX_SOURCE_BYTES >> 20);
        lexer.lexed.diagnostics.push(Diagnostic::error(Code::TooLong, what, Span::default()));
    } else {
        lexer.run();
    }
    lexer.push(TokenKind::End, lexer.position);
    let mut lexed = lexer.lexed;
    crate::conditional::resolve(text, &mut lexed);
    lexed
}

struct Lexer<'a> {
    text: &'a str,
    position: usize,
    /// Only spaces precede on the line.
    begins_line: bool,
    lexed: Lexed,
}

impl Lexer<'_> {
    fn run(&mut self) {
        while let Some(first) = self.peek() {
            let start = self.position;
            match first {
                '\n' => {
                    self.position += 1;
                    self.begins_line = true;
                }
                _ if first.is_whitespace() => self.position += first.len_utf8(),
                // A continued line.
                '\\' if self.rest()[1..].trim_start_matches('\r').starts_with('\n') => {
                    self.position += self.rest().find('\n').map_or(1, |end| end + 1);
                }
                _ if self.rest().starts_with("/*") || self.rest().starts_with("//") => self.comment(),
                '#' if self.begins_line => self.directive(),
                '%' if self.begins_line && self.section() => {}
                'a'..='z' | 'A'..='Z' | '_' => {
                    self.skip_name();
                    if self.position - start > MAX_NAME_BYTES {
                        self.error(Code::TooLong, format!("a name is longer than {MAX_NAME_BYTES} bytes"), start);
                    }
                    self.push(TokenKind::Name, start);
                }
                '0'..='9' => self.integer(),
                '"' => self.string(),
                '\'' => self.character(),
                '$' => self.variable(),
                _ => self.mark(first),
            }
        }
    }

    fn rest(&self) -> &str {
        &self.text[self.position..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn push(&mut self, kind: TokenKind, start: usize) {
        if self.lexed.tokens.len() >= MAX_TOKENS && kind != TokenKind::End {
            let what = format!("the description has more than {MAX_TOKENS} words and marks");
            self.error(Code::TooLong, what, start);
            self.position = self.text.len();
            return;
        }
        let before = self.lexed.tokens.last().map_or(0, |token| token.span.end as usize);
        let is_attached = start == before && start > 0;
        let span = Span::new(start, self.position);
        self.lexed.tokens.push(Token { kind, span, is_attached, begins_line: self.begins_line });
        self.begins_line = false;
    }

    fn error(&mut self, code: Code, what: impl Into<String>, start: usize) {
        let span = Span::new(start, self.position);
        self.lexed.diagnostics.push(Diagnostic::error(code, what, span));
        if self.lexed.diagnostics.len() >= MAX_LEXICAL_DIAGNOSTICS {
            // This is no FiST program: the rest would only repeat the error.
            self.position = self.text.len();
        }
    }

    fn skip_name(&mut self) {
        let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
        self.position += self.rest().find(|character| !is_part(character)).unwrap_or(self.rest().len());
    }

    fn comment(&mut self) {
        let start = self.position;
        let is_line = self.rest().starts_with("//");
        let end = if is_line { self.rest().find('\n') } else { self.rest().find("*/").map(|end| end + 2) };
        self.position += end.unwrap_or(self.rest().len());
        if end.is_none() && !is_line {
            self.error(Code::Unclosed, "this comment is not closed", start);
        }
        self.lexed.comments.push(Comment { span: Span::new(start, self.position), begins_line: self.begins_line });
        if self.text[start..self.position].contains('\n') {
            self.begins_line = true;
        }
    }

    /// A preprocessor line, including those that a backslash joins to it.
    fn directive(&mut self) {
        let start = self.position;
        loop {
            self.position += self.rest().find('\n').unwrap_or(self.rest().len());
            let line = self.text[start..self.position].trim_end_matches('\r');
            if !line.ends_with('\\') || self.rest().is_empty() {
                break;
            }
            self.position += 1;
        }
        self.push(TokenKind::Directive, start);
    }

    /// A section separator. Except at the beginning of a line, `%` is another token.
    fn section(&mut self) -> bool {
        let (kind, length) = match self.rest().as_bytes() {
            [b'%', b'{', ..] => (TokenKind::RawBegin, 2),
            [b'%', b'}', ..] => (TokenKind::RawEnd, 2),
            [b'%', b'%', ..] => (TokenKind::Separator, 2),
            _ => return false,
        };
        let start = self.position;
        self.position += length;
        self.push(kind, start);
        true
    }

    fn integer(&mut self) {
        let start = self.position;
        self.skip_name();
        let written = &self.text[start..self.position];
        let digits = written.trim_end_matches(['u', 'U', 'l', 'L']);
        let suffix = written[digits.len()..].to_ascii_lowercase();
        let (digits, radix) = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
            [b'0', _, ..] => (&digits[1..], 8),
            _ => (digits, 10),
        };
        let is_suffix = matches!(suffix.as_str(), "" | "u" | "l" | "ul" | "lu" | "ll" | "ull" | "llu");
        let value = u64::from_str_radix(digits, radix).ok().filter(|_| is_suffix);
        if value.is_none() {
            let what = format!("`{written}` is no integer of 64 bits");
            self.error(Code::BadInteger, what, start);
        }
        let (is_unsigned, is_long) = (suffix.contains('u'), suffix.contains('l'));
        self.push(TokenKind::Integer { value: value.unwrap_or(0), is_unsigned, is_long }, start);
    }

    fn string(&mut self) {
        let start = self.position;
        self.position += 1;
        let mut bytes = Vec::new();
        loop {
            match self.peek() {
                None | Some('\n') => {
                    self.error(Code::Unclosed, "this string is not closed on its line", start);
                    break;
                }
                Some('"') => {
                    self.position += 1;
                    break;
                }
                Some('\\') => bytes.extend(self.escape()),
                Some(other) => {
                    self.position += other.len_utf8();
                    bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        self.push(TokenKind::Text(bytes), start);
    }

    fn character(&mut self) {
        let start = self.position;
        self.position += 1;
        let byte = match self.peek() {
            Some('\\') => self.escape(),
            Some(one) if one.is_ascii() && one != '\'' && one != '\n' => {
                self.position += 1;
                Some(one as u8)
            }
            _ => None,
        };
        if byte.is_some() && self.peek() == Some('\'') {
            self.position += 1;
        } else {
            self.error(Code::BadCharacter, "a character is one byte in single quotes", start);
        }
        self.push(TokenKind::Character(byte.unwrap_or(0)), start);
    }

    /// A backslash escape; `None` if it joins two lines.
    fn escape(&mut self) -> Option<u8> {
        let start = self.position;
        self.position += 1;
        let next = self.peek()?;
        self.position += next.len_utf8();
        let byte = match next {
            '\n' => return None,
            '\r' if self.peek() == Some('\n') => {
                self.position += 1;
                return None;
            }
            'n' => b'\n',
            't' => b'\t',
            'r' => b'\r',
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'v' => 11,
            '\\' | '\'' | '"' | '?' => next as u8,
            'x' => self.digits(16, 2).unwrap_or_else(|| self.bad_escape(start)),
            '0'..='7' => {
                self.position -= 1;
                self.digits(8, 3).unwrap_or_else(|| self.bad_escape(start))
            }
            _ => self.bad_escape(start),
        };
        Some(byte)
    }

    fn digits(&mut self, radix: u32, max_digits: usize) -> Option<u8> {
        let count = self.rest().chars().take(max_digits).take_while(|digit| digit.is_digit(radix)).count();
        let value = u32::from_str_radix(&self.rest()[..count], radix).ok()?;
        self.position += count;
        u8::try_from(value).ok()
    }

    fn bad_escape(&mut self, start: usize) -> u8 {
        let what = format!("`{}` is no escape of C", &self.text[start..self.position]);
        self.error(Code::BadEscape, what, start);
        0
    }

    fn variable(&mut self) {
        let start = self.position;
        self.position += 1;
        self.skip_name();
        let name_length = (self.position - start - 1) as u32;
        if name_length == 0 {
            self.error(Code::UnexpectedCharacter, "`$` is followed by the name of an argument, or a number", start);
            return;
        }
        let branch = match self.rest().as_bytes() {
            [b':', b'0'..=b'9', ..] => {
                self.position += 1;
                let number = self.position;
                self.skip_name();
                self.text[number..self.position].parse().ok()
            }
            _ => None,
        };
        self.push(TokenKind::Variable { name_length, branch }, start);
    }

    fn mark(&mut self, first: char) {
        let start = self.position;
        match MARKS.iter().find(|mark| self.rest().starts_with(**mark)) {
            Some(mark) => {
                self.position += mark.len();
                self.push(TokenKind::Mark(mark), start);
            }
            None => {
                self.position += first.len_utf8();
                let what = format!("`{}` has no meaning here", first.escape_default());
                self.error(Code::UnexpectedCharacter, what, start);
            }
        }
    }
}
