//! Unique names for the variables of a function.

use std::collections::HashMap;

use crate::ir::{Function, Register, Type, Variable};

/// The names of a function's variables.
pub(crate) struct Names<'a> {
    pub(crate) function: &'a Function,
    registers: Vec<String>,
    objects: Vec<String>,
}

impl<'a> Names<'a> {
    pub(crate) fn of(function: &'a Function) -> Names<'a> {
        let mut used = HashMap::new();
        let mut all = function.registers.iter().chain(&function.objects).map(|variable| unique(variable, &mut used));
        let registers = all.by_ref().take(function.registers.len()).collect();
        let objects = all.collect();
        Names { function, registers, objects }
    }

    pub(crate) fn register(&self, register: Register) -> &str {
        &self.registers[register]
    }

    pub(crate) fn object(&self, object: usize) -> &str {
        &self.objects[object]
    }

    pub(crate) fn register_type(&self, register: Register) -> &Type {
        &self.function.registers[register].r#type
    }

    pub(crate) fn object_type(&self, object: usize) -> &Type {
        &self.function.objects[object].r#type
    }
}

/// Returns a unique name for a variable; of several with one name the first keeps it, and the others get a number.
fn unique<'a>(variable: &'a Variable, used: &mut HashMap<&'a str, u32>) -> String {
    let count = used.entry(&variable.name).or_default();
    *count += 1;
    match (variable.name.as_str(), *count) {
        ("", count) => format!(".{count}"),
        (name, 1) => name.to_owned(),
        (name, count) => format!("{name}.{count}"),
    }
}
