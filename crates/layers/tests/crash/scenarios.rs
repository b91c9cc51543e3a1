//! The unions and operations that are tried.

use super::scene::Operation::{
    Append, Chmod, Create, Device, Drain, Exchange, Fifo, Link, Mkdir, OpenAndTruncate, OpenToWrite, Rename,
    RenameWhiteout, Resize, Rmdir, SetXattr, Snapshot, SnapshotOfOpen, Symlink, Unlink,
};
use super::scene::{Operation, Scenario};

type Branches = &'static [(&'static str, &'static [&'static str])];

const fn scenario(name: &'static str, branches: Branches, operation: Operation) -> Scenario {
    Scenario { name, branches, earlier: &[], operation }
}

const fn later(
    name: &'static str,
    branches: Branches,
    earlier: &'static [Operation],
    operation: Operation,
) -> Scenario {
    Scenario { name, branches, earlier, operation }
}

/// The one of that name.
pub(crate) fn named(name: &str) -> &'static Scenario {
    all().find(|scenario| scenario.name == name).unwrap_or_else(|| panic!("there is no {name}"))
}

/// Each of them.
pub(crate) fn all() -> impl Iterator<Item = &'static Scenario> {
    let all = [COPY_UP, METACOPY, FULL_BRANCH, RENAME_FILE, RENAME_DIRECTORY, REMOVE, CREATE, DRAIN, SNAPSHOT];
    all.into_iter().flatten()
}

const DEEP: Branches = &[("rw", &[]), ("ro", &["a/b/c/f", "a/b/g", "other"])];
const LINKED: Branches = &[("rw", &["x"]), ("ro", &["a/f", "a/g=a/f", "b/h=a/f", "b/i=a/f"])];

pub(crate) const COPY_UP: &[Scenario] = &[
    scenario("copy-up to write", DEEP, OpenToWrite("a/b/c/f")),
    scenario("copy-up to truncate on opening", DEEP, OpenAndTruncate("a/b/c/f")),
    scenario("copy-up to resize", DEEP, Resize("a/b/c/f", 3)),
    scenario("copy-up to lengthen", DEEP, Resize("a/b/c/f", 300)),
    scenario("copy-up of a set-id file to resize", &[("rw", &[]), ("ro", &["a/f*"])], Resize("a/f", 3)),
    scenario("copy-up to change the mode", DEEP, Chmod("a/b/c/f")),
    scenario("copy-up of a directory", DEEP, Chmod("a/b")),
    scenario("copy-up to set an attribute", DEEP, SetXattr("a/b/g")),
    scenario("copy-up of a symlink's name", &[("rw", &[]), ("ro", &["a/l>target"])], Link("a/l", "m")),
    scenario("copy-up of a file with several names to write", LINKED, OpenToWrite("a/f")),
    scenario("copy-up of a file with several names to truncate", LINKED, OpenAndTruncate("b/h")),
    scenario("copy-up of a file with several names to change the mode", LINKED, Chmod("a/g")),
    later("copy-up of a copied file by another name", LINKED, &[Chmod("a/g")], OpenToWrite("a/f")),
    scenario(
        "copy-up past a branch",
        &[("rw", &["a/"]), ("ro", &["a/b/"]), ("nc", &["a/b/f"]), ("ro", &["a/b/c/f"])],
        Chmod("a/b/c/f"),
    ),
];

