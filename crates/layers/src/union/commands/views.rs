//! `plyfs union view`: the views of a mounted union.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::client::{existing_branch, print_answer};
use crate::command::{CommandHost, Exit, Failure, Outcome};

/// Who has a view sees its private branch over the branches of the union, and everything that is changed goes there. Views are tried in the order in which they were added; the first that has a rule for a process is its view, and who has none sees the union as before.
#[derive(Debug, Subcommand)]
pub(crate) enum ViewCommand {
    /// Add a view, or have one be for others too
    Add {
        /// The mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// The private branch, as in a stack: "/srv/private", "(/vault | rot13)"
        #[arg(value_name = "BRANCH")]
        branch: OsString,
        /// For whom it is
        #[command(flatten)]
        subject: ViewSubject,
    },
    /// List the views in the order in which they are tried: for whom each is, and its private branch
    List {
        /// The mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
    },
    /// End a view; its private branch stays as it is, and what is open in it is stale
    #[command(alias = "rm")]
    Remove {
        /// The mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// The private branch, or the view's number from 0
        branch: OsString,
    },
}

/// For whom a view is.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct ViewSubject {
    /// Who acts as this user
    #[arg(long)]
    uid: Option<u32>,
    /// This process and all that descend from it
    #[arg(long)]
    pid: Option<u32>,
    /// The processes of this session, as ps -o sid tells it
    #[arg(long)]
    session: Option<u32>,
    /// Who runs this program
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
                Failure::new(Exit::Usage, format!("there is no program {}: {error}", path.display()))
            })?;
            let text = found.into_os_string().into_string();
            let text = text
                .map_err(|path| Failure::new(Exit::Usage, format!("the path {} is no UTF-8 text", path.display())))?;
            Ok(("executable", text))
        }
        (None, None) => Err(Failure::new(Exit::Usage, "one of --uid, --pid, --session and --executable is needed")),
    }
}
