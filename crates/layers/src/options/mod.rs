//! Options of layers and bases: key-value pairs, checked against those that a layer or base knows, with errors that list these.

#![allow(dead_code, reason = "which of the helpers are used depends on the features")]

mod error;

use std::str::FromStr;

pub(crate) use error::all_of;
pub use error::{OptionError, OptionProblem, Refusal};

/// An option that a layer or base takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpecification {
    /// Key of the option in stack expressions.
    pub key: &'static str,
    /// Form of the value, such as `FILE` or `yes|no`.
    pub value: &'static str,
    /// One-line summary of what the option does.
    pub summary: &'static str,
}

/// Returns the specification of an option, by its key, the form of its value, and a summary.
pub const fn option(key: &'static str, value: &'static str, summary: &'static str) -> OptionSpecification {
    OptionSpecification { key, value, summary }
}

/// The options given to a layer or base: every key is known and given once.
pub struct Options<'a> {
    member: &'static str,
    specifications: &'static [OptionSpecification],
    pairs: &'a [(String, String)],
}

impl<'a> Options<'a> {
    /// Checks the keys.
    ///
    /// # Errors
    /// Fails if a key is not among `known`, or is given twice.
    pub fn new(
        member: &'static str,
        specifications: &'static [OptionSpecification],
        pairs: &'a [(String, String)],
    ) -> Result<Self, OptionError> {
        for (index, (key, _)) in pairs.iter().enumerate() {
            let problem = if !specifications.iter().any(|option| option.key == key) {
                OptionProblem::UnknownKey { valid: specifications.iter().map(|option| option.key).collect() }
            } else if pairs[..index].iter().any(|(earlier, _)| earlier == key) {
                OptionProblem::GivenTwice
            } else {
                continue;
            };
            return Err(OptionError { member, key: key.clone(), problem });
        }
        Ok(Self { member, specifications, pairs })
    }

    /// Returns the value of an option, if it was given.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        debug_assert!(
            self.specifications.iter().any(|option| option.key == key),
            "`{key}` is not among the known options"
        );
        self.pairs.iter().find(|(candidate, _)| candidate == key).map(|(_, value)| value.as_str())
    }

    /// Returns the value of an option as parsed by `read`, whose error describes what it expects instead.
    pub fn read<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'a str) -> Result<T, String>,
    ) -> Result<Option<T>, OptionError> {
        let Some(value) = self.text(key) else { return Ok(None) };
        let bad = |expected| self.error(key, OptionProblem::BadValue { value: value.to_owned(), expected });
        read(value).map(Some).map_err(bad)
    }

    /// Returns the value of an option that takes one of a few words.
    pub fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<Option<T>, OptionError> {
        self.read(key, |value| {
            let found = choices.iter().find(|(word, _)| *word == value);
            found.map(|(_, choice)| *choice).ok_or_else(|| one_of(choices.iter().map(|(word, _)| *word)))
        })
    }

    /// Returns whether an option is `yes`.
    pub fn flag(&self, key: &str) -> Result<bool, OptionError> {
        Ok(self.choice(key, &[("yes", true), ("no", false)])?.unwrap_or(false))
    }

    /// Builds an error about one of the options.
    pub fn error(&self, key: &str, problem: OptionProblem) -> OptionError {
        OptionError { member: self.member, key: key.to_owned(), problem }
    }
}

/// Joins the valid values of an option for messages, as in `yes or no` and `a, b or c`.
pub(crate) fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    match words.as_slice() {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Parses a number; the error says that one was expected.
pub fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "a number".to_owned())
}

/// Formats options in the syntax of stack expressions, for descriptions.
pub(crate) fn write(pairs: &[(String, String)]) -> String {
    pairs.iter().map(|(key, value)| format!("{key}={}", quote(value))).collect::<Vec<_>>().join(",")
}

/// Puts the value in double quotes if it has any character that a stack expression might not take literally.
pub(crate) fn quote(value: &str) -> String {
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

    const OPTIONS: &[OptionSpecification] = &[
        OptionSpecification { key: "loud", value: "yes|no", summary: "" },
        OptionSpecification { key: "size", value: "BYTES", summary: "" },
    ];

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn errors_name_what_is_valid() {
        let unknown = Options::new("x", OPTIONS, &pairs(&[("lod", "yes")])).err().unwrap();
        assert_eq!(unknown.to_string(), "`x` has no option `lod`; it has loud and size");
        let twice = Options::new("x", OPTIONS, &pairs(&[("loud", "yes"), ("loud", "no")])).err().unwrap();
        assert_eq!(twice.to_string(), "option `loud` of `x` is given twice");
        let pairs = pairs(&[("loud", "maybe"), ("size", "x")]);
        let options = Options::new("x", OPTIONS, &pairs).unwrap();
        let value = options.flag("loud").unwrap_err();
        assert_eq!(value.to_string(), "option `loud` of `x` cannot be `maybe`: expected yes or no");
        assert!(value.is_about_value());
        assert_eq!(options.read("size", number::<u32>).unwrap_err().key, "size");
    }

    #[test]
    fn values_are_quoted_where_they_must_be() {
        let pairs = pairs(&[("a", "/x/*.log:y"), ("b", "say \"hi\", (you)")]);
        assert_eq!(write(&pairs), r#"a=/x/*.log:y,b="say \"hi\", (you)""#);
    }

    #[test]
    fn an_option_that_is_not_given_has_its_default() {
        let options = Options::new("x", OPTIONS, &[]).unwrap();
        assert_eq!(options.flag("loud"), Ok(false));
        assert_eq!(options.read("size", number::<u32>), Ok(None));
    }
}