/// With `metacopy=on`: what has been copied is without its data.
pub(crate) const METACOPY: &[Scenario] = &[
    later("data come to write", DEEP, &[SetXattr("a/b/c/f")], OpenToWrite("a/b/c/f")),
    later("data come to a set-id file", DEEP, &[Chmod("a/b/c/f")], OpenToWrite("a/b/c/f")),
    later("a file without data is truncated on opening", DEEP, &[SetXattr("a/b/c/f")], OpenAndTruncate("a/b/c/f")),
    later("a file without data is made shorter", DEEP, &[SetXattr("a/b/c/f")], Resize("a/b/c/f", 3)),
    later("a set-id file without data is made shorter", DEEP, &[Chmod("a/b/c/f")], Resize("a/b/c/f", 3)),
    later("a file without data is made longer", DEEP, &[SetXattr("a/b/c/f")], Resize("a/b/c/f", 300)),
    later("data come to a file with several names", DEEP, &[Link("a/b/c/f", "a/h")], OpenToWrite("a/b/c/f")),
    later("data come to a moved file", DEEP, &[Rename("a/b/c/f", "a/h"), Rename("a", "d")], OpenToWrite("d/h")),
    later("rename of a file without data", DEEP, &[Chmod("a/b/g")], Rename("a/b/g", "other")),
    later("rename over a file without data", DEEP, &[Chmod("a/b/g")], Rename("other", "a/b/g")),
    later("exchange with a file without data", DEEP, &[Chmod("a/b/g")], Exchange("a/b/g", "other")),
    later("link of a file without data", DEEP, &[Chmod("a/b/g")], Link("a/b/g", "h")),
    later("unlink of a file without data", DEEP, &[Chmod("a/b/g")], Unlink("a/b/g")),
    later("rename of a directory with a file without data", DEEP, &[Chmod("a/b/g")], Rename("a/b", "d")),
];

/// With `when-full=move`.
pub(crate) const FULL_BRANCH: &[Scenario] = &[
    // Written before, since a write that finds no room sets the time all the same.
    later(
        "move of a file that is written",
        &[("rw", &[]), ("full", &["d/f", "d/g"])],
        &[OpenAndTruncate("d/f")],
        Append("d/f"),
    ),
    later(
        "move of a file that hides another",
        &[("rw", &["d/"]), ("full", &["d/f"]), ("rw", &["d/f"])],
        &[OpenAndTruncate("d/f")],
        Append("d/f"),
    ),
    // Used before: the union's own directory needs room.
    later(
        "copy-up past a full branch",
        &[("rw", &[]), ("full", &[]), ("ro", &["d/f", "x"])],
        &[SetXattr("x")],
        OpenToWrite("d/f"),
    ),
    later(
        "copy-up past a full branch of a file with several names",
        &[("rw", &[]), ("full", &[]), ("ro", &["d/f", "g=d/f", "x"])],
        &[SetXattr("x")],
        OpenToWrite("d/f"),
    ),
];

