//! Conversion of vnode attributes to the types of the tests.

use vnode::{Attributes, FileKind};

use crate::{Kind, Stat, Time};

/// Converts attributes to the type of the tests.
pub(crate) fn stat_of(attributes: Attributes) -> Stat {
    let time = |time: vnode::Timestamp| Time::new(time.seconds, time.nanoseconds);
    Stat {
        inode: attributes.ino,
        kind: kind_of(attributes.kind),
        mode: attributes.mode,
        links: attributes.nlink.into(),
        uid: attributes.uid,
        gid: attributes.gid,
        device: (attributes.rdev.major, attributes.rdev.minor),
        size: attributes.size,
        blocks: attributes.blocks,
        block_size: attributes.block_size,
        accessed: time(attributes.atime),
        modified: time(attributes.mtime),
        changed: time(attributes.ctime),
        born: attributes.btime.map(time),
    }
}

/// Converts a kind to the type of the tests.
pub(crate) fn kind_of(kind: FileKind) -> Kind {
    Kind::of_mode(kind.mode_bits())
}
