//! The layer `map`: shows other owners, groups and permission bits, hides names, refuses operations.
//!
//! What bindfs does. Two questions decide how an operation is admitted. Where owners, groups or permission bits are
//! shown other than they are, the **view** decides: whether the caller may do what it asks is checked here, by the
//! attributes that it is shown, and what is admitted is done below as the server. Where they are not, the file system
//! below decides, as without the layer.

mod checks;
mod create;
mod ids;
mod layer;
mod names;
mod options;
mod permissions;
mod policies;
mod settings;
mod shown;
mod view;
mod ways;

use crate::kind::Build;
use crate::{Kind, OptionError};
pub use layer::Map;

/// Registration of this layer.
pub const KIND: Kind = Kind {
    name: options::NAME,
    summary: "shows other owners and permissions, hides names, refuses operations",
    options: options::KNOWN,
    build: Build::Over(|pairs, lower| Ok(vnode::layer::stack(create(pairs)?, lower))),
};

/// Makes the layer.
///
/// # Errors
/// For an option that does not exist or cannot have that value.
pub fn create(pairs: &[(String, String)]) -> Result<Map, OptionError> {
    Ok(Map::new(options::read(pairs)?, crate::options::write(pairs)))
}