pub(crate) const RENAME_FILE: &[Scenario] = &[
    scenario("rename in one branch", &[("rw", &["f", "d/"])], Rename("f", "d/g")),
    scenario("rename in one branch over a file", &[("rw", &["f", "d/g"])], Rename("f", "d/g")),
    scenario("rename over what is on the right", &[("rw", &["f"]), ("ro", &["g"])], Rename("f", "g")),
    scenario("rename with something on the right to hide", &[("rw", &["f"]), ("ro", &["f"])], Rename("f", "g")),
    scenario("rename to where a whiteout is", &[("rw", &["f", ".wh.g"]), ("ro", &["g"])], Rename("f", "g")),
    scenario("rename to where a device is the whiteout", &[("rw", &["f", "g!"]), ("ro", &["g"])], Rename("f", "g")),
    scenario("rename from a read-only branch", &[("rw", &["d/"]), ("ro", &["a/f", "a/g"])], Rename("a/f", "d/g")),
    scenario("rename from a read-only branch over a file there", &[("rw", &[]), ("ro", &["f", "g"])], Rename("f", "g")),
    scenario("rename over a file on the left", &[("rw", &["g"]), ("rw", &["f"])], Rename("f", "g")),
    scenario(
        "rename over a file on the left and another between",
        &[("rw", &["g"]), ("rw", &["g"]), ("rw", &["f", "g"]), ("ro", &["f", "g"])],
        Rename("f", "g"),
    ),
    scenario(
        "rename over a file on the left and a read-only one between",
        &[("rw", &["g"]), ("ro", &["g"]), ("rw", &["f"])],
        Rename("f", "g"),
    ),
    scenario("rename over a file on the right", &[("rw", &["f"]), ("rw", &["g"])], Rename("f", "g")),
    scenario(
        "rename over a file on the right with two names",
        &[("rw", &["f"]), ("rw", &["g", "h=g"])],
        Rename("f", "g"),
    ),
    scenario(
        "rename over a file on the left with two names",
        &[("rw", &["g", "h=g"]), ("rw", &["f"])],
        Rename("f", "g"),
    ),
    scenario("rename of one of several names", LINKED, Rename("a/f", "b/j")),
    scenario("rename over one of several names", LINKED, Rename("x", "a/f")),
    later("rename of a name of a copied file", LINKED, &[Chmod("a/g")], Rename("b/h", "a/h")),
    later("rename over a name of a copied file", LINKED, &[Chmod("a/g")], Rename("x", "b/h")),
    scenario("rename to what is hidden on the left", &[("rw", &[".wh.g"]), ("rw", &["f", "g"])], Rename("f", "g")),
    scenario("exchange of files of two writable branches", &[("rw", &["f"]), ("rw", &["d/g"])], Exchange("f", "d/g")),
    scenario("exchange of files", &[("rw", &["f"]), ("ro", &["d/g"])], Exchange("f", "d/g")),
    scenario("exchange of a file and a directory", &[("rw", &["f"]), ("ro", &["d/g"])], Exchange("f", "d")),
    scenario("rename with a whiteout", &[("rw", &["f", "d/"])], RenameWhiteout("f", "d/g")),
    scenario(
        "rename with a whiteout from a read-only branch over a file there",
        &[("rw", &[]), ("ro", &["f", "g"])],
        RenameWhiteout("f", "g"),
    ),
    scenario(
        "rename with a whiteout over a file on the left",
        &[("rw", &["g"]), ("rw", &["f"])],
        RenameWhiteout("f", "g"),
    ),
];

pub(crate) const RENAME_DIRECTORY: &[Scenario] = &[
    scenario("rename of a directory of one branch", &[("rw", &["d/f", "e/"])], Rename("d", "e/g")),
    scenario(
        "rename of a directory of a read-only branch",
        &[("rw", &[]), ("ro", &["a/d/f", "e/h"])],
        Rename("a/d", "e/g"),
    ),
    scenario(
        "rename of a directory of several branches",
        &[("rw", &["d/f", "d/s/x"]), ("ro", &["d/g", "d/s/y", "e/h"]), ("ro", &["d/k"])],
        Rename("d", "e/g"),
    ),
    later(
        "rename of a directory that was renamed",
        &[("rw", &["d/f"]), ("ro", &["d/g", "e/h"])],
        &[Rename("d", "e/g")],
        Rename("e/g", "e/i"),
    ),
    scenario(
        "rename of a directory to where a whiteout is",
        &[("rw", &["d/f", ".wh.e"]), ("ro", &["d/k", "e/h"])],
        Rename("d", "e"),
    ),
    scenario(
        "rename of a directory of one branch to where a whiteout is",
        &[("rw", &["d/f", ".wh.e"]), ("ro", &["e/h"])],
        Rename("d", "e"),
    ),
    scenario(
        "rename of a directory over an empty one of the same branch",
        &[("rw", &["d/f", "e/"]), ("ro", &["d/g"])],
        Rename("d", "e"),
    ),
    scenario(
        "rename of a directory over one with whiteouts",
        &[("rw", &["d/f", "e/.wh.h", "e/.wh.i"]), ("ro", &["d/g", "e/h", "e/i"])],
        Rename("d", "e"),
    ),
    scenario(
        "rename of a directory over one with whiteouts, of one branch",
        &[("rw", &["d/f", "e/.wh.h"]), ("ro", &["e/h"])],
        Rename("d", "e"),
    ),
    scenario(
        "rename of a directory over an empty one on the right",
        &[("rw", &["d/f"]), ("ro", &["e/"])],
        Rename("d", "e"),
    ),
    scenario(
        "rename of a directory over an empty one on the left",
        &[("rw", &["e/.wh.x", "e/.wh.y"]), ("rw", &["d/f", "e/x"]), ("ro", &["e/y"])],
        Rename("d", "e"),
    ),
    scenario("exchange of directories", &[("rw", &["d/f"]), ("ro", &["d/g", "a/e/h"])], Exchange("d", "a/e")),
];

