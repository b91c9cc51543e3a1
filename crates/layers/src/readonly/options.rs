//! The name of `readonly` and its options: none.

use crate::options::{OptionError, OptionSpecification, Options};

pub(crate) const NAME: &str = "readonly";

pub(crate) const OPTIONS: &[OptionSpecification] = &[];

/// Refuses any option.
pub(crate) fn check(pairs: &[(String, String)]) -> Result<(), OptionError> {
    Options::new(NAME, OPTIONS, pairs).map(drop)
}
