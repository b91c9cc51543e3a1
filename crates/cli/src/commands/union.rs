//! `plyfs union`: the branches of a mounted union.

use std::ffi::OsStr;
use std::path::Path;

use super::{print, running};
use crate::arguments::Union;
use crate::control::Request;
use crate::exit::{Exit, Failure, Outcome};
use crate::expression::Expression;

/// Runs the command.
pub fn run(command: &Union) -> Outcome {
    match command {
        Union::List { mount_point } => tell(mount_point, "branches", vec![]),
        Union::Add { mount_point, branch, at } => {
            let branch = ("branch".to_owned(), branch_text(branch)?);
            let at = at.map(|at| ("at".to_owned(), at.to_string()));
            tell(mount_point, "add", [branch].into_iter().chain(at).collect())
        }
        Union::Remove { mount_point, branch } => {
            tell(mount_point, "remove", vec![("branch".to_owned(), known(branch)?)])
        }
        Union::Mode { mount_point, branch, mode } => {
            let arguments = vec![("branch".to_owned(), known(branch)?), ("mode".to_owned(), mode.clone())];
            tell(mount_point, "mode", arguments)
        }
        Union::Move { mount_point, branch, at } => {
            let arguments = vec![("branch".to_owned(), known(branch)?), ("at".to_owned(), at.to_string())];
            tell(mount_point, "move", arguments)
        }
    }
}

/// Sends the union a command and prints the branches, which are the answer.
fn tell(mount_point: &Path, command: &str, arguments: Vec<(String, String)>) -> Outcome {
    let request = Request::Control { target: "union".to_owned(), name: command.to_owned(), arguments };
    print(&running(mount_point)?.text(&request)?)
}

/// A branch in its standard form: the server has another working directory.
fn branch_text(argument: &OsStr) -> Outcome<String> {
    let expression = Expression::read(argument)?;
    if !expression.is_one_branch() {
        let message = format!("'{}' is not one branch; put a stack in parentheses", argument.display());
        return Err(Failure::new(Exit::Expression, message));
    }
    Ok(expression.standard_form())
}

/// A branch that the union has: as it was written, or its number.
fn known(argument: &OsStr) -> Outcome<String> {
    match argument.to_str().filter(|text| text.parse::<usize>().is_ok()) {
        Some(number) => Ok(number.to_owned()),
        None => branch_text(argument),
    }
}
