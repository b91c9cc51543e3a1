//! Expressions, by precedence climbing.

use super::cursor::{Parser, Read, Unreadable};
use crate::text::Span;
use crate::token::TokenKind;
use crate::tree::{BinaryOperator as B, Expression, ExpressionKind as E, UnaryOperator as U};

impl Parser<'_> {
    /// Parses an expression; of several separated by commas the value is the last one's.
    pub(crate) fn expression(&mut self) -> Read<Expression> {
        let mut left = self.assignment()?;
        while self.eat(",") {
            let right = self.assignment()?;
            let span = left.span.to(right.span);
            left = self.made(E::Sequence(Box::new(left), Box::new(right)), span)?;
        }
        Ok(left)
    }

    /// Parses an expression without a comma.
    pub(crate) fn assignment(&mut self) -> Read<Expression> {
        self.deeper(|parser| {
            let left = parser.conditional()?;
            let TokenKind::Mark(mark) = parser.peek().kind else { return Ok(left) };
            let Some(operator) = assigning(mark) else { return Ok(left) };
            parser.next();
            let right = parser.assignment()?;
            let span = left.span.to(right.span);
            parser.made(E::Assign(operator, Box::new(left), Box::new(right)), span)
        })
    }

    fn conditional(&mut self) -> Read<Expression> {
        let condition = self.binary(1)?;
        if !self.eat("?") {
            return Ok(condition);
        }
        let then = self.expression()?;
        self.expect(":")?;
        let otherwise = self.deeper(Self::conditional)?;
        let span = condition.span.to(otherwise.span);
        self.made(E::Conditional(Box::new(condition), Box::new(then), Box::new(otherwise)), span)
    }

    /// Parses binary operators of at least this precedence.
    fn binary(&mut self, weakest: u8) -> Read<Expression> {
        let mut left = self.unary()?;
        while let TokenKind::Mark(mark) = self.peek().kind
            && let Some((operator, strength)) = operator(mark)
            && strength >= weakest
            && !self.at_border()
        {
            self.next();
            let right = self.deeper(|parser| parser.binary(strength + 1))?;
            let span = left.span.to(right.span);
            left = self.made(E::Binary(operator, Box::new(left), Box::new(right)), span)?;
        }
        Ok(left)
    }

    /// Creates an expression around its parts, within the depth limit. Left operands count too, because each operator
    /// that follows encloses them all.
    fn made(&mut self, kind: E, span: Span) -> Read<Expression> {
        let made = Expression::new(kind, span);
        self.within_depth(made.depth - 1)?;
        Ok(made)
    }

    fn unary(&mut self) -> Read<Expression> {
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
                let target = Box::new(self.deeper(Self::unary)?);
                let kind = E::Step { target, is_increment: mark == "++", is_postfix: false };
                return self.made(kind, self.since(start));
            }
            "(" if self.is_type_ahead(1) => return self.cast(),
            _ => return self.postfix(),
        };
        self.next();
        let value = self.deeper(Self::unary)?;
        self.made(E::Unary(operator, Box::new(value)), self.since(start))
    }

    fn cast(&mut self) -> Read<Expression> {
        let start = self.next().span;
        let (to, pointers) = (self.type_name()?, self.pointers()?);
        self.expect(")")?;
        let value = Box::new(self.deeper(Self::unary)?);
        self.made(E::Cast { to, pointers, value }, self.since(start))
    }

    fn postfix(&mut self) -> Read<Expression> {
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
            value = self.made(kind, self.since(start))?;
        }
    }

    fn operand(&mut self) -> Read<Expression> {
        let token = self.peek();
        let start = token.span;
        let kind = match &token.kind {
            TokenKind::Name => return self.named(),
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
                let inner = self.deeper(Self::expression)?;
                self.expect(")")?;
                inner.kind
            }
            TokenKind::Mark("%") if self.ahead(1).is_attached && matches!(self.ahead(1).kind, TokenKind::Name) => {
                self.next();
                E::Global(self.name("the name of a global")?.value)
            }
            _ => {
                let found = self.found();
                self.expected("an expression", found);
                return Err(Unreadable);
            }
        };
        self.made(kind, self.since(start))
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
    fn named(&mut self) -> Read<Expression> {
        let name = self.name("a name")?;
        let start = name.span;
        if name.value == "sizeof" {
            return self.size_of(start);
        }
        let kind =
            if self.at("(") { E::Call { arguments: self.arguments()?, function: name } } else { E::Name(name.value) };
        self.made(kind, self.since(start))
    }

    fn size_of(&mut self, start: Span) -> Read<Expression> {
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
            E::SizeOfValue(Box::new(self.deeper(Self::unary)?))
        };
        self.made(kind, self.since(start))
    }

    fn arguments(&mut self) -> Read<Vec<Expression>> {
        self.expect("(")?;
        let mut arguments = Vec::new();
        while !self.at(")") {
            // An argument may be omitted if another follows (FiST, section 2.3.2).
            if self.at(",") {
                let span = self.next().span;
                arguments.push(self.made(E::Name(String::new()), span)?);
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
    pub(crate) fn case_value(&mut self) -> Read<Expression> {
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
fn assigning(mark: &str) -> Option<Option<B>> {
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
