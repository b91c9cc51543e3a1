//! The layer `throttle`: limits how many bytes a second are read and written.

mod bucket;
mod layer;
mod options;

use crate::{Kind, OptionError};
pub use layer::Throttle;

/// Registration of this layer.
pub const KIND: Kind = Kind::over(
    options::NAME,
    "limits how many bytes a second are read and written",
    options::OPTIONS,
    |pairs, lower| Ok(vnode::layer::stack(create(pairs)?, lower)),
)
.with_controls(options::CONTROLS);

/// Creates the layer.
///
/// # Errors
/// Fails if an option is unknown or has an invalid value.
pub fn create(pairs: &[(String, String)]) -> Result<Throttle, OptionError> {
    Ok(Throttle::new(options::read(pairs)?, crate::options::write(pairs)))
}
