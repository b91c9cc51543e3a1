//! `plyfs run`: runs a command in a fork of a stack, and decides about its changes.

mod decision;
mod inherited;
mod message;
mod partial_acls;
mod root;
mod scratch;
mod session;

use std::ffi::OsString;
use std::io::{self};
use std::path::{Path, PathBuf};
use std::time::Duration;

use stack::fork::Fork;
use vnode::{Errno, Timestamp};

use crate::arguments::Run;
use crate::exit::{Exit, Failure, Outcome, run_command};
use crate::expression::Expression;
use crate::file_size;
use decision::CommitObstacle;
use inherited::InheritedAttributes;
use message::notify;
use partial_acls::PartialAcls;
use scratch::{ForkDescription, ScratchDirectory};
use session::{CommandOutcome, FinishedCommand, NamespaceUser};

/// Maximum lag of the kernel's clock for file timestamps.
const TIMESTAMP_GRANULARITY: Duration = Duration::from_millis(12);

/// Runs the command, and returns the exit status.
pub(crate) fn run(arguments: &Run) -> Outcome<u8> {
    let inherited = InheritedAttributes::capture();
    file_size::lift_limit();
    // Next, while the process has one thread: everything opened from here on is in the mount namespace that the command gets.
    let user = session::unshare_namespaces()?;
    let existing = arguments.scratch.as_deref().map(ScratchDirectory::open).transpose()?.flatten();
    if arguments.command.is_empty() {
        let Some(scratch) = existing else { return Err(no_command(arguments.scratch.as_deref())) };
        check_same_fork(arguments, &scratch)?;
        let expression = Expression::read(scratch.description.stack.as_ref())?;
        let fork = open(&scratch, &expression, arguments.force)?;
        return decision::decide(arguments, &fork, scratch, None).map(|()| 0);
    }
    let (scratch, expression) = match existing {
        Some(scratch) => {
            check_same_fork(arguments, &scratch)?;
            session::check_working_directory(&scratch.description.at, user.is_none())?;
            let expression = Expression::read(scratch.description.stack.as_ref())?;
            (scratch, expression)
        }
        None => create_scratch(arguments, user.as_ref())?,
    };
    let fork = match open(&scratch, &expression, arguments.force) {
        Ok(fork) => fork,
        Err(failure) => {
            scratch.remove_if_new();
            return Err(failure);
        }
    };
    decision::check_no_interrupted_commit(&fork, &scratch)?;
    let finished = session::run(&fork, &scratch, &arguments.command, user, inherited);
    let FinishedCommand { outcome, is_unused } = match finished {
        Ok(finished) => finished,
        Err(failure) => {
            drop(fork);
            scratch.remove_if_new();
            return Err(failure);
        }
    };
    if let CommandOutcome::NotStarted(error) = &outcome {
        drop(fork);
        scratch.remove_if_new();
        return Ok(not_started(&arguments.command, error));
    }
    let obstacle = match (is_unused, outcome.code()) {
        (false, _) => Some(CommitObstacle::InUse),
        (true, 0) => None,
        (true, _) => Some(CommitObstacle::Failed),
    };
    decision::decide(arguments, &fork, scratch, obstacle)?;
    Ok(outcome.code())
}

/// Creates the scratch directory of a new fork.
fn create_scratch(arguments: &Run, user: Option<&NamespaceUser>) -> Outcome<(ScratchDirectory, Expression)> {
    let expression = Expression::read(arguments.stack.as_deref().unwrap_or(".".as_ref()))?;
    let directories = expression.directories();
    let at = match (&arguments.at, &directories[..]) {
        (Some(at), _) => at.clone(),
        (None, [only]) => only.clone(),
        (None, _) => {
            let message =
                "the stack is not based on exactly one directory; give the mount point of the fork with --at DIR";
            return Err(Failure::new(Exit::Usage, message));
        }
    };
    // The stack is built once before anything is created for it, so that its errors are reported first.
    drop(expression.build()?);
    let at = canonical_mount_path(&at)?;
    session::check_working_directory(&at, user.is_none())?;
    let description = ForkDescription::new(expression.canonical_form(), at);
    let scratch = ScratchDirectory::create(arguments.scratch.as_deref(), description, &directories, user.is_some())?;
    Ok((scratch, expression))
}

