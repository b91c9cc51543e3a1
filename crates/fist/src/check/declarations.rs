//! Declarations: the properties of the file system, its data, and the items of the first and last sections.

use super::checker::{CheckResult, Checker, Symbol};
use super::operators::convert_integer;
use crate::diagnostic::Code;
use crate::ir::{
    Constant, Data, DeclaredError, Expression as IrExpression, Field, Initial, Integer, Ioctl, Operator, Structure,
    Type,
};
use crate::limits::{MAX_ERROR_CODES, MAX_FIELDS, MAX_IOCTLS_OR_FORMATS, MAX_VNODE_DATA_BYTES};
use crate::program::MountField;
use crate::text::{Span, Spanned};
use crate::tree::{
    self, Access, Declaration, DeclarationKind as D, Description, Direction, Expression, Filter, Initializer, Item,
    ItemKind, Name, Style, Variable,
};

/// Maximum number of lower file systems.
const MAX_FAN_OUT: u64 = 64;
/// Range of ioctl numbers, as commands encode them (`_IOC_NRBITS`).
const IOCTL_NUMBERS: std::ops::RangeInclusive<u32> = 1..=255;

/// Locations of declarations that may appear only once.
#[derive(Default)]
struct SeenDeclarations(Vec<(&'static str, Span)>);

/// The number that a declaration assigns to an error.
fn explicit_error_number(declaration: &Declaration) -> Option<i32> {
    match &declaration.kind {
        D::ErrorCode(_, Some(number)) => i32::try_from(number.value).ok(),
        _ => None,
    }
}

/// The number that a declaration assigns to an ioctl.
fn explicit_ioctl_number(declaration: &Declaration) -> Option<u32> {
    match &declaration.kind {
        D::Ioctl(_, _, Some(number), _) => u32::try_from(number.value).ok(),
        _ => None,
    }
}

impl Checker {
    pub(crate) fn declare_declarations(&mut self, description: &Description) {
        let mut once = SeenDeclarations::default();
        self.explicit_error_numbers = description.declarations.iter().filter_map(explicit_error_number).collect();
        self.explicit_ioctl_numbers = description.declarations.iter().filter_map(explicit_ioctl_number).collect();
        let mut mount = Structure { name: "mntdata".into(), fields: Vec::new() };
        for declaration in &description.declarations {
            self.declare_one(declaration, &mut once, &mut mount);
        }
        if !mount.fields.is_empty() {
            let span = description.declarations.last().map(|last| last.span).unwrap_or_default();
            self.level.mount = Some(self.add_structure(mount, span));
        }
    }

    fn declare_one(&mut self, declaration: &Declaration, once: &mut SeenDeclarations, mount: &mut Structure) {
        let span = declaration.span;
        match &declaration.kind {
            D::AccessMode(Spanned { value, .. }) => {
                self.once(once, "accessmode", span);
                self.level.access = (*value != Access::ReadWrite).then_some(*value);
            }
            D::Debug(Spanned { value, .. }) => {
                self.once(once, "debug", span);
                self.level.traces = *value;
            }
            D::Operations(Spanned { value, .. }) => {
                self.once(once, "operations", span);
                self.level.is_serial = *value;
            }
            D::MountStyle(Spanned { value, .. }) => {
                self.once(once, "mntstyle", span);
                self.level.is_overlay = *value == Style::Overlay;
            }
            D::FanOut(count) => {
                self.once(once, "fanout", span);
                self.declare_fan_out(count);
            }
            D::Filter(Spanned { value, span }) => self.declare_filter(*value, *span),
            D::ErrorCode(name, number) => {
                let count = self.program.errors.len() + 1;
                if self.check_count(count, MAX_ERROR_CODES, "errors", name.span).is_ok() {
                    self.declare_error(name, number.as_ref());
                }
            }
            D::FileFormat(name, fields) => {
                let count = self.level.formats.len() + 1;
                if self.check_count(count, MAX_IOCTLS_OR_FORMATS, "file formats", name.span).is_err() {
                    return;
                }
                self.unique(name, "file format", |checker| {
                    let formats = checker.level.formats.iter();
                    formats.map(|format| checker.program.structures[*format].name.clone()).collect()
                });
                let structure = self.structure_of(&name.value, fields);
                self.level.formats.push(structure);
            }
            D::Ioctl(direction, name, number, fields) => {
                self.declare_ioctl(*direction, name, number.as_ref(), fields);
            }
            D::MountData(fields) => self.declare_mount(mount, fields, false),
            D::MountFlag(_, fields) => self.declare_mount(mount, fields, true),
            D::PerVfs(fields) => {
                self.once(once, "per_vfs", span);
                self.level.vfs = Some(self.structure_of("per_vfs", fields));
            }
            D::PerVnode(fields) => {
                self.once(once, "per_vnode", span);
                self.declare_per_vnode(fields);
            }
        }
    }

    fn once(&mut self, once: &mut SeenDeclarations, what: &'static str, span: Span) {
        match once.0.iter().find(|(other, _)| *other == what) {
            Some((_, before)) => {
                let before = *before;
                self.error(Code::Twice, format!("`{what}` is declared twice"), span).and(before, "the first is here");
            }
            None => once.0.push((what, span)),
        }
    }

    fn unique(&mut self, name: &Name, what: &str, known: impl Fn(&Checker) -> Vec<String>) {
        if known(self).contains(&name.value) {
            self.error(Code::Twice, format!("there are two of the {what} `{}`", name.value), name.span);
        }
    }

    fn declare_fan_out(&mut self, count: &Spanned<u64>) {
        if (1..=MAX_FAN_OUT).contains(&count.value) {
            self.level.fan_out = count.value as u32;
        } else {
            let what = format!("a file system lies on 1 to {MAX_FAN_OUT} others, not {}", count.value);
            self.error(Code::BadConstant, what, count.span);
        }
    }

    fn declare_filter(&mut self, filter: Filter, span: Span) {
        let (is_there, what) = match filter {
            Filter::Data => (&mut self.filters.data, "data"),
            Filter::Name => (&mut self.filters.name, "name"),
            Filter::Size => (&mut self.filters.size, "size"),
        };
        if is_there.replace(span).is_some() {
            self.error(Code::Twice, format!("`filter:{what}` is declared twice"), span);
        }
    }

    fn declare_error(&mut self, name: &Name, number: Option<&Spanned<u64>>) {
        let span = number.map_or(name.span, |number| number.span);
        let own = &self.layout.target.own_errors;
        let (first, last) = (*own.start(), *own.end());
        let value = match number {
            None => self.layout.free_error(0, &self.explicit_error_numbers),
            Some(number) => i32::try_from(number.value).ok().filter(|number| (1..=last).contains(number)),
        };
        let Some(value) = value else {
            let what = match number {
                None => format!("there are more errors than the numbers {first} to {last}"),
                Some(number) => format!("the number of an error is 1 to {last}, not {}", number.value),
            };
            self.error(Code::BadConstant, what, span);
            return;
        };
        if self.layout.error_numbers().contains(&value) {
            self.error(Code::Twice, format!("there are two errors with the number {value}"), span);
        }
        let constant = Constant::DeclaredError(self.program.errors.len());
        self.layout.add_error(value);
        self.program.errors.push(DeclaredError { name: name.value.clone(), number: number.map(|_| value) });
        self.define_name(&name.value, Symbol::Constant(constant, Integer::INT), name.span);
    }

    fn declare_ioctl(
        &mut self,
        direction: Direction,
        name: &Name,
        number: Option<&Spanned<u64>>,
        fields: &[tree::Field],
    ) {
        let count = self.level.ioctls.len() + 1;
        if self.check_count(count, MAX_IOCTLS_OR_FORMATS, "ioctls", name.span).is_err() {
            return;
        }
        self.unique(name, "ioctl", |checker| checker.level.ioctls.iter().map(|ioctl| ioctl.name.clone()).collect());
        let structure = self.structure_of(&name.value, fields);
        let (size, max_bytes) =
            (self.size(&Type::Structure(structure)).unwrap_or(0), self.layout.target.ioctls.bytes_max());
        if size > max_bytes {
            let what = format!("the data of an ioctl are at most {max_bytes} bytes, not {size}");
            self.error(Code::BadType, what, name.span);
            return;
        }
        let number = self.ioctl_number(name, number);
        self.level.ioctls.push(Ioctl { name: name.value.clone(), direction, structure, number });
    }

    /// The number of an ioctl: the declared one, or the first that no other ioctl declares or has; 0 after an error.
    fn ioctl_number(&mut self, name: &Name, explicit: Option<&Spanned<u64>>) -> u32 {
        let is_taken = |number: u32| self.level.ioctls.iter().find(|ioctl| ioctl.number == number);
        let Some(explicit) = explicit else {
            let is_free = |number: &u32| is_taken(*number).is_none() && !self.explicit_ioctl_numbers.contains(number);
            // There are no more ioctls than numbers, and each takes one.
            return IOCTL_NUMBERS.clone().find(is_free).unwrap_or(0);
        };
        let Some(number) = u32::try_from(explicit.value).ok().filter(|number| IOCTL_NUMBERS.contains(number)) else {
            let what = format!(
                "the number of an ioctl is {} to {}, not {}",
                IOCTL_NUMBERS.start(),
                IOCTL_NUMBERS.end(),
                explicit.value
            );
            self.error(Code::BadConstant, what, explicit.span);
            return 0;
        };
        if let Some(other) = is_taken(number) {
            let what = format!("the ioctls `{}` and `{}` have the number {number}", other.name, name.value);
            self.error(Code::Twice, what, explicit.span);
            return 0;
        }
        number
    }

    fn declare_mount(&mut self, mount: &mut Structure, fields: &[tree::Field], is_flag: bool) {
        for field in fields {
            let count = mount.fields.len() + 1;
            if self.check_count(count, MAX_FIELDS, "fields that are given at mount", field.name.span).is_err() {
                break;
            }
            let Ok(r#type) = self.field_type(field) else { continue };
            let name = &field.name;
            if mount.fields.iter().any(|other| other.name == name.value) {
                self.error(Code::Twice, format!("there are two mount data `{}`", name.value), name.span);
                continue;
            }
            if is_flag && !matches!(r#type, Type::Integer(_)) {
                self.error(Code::BadType, "a mount flag is an integer", name.span);
                continue;
            }
            let field = mount.fields.len();
            mount.fields.push(Field { name: name.value.clone(), r#type });
            self.level.mount_fields.push(MountField { name: name.value.clone(), field, is_flag });
        }
    }

    fn declare_per_vnode(&mut self, fields: &[tree::Field]) {
        for field in fields {
            let name = &field.name.value;
            if crate::builtins::find(crate::builtins::ATTRIBUTES, name).is_some() {
                let what = format!("every object has an attribute `{name}`");
                self.error(Code::Twice, what, field.name.span).remedy = Some("give the field another name".into());
            }
        }
        let index = self.structure_of("per_vnode", fields);
        if let Some(last) = fields.last() {
            let size = self.size(&Type::Structure(index)).unwrap_or(0);
            self.check_size(size, MAX_VNODE_DATA_BYTES, "per_vnode", last.name.span);
        }
        self.level.vnode = Some(index);
    }

    /// Declares the items of a section, so that others can use them wherever they are.
    pub(crate) fn declare_items(&mut self, items: &[Item]) {
        for item in items {
            // The error has been reported; the other items are still useful.
            let _ = self.declare_item(item);
        }
    }

    fn declare_item(&mut self, item: &Item) -> CheckResult<()> {
        match &item.kind {
            ItemKind::Include(_) => Ok(()),
            ItemKind::Constant(name, value) => self.declare_constant(name, value),
            ItemKind::TypeAlias(variable) => {
                let r#type = self.variable_type(variable)?;
                let Some(name) = &variable.name else { return Ok(()) };
                match self.aliases.insert(name.value.clone(), r#type.clone()) {
                    Some(before) if before != r#type => {
                        self.error(Code::Twice, format!("`{}` is two types", name.value), name.span);
                    }
                    _ => {}
                }
                Ok(())
            }
            ItemKind::Structure(name, fields) => {
                if self.structures.contains_key(&name.value) {
                    self.error(Code::Twice, format!("there are two `struct {}`", name.value), name.span);
                }
                let index = self.structure_of(&name.value, fields);
                self.structures.insert(name.value.clone(), index);
                Ok(())
            }
            ItemKind::Enumeration(names) => self.declare_enumeration(names),
            ItemKind::Data(variables) => {
                for variable in variables {
                    let _ = self.declare_data(variable);
                }
                Ok(())
            }
            ItemKind::Function(function) => self.declare_function(function),
        }
    }

    fn declare_constant(&mut self, name: &Name, value: &Expression) -> CheckResult<()> {
        let (value, r#type) = self.constant(value)?;
        let constant = self.constant_of(&name.value, value);
        self.define_name(&name.value, Symbol::Constant(constant, r#type), name.span);
        Ok(())
    }

    fn declare_enumeration(&mut self, names: &[(Name, Option<Expression>)]) -> CheckResult<()> {
        let mut next = (IrExpression::integer(0), Integer::INT);
        for (name, value) in names {
            if let Some(value) = value {
                next = self.constant(value)?;
            }
            let constant = self.constant_of(&name.value, convert_integer(next.0, next.1, Integer::INT));
            self.define_name(&name.value, Symbol::Constant(constant, Integer::INT), name.span);
            let value = (IrExpression::Constant(constant), Integer::INT);
            let after = self.compute(Operator::Add, value, (IrExpression::integer(1), Integer::INT), name.span);
            next = (after.lowered, Integer::INT);
        }
        Ok(())
    }

    fn declare_data(&mut self, variable: &Variable) -> CheckResult<()> {
        let Some(name) = &variable.name else { return Ok(()) };
        let r#type = self.type_with_value(variable)?;
        if matches!(r#type, Type::Pointer { .. } | Type::Vnode) && variable.value.is_none() {
            let what = "data that operations share hold no pointers and no objects";
            self.error(Code::BadType, what, name.span);
        }
        let size = self.size(&r#type).unwrap_or(0);
        self.reserve_data(size, name.span)?;
        let begin = match &variable.value {
            Some(value) => self.initial(&r#type, value)?,
            None => Initial::Zero,
        };
        let is_written = self.written.contains(&name.value) && !variable.r#type.is_const;
        self.program.data.push(Data { name: name.value.clone(), r#type, value: begin, is_written });
        self.define_name(&name.value, Symbol::Data(self.program.data.len() - 1), name.span);
        Ok(())
    }

    /// The type of a variable, whose outermost length may be omitted if its initializer determines it.
    pub(crate) fn type_with_value(&mut self, variable: &Variable) -> CheckResult<Type> {
        let Some((None, rest)) = variable.lengths.split_first() else { return self.variable_type(variable) };
        let count = match &variable.value {
            Some(Initializer::List(values, _)) => values.len() as i64,
            Some(Initializer::Value(Expression { kind: tree::ExpressionKind::Text(text), .. })) => {
                text.len() as i64 + 1
            }
            _ => 0,
        };
        if count == 0 {
            self.error(Code::BadType, "the length of this array is not known", variable.span).remedy =
                Some("write it between the brackets".into());
            return Err(super::checker::ErrorReported);
        }
        let rest = Variable { lengths: rest.to_vec(), value: None, ..variable.clone() };
        let of = self.variable_type(&rest)?;
        self.array(of, &[Constant::Integer(count)], variable.span)
    }
}
