//! Everything that there is to do with an ISO 9660 image.

use std::sync::Arc;

use bases::iso::{IsoFileSystem, Options};
use vnode::Caller;

use crate::Input;
use crate::device::BoundedDevice;
use crate::walk::walk;

/// Memory for caches in bytes.
const MEMORY: u64 = 4 << 20;

/// Opens an image and reads everything. Returns whether it could be opened.
pub fn iso(input: &Input) -> bool {
    let choices = input.choices();
    let has = |index: usize, bit: u8| choices[index] >> bit & 1 == 0;
    let options = Options {
        rock: has(0, 0),
        joliet: has(0, 1),
        enhanced: has(0, 2),
        zisofs: has(0, 3),
        boot: has(0, 4),
        session: (choices[1] != 0).then(|| choices[1].into()),
        memory: MEMORY,
        ..Options::default()
    };
    let device = Arc::new(BoundedDevice::new(input.image()));
    let Ok(file_system) = IsoFileSystem::open(device, "image", options) else { return false };
    walk(&file_system, &Caller::server());
    true
}
