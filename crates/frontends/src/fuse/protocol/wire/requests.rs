//! Requests of the kernel: the header and each operation's arguments.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! wire_structures {
    ($( $(#[$documentation:meta])* $name:ident: $size:literal { $( $field:ident: $kind:ty ),* $(,)? } )*) => {$(
        $(#[$documentation])*
        #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub(crate) struct $name { $( pub(crate) $field: $kind ),* }
        const _: () = assert!(size_of::<$name>() == $size);
    )*};
}
pub(crate) use wire_structures;

wire_structures! {
    /// The header of every request; `length` includes the header and everything that follows.
    InHeader: 40 {
        length: u32, opcode: u32, unique: u64, node: u64, uid: u32, gid: u32, pid: u32,
        extensions_length_8: u16, padding: u16,
    }
    InitIn: 64 { major: u32, minor: u32, max_readahead: u32, flags: u32, flags2: u32, unused: [u32; 11] }
    ForgetIn: 8 { lookups: u64 }
    ForgetOne: 16 { node: u64, lookups: u64 }
    BatchForgetIn: 8 { count: u32, padding: u32 }
    GetAttributesIn: 16 { flags: u32, padding: u32, handle: u64 }
    StatxIn: 24 { getattr_flags: u32, padding: u32, handle: u64, statx_flags: u32, statx_mask: u32 }
    SetAttributesIn: 88 {
        valid: u32, padding: u32, handle: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64,
        atime_nanoseconds: u32, mtime_nanoseconds: u32, ctime_nanoseconds: u32, mode: u32, unused4: u32,
        uid: u32, gid: u32, unused5: u32,
    }
    MakeNodeIn: 16 { mode: u32, device: u32, umask: u32, padding: u32 }
    MakeDirectoryIn: 8 { mode: u32, umask: u32 }
    RenameIn: 8 { new_parent: u64 }
    Rename2In: 16 { new_parent: u64, flags: u32, padding: u32 }
    LinkIn: 8 { node: u64 }
    OpenIn: 8 { flags: u32, open_flags: u32 }
    CreateIn: 16 { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    ReleaseIn: 24 { handle: u64, flags: u32, release_flags: u32, lock_owner: u64 }
    FlushIn: 24 { handle: u64, unused: u32, padding: u32, lock_owner: u64 }
    ReadIn: 40 {
        handle: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32,
    }
    WriteIn: 40 {
        handle: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32,
    }
    FsyncIn: 16 { handle: u64, flags: u32, padding: u32 }
    /// The structure without `setxattr_flags`, sent when SETXATTR_EXT was not negotiated.
    SetXattrShortIn: 8 { size: u32, flags: u32 }
    SetXattrIn: 16 { size: u32, flags: u32, setxattr_flags: u32, padding: u32 }
    /// GETXATTR and LISTXATTR.
    GetXattrIn: 8 { size: u32, padding: u32 }
    FileLock: 24 { start: u64, end: u64, kind: u32, pid: u32 }
    LockIn: 48 { handle: u64, owner: u64, lock: FileLock, flags: u32, padding: u32 }
    AccessIn: 8 { mask: u32, padding: u32 }
    InterruptIn: 8 { unique: u64 }
    BlockMapIn: 16 { block: u64, block_size: u32, padding: u32 }
    IoctlIn: 32 { handle: u64, flags: u32, command: u32, argument: u64, in_size: u32, out_size: u32 }
    PollIn: 24 { handle: u64, kernel_handle: u64, flags: u32, events: u32 }
    FallocateIn: 32 { handle: u64, offset: u64, length: u64, mode: u32, padding: u32 }
    SeekIn: 24 { handle: u64, offset: u64, whence: u32, padding: u32 }
    CopyFileRangeIn: 56 {
        handle_in: u64, offset_in: u64, node_out: u64, handle_out: u64, offset_out: u64, length: u64, flags: u64,
    }
    /// The parameters of an io_uring command for the device, in addition to its `cmd_op`.
    RingCommand: 24 { flags: u64, commit: u64, queue: u16, padding: [u16; 3] }
    /// The part of a ring entry that describes a request or its reply: the length of the payload, and the id of the request in
    /// the command that carries the reply.
    RingExchange: 32 { flags: u64, commit: u64, payload_length: u32, padding: u32, reserved: u64 }
    ExtensionHeader: 8 { size: u32, kind: u32 }
    SecurityContext: 8 { size: u32, padding: u32 }
}
