//! The layer `rot13`, the example of a data layer that keeps sizes: rotates the letters in file data by 13 places.

mod layer;
mod options;

use crate::{Kind, OptionError};
pub use layer::Rot13;

/// Registration of this layer.
pub const KIND: Kind = Kind::over(
    options::NAME,
    "rotates the letters in file data by 13 places: an example of a data layer",
    options::OPTIONS,
    |pairs, lower| Ok(vnode::layer::stack(create(pairs)?, lower)),
);

/// Creates the layer.
///
/// # Errors
/// Fails if an option is unknown or has an invalid value.
pub fn create(pairs: &[(String, String)]) -> Result<Rot13, OptionError> {
    Ok(Rot13 { block_size: options::block_size(pairs)? })
}
