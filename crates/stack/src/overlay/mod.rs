//! Options of overlayfs and fuse-overlayfs as a stack: a union of their directories, in overlayfs's format.

mod error;
mod options;
mod union;

use crate::syntax::Stack;
pub use error::OverlayError;
use options::OverlayOptions;

/// What options of overlayfs describe.
#[derive(Debug)]
pub struct Overlay {
    /// The union of the directories.
    pub stack: Stack,
    /// The remaining options, which are those of the mount, separated by commas.
    pub mount_options: String,
}

/// Returns whether a list of mount options describes an overlay.
pub fn is_described(options: &[u8]) -> bool {
    options::words(options).iter().any(|word| word.starts_with(b"lowerdir="))
}

/// Reads a list of mount options that describes an overlay.
///
/// # Errors
/// [`OverlayError`].
pub fn read(options: &[u8]) -> Result<Overlay, OverlayError> {
    let (overlay, mount_options) = OverlayOptions::parse(options)?;
    Ok(Overlay { stack: union::of(&overlay), mount_options })
}
