//! The checker: from the syntax tree to the intermediate form, with all errors reported.

mod checker;
mod comments;
mod constants;
mod declarations;
mod expressions;
mod functions;
mod initial;
mod lvalues;
pub(crate) mod operands;
mod operators;
mod rules;
mod scope;
mod statements;
mod typed;
mod types;
mod warnings;

use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::ir::{self};
use crate::numbers::ERRORS;
use crate::program::Program;
use crate::text::{Span, Spanned};
use crate::tree::{Description, ItemKind};
use checker::Checker;
use comments::Comments;

/// Result of a check.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The intermediate form, if there are no errors.
    pub ir: Option<ir::Program>,
    /// The form prepared for this machine, ready to run.
    pub program: Option<Program>,
    /// Errors and warnings, in source order.
    pub diagnostics: Vec<Diagnostic>,
}

/// Checks a FiST program named `name`, which is the prefix of its filter functions.
pub fn check(description: &Description, name: &str) -> Checked {
    check_commented(description, name, Vec::new())
}

/// Checks a FiST program with its comments, in source order, which are kept.
pub fn check_commented(description: &Description, name: &str, comments: Vec<Spanned<String>>) -> Checked {
    let mut checker = Checker::new(name, constants::known(), types::known());
    checker.comments = Comments::new(comments, description);
    checker.level.comments = checker.comments.of_declarations(description);
    checker.declare(description);
    checker.define(description);
    let exceeded_limits = std::mem::take(&mut checker.exceeded_limits).into_iter().map(|(_, problem)| problem);
    checker.diagnostics.extend(exceeded_limits);
    let program = checker.prepare();
    if let Some(program) = &program {
        checker.warn_about_costs(program);
    }
    let Checker { program: ir, mut diagnostics, .. } = checker;
    diagnostics.sort_by_key(|diagnostic| diagnostic.span);
    Checked { ir: program.is_some().then_some(ir), program, diagnostics }
}

/// The number of an error on Linux by name: `EACCES`.
pub fn error_number(name: &str) -> Option<i32> {
    ERRORS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

impl Checker {
    /// Declares the contents of all sections first: rules and functions may refer to later items.
    fn declare(&mut self, description: &Description) {
        for rule in &description.rules {
            functions::written_names(&rule.body, &mut self.written);
        }
        for item in description.preamble.iter().chain(&description.code) {
            if let ItemKind::Function(tree) = &item.kind {
                tree.body.iter().for_each(|body| functions::written_names(body, &mut self.written));
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
        self.report_undefined_functions();
    }

    /// Prepares the program for this machine, if there are no errors.
    fn prepare(&mut self) -> Option<Program> {
        if self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
            return None;
        }
        self.program = std::mem::take(&mut self.program).with_level(self.level.clone());
        match self.program.prepare(&self.layout.target) {
            Ok(program) => Some(program),
            Err(error) => {
                self.error(Code::BadConstant, error.to_string(), Span::default());
                None
            }
        }
    }
}
