//! Options of layers: key and value pairs checked against what a layer knows, with errors that tell what it does know.

// Which of the helpers are used depends on the features.
#![allow(dead_code)]

mod error;

use std::str::FromStr;

pub use error::{OptionError, OptionProblem, Refusal};

/// An option that a layer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpecification {
    /// Its key in stack expressions.
    pub key: &'static str,
    /// The form of its value, such as `FILE`, `yes|no`.
    pub value: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
}

/// The pairs that a layer was given, every key known and given once.
pub(crate) struct Options<'a> {
    layer: &'static str,
    known: &'static [OptionSpecification],
    pairs: &'a [(String, String)],
}

impl<'a> Options<'a> {
    /// Checks the keys.
    ///
    /// # Errors
    /// For a key that `known` does not have, or one given twice.
    pub(crate) fn new(
        layer: &'static str,
        known: &'static [OptionSpecification],
        pairs: &'a [(String, String)],
    ) -> Result<Self, OptionError> {
        for (index, (key, _)) in pairs.iter().enumerate() {
            let problem = if !known.iter().any(|option| option.key == key) {
                OptionProblem::UnknownKey { valid: known.iter().map(|option| option.key).collect() }
            } else if pairs[..index].iter().any(|(earlier, _)| earlier == key) {
                OptionProblem::GivenTwice
            } else {
                continue;
            };
            return Err(OptionError { layer, key: key.clone(), problem });
        }
        Ok(Self { layer, known, pairs })
    }

    /// The value of an option, if it was given.
    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        debug_assert!(self.known.iter().any(|option| option.key == key), "`{key}` is not among the known options");
        self.pairs.iter().find(|(given, _)| given == key).map(|(_, value)| value.as_str())
    }

    /// The value of an option read by `read`, which says in words what it expects instead.
    pub(crate) fn read<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'a str) -> Result<T, String>,
    ) -> Result<Option<T>, OptionError> {
        let Some(value) = self.text(key) else { return Ok(None) };
        let bad = |expected| self.error(key, OptionProblem::BadValue { value: value.to_owned(), expected });
        read(value).map(Some).map_err(bad)
    }

    /// The value of an option that is one of a few words.
    pub(crate) fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<Option<T>, OptionError> {
        self.read(key, |value| {
            let found = choices.iter().find(|(word, _)| *word == value);
            found.map(|(_, choice)| *choice).ok_or_else(|| one_of(choices.iter().map(|(word, _)| *word)))
        })
    }

    /// Whether an option says `yes`.
    pub(crate) fn flag(&self, key: &str) -> Result<bool, OptionError> {
        Ok(self.choice(key, &[("yes", true), ("no", false)])?.unwrap_or(false))
    }

    /// An error about one of the options.
    pub(crate) fn error(&self, key: &str, problem: OptionProblem) -> OptionError {
        OptionError { layer: self.layer, key: key.to_owned(), problem }
    }
}

/// `yes or no`, `a, b or c`: what a value may be, for messages.
pub(crate) fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    match words.as_slice() {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Reads a number, or says that one was expected.
pub(crate) fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "a number".to_owned())
}

/// Options as a stack expression writes them, for descriptions.
pub(crate) fn write(pairs: &[(String, String)]) -> String {
    pairs.iter().map(|(key, value)| format!("{key}={}", quote(value))).collect::<Vec<_>>().join(",")
}

/// The value in double quotes if it has anything that a stack expression might read as more than a letter.
fn quote(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/:*?+-@".contains(&byte);
    if !value.is_empty() && value.bytes().all(plain) {
        return value.to_owned();
    }
    let mut quoted = String::from("\"");
    for character in value.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\0'..='\x1f' | '\x7f' => quoted.push_str(&format!("\\x{:02x}", character as u32)),
            _ => quoted.push(character),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[OptionSpecification] = &[
        OptionSpecification { key: "loud", value: "yes|no", summary: "" },
        OptionSpecification { key: "size", value: "BYTES", summary: "" },
    ];

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn errors_name_what_is_valid() {
        let unknown = Options::new("x", KNOWN, &pairs(&[("lod", "yes")])).err().unwrap();
        assert_eq!(unknown.to_string(), "`x` has no option `lod`; it has loud and size");
        let twice = Options::new("x", KNOWN, &pairs(&[("loud", "yes"), ("loud", "no")])).err().unwrap();
        assert_eq!(twice.to_string(), "option `loud` of `x` is given twice");
        let given = pairs(&[("loud", "maybe"), ("size", "x")]);
        let options = Options::new("x", KNOWN, &given).unwrap();
        let value = options.flag("loud").unwrap_err();
        assert_eq!(value.to_string(), "option `loud` of `x` cannot be `maybe`: expected yes or no");
        assert!(value.is_about_value());
        assert_eq!(options.read("size", number::<u32>).unwrap_err().key, "size");
    }

    #[test]
    fn values_are_quoted_where_they_must_be() {
        let given = pairs(&[("a", "/x/*.log:y"), ("b", "say \"hi\", (you)")]);
        assert_eq!(write(&given), r#"a=/x/*.log:y,b="say \"hi\", (you)""#);
    }

    #[test]
    fn an_option_that_is_not_given_has_its_default() {
        let options = Options::new("x", KNOWN, &[]).unwrap();
        assert_eq!(options.flag("loud"), Ok(false));
        assert_eq!(options.read("size", number::<u32>), Ok(None));
    }
}
