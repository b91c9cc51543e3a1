//! The intermediate form as text, for people and tests: every program has one stable text.
//!
//! It reads like C with the additions of FiST, and makes more explicit: an operator on integers other than `int` names
//! their type (`a +:long b`), conversions are written out, and target-dependent values appear by name.

mod names;
mod statements;
mod values;

use std::fmt::Write;

use super::{Constant, Function, Initial, Level, Program, Type, Variable};
use crate::bounds::Bounds;
use crate::operations::Part;
use crate::target::Target;
use crate::tree::{Access, Direction};
use names::Names;

/// Returns the text of a program. Merged FiST programs are printed separately, topmost first: none refers to another.
///
/// Each function is annotated with the maximum call depth from it, counting itself, and the stack that those frames
/// take on the target, if the program fits it; and with its effects outside the program.
pub fn print(program: &Program, target: &Target) -> String {
    let bounds = program.bounds(target).unwrap_or_default();
    let mut text = String::new();
    for (place, level) in program.levels.iter().enumerate() {
        let mut printer = Printer { program, level, bounds: &bounds, text: std::mem::take(&mut text), indent: 0 };
        if place > 0 {
            printer.line("");
        }
        printer.declarations();
        level.own.functions.clone().for_each(|index| printer.function(index));
        text = printer.text;
    }
    text
}

struct Printer<'a> {
    program: &'a Program,
    level: &'a Level,
    bounds: &'a [Bounds],
    text: String,
    indent: usize,
}

