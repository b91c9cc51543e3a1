//! An operation as admission and observation see it: which one, with the arguments that rules look at.

use crate::{
    AccessMode, AllocateMode, Creation, FileKind, Lock, Name, OpenFlags, RenameMode, SeekTarget, SetAttributes,
    VnodeRef,
};

/// One operation on a vnode or on a file or directory that is open, before or after it is done.
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
    /// The operation's name, as rules, traces and logs write it: the system call's where there is one.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::GetAttributes => "getattr",
            Self::SetAttributes(_) => "setattr",
            Self::Access(_) => "access",
            Self::Lookup(_) => "lookup",
            Self::Parent => "parent",
            Self::Create { .. } => "create",
            Self::MakeDirectory { .. } => "mkdir",
            Self::MakeNode { .. } => "mknod",
            Self::MakeSymlink { .. } => "symlink",
            Self::Link { .. } => "link",
            Self::Unlink(_) => "unlink",
            Self::RemoveDirectory(_) => "rmdir",
            Self::Rename { .. } => "rename",
            Self::ReadLink => "readlink",
            Self::Open(_) => "open",
            Self::OpenDirectory => "opendir",
            Self::ReadDirectory => "readdir",
            Self::StatFs => "statfs",
            Self::GetXattr(_) => "getxattr",
            Self::SetXattr { .. } => "setxattr",
            Self::ListXattr => "listxattr",
            Self::RemoveXattr(_) => "removexattr",
            Self::TemporaryFile(_) => "tmpfile",
            Self::Ioctl { .. } => "ioctl",
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Truncate { .. } => "truncate",
            Self::Flush => "flush",
            Self::Fsync { .. } => "fsync",
            Self::Allocate { .. } => "fallocate",
            Self::Seek { .. } => "lseek",
            Self::CopyRange { .. } => "copy_file_range",
            Self::Lock(_) => "lock",
            Self::TestLock(_) => "getlk",
            Self::Poll => "poll",
            Self::Release => "release",
        }
    }

    /// Every name that [`Operation::name`] gives: what rules may choose from.
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

    /// The name in the directory that the operation is about, if it is about one.
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

    /// Whether it would change the file system: what a read-only one refuses. Ioctls are not counted: who knows a
    /// command knows what it does.
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
