//! An operation as access control and observation see it: its kind, with the arguments that rules examine.

use crate::{
    AccessMode, AllocateMode, Creation, FileKind, Lock, Name, OpenFlags, RenameMode, SeekTarget, SetAttributes,
    VnodeRef,
};

/// One operation on a vnode, or on an open file or directory, before or after it runs.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub enum Operation<'a> {
    GetAttributes,
    SetAttributes(&'a SetAttributes),
    Access(AccessMode),
    Lookup(Name<'a>),
    Parent,
    Create { name: Name<'a>, how: &'a Creation },
    MakeDirectory { name: Name<'a>, mode: u32 },
    MakeNode { name: Name<'a>, kind: FileKind, mode: u32 },
    MakeSymlink { name: Name<'a>, target: &'a [u8] },
    Link { name: Name<'a>, target: &'a VnodeRef },
    Unlink(Name<'a>),
    RemoveDirectory(Name<'a>),
    Rename { name: Name<'a>, to: &'a VnodeRef, to_name: Name<'a>, mode: RenameMode },
    ReadLink,
    Open(OpenFlags),
    OpenDirectory,
    ReadDirectory,
    StatFs,
    GetXattr(&'a [u8]),
    SetXattr { name: &'a [u8], value: &'a [u8] },
    ListXattr,
    RemoveXattr(&'a [u8]),
    TemporaryFile(&'a Creation),
    Ioctl { command: u32 },
    Read { offset: u64, length: usize },
    Write { offset: u64, length: usize },
    Truncate { size: u64 },
    Flush,
    Fsync { data_only: bool },
    Allocate { mode: AllocateMode, offset: u64, length: u64 },
    Seek { offset: u64, target: SeekTarget },
    CopyRange { offset: u64, to_offset: u64, length: u64 },
    Lock(&'a Lock),
    TestLock(&'a Lock),
    Poll,
    Release,
}

impl<'a> Operation<'a> {
    /// Returns the operation's name, as rules, traces and logs write it: that of the system call if there is one.
    pub const fn name(&self) -> &'static str {
        Self::NAMES[self.index()]
    }

    /// Returns the operation's index in [`Operation::NAMES`], for tables and sets of operations.
    pub const fn index(&self) -> usize {
        match self {
            Self::GetAttributes => 0,
            Self::SetAttributes(_) => 1,
            Self::Access(_) => 2,
            Self::Lookup(_) => 3,
            Self::Parent => 4,
            Self::Create { .. } => 5,
            Self::MakeDirectory { .. } => 6,
            Self::MakeNode { .. } => 7,
            Self::MakeSymlink { .. } => 8,
            Self::Link { .. } => 9,
            Self::Unlink(_) => 10,
            Self::RemoveDirectory(_) => 11,
            Self::Rename { .. } => 12,
            Self::ReadLink => 13,
            Self::Open(_) => 14,
            Self::OpenDirectory => 15,
            Self::ReadDirectory => 16,
            Self::StatFs => 17,
            Self::GetXattr(_) => 18,
            Self::SetXattr { .. } => 19,
            Self::ListXattr => 20,
            Self::RemoveXattr(_) => 21,
            Self::TemporaryFile(_) => 22,
            Self::Ioctl { .. } => 23,
            Self::Read { .. } => 24,
            Self::Write { .. } => 25,
            Self::Truncate { .. } => 26,
            Self::Flush => 27,
            Self::Fsync { .. } => 28,
            Self::Allocate { .. } => 29,
            Self::Seek { .. } => 30,
            Self::CopyRange { .. } => 31,
            Self::Lock(_) => 32,
            Self::TestLock(_) => 33,
            Self::Poll => 34,
            Self::Release => 35,
        }
    }

    /// All names that [`Operation::name`] returns: those that rules may choose from.
    pub const NAMES: &'static [&'static str] = &[
        "getattr",
        "setattr",
        "access",
        "lookup",
        "parent",
        "create",
        "mkdir",
        "mknod",
        "symlink",
        "link",
        "unlink",
        "rmdir",
        "rename",
        "readlink",
        "open",
        "opendir",
        "readdir",
        "statfs",
        "getxattr",
        "setxattr",
        "listxattr",
        "removexattr",
        "tmpfile",
        "ioctl",
        "read",
        "write",
        "truncate",
        "flush",
        "fsync",
        "fallocate",
        "lseek",
        "copy_file_range",
        "lock",
        "getlk",
        "poll",
        "release",
    ];

    /// Returns the name in the directory that the operation concerns, if any.
    pub const fn entry_name(&self) -> Option<Name<'a>> {
        match self {
            Self::Lookup(name) | Self::Unlink(name) | Self::RemoveDirectory(name) => Some(*name),
            Self::Create { name, .. }
            | Self::MakeDirectory { name, .. }
            | Self::MakeNode { name, .. }
            | Self::MakeSymlink { name, .. }
            | Self::Link { name, .. }
            | Self::Rename { name, .. } => Some(*name),
            _ => None,
        }
    }

    /// Returns whether the operation would change the file system and so is refused by a read-only one. Ioctls are not
    /// counted: only code that knows a command knows what it does.
    pub const fn modifies(&self) -> bool {
        match self {
            Self::Access(mode) => mode.contains(AccessMode::WRITE),
            Self::Open(flags) => flags.writes() || flags.truncates(),
            Self::SetAttributes(_)
            | Self::Create { .. }
            | Self::MakeDirectory { .. }
            | Self::MakeNode { .. }
            | Self::MakeSymlink { .. }
            | Self::Link { .. }
            | Self::Unlink(_)
            | Self::RemoveDirectory(_)
            | Self::Rename { .. }
            | Self::SetXattr { .. }
            | Self::RemoveXattr(_)
            | Self::TemporaryFile(_)
            | Self::Write { .. }
            | Self::Truncate { .. }
            | Self::Allocate { .. }
            | Self::CopyRange { .. } => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_their_index() {
        let name = Name::new(b"x").unwrap();
        let how = Creation { mode: 0, flags: OpenFlags::READ };
        let changes = SetAttributes::default();
        for (operation, expected) in [
            (Operation::GetAttributes, "getattr"),
            (Operation::SetAttributes(&changes), "setattr"),
            (Operation::Access(AccessMode::READ), "access"),
            (Operation::Lookup(name), "lookup"),
            (Operation::Parent, "parent"),
            (Operation::Create { name, how: &how }, "create"),
            (Operation::MakeDirectory { name, mode: 0 }, "mkdir"),
            (Operation::MakeNode { name, kind: FileKind::Fifo, mode: 0 }, "mknod"),
            (Operation::MakeSymlink { name, target: b"x" }, "symlink"),
            (Operation::Unlink(name), "unlink"),
            (Operation::RemoveDirectory(name), "rmdir"),
            (Operation::ReadLink, "readlink"),
            (Operation::Open(OpenFlags::READ), "open"),
            (Operation::OpenDirectory, "opendir"),
            (Operation::ReadDirectory, "readdir"),
            (Operation::StatFs, "statfs"),
            (Operation::GetXattr(b""), "getxattr"),
            (Operation::SetXattr { name: b"", value: b"" }, "setxattr"),
            (Operation::ListXattr, "listxattr"),
            (Operation::RemoveXattr(b""), "removexattr"),
            (Operation::TemporaryFile(&how), "tmpfile"),
            (Operation::Ioctl { command: 0 }, "ioctl"),
            (Operation::Read { offset: 0, length: 0 }, "read"),
            (Operation::Write { offset: 0, length: 0 }, "write"),
            (Operation::Truncate { size: 0 }, "truncate"),
            (Operation::Flush, "flush"),
            (Operation::Fsync { data_only: false }, "fsync"),
            (Operation::Allocate { mode: AllocateMode::ALLOCATE, offset: 0, length: 0 }, "fallocate"),
            (Operation::Seek { offset: 0, target: SeekTarget::Data }, "lseek"),
            (Operation::CopyRange { offset: 0, to_offset: 0, length: 0 }, "copy_file_range"),
            (Operation::Poll, "poll"),
            (Operation::Release, "release"),
        ] {
            assert_eq!(operation.name(), expected);
        }
    }
}
