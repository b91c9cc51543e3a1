//! The name of `readonly` and its options: none.

use crate::options::{OptionError, OptionSpecification, Options};

pub(super) const NAME: &str = "readonly";

pub(super) const KNOWN: &[OptionSpecification] = &[];

/// Refuses any option.
pub(super) fn check(pairs: &[(String, String)]) -> Result<(), OptionError> {
    Options::new(NAME, KNOWN, pairs).map(drop)
}
