//! What variables and data begin with.

use super::{Checker, Understood, Wrong};
use crate::diagnostic::Code;
use crate::ir::{Expression as Made, Statement};
use crate::program::{Data, Type};
use crate::text::Span;
use crate::tree::{Expression, ExpressionKind as E, Initializer};

impl Checker {
    /// The bytes of data that begin with a value.
    pub(super) fn initial_bytes(&mut self, r#type: &Type, value: &Initializer, bytes: &mut [u8]) -> Understood<()> {
        match (r#type, value) {
            (_, Initializer::Value(value)) => self.initial_value(r#type, value, bytes),
            (Type::Array(of, length), Initializer::List(values, span)) => {
                let size = self.size(of).unwrap_or(0) as usize;
                self.not_more(values.len(), *length as usize, *span)?;
                for (value, bytes) in values.iter().zip(bytes.chunks_mut(size.max(1))) {
                    self.initial_bytes(of, value, bytes)?;
                }
                Ok(())
            }
            (Type::Structure(index), Initializer::List(values, span)) => {
                self.not_more(values.len(), self.structure(*index).fields.len(), *span)?;
                for (number, value) in values.iter().enumerate() {
                    let (offset, r#type) = self.field_at(*index, number);
                    self.initial_bytes(&r#type, value, &mut bytes[offset as usize..])?;
                }
                Ok(())
            }
            (_, Initializer::List(values, span)) => match &values[..] {
                [value] => self.initial_bytes(r#type, value, bytes),
                _ => {
                    self.wrong(Code::BadType, "this has one value, not several", *span);
                    Err(Wrong)
                }
            },
        }
    }

    /// Where a field of a structure is, and its type.
    fn field_at(&self, structure: usize, number: usize) -> (u64, Type) {
        let field = &self.structure(structure).fields[number];
        (field.offset, field.r#type.clone())
    }

    fn not_more(&mut self, given: usize, room: usize, span: Span) -> Understood<()> {
        if given <= room {
            return Ok(());
        }
        self.wrong(Code::BadType, format!("there are {given} values, and room for {room}"), span);
        Err(Wrong)
    }

    fn initial_value(&mut self, r#type: &Type, value: &Expression, bytes: &mut [u8]) -> Understood<()> {
        match (r#type, &value.kind) {
            (Type::Array(of, length), E::Text(text)) if self.size(of) == Some(1) => {
                // As in C, the zero byte at the end may have no room.
                self.not_more(text.len(), *length as usize, value.span)?;
                bytes[..text.len()].copy_from_slice(text);
                Ok(())
            }
            (Type::Integer(integer), _) => {
                let value = integer.wrap(self.constant(value)?);
                bytes[..integer.bytes as usize].copy_from_slice(&value.to_le_bytes()[..integer.bytes as usize]);
                Ok(())
            }
            (Type::Pointer { .. }, E::Text(text)) => {
                let index = self.text(text.clone(), value.span)?;
                bytes[..8].copy_from_slice(&crate::memory::data_pointer(index).to_le_bytes());
                Ok(())
            }
            (Type::Pointer { .. }, _) if self.constant(value)? == 0 => Ok(()),
            _ => {
                let what = format!("this is no value of the type `{}`", self.describe(r#type));
                self.wrong(Code::BadType, what, value.span);
                Err(Wrong)
            }
        }
    }

    /// The data that a string is, by their index, with a zero byte behind it.
    pub(super) fn text(&mut self, mut text: Vec<u8>, span: Span) -> Understood<usize> {
        text.push(0);
        if let Some(known) = self.strings.get(&text) {
            return Ok(*known);
        }
        self.has_room(text.len() as u64, span)?;
        self.strings.insert(text.clone(), self.program.data.len());
        let r#type = Type::Array(Box::new(Type::Integer(crate::ir::Integer::CHAR)), text.len() as u64);
        let string = Data { name: String::new(), r#type, bytes: text, is_written: false };
        self.program.data.push(string);
        Ok(self.program.data.len() - 1)
    }

    /// Writes what a variable in memory begins with: all of it is zero before.
    pub(super) fn initial_stores(
        &mut self,
        place: Made,
        r#type: &Type,
        value: &Initializer,
        made: &mut Vec<Statement>,
    ) -> Understood<()> {
        let at = |offset: u64| Made::Field(Box::new(place.clone()), offset);
        match (r#type, value) {
            (Type::Array(of, _), Initializer::Value(Expression { kind: E::Text(_), span, .. }))
                if self.size(of) == Some(1) =>
            {
                let size = self.size(r#type).unwrap_or(0);
                self.has_room(size, *span)?;
                let mut bytes = vec![0; size as usize];
                self.initial_bytes(r#type, value, &mut bytes)?;
                self.program.data.push(Data { name: String::new(), r#type: r#type.clone(), bytes, is_written: false });
                let from = Box::new(Made::Data(self.program.data.len() - 1));
                made.push(Statement::Expression(Made::Copy(Box::new(place), from, size, *span)));
                Ok(())
            }
            (Type::Array(of, length), Initializer::List(values, span)) => {
                let size = self.size(of).unwrap_or(0);
                self.not_more(values.len(), *length as usize, *span)?;
                for (index, value) in values.iter().enumerate() {
                    self.initial_stores(at(index as u64 * size), of, value, made)?;
                }
                Ok(())
            }
            (Type::Structure(index), Initializer::List(values, span)) => {
                self.not_more(values.len(), self.structure(*index).fields.len(), *span)?;
                for (number, value) in values.iter().enumerate() {
                    let (offset, r#type) = self.field_at(*index, number);
                    self.initial_stores(at(offset), &r#type, value, made)?;
                }
                Ok(())
            }
            (_, Initializer::List(values, _)) if values.len() == 1 => {
                self.initial_stores(place, r#type, &values[0], made)
            }
            (_, Initializer::List(_, span)) => {
                self.wrong(Code::BadType, "this has one value, not several", *span);
                Err(Wrong)
            }
            (_, Initializer::Value(value)) => {
                let assigned = self.assign_to_memory(place, r#type, value)?;
                made.push(Statement::Expression(assigned));
                Ok(())
            }
        }
    }
}
