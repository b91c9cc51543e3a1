//! Constants: predefined names, and expressions whose value is known at check time.

use std::collections::HashMap;

use super::checker::{CheckResult, Checker, ErrorReported, Symbol};
use super::operators::{arithmetic_operator, comparison_operator, convert_integer, size, type_of, unary_arithmetic};
use crate::diagnostic::Code;
use crate::ir::{self, Constant, Definition, Expression as IrExpression, Integer, Type};
use crate::numbers::{ERRORS, FLAGS, NUMBERS};
use crate::text::Span;
use crate::tree::{BinaryOperator as B, Expression, ExpressionKind as E, UnaryOperator as U};

/// The predefined names.
pub(crate) fn known() -> HashMap<String, (Symbol, Span)> {
    let errors = ERRORS.iter().map(|(name, _)| (*name, Constant::Error(name)));
    let flags = FLAGS.iter().map(|(name, _)| (*name, Constant::Flag(name)));
    let numbers = NUMBERS.iter().map(|(name, value)| (*name, Constant::Integer(*value)));
    let all = errors.chain(flags).chain(numbers);
    all.map(|(name, value)| (name.to_owned(), (Symbol::Constant(value, Integer::INT), Span::default()))).collect()
}

impl Checker {
    /// Checks a constant expression; returns it with its type.
    pub(crate) fn constant(&mut self, expression: &Expression) -> CheckResult<(IrExpression, Integer)> {
        let (lowered, r#type) = match &expression.kind {
            E::Integer { value, is_unsigned, is_long } => {
                let r#type = type_of(*value, *is_unsigned, *is_long);
                (IrExpression::integer(r#type.wrap(*value as i64)), r#type)
            }
            E::Character(byte) => (IrExpression::integer((*byte as i8).into()), Integer::INT),
            E::Name(name) => match self.symbols.get(name) {
                Some((Symbol::Constant(constant, r#type), _)) => (IrExpression::Constant(*constant), *r#type),
                _ => return self.not_constant(expression),
            },
            E::Unary(U::AddressOf | U::Dereference, _) => return self.not_constant(expression),
            E::Unary(U::Not, of) => (IrExpression::Not(Box::new(self.constant(of)?.0)), Integer::INT),
            E::Unary(operator, of) => {
                let (value, from) = self.constant(of)?;
                unary_arithmetic(*operator, value, from, expression.span)
            }
            E::Binary(operator, one, other) => self.constant_binary(expression, *operator, one, other)?,
            E::Conditional(condition, then, otherwise) => {
                let (condition, _) = self.constant(condition)?;
                let (then, otherwise) = (self.constant(then)?, self.constant(otherwise)?);
                let r#type = then.1.with(otherwise.1);
                let (then, otherwise) =
                    (convert_integer(then.0, then.1, r#type), convert_integer(otherwise.0, otherwise.1, r#type));
                (IrExpression::Conditional(Box::new(condition), Box::new(then), Box::new(otherwise)), r#type)
            }
            E::SizeOfType { of, pointers, lengths } => {
                let mut known = Vec::new();
                for length in lengths {
                    known.push(self.length(length)?);
                }
                let base = self.base_type(of, *pointers)?;
                (size(self.array(base, &known, expression.span)?), Integer::UNSIGNED_LONG)
            }
            E::Cast { to, pointers: 0, value } => {
                let (value, from) = self.constant(value)?;
                match self.base_type(to, 0)? {
                    Type::Integer(r#type) => (convert_integer(value, from, r#type), r#type),
                    _ => return self.not_constant(expression),
                }
            }
            E::Invalid => return Err(ErrorReported),
            _ => return self.not_constant(expression),
        };
        Ok((self.simplified(lowered), r#type))
    }

    /// Folds a target-independent expression to a number.
    fn simplified(&self, lowered: IrExpression) -> IrExpression {
        let mut differs = false;
        ir::each(&lowered, &mut |one| match one {
            IrExpression::Constant(Constant::Integer(_)) => {}
            IrExpression::Constant(_) | IrExpression::Size(_) => differs = true,
            _ => {}
        });
        match self.constant_value(&lowered) {
            Some(value) if !differs => IrExpression::integer(value),
            _ => lowered,
        }
    }

    /// Returns a constant expression as a constant; a new one gets this name.
    pub(crate) fn constant_of(&mut self, name: &str, lowered: IrExpression) -> Constant {
        if let IrExpression::Constant(constant) = lowered {
            return constant;
        }
        self.layout.define(self.constant_value(&lowered).unwrap_or(0));
        self.program.constants.push(Definition { name: name.to_owned(), value: lowered });
        Constant::Defined(self.program.constants.len() - 1)
    }

    fn constant_binary(
        &mut self,
        whole: &Expression,
        operator: B,
        one: &Expression,
        other: &Expression,
    ) -> CheckResult<(IrExpression, Integer)> {
        let (one, one_type) = self.constant(one)?;
        let (other, other_type) = self.constant(other)?;
        let r#type = one_type.with(other_type);
        let is_shift = matches!(operator, B::ShiftLeft | B::ShiftRight);
        let (one, other) = match operator {
            B::And => return Ok((IrExpression::And(Box::new(one), Box::new(other)), Integer::INT)),
            B::Or => return Ok((IrExpression::Or(Box::new(one), Box::new(other)), Integer::INT)),
            _ => {
                (Box::new(convert_integer(one, one_type, r#type)), Box::new(convert_integer(other, other_type, r#type)))
            }
        };
        if let Some(comparison) = comparison_operator(operator) {
            return Ok((IrExpression::Compare(comparison, r#type, one, other), Integer::INT));
        }
        let r#type = if is_shift { one_type.promoted() } else { r#type };
        let divides = matches!(operator, B::Divide | B::Remainder);
        match arithmetic_operator(operator).filter(|_| !divides || self.constant_value(&other) != Some(0)) {
            Some(operator) => Ok((IrExpression::Binary(operator, r#type, one, other, whole.span), r#type)),
            None => {
                self.error(Code::BadConstant, "this divides by zero", whole.span);
                Err(ErrorReported)
            }
        }
    }

    fn not_constant<T>(&mut self, expression: &Expression) -> CheckResult<T> {
        self.error(Code::BadConstant, "this is not known when the description is checked", expression.span).remedy =
            Some("write a number, or a name that #define or enum has given one".into());
        Err(ErrorReported)
    }
}
