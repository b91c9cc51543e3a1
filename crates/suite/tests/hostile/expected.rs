//! The expected differences of a mount, each with its reason.

use std::sync::atomic::{AtomicBool, Ordering};

use super::CallNames;
use super::fixture::CallOutcome;
use super::stacks::HostileStack;

/// An expected difference; it applies where all fields that are set match.
struct ExpectedDifference {
    stacks: &'static [&'static str],
    user: Option<&'static str>,
    /// Substrings of the names of the object and of the call.
    object: Option<&'static str>,
    call: Option<&'static str>,
    difference: DifferenceKind,
    reason: &'static str,
}

enum DifferenceKind {
    /// The results differ, with these prefixes on the native file system and in the mount; the objects do not.
    Results(&'static str, &'static str),
    /// The change time is updated only on the native file system.
    TimeOfChange,
    /// The mount refuses to let the superuser read symlinks afterwards.
    UnreadLinks,
    /// The mount refuses the call, whatever the native result.
    Refusal,
    Any,
}

const ALL: &[&str] =
    &["dir", "dir|map", "union", "union of what is below", "dir|audit", "mem", "dir|sizes.fist", "dir|rules.fist"];

/// Stacks for which the kernel checks no permissions, since a layer has to see refused operations.
const UNCHECKED: &[&str] = &["dir|audit", "dir|rules.fist"];

/// Returns an expected difference in the results, in all stacks.
const fn results(
    object: Option<&'static str>,
    call: &'static str,
    (native, mounted): (&'static str, &'static str),
    reason: &'static str,
) -> ExpectedDifference {
    let difference = DifferenceKind::Results(native, mounted);
    ExpectedDifference { stacks: ALL, user: None, object, call: Some(call), difference, reason }
}

/// Returns a difference where the kernel decides the result before permissions are checked, which it does only where
/// it does not check them itself.
const fn unchecked(call: &'static str, mounted: &'static str, reason: &'static str) -> ExpectedDifference {
    ExpectedDifference { stacks: UNCHECKED, ..results(None, call, ("EACCES", mounted), reason) }
}

/// Returns the same difference in another user's sticky directory, in which the caller may not remove the object.
const fn in_sticky(line: ExpectedDifference) -> ExpectedDifference {
    let DifferenceKind::Results(_, mounted) = line.difference else { panic!("no results") };
    ExpectedDifference {
        object: Some("in a sticky directory"),
        difference: DifferenceKind::Results("EPERM", mounted),
        ..line
    }
}

const fn special(object: &'static str) -> ExpectedDifference {
    ExpectedDifference {
        stacks: UNCHECKED,
        user: None,
        object: Some(object),
        call: None,
        difference: DifferenceKind::Refusal,
        reason: "pipes, sockets and devices are found only by who may both read and write them",
    }
}

const fn of_namespace(object: &'static str) -> ExpectedDifference {
    ExpectedDifference {
        stacks: ALL,
        user: Some("root of a namespace, owner"),
        object: Some(object),
        call: None,
        difference: DifferenceKind::Any,
        reason: "the base has the last word, and knows of no power over one's own files in a user namespace",
    }
}

const NO_FLAGS: &str =
    "the kernel answers access(2) by the mode, and is told of no flags of chattr(1); what is tried is refused";

const SAME_AS_BEFORE_WRITE: &str = "the kernel asks alike before a write, which the user may: for others than the owner nothing changes, without an error";
const A_DIRECTORY: &str = "the kernel answers that it is a directory";
const NO_DIRECTORY: &str = "the kernel answers that one is no directory";

