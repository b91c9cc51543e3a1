//! `plyfs ioctl`: issues a command that a FiST program of a running mount declares.

mod data;
mod declaration;
mod system;

use std::fs::File;
use std::path::Path;

use super::{fist::descriptions, print};
use crate::arguments::Ioctl;
use crate::control::{Request, client};
use crate::exit::{Exit, Failure, Outcome};
use declaration::IoctlCommand;

/// Runs the command.
pub(crate) fn run(arguments: &Ioctl) -> Outcome {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let path = std::fs::canonicalize(&arguments.path).map_err(|error| {
        let path = arguments.path.display();
        Failure::new(Exit::Failure, format!("cannot find {path}: {error}; give a file or directory in a mount"))
    })?;
    let commands = declared_commands(&path)?;
    let Some(command) = commands.iter().find(|command| command.name == arguments.name) else {
        let names: Vec<_> = commands.iter().map(|command| command.name.as_str()).collect();
        let available = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(usage(format!("the mount declares no ioctl {}; it declares: {available}", arguments.name)));
    };
    let mut bytes = vec![0; command.bytes];
    for given in &arguments.fields {
        let (name, value) =
            given.split_once('=').ok_or_else(|| usage(format!("'{given}' has no '='; write FIELD=VALUE")))?;
        let field = command.fields.iter().find(|field| field.name == name).ok_or_else(|| {
            let names: Vec<_> = command.fields.iter().map(|field| field.name.as_str()).collect();
            usage(format!("{} has no field '{name}'; there are {}", command.name, names.join(", ")))
        })?;
        data::write(field, value, &mut bytes)
            .map_err(|expected| usage(format!("the field '{name}' takes {expected}")))?;
    }
    let failed = |error| Failure::new(Exit::Failure, format!("{}: {}: {error}", path.display(), command.name));
    let file = File::open(&path).map_err(failed)?;
    system::ioctl(&file, command.command, &mut bytes).map_err(failed)?;
    if !command.answers {
        return Ok(());
    }
    let lines = command.fields.iter().map(|field| format!("{}={}\n", field.name, data::read(field, &bytes)));
    print(&lines.collect::<String>())
}

/// Returns the commands that the FiST programs of the mount containing a path declare, those of the topmost first.
fn declared_commands(path: &Path) -> Outcome<Vec<IoctlCommand>> {
    let mounts = client::mounts().into_iter().filter(|mount| path.starts_with(&mount.report.mount_point));
    let Some(mount) = mounts.max_by_key(|mount| mount.report.mount_point.len()) else {
        let message =
            format!("{} is not in a mount of Plyfs that you may query; to list them: plyfs status", path.display());
        return Err(Failure::new(Exit::NoMount, message));
    };
    let mut commands = Vec::new();
    for target in descriptions(&mount.report.stack).into_iter().rev() {
        let request = Request::Control { target, name: "ioctls".to_owned(), arguments: Vec::new(), follows: false };
        let response = mount.text(&request)?;
        let listed: Vec<IoctlCommand> = serde_json::from_str(&response).map_err(|error| {
            Failure::new(Exit::Failure, format!("cannot parse the server's answer: {error}; unmount, and mount again"))
        })?;
        commands.extend(listed);
    }
    Ok(commands)
}
