//! The device that marks a name as removed, as in overlayfs: character device 0:0.

use vnode::{Attributes, Device, FileKind};

/// Returns whether the device has the number of a whiteout.
pub(crate) fn has_number(attributes: &Attributes) -> bool {
    attributes.kind == FileKind::CharacterDevice && attributes.rdev == Device::default()
}
