//! Parser of rules of `faulty`: one from options, many from a file.

use std::ops::RangeInclusive;
use std::time::Duration;

use vnode::Errno;

use super::script::{CERTAIN, Effect, Fault, Rule};
use crate::options::one_of;
use crate::rules::{self, all_operations, error_named, operations};

/// Keys of a rule's parts.
pub(crate) const KEYS: [&str; 12] = [
    "operations",
    "offset",
    "from",
    "every",
    "times",
    "chance",
    "delay",
    "error",
    "late-error",
    "short",
    "room",
    "stop",
];

/// Keys of effects, of which a rule has at most one.
pub(crate) const EFFECTS: [&str; 5] = ["error", "late-error", "short", "room", "stop"];

/// Returns the rule that selects every operation and has no effect on it.
pub(crate) fn everything() -> Rule {
    Rule {
        operations: all_operations(),
        offsets: None,
        from: 1,
        every: 1,
        times: u64::MAX,
        chance: CERTAIN,
        fault: Fault { delay: Duration::ZERO, effect: Effect::None },
    }
}

/// Sets the part of a rule with this key, one of [`KEYS`].
///
/// # Errors
/// Returns a description of the expected value.
pub(crate) fn set_part(rule: &mut Rule, key: &str, value: &str) -> Result<(), String> {
    match key {
        "operations" => rule.operations = operations(value)?,
        "offset" => {
            rule.offsets = Some(offsets(value).ok_or("an offset in bytes, or a range such as 4096-8191 or 4096-")?)
        }
        "from" => rule.from = positive(value)?,
        "every" => rule.every = positive(value)?,
        "times" => rule.times = positive(value)?,
        "chance" => rule.chance = chance(value).ok_or("a probability in percent, such as 0.5")?,
        "delay" => rule.fault.delay = Duration::from_millis(value.parse().map_err(|_| "a time in milliseconds")?),
        "error" => rule.fault.effect = Effect::Error(error(value)?),
        "late-error" => rule.fault.effect = Effect::LateError(error(value)?),
        "short" => rule.fault.effect = Effect::Short(value.parse().map_err(|_| "a number of bytes")?),
        "room" => rule.fault.effect = Effect::Room(value.parse().map_err(|_| "a number of bytes")?),
        _ => match value {
            "yes" => rule.fault.effect = Effect::Stop,
            "no" => {}
            _ => return Err("yes or no".to_owned()),
        },
    }
    Ok(())
}

/// Parses a line of a rule file: `key=value` parts.
///
/// # Errors
/// Returns a description of the problem.
pub(crate) fn rule(line: &str) -> Result<Rule, String> {
    let mut rule = everything();
    rules::parts(line.split_whitespace(), &KEYS, |seen, key, value| {
        if let Some(other) = seen.iter().find(|other| are_both_effects(key, other)) {
            return Err(format!("`{key}` and `{other}` exclude each other: a rule has one effect"));
        }
        set_part(&mut rule, key, value).map_err(|expected| rules::bad_value(key, value, &expected))
    })?;
    if rule.fault == everything().fault {
        return Err(format!(
            "the rule does nothing; it needs `delay`, {}",
            one_of(EFFECTS.map(quoted).iter().map(String::as_str))
        ));
    }
    Ok(rule)
}

/// Returns whether the two keys cannot be given in one rule.
pub(crate) fn are_both_effects(key: &str, other: &str) -> bool {
    [key, other].iter().all(|key| EFFECTS.contains(key))
}

fn quoted(key: &str) -> String {
    format!("`{key}`")
}

fn offsets(range: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let first = first.parse().ok()?;
    let last = if last.is_empty() { u64::MAX } else { last.parse().ok()? };
    (first <= last).then_some(first..=last)
}

fn positive(number: &str) -> Result<u64, String> {
    number.parse().ok().filter(|number| *number > 0).ok_or_else(|| "a number from 1".to_owned())
}

fn chance(percent: &str) -> Option<u64> {
    let percent: f64 = percent.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some((percent / 100.0 * CERTAIN as f64).round() as u64)
}

fn error(name: &str) -> Result<Errno, String> {
    error_named(name).ok_or_else(|| "the name of an error, such as EIO or ENOSPC".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::OptionProblem;

    #[test]
    fn bad_rules_tell_the_line_and_what_is_valid() {
        let message = |text| match rules::lines("r", text, rule).unwrap_err() {
            OptionProblem::FileLine { line, message, .. } => (line, message),
            other => panic!("{other:?}"),
        };
        assert_eq!(message("error=EIO\nwrite\n"), (2, "`write` is not `key=value`".to_owned()));
        assert!(message("eror=EIO").1.contains("operations, offset, from"));
        assert!(message("error=EWHAT").1.contains("such as EIO or ENOSPC"));
        assert!(message("operations=wirte error=EIO").1.contains("readlink"));
        assert!(message("error=EIO short=3").1.contains("exclude each other"));
        assert!(message("error=EIO error=EIO").1.contains("twice"));
        assert!(message("operations=write").1.contains("does nothing"));
        assert!(message("error=EIO every=0").1.contains("a number from 1"));
        assert!(message("error=EIO offset=9-3").1.contains("4096-8191"));
        assert!(message("error=EIO chance=101").1.contains("percent"));
        assert!(message("stop=maybe").1.contains("yes or no"));
    }

    #[test]
    fn parts_are_read() {
        let rules =
            rules::lines("r", "# late\noperations=read:write offset=5- delay=20 late-error=EDQUOT chance=0.5\n", rule)
                .unwrap();
        let expected = Fault { delay: Duration::from_millis(20), effect: Effect::LateError(Errno::EDQUOT) };
        assert_eq!((rules.len(), rules[0].fault, rules[0].chance), (1, expected, 5_000));
        assert_eq!(rules[0].offsets, Some(5..=u64::MAX));
    }
}