/// Opens the fork whose changes are in a scratch directory, for this process alone. With `force`, a commit may revoke
/// permissions that access control lists grant to others.
fn open(scratch: &ScratchDirectory, expression: &Expression, force: bool) -> Outcome<Fork> {
    let path = scratch.path().display();
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(Exit::Stack, format!("cannot use the fork in {path}: {error}; give another with --scratch DIR"))
    };
    let stack = expression.build()?;
    let stack =
        if partial_acls::has_unmapped_ids() { vnode::layer::stack(PartialAcls { force }, stack) } else { stack };
    let in_use =
        || Failure::new(Exit::Busy, format!("another command is using the fork in {path}; wait until it has ended"));
    let fork = Fork::new(scratch.changes()?, stack);
    let fork = fork.map_err(|error| if error.is_in_use() { in_use() } else { failed(&error) })?;
    fork.hold(scratch.is_new()).map_err(|errno| match errno {
        Errno::EBUSY => in_use(),
        // Ids that are not mapped in a user's namespace cannot own anything.
        Errno::EINVAL | Errno::EPERM => {
            let message = "the directory belongs to another user; fork a directory that you own, or run as root";
            Failure::new(Exit::Permission, message)
        }
        errno => failed(&errno),
    })?;
    if scratch.is_new() {
        scratch.record_start(Timestamp::now())?;
        // Changes from now on have a later time.
        std::thread::sleep(TIMESTAMP_GRANULARITY);
    }
    Ok(fork)
}

/// Returns the path at which the fork is visible, in the kernel's form.
fn canonical_mount_path(at: &Path) -> Outcome<PathBuf> {
    let name = at.display();
    let path = at
        .canonicalize()
        .map_err(|error| Failure::new(Exit::MountPoint, format!("cannot use {name}: {error}; give --at DIR")))?;
    if !path.is_dir() {
        return Err(Failure::new(Exit::MountPoint, format!("{name} is not a directory; give --at DIR")));
    }
    Ok(path)
}

/// Fails if the command line names another stack or path than that of the resumed fork.
fn check_same_fork(arguments: &Run, scratch: &ScratchDirectory) -> Outcome {
    let (description, path) = (&scratch.description, scratch.path().display());
    if let Some(stack) = &arguments.stack
        && Expression::read(stack)?.canonical_form() != description.stack
    {
        let message =
            format!("{path} has a fork of {}; omit --stack, or give another --scratch DIR", description.stack);
        return Err(Failure::new(Exit::Usage, message));
    }
    if let Some(at) = &arguments.at
        && canonical_mount_path(at)? != description.at
    {
        let message = format!("the fork in {path} is mounted on {}; omit --at", description.at.display());
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(())
}

fn no_command(scratch: Option<&Path>) -> Failure {
    let message = match scratch {
        Some(path) => format!("there is no fork in {}; give a command to create one", path.display()),
        None => "there is no command to run; write it behind --, or name a kept fork with --scratch DIR".to_owned(),
    };
    Failure::new(Exit::Usage, message)
}

/// Reports why the command could not be started, and returns the exit status.
fn not_started(command: &[OsString], error: &io::Error) -> u8 {
    let name = command[0].display();
    let (code, remedy) = match error.kind() {
        io::ErrorKind::NotFound => (run_command::NOT_FOUND, "is it installed, and in PATH?"),
        _ => (run_command::NOT_EXECUTABLE, "is it a program, and executable?"),
    };
    notify(&format!("cannot run {name}: {error}; {remedy}"));
    code
}
