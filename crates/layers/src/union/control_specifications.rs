//! Control commands that a running union accepts.

use crate::control::{ControlArgument, ControlSpecification};

const BRANCH: ControlArgument = ControlArgument::required("branch", "BRANCH|NUMBER");
const NEW_BRANCH: ControlArgument = ControlArgument::required("branch", "BRANCH[=MODE]");
const SNAPSHOT: ControlArgument = ControlArgument::required("name", "NAME");

/// Remedy for failures that leave everything as it was.
const UNCHANGED: &str = "nothing was changed: check the storage of the branches, and try again";
/// What failed, and the remedy, if layers of a branch could not be merged.
const MERGE: (&str, &str) = (
    "the layers cannot be merged",
    "check the storage of the branches: one that `plyfs union list` shows as failed is merged half-way, and answers EIO until that is \
     finished, which is tried again and again",
);

pub(crate) const CONTROLS: &[ControlSpecification] = &[
    ControlSpecification::new("branches", &[], "list the branches, highest priority first"),
    ControlSpecification::new("add", &[NEW_BRANCH, ControlArgument::optional("at", "POSITION")], "add a branch"),
    ControlSpecification::new(
        "rescan",
        &[],
        "add the directories that have come to match a pattern among the branches, and report those that no longer do",
    ),
    ControlSpecification::new(
        "drain",
        &[BRANCH],
        "move everything that users see off a branch to the other rw branches",
    ),
    ControlSpecification::new(
        "balance",
        &[ControlArgument::optional("within", "PERCENT")],
        "move files until the use of the rw branches differs by no more than 5 %, or as given",
    ),
    ControlSpecification::new(
        "consolidate",
        &[ControlArgument::required("path", "PATH")],
        "move the files of each directory, from a path from the root of the union on, to one branch",
    ),
    ControlSpecification::new(
        "which",
        &[ControlArgument::required("path", "PATH")],
        "list as JSON what the branches have of a path from the root of the union",
    ),
    ControlSpecification::new("remove", &[BRANCH], "remove a branch"),
    ControlSpecification::new(
        "mode",
        &[BRANCH, ControlArgument::required("mode", "rw|ro|nc")],
        "change the access mode of a branch",
    ),
    ControlSpecification::new(
        "move",
        &[BRANCH, ControlArgument::required("at", "POSITION")],
        "move a branch to another position",
    ),
    ControlSpecification::new("views", &[], "list the views, in the order in which they are tried"),
    ControlSpecification::new(
        "view-add",
        &[
            ControlArgument::required("branch", "BRANCH"),
            ControlArgument::optional("uid", "UID"),
            ControlArgument::optional("session", "SID"),
            ControlArgument::optional("pid", "PID"),
            ControlArgument::optional("executable", "PATH"),
        ],
        "add a view for a user, session, process or program",
    ),
    ControlSpecification::new("view-remove", &[BRANCH], "remove a view"),
    ControlSpecification::new("snapshots", &[], "list the snapshots as JSON, oldest first"),
    ControlSpecification::new("snapshot-take", &[SNAPSHOT], "take a snapshot")
        .with_failure("the snapshot cannot be taken", UNCHANGED),
    ControlSpecification::new(
        "snapshot-diff",
        &[ControlArgument::required("from", "NAME"), ControlArgument::optional("to", "NAME")],
        "list the differences between a snapshot and a later one, or the current state, as JSON",
    )
    .with_failure("the states cannot be compared", UNCHANGED),
    ControlSpecification::new(
        "snapshot-merge",
        &[ControlArgument::optional("name", "NAME")],
        "drop all snapshots before this one, or all",
    )
    .with_failure(MERGE.0, MERGE.1),
    ControlSpecification::new("snapshot-drop", &[SNAPSHOT], "drop a snapshot").with_failure(MERGE.0, MERGE.1),
    ControlSpecification::new("snapshot-restore", &[SNAPSHOT], "restore a snapshot")
        .with_failure("the union cannot go back to the snapshot", UNCHANGED),
];
