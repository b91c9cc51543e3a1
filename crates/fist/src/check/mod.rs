//! The checker: from the tree to the intermediate form, with everything told that is wrong.

mod cautions;
mod checker;
mod comments;
mod constants;
mod declarations;
mod expressions;
mod functions;
mod initial;
pub(crate) mod operands;
mod operators;
mod places;
mod rules;
mod scope;
mod statements;
mod typed;
mod types;

use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::ir::{self};
use crate::numbers::ERRORS;
use crate::program::Program;
use crate::text::{Span, Spanned};
use crate::tree::{Description, ItemKind};
use checker::Checker;
use comments::Comments;

/// What became of a description.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What it says, if nothing is wrong.
    pub ir: Option<ir::Program>,
    /// The same, prepared for this machine: what can be run.
    pub program: Option<Program>,
    /// What is wrong, and what may be, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

/// Checks a description that is called `name`: its filter functions begin with that.
pub fn check(description: &Description, name: &str) -> Checked {
    check_commented(description, name, Vec::new())
}

/// The same, of a description with these comments, in the order of the text: they are kept.
pub fn check_commented(description: &Description, name: &str, comments: Vec<Spanned<String>>) -> Checked {
    let mut checker = Checker::new(name, constants::known(), types::known());
    checker.comments = Comments::new(comments, description);
    checker.level.comments = checker.comments.of_declarations(description);
    checker.declare(description);
    checker.define(description);
    let too_many = std::mem::take(&mut checker.too_many).into_iter().map(|(_, problem)| problem);
    checker.diagnostics.extend(too_many);
    let program = checker.prepare();
    if let Some(program) = &program {
        checker.find_costs(program);
    }
    let Checker { program: ir, mut diagnostics, .. } = checker;
    diagnostics.sort_by_key(|diagnostic| diagnostic.span);
    Checked { ir: program.is_some().then_some(ir), program, diagnostics }
}

/// The number of an error by its name on Linux: `EACCES`.
pub fn error_number(name: &str) -> Option<i32> {
    ERRORS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

impl Checker {
    /// What is declared in any section: rules and functions may use what stands behind them.
    fn declare(&mut self, description: &Description) {
        for rule in &description.rules {
            functions::written(&rule.body, &mut self.written);
        }
        for item in description.preamble.iter().chain(&description.code) {
            if let ItemKind::Function(tree) = &item.kind {
                tree.body.iter().for_each(|body| functions::written(body, &mut self.written));
            }
        }
        self.declare_items(&description.preamble);
        self.declare_declarations(description);
        self.declare_items(&description.code);
    }

    fn define(&mut self, description: &Description) {
        self.define_functions(&description.preamble);
        self.define_functions(&description.code);
        self.define_rules(&description.rules);
        self.find_filters();
        self.find_undefined();
    }

    /// What can be run on this machine, if nothing is wrong.
    fn prepare(&mut self) -> Option<Program> {
        if self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
            return None;
        }
        self.program = std::mem::take(&mut self.program).with_level(self.level.clone());
        match self.program.prepare(&self.layout.target) {
            Ok(program) => Some(program),
            Err(unfit) => {
                self.wrong(Code::BadConstant, unfit.to_string(), Span::default());
                None
            }
        }
    }
}