const EXPECTED: &[ExpectedDifference] = &[
    results(Some("immutable"), "access: write", ("EPERM", "ok"), NO_FLAGS),
    results(Some("immutable directory"), "access: all", ("EPERM", "ok"), NO_FLAGS),
    results(Some("immutable file"), "access: all", ("EPERM", "EACCES"), NO_FLAGS),
    results(
        Some("immutable"),
        "link",
        ("EPERM", "EACCES"),
        "what protected_hardlinks forbids the kernel answers by the mode, and is told of no flags of chattr(1)",
    ),
    results(
        Some("immutable"),
        "change nothing of the owner",
        ("EPERM", "ok"),
        "the kernel asks to change nothing, and is told of no flags of chattr(1)",
    ),
    results(Some("immutable directory"), "unlink", ("EPERM", "EISDIR"), A_DIRECTORY),
    results(Some("immutable directory"), "rename over it", ("EPERM", "EISDIR"), A_DIRECTORY),
    results(Some("immutable directory"), "rename it over another's", ("EPERM", "ENOTDIR"), NO_DIRECTORY),
    results(Some("immutable file"), "remove a directory", ("EPERM", "ENOTDIR"), NO_DIRECTORY),
    results(Some("file that only grows"), "remove a directory", ("EPERM", "ENOTDIR"), NO_DIRECTORY),
    results(
        Some("immutable directory"),
        "move from below",
        ("EPERM", "EACCES"),
        "the kernel checks the other directory before it asks about this one, and is told of no flags of chattr(1)",
    ),
    results(
        Some("set-user-id program for all to write"),
        "change nothing of the owner",
        ("EPERM", "ok"),
        SAME_AS_BEFORE_WRITE,
    ),
    ExpectedDifference {
        user: Some("member of the group"),
        ..results(Some("set-group-id program"), "change nothing of the owner", ("EPERM", "ok"), SAME_AS_BEFORE_WRITE)
    },
    ExpectedDifference {
        stacks: ALL,
        user: None,
        object: None,
        call: Some("change nothing of the owner"),
        difference: DifferenceKind::TimeOfChange,
        reason: "the kernel asks to change nothing, which takes privileges of programs away and leaves the time of change",
    },
    ExpectedDifference {
        stacks: UNCHECKED,
        user: None,
        object: Some("sticky directory"),
        call: None,
        difference: DifferenceKind::UnreadLinks,
        reason: "others' symlinks in sticky directories are not read: the kernel asks for that whether it is to follow them or not",
    },
    of_namespace("file for nobody"),
    of_namespace("file of the group"),
    of_namespace("program to be executed only"),
    ExpectedDifference {
        stacks: &["dir|map"],
        user: Some("root of a namespace, owner"),
        object: None,
        call: Some("set capabilities"),
        difference: DifferenceKind::Any,
        reason: "capabilities name the user of a namespace by an id below, which users of a map do not see",
    },
    ExpectedDifference {
        stacks: &["mem", "dir|sizes.fist", "dir|rules.fist"],
        user: None,
        object: Some("program with capabilities"),
        call: Some("map and write"),
        difference: DifferenceKind::Any,
        reason: "pages come from the kernel as what is written does, and that takes capabilities away",
    },
    ExpectedDifference {
        stacks: &["dir|sizes.fist"],
        user: None,
        object: Some("file that only grows"),
        call: Some("append"),
        difference: DifferenceKind::Any,
        reason: "a layer that keeps data in another form writes the last block again, which the flag forbids",
    },
    ExpectedDifference {
        stacks: &["union of what is below"],
        user: None,
        object: Some("file that only grows"),
        call: None,
        difference: DifferenceKind::Any,
        reason: "a copy in another branch is an ordinary file, so that a log goes on after a snapshot",
    },
    unchecked("unlink", "EISDIR", A_DIRECTORY),
    in_sticky(unchecked("unlink", "EISDIR", A_DIRECTORY)),
    unchecked("rename over it", "EISDIR", A_DIRECTORY),
    in_sticky(unchecked("rename over it", "EISDIR", A_DIRECTORY)),
    unchecked("rename it over another's", "ENOTDIR", NO_DIRECTORY),
    in_sticky(unchecked("rename it over another's", "ENOTDIR", NO_DIRECTORY)),
    unchecked("remove a directory", "ENOTDIR", NO_DIRECTORY),
    in_sticky(unchecked("remove a directory", "ENOTDIR", NO_DIRECTORY)),
    unchecked("open without access time", "EPERM", "the kernel answers that the caller does not own it"),
    unchecked("make a device below", "EPERM", "the kernel answers that the caller may make no devices"),
    special("pipe"),
    special("socket"),
    special("device"),
];

/// Records for each entry whether it matched a difference.
static WAS_MATCHED: [AtomicBool; EXPECTED.len()] = [const { AtomicBool::new(false) }; EXPECTED.len()];

/// Returns whether a difference is expected.
pub(crate) fn is_expected(
    stack: &HostileStack,
    (user, object, call, _): CallNames,
    native: &CallOutcome,
    mounted: &CallOutcome,
) -> bool {
    let mut is_expected = false;
    for (line, was_matched) in EXPECTED.iter().zip(&WAS_MATCHED) {
        let applies = line.stacks.contains(&stack.title)
            && line.user.is_none_or(|expected| user == expected)
            && line.object.is_none_or(|expected| object.contains(expected))
            && line.call.is_none_or(|expected| call.contains(expected))
            && line.difference.is_between(native, mounted);
        was_matched.fetch_or(applies, Ordering::Relaxed);
        is_expected |= applies;
    }
    is_expected
}

impl DifferenceKind {
    fn is_between(&self, native: &CallOutcome, mounted: &CallOutcome) -> bool {
        match self {
            Self::Results(first, second) => {
                native.result.starts_with(first) && mounted.result.starts_with(second) && native.state == mounted.state
            }
            Self::TimeOfChange => {
                let unchanged = |line: &String| line.trim_end_matches(super::state::CHANGED).to_owned();
                native.result == mounted.result && native.state.iter().map(unchanged).eq(mounted.state.iter().cloned())
            }
            Self::UnreadLinks => {
                let is_unread = |line: &str, native: &str| {
                    let (of, target) = line.split_once(" to ").unwrap_or_default();
                    target.starts_with("Err(Os { code: 13") && native.split(" to ").next() == Some(of)
                };
                native.result == mounted.result
                    && native.state.len() == mounted.state.len()
                    && native.state.iter().zip(&mounted.state).all(|(one, other)| one == other || is_unread(other, one))
            }
            Self::Refusal => mounted.result.starts_with("EACCES"),
            Self::Any => true,
        }
    }
}

/// Returns the reasons of the entries that matched nothing, except for change times: not all kernels have fine-grained
/// ones.
pub(crate) fn unmatched_reasons() -> Vec<&'static str> {
    let is_unmatched = |(line, was_matched): &(&ExpectedDifference, &AtomicBool)| {
        !matches!(line.difference, DifferenceKind::TimeOfChange) && !was_matched.load(Ordering::Relaxed)
    };
    EXPECTED.iter().zip(&WAS_MATCHED).filter(is_unmatched).map(|(line, _)| line.reason).collect()
}
