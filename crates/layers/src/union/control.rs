//! Control commands of a running union: each is passed to the module that executes it.

use std::sync::Arc;

use vnode::{Control, ControlError};

use super::control_arguments::{ArgumentValues, missing_argument};
use super::control_specifications::CONTROLS;
use super::state::Union;
use crate::ControlSpecification;

/// Difference in use of branches that are balanced, in percent of their space.
const DEFAULT_BALANCE_PERCENTAGE: u8 = 5;

type CommandResult = Result<String, ControlError>;

impl Union {
    /// Executes a control command.
    pub(crate) fn control(self: &Arc<Self>, control: &Control) -> CommandResult {
        ControlSpecification::check(CONTROLS, control)?;
        let arguments = ArgumentValues(control);
        if let Some(answer) = self.view_command(&arguments) {
            return answer;
        }
        match control.command.as_str() {
            "branches" => {
                self.check_all_branches();
                Ok(self.list_branches())
            }
            "add" => self.add_branch(arguments.required("branch")?, arguments.position()?),
            "rescan" => self.rescan(),
            "drain" => self.drain(arguments.required("branch")?),
            "balance" => self.balance(arguments.percentage("within")?.unwrap_or(DEFAULT_BALANCE_PERCENTAGE)),
            "consolidate" => self.consolidate(arguments.required("path")?),
            "which" => self.which(arguments.required("path")?),
            "remove" => self.remove_branch(arguments.required("branch")?),
            "mode" => self.set_mode(arguments.required("branch")?, arguments.mode()?),
            "move" => {
                let at = arguments.position()?.ok_or_else(|| missing_argument("at"))?;
                self.move_branch(arguments.required("branch")?, at)
            }
            _ => self.snapshot_command(control),
        }
    }
}