pub(crate) const REMOVE: &[Scenario] = &[
    scenario("unlink", &[("rw", &["f"])], Unlink("f")),
    scenario("unlink with something on the right", &[("rw", &["f"]), ("ro", &["f"])], Unlink("f")),
    scenario("unlink in a read-only branch", DEEP, Unlink("a/b/c/f")),
    scenario("unlink in the right of two branches", &[("rw", &["g"]), ("rw", &["f"]), ("ro", &["f"])], Unlink("f")),
    scenario("unlink of one of several names", LINKED, Unlink("a/f")),
    later("unlink of a name of a copied file", LINKED, &[Chmod("a/g")], Unlink("b/h")),
    later(
        "unlink of the last name of a copied file",
        LINKED,
        &[Unlink("a/f"), Unlink("a/g"), Unlink("b/h")],
        Unlink("b/i"),
    ),
    scenario("rmdir", &[("rw", &["d/"])], Rmdir("d")),
    scenario(
        "rmdir of a directory with whiteouts",
        &[("rw", &["d/.wh.f", "d/.wh.g"]), ("ro", &["d/f", "d/g"])],
        Rmdir("d"),
    ),
    scenario("rmdir of an opaque directory", &[("rw", &["d/.wh..wh..opq"]), ("ro", &["d/f"])], Rmdir("d")),
    scenario("rmdir of an empty directory of two branches", &[("rw", &["d/"]), ("ro", &["d/"])], Rmdir("d")),
    scenario("rmdir in a read-only branch", &[("rw", &[]), ("ro", &["a/d/"])], Rmdir("a/d")),
    later(
        "rmdir of a moved directory",
        &[("rw", &["d/f"]), ("ro", &["d/g"])],
        &[Rename("d", "e"), Unlink("e/f"), Unlink("e/g")],
        Rmdir("e"),
    ),
];

pub(crate) const CREATE: &[Scenario] = &[
    scenario("create", DEEP, Create("a/b/c/new")),
    scenario("mkdir", DEEP, Mkdir("a/b/c/new")),
    scenario("create where a whiteout is", &[("rw", &[".wh.f"]), ("ro", &["f"])], Create("f")),
    scenario("create where a device is the whiteout", &[("rw", &["f!"]), ("ro", &["f"])], Create("f")),
    scenario("create where a whiteout is on the left", &[("rw", &[".wh.f"]), ("rw", &["f"])], Create("f")),
    scenario("mkdir where a whiteout is", &[("rw", &["a/.wh.d"]), ("ro", &["a/d/f"])], Mkdir("a/d")),
    scenario("mkdir where a device is the whiteout", &[("rw", &["d!"]), ("ro", &["d/f"])], Mkdir("d")),
    scenario("symlink where a whiteout is", &[("rw", &[".wh.f"]), ("ro", &["f"])], Symlink("f")),
    scenario("fifo where a whiteout is", &[("rw", &[".wh.f"]), ("ro", &["f"])], Fifo("f")),
    scenario("device with the number of whiteouts", &[("rw", &[]), ("ro", &["g"])], Device("f")),
    scenario("device with the number of whiteouts where one is", &[("rw", &[".wh.f"]), ("ro", &["f"])], Device("f")),
    scenario("link", &[("rw", &["f"]), ("ro", &["g"])], Link("g", "h")),
    scenario("link where a whiteout is", &[("rw", &["x", ".wh.f"]), ("ro", &["f"])], Link("x", "f")),
    scenario("link of a file of a read-only branch", DEEP, Link("a/b/c/f", "a/b/new")),
    scenario("link of a file with several names", LINKED, Link("a/f", "a/j")),
    later("link of a copied file by a name that is not copied", LINKED, &[Chmod("a/g")], Link("b/h", "a/j")),
];

