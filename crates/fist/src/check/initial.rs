//! Initializers of variables and data.

use super::checker::{CheckResult, Checker, ErrorReported};
use crate::diagnostic::Code;
use crate::ir::{Constant, Data, Expression as IrExpression, FieldReference, Initial, Integer, Statement, Type};
use crate::text::Span;
use crate::tree::{Expression, ExpressionKind as E, Initializer};

impl Checker {
    /// Evaluates the initializer of data.
    pub(crate) fn initial(&mut self, r#type: &Type, value: &Initializer) -> CheckResult<Initial> {
        match (r#type, value) {
            (_, Initializer::Value(value)) => self.initial_value(r#type, value),
            (Type::Array(of, length), Initializer::List(values, span)) => {
                self.check_initializer_count(values.len(), self.length_of(*length), *span)?;
                let values = values.iter().map(|value| self.initial(of, value));
                Ok(Initial::List(values.collect::<CheckResult<_>>()?))
            }
            (Type::Structure(index), Initializer::List(values, span)) => {
                self.check_initializer_count(values.len(), self.structure(*index).fields.len(), *span)?;
                let values = values.iter().enumerate().map(|(field, value)| {
                    let r#type = self.structure(*index).fields[field].r#type.clone();
                    self.initial(&r#type, value)
                });
                Ok(Initial::List(values.collect::<CheckResult<_>>()?))
            }
            (_, Initializer::List(values, span)) => match &values[..] {
                [value] => self.initial(r#type, value),
                _ => {
                    self.error(Code::BadType, "this has one value, not several", *span);
                    Err(ErrorReported)
                }
            },
        }
    }

    /// The length of an array on this machine.
    fn length_of(&self, length: Constant) -> usize {
        self.layout.length(length).unwrap_or(0) as usize
    }

    fn check_initializer_count(&mut self, given: usize, room: usize, span: Span) -> CheckResult<()> {
        if given <= room {
            return Ok(());
        }
        self.error(Code::BadType, format!("there are {given} values, and room for {room}"), span);
        Err(ErrorReported)
    }

    fn initial_value(&mut self, r#type: &Type, value: &Expression) -> CheckResult<Initial> {
        match (r#type, &value.kind) {
            (Type::Array(of, length), E::Text(text)) if self.size(of) == Some(1) => {
                // As in C, the terminating zero byte need not fit.
                self.check_initializer_count(text.len(), self.length_of(*length), value.span)?;
                Ok(Initial::Bytes(text.clone()))
            }
            (Type::Integer(_), _) => Ok(Initial::Integer(self.constant(value)?.0)),
            (Type::Pointer { .. }, E::Text(text)) => Ok(Initial::Pointer(self.text(text.clone(), value.span)?)),
            (Type::Pointer { .. }, _) if self.constant(value)?.0 == IrExpression::integer(0) => Ok(Initial::Zero),
            _ => {
                let what = format!("this is no value of the type `{}`", self.describe(r#type));
                self.error(Code::BadType, what, value.span);
                Err(ErrorReported)
            }
        }
    }

    /// The data object of a string, by index, with a terminating zero byte.
    pub(crate) fn text(&mut self, mut text: Vec<u8>, span: Span) -> CheckResult<usize> {
        text.push(0);
        if let Some(known) = self.strings.get(&text) {
            return Ok(*known);
        }
        self.reserve_data(text.len() as u64, span)?;
        self.strings.insert(text.clone(), self.program.data.len());
        let r#type = Type::Array(Box::new(Type::Integer(Integer::CHAR)), Constant::Integer(text.len() as i64));
        let string = Data { name: String::new(), r#type, value: Initial::Bytes(text), is_written: false };
        self.program.data.push(string);
        Ok(self.program.data.len() - 1)
    }

    /// Lowers the initializer of a variable in memory, which is zeroed before.
    pub(crate) fn initial_stores(
        &mut self,
        target: IrExpression,
        r#type: &Type,
        value: &Initializer,
        lowered: &mut Vec<Statement>,
    ) -> CheckResult<()> {
        match (r#type, value) {
            (Type::Array(of, _), Initializer::Value(Expression { kind: E::Text(_), span, .. }))
                if self.size(of) == Some(1) =>
            {
                let size = self.size(r#type).unwrap_or(0);
                self.reserve_data(size, *span)?;
                let value = self.initial(r#type, value)?;
                self.program.data.push(Data { name: String::new(), r#type: r#type.clone(), value, is_written: false });
                let from = Box::new(IrExpression::Data(self.program.data.len() - 1));
                lowered.push(Statement::Expression(IrExpression::Copy(Box::new(target), from, r#type.clone(), *span)));
                Ok(())
            }
            (Type::Array(of, length), Initializer::List(values, span)) => {
                self.check_initializer_count(values.len(), self.length_of(*length), *span)?;
                for (number, value) in values.iter().enumerate() {
                    let (pointer, index) = (Box::new(target.clone()), Box::new(IrExpression::integer(number as i64)));
                    let (of_one, length) = ((**of).clone(), Some(*length));
                    let element = IrExpression::Element { pointer, index, of: of_one, length, span: *span };
                    self.initial_stores(element, of, value, lowered)?;
                }
                Ok(())
            }
            (Type::Structure(index), Initializer::List(values, span)) => {
                self.check_initializer_count(values.len(), self.structure(*index).fields.len(), *span)?;
                for (field, value) in values.iter().enumerate() {
                    let r#type = self.structure(*index).fields[field].r#type.clone();
                    let target =
                        IrExpression::Field(Box::new(target.clone()), FieldReference { structure: *index, field });
                    self.initial_stores(target, &r#type, value, lowered)?;
                }
                Ok(())
            }
            (_, Initializer::List(values, _)) if values.len() == 1 => {
                self.initial_stores(target, r#type, &values[0], lowered)
            }
            (_, Initializer::List(_, span)) => {
                self.error(Code::BadType, "this has one value, not several", *span);
                Err(ErrorReported)
            }
            (_, Initializer::Value(value)) => {
                let assigned = self.assign_to_memory(target, r#type, value)?;
                lowered.push(Statement::Expression(assigned));
                Ok(())
            }
        }
    }
}
