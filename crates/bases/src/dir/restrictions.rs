//! Restrictions of lower mounts' flags (mount(8): `ro`, `nosuid`, `nodev`, `noexec`), which remain in force in the stack
//! above.
//!
//! The kernel enforces `ro` by itself, since every object is opened through a descriptor of its own mount, and `noexec`
//! where the permission to execute is checked. In the stack above, the kernel sees only the flags of the stack's own mount,
//! so set-id bits, file capabilities and devices are shown in a form that has no effect. The flags are queried each time an
//! object has one of these: a mount can be remounted with other flags at any time.

use vnode::{Attributes, FileKind};

use super::mounts::Mount;
use super::status::Status;

/// The set of actions that a mount forbids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Restrictions(u64);

/// The extended attribute that holds a program's capabilities.
pub(crate) const CAPABILITIES: &[u8] = b"security.capability";

/// Drivers have only major numbers below this (CHRDEV_MAJOR_MAX and BLKDEV_MAJOR_MAX of Linux are 512), so a device whose
/// number has this bit cannot be opened: `ENXIO`.
const NO_DRIVER_MAJOR_BIT: u32 = 0x800;

impl Restrictions {
    /// Forbids nothing.
    pub(crate) const NONE: Self = Self(0);
    /// Forbids any change.
    pub(crate) const READ_ONLY: Self = Self(libc::ST_RDONLY);
    /// Forbids programs to run as somebody else, or with capabilities of their own.
    pub(crate) const NO_SET_ID: Self = Self(libc::ST_NOSUID);
    /// Forbids opening devices.
    pub(crate) const NO_DEVICES: Self = Self(libc::ST_NODEV);
    /// Forbids running programs.
    pub(crate) const NO_EXECUTION: Self = Self(libc::ST_NOEXEC);

    /// Returns everything that either forbids.
    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Parses the options of a mount as listed in the kernel's mount table.
    pub(crate) fn of_options(options: &[u8]) -> Self {
        options.split(|&byte| byte == b',').fold(Self::NONE, |all, option| {
            all.union(match option {
                b"ro" => Self::READ_ONLY,
                b"nosuid" => Self::NO_SET_ID,
                b"nodev" => Self::NO_DEVICES,
                b"noexec" => Self::NO_EXECUTION,
                _ => Self::NONE,
            })
        })
    }
}

/// Returns whether a mount forbids something now; also true where it cannot be queried.
pub(crate) fn forbids(mount: &Mount, what: Restrictions) -> bool {
    let state = mount.descriptor().and_then(|descriptor| rustix::fs::fstatfs(descriptor).ok());
    state.is_none_or(|state| Restrictions(state.f_flags as u64).contains(what))
}

/// Returns the attributes shown for an object: without the set-id bits for a program on a `nosuid` mount (those of a
/// directory mean something else), with a number that no driver has for a device on a `nodev` mount. A device 0:0 cannot be
/// opened in any case, and marks names that are removed in unions. The attributes of an object whose server was not queried
/// are provisional, and its mount, which would have to query the server too, is taken for one without either flag.
pub(crate) fn attributes(mount: &Mount, status: &Status) -> Attributes {
    const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;
    let mut shown = status.attributes(mount.exposed_ino(status.ino()));
    shown.is_provisional = !status.is_queried() && mount.is_fuse_root(status);
    let forbids = |what| shown.is_provisional || forbids(mount, what);
    match shown.kind {
        FileKind::Regular if shown.mode & SET_ID != 0 && forbids(Restrictions::NO_SET_ID) => {
            shown.mode &= !SET_ID;
        }
        FileKind::CharacterDevice | FileKind::BlockDevice
            if (shown.rdev.major, shown.rdev.minor) != (0, 0) && forbids(Restrictions::NO_DEVICES) =>
        {
            shown.rdev.major |= NO_DRIVER_MAJOR_BIT;
        }
        _ => {}
    }
    shown
}

/// Returns whether an attribute of an object on this mount is hidden, as if it did not exist.
pub(crate) fn hides_attribute(mount: &Mount, name: &[u8]) -> bool {
    name == CAPABILITIES && forbids(mount, Restrictions::NO_SET_ID)
}
