//! The name of `faulty`, its options and its control commands.

use super::fault_rules::FaultRules;
use super::parse;
use crate::control::{ControlArguments, ControlSpecification};
use crate::options::{OptionError, OptionProblem, OptionSpecification, Options, number};
use crate::rules::{self, RuleSource};

pub(crate) const NAME: &str = "faulty";

pub(crate) const OPTIONS: &[OptionSpecification] = &[
    OptionSpecification { key: "rules", value: "FILE", summary: "file of rules, one per line" },
    OptionSpecification { key: "seed", value: "NUMBER", summary: "seed of the random choice by `chance` (default 0)" },
    OptionSpecification { key: "operations", value: "NAME[:NAME]", summary: "operations to disturb (default `all`)" },
    OptionSpecification { key: "offset", value: "FIRST[-LAST]", summary: "only operations on these bytes of a file" },
    OptionSpecification {
        key: "from",
        value: "COUNT",
        summary: "number of the first matching operation to disturb (default 1)",
    },
    OptionSpecification { key: "every", value: "COUNT", summary: "disturb only every COUNTth of them (default 1)" },
    OptionSpecification {
        key: "times",
        value: "COUNT",
        summary: "maximum number of disturbed operations (default unlimited)",
    },
    OptionSpecification { key: "chance", value: "PERCENT", summary: "probability of a fault (default 100)" },
    OptionSpecification { key: "delay", value: "MILLISECONDS", summary: "delay the operation first" },
    OptionSpecification { key: "error", value: "ERRNO", summary: "fail without performing the operation" },
    OptionSpecification { key: "late-error", value: "ERRNO", summary: "perform the operation, then fail" },
    OptionSpecification { key: "short", value: "BYTES", summary: "read, write or copy at most this many bytes" },
    OptionSpecification {
        key: "room",
        value: "BYTES",
        summary: "simulated free space, shared by all operations: beyond it they are short, then fail with ENOSPC",
    },
    OptionSpecification {
        key: "stop",
        value: "yes|no",
        summary: "block the operation until the rules are changed or switched off",
    },
];

pub(crate) const CONTROLS: &[ControlSpecification] = &[
    ControlSpecification::new("on", &[], "switch the rules on"),
    ControlSpecification::new("off", &[], "switch the rules off, and let stopped operations continue"),
    ControlSpecification {
        name: "set",
        arguments: ControlArguments::Options(OPTIONS),
        summary: "replace the rules by those that the options define, or by none",
        failure: None,
    },
    ControlSpecification::new("stats", &[], "print the number of operations and faults since the rules were set"),
];

/// Builds the rules that the options define.
pub(crate) fn read_rules(pairs: &[(String, String)]) -> Result<FaultRules, OptionError> {
    let options = Options::new(NAME, OPTIONS, pairs)?;
    let seed = options.read("seed", number)?.unwrap_or(0);
    let rules = match rules::rule_source(&options, &parse::RULE_KEYS, parse::rule)? {
        RuleSource::File(rules) => rules,
        RuleSource::Options(keys) => vec![rule_from_options(&options, &keys)?],
        RuleSource::None => Vec::new(),
    };
    Ok(FaultRules::new(rules, seed))
}

/// Builds the single rule that the options define together.
fn rule_from_options(
    options: &Options<'_>,
    keys: &[&'static str],
) -> Result<super::fault_rules::FaultRule, OptionError> {
    let mut rule = parse::match_all_rule();
    for (index, key) in keys.iter().enumerate() {
        if let Some(&with) = keys[..index].iter().find(|other| parse::both_are_effects(key, other)) {
            return Err(options.error(key, OptionProblem::Conflict { with }));
        }
        options.read(key, |value| parse::set_key(&mut rule, key, value))?;
    }
    if rule.fault == parse::match_all_rule().fault {
        return Err(options.error("error", OptionProblem::Missing));
    }
    Ok(rule)
}
