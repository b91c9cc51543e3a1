//! The name of `rot13` and its options.

use crate::options::{OptionError, OptionSpecification, Options, number};

pub(crate) const NAME: &str = "rot13";

pub(crate) const OPTIONS: &[OptionSpecification] = &[OptionSpecification {
    key: "block-size",
    value: "BYTES",
    summary: "number of bytes encoded at a time (default 4096)",
}];

pub(crate) const BLOCK_SIZE: usize = 4096;

/// Returns the number of bytes encoded at a time.
pub(crate) fn block_size(pairs: &[(String, String)]) -> Result<usize, OptionError> {
    let options = Options::new(NAME, OPTIONS, pairs)?;
    let block_size = options.read("block-size", |value| match number(value) {
        Ok(size @ 1..=1_048_576) => Ok(size),
        _ => Err("a number of bytes from 1 to 1048576".to_owned()),
    })?;
    Ok(block_size.unwrap_or(BLOCK_SIZE))
}
