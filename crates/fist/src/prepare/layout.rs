//! Layout on a target: sizes, offsets of fields, and values of constants.

use super::error::PrepareError;
use crate::arithmetic::{compare, compute};
use crate::ir::{self, Constant, Expression as E, FieldReference};
use crate::limits::MAX_OBJECT_BYTES;
use crate::program::{Field, Structure, Type};
use crate::target::Target;

/// Size in bytes of a pointer and of an object number, as runs represent them.
const POINTER_BYTES: u64 = 8;

/// Layout computed for a target so far. Each addition may refer to earlier ones.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) target: Target,
    /// The structures, with the offsets of their fields.
    pub(crate) structures: Vec<Structure>,
    /// The types of their fields in the intermediate form.
    pub(crate) field_types: Vec<Vec<ir::Type>>,
    /// The values of the computed constants.
    constants: Vec<i64>,
    /// Error numbers of the errors that the program declares.
    pub(crate) errors: Vec<i32>,
}

impl Layout {
    pub(crate) fn new(target: &Target) -> Layout {
        Layout {
            target: target.clone(),
            structures: Vec::new(),
            field_types: Vec::new(),
            constants: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Lays out a whole program.
    pub(crate) fn of(program: &ir::Program, target: &Target) -> Result<Layout, PrepareError> {
        let mut layout = Layout::new(target);
        for level in &program.levels {
            layout.add_errors(&program.errors[level.own.errors.clone()])?;
        }
        // A constant may be the size of a structure, whose array lengths may be constants: each refers to earlier
        // declarations only.
        let mut structures = program.structures.iter();
        for ir::Definition { name, value } in &program.constants {
            layout.check_names_of(value)?;
            let value = loop {
                match (layout.value(value), structures.as_slice().first()) {
                    (Some(value), _) => break value,
                    (None, Some(_)) => layout.add_next(&mut structures)?,
                    (None, None) => return Err(PrepareError::BadConstant(name.clone())),
                }
            };
            layout.constants.push(value);
        }
        while structures.len() > 0 {
            layout.add_next(&mut structures)?;
        }
        Ok(layout)
    }

    fn add_next(&mut self, structures: &mut std::slice::Iter<'_, ir::Structure>) -> Result<(), PrepareError> {
        let Some(structure) = structures.next() else { return Ok(()) };
        match self.add_structure(structure) {
            Some(added) if added.size <= MAX_OBJECT_BYTES => Ok(()),
            _ => Err(PrepareError::TooLarge(structure.name.clone())),
        }
    }

    /// Checks that the target defines every name in an expression.
    fn check_names_of(&self, expression: &E) -> Result<(), PrepareError> {
        let mut missing = None;
        ir::each(expression, &mut |one| match one {
            E::Constant(Constant::Error(name)) if !self.target.errors.contains_key(name) => missing = Some(*name),
            E::Constant(Constant::Flag(name)) if !self.target.flags.contains_key(name) => missing = Some(*name),
            _ => {}
        });
        missing.map_or(Ok(()), |name| Err(PrepareError::Missing(name)))
    }

    /// Assigns distinct numbers to the errors that a FiST program declares. Errors of other FiST programs may have
    /// equal numbers, as when they are stacked.
    fn add_errors(&mut self, errors: &[ir::DeclaredError]) -> Result<(), PrepareError> {
        let explicit_numbers: Vec<_> = errors.iter().filter_map(|error| error.number).collect();
        let first = self.errors.len();
        for error in errors {
            let number = error
                .number
                .or_else(|| self.free_error(first, &explicit_numbers))
                .ok_or(PrepareError::TooManyErrors)?;
            self.errors.push(number);
        }
        Ok(())
    }

    /// Returns a free error number: one not used by the errors from this index on, nor among `given`.
    pub(crate) fn free_error(&self, first: usize, explicit_numbers: &[i32]) -> Option<i32> {
        self.target
            .own_errors
            .clone()
            .find(|number| !self.errors[first..].contains(number) && !explicit_numbers.contains(number))
    }

    pub(crate) fn add_error(&mut self, number: i32) {
        self.errors.push(number);
    }

    /// The numbers of the errors that the program declares.
    pub(crate) fn error_numbers(&self) -> &[i32] {
        &self.errors
    }

    pub(crate) fn define(&mut self, value: i64) {
        self.constants.push(value);
    }

    /// Lays out a structure, whose fields follow each other with the alignment of C. `None` if a field has no size.
    pub(crate) fn add_structure(&mut self, structure: &ir::Structure) -> Option<&Structure> {
        let mut laid_out = Structure { name: structure.name.clone(), fields: Vec::new(), size: 0, alignment: 1 };
        for field in &structure.fields {
            let alignment = self.alignment(&field.r#type);
            let offset = laid_out.size.checked_next_multiple_of(alignment)?;
            laid_out.size = offset.checked_add(self.size(&field.r#type)?)?;
            laid_out.alignment = laid_out.alignment.max(alignment);
            laid_out.fields.push(Field { name: field.name.clone(), r#type: self.r#type(&field.r#type)?, offset });
        }
        laid_out.size = laid_out.size.checked_next_multiple_of(laid_out.alignment)?;
        self.field_types.push(structure.fields.iter().map(|field| field.r#type.clone()).collect());
        self.structures.push(laid_out);
        self.structures.last()
    }

    /// Returns the offset of a field in its structure.
    pub(crate) fn offset(&self, FieldReference { structure, field }: FieldReference) -> u64 {
        self.structures[structure].fields[field].offset
    }

    /// Returns the size of a value in bytes; `None` if the type has none or the size overflows.
    pub(crate) fn size(&self, r#type: &ir::Type) -> Option<u64> {
        match r#type {
            ir::Type::Void => None,
            ir::Type::Integer(integer) => Some(integer.bytes.into()),
            ir::Type::Vnode | ir::Type::Pointer { .. } => Some(POINTER_BYTES),
            ir::Type::Array(of, length) => self.size(of)?.checked_mul(self.length(*length)?),
            ir::Type::Structure(index) => self.structures.get(*index).map(|structure| structure.size),
        }
    }

    pub(crate) fn alignment(&self, r#type: &ir::Type) -> u64 {
        let natural = match r#type {
            ir::Type::Void => 1,
            ir::Type::Integer(integer) => integer.bytes.into(),
            ir::Type::Vnode | ir::Type::Pointer { .. } => POINTER_BYTES,
            ir::Type::Array(of, _) => self.alignment(of),
            ir::Type::Structure(index) => self.structures.get(*index).map_or(1, |structure| structure.alignment),
        };
        natural.min(self.target.alignment_max)
    }

    /// Returns the length of an array, which has at least one element.
    pub(crate) fn length(&self, length: Constant) -> Option<u64> {
        u64::try_from(self.constant(length)?).ok().filter(|length| *length > 0)
    }

    /// Lowers a type, with its array lengths evaluated.
    pub(crate) fn r#type(&self, r#type: &ir::Type) -> Option<Type> {
        Some(match r#type {
            ir::Type::Void => Type::Void,
            ir::Type::Integer(integer) => Type::Integer(*integer),
            ir::Type::Vnode => Type::Vnode,
            ir::Type::Pointer { to, is_const } => Type::Pointer { to: Box::new(self.r#type(to)?), is_const: *is_const },
            ir::Type::Array(of, length) => Type::Array(Box::new(self.r#type(of)?), self.length(*length)?),
            ir::Type::Structure(index) => Type::Structure(*index),
        })
    }

    /// Returns the value of a constant, if the target defines it.
    pub(crate) fn constant(&self, constant: Constant) -> Option<i64> {
        match constant {
            Constant::Integer(value) => Some(value),
            Constant::Error(name) => self.target.errors.get(name).map(|number| i64::from(*number)),
            Constant::Flag(name) => self.target.flags.get(name).copied(),
            Constant::DeclaredError(index) => self.errors.get(index).map(|number| i64::from(*number)),
            Constant::PageSize => Some(self.target.page_bytes as i64),
            Constant::Defined(index) => self.constants.get(index).copied(),
        }
    }

    /// Evaluates a constant expression; `None` for any other, and for a division by zero.
    pub(crate) fn value(&self, expression: &E) -> Option<i64> {
        Some(match expression {
            E::Constant(constant) => self.constant(*constant)?,
            E::Size(r#type) => self.size(r#type)? as i64,
            E::Convert(value, integer) => integer.wrap(self.value(value)?),
            E::Not(value) => (self.value(value)? == 0).into(),
            E::Binary(operator, integer, one, other, _) => {
                compute(*operator, *integer, self.value(one)?, self.value(other)?)?
            }
            E::Compare(comparison, integer, one, other) => {
                compare(*comparison, *integer, self.value(one)?, self.value(other)?).into()
            }
            E::And(one, other) => (self.value(one)? != 0 && self.value(other)? != 0).into(),
            E::Or(one, other) => (self.value(one)? != 0 || self.value(other)? != 0).into(),
            E::Conditional(condition, then, otherwise) => {
                let (then, otherwise) = (self.value(then)?, self.value(otherwise)?);
                if self.value(condition)? != 0 { then } else { otherwise }
            }
            _ => return None,
        })
    }
}
