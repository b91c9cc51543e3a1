//! What differs in a mount, with the reason for each line.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Names;
use super::calls::Way;
use super::stacks::Stack;

/// A difference: where any field that is given applies.
struct Expected {
    stacks: &'static [&'static str],
    user: Option<&'static str>,
    object: Option<&'static str>,
    call: Option<&'static str>,
    way: Option<Way>,
    reason: &'static str,
}

const ALL: &[&str] =
    &["dir", "dir|map", "union", "union of what is below", "dir|audit", "mem", "dir|sizes.fist", "dir|rules.fist"];

/// Stacks of which the kernel checks nothing for others, since a layer has to see what is refused.
const UNCHECKED: &[&str] = &["dir|audit", "dir|rules.fist"];

const fn special(object: &'static str) -> Expected {
    Expected {
        stacks: UNCHECKED,
        user: None,
        object: Some(object),
        call: None,
        way: None,
        reason: "pipes, sockets and devices are found only by who may both read and write them",
    }
}

const fn of_namespace(object: &'static str) -> Expected {
    Expected {
        stacks: ALL,
        user: Some("root of a namespace, owner"),
        object: Some(object),
        call: None,
        way: None,
        reason: "the base has the last word, and knows of no power over one's own files in a user namespace",
    }
}

const EXPECTED: &[Expected] = &[
    Expected {
        stacks: ALL,
        user: None,
        object: Some("immutable"),
        call: Some("access: write"),
        way: None,
        reason: "the kernel answers access(2) by the mode, and is told of no flags of chattr(1); what is tried is refused",
    },
    Expected {
        stacks: ALL,
        user: None,
        object: Some("set-user-id program for all to write"),
        call: Some("change nothing of the owner"),
        way: None,
        reason: "the kernel asks alike before a write, which everybody may: for others nothing changes, without an error",
    },
    Expected {
        stacks: ALL,
        user: None,
        object: None,
        call: Some("change nothing of the owner"),
        way: None,
        reason: "the kernel asks to change nothing, which takes set-id bits and capabilities away and leaves the time of change",
    },
    Expected {
        stacks: ALL,
        user: None,
        object: Some("immutable"),
        call: Some("link"),
        way: None,
        reason: "what protected_hardlinks forbids the kernel answers by the mode, and is told of no flags of chattr(1)",
    },
    Expected {
        stacks: UNCHECKED,
        user: None,
        object: Some("directory"),
        call: Some("rename over it"),
        way: None,
        reason: "the kernel answers that it is a directory before it asks",
    },
    of_namespace("file for nobody"),
    of_namespace("file of the group"),
    of_namespace("program to be executed only"),
    Expected {
        stacks: UNCHECKED,
        user: None,
        object: Some("directory"),
        call: Some("unlink"),
        way: None,
        reason: "the kernel answers that it is a directory before it asks",
    },
    special("pipe"),
    special("socket"),
    special("device"),
];

/// Whether something was expected by each line.
static WAS_MET: [AtomicBool; EXPECTED.len()] = [const { AtomicBool::new(false) }; EXPECTED.len()];

/// Whether a difference is expected.
pub fn is_expected(stack: &Stack, (user, object, call, way): Names) -> bool {
    let mut is_expected = false;
    for (line, was_met) in EXPECTED.iter().zip(&WAS_MET) {
        let applies = line.stacks.contains(&stack.title)
            && line.user.is_none_or(|expected| user == expected)
            && line.object.is_none_or(|expected| object.contains(expected))
            && line.call.is_none_or(|expected| call.contains(expected))
            && line.way.is_none_or(|expected| way == expected);
        was_met.fetch_or(applies, Ordering::Relaxed);
        is_expected |= applies;
    }
    is_expected
}

/// The reasons of the lines by which nothing was expected so far.
pub fn needless() -> Vec<&'static str> {
    let lines = EXPECTED.iter().zip(&WAS_MET);
    lines.filter(|(_, was_met)| !was_met.load(Ordering::Relaxed)).map(|(line, _)| line.reason).collect()
}
