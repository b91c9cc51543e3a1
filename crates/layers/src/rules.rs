//! Rules of layers: one from options or many from a file, made of `key=value` parts, and the sets of operations they
//! select.

use vnode::Errno;
use vnode::layer::Operation;

use crate::options::{OptionError, OptionProblem, Options, one_of};
use crate::text_file;

/// Source of a layer's rules.
pub(crate) enum RuleSource<R> {
    /// Rules from the file named by the option `rules`.
    File(Vec<R>),
    /// A single rule, formed by the options with these keys together.
    Options(Vec<&'static str>),
    /// No rules.
    None,
}

/// Determines the source of the rules. `keys` are the options that form one rule; `rule` parses a line of a file.
///
/// # Errors
/// Fails if options are given together with a file, or if the file cannot be read or parsed.
pub(crate) fn rule_source<R>(
    options: &Options<'_>,
    keys: &[&'static str],
    rule: impl Fn(&str) -> Result<R, String>,
) -> Result<RuleSource<R>, OptionError> {
    let inline: Vec<&'static str> = keys.iter().copied().filter(|key| options.text(key).is_some()).collect();
    match (options.text("rules"), inline.first()) {
        (Some(_), Some(key)) => Err(options.error(key, OptionProblem::Conflict { with: "rules" })),
        (Some(path), None) => {
            let unusable = |error| options.error("rules", OptionProblem::File { path: path.to_owned(), error });
            let text = text_file::read(path).map_err(unusable)?;
            lines(path, &text, rule).map(RuleSource::File).map_err(|problem| options.error("rules", problem))
        }
        (None, Some(_)) => Ok(RuleSource::Options(inline)),
        (None, None) => Ok(RuleSource::None),
    }
}

/// Parses a rule file: one rule per line, except for empty lines and comments.
///
/// # Errors
/// Fails if a line cannot be parsed.
pub(crate) fn lines<R>(
    path: &str,
    text: &str,
    rule: impl Fn(&str) -> Result<R, String>,
) -> Result<Vec<R>, OptionProblem> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(line, text)| {
            rule(text).map_err(|message| OptionProblem::FileLine { path: path.to_owned(), line, message })
        })
        .collect()
}

/// Parses the parts of a rule, each with one of the keys and each key at most once. `set` receives the keys before the
/// part, its key and its value.
///
/// # Errors
/// Returns a description of the problem with a part.
pub(crate) fn parts(
    words: impl IntoIterator<Item = impl AsRef<str>>,
    keys: &[&'static str],
    mut set: impl FnMut(&[&'static str], &str, &str) -> Result<(), String>,
) -> Result<(), String> {
    let mut seen = Vec::new();
    for word in words {
        let word = word.as_ref();
        let Some((key, value)) = word.split_once('=') else { return Err(format!("`{word}` is not `key=value`")) };
        let Some(&known) = keys.iter().find(|known| **known == key) else {
            return Err(format!("no `{key}` in a rule; it may have {}", one_of(keys.iter().copied())));
        };
        if seen.contains(&known) {
            return Err(format!("`{key}` is given twice"));
        }
        set(&seen, key, value)?;
        seen.push(known);
    }
    Ok(())
}

/// Formats the error that a part cannot have this value.
pub(crate) fn bad_value(key: &str, value: &str, expected: &str) -> String {
    format!("`{key}` cannot be `{value}`: expected {expected}")
}

/// Parses a list of operation names into a bit set, indexed by position in [`Operation::NAMES`].
///
/// # Errors
/// Returns a description of what is expected.
pub(crate) fn operations(list: &str) -> Result<u64, String> {
    list.split(':').try_fold(0, |set, word| match word {
        "all" => Ok(all_operations()),
        _ => match index(word) {
            Some(index) => Ok(set | 1 << index),
            None => {
                let valid = one_of(Operation::NAMES.iter().copied().chain(["all"]));
                Err(format!("a list of operations: {valid}"))
            }
        },
    })
}

/// Returns the set of all operations.
pub(crate) fn all_operations() -> u64 {
    (1 << Operation::NAMES.len()) - 1
}

/// Returns the index of the named operation.
pub(crate) fn index(operation: &str) -> Option<usize> {
    Operation::NAMES.iter().position(|name| *name == operation)
}

/// Returns the error with this name, such as `EIO`.
pub(crate) fn error_named(name: &str) -> Option<Errno> {
    (1..200).map(Errno::new).find(|error| error.name() == Some(name))
}
