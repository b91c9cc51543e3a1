//! `plyfs control`: sends a command to a layer or base of a running mount.

use super::{find_running, print, send_command};
use crate::arguments::Control;
use crate::exit::{Exit, Failure, Outcome};

/// Runs the command.
pub(crate) fn run(arguments: &Control) -> Outcome {
    let pair = |argument: &String| {
        let (key, value) = argument.split_once('=').ok_or_else(|| {
            Failure::new(Exit::Usage, format!("the argument '{argument}' has no '='; write KEY=VALUE"))
        })?;
        Ok((key.to_owned(), value.to_owned()))
    };
    let pairs = arguments.arguments.iter().map(pair).collect::<Outcome<_>>()?;
    let (target, command) = (arguments.layer.clone(), arguments.command.clone());
    let command = vnode::Control { target, command, arguments: pairs };
    let response = send_command(&find_running(&arguments.mount_point)?, command)?;
    if response.is_empty() { Ok(()) } else { print(&format!("{}\n", response.trim_end())) }
}
