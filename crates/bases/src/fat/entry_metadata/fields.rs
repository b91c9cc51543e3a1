//! Fields that entries have for Unix metadata, and the numbers of kinds.

use vnode::{Device, FileKind};

/// What an entry says of its object besides what FAT has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnixFields {
    /// The kind. That of a directory follows from the attributes of the entry.
    pub(crate) kind: FileKind,
    /// Permission bits, up to 7777.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Number of a device, where the entry itself has it.
    pub(crate) device: Device,
}

/// Returns the number of a kind, by which entries have it; 0 of files and directories.
pub(crate) fn kind_number(kind: FileKind) -> u8 {
    match kind {
        FileKind::Regular | FileKind::Directory => 0,
        FileKind::Symlink => 1,
        FileKind::Fifo => 2,
        FileKind::CharacterDevice => 3,
        FileKind::BlockDevice => 4,
        FileKind::Socket => 5,
    }
}

/// Returns the kind of a number.
pub(crate) fn kind_of_number(number: u8) -> Option<FileKind> {
    Some(match number {
        0 => FileKind::Regular,
        1 => FileKind::Symlink,
        2 => FileKind::Fifo,
        3 => FileKind::CharacterDevice,
        4 => FileKind::BlockDevice,
        5 => FileKind::Socket,
        _ => return None,
    })
}
