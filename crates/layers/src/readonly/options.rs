//! The options of `readonly`: none.

use super::ReadOnly;
use crate::options::{OptionError, OptionSpecification, Options};

pub(super) const KNOWN: &[OptionSpecification] = &[];

/// Makes the layer.
///
/// # Errors
/// For any option.
pub fn create(pairs: &[(String, String)]) -> Result<ReadOnly, OptionError> {
    Options::new(super::KIND.name, KNOWN, pairs).map(|_| ReadOnly)
}
