//! Merging: one program out of stacked FiST programs (FiST, section 2.5: code that a file system does not need is not
//! generated, here not even between its levels).
//!
//! The elements of each kind go into one list, with every index relocated; nothing else of a program changes. An
//! operation passes through the levels from the topmost: first the level's pre rules, then its replace rule, which
//! continues with the next level where it performs the operation, or the next level directly if there is none, then its
//! post rules.

use super::{
    Area, Constant, Definition, Expression as E, FieldReference, Function, Initial, Level, Operand, Own, Program,
};
use super::{Shared, Site, Statement as S, Step, Structure, Type, Variable};
use crate::program::Filters;

impl Program {
    /// Merges several programs into one, topmost first. The caller that stacks them decides which can be merged without
    /// a visible difference.
    pub fn merge(programs: impl IntoIterator<Item = Program>) -> Program {
        let mut programs = programs.into_iter();
        let mut merged = programs.next().unwrap_or_default();
        programs.for_each(|program| merged.add(program));
        merged
    }

    fn add(&mut self, mut other: Program) {
        let relocation = Relocation {
            errors: self.errors.len(),
            constants: self.constants.len(),
            structures: self.structures.len(),
            data: self.data.len(),
            functions: self.functions.len(),
            sites: self.sites.len(),
        };
        other.levels.iter_mut().for_each(|level| relocation.level(level));
        other.constants.iter_mut().for_each(|Definition { value, .. }| relocation.expression(value));
        other.structures.iter_mut().for_each(|structure| relocation.structure_definition(structure));
        for data in &mut other.data {
            relocation.r#type(&mut data.r#type);
            relocation.initial(&mut data.value);
        }
        other.functions.iter_mut().for_each(|function| relocation.function_definition(function));
        other.sites.iter_mut().for_each(|site| relocation.site(site));
        self.levels.append(&mut other.levels);
        self.errors.append(&mut other.errors);
        self.constants.append(&mut other.constants);
        self.structures.append(&mut other.structures);
        self.data.append(&mut other.data);
        self.functions.append(&mut other.functions);
        self.sites.append(&mut other.sites);
    }
}

/// Offsets by which the indexes of an appended program move.
struct Relocation {
    errors: usize,
    constants: usize,
    structures: usize,
    data: usize,
    functions: usize,
    sites: usize,
}

impl Relocation {
    fn level(&self, level: &mut Level) {
        let Filters { data, name, changes_size: _ } = &mut level.filters;
        for (encode, decode) in [data, name].into_iter().flatten() {
            *encode += self.functions;
            *decode += self.functions;
        }
        let structures = level.formats.iter_mut().chain(level.ioctls.iter_mut().map(|ioctl| &mut ioctl.structure));
        let state_structures = [&mut level.mount, &mut level.vfs, &mut level.vnode].into_iter().flatten();
        structures.chain(state_structures).for_each(|structure| *structure += self.structures);
        level.rules.iter_mut().for_each(|rule| rule.function += self.functions);
        let Own { errors, constants, structures, data, functions } = &mut level.own;
        for (range, by) in [
            (errors, self.errors),
            (constants, self.constants),
            (structures, self.structures),
            (data, self.data),
            (functions, self.functions),
        ] {
            *range = range.start + by..range.end + by;
        }
    }

