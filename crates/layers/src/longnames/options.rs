//! The options of `longnames`.

use vnode::{NAME_MAX, Name};

use super::LongNames;
use crate::options::{OptionError, OptionSpecification, Options};

pub(super) const KNOWN: &[OptionSpecification] =
    &[OptionSpecification { key: "suffix", value: "TEXT", summary: "what every name ends in below (default `.long`)" }];

/// Makes the layer.
///
/// # Errors
/// For an option that does not exist or cannot have that value.
pub fn create(pairs: &[(String, String)]) -> Result<LongNames, OptionError> {
    let options = Options::new(super::KIND.name, KNOWN, pairs)?;
    let suffix = options.read("suffix", |value| match Name::new(format!("x{value}").as_bytes()) {
        Ok(_) if !value.is_empty() => Ok(value.to_owned()),
        _ => Err(format!("1 to {} bytes without `/`", NAME_MAX - 1)),
    })?;
    Ok(LongNames { suffix: suffix.unwrap_or_else(|| ".long".to_owned()) })
}