/// What was done before and after a snapshot.
const SNAPSHOT_BRANCHES: Branches =
    &[("rw", &["a", "d/x", "d/y", "e/f", "g/"]), ("ro", &["b", "d/z", "l/f", "l/g=l/f", "e/h"])];
const CHANGES: &[Operation] = &[
    Unlink("b"),
    Snapshot("snapshot-take", "first"),
    OpenAndTruncate("d/x"),
    Unlink("d/y"),
    Chmod("l/f"),
    Rename("e", "g/e"),
    Unlink("d/z"),
    Rename("a", "d/a"),
    Mkdir("b"),
    Create("b/new"),
];

/// Users see no difference.
pub(crate) const DRAIN: &[Scenario] = &[
    scenario("drain to the right", &[("rw", &["d/f", "d/l>x", "e/"]), ("rw", &["d/g"])], Drain("branch 0")),
    scenario("drain to the left", &[("rw", &["d/g"]), ("rw", &["d/f", "d/l>x", "e/"])], Drain("branch 1")),
    scenario("drain past a branch", &[("rw", &["d/f*"]), ("ro", &["d/"]), ("rw", &[])], Drain("branch 0")),
    scenario("drain of files with several names", &[("rw", &["f", "g=f", "h"]), ("rw", &[])], Drain("branch 0")),
    later("drain of copies", &[("rw", &[]), ("ro", &["d/f"]), ("rw", &[])], &[Chmod("d/f")], Drain("branch 0")),
];

pub(crate) const SNAPSHOT: &[Scenario] = &[
    later("taking a snapshot", SNAPSHOT_BRANCHES, CHANGES, Snapshot("snapshot-take", "second")),
    later("merging a snapshot", SNAPSHOT_BRANCHES, CHANGES, Snapshot("snapshot-drop", "first")),
    later(
        "merging a snapshot with files without data",
        SNAPSHOT_BRANCHES,
        &[Snapshot("snapshot-take", "first"), SetXattr("d/x"), Rename("a", "n"), SetXattr("b"), Chmod("e/h")],
        Snapshot("snapshot-drop", "first"),
    ),
    later(
        "merging a snapshot with directories moved out of moved ones and into new ones",
        &[("rw", &["p/old", "x/y/u", "q/"]), ("ro", &["p/older", "x/y/f", "s/b/f", "s/g", "m/c/h"])],
        &[
            Rename("s", "t"),
            Rename("m", "k"),
            Snapshot("snapshot-take", "first"),
            Rename("t/b", "c"),
            Unlink("p/old"),
            Unlink("p/older"),
            Rmdir("p"),
            Mkdir("p"),
            Rename("x/y", "p/y"),
            Rename("k/c", "p/y/c"),
        ],
        Snapshot("snapshot-drop", "first"),
    ),
    later("going back to a snapshot", SNAPSHOT_BRANCHES, CHANGES, Snapshot("snapshot-restore", "first")),
    later(
        "taking a snapshot under open files, some written by the kernel",
        SNAPSHOT_BRANCHES,
        CHANGES,
        SnapshotOfOpen("snapshot-take", "second", &["d/x", "g/e/f"], &["l/f", "d/a", "b/new"]),
    ),
    later(
        "merging a snapshot under open files, some written by the kernel",
        SNAPSHOT_BRANCHES,
        CHANGES,
        SnapshotOfOpen("snapshot-drop", "first", &["d/x", "g/e/f"], &["l/f", "d/a", "b/new"]),
    ),
    later(
        "going back to a snapshot under open files",
        SNAPSHOT_BRANCHES,
        CHANGES,
        SnapshotOfOpen("snapshot-restore", "first", &[], &["d/x", "l/f", "l/g"]),
    ),
];
