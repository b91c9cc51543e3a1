//! Replies to the kernel: the header and each operation's results.

use super::requests::{FileLock, wire_structures};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

wire_structures! {
    /// The header of every reply and notification. `error` is zero or a negative errno; in a notification `unique` is zero and
    /// `error` its code.
    OutHeader: 16 { length: u32, error: i32, unique: u64 }
    InitOut: 64 {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion_threshold: u16,
        max_write: u32, time_granularity: u32, max_pages: u16, map_alignment: u16, flags2: u32,
        max_stack_depth: u32, request_timeout_s: u16, unused: [u16; 11],
    }
    WireAttributes: 88 {
        inode: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64, atime_nanoseconds: u32,
        mtime_nanoseconds: u32, ctime_nanoseconds: u32, mode: u32, links: u32, uid: u32, gid: u32, device: u32,
        block_size: u32, flags: u32,
    }
    EntryOut: 128 {
        node: u64, generation: u64, entry_valid_s: u64, attributes_valid_s: u64, entry_valid_ns: u32,
        attributes_valid_ns: u32, attributes: WireAttributes,
    }
    AttributesOut: 104 { valid_s: u64, valid_ns: u32, padding: u32, attributes: WireAttributes }
    StatxTime: 16 { seconds: i64, nanoseconds: u32, padding: i32 }
    WireStatx: 256 {
        mask: u32, block_size: u32, attributes: u64, links: u32, uid: u32, gid: u32, mode: u16, padding: u16,
        inode: u64, size: u64, blocks: u64, attributes_mask: u64, atime: StatxTime, btime: StatxTime,
        ctime: StatxTime, mtime: StatxTime, rdev_major: u32, rdev_minor: u32, dev_major: u32, dev_minor: u32,
        unused: [u64; 14],
    }
    StatxOut: 288 { valid_s: u64, valid_ns: u32, flags: u32, unused: [u64; 2], statx: WireStatx }
    OpenOut: 16 { handle: u64, open_flags: u32, backing_id: i32 }
    WriteOut: 8 { size: u32, padding: u32 }
    StatFsOut: 80 {
        blocks: u64, blocks_free: u64, blocks_available: u64, files: u64, files_free: u64, block_size: u32,
        name_length_max: u32, fragment_size: u32, padding: u32, spare: [u32; 6],
    }
    GetXattrOut: 8 { size: u32, padding: u32 }
    LockOut: 24 { lock: FileLock }
    IoctlOut: 16 { result: i32, flags: u32, in_iovs: u32, out_iovs: u32 }
    PollOut: 8 { events: u32, padding: u32 }
    SeekOut: 8 { offset: u64 }
    CopyFileRangeOut: 8 { copied: u64 }
    /// The fixed part of a directory entry; the name follows, padded to eight bytes.
    DirectoryEntry: 24 { inode: u64, cookie: u64, name_length: u32, kind: u32 }
}
