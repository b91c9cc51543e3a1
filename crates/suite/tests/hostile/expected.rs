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

const EXPECTED: &[Expected] = &[Expected {
    stacks: ALL,
    user: None,
    object: Some("immutable"),
    call: Some("access: write"),
    way: None,
    reason: "the kernel answers access(2) by the mode, and is told of no flags of chattr(1); what is tried is refused",
}];

pub fn is_expected(stack: &Stack, (user, object, call, way): Names) -> bool {
    EXPECTED.iter().any(|line| {
        line.stacks.contains(&stack.title)
            && line.user.is_none_or(|expected| user == expected)
            && line.object.is_none_or(|expected| object.contains(expected))
            && line.call.is_none_or(|expected| call.contains(expected))
            && line.way.is_none_or(|expected| way == expected)
    })
}
