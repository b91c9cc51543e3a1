//! Printing of expressions, and of intrinsic and host calls.

use super::names::Names;
use super::{Printer, literal};
use crate::builtins::{ATTRIBUTES, GLOBALS, OPERATION_VALUES, SIGNATURES};
use crate::check::operands::OBJECT_ROLES;
use crate::ir::{
    Area, Argument, Comparison, Expression as E, FieldReference, Integer, Operand, Operator, Role, Shared, Site, Step,
    Type,
};

impl Printer<'_> {
    /// Prints an expression.
    pub(crate) fn expression(&self, one: &E, names: &Names<'_>) -> String {
        match one {
            E::Constant(constant) => self.constant(*constant),
            E::Size(r#type) => format!("sizeof({})", self.r#type(r#type)),
            E::Register(register) => names.register(*register).to_owned(),
            E::Object(_) | E::Field(..) => format!("&{}", self.lvalue(one, names)),
            E::Element { length: Some(_), .. } => format!("&{}", self.lvalue(one, names)),
            E::Data(index) => self.data(*index),
            E::Load(pointer, r#type, _) => self.typed_lvalue(pointer, r#type, names),
            E::Element { pointer, index, .. } => {
                format!("{} + {}", self.part(pointer, names), self.part(index, names))
            }
            E::Distance(one, other, ..) => format!("{} - {}", self.part(one, names), self.part(other, names)),
            E::Convert(value, integer) => format!("({}){}", integer.name(), self.part(value, names)),
            E::Not(value) => format!("!{}", self.part(value, names)),
            E::Binary(operator, integer, one, other, _) => {
                let operator = typed(symbol(*operator), *integer);
                format!("{} {operator} {}", self.part(one, names), self.part(other, names))
            }
            E::Compare(how, integer, one, other) => {
                let operator = match how {
                    Comparison::Equal => "==".to_owned(),
                    Comparison::NotEqual => "!=".to_owned(),
                    Comparison::Less => typed("<", *integer),
                    Comparison::LessOrEqual => typed("<=", *integer),
                    Comparison::Greater => typed(">", *integer),
                    Comparison::GreaterOrEqual => typed(">=", *integer),
                };
                format!("{} {operator} {}", self.part(one, names), self.part(other, names))
            }
            E::And(one, other) => format!("{} && {}", self.part(one, names), self.part(other, names)),
            E::Or(one, other) => format!("{} || {}", self.part(one, names), self.part(other, names)),
            E::Conditional(condition, then, otherwise) => {
                let parts = [condition, then, otherwise].map(|part| self.part(part, names));
                format!("{} ? {} : {}", parts[0], parts[1], parts[2])
            }
            E::Sequence(one, other) => format!("{}, {}", self.part(one, names), self.part(other, names)),
            E::Set(register, value) => format!("{} = {}", names.register(*register), self.argument(value, names)),
            E::Store(pointer, r#type, value, _) => {
                format!("{} = {}", self.typed_lvalue(pointer, r#type, names), self.argument(value, names))
            }
            E::Copy(to, from, r#type, _) => {
                let (to, from) = (self.argument(to, names), self.argument(from, names));
                format!("copy({to}, {from}, {})", self.r#type(r#type))
            }
            E::Call(function, values, _) => {
                let values: Vec<_> = values.iter().map(|value| self.argument(value, names)).collect();
                format!("{}({})", self.program.functions[*function].name, values.join(", "))
            }
            E::Site(site, values, _) => {
                let values: Vec<_> = values.iter().map(|value| self.argument(value, names)).collect();
                self.site(&self.program.sites[*site], &values)
            }
        }
    }

    /// Prints an expression as an argument: parenthesized if it contains a comma.
    fn argument(&self, one: &E, names: &Names<'_>) -> String {
        match one {
            E::Sequence(..) => self.part(one, names),
            _ => self.expression(one, names),
        }
    }

    /// Prints an expression as an operand: parenthesized if it has several parts.
    fn part(&self, one: &E, names: &Names<'_>) -> String {
        let text = self.expression(one, names);
        let is_whole = match one {
            E::Site(site, ..) => {
                !matches!(self.program.sites[*site], Site::Assign(..) | Site::Store(_) | Site::Update { .. })
            }
            E::Element { length, .. } => length.is_some(),
            E::Binary(..)
            | E::Compare(..)
            | E::And(..)
            | E::Or(..)
            | E::Conditional(..)
            | E::Sequence(..)
            | E::Set(..)
            | E::Store(..)
            | E::Distance(..) => false,
            _ => true,
        };
        if is_whole { text } else { format!("({text})") }
    }

    /// Prints the lvalue that a pointer points to.
    fn lvalue(&self, pointer: &E, names: &Names<'_>) -> String {
        match pointer {
            E::Object(object) => names.object(*object).to_owned(),
            E::Data(index) => self.data(*index),
            E::Field(of, field) if is_lvalue(of) => format!("{}.{}", self.lvalue(of, names), self.field(*field)),
            E::Field(of, field) => format!("{}->{}", self.part(of, names), self.field(*field)),
            E::Element { pointer, index, length: Some(_), .. } => {
                format!("{}[{}]", self.lvalue(pointer, names), self.expression(index, names))
            }
            E::Element { pointer, index, length: None, .. } => {
                format!("{}[{}]", self.part(pointer, names), self.expression(index, names))
            }
            other => format!("*{}", self.part(other, names)),
        }
    }

    /// Prints the lvalue of a type that a pointer points to, with the type if the pointer has another.
    fn typed_lvalue(&self, pointer: &E, r#type: &Type, names: &Names<'_>) -> String {
        let is_told = match pointer {
            E::Object(object) => names.object_type(*object) == r#type,
            E::Data(index) => self.program.data[*index].r#type == *r#type,
            E::Element { of, .. } => of == r#type,
            E::Field(_, FieldReference { structure, field }) => {
                self.program.structures[*structure].fields[*field].r#type == *r#type
            }
            E::Register(register) => {
                matches!(names.register_type(*register), Type::Pointer { to, .. } if **to == *r#type)
            }
            _ => false,
        };
        match is_told {
            true => self.lvalue(pointer, names),
            false => format!("*({}){}", self.declared(r#type, "*"), self.part(pointer, names)),
        }
    }

    fn field(&self, FieldReference { structure, field }: FieldReference) -> &str {
        &self.program.structures[structure].fields[field].name
    }

    fn site(&self, site: &Site, values: &[String]) -> String {
        let mut rest = values.iter();
        match site {
            Site::BuiltIn(function, operands) => {
                let signature = SIGNATURES.iter().find(|signature| signature.function == *function);
                let name = signature.map_or("", |signature| signature.names[0]);
                let mut values: Vec<_> = operands.iter().map(|operand| self.operand(operand, &mut rest)).collect();
                while values.last().is_some_and(|last| last == "_") {
                    values.pop();
                }
                format!("{name}({})", values.join(", "))
            }
            Site::Global(global) => format!("%{}", named(GLOBALS, global)),
            Site::OperationValue(value) => format!("${}", named(OPERATION_VALUES, value)),
            Site::Assign(value, operand) => {
                format!("${} = {}", named(OPERATION_VALUES, value), self.operand(operand, &mut rest))
            }
            Site::Attribute(attribute, operand) => {
                format!("{}.{}", whole(&self.operand(operand, &mut rest)), named(ATTRIBUTES, attribute))
            }
            Site::Object(argument) => object(*argument),
            Site::Load(shared) => self.shared(shared, &mut rest),
            Site::Store(shared) => format!("{} = {}", self.shared(shared, &mut rest), value(rest.next())),
            Site::Update { shared, operator, computed, is_postfix } => {
                let before = if *is_postfix { "before " } else { "" };
                let operator = typed(symbol(*operator), *computed);
                let lvalue = self.shared(shared, &mut rest);
                format!("{before}{lvalue} {operator}= {}", value(rest.next()))
            }
        }
    }

    fn operand<'v>(&self, operand: &Operand, values: &mut impl Iterator<Item = &'v String>) -> String {
        match operand {
            Operand::Missing => "_".to_owned(),
            Operand::Integer(_) | Operand::Pointer(_) | Operand::Object => value(values.next()),
            Operand::OutInteger(_) => format!("answer {}", value(values.next())),
            Operand::Argument(argument) => object(*argument),
            Operand::Named => format!("named {}", value(values.next())),
            Operand::Shared(shared) => format!("&{}", self.shared(shared, values)),
            Operand::SharedOutInteger(shared) => format!("answer &{}", self.shared(shared, values)),
            Operand::Field(field) => {
                let structure = &self.program.structures[field.structure];
                format!("{}.{}", structure.name, structure.fields[field.field].name)
            }
            Operand::Text(text) => literal(text),
        }
    }

    fn shared<'v>(&self, shared: &Shared, values: &mut impl Iterator<Item = &'v String>) -> String {
        let mut text = match &shared.area {
            Area::Vfs => "$vfs".to_owned(),
            Area::Mount => "$mnt".to_owned(),
            Area::Argument(argument) => object(*argument),
            Area::Object => whole(&value(values.next())),
            Area::Data(index) => self.data(*index),
        };
        for step in &shared.path {
            match step {
                Step::Field(field) => text = format!("{text}.{}", self.field(*field)),
                Step::Element { .. } => text = format!("{text}[{}]", value(values.next())),
            }
        }
        text
    }
}

fn is_lvalue(pointer: &E) -> bool {
    matches!(pointer, E::Object(_) | E::Data(_) | E::Field(..) | E::Element { .. })
}

fn value(value: Option<&String>) -> String {
    value.cloned().unwrap_or_default()
}

/// Parenthesizes a text of several words.
fn whole(text: &str) -> String {
    if text.contains(' ') { format!("({text})") } else { text.to_owned() }
}

/// Prints an object of the operation: `$dir:1`.
fn object(Argument { role, branch }: Argument) -> String {
    match role {
        Role::This => format!("${branch}"),
        other => {
            let name = OBJECT_ROLES.iter().find(|(_, role, _)| *role == other).map_or("", |(name, ..)| *name);
            if branch == 0 { format!("${name}") } else { format!("${name}:{branch}") }
        }
    }
}

fn named<T: PartialEq>(table: &[(T, &'static str, &'static str)], one: &T) -> &'static str {
    table.iter().find(|(other, ..)| other == one).map_or("", |(_, name, _)| *name)
}

/// Prints an operator, with its integer type unless that is `int`.
fn typed(operator: &str, integer: Integer) -> String {
    match integer {
        Integer::INT => operator.to_owned(),
        other => format!("{operator}:{}", other.name().replace(' ', "-")),
    }
}

fn symbol(operator: Operator) -> &'static str {
    match operator {
        Operator::Add => "+",
        Operator::Subtract => "-",
        Operator::Multiply => "*",
        Operator::Divide => "/",
        Operator::Remainder => "%",
        Operator::ShiftLeft => "<<",
        Operator::ShiftRight => ">>",
        Operator::And => "&",
        Operator::Or => "|",
        Operator::Xor => "^",
    }
}
