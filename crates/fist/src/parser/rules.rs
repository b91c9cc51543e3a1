//! Rules: their operations, the part of these, and the body.

use super::cursor::{ParseResult, Parser, SyntaxErrorReported};
use crate::diagnostic::Code;
use crate::token::TokenKind;
use crate::tree::Rule;

/// The sets of operations in rules (section 2.3.4; `createops` is an extension).
pub(crate) const OPERATION_SETS: [&str; 6] = ["op", "ops", "readops", "writeops", "delops", "createops"];

/// The parts of an operation that rules can name.
pub(crate) const RULE_PARTS: [&str; 3] = ["precall", "call", "postcall"];

impl Parser<'_> {
    /// Returns whether a rule begins here: `%op:`.
    pub(crate) fn at_rule(&self) -> bool {
        let [mark, set, colon] = [0, 1, 2].map(|count| self.peek_at(count));
        matches!(mark.kind, TokenKind::Mark("%"))
            && OPERATION_SETS.contains(&set.span.of(self.text))
            && matches!(colon.kind, TokenKind::Mark(":"))
    }

    /// Parses all rules, up to `%%`.
    pub(crate) fn rules(&mut self) -> Vec<Rule> {
        let mut rules = Vec::new();
        while !matches!(self.peek().kind, TokenKind::End | TokenKind::Separator) {
            match self.rule() {
                Ok(rule) => rules.push(rule),
                Err(SyntaxErrorReported) => self.skip_to_rule(),
            }
        }
        rules
    }

    fn skip_to_rule(&mut self) {
        if self.at_rule() {
            // The text here has been consumed, or another rule begins.
            return;
        }
        self.next();
        while !matches!(self.peek().kind, TokenKind::End | TokenKind::Separator) && !self.at_sync_point() {
            self.next();
        }
    }

    fn rule(&mut self) -> ParseResult<Rule> {
        let start = self.peek().span;
        if !self.eat("%") {
            let found = self.describe_next();
            self.expected("a rule, as `%op:unlink:precall { … }`,", found);
            return Err(SyntaxErrorReported);
        }
        let set = self.name("a set of operations")?;
        if !OPERATION_SETS.contains(&set.value.as_str()) {
            self.error_at(Code::UnknownOperation, format!("there is no set of operations `{}`", set.value), set.span)
                .remedy = Some(format!("the sets are {}", OPERATION_SETS.join(", ")));
        }
        self.expect(":")?;
        let operation = self.name("an operation")?;
        let mut ioctl = None;
        let mut part = None;
        if self.eat(":") {
            part = Some(self.name("precall, call or postcall")?);
        }
        if operation.value == "ioctl" && part.as_ref().is_some_and(|part| !RULE_PARTS.contains(&part.value.as_str())) {
            ioctl = part.take();
            if self.eat(":") {
                part = Some(self.name("precall, call or postcall")?);
            }
        }
        if let Some(part) = part.as_ref().filter(|part| !RULE_PARTS.contains(&part.value.as_str())) {
            self.error_at(Code::UnknownPart, format!("an operation has no part `{}`", part.value), part.span).remedy =
                Some(format!("the parts are {}", RULE_PARTS.join(", ")));
        }
        let body = self.block()?;
        Ok(Rule { set, operation, ioctl, part, body, span: self.span_since(start) })
    }
}
