//! `plyfs union view`: the views of a mounted union.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::client::{existing_branch, print_answer};
use crate::command::{CommandHost, Exit, Failure, Outcome};

#[derive(Debug, Subcommand)]
pub(crate) enum ViewCommand {
    /// Add a view, or another rule to an existing view
    Add {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// Private branch, as in a stack: "/srv/private", "(/vault | rot13)"
        #[arg(value_name = "BRANCH")]
        branch: OsString,
        /// Processes that the view is for
        #[command(flatten)]
        subject: ViewSubject,
    },
    /// List the views in the order in which they are tried: rules and private branch of each
    List {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
    },
    /// Remove a view; its private branch is unchanged, and files open in it become stale (ESTALE)
    #[command(alias = "rm")]
    Remove {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// Private branch of the view, or its position, counted from 0
        branch: OsString,
    },
}

/// Processes that a view is for.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct ViewSubject {
    /// Processes with this user id
    #[arg(long)]
    uid: Option<u32>,
    /// This process and its descendants
    #[arg(long)]
    pid: Option<u32>,
    /// Processes of this session (see ps -o sid)
    #[arg(long)]
    session: Option<u32>,
    /// Processes that run this program
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    executable: Option<PathBuf>,
}

/// Adds, lists or removes views.
pub(crate) fn run(command: &ViewCommand, host: &dyn CommandHost) -> Outcome {
    match command {
        ViewCommand::List { mount_point } => print_answer(host, mount_point, "views", &[]),
        ViewCommand::Add { mount_point, branch, subject } => {
            let (key, value) = view_rule(subject)?;
            print_answer(host, mount_point, "view-add", &[("branch", &host.branch_text(branch)?), (key, &value)])
        }
        ViewCommand::Remove { mount_point, branch } => {
            print_answer(host, mount_point, "view-remove", &[("branch", &existing_branch(host, branch)?)])
        }
    }
}

/// Returns the callers that a view is for, in the form in which the union takes them.
fn view_rule(subject: &ViewSubject) -> Outcome<(&'static str, String)> {
    let number = |key, number: Option<u32>| number.map(|number| (key, number.to_string()));
    let ViewSubject { uid, pid, session, executable } = subject;
    let by_number = number("uid", *uid).or_else(|| number("pid", *pid)).or_else(|| number("session", *session));
    match (by_number, executable) {
        (Some(rule), _) => Ok(rule),
        (None, Some(path)) => {
            let found = path.canonicalize().map_err(|error| {
                Failure::new(
                    Exit::Usage,
                    format!("cannot find the program {}: {error}; give the path of an executable", path.display()),
                )
            })?;
            let text = found.into_os_string().into_string();
            let text = text.map_err(|path| {
                Failure::new(
                    Exit::Usage,
                    format!(
                        "the path {} is not valid UTF-8; give a path that is, such as a symlink to the program",
                        path.display()
                    ),
                )
            })?;
            Ok(("executable", text))
        }
        (None, None) => {
            Err(Failure::new(Exit::Usage, "no rule was given; add one of --uid, --pid, --session and --executable"))
        }
    }
}
