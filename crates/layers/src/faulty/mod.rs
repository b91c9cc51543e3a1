//! The layer `faulty`: fails, shortens, delays or stops operations as its rules say, to test the layers above it.

mod fault_rules;
mod gate;
mod layer;
mod options;
mod parse;

use crate::{Kind, OptionError};
pub use layer::Faulty;

/// Registration of this layer.
pub const KIND: Kind = Kind::over(
    options::NAME,
    "fails, shortens, delays or blocks operations, to test the layers above it",
    options::OPTIONS,
    |pairs, lower| Ok(vnode::layer::stack(create(pairs)?, lower)),
)
.with_controls(options::CONTROLS);

/// Creates the layer.
///
/// # Errors
/// Fails if an option is unknown or has an invalid value, or if a rule file cannot be used.
pub fn create(pairs: &[(String, String)]) -> Result<Faulty, OptionError> {
    Ok(Faulty::new(options::read_rules(pairs)?, crate::options::write(pairs)))
}
