//! Lowering of functions and of intrinsic and host calls to code.

use super::error::PrepareError;
use super::layout::Layout;
use crate::arithmetic::compute;
use crate::code::{Expression, Function, Operand, Shared, Site, Statement};
use crate::depth;
use crate::ir::{self, Constant, Expression as E, Integer, Statement as S, Step, Type};
use crate::weight::set_fuel_costs;

/// Depth of a call itself, in addition to the nesting.
const CALL_DEPTH: u32 = 2;

/// Lowers a function to code.
pub(crate) fn function(one: &ir::Function, layout: &Layout) -> Result<Function, PrepareError> {
    let lowering = CodeLowering { layout, name: &one.name };
    let objects = one.objects.iter().map(|object| lowering.size(&object.r#type));
    let mut lowered = Function {
        name: one.name.clone(),
        parameters: one.parameters,
        registers: one.registers.len(),
        objects: objects.collect::<Result<_, _>>()?,
        body: lowering.statements(&one.body)?,
        depth: 0,
        weight: 0,
        span: one.span,
    };
    set_fuel_costs(&mut lowered);
    lowered.depth = depth::of(&lowered.body) + CALL_DEPTH;
    Ok(lowered)
}

/// Lowers an intrinsic or host call.
pub(crate) fn site(one: &ir::Site, layout: &Layout) -> Result<Site, PrepareError> {
    let lowering = CodeLowering { layout, name: "" };
    Ok(match one {
        ir::Site::BuiltIn(function, operands) => {
            let operands = operands.iter().map(|operand| lowering.operand(operand));
            Site::BuiltIn(*function, operands.collect::<Result<_, _>>()?)
        }
        ir::Site::Global(global) => Site::Global(*global),
        ir::Site::OperationValue(value) => Site::OperationValue(*value),
        ir::Site::Assign(value, operand) => Site::Assign(*value, lowering.operand(operand)?),
        ir::Site::Attribute(attribute, operand) => Site::Attribute(*attribute, lowering.operand(operand)?),
        ir::Site::Object(argument) => Site::Object(*argument),
        ir::Site::Load(shared) => Site::Load(lowering.shared(shared)?, scalar(&shared.r#type)),
        ir::Site::Store(shared) => Site::Store(lowering.shared(shared)?, scalar(&shared.r#type)),
        ir::Site::Update { shared, operator, computed, is_postfix } => Site::Update {
            integer: scalar(&shared.r#type),
            shared: lowering.shared(shared)?,
            operator: *operator,
            computed: *computed,
            is_postfix: *is_postfix,
        },
    })
}

/// The integer that represents a value of a type in memory.
fn scalar(r#type: &Type) -> Integer {
    match r#type {
        Type::Integer(integer) => *integer,
        _ => Integer::UNSIGNED_LONG,
    }
}

struct CodeLowering<'a> {
    layout: &'a Layout,
    /// Name of the function, for messages.
    name: &'a str,
}

impl CodeLowering<'_> {
    fn size(&self, r#type: &Type) -> Result<u64, PrepareError> {
        match r#type {
            Type::Void => Ok(0),
            other => self.layout.size(other).ok_or_else(|| PrepareError::TooLarge(self.name.to_owned())),
        }
    }

    /// Size of an element in bytes: 1 for `void`, as in GNU C.
    fn element_size(&self, r#type: &Type) -> Result<u64, PrepareError> {
        match r#type {
            Type::Void => Ok(1),
            other => self.size(other),
        }
    }

    fn constant(&self, constant: Constant) -> Result<i64, PrepareError> {
        self.layout.constant(constant).ok_or(match constant {
            Constant::Error(name) | Constant::Flag(name) => PrepareError::Missing(name),
            _ => PrepareError::BadConstant(self.name.to_owned()),
        })
    }

    fn length(&self, length: Constant) -> Result<u64, PrepareError> {
        self.layout.length(length).ok_or_else(|| PrepareError::BadConstant(self.name.to_owned()))
    }

    fn statements(&self, all: &[S]) -> Result<Vec<Statement>, PrepareError> {
        let code = all.iter().filter(|one| !matches!(one, S::Comment(_)));
        code.map(|one| self.statement(one)).collect()
    }

    fn boxed_statement(&self, one: &S) -> Result<Box<Statement>, PrepareError> {
        self.statement(one).map(Box::new)
    }

    fn statement(&self, one: &S) -> Result<Statement, PrepareError> {
        Ok(match one {
            S::Comment(_) => Statement::Block(Vec::new()),
            S::Expression(value) => Statement::Expression(self.value(value)?),
            S::Clear(object) => Statement::Clear(*object),
            S::Block(inner) => {
                let mut lowered = self.statements(inner)?;
                // Comments must not turn a single statement into a block, which would be nested more deeply.
                if lowered.len() == 1 && inner.len() > 1 { lowered.remove(0) } else { Statement::Block(lowered) }
            }
            S::If(condition, then, otherwise) => {
                Statement::If(self.value(condition)?, self.boxed_statement(then)?, self.boxed_statement(otherwise)?)
            }
            S::Loop { before, body, step, after, span } => Statement::Loop {
                before: self.optional(before.as_ref())?,
                body: self.boxed_statement(body)?,
                step: self.optional(step.as_ref())?,
                after: self.optional(after.as_ref())?,
                weight: 1,
                span: *span,
            },
            S::Switch { value, integer, cases, otherwise, parts } => Statement::Switch {
                value: self.value(value)?,
                cases: self.cases(cases, *integer)?,
                otherwise: *otherwise,
                parts: parts.iter().map(|part| self.statements(part)).collect::<Result<_, _>>()?,
            },
            S::Break => Statement::Break,
            S::Continue => Statement::Continue,
            S::Return(value) => Statement::Return(self.optional(value.as_ref())?),
        })
    }

    /// Evaluates the values of case labels, in ascending order.
    fn cases(&self, cases: &[(E, usize)], integer: Integer) -> Result<Vec<(i64, usize)>, PrepareError> {
        let value = |case: &E| self.layout.value(case).ok_or_else(|| PrepareError::BadConstant(self.name.to_owned()));
        let known = cases.iter().map(|(case, part)| Ok((integer.wrap(value(case)?), *part)));
        let mut known: Vec<_> = known.collect::<Result<_, _>>()?;
        known.sort_unstable();
        match known.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            true => Err(PrepareError::SameLabels(self.name.to_owned())),
            false => Ok(known),
        }
    }

    fn optional(&self, value: Option<&E>) -> Result<Option<Expression>, PrepareError> {
        value.map(|value| self.value(value)).transpose()
    }

    fn boxed(&self, value: &E) -> Result<Box<Expression>, PrepareError> {
        self.value(value).map(Box::new)
    }

    fn value(&self, value: &E) -> Result<Expression, PrepareError> {
        Ok(match value {
            E::Constant(constant) => Expression::Constant(self.constant(*constant)?),
            E::Size(r#type) => Expression::Constant(self.size(r#type)? as i64),
            E::Register(register) => Expression::Register(*register),
            E::Object(object) => Expression::Object(*object),
            E::Data(index) => Expression::Data(*index),
            E::Load(pointer, r#type, span) => Expression::Load(self.boxed(pointer)?, scalar(r#type), *span),
            E::Element { pointer, index, of, length, span } => Expression::Element {
                pointer: self.boxed(pointer)?,
                index: self.boxed(index)?,
                size: self.element_size(of)?,
                length: length.map(|length| self.length(length)).transpose()?,
                span: *span,
            },
            E::Field(pointer, field) => Expression::Field(self.boxed(pointer)?, self.layout.offset(*field)),
            E::Distance(one, other, of, span) => {
                Expression::Distance(self.boxed(one)?, self.boxed(other)?, self.element_size(of)?.max(1), *span)
            }
            E::Convert(value, integer) => match self.value(value)? {
                Expression::Constant(value) => Expression::Constant(integer.wrap(value)),
                other => Expression::Convert(Box::new(other), *integer),
            },
            E::Not(value) => Expression::Not(self.boxed(value)?),
            E::Binary(operator, integer, one, other, span) => {
                let (one, other) = (self.value(one)?, self.value(other)?);
                if let (Expression::Constant(one), Expression::Constant(other)) = (&one, &other)
                    && let Some(value) = compute(*operator, *integer, *one, *other)
                {
                    return Ok(Expression::Constant(value));
                }
                Expression::Binary(*operator, *integer, Box::new(one), Box::new(other), *span)
            }
            E::Compare(how, integer, one, other) => {
                Expression::Compare(*how, *integer, self.boxed(one)?, self.boxed(other)?)
            }
            E::And(one, other) => Expression::And(self.boxed(one)?, self.boxed(other)?),
            E::Or(one, other) => Expression::Or(self.boxed(one)?, self.boxed(other)?),
            E::Conditional(condition, then, otherwise) => {
                Expression::Conditional(self.boxed(condition)?, self.boxed(then)?, self.boxed(otherwise)?)
            }
            E::Sequence(one, other) => Expression::Sequence(self.boxed(one)?, self.boxed(other)?),
            E::Set(register, value) => Expression::Set(*register, self.boxed(value)?),
            E::Store(pointer, r#type, value, span) => {
                Expression::Store(self.boxed(pointer)?, scalar(r#type), self.boxed(value)?, *span)
            }
            E::Copy(to, from, of, span) => Expression::Copy(self.boxed(to)?, self.boxed(from)?, self.size(of)?, *span),
            E::Call(function, values, span) => Expression::Call(*function, self.values(values)?, *span),
            E::Site(site, values, span) => Expression::Site(*site, self.values(values)?, *span),
        })
    }

    fn values(&self, values: &[E]) -> Result<Vec<Expression>, PrepareError> {
        values.iter().map(|value| self.value(value)).collect()
    }

    fn operand(&self, one: &ir::Operand) -> Result<Operand, PrepareError> {
        Ok(match one {
            ir::Operand::Missing => Operand::Missing,
            ir::Operand::Integer(integer) => Operand::Integer(*integer),
            ir::Operand::Pointer(to) => Operand::Pointer(to.as_ref().map(|to| self.size(to)).transpose()?),
            ir::Operand::OutInteger(integer) => Operand::OutInteger(*integer),
            ir::Operand::Object => Operand::Object,
            ir::Operand::Argument(argument) => Operand::Argument(*argument),
            ir::Operand::Named => Operand::Named,
            ir::Operand::Shared(shared) => Operand::Shared(self.shared(shared)?, self.size(&shared.r#type)?),
            ir::Operand::SharedOutInteger(shared) => {
                Operand::SharedOutInteger(self.shared(shared)?, scalar(&shared.r#type))
            }
            ir::Operand::Field(field) => Operand::Field(field.structure, field.field),
            ir::Operand::Text(text) => Operand::Text(text.clone()),
        })
    }

    fn shared(&self, one: &ir::Shared) -> Result<Shared, PrepareError> {
        let mut shared = Shared { area: one.area.clone(), offset: 0, indexes: Vec::new() };
        for step in &one.path {
            match step {
                Step::Field(field) => shared.offset += self.layout.offset(*field),
                Step::Element { of, length } => shared.indexes.push((self.length(*length)?, self.size(of)?)),
            }
        }
        Ok(shared)
    }
}
