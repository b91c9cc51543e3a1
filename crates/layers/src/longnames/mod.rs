//! The layer `longnames`, the example of a name layer: lower names are longer by a suffix.

mod layer;
mod options;

use crate::{Kind, OptionError};
pub use layer::LongNames;

/// Registration of this layer.
pub const KIND: Kind = Kind::over(
    options::NAME,
    "stores names with a suffix: an example of a name layer",
    options::OPTIONS,
    |pairs, lower| Ok(vnode::layer::stack(create(pairs)?, lower)),
);

/// Creates the layer.
///
/// # Errors
/// Fails if an option is unknown or has an invalid value.
pub fn create(pairs: &[(String, String)]) -> Result<LongNames, OptionError> {
    Ok(LongNames { suffix: options::suffix(pairs)? })
}
