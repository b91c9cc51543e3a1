//! The name of `readonly` and its options: none.

use crate::options::{OptionError, OptionSpecification, Options};

pub(crate) const NAME: &str = "readonly";

pub(crate) const KNOWN: &[OptionSpecification] = &[];

/// Refuses any option.
pub(crate) fn check(pairs: &[(String, String)]) -> Result<(), OptionError> {
    Options::new(NAME, KNOWN, pairs).map(drop)
}
