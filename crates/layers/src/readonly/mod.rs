//! The layer `readonly`: refuses every modification with `EROFS`.

mod layer;
mod options;

use crate::{Kind, OptionError};
pub use layer::ReadOnly;

/// Registration of this layer.
pub const KIND: Kind = Kind::over(options::NAME, "refuses all changes", options::OPTIONS, |pairs, lower| {
    Ok(vnode::layer::stack(create(pairs)?, lower))
});

/// Creates the layer.
///
/// # Errors
/// Fails if any option is given.
pub fn create(pairs: &[(String, String)]) -> Result<ReadOnly, OptionError> {
    options::check(pairs)?;
    Ok(ReadOnly)
}