    fn structure_definition(&self, structure: &mut Structure) {
        structure.fields.iter_mut().for_each(|field| self.r#type(&mut field.r#type));
    }

    fn function_definition(&self, function: &mut Function) {
        self.r#type(&mut function.result);
        for Variable { r#type, .. } in function.registers.iter_mut().chain(&mut function.objects) {
            self.r#type(r#type);
        }
        self.statements(&mut function.body);
    }

    fn r#type(&self, r#type: &mut Type) {
        match r#type {
            Type::Void | Type::Integer(_) | Type::Vnode => {}
            Type::Pointer { to, .. } => self.r#type(to),
            Type::Array(of, length) => {
                self.r#type(of);
                self.constant(length);
            }
            Type::Structure(index) => *index += self.structures,
        }
    }

    fn constant(&self, constant: &mut Constant) {
        match constant {
            Constant::DeclaredError(index) => *index += self.errors,
            Constant::Defined(index) => *index += self.constants,
            Constant::Integer(_) | Constant::Error(_) | Constant::Flag(_) | Constant::PageSize => {}
        }
    }

    fn field(&self, field: &mut FieldReference) {
        field.structure += self.structures;
    }

    fn initial(&self, value: &mut Initial) {
        match value {
            Initial::Zero | Initial::Bytes(_) => {}
            Initial::Integer(number) => self.expression(number),
            Initial::Pointer(data) => *data += self.data,
            Initial::List(values) => values.iter_mut().for_each(|value| self.initial(value)),
        }
    }

    fn statements(&self, all: &mut [S]) {
        all.iter_mut().for_each(|one| self.statement(one));
    }

    fn statement(&self, one: &mut S) {
        match one {
            S::Comment(_) | S::Clear(_) | S::Break | S::Continue | S::Return(None) => {}
            S::Expression(value) | S::Return(Some(value)) => self.expression(value),
            S::Block(all) => self.statements(all),
            S::If(condition, then, otherwise) => {
                self.expression(condition);
                self.statement(then);
                self.statement(otherwise);
            }
            S::Loop { before, body, step, after, span: _ } => {
                [before, step, after].into_iter().flatten().for_each(|value| self.expression(value));
                self.statement(body);
            }
            S::Switch { value, integer: _, cases, otherwise: _, parts } => {
                self.expression(value);
                cases.iter_mut().for_each(|(case, _)| self.expression(case));
                parts.iter_mut().for_each(|part| self.statements(part));
            }
        }
    }

    fn expressions(&self, all: &mut [E]) {
        all.iter_mut().for_each(|one| self.expression(one));
    }

    fn expression(&self, one: &mut E) {
        match one {
            E::Register(_) | E::Object(_) => {}
            E::Constant(constant) => self.constant(constant),
            E::Size(r#type) => self.r#type(r#type),
            E::Data(index) => *index += self.data,
            E::Convert(value, _) | E::Not(value) | E::Set(_, value) => self.expression(value),
            E::Load(pointer, r#type, _) => {
                self.expression(pointer);
                self.r#type(r#type);
            }
            E::Field(pointer, field) => {
                self.expression(pointer);
                self.field(field);
            }
            E::Element { pointer, index, of, length, span: _ } => {
                self.expression(pointer);
                self.expression(index);
                self.r#type(of);
                length.iter_mut().for_each(|length| self.constant(length));
            }
            E::Distance(one, other, of, _) | E::Copy(one, other, of, _) | E::Store(one, of, other, _) => {
                self.expression(one);
                self.expression(other);
                self.r#type(of);
            }
            E::Binary(_, _, one, other, _)
            | E::Compare(_, _, one, other)
            | E::And(one, other)
            | E::Or(one, other)
            | E::Sequence(one, other) => {
                self.expression(one);
                self.expression(other);
            }
            E::Conditional(condition, then, otherwise) => {
                [condition, then, otherwise].into_iter().for_each(|part| self.expression(part));
            }
            E::Call(function, values, _) => {
                *function += self.functions;
                self.expressions(values);
            }
            E::Site(site, values, _) => {
                *site += self.sites;
                self.expressions(values);
            }
        }
    }

    fn site(&self, site: &mut Site) {
        match site {
            Site::Global(_) | Site::OperationValue(_) | Site::Object(_) => {}
            Site::BuiltIn(_, operands) => operands.iter_mut().for_each(|operand| self.operand(operand)),
            Site::Assign(_, operand) | Site::Attribute(_, operand) => self.operand(operand),
            Site::Load(shared) | Site::Store(shared) | Site::Update { shared, .. } => self.shared(shared),
        }
    }

    fn operand(&self, operand: &mut Operand) {
        match operand {
            Operand::Pointer(Some(to)) => self.r#type(to),
            Operand::Shared(shared) | Operand::SharedOutInteger(shared) => self.shared(shared),
            Operand::Field(field) => self.field(field),
            Operand::Missing
            | Operand::Integer(_)
            | Operand::Pointer(None)
            | Operand::OutInteger(_)
            | Operand::Object
            | Operand::Argument(_)
            | Operand::Named
            | Operand::Text(_) => {}
        }
    }

    fn shared(&self, shared: &mut Shared) {
        if let Area::Data(index) = &mut shared.area {
            *index += self.data;
        }
        for step in &mut shared.path {
            match step {
                Step::Field(field) => self.field(field),
                Step::Element { of, length } => {
                    self.r#type(of);
                    self.constant(length);
                }
            }
        }
        self.r#type(&mut shared.r#type);
    }
}
