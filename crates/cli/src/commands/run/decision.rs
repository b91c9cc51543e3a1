//! The changes of a fork after its command: shown, then committed, discarded or kept.

use std::io::{self, BufRead, IsTerminal, Write};

use stack::fork::{self, Change, CommitError, CommitOptions, Committed, Conflict, Difference, Fork};

use super::message::notify;
use super::scratch::ScratchDirectory;
use super::{partial_acls, session};
use crate::arguments::Run;
use crate::commands::{print, progress};
use crate::exit::{Exit, Failure, Outcome};

/// The decision about the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Commit,
    Discard,
    Keep,
}

/// The reason why changes are not committed although a commit was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitObstacle {
    /// The command has failed.
    Failed,
    /// Processes that it has left running may still modify them.
    InUse,
}

impl CommitObstacle {
    fn notify(self) {
        notify(match self {
            Self::Failed => "the command has failed, so its changes are not committed",
            Self::InUse => {
                "processes started by the command still use the fork and could change it; end them before committing"
            }
        });
    }
}

/// Shows the differences, and applies the decision, made now or given as an option, to them.
pub(crate) fn decide(
    arguments: &Run,
    fork: &Fork,
    scratch: ScratchDirectory,
    obstacle: Option<CommitObstacle>,
) -> Outcome {
    let differences = progress::with_progress("run: comparing", |_| fork.differences()).map_err(|errno| {
        let path = scratch.path().display();
        Failure::new(Exit::Failure, format!("cannot compare the fork: {errno}; its changes are kept in {path}"))
    })?;
    let shown = if arguments.json {
        print(&format!("{}\n", fork::to_json(&differences)))
    } else {
        // Standard output belongs to the command.
        let _ = io::stderr().write_all(fork::format_differences(&differences).as_bytes());
        Ok(())
    };
    let decision = match (arguments.commit, arguments.discard, arguments.keep, obstacle) {
        (true, _, _, None) if shown.is_ok() => Decision::Commit,
        (true, _, _, None) => Decision::Keep,
        (true, _, _, Some(obstacle)) => {
            obstacle.notify();
            Decision::Keep
        }
        (_, true, ..) => Decision::Discard,
        // Whoever wants to see the changes has not seen them.
        _ if shown.is_err() => Decision::Keep,
        (_, _, true, _) => Decision::Keep,
        (.., Some(CommitObstacle::InUse)) => {
            CommitObstacle::InUse.notify();
            Decision::Keep
        }
        _ if differences.is_empty() => Decision::Discard,
        _ => prompt(&scratch),
    };
    apply(decision, arguments, fork, scratch, &differences).and(shown)
}

/// Applies the decision to the differences.
fn apply(
    decision: Decision,
    arguments: &Run,
    fork: &Fork,
    scratch: ScratchDirectory,
    differences: &[Difference],
) -> Outcome {
    match decision {
        Decision::Commit => {
            if !arguments.force {
                check_acls_survive(fork, differences, &scratch)?;
            }
            commit(arguments, fork, &scratch)
        }
        Decision::Discard => {
            check_no_interrupted_commit(fork, &scratch)?;
            scratch.remove()
        }
        Decision::Keep => {
            notify(&keep_message(&scratch));
            Ok(())
        }
    }
}

/// Fails if a commit was interrupted while directories were being moved: they are lost with the fork, and are
/// empty if the fork is resumed.
pub(crate) fn check_no_interrupted_commit(fork: &Fork, scratch: &ScratchDirectory) -> Outcome {
    let path = scratch.path().display();
    let directories = fork.moves_under_way().map_err(|error| {
        Failure::new(
            Exit::Failure,
            format!("cannot determine the state of an interrupted commit: {error}; the fork is kept in {path}"),
        )
    })?;
    if directories.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = directories.iter().map(|path| format!("/{}", String::from_utf8_lossy(path))).collect();
    let message = format!(
        "a commit was interrupted while it moved directories ({}); to complete it: plyfs run --scratch {path} --commit",
        names.join(", ")
    );
    Err(Failure::new(Exit::Failure, message))
}

