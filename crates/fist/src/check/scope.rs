//! The function being checked: its variables and scopes.

use std::collections::{HashMap, HashSet};

use crate::ir::{self, Register, Type};
use crate::operations::{Operations, Part};
use crate::text::Span;

/// The parameter and result types of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) parameters: Vec<Type>,
    pub(crate) result: Type,
    pub(crate) span: Span,
}

/// A local variable.
#[derive(Clone, Debug)]
pub(crate) enum Local {
    /// A variable in a register: its address is never taken.
    Register(Register, Type),
    /// An object in memory.
    Object(usize, Type),
}

/// The function being checked.
#[derive(Default)]
pub(crate) struct Scope {
    /// Variables by name: of several with one name the innermost is last, each with the number of its scope.
    pub(crate) names: HashMap<String, Vec<(usize, Local, Span)>>,
    /// The names that the enclosing scopes declare, innermost last.
    pub(crate) blocks: Vec<Vec<String>>,
    /// The function as lowered so far.
    pub(crate) function: ir::Function,
    /// The result type; `None` in a rule.
    pub(crate) result: Option<Type>,
    /// The operations of a rule; `None` in a function.
    pub(crate) operations: Option<Operations>,
    /// The part of the operations that a rule is for.
    pub(crate) part: Option<Part>,
    /// Names of variables whose address is taken.
    pub(crate) address_taken: HashSet<String>,
    /// Number of enclosing loops.
    pub(crate) loops: u32,
    /// Number of enclosing loops and switches.
    pub(crate) breakable: u32,
}

impl Scope {
    /// Allocates a register for a variable.
    pub(crate) fn register(&mut self, name: &str, r#type: Type) -> Register {
        self.function.registers.push(ir::Variable { name: name.to_owned(), r#type });
        self.function.registers.len() - 1
    }

    /// Allocates an object in memory.
    pub(crate) fn object(&mut self, name: &str, r#type: Type) -> usize {
        self.function.objects.push(ir::Variable { name: name.to_owned(), r#type });
        self.function.objects.len() - 1
    }

    pub(crate) fn local(&self, name: &str) -> Option<&Local> {
        self.names.get(name)?.last().map(|(_, local, _)| local)
    }

    pub(crate) fn begin_block(&mut self) {
        self.blocks.push(Vec::new());
    }

    /// Closes the innermost scope.
    pub(crate) fn end_block(&mut self) {
        for name in self.blocks.pop().unwrap_or_default() {
            if let Some(named) = self.names.get_mut(&name) {
                named.pop();
            }
        }
    }

    /// Declares a variable in the innermost scope; returns the location of a duplicate there.
    pub(crate) fn declare(&mut self, name: &str, local: Local, span: Span) -> Option<Span> {
        let number = self.blocks.len();
        let named = self.names.entry(name.to_owned()).or_default();
        if let Some(last) = named.last_mut().filter(|last| last.0 == number) {
            return Some(std::mem::replace(last, (number, local, span)).2);
        }
        named.push((number, local, span));
        self.blocks.last_mut()?.push(name.to_owned());
        None
    }

    /// The names of the visible variables.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().flatten().map(String::as_str)
    }
}
