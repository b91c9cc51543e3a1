//! `plyfs explain`: builds a stack and describes it without mounting it.

use vnode::FileSystem;

use super::print;
use crate::arguments::Explain;
use crate::exit::Outcome;
use crate::expression::Expression;
use crate::front_end::{self, MountPlan};

/// Runs the command.
pub(crate) fn run(arguments: &Explain) -> Outcome {
    let expression = Expression::read(&arguments.stack)?;
    let file_system = expression.build_for_description()?;
    print(&text(&expression, file_system.as_ref(), &MountPlan::default()))
}

/// Returns the stack, its members and their declarations, and the resulting decisions for a mount.
pub(crate) fn text(expression: &Expression, file_system: &dyn FileSystem, plan: &MountPlan) -> String {
    let decisions = front_end::decisions(file_system, plan);
    let decisions: String = decisions.lines().map(|line| format!("      {line}\n")).collect();
    format!("{}\n\n{}Mounted, that means:\n{decisions}", expression.canonical_form(), stack::explain(file_system))
}
