//! Parser of rules of `audit`: one from options, many from a file.

use super::rules::{AuditRule, DENIED, FAILED, OK, OTHER, ResultClasses, ResultSet, UserSet};
use crate::globs::Globs;
use crate::rules::{self, all_operations, error_named, index, operations};
use crate::users;

/// Keys of a rule's parts.
pub(crate) const RULE_KEYS: [&str; 5] = ["operations", "path", "uid", "except-uid", "result"];

/// Operations on the data of open files and on nothing else, which rules select only by name.
const DATA_OPERATIONS: [&str; 10] =
    ["read", "write", "flush", "fsync", "fallocate", "lseek", "copy_file_range", "lock", "getlk", "poll"];

/// Returns the rules of the papers' Snoopfs: denied or failed lookups, and any other denied operation, by users other
/// than root and the owner.
pub(crate) fn default_rules() -> Vec<AuditRule> {
    let strangers = |operations, classes| AuditRule {
        operations,
        results: ResultSet { classes, errors: Vec::new() },
        except_users: UserSet(vec![0..=0]),
        except_owner: true,
        ..match_all_rule()
    };
    vec![strangers(operation_bit("lookup"), DENIED | FAILED), strangers(non_data_operations(), DENIED)]
}

/// Returns the rule that reports everything except operations on data.
pub(crate) fn match_all_rule() -> AuditRule {
    AuditRule {
        report: true,
        operations: non_data_operations(),
        results: ResultSet { classes: OK | DENIED | FAILED | OTHER, errors: Vec::new() },
        paths: None,
        users: None,
        except_users: UserSet::default(),
        except_owner: false,
    }
}

/// Sets the part of a rule with this key, one of [`RULE_KEYS`].
///
/// # Errors
/// Returns a description of the expected value.
pub(crate) fn set_key(rule: &mut AuditRule, key: &str, value: &str) -> Result<(), String> {
    match key {
        "operations" => rule.operations = operations(value)?,
        "path" => rule.paths = Some(Globs::paths(value)?),
        "uid" => rule.users = Some(parse_users(value)?),
        "result" => rule.results = parse_results(value)?,
        _ => {
            let named: Vec<&str> = value.split(':').filter(|word| *word != "owner").collect();
            rule.except_owner = value.split(':').any(|word| word == "owner");
            rule.except_users = if named.is_empty() { UserSet::default() } else { parse_users(&named.join(":"))? };
        }
    }
    Ok(())
}

/// Parses a line of a rule file: `report` or `ignore`, followed by `key=value` parts.
///
/// # Errors
/// Returns a description of the problem.
pub(crate) fn rule(line: &str) -> Result<AuditRule, String> {
    let mut words = split_words(line)?.into_iter();
    let report = match words.next().as_deref() {
        Some("report") => true,
        Some("ignore") => false,
        other => return Err(format!("a rule starts with `report` or `ignore`, not `{}`", other.unwrap_or_default())),
    };
    let mut rule = AuditRule { report, ..match_all_rule() };
    if !report {
        rule.operations = all_operations();
    }
    rules::parts(words, &RULE_KEYS, |_, key, value| {
        set_key(&mut rule, key, value).map_err(|expected| rules::bad_value(key, value, &expected))
    })?;
    Ok(rule)
}

/// Splits at white space outside double quotes; within them, a backslash escapes the next character.
fn split_words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quoted, mut any) = (Vec::new(), String::new(), false, false);
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => (quoted, any) = (!quoted, true),
            '\\' if quoted => word.push(characters.next().ok_or("a quote is not closed")?),
            _ if character.is_whitespace() && !quoted => {
                if any {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            _ => {
                word.push(character);
                any = true;
            }
        }
    }
    if quoted {
        return Err("a quote is not closed".to_owned());
    }
    if any {
        words.push(word);
    }
    Ok(words)
}

fn parse_results(list: &str) -> Result<ResultSet, String> {
    let mut results = ResultSet { classes: 0, errors: Vec::new() };
    for word in list.split(':') {
        let classes: ResultClasses = match word {
            "ok" => OK,
            "denied" => DENIED,
            "failed" => FAILED,
            "error" => DENIED | FAILED | OTHER,
            "all" => OK | DENIED | FAILED | OTHER,
            _ => {
                let named = error_named(word);
                results.errors.push(named.ok_or("a list of denied, failed, error, ok, all or names such as ENOSPC")?);
                0
            }
        };
        results.classes |= classes;
    }
    Ok(results)
}

fn parse_users(list: &str) -> Result<UserSet, String> {
    let ranges = list.split(':').map(|word| {
        if let Some(user) = users::user(word) {
            return Some(user..=user);
        }
        let (first, last) = word.split_once('-')?;
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last).then_some(first..=last)
    });
    let ranges: Option<Vec<_>> = ranges.collect();
    ranges
        .map(UserSet)
        .ok_or_else(|| "a list of users: numbers, ranges such as 1000-1999, or names that exist".to_owned())
}

fn operation_bit(operation: &str) -> u64 {
    index(operation).map_or(0, |index| 1 << index)
}

fn non_data_operations() -> u64 {
    let data = DATA_OPERATIONS.iter().chain(["release"].iter()).fold(0, |set, name| set | operation_bit(name));
    all_operations() & !data
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
        assert_eq!(message("report\nwatch\n"), (2, "a rule starts with `report` or `ignore`, not `watch`".to_owned()));
        assert_eq!(
            message("report user=1"),
            (1, "no `user` in a rule; it may have operations, path, uid, except-uid or result".to_owned())
        );
        assert!(message("report operations=opn").1.contains("getattr, setattr, access, lookup"));
        assert!(message("report result=EWHAT").1.contains("denied, failed, error, ok, all"));
        assert!(message("report uid=nobody-at-all").1.contains("names that exist"));
        assert!(message("report path=\"a").1.contains("quote"));
        assert!(message("report uid=1 uid=2").1.contains("twice"));
    }

    #[test]
    fn quoted_values_may_contain_spaces() {
        assert_eq!(split_words("report path=\"a b/**\"  uid=0").unwrap(), ["report", "path=a b/**", "uid=0"]);
        assert_eq!(split_words(r#"x "" "\"\\""#).unwrap(), ["x", "", r#""\"#]);
    }

    #[test]
    fn every_operation_on_data_exists() {
        assert!(DATA_OPERATIONS.iter().all(|name| index(name).is_some()));
    }
}
