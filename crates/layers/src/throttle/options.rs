//! The name of `throttle`, its options and its control commands.

use std::num::NonZeroU64;

use crate::options::{OptionError, OptionSpecification, Options, option};
use crate::sizes::parse_size;
use crate::{ControlArguments, ControlSpecification};

pub(crate) const NAME: &str = "throttle";

pub(crate) const OPTIONS: &[OptionSpecification] = &[
    option("read", "BYTES", "bytes that all callers together may read a second, such as 10m (default: no limit)"),
    option("write", "BYTES", "bytes that all callers together may write a second, likewise"),
];

pub(crate) const CONTROLS: &[ControlSpecification] = &[ControlSpecification {
    name: "set",
    arguments: ControlArguments::Options(OPTIONS),
    summary: "replace the limits by those that the options define, or by none",
    failure: None,
}];

/// Rates in bytes a second; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rates {
    pub(crate) read: Option<NonZeroU64>,
    pub(crate) write: Option<NonZeroU64>,
}

/// Reads the rates from the options.
pub(crate) fn read(pairs: &[(String, String)]) -> Result<Rates, OptionError> {
    let options = Options::new(NAME, OPTIONS, pairs)?;
    Ok(Rates { read: options.read("read", rate)?, write: options.read("write", rate)? })
}

fn rate(text: &str) -> Result<NonZeroU64, String> {
    let bytes = parse_size(text).ok().and_then(NonZeroU64::new);
    bytes.ok_or_else(|| "a number of bytes a second, at least 1, such as 512k or 10m".to_owned())
}
