//! Parser of rules of `faulty`: one from options, many from a file.

use std::ops::RangeInclusive;
use std::time::Duration;

use vnode::Errno;

use super::fault_rules::{CHANCE_SCALE, Fault, FaultEffect, FaultRule};
use crate::options::one_of;
use crate::rules::{self, all_operations, error_named, operations};

/// Keys of a rule's parts.
pub(crate) const RULE_KEYS: [&str; 12] = [
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
pub(crate) const EFFECT_KEYS: [&str; 5] = ["error", "late-error", "short", "room", "stop"];

/// Returns the rule that selects every operation and has no effect on it.
pub(crate) fn match_all_rule() -> FaultRule {
    FaultRule {
        operations: all_operations(),
        offsets: None,
        from: 1,
        every: 1,
        times: u64::MAX,
        chance: CHANCE_SCALE,
        fault: Fault { delay: Duration::ZERO, effect: FaultEffect::None },
    }
}

/// Sets the part of a rule with this key, one of [`RULE_KEYS`].
///
/// # Errors
/// Returns a description of the expected value.
pub(crate) fn set_key(rule: &mut FaultRule, key: &str, value: &str) -> Result<(), String> {
    match key {
        "operations" => rule.operations = operations(value)?,
        "offset" => {
            rule.offsets =
                Some(parse_offsets(value).ok_or("an offset in bytes, or a range such as 4096-8191 or 4096-")?)
        }
        "from" => rule.from = parse_positive(value)?,
        "every" => rule.every = parse_positive(value)?,
        "times" => rule.times = parse_positive(value)?,
        "chance" => rule.chance = parse_chance(value).ok_or("a probability in percent, such as 0.5")?,
        "delay" => rule.fault.delay = Duration::from_millis(value.parse().map_err(|_| "a time in milliseconds")?),
        "error" => rule.fault.effect = FaultEffect::Error(parse_error_name(value)?),
        "late-error" => rule.fault.effect = FaultEffect::LateError(parse_error_name(value)?),
        "short" => rule.fault.effect = FaultEffect::Short(value.parse().map_err(|_| "a number of bytes")?),
        "room" => rule.fault.effect = FaultEffect::SpaceLimit(value.parse().map_err(|_| "a number of bytes")?),
        _ => match value {
            "yes" => rule.fault.effect = FaultEffect::Stop,
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
pub(crate) fn rule(line: &str) -> Result<FaultRule, String> {
    let mut rule = match_all_rule();
    rules::parts(line.split_whitespace(), &RULE_KEYS, |seen, key, value| {
        if let Some(other) = seen.iter().find(|other| both_are_effects(key, other)) {
            return Err(format!("`{key}` and `{other}` exclude each other: a rule has one effect"));
        }
        set_key(&mut rule, key, value).map_err(|expected| rules::bad_value(key, value, &expected))
    })?;
    if rule.fault == match_all_rule().fault {
        return Err(format!(
            "the rule does nothing; it needs `delay`, {}",
            one_of(EFFECT_KEYS.map(quoted).iter().map(String::as_str))
        ));
    }
    Ok(rule)
}

/// Returns whether the two keys cannot be given in one rule.
pub(crate) fn both_are_effects(key: &str, other: &str) -> bool {
    [key, other].iter().all(|key| EFFECT_KEYS.contains(key))
}

fn quoted(key: &str) -> String {
    format!("`{key}`")
}

fn parse_offsets(range: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let first = first.parse().ok()?;
    let last = if last.is_empty() { u64::MAX } else { last.parse().ok()? };
    (first <= last).then_some(first..=last)
}

fn parse_positive(number: &str) -> Result<u64, String> {
    number.parse().ok().filter(|number| *number > 0).ok_or_else(|| "a number from 1".to_owned())
}

fn parse_chance(percent: &str) -> Option<u64> {
    let percent: f64 = percent.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some((percent / 100.0 * CHANCE_SCALE as f64).round() as u64)
}

fn parse_error_name(name: &str) -> Result<Errno, String> {
    error_named(name).ok_or_else(|| "the name of an error, such as EIO or ENOSPC".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::OptionProblem;

    #[test]
    fn invalid_rules_report_the_line_and_the_valid_values() {
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
    fn keys_are_parsed() {
        let rules =
            rules::lines("r", "# late\noperations=read:write offset=5- delay=20 late-error=EDQUOT chance=0.5\n", rule)
                .unwrap();
        let expected = Fault { delay: Duration::from_millis(20), effect: FaultEffect::LateError(Errno::EDQUOT) };
        assert_eq!((rules.len(), rules[0].fault, rules[0].chance), (1, expected, 5_000));
        assert_eq!(rules[0].offsets, Some(5..=u64::MAX));
    }
}
