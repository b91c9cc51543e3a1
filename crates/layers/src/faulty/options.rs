//! The name of `faulty`, its options and its control commands.

use super::fault_rules::FaultRules;
use super::parse;
use crate::control::{ControlArguments, ControlSpecification};
use crate::options::{OptionError, OptionProblem, OptionSpecification, Options, number};
use crate::rules::{self, RuleSource};

pub(crate) const NAME: &str = "faulty";

pub(crate) const OPTIONS: &[OptionSpecification] = &[
    OptionSpecification { key: "rules", value: "FILE", summary: "what is disturbed and how, a rule a line" },
    OptionSpecification { key: "seed", value: "NUMBER", summary: "chooses the operations of `chance` (default 0)" },
    OptionSpecification {
        key: "operations",
        value: "NAME[:NAME]",
        summary: "disturb these operations (default `all`)",
    },
    OptionSpecification {
        key: "offset",
        value: "FIRST[-LAST]",
        summary: "only those that touch these bytes of a file",
    },
    OptionSpecification {
        key: "from",
        value: "COUNT",
        summary: "from this one of the matching operations (default 1)",
    },
    OptionSpecification { key: "every", value: "COUNT", summary: "each so-manieth of them (default 1)" },
    OptionSpecification { key: "times", value: "COUNT", summary: "at most this many (default any number)" },
    OptionSpecification { key: "chance", value: "PERCENT", summary: "with this probability (default 100)" },
    OptionSpecification { key: "delay", value: "MILLISECONDS", summary: "they wait first" },
    OptionSpecification { key: "error", value: "ERRNO", summary: "they fail, and nothing is done" },
    OptionSpecification { key: "late-error", value: "ERRNO", summary: "they are done, and fail" },
    OptionSpecification { key: "short", value: "BYTES", summary: "they read, write or copy at most this much" },
    OptionSpecification {
        key: "room",
        value: "BYTES",
        summary: "there is this much new space for all of them: what needs more is short, then ENOSPC",
    },
    OptionSpecification {
        key: "stop",
        value: "yes|no",
        summary: "they wait until the rules are changed or switched off",
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
