//! Types: resolution of type names, sizes, and their names in messages.

use std::collections::HashMap;

use super::checker::{CheckResult, Checker, ErrorReported};
use crate::diagnostic::Code;
use crate::ir::{Constant, Field, Integer, Structure, Type};
use crate::limits::{MAX_FIELDS, MAX_OBJECT_BYTES, MAX_TYPE_DEPTH};
use crate::text::Span;
use crate::tree::{self, BaseType, Expression, TypeName, Variable};

/// The predefined type names.
pub(crate) fn known() -> HashMap<String, Type> {
    let page = Type::Array(Box::new(Type::Integer(Integer { bytes: 1, is_unsigned: true })), Constant::PageSize);
    HashMap::from([("page_t".to_owned(), page)])
}

impl Checker {
    /// Resolves a type name, under a number of pointers.
    pub(crate) fn base_type(&mut self, name: &TypeName, pointers: u32) -> CheckResult<Type> {
        let mut r#type = match &name.base {
            BaseType::Void => Type::Void,
            BaseType::Integer { bytes, is_unsigned } => {
                Type::Integer(Integer { bytes: *bytes, is_unsigned: *is_unsigned })
            }
            BaseType::Vnode => Type::Vnode,
            BaseType::Structure(structure) => match self.structures.get(structure) {
                Some(index) => Type::Structure(*index),
                None => return self.unknown_type(&format!("struct {structure}"), name.span),
            },
            // The elements of a page: so elements of a pointer to one are bytes.
            BaseType::Named(alias) if alias == "page_t" && pointers > 0 => Type::Integer(Integer::BYTE),
            BaseType::Named(alias) => match self.aliases.get(alias) {
                Some(meant) => meant.clone(),
                None => return self.unknown_type(alias, name.span),
            },
        };
        self.check_type_depth(&r#type, pointers as usize, name.span)?;
        let mut is_const = name.is_const;
        for _ in 0..pointers {
            r#type = Type::Pointer { to: Box::new(r#type), is_const };
            is_const = false;
        }
        Ok(r#type)
    }

    /// Checks the number of pointers and arrays in a type: the one limit of its depth, so that any walk through a type
    /// ends soon.
    pub(crate) fn check_type_depth(&mut self, of: &Type, more: usize, span: Span) -> CheckResult<()> {
        let (mut depth, mut inner) = (more, of);
        while let Type::Pointer { to: next, .. } | Type::Array(next, _) = inner {
            (depth, inner) = (depth + 1, next);
        }
        if depth <= MAX_TYPE_DEPTH as usize {
            return Ok(());
        }
        let what = format!("a type is made of more than {MAX_TYPE_DEPTH} pointers and arrays");
        self.error(Code::TooDeep, what, span).remedy = Some("put a structure in between".into());
        Err(ErrorReported)
    }

    fn unknown_type(&mut self, name: &str, span: Span) -> CheckResult<Type> {
        self.error(Code::UnknownName, format!("there is no type `{name}`"), span);
        Err(ErrorReported)
    }

    /// The type of a variable with all lengths given.
    pub(crate) fn variable_type(&mut self, variable: &Variable) -> CheckResult<Type> {
        let base = self.base_type(&variable.r#type, variable.pointers)?;
        let mut lengths = Vec::new();
        for length in &variable.lengths {
            let Some(length) = length else {
                self.error(Code::BadType, "the length of this array is not known", variable.span);
                return Err(ErrorReported);
            };
            lengths.push(self.length(length)?);
        }
        self.array(base, &lengths, variable.span)
    }

    /// An array of arrays, outermost length first.
    pub(crate) fn array(&mut self, base: Type, lengths: &[Constant], span: Span) -> CheckResult<Type> {
        self.check_type_depth(&base, lengths.len(), span)?;
        let r#type = lengths.iter().rev().fold(base, |of, length| Type::Array(Box::new(of), *length));
        match self.size(&r#type) {
            Some(size) if size <= MAX_OBJECT_BYTES => Ok(r#type),
            _ if matches!(r#type, Type::Void) => {
                self.error(Code::BadType, "nothing can be of the type `void`", span);
                Err(ErrorReported)
            }
            _ => {
                self.error(Code::BadType, format!("this is larger than {} MiB", MAX_OBJECT_BYTES >> 20), span);
                Err(ErrorReported)
            }
        }
    }

    pub(crate) fn length(&mut self, expression: &Expression) -> CheckResult<Constant> {
        let (length, _) = self.constant(expression)?;
        match self.constant_value(&length) {
            Some(1..) => Ok(self.constant_of("", length)),
            _ => {
                self.error(Code::BadType, "the length of an array is at least 1", expression.span);
                Err(ErrorReported)
            }
        }
    }

    /// Returns the size of a value on this machine in bytes; `None` if the type has none or the size overflows.
    pub(crate) fn size(&self, r#type: &Type) -> Option<u64> {
        self.layout.size(r#type)
    }

    /// Declares a structure of fields.
    pub(crate) fn structure_of(&mut self, name: &str, fields: &[tree::Field]) -> usize {
        let mut structure = Structure { name: name.to_owned(), fields: Vec::new() };
        for field in fields {
            let count = structure.fields.len() + 1;
            if self.check_count(count, MAX_FIELDS, "fields of a structure", field.name.span).is_err() {
                break;
            }
            let Ok(r#type) = self.field_type(field) else { continue };
            if structure.fields.iter().any(|other| other.name == field.name.value) {
                let what = format!("`{name}` has two fields `{}`", field.name.value);
                self.error(Code::Twice, what, field.name.span);
                continue;
            }
            structure.fields.push(Field { name: field.name.value.clone(), r#type });
        }
        let span = fields.last().map(|last| last.name.span).unwrap_or_default();
        self.add_structure(structure, span)
    }

    /// Adds a structure within the size limit; returns its index.
    pub(crate) fn add_structure(&mut self, structure: Structure, span: Span) -> usize {
        let size = self.layout.add_structure(&structure).map_or(u64::MAX, |added| added.size);
        self.check_size(size, MAX_OBJECT_BYTES, &structure.name, span);
        self.program.structures.push(structure);
        self.program.structures.len() - 1
    }

    /// Checks the size of declared data against a limit.
    pub(crate) fn check_size(&mut self, size: u64, limit: u64, name: &str, span: Span) {
        if size > limit {
            self.error(Code::TooMany, format!("`{name}` has {size} bytes, and may have {limit}"), span);
        }
    }

    /// Checks that a field has a basic type (FiST, section 2.2), which can be copied to and from user processes.
    pub(crate) fn field_type(&mut self, field: &tree::Field) -> CheckResult<Type> {
        let base = self.base_type(&field.r#type, 0)?;
        if matches!(base, Type::Vnode) {
            self.error(Code::BadType, "declared data holds no objects", field.name.span);
            return Err(ErrorReported);
        }
        let mut lengths = Vec::new();
        for length in &field.lengths {
            lengths.push(self.length(length)?);
        }
        self.array(base, &lengths, field.name.span)
    }

    /// The name of a type in messages.
    pub(crate) fn describe(&self, r#type: &Type) -> String {
        match r#type {
            Type::Void => "void".into(),
            Type::Vnode => "vnode".into(),
            Type::Integer(integer) => integer.name().into(),
            Type::Pointer { to, is_const } => {
                format!("{}{} *", if *is_const { "const " } else { "" }, self.describe(to))
            }
            Type::Array(of, length) => {
                format!("{}[{}]", self.describe(of), self.layout.length(*length).unwrap_or(0))
            }
            Type::Structure(index) => format!("struct {}", self.structure(*index).name),
        }
    }
}
