//! The options of `rot13`.

use super::Rot13;
use crate::options::{OptionError, OptionSpecification, Options, number};

pub(super) const KNOWN: &[OptionSpecification] = &[OptionSpecification {
    key: "block-size",
    value: "BYTES",
    summary: "how much is encoded at a time (default 4096)",
}];

pub(super) const BLOCK_SIZE: usize = 4096;

/// Makes the layer.
///
/// # Errors
/// For an option that does not exist or cannot have that value.
pub fn create(pairs: &[(String, String)]) -> Result<Rot13, OptionError> {
    let options = Options::new(super::KIND.name, KNOWN, pairs)?;
    let block_size = options.read("block-size", |value| match number(value) {
        Ok(size @ 1..=1_048_576) => Ok(size),
        _ => Err("a number of bytes from 1 to 1048576".to_owned()),
    })?;
    Ok(Rot13 { block_size: block_size.unwrap_or(BLOCK_SIZE) })
}
