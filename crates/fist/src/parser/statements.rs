//! Parsing of statements.

use super::cursor::{ParseResult, Parser, SyntaxErrorReported};
use crate::diagnostic::Code;
use crate::token::TokenKind;
use crate::tree::{Block, Statement, StatementKind as S, SwitchPart};

impl Parser<'_> {
    /// Parses a block: statements in braces.
    pub(crate) fn block(&mut self) -> ParseResult<Block> {
        let start = self.expect("{")?;
        let statements = self.statements(|parser| parser.at("}"));
        if !self.eat("}") {
            let found = self.describe_next();
            self.error(Code::Unclosed, "a block is not closed").at(found).and(start, "it begins here");
            return Err(SyntaxErrorReported);
        }
        Ok(Block { statements, span: self.span_since(start) })
    }

    /// Parses statements up to an end, or up to the start of a rule, where a brace is missing.
    fn statements(&mut self, is_end: impl Fn(&Self) -> bool) -> Vec<Statement> {
        let mut statements = Vec::new();
        while !is_end(self) && !self.at_sync_point() {
            match self.statement() {
                Ok(statement) => statements.push(statement),
                Err(SyntaxErrorReported) => self.recover_in_block(),
            }
        }
        statements
    }

    fn statement(&mut self) -> ParseResult<Statement> {
        self.nested(|parser| {
            let start = parser.peek().span;
            let kind = parser.statement_kind()?;
            Ok(Statement { kind, span: parser.span_since(start) })
        })
    }

    fn statement_kind(&mut self) -> ParseResult<S> {
        if self.at("{") {
            return self.block().map(S::Block);
        }
        if self.eat(";") {
            return Ok(S::Empty);
        }
        match self.word() {
            Some("if") => self.condition(),
            Some("while") => {
                self.next();
                let condition = self.in_parentheses()?;
                Ok(S::While { condition, body: Box::new(self.statement()?) })
            }
            Some("do") => self.do_while(),
            Some("for") => self.for_loop(),
            Some("switch") => self.switch(),
            Some("break") => self.simple_statement(S::Break),
            Some("continue") => self.simple_statement(S::Continue),
            Some("return") => {
                self.next();
                let value = if self.at(";") { None } else { Some(self.expression()?) };
                self.expect(";")?;
                Ok(S::Return(value))
            }
            Some(word @ ("goto" | "asm" | "typedef")) => {
                self.error(Code::NotSupported, format!("descriptions have no `{word}` here"));
                Err(SyntaxErrorReported)
            }
            _ if self.is_type_ahead(0) && !matches!(self.peek_at(1).kind, TokenKind::Mark("=" | "(" | "." | "[")) => {
                self.variables()
            }
            _ => {
                let value = self.expression()?;
                self.expect(";")?;
                Ok(S::Expression(value))
            }
        }
    }

    fn simple_statement(&mut self, kind: S) -> ParseResult<S> {
        self.next();
        self.expect(";")?;
        Ok(kind)
    }

    fn in_parentheses(&mut self) -> ParseResult<crate::tree::Expression> {
        self.expect("(")?;
        let value = self.expression()?;
        self.expect(")")?;
        Ok(value)
    }

    fn variables(&mut self) -> ParseResult<S> {
        let r#type = self.type_name()?;
        let mut variables = vec![self.variable(&r#type, true)?];
        while self.eat(",") {
            variables.push(self.variable(&r#type, true)?);
        }
        self.expect(";")?;
        Ok(S::Declaration(variables))
    }

    fn condition(&mut self) -> ParseResult<S> {
        self.next();
        let condition = self.in_parentheses()?;
        let then = Box::new(self.statement()?);
        let otherwise = if self.eat_word("else") { Some(Box::new(self.statement()?)) } else { None };
        Ok(S::If { condition, then, otherwise })
    }

    fn do_while(&mut self) -> ParseResult<S> {
        self.next();
        let body = Box::new(self.statement()?);
        if !self.eat_word("while") {
            let found = self.describe_next();
            self.expected("`while`", found);
            return Err(SyntaxErrorReported);
        }
        let condition = self.in_parentheses()?;
        self.expect(";")?;
        Ok(S::DoWhile { body, condition })
    }

    fn for_loop(&mut self) -> ParseResult<S> {
        self.next();
        self.expect("(")?;
        let start = self.peek().span;
        let first = if self.eat(";") {
            S::Empty
        } else if self.is_type_ahead(0) {
            self.variables()?
        } else {
            let value = self.expression()?;
            self.expect(";")?;
            S::Expression(value)
        };
        let first = Box::new(Statement { kind: first, span: self.span_since(start) });
        let condition = if self.at(";") { None } else { Some(self.expression()?) };
        self.expect(";")?;
        let step = if self.at(")") { None } else { Some(self.expression()?) };
        self.expect(")")?;
        Ok(S::For { first, condition, step, body: Box::new(self.statement()?) })
    }

    fn switch(&mut self) -> ParseResult<S> {
        self.next();
        let value = self.in_parentheses()?;
        self.expect("{")?;
        let mut body = Vec::new();
        while !self.at("}") && !self.at_sync_point() {
            let labels = self.labels()?;
            let is_end = |parser: &Self| parser.at("}") || parser.at_word("case") || parser.at_word("default");
            body.push(SwitchPart { labels, statements: self.statements(is_end) });
        }
        self.expect("}")?;
        Ok(S::Switch { value, body })
    }

    fn labels(&mut self) -> ParseResult<Vec<(Option<crate::tree::Expression>, crate::text::Span)>> {
        let mut labels = Vec::new();
        loop {
            let start = self.peek().span;
            let value = if self.eat_word("case") {
                // Not an assignment: the `:` of a conditional would be taken for the label's.
                Some(self.case_value()?)
            } else if self.eat_word("default") {
                None
            } else if labels.is_empty() {
                let found = self.describe_next();
                self.expected("`case` or `default`", found);
                return Err(SyntaxErrorReported);
            } else {
                return Ok(labels);
            };
            self.expect(":")?;
            labels.push((value, self.span_since(start)));
        }
    }
}
