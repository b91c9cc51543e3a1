//! What a lower mount's flags forbid (mount(8): `ro`, `nosuid`, `nodev`, `noexec`) stays forbidden above it.
//!
//! The kernel keeps `ro` by itself, since every object is opened by a descriptor of its own mount, and `noexec` where it is
//! asked whether a file may be executed. Above, it sees the flags of the stack's own mount only, so set-id bits, file
//! capabilities and devices are shown so that they have no effect. The flags are asked for where an object has one of
//! these, each time: a mount can be given others at any time.

use vnode::{Attributes, FileKind};

use super::mounts::Mount;
use super::status::Status;

/// A set of what a mount forbids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restrictions(u64);

/// The attribute that holds a program's capabilities.
pub const CAPABILITIES: &[u8] = b"security.capability";

/// No driver has a major number from here on (CHRDEV_MAJOR_MAX and BLKDEV_MAJOR_MAX of Linux are 512), so a device whose
/// number has this bit cannot be opened: `ENXIO`.
const WITHOUT_DRIVER: u32 = 0x800;

impl Restrictions {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Any change.
    pub const READ_ONLY: Self = Self(libc::ST_RDONLY);
    /// That programs run as somebody else, or with capabilities of their own.
    pub const NO_SET_ID: Self = Self(libc::ST_NOSUID);
    /// That devices are opened.
    pub const NO_DEVICES: Self = Self(libc::ST_NODEV);
    /// That programs run.
    pub const NO_EXECUTION: Self = Self(libc::ST_NOEXEC);

    /// What either forbids.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// By the options of a mount as the kernel's mount table lists them.
    pub fn of_options(options: &[u8]) -> Self {
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

/// Whether a mount forbids something now; also where it does not tell.
pub fn forbids(mount: &Mount, what: Restrictions) -> bool {
    let state = mount.place().and_then(|place| rustix::fs::fstatfs(place).ok());
    state.is_none_or(|state| Restrictions(state.f_flags as u64).contains(what))
}

/// The attributes that are shown of an object: of a program on a mount without set-id programs no set-id bits (those of a
/// directory mean something else), of a device on one without devices a number that no driver has. A device 0:0 cannot be
/// opened in any case, and stands for names that are gone in unions. Of what was not asked for they are provisional, and the
/// mount, which would have to ask too, is taken for one without either.
pub fn attributes(mount: &Mount, status: &Status) -> Attributes {
    const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;
    let mut shown = status.attributes(mount.shown_ino(status.ino()));
    shown.is_provisional = !status.is_asked() && mount.is_root_of_server(status);
    let forbids = |what| shown.is_provisional || forbids(mount, what);
    match shown.kind {
        FileKind::Regular if shown.mode & SET_ID != 0 && forbids(Restrictions::NO_SET_ID) => {
            shown.mode &= !SET_ID;
        }
        FileKind::CharacterDevice | FileKind::BlockDevice
            if (shown.rdev.major, shown.rdev.minor) != (0, 0) && forbids(Restrictions::NO_DEVICES) =>
        {
            shown.rdev.major |= WITHOUT_DRIVER;
        }
        _ => {}
    }
    shown
}

/// Whether an attribute of an object on this mount is not shown, and counts as not there.
pub fn hides_attribute(mount: &Mount, name: &[u8]) -> bool {
    name == CAPABILITIES && forbids(mount, Restrictions::NO_SET_ID)
}
