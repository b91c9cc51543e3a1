//! `plyfs union`: the branches of a mounted union, and the commands on views and unmounted branches below it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};

use super::check::{self, CheckArguments};
use super::client::{existing_branch, print_answer, query};
use super::moves;
use super::views::{self, ViewCommand};
use super::which::{self, WhichArguments};
use crate::command::{CommandHost, Exit, Failure, MemberCommand, Outcome};

pub(crate) const COMMAND: MemberCommand = MemberCommand { name: "union", command: UnionArguments::command, run };

/// Manage the branches of a mounted union, or check those of an unmounted one
///
/// An existing branch is named as plyfs union list prints it, or by its position there, counted from 0.
#[derive(Debug, Parser)]
struct UnionArguments {
    #[command(subcommand)]
    command: BranchCommand,
}

#[derive(Debug, Subcommand)]
enum BranchCommand {
    /// List the branches, highest priority first
    List {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
    },
    /// Add a branch
    Add {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// Branch and mode, as in a stack: "/srv/new=ro", "(/vault | rot13)=rw", "/mnt/new=rw(minimum-free=4g)"; the default mode is ro
        #[arg(value_name = "BRANCH[=MODE]")]
        branch: OsString,
        /// Position, counted from 0 for the highest priority; by default, the last
        #[arg(long, value_name = "POSITION")]
        at: Option<usize>,
    },
    /// Add directories that have come to match a pattern among the branches, such as /mnt/disk*
    ///
    /// Prints a line for each change: `added BRANCH`, `vanished BRANCH` for one that matches no longer, which stays a branch until it is removed, and `failed BRANCH` for one that cannot be added. Exits with 1 if there are such.
    Rescan {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
    },
    /// Move everything off a branch to the other rw branches, while programs use the union
    ///
    /// The branch becomes nc: nothing more is created in it. Each object moves to the branch with most free space that has room for it; directories stay, empty, and get an instance elsewhere. A line for each object that stays says why, such as files with several names; the exit code is then 1. If it is interrupted, run it again. The branch can then be removed with plyfs union remove.
    Drain {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// Branch, or its position
        branch: OsString,
    },
    /// Move files from the fullest branches to the emptiest, while programs use the union
    ///
    /// Ends when the shares of space in use of the rw branches differ by no more than --within, or when nothing else can move.
    Balance {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// Difference in percent of the space of a branch
        #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
        within: u8,
    },
    /// Move the files of each directory to one branch, while programs use the union
    ///
    /// From the named directories on, the files of each move to the branch that has most of their bytes and room for the rest. What is in ro branches stays there. A line for each file that stays says why; the exit code is then 1. If it is interrupted, run it again.
    Consolidate {
        /// Directories of mounted unions
        #[arg(value_name = "DIRECTORY", required = true, value_hint = ValueHint::DirPath)]
        directories: Vec<PathBuf>,
    },
    /// Show which branches have a file, its copies and its whiteouts
    ///
    /// Prints a line for each object: whether it is visible, a directory merged with the visible one, hidden, or a whiteout; the branch; and the path in the branch. Paths are those of the union, so no other layer of the stack may change names.
    Which(WhichArguments),
    /// Check the branches of an unmounted union for interrupted operations, inconsistent marks and stale records
    ///
    /// Checks the writable branches, and reports each finding on one line. Exits with 1 if there are findings, or, with --repair, if some could not be repaired.
    Check(CheckArguments),
    /// Remove a branch from the union; its contents are unchanged, and open files stay open
    #[command(alias = "rm")]
    Remove {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// Branch, or its position
        branch: OsString,
    },
    /// Change the access mode of a branch
    Mode {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// Branch, or its position
        branch: OsString,
        /// rw (read-write), ro (read-only), or nc (existing objects can be changed, but none created)
        mode: String,
    },
    /// Move a branch to another position
    Move {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// Branch, or its position
        branch: OsString,
        /// New position, counted from 0 for the highest priority
        at: usize,
    },
    /// Manage views: private branches that only selected processes see and write
    ///
    /// A process with a view sees the private branch of the view on top of the union's branches, and all its changes go there. The first view with a rule that matches a process applies, in the order in which views were added; processes without a view see the union itself.
    #[command(subcommand)]
    View(ViewCommand),
}

fn run(matches: &ArgMatches, host: &dyn CommandHost) -> Outcome {
    match UnionArguments::from_arg_matches(matches)?.command {
        BranchCommand::List { mount_point } => print_answer(host, &mount_point, "branches", &[]),
        BranchCommand::Add { mount_point, branch, at } => add(host, &mount_point, &branch, at),
        BranchCommand::Rescan { mount_point } => rescan(host, &mount_point),
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
        BranchCommand::Drain { mount_point, branch } => {
            moves::run(host, &mount_point, "drain", &[("branch", &existing_branch(host, &branch)?)])
        }
        BranchCommand::Balance { mount_point, within } => {
            moves::run(host, &mount_point, "balance", &[("within", &within.to_string())])
        }
        BranchCommand::Consolidate { directories } => directories.iter().try_for_each(|directory| {
            let (mount_point, path) = which::mount_of(directory)?;
            moves::run(host, &mount_point, "consolidate", &[("path", &path)])
        }),
        BranchCommand::Which(arguments) => which::run(&arguments, host),
        BranchCommand::Check(arguments) => check::run(&arguments, host),
    }
}

fn add(host: &dyn CommandHost, mount_point: &Path, branch: &OsStr, at: Option<usize>) -> Outcome {
    let (branch, at) = (host.branch_text(branch)?, at.map(|at| at.to_string()));
    let at = at.as_ref().map(|at| ("at", at.as_str()));
    let arguments: Vec<_> = [("branch", branch.as_str())].into_iter().chain(at).collect();
    print_answer(host, mount_point, "add", &arguments)
}

fn rescan(host: &dyn CommandHost, mount_point: &Path) -> Outcome {
    let report = query(host, mount_point, "rescan", &[])?;
    host.print(&report)?;
    match report.lines().filter(|line| line.starts_with("failed ")).count() {
        0 => Ok(()),
        count => Err(Failure::new(Exit::Failure, format!("{count} branches could not be added; see the lines above"))),
    }
}
