//! `plyfs shell`: works in an unmounted stack.

use crate::arguments::Shell;
use crate::exit::Outcome;
use crate::expression::Expression;
use crate::shell;

/// Runs the command.
pub(crate) fn run(arguments: &Shell) -> Outcome {
    let file_system = Expression::read(&arguments.stack)?.build()?;
    shell::run(file_system, arguments.commands.as_deref())
}
