//! Expressions, by precedence climbing.

use super::cursor::{ParseResult, Parser, SyntaxErrorReported};
use crate::text::Span;
use crate::token::TokenKind;
use crate::tree::{BinaryOperator as B, Expression, ExpressionKind as E, UnaryOperator as U};

impl Parser<'_> {
    /// Parses an expression; of several separated by commas the value is the last one's.
    pub(crate) fn expression(&mut self) -> ParseResult<Expression> {
        let mut left = self.assignment()?;
        while self.eat(",") {
            let right = self.assignment()?;
            let span = left.span.to(right.span);
            left = self.new_expression(E::Sequence(Box::new(left), Box::new(right)), span)?;
        }
        Ok(left)
    }

    /// Parses an expression without a comma.
    pub(crate) fn assignment(&mut self) -> ParseResult<Expression> {
        self.nested(|parser| {
            let left = parser.conditional()?;
            let TokenKind::Mark(mark) = parser.peek().kind else { return Ok(left) };
            let Some(operator) = assignment_operator(mark) else { return Ok(left) };
            parser.next();
            let right = parser.assignment()?;
            let span = left.span.to(right.span);
            parser.new_expression(E::Assign(operator, Box::new(left), Box::new(right)), span)
        })
    }

    fn conditional(&mut self) -> ParseResult<Expression> {
        let condition = self.binary(1)?;
        if !self.eat("?") {
            return Ok(condition);
        }
        let then = self.expression()?;
        self.expect(":")?;
        let otherwise = self.nested(Self::conditional)?;
        let span = condition.span.to(otherwise.span);
        self.new_expression(E::Conditional(Box::new(condition), Box::new(then), Box::new(otherwise)), span)
    }

    /// Parses binary operators of at least this precedence.
    fn binary(&mut self, min_precedence: u8) -> ParseResult<Expression> {
        let mut left = self.unary()?;
        while let TokenKind::Mark(mark) = self.peek().kind
            && let Some((operator, precedence)) = operator(mark)
            && precedence >= min_precedence
            && !self.at_sync_point()
        {
            self.next();
            let right = self.nested(|parser| parser.binary(precedence + 1))?;
            let span = left.span.to(right.span);
            left = self.new_expression(E::Binary(operator, Box::new(left), Box::new(right)), span)?;
        }
        Ok(left)
    }

    /// Creates an expression around its parts, within the depth limit. Left operands count too, because each operator
    /// that follows encloses them all.
    fn new_expression(&mut self, kind: E, span: Span) -> ParseResult<Expression> {
        let expression = Expression::new(kind, span);
        self.check_depth(expression.depth - 1)?;
        Ok(expression)
    }

    fn unary(&mut self) -> ParseResult<Expression> {
        let start = self.peek().span;
        let TokenKind::Mark(mark) = self.peek().kind else { return self.postfix() };
        let operator = match mark {
            "+" => U::Plus,
            "-" => U::Negate,
            "!" => U::Not,
            "~" => U::Complement,
            "&" => U::AddressOf,
            "*" => U::Dereference,
            "++" | "--" => {
                self.next();
                let target = Box::new(self.nested(Self::unary)?);
                let kind = E::Step { target, is_increment: mark == "++", is_postfix: false };
                return self.new_expression(kind, self.span_since(start));
            }
            "(" if self.is_type_ahead(1) => return self.cast(),
            _ => return self.postfix(),
        };
        self.next();
        let value = self.nested(Self::unary)?;
        self.new_expression(E::Unary(operator, Box::new(value)), self.span_since(start))
    }

    fn cast(&mut self) -> ParseResult<Expression> {
        let start = self.next().span;
        let (to, pointers) = (self.type_name()?, self.pointers()?);
        self.expect(")")?;
        let value = Box::new(self.nested(Self::unary)?);
        self.new_expression(E::Cast { to, pointers, value }, self.span_since(start))
    }

    fn postfix(&mut self) -> ParseResult<Expression> {
        let mut value = self.operand()?;
        loop {
            let start = value.span;
            let of = |value| Box::new(value);
            let kind = if self.eat("[") {
                let index = self.expression()?;
                self.expect("]")?;
                E::Index(of(value), Box::new(index))
            } else if self.at(".") || self.at("->") {
                let is_arrow = self.next().span.of(self.text) == "->";
                E::Member { of: of(value), name: self.name("the name of a field or an attribute")?, is_arrow }
            } else if self.at("++") || self.at("--") {
                let is_increment = self.next().span.of(self.text) == "++";
                E::Step { target: of(value), is_increment, is_postfix: true }
            } else {
                return Ok(value);
            };
            value = self.new_expression(kind, self.span_since(start))?;
        }
    }

    fn operand(&mut self) -> ParseResult<Expression> {
        let token = self.peek();
        let start = token.span;
        let kind = match &token.kind {
            TokenKind::Name => return self.name_or_call(),
            TokenKind::Integer { value, is_unsigned, is_long } => {
                self.next();
                E::Integer { value: *value, is_unsigned: *is_unsigned, is_long: *is_long }
            }
            TokenKind::Character(byte) => {
                self.next();
                E::Character(*byte)
            }
            TokenKind::Text(_) => E::Text(self.texts()),
            TokenKind::Variable { name_length, branch } => {
                self.next();
                let name = Span { start: start.start + 1, end: start.start + 1 + name_length };
                E::Argument { name: name.of(self.text).to_owned(), branch: *branch }
            }
            TokenKind::Mark("(") => {
                self.next();
                let inner = self.nested(Self::expression)?;
                self.expect(")")?;
                inner.kind
            }
            TokenKind::Mark("%") if self.peek_at(1).is_attached && matches!(self.peek_at(1).kind, TokenKind::Name) => {
                self.next();
                E::Global(self.name("the name of a global")?.value)
            }
            _ => {
                let found = self.describe_next();
                self.expected("an expression", found);
                return Err(SyntaxErrorReported);
            }
        };
        self.new_expression(kind, self.span_since(start))
    }

    /// Adjacent strings are concatenated.
    fn texts(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while let TokenKind::Text(bytes) = &self.peek().kind {
            all.extend_from_slice(bytes);
            self.next();
        }
        all
    }

    /// Parses a name, a call, or `sizeof`.
    fn name_or_call(&mut self) -> ParseResult<Expression> {
        let name = self.name("a name")?;
        let start = name.span;
        if name.value == "sizeof" {
            return self.size_of(start);
        }
        let kind =
            if self.at("(") { E::Call { arguments: self.arguments()?, function: name } } else { E::Name(name.value) };
        self.new_expression(kind, self.span_since(start))
    }

    fn size_of(&mut self, start: Span) -> ParseResult<Expression> {
        let kind = if self.at("(") && self.is_type_ahead(1) {
            self.next();
            let (of, pointers) = (self.type_name()?, self.pointers()?);
            let mut lengths = Vec::new();
            while self.eat("[") {
                self.length(&mut lengths, Self::assignment)?;
            }
            self.expect(")")?;
            E::SizeOfType { of, pointers, lengths }
        } else {
            E::SizeOfValue(Box::new(self.nested(Self::unary)?))
        };
        self.new_expression(kind, self.span_since(start))
    }

    fn arguments(&mut self) -> ParseResult<Vec<Expression>> {
        self.expect("(")?;
        let mut arguments = Vec::new();
        while !self.at(")") {
            // An argument may be omitted if another follows (FiST, section 2.3.2).
            if self.at(",") {
                let span = self.next().span;
                arguments.push(self.new_expression(E::Name(String::new()), span)?);
                continue;
            }
            arguments.push(self.assignment()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(arguments)
    }

    /// Parses the value of a `case`: no assignment.
    pub(crate) fn case_value(&mut self) -> ParseResult<Expression> {
        self.conditional()
    }
}

/// The binary operator of a punctuator, and its precedence.
fn operator(mark: &str) -> Option<(B, u8)> {
    Some(match mark {
        "||" => (B::Or, 1),
        "&&" => (B::And, 2),
        "|" => (B::BitOr, 3),
        "^" => (B::BitXor, 4),
        "&" => (B::BitAnd, 5),
        "==" => (B::Equal, 6),
        "!=" => (B::NotEqual, 6),
        "<" => (B::Less, 7),
        "<=" => (B::LessOrEqual, 7),
        ">" => (B::Greater, 7),
        ">=" => (B::GreaterOrEqual, 7),
        "<<" => (B::ShiftLeft, 8),
        ">>" => (B::ShiftRight, 8),
        "+" => (B::Add, 9),
        "-" => (B::Subtract, 9),
        "*" => (B::Multiply, 10),
        "/" => (B::Divide, 10),
        "%" => (B::Remainder, 10),
        _ => return None,
    })
}

/// The operator of a compound assignment; `Some(None)` for a plain one.
fn assignment_operator(mark: &str) -> Option<Option<B>> {
    Some(match mark {
        "=" => None,
        "+=" => Some(B::Add),
        "-=" => Some(B::Subtract),
        "*=" => Some(B::Multiply),
        "/=" => Some(B::Divide),
        "%=" => Some(B::Remainder),
        "&=" => Some(B::BitAnd),
        "|=" => Some(B::BitOr),
        "^=" => Some(B::BitXor),
        "<<=" => Some(B::ShiftLeft),
        ">>=" => Some(B::ShiftRight),
        _ => return None,
    })
}
