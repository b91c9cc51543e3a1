//! The grammar for editors has the words of the compiler, and its expressions can be used.

use std::collections::BTreeSet;

use plyfs_fist::{builtins, operations, words};
use serde_json::Value;

fn grammar() -> Value {
    serde_json::from_str(include_str!("../../../editors/fist.tmLanguage.json")).unwrap()
}

/// All strings of the grammar that stand under one of these keys.
fn under<'a>(value: &'a Value, keys: &[&str], found: &mut Vec<&'a str>) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| under(one, keys, found)),
        Value::Object(all) => {
            for (key, one) in all {
                match one {
                    Value::String(text) if keys.contains(&key.as_str()) => found.push(text),
                    _ => under(one, keys, found),
                }
            }
        }
        _ => {}
    }
}

/// The list of words of a part of the grammar: the first parenthesis with nothing else in it.
fn list(grammar: &Value, part: &str) -> String {
    let part = &grammar["repository"][part];
    let expression = part["match"].as_str().or(part["begin"].as_str()).unwrap();
    let is_list =
        |list: &&str| list.contains('|') && list.chars().all(|c| c.is_ascii_alphanumeric() || "_|".contains(c));
    expression.split(['(', ')']).map(|list| list.trim_start_matches("?:")).find(is_list).unwrap().to_owned()
}

#[test]
fn regular_expressions_compile() {
    let grammar = grammar();
    let mut expressions = Vec::new();
    under(&grammar, &["match", "begin", "end"], &mut expressions);
    assert!(expressions.len() > 20);
    for expression in expressions {
        let made = fancy_regex::Regex::new(expression);
        assert!(made.is_ok(), "{expression}: {made:?}");
    }
}

#[test]
fn all_includes_exist() {
    let grammar = grammar();
    let mut includes = Vec::new();
    under(&grammar, &["include"], &mut includes);
    for include in includes {
        let part = include.strip_prefix('#').unwrap();
        assert!(grammar["repository"][part].is_object(), "{include}");
    }
}

/// With PLYFS_UPDATE_GRAMMAR=1 the lists that differ are written anew.
#[test]
fn keywords_match_the_compiler() {
    let grammar = grammar();
    let mut updates = Vec::new();
    let mut same = |part: &str, words: Vec<&str>| {
        let list = list(&grammar, part);
        if list.split('|').collect::<BTreeSet<_>>() != words.iter().copied().collect::<BTreeSet<_>>() {
            updates.push((list, words.join("|")));
        }
    };
    let of = |table: &[(&'static str, &'static str)]| table.iter().map(|(name, _)| *name).collect();
    same("sets", of(&words::SETS));
    same("rules", of(&words::SETS));
    same("operations", operations::OPERATIONS.iter().map(|kind| kind.name).collect());
    same("operation-types", of(&words::TYPES));
    same("parts", of(&words::PARTS));
    same("declarations", words::DECLARATIONS.iter().map(|declaration| declaration.name).collect());
    let choices = words::DECLARATIONS.iter().flat_map(|declaration| declaration.choices);
    same("choices", choices.map(|(name, _)| *name).collect::<BTreeSet<_>>().into_iter().collect());
    same("globals", builtins::GLOBALS.iter().map(|(_, name, _)| *name).collect());
    same("attributes", builtins::ATTRIBUTES.iter().map(|(_, name, _)| *name).collect());
    same("built-ins", builtins::SIGNATURES.iter().flat_map(|signature| signature.names).copied().collect());
    let constants = words::errors().map(|(name, _)| name).chain(words::constants().map(|(name, _)| name));
    same("constants", constants.collect());
    same("types", words::types().collect());
    let (controls, storage) = (list(&grammar, "control"), list(&grammar, "storage"));
    let statements: BTreeSet<_> = controls.split('|').chain(storage.split('|')).chain(["sizeof"]).collect();
    assert_eq!(statements, words::STATEMENTS.into());
    if std::env::var_os("PLYFS_UPDATE_GRAMMAR").is_some_and(|value| !value.is_empty()) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../editors/fist.tmLanguage.json");
        let text = std::fs::read_to_string(path).unwrap();
        let text = updates.iter().fold(text, |text, (before, behind)| text.replace(before, behind));
        std::fs::write(path, text).unwrap();
    } else {
        assert!(updates.is_empty(), "PLYFS_UPDATE_GRAMMAR=1 updates {updates:#?}");
    }
}

/// What the expression of a part finds in a line.
fn finds(part: &str, line: &str) -> Vec<String> {
    let grammar = grammar();
    let part = &grammar["repository"][part];
    let expression = part["match"].as_str().or(part["begin"].as_str()).unwrap();
    let expression = fancy_regex::Regex::new(expression).unwrap();
    expression.find_iter(line).map(|found| found.unwrap().as_str().trim().to_owned()).collect()
}

#[test]
fn regular_expressions_match_their_examples() {
    assert_eq!(finds("variables", "$0.owner, $dir:1, $name"), ["$0", "$dir:1", "$name"]);
    assert_eq!(finds("globals", "a %uid, %uids, %pid"), ["%uid", "%pid"]);
    assert_eq!(finds("operations", "%op:unlink:precall"), ["unlink"]);
    assert_eq!(finds("parts", "%op:unlink:precall"), ["precall"]);
    assert_eq!(finds("attributes", "$0.owner + owner"), ["owner"]);
    assert_eq!(finds("declarations", "ioctl:fromuser SETKEY {"), ["ioctl"]);
    assert_eq!(finds("declarations", "%filter data;"), ["%filter"]);
    assert_eq!(finds("rules", " %delops:all"), ["%"]);
    assert!(finds("rules", "a %op").is_empty());
    assert_eq!(finds("sections", "%{"), ["%{"]);
    assert_eq!(finds("numbers", "x1 + 0x1fUL - 12"), ["0x1fUL", "12"]);
}
