//! The name of `longnames` and its options.

use vnode::{NAME_MAX, Name};

use crate::options::{OptionError, OptionSpecification, Options};

pub(crate) const NAME: &str = "longnames";

pub(crate) const OPTIONS: &[OptionSpecification] =
    &[OptionSpecification { key: "suffix", value: "TEXT", summary: "suffix of the lower names (default `.long`)" }];

/// Returns the suffix of every lower name.
pub(crate) fn suffix(pairs: &[(String, String)]) -> Result<String, OptionError> {
    let options = Options::new(NAME, OPTIONS, pairs)?;
    let suffix = options.read("suffix", |value| match Name::new(format!("x{value}").as_bytes()) {
        Ok(_) if !value.is_empty() => Ok(value.to_owned()),
        _ => Err(format!("1 to {} bytes without `/`", NAME_MAX - 1)),
    })?;
    Ok(suffix.unwrap_or_else(|| ".long".to_owned()))
}
