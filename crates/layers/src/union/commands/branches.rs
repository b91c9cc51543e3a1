//! `plyfs union`: the branches of a mounted union, and the commands on views and unmounted branches below it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};

use super::check::{self, CheckArguments};
use super::client::{existing_branch, print_answer};
use super::views::{self, ViewCommand};
use crate::command::{CommandHost, LayerCommand, Outcome};

pub(crate) const COMMAND: LayerCommand = LayerCommand { name: "union", command: UnionArguments::command, run };

/// Show or change the branches of a mounted union while programs use it, or check those of one that is not mounted
#[derive(Debug, Parser)]
struct UnionArguments {
    #[command(subcommand)]
    command: BranchCommand,
}

/// A branch that the union has is named as it is written in the list, or by its number there, from 0.
#[derive(Debug, Subcommand)]
enum BranchCommand {
    /// List the branches, the one of highest priority first
    List {
        /// The mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
    },
    /// Add a branch
    Add {
        /// The mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// The branch and its mode, as in a stack: "/srv/new=ro", "(/vault | rot13)=rw"; without a mode it is ro
        #[arg(value_name = "BRANCH[=MODE]")]
        branch: OsString,
        /// Its place, counted from 0 for the highest priority; without it, the last
        #[arg(long, value_name = "PLACE")]
        at: Option<usize>,
    },
    /// Find what is wrong in the branches of a union that is not mounted: what was left half-way, marks that contradict each other, records that nothing needs
    ///
    /// Looks through the branches that may be written, and tells of each finding in one line. Ends with 1 if something is wrong, or with --repair, if something could not be repaired.
    Check(CheckArguments),
    /// Take a branch out of the union; nothing in it is changed, and files open in it stay open
    #[command(alias = "rm")]
    Remove {
        /// The mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// The branch
        branch: OsString,
    },
    /// Change what a branch may be used for
    Mode {
        /// The mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// The branch
        branch: OsString,
        /// rw (read and write), ro (read), or nc (read and change, but create nothing)
        mode: String,
    },
    /// Give a branch another place
    Move {
        /// The mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// The branch
        branch: OsString,
        /// Its new place, counted from 0 for the highest priority
        at: usize,
    },
    /// Give chosen processes a view of their own: they see and write a branch that others never see
    #[command(subcommand)]
    View(ViewCommand),
}

fn run(matches: &ArgMatches, host: &dyn CommandHost) -> Outcome {
    match UnionArguments::from_arg_matches(matches)?.command {
        BranchCommand::List { mount_point } => print_answer(host, &mount_point, "branches", &[]),
        BranchCommand::Add { mount_point, branch, at } => add(host, &mount_point, &branch, at),
        BranchCommand::Remove { mount_point, branch } => {
            print_answer(host, &mount_point, "remove", &[("branch", &existing_branch(host, &branch)?)])
        }
        BranchCommand::Mode { mount_point, branch, mode } => {
            print_answer(host, &mount_point, "mode", &[("branch", &existing_branch(host, &branch)?), ("mode", &mode)])
        }
        BranchCommand::Move { mount_point, branch, at } => {
            let branch = existing_branch(host, &branch)?;
            print_answer(host, &mount_point, "move", &[("branch", &branch), ("at", &at.to_string())])
        }
        BranchCommand::View(command) => views::run(&command, host),
        BranchCommand::Check(arguments) => check::run(&arguments, host),
    }
}

fn add(host: &dyn CommandHost, mount_point: &Path, branch: &OsStr, at: Option<usize>) -> Outcome {
    let (branch, at) = (host.branch_text(branch)?, at.map(|at| at.to_string()));
    let at = at.as_ref().map(|at| ("at", at.as_str()));
    let arguments: Vec<_> = [("branch", branch.as_str())].into_iter().chain(at).collect();
    print_answer(host, mount_point, "add", &arguments)
}
