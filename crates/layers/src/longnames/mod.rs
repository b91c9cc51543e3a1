//! The layer `longnames`: names are longer below by a suffix, the example of a name layer.

mod layer;
mod options;

use crate::kind::Build;
use crate::{Kind, OptionError};
pub use layer::LongNames;

/// Registration of this layer.
pub const KIND: Kind = Kind {
    name: options::NAME,
    summary: "keeps names longer below by a suffix: an example of a name layer",
    options: options::KNOWN,
    build: Build::Over(|pairs, lower| Ok(vnode::layer::stack(create(pairs)?, lower))),
};

/// Makes the layer.
///
/// # Errors
/// For an option that does not exist or cannot have that value.
pub fn create(pairs: &[(String, String)]) -> Result<LongNames, OptionError> {
    Ok(LongNames { suffix: options::suffix(pairs)? })
}
