//! Parses the text of an expression, by recursive descent.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::display::quote_always;
use super::error::{Construct, SyntaxError, SyntaxProblem};
use super::lexer::{Token, Word, is_kind, tokens};
use super::tree::{Argument, Base, Branch, BranchTree, Layer, LayerName, Mode, Span, Spanned, Stack};

/// Maximum nesting depth of parentheses: far more than a stack needs, far less than would exhaust the thread's stack.
const MAX_PARENTHESIS_DEPTH: usize = 64;

/// Parses a whole expression.
pub fn parse(text: &str) -> Result<Stack, SyntaxError> {
    let mut parser = Parser { tokens: tokens(text)?, position: 0, depth: 0 };
    if *parser.peek() == Token::End {
        return Err(SyntaxError::new(SyntaxProblem::Empty, parser.span()));
    }
    let stack = parser.stack()?;
    parser.end(if stack.layers.is_empty() { Construct::Branch } else { Construct::Layer })?;
    Ok(stack)
}

/// Parses layers without a source, `layer { "|" layer }`, for a base that is already known. The text may be empty.
pub fn parse_layers(text: &str) -> Result<Vec<Spanned<Layer>>, SyntaxError> {
    let mut parser = Parser { tokens: tokens(text)?, position: 0, depth: 0 };
    if *parser.peek() == Token::End {
        return Ok(Vec::new());
    }
    let mut layers = vec![parser.layer()?];
    layers.extend(parser.layers()?);
    parser.end(Construct::Layer)?;
    Ok(layers)
}

struct Parser {
    tokens: Vec<(Token, Span)>,
    position: usize,
    depth: usize,
}

impl Parser {
    fn stack(&mut self) -> Result<Stack, SyntaxError> {
        let mut source = vec![self.branch()?];
        while self.take(&Token::Comma).is_some() {
            source.push(self.branch()?);
        }
        Ok(Stack { source, layers: self.layers()? })
    }

    fn layers(&mut self) -> Result<Vec<Spanned<Layer>>, SyntaxError> {
        let mut layers = Vec::new();
        while self.take(&Token::Pipe).is_some() {
            layers.push(self.layer()?);
        }
        Ok(layers)
    }

    fn branch(&mut self) -> Result<Spanned<Branch>, SyntaxError> {
        let start = self.span();
        let tree = match self.take(&Token::Open) {
            Some(open) => BranchTree::Stack(Box::new(self.parenthesised(open)?)),
            None => BranchTree::Base(self.base()?),
        };
        let (mode, options) = match self.take(&Token::Equals) {
            Some(_) => (Some(self.mode(&tree)?), self.arguments(Construct::Mode)?),
            None => (None, Vec::new()),
        };
        Ok(Spanned::new(Branch { tree, mode, options }, start.to(self.last_span())))
    }

    fn parenthesised(&mut self, open: Span) -> Result<Stack, SyntaxError> {
        self.depth += 1;
        if self.depth > MAX_PARENTHESIS_DEPTH {
            return Err(SyntaxError::new(SyntaxProblem::TooDeep, open));
        }
        let stack = self.stack()?;
        self.depth -= 1;
        match self.take(&Token::Close) {
            Some(_) => Ok(stack),
            None if *self.peek() == Token::End => Err(SyntaxError::new(SyntaxProblem::UnclosedParenthesis, open)),
            None => Err(self.unexpected(if stack.layers.is_empty() { Construct::Branch } else { Construct::Layer })),
        }
    }

    fn base(&mut self) -> Result<Base, SyntaxError> {
        let (word, span) = self.word(SyntaxProblem::ExpectedBase)?;
        if let Some(length) = word.plain_prefix.filter(|length| is_kind(&word.bytes[..*length])) {
            let kind = String::from_utf8_lossy(&word.bytes[..length]).into_owned();
            let kind_end = span.start + length;
            let location = OsString::from_vec(word.bytes[length + 1..].to_vec());
            return Ok(Base {
                kind: Some(Spanned::new(kind, Span { start: span.start, end: kind_end })),
                location: Spanned::new(location, Span { start: kind_end + 1, end: span.end }),
                arguments: self.arguments(Construct::Branch)?,
            });
        }
        if word.bytes.is_empty() {
            return Err(SyntaxError::new(SyntaxProblem::EmptyPath, span));
        }
        let location = Spanned::new(OsString::from_vec(word.bytes), span);
        Ok(Base { kind: None, location, arguments: self.arguments(Construct::Branch)? })
    }

    fn mode(&mut self, of: &BranchTree) -> Result<Spanned<Mode>, SyntaxError> {
        let (word, span) = self.word(SyntaxProblem::ExpectedMode)?;
        match Mode::ALL.into_iter().find(|mode| mode.word().as_bytes() == word.bytes) {
            Some(mode) => Ok(Spanned::new(mode, span)),
            None => {
                let quoted = self.with_location_to(span, of);
                Err(SyntaxError::new(SyntaxProblem::UnknownMode { word: lossy(&word), quoted }, span))
            }
        }
    }