impl Printer<'_> {
    fn line(&mut self, line: impl AsRef<str>) {
        for part in line.as_ref().split('\n') {
            let indent = if part.is_empty() { 0 } else { self.indent * 2 };
            let _ = writeln!(self.text, "{:indent$}{part}", "");
        }
    }

    fn declarations(&mut self) {
        let (program, level) = (self.program, self.level);
        self.line(format!("program {}", level.name));
        level.comments.iter().for_each(|comment| self.line(comment));
        self.properties();
        for error in &program.errors[level.own.errors.clone()] {
            let number = error.number.map_or_else(|| "free".to_owned(), |number| number.to_string());
            self.line(format!("error {} = {number}", error.name));
        }
        for index in level.own.constants.clone() {
            let none = Function::default();
            let value = self.expression(&program.constants[index].value, &Names::of(&none));
            self.line(format!("constant {} = {value}", self.constant(Constant::Defined(index))));
        }
        for structure in &program.structures[level.own.structures.clone()] {
            let fields =
                structure.fields.iter().map(|field| format!(" {};", self.declared(&field.r#type, &field.name)));
            self.line(format!("struct {} {{{} }}", structure.name, fields.collect::<String>()));
        }
        for ioctl in &level.ioctls {
            let way = match ioctl.direction {
                Direction::FromUser => "fromuser",
                Direction::ToUser => "touser",
                Direction::Both => "both",
            };
            self.line(format!("ioctl {} {}: {way} struct {}", ioctl.number, ioctl.name, self.name_of(ioctl.structure)));
        }
        for format in &level.formats {
            self.line(format!("fileformat struct {}", self.name_of(*format)));
        }
        for (what, structure) in [("$mnt", level.mount), ("$vfs", level.vfs), ("$vnode", level.vnode)] {
            if let Some(structure) = structure {
                self.line(format!("{what}: struct {}", self.name_of(structure)));
            }
        }
        for field in level.mount_fields.iter().filter(|field| field.is_flag) {
            self.line(format!("mount flag {}", field.name));
        }
        for data in program.data[level.own.data.clone()].iter().filter(|data| !data.name.is_empty()) {
            let kind = if data.is_written { "shared" } else { "const" };
            let value = self.initial(&data.value);
            self.line(format!("{kind} {} = {value}", self.declared(&data.r#type, &data.name)));
        }
    }

    fn properties(&mut self) {
        let level = self.level;
        match level.access {
            Some(Access::ReadOnly) => self.line("accessmode readonly"),
            Some(Access::WriteOnly) => self.line("accessmode writeonly"),
            _ => {}
        }
        let is_there = [
            (level.fan_out != 1, format!("fanout {}", level.fan_out)),
            (level.traces, "debug on".to_owned()),
            (level.is_serial, "operations serial".to_owned()),
            (level.is_overlay, "mntstyle overlay".to_owned()),
            (level.filters.changes_size, "filter size".to_owned()),
        ];
        for (_, line) in is_there.into_iter().filter(|(is_there, _)| *is_there) {
            self.line(line);
        }
        for (what, functions) in [("data", level.filters.data), ("name", level.filters.name)] {
            if let Some((encode, decode)) = functions {
                let name = |index: usize| &self.program.functions[index].name;
                self.line(format!("filter {what}: {}, {}", name(encode), name(decode)));
            }
        }
    }

    /// Prints a function, or a rule with its body.
    fn function(&mut self, index: usize) {
        let function = &self.program.functions[index];
        let names = Names::of(function);
        self.line("");
        function.comments.iter().for_each(|comment| self.line(comment));
        let rules: Vec<_> = self.level.rules.iter().filter(|rule| rule.function == index).collect();
        for rule in &rules {
            let operations =
                rule.operations.iter().filter(|one| usize::from(one.0) < crate::operations::OPERATIONS.len());
            let operations: Vec<_> = operations.map(|operation| operation.kind().name).collect();
            let when = match rule.part {
                Part::PreCall => "before",
                Part::Call => "in place of",
                Part::PostCall => "behind",
            };
            let what = match rule.ioctl {
                Some(ioctl) => format!("ioctl {}", self.level.ioctls[ioctl].name),
                None => operations.join(", "),
            };
            self.line(format!("rule {} {when} {what}", rule.title));
        }
        if rules.is_empty() {
            let parameters: Vec<_> = (0..function.parameters)
                .map(|register| self.declared(&function.registers[register].r#type, names.register(register)))
                .collect();
            let declared = self.declared(&function.result, &format!("{}({})", function.name, parameters.join(", ")));
            self.line(format!("function {declared}"));
        }
        if let Some(bounds) = self.bounds.get(index) {
            self.line(format!("// {bounds}"));
        }
        self.line("{");
        self.indent += 1;
        let variables = function.registers.iter().enumerate().skip(function.parameters);
        let variables: Vec<_> =
            variables.map(|(index, variable)| ("register", variable, names.register(index).to_owned())).collect();
        let objects = function.objects.iter().enumerate();
        let objects = objects.map(|(index, variable)| ("object", variable, names.object(index).to_owned()));
        for (kind, Variable { r#type, .. }, name) in variables.into_iter().chain(objects) {
            self.line(format!("{kind} {}", self.declared(r#type, &name)));
        }
        self.statements(&function.body, &names);
        self.indent -= 1;
        self.line("}");
    }

    fn name_of(&self, structure: usize) -> &str {
        &self.program.structures[structure].name
    }

    fn constant(&self, constant: Constant) -> String {
        match (constant, self.program.constant_name(constant)) {
            (_, Some(name)) => name.to_owned(),
            (Constant::Integer(value), None) => value.to_string(),
            (Constant::Defined(index), None) => format!("constant.{}", index - self.level.own.constants.start),
            _ => String::new(),
        }
    }

    /// The text of a type alone.
    fn r#type(&self, r#type: &Type) -> String {
        self.declared(r#type, "")
    }

    /// A declaration of a name with a type, in C syntax.
    fn declared(&self, r#type: &Type, name: &str) -> String {
        let spaced = |base: &str| if name.is_empty() { base.to_owned() } else { format!("{base} {name}") };
        match r#type {
            Type::Void => spaced("void"),
            Type::Vnode => spaced("vnode"),
            Type::Integer(integer) => spaced(integer.name()),
            Type::Structure(index) => spaced(&format!("struct {}", self.name_of(*index))),
            Type::Array(of, length) => self.declared(of, &format!("{name}[{}]", self.constant(*length))),
            Type::Pointer { to, is_const } => {
                let name = if matches!(**to, Type::Array(..)) { format!("(*{name})") } else { format!("*{name}") };
                format!("{}{}", if *is_const { "const " } else { "" }, self.declared(to, &name))
            }
        }
    }

    fn initial(&self, value: &Initial) -> String {
        let none = Function::default();
        match value {
            Initial::Zero => "0".to_owned(),
            Initial::Bytes(bytes) => literal(bytes),
            Initial::Integer(value) => self.expression(value, &Names::of(&none)),
            Initial::Pointer(index) => self.data(*index),
            Initial::List(values) => {
                let values: Vec<_> = values.iter().map(|value| self.initial(value)).collect();
                format!("{{ {} }}", values.join(", "))
            }
        }
    }

    /// The name of a data object, or its contents if it has none.
    fn data(&self, index: usize) -> String {
        let data = &self.program.data[index];
        match &data.value {
            Initial::Bytes(bytes) if data.name.is_empty() => literal(bytes),
            _ => data.name.clone(),
        }
    }
}

/// Bytes as a C string literal, without the terminating zero byte.
fn literal(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.strip_suffix(b"\0").unwrap_or(bytes).escape_ascii())
}
