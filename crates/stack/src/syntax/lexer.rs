//! Splits the text of an expression into words and punctuation.

use super::error::{FoundToken, SyntaxError, SyntaxProblem};
use super::tree::Span;

/// One token of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Word(Word),
    Pipe,
    Comma,
    Equals,
    Open,
    Close,
    End,
}

/// A word with its quoting removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub bytes: Vec<u8>,
    /// Length of the part before the first colon, if that part and the colon are written without any quoting. The part
    /// then has the same length in the text and in `bytes`.
    pub plain_prefix: Option<usize>,
}

/// Returns whether a character ends an unquoted word.
pub(crate) fn is_special(byte: u8) -> bool {
    punctuation(byte).is_some() || is_blank(byte) || matches!(byte, b'"' | b'\\')
}

/// Splits the whole text into tokens; the last one is [`Token::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<(Token, Span)>, SyntaxError> {
    let mut lexer = Lexer { text: text.as_bytes(), position: 0 };
    let mut tokens = Vec::new();
    loop {
        let (token, span) = lexer.next()?;
        let last = token == Token::End;
        tokens.push((token, span));
        if last {
            return Ok(tokens);
        }
    }
}

impl Token {
    /// Returns the token as a message names it.
    pub(crate) fn describe(&self) -> FoundToken {
        match self {
            Token::Word(word) => FoundToken::Word(String::from_utf8_lossy(&word.bytes).into_owned()),
            Token::Pipe => FoundToken::Character('|'),
            Token::Comma => FoundToken::Character(','),
            Token::Equals => FoundToken::Character('='),
            Token::Open => FoundToken::Character('('),
            Token::Close => FoundToken::Character(')'),
            Token::End => FoundToken::End,
        }
    }
}

struct Lexer<'a> {
    text: &'a [u8],
    position: usize,
}

impl Lexer<'_> {
    fn next(&mut self) -> Result<(Token, Span), SyntaxError> {
        while self.peek().is_some_and(is_blank) {
            self.position += 1;
        }
        let start = self.position;
        let token = match self.peek() {
            None => Token::End,
            Some(byte) => match punctuation(byte) {
                Some(token) => {
                    self.position += 1;
                    token
                }
                None => Token::Word(self.word()?),
            },
        };
        Ok((token, Span { start, end: self.position }))
    }

    fn word(&mut self) -> Result<Word, SyntaxError> {
        let start = self.position;
        let mut bytes = Vec::new();
        let mut plain = true;
        let mut plain_prefix = None;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    plain = false;
                    self.quoted(&mut bytes)?;
                }
                b'\\' => {
                    plain = false;
                    bytes.push(self.escaped()?);
                }
                _ if is_special(byte) => break,
                _ => {
                    if byte == b':' && plain && plain_prefix.is_none() {
                        plain_prefix = Some(bytes.len());
                    }
                    bytes.push(byte);
                    self.position += 1;
                }
            }
        }
        if bytes.contains(&0) {
            return Err(SyntaxError::new(SyntaxProblem::Nul, Span { start, end: self.position }));
        }
        Ok(Word { bytes, plain_prefix })
    }

    /// Reads from the opening double quote through the closing one.
    fn quoted(&mut self, bytes: &mut Vec<u8>) -> Result<(), SyntaxError> {
        let start = self.position;
        self.position += 1;
        loop {
            match self.peek() {
                None => {
                    return Err(SyntaxError::new(SyntaxProblem::UnclosedQuote, Span { start, end: start + 1 }));
                }
                Some(b'"') => {
                    self.position += 1;
                    return Ok(());
                }
                Some(b'\\') => bytes.push(self.escaped()?),
                Some(byte) => {
                    bytes.push(byte);
                    self.position += 1;
                }
            }
        }
    }

    /// Reads a backslash and what it escapes: one byte, or `xNN`.
    ///
    /// Of a multi-byte character, returns the first byte; the others follow as ordinary bytes of the word, and none of
    /// them ends it.
    fn escaped(&mut self) -> Result<u8, SyntaxError> {
        let start = self.position;
        self.position += 1;
        match self.peek() {
            None => Err(SyntaxError::new(SyntaxProblem::TrailingBackslash, Span { start, end: start + 1 })),
            Some(b'x') => {
                self.position += 1;
                let digits = self.text.get(self.position..self.position + 2);
                let value = digits.and_then(|digits| Some(hexadecimal(digits[0])? << 4 | hexadecimal(digits[1])?));
                self.position += 2;
                let end = self.position.min(self.text.len());
                value.ok_or_else(|| SyntaxError::new(SyntaxProblem::BadEscape, Span { start, end }))
            }
            Some(byte) => {
                self.position += 1;
                Ok(byte)
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }
}

fn punctuation(byte: u8) -> Option<Token> {
    Some(match byte {
        b'|' => Token::Pipe,
        b',' => Token::Comma,
        b'=' => Token::Equals,
        b'(' => Token::Open,
        b')' => Token::Close,
        _ => return None,
    })
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// Returns whether the text before a colon names a kind. Text that cannot be a kind belongs to a path, as in `/a:b` and
/// `./a:b`.
pub(crate) fn is_kind(text: &[u8]) -> bool {
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_');
    text.first().is_some_and(u8::is_ascii_alphabetic) && text.iter().all(inner)
}