    /// Returns a base as it is written if its location goes on to the end of the next words: all that precedes a space or the end of
    /// the branch.
    fn with_location_to(&self, mode: Span, tree: &BranchTree) -> Option<String> {
        let BranchTree::Base(base) = tree else { return None };
        let mut location = [base.location.value.as_bytes(), b"="].concat();
        let mut end = mode.start;
        for (token, span) in self.tokens.get(self.position - 1..).unwrap_or_default() {
            match token {
                _ if span.start != end => break,
                Token::Word(word) => location.extend_from_slice(&word.bytes),
                Token::Equals => location.push(b'='),
                // What follows is either more of the location, or the next branch.
                Token::Comma if base.kind.is_some() => location.push(b','),
                _ => break,
            }
            end = span.end;
        }
        let kind = base.kind.as_ref().map_or(String::new(), |kind| format!("{}:", kind.value));
        Some(format!("{kind}{}", quote_always(&location)))
    }

    fn layer(&mut self) -> Result<Spanned<Layer>, SyntaxError> {
        let (word, span) = self.word(SyntaxProblem::ExpectedLayer)?;
        let Some(name) = layer_name(&word) else {
            return Err(SyntaxError::new(SyntaxProblem::BadLayerName(lossy(&word)), span));
        };
        let arguments = self.arguments(Construct::Layer)?;
        Ok(Spanned::new(Layer { name: Spanned::new(name, span), arguments }, span.to(self.last_span())))
    }

    /// Takes the options of a base, branch or layer, if any follow.
    fn arguments(&mut self, of: Construct) -> Result<Vec<Argument>, SyntaxError> {
        let mut arguments = Vec::new();
        let Some(open) = self.take(&Token::Open) else { return Ok(arguments) };
        if self.take(&Token::Close).is_some() {
            return Ok(arguments);
        }
        loop {
            if *self.peek() == Token::End {
                return Err(SyntaxError::new(SyntaxProblem::UnclosedParenthesis, open));
            }
            arguments.push(self.argument(of, arguments.last())?);
            if self.take(&Token::Close).is_some() {
                return Ok(arguments);
            }
            if self.take(&Token::Comma).is_none() && *self.peek() != Token::End {
                return Err(self.unexpected(Construct::Value));
            }
        }
    }

    fn argument(&mut self, of: Construct, before: Option<&Argument>) -> Result<Argument, SyntaxError> {
        let (word, span) = self.word(|found| SyntaxProblem::ExpectedKey { found, of })?;
        let key = lossy(&word);
        if self.take(&Token::Equals).is_none() {
            let found = self.peek().describe();
            let before =
                before.map(|before| (before.key.value.clone(), before.value.value.to_string_lossy().into_owned()));
            return Err(SyntaxError::new(SyntaxProblem::ExpectedEquals { key, found, of, before }, self.span()));
        }
        let (value, value_span) = self.word(|found| SyntaxProblem::ExpectedValue { key: key.clone(), found })?;
        Ok(Argument { key: Spanned::new(key, span), value: Spanned::new(OsString::from_vec(value.bytes), value_span) })
    }

    /// Takes a word, or fails with the problem that `expected` makes of the token found instead.
    fn word(
        &mut self,
        expected: impl FnOnce(super::error::FoundToken) -> SyntaxProblem,
    ) -> Result<(Word, Span), SyntaxError> {
        let (token, span) = self.tokens[self.position].clone();
        match token {
            Token::Word(word) => {
                self.position += 1;
                Ok((word, span))
            }
            other => Err(SyntaxError::new(expected(other.describe()), span)),
        }
    }

    fn take(&mut self, token: &Token) -> Option<Span> {
        (self.peek() == token).then(|| {
            let span = self.span();
            self.position += 1;
            span
        })
    }

    fn end(&self, after: Construct) -> Result<(), SyntaxError> {
        match self.peek() {
            Token::End => Ok(()),
            Token::Close => Err(SyntaxError::new(SyntaxProblem::UnopenedParenthesis, self.span())),
            _ => Err(self.unexpected(after)),
        }
    }

    fn unexpected(&self, after: Construct) -> SyntaxError {
        SyntaxError::new(SyntaxProblem::Unexpected { found: self.peek().describe(), after }, self.span())
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.position].0
    }

    fn span(&self) -> Span {
        self.tokens[self.position].1
    }

    /// Returns the span of the token taken last. At least one must have been taken.
    fn last_span(&self) -> Span {
        self.tokens[self.position - 1].1
    }
}

fn layer_name(word: &Word) -> Option<LayerName> {
    if word.bytes.len() > ".fist".len() && word.bytes.ends_with(b".fist") {
        return Some(LayerName::Description(PathBuf::from(OsString::from_vec(word.bytes.clone()))));
    }
    let name = std::str::from_utf8(&word.bytes).ok()?;
    let plain = |character: char| character.is_alphanumeric() || matches!(character, '-' | '_');
    (!name.is_empty() && name.chars().all(plain)).then(|| LayerName::Name(name.to_owned()))
}

fn lossy(word: &Word) -> String {
    String::from_utf8_lossy(&word.bytes).into_owned()
}
