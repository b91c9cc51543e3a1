//! Parser of rules of `audit`: one from options, many from a file.

use super::rules::{Class, DENIED, FAILED, OK, OTHER, Results, Rule, Users};
use crate::globs::Globs;
use crate::rules::{self, all_operations, error_named, index, operations};
use crate::users;

/// Keys of a rule's parts.
pub(crate) const KEYS: [&str; 5] = ["operations", "path", "uid", "except-uid", "result"];

/// Operations on the data of open files and on nothing else, which rules select only by name.
const DATA: [&str; 10] =
    ["read", "write", "flush", "fsync", "fallocate", "lseek", "copy_file_range", "lock", "getlk", "poll"];

/// Returns the rules of the papers' Snoopfs: denied or failed lookups, and any other denied operation, by users other
/// than root and the owner.
pub(crate) fn default_rules() -> Vec<Rule> {
    let strangers = |operations, classes| Rule {
        operations,
        results: Results { classes, errors: Vec::new() },
        except_users: Users(vec![0..=0]),
        except_owner: true,
        ..everything()
    };
    vec![strangers(bit("lookup"), DENIED | FAILED), strangers(usual_operations(), DENIED)]
}

/// Returns the rule that reports everything except operations on data.
pub(crate) fn everything() -> Rule {
    Rule {
        report: true,
        operations: usual_operations(),
        results: Results { classes: OK | DENIED | FAILED | OTHER, errors: Vec::new() },
        paths: None,
        users: None,
        except_users: Users::default(),
        except_owner: false,
    }
}

/// Sets the part of a rule with this key, one of [`KEYS`].
///
/// # Errors
/// Returns a description of the expected value.
pub(crate) fn set_part(rule: &mut Rule, key: &str, value: &str) -> Result<(), String> {
    match key {
        "operations" => rule.operations = operations(value)?,
        "path" => rule.paths = Some(Globs::paths(value)?),
        "uid" => rule.users = Some(users_of(value)?),
        "result" => rule.results = results(value)?,
        _ => {
            let named: Vec<&str> = value.split(':').filter(|word| *word != "owner").collect();
            rule.except_owner = value.split(':').any(|word| word == "owner");
            rule.except_users = if named.is_empty() { Users::default() } else { users_of(&named.join(":"))? };
        }
    }
    Ok(())
}

/// Parses a line of a rule file: `report` or `ignore`, followed by `key=value` parts.
///
/// # Errors
/// Returns a description of the problem.
pub(crate) fn rule(line: &str) -> Result<Rule, String> {
    let mut words = words(line)?.into_iter();
    let report = match words.next().as_deref() {
        Some("report") => true,
        Some("ignore") => false,
        other => return Err(format!("a rule starts with `report` or `ignore`, not `{}`", other.unwrap_or_default())),
    };
    let mut rule = Rule { report, ..everything() };
    if !report {
        rule.operations = all_operations();
    }
    rules::parts(words, &KEYS, |_, key, value| {
        set_part(&mut rule, key, value).map_err(|expected| rules::bad_value(key, value, &expected))
    })?;
    Ok(rule)
}

/// Splits at white space outside double quotes; within them, a backslash escapes the next character.
fn words(line: &str) -> Result<Vec<String>, String> {
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

fn results(list: &str) -> Result<Results, String> {
    let mut results = Results { classes: 0, errors: Vec::new() };
    for word in list.split(':') {
        let classes: Class = match word {
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

fn users_of(list: &str) -> Result<Users, String> {
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
        .map(Users)
        .ok_or_else(|| "a list of users: numbers, ranges such as 1000-1999, or names that exist".to_owned())
}

fn bit(operation: &str) -> u64 {
    index(operation).map_or(0, |index| 1 << index)
}

fn usual_operations() -> u64 {
    let data = DATA.iter().chain(["release"].iter()).fold(0, |set, name| set | bit(name));
    all_operations() & !data
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
    fn quoted_values_may_have_blanks() {
        assert_eq!(words("report path=\"a b/**\"  uid=0").unwrap(), ["report", "path=a b/**", "uid=0"]);
        assert_eq!(words(r#"x "" "\"\\""#).unwrap(), ["x", "", r#""\"#]);
    }

    #[test]
    fn every_operation_on_data_exists() {
        assert!(DATA.iter().all(|name| index(name).is_some()));
    }
}
