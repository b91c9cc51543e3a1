//! What differs in a mount, with the reason for each line.

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
    #[allow(dead_code, reason = "it is read by people")]
    reason: &'static str,
}

const ALL: &[&str] = &["dir", "dir|map", "union", "dir|audit", "mem", "dir|sizes.fist", "dir|rules.fist"];

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

pub fn is_expected(stack: &Stack, (user, object, call, way): Names) -> bool {
    EXPECTED.iter().any(|line| {
        line.stacks.contains(&stack.title)
            && line.user.is_none_or(|expected| user == expected)
            && line.object.is_none_or(|expected| object.contains(expected))
            && line.call.is_none_or(|expected| call.contains(expected))
            && line.way.is_none_or(|expected| way == expected)
    })
}
