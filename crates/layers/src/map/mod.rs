//! The layer `map`: shows other owners, groups and permission bits, hides names, and refuses operations.
//!
//! Provides the functions of bindfs. Access control has two modes. Where owners, groups or permission bits are shown
//! other than they are, the **view** decides: this layer checks whether the caller may perform the operation, by the
//! attributes that it is shown, and performs permitted operations below as the server. Where they are not, the lower
//! file system decides, as without the layer.

mod accounts;
#[cfg(feature = "commands")]
mod bindfs;
mod checks;
mod create;
mod effects;
mod ids;
mod layer;
mod names;
mod options;
mod permissions;
mod policies;
mod settings;
mod shown;
mod view;

use crate::{Kind, OptionError};
pub use layer::Map;

/// Registration of this layer.
pub const KIND: Kind = {
    let kind = Kind::over(
        options::NAME,
        "shows other owners and permissions, hides names, refuses operations",
        options::OPTIONS,
        |pairs, lower| Ok(vnode::layer::stack(create(pairs)?, lower)),
    );
    #[cfg(feature = "commands")]
    let kind = kind.with_mount_translators(&[bindfs::TRANSLATOR]);
    kind
};

/// Creates the layer.
///
/// # Errors
/// Fails if an option is unknown or has an invalid value.
pub fn create(pairs: &[(String, String)]) -> Result<Map, OptionError> {
    Ok(Map::new(options::read(pairs)?, crate::options::write(pairs)))
}