/// Fails if a commit would revoke permissions that access control lists grant to others: a user cannot recreate these lists.
fn check_acls_survive(fork: &Fork, differences: &[Difference], scratch: &ScratchDirectory) -> Outcome {
    let present = differences.iter().filter(|difference| difference.change != Change::Deleted);
    let lost = partial_acls::naming_others(&fork.file_system(), present.map(|difference| &*difference.path));
    if lost.is_empty() {
        return Ok(());
    }
    lost.iter().for_each(|path| {
        notify(&format!(
            "/{} has an access control list with entries for other users or groups",
            String::from_utf8_lossy(path)
        ));
    });
    let path = scratch.path().display();
    let message = format!(
        "users cannot give files access control lists that name others: nothing is committed; the fork is kept; \
         to commit these files without the others: plyfs run --scratch {path} --commit --force"
    );
    Err(Failure::new(Exit::Permission, message))
}

fn commit(arguments: &Run, fork: &Fork, scratch: &ScratchDirectory) -> Outcome {
    let options = CommitOptions { since: scratch.start_time(), force: arguments.force };
    let was_begun = fork.has_begun_commit();
    match progress::with_progress("run: committing", |_| fork.commit(&options)) {
        Ok(committed) => finish(arguments, &committed, scratch),
        Err(error) => {
            if let CommitError::Conflicts { conflicts, .. } = &error {
                conflicts.iter().for_each(|Conflict { path, change }| {
                    notify(&format!("/{} was {change} by others", String::from_utf8_lossy(path)));
                });
            }
            let path = scratch.path().display();
            let so_far = match (error.done(), was_begun) {
                (0, false) => "nothing is committed".to_owned(),
                (0, true) => "nothing is committed beside what was committed before".to_owned(),
                (done, false) => format!("{done} changes are committed, the others are not"),
                (done, true) => format!("{done} more changes are committed, the others are not"),
            };
            let remedy = match error {
                CommitError::Conflicts { .. } => {
                    format!("to overwrite their changes: plyfs run --scratch {path} --commit --force")
                }
                CommitError::Stopped { .. } | CommitError::Records { .. } => {
                    format!("to continue, fix the cause, then: plyfs run --scratch {path} --commit")
                }
            };
            Err(Failure::new(Exit::Failure, format!("{error}: {so_far}; the fork is kept; {remedy}")))
        }
    }
}

/// Removes the fork after all changes were committed, unless it still contains something that the stack does not keep.
fn finish(arguments: &Run, committed: &Committed, scratch: &ScratchDirectory) -> Outcome {
    committed.lost.iter().for_each(|(path, lost)| {
        notify(&format!(
            "/{} was committed without metadata that the stack cannot store: {lost}",
            String::from_utf8_lossy(path)
        ));
    });
    if committed.lost.is_empty() || arguments.force {
        return scratch.remove();
    }
    let path = scratch.path().display();
    let message = format!(
        "all changes are committed, except metadata that the stack cannot store; the fork, which has it, is kept; \
         to remove it: plyfs run --scratch {path} --discard"
    );
    Err(Failure::new(Exit::Failure, message))
}

/// Asks on the terminal. Without one, the changes are kept.
fn prompt(scratch: &ScratchDirectory) -> Decision {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Decision::Keep;
    }
    // An interrupted user keeps the changes as well, and has been informed of their location.
    session::set_signals_terminate(true);
    notify(&format!("the changes are in {}", scratch.path().display()));
    let decision = loop {
        let _ = write!(io::stderr(), "plyfs: commit, discard or keep them? [c/d/k] ");
        let mut answer = String::new();
        match io::stdin().lock().read_line(&mut answer) {
            Ok(length) if length > 0 => {}
            _ => break Decision::Keep,
        }
        match answer.trim().to_lowercase().as_str() {
            "c" | "commit" => break Decision::Commit,
            "d" | "discard" => break Decision::Discard,
            "k" | "keep" => break Decision::Keep,
            _ => {}
        }
    };
    session::set_signals_terminate(false);
    decision
}

fn keep_message(scratch: &ScratchDirectory) -> String {
    let path = scratch.path().display();
    format!("the changes are kept; to commit or discard them: plyfs run --scratch {path}")
}
