//! The function that is being checked: its variables, and the blocks that they are known in.

use std::collections::{HashMap, HashSet};

use crate::ir::{self, Register, Type};
use crate::operations::{Operations, Part};
use crate::text::Span;

/// What a function is given and answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) parameters: Vec<Type>,
    pub(super) result: Type,
    pub(super) span: Span,
}

/// A variable of a function.
#[derive(Clone, Debug)]
pub(super) enum Local {
    /// It is never pointed to.
    Register(Register, Type),
    /// It is an object of memory.
    Object(usize, Type),
}

/// The function that is being checked.
#[derive(Default)]
pub(super) struct Scope {
    /// Variables by their names: of several of one name that of the innermost block last, each with the number of its block.
    pub(super) names: HashMap<String, Vec<(usize, Local, Span)>>,
    /// The names that the blocks around declare, those of the innermost last.
    pub(super) blocks: Vec<Vec<String>>,
    /// What has been made of it.
    pub(super) function: ir::Function,
    /// What it answers; nothing for a rule.
    pub(super) result: Option<Type>,
    /// The operations of a rule; nothing for a function.
    pub(super) operations: Option<Operations>,
    /// The part of them that a rule is for.
    pub(super) part: Option<Part>,
    /// Names of variables that are pointed to.
    pub(super) pointed: HashSet<String>,
    /// How many loops are around.
    pub(super) loops: u32,
    /// How many loops and switches are around.
    pub(super) breakable: u32,
}

impl Scope {
    /// One more register, for what is called so.
    pub(super) fn register(&mut self, name: &str, r#type: Type) -> Register {
        self.function.registers.push(ir::Variable { name: name.to_owned(), r#type });
        self.function.registers.len() - 1
    }

    /// One more object of memory.
    pub(super) fn object(&mut self, name: &str, r#type: Type) -> usize {
        self.function.objects.push(ir::Variable { name: name.to_owned(), r#type });
        self.function.objects.len() - 1
    }

    pub(super) fn local(&self, name: &str) -> Option<&Local> {
        self.names.get(name)?.last().map(|(_, local, _)| local)
    }

    pub(super) fn begin_block(&mut self) {
        self.blocks.push(Vec::new());
    }

    /// Forgets the variables of the innermost block.
    pub(super) fn end_block(&mut self) {
        for name in self.blocks.pop().unwrap_or_default() {
            if let Some(named) = self.names.get_mut(&name) {
                named.pop();
            }
        }
    }

    /// Makes a variable known in the innermost block: where that has another of its name.
    pub(super) fn declare(&mut self, name: &str, local: Local, span: Span) -> Option<Span> {
        let number = self.blocks.len();
        let named = self.names.entry(name.to_owned()).or_default();
        if let Some(last) = named.last_mut().filter(|last| last.0 == number) {
            return Some(std::mem::replace(last, (number, local, span)).2);
        }
        named.push((number, local, span));
        self.blocks.last_mut()?.push(name.to_owned());
        None
    }

    /// The names of variables that are known here.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().flatten().map(String::as_str)
    }
}
