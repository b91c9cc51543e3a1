//! The identifier of a file system, independent of its device and mount point.

use std::os::fd::BorrowedFd;

use super::ioctl;

/// Magic numbers of file systems that derive their `f_fsid` (statfs(2)) from their UUID: ext2 to ext4; Btrfs, with the
/// subvolume; F2FS; tmpfs, whose UUID is new at each mount. Others derive it from the device number, which identifies nothing.
const UUID_BASED_FSID_MAGIC: [u32; 4] = [0xef53, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

/// Magic number of FUSE: before Linux 6.9 the request would reach its server, which may be anybody's and never reply.
const FUSE: u32 = 0x6573_5546;

/// Returns the identifier of the file system that a descriptor is on, if it has one.
pub(crate) fn of(descriptor: BorrowedFd<'_>) -> Option<u64> {
    let kind = rustix::fs::fstatfs(descriptor).ok()?.f_type as u32;
    if kind == FUSE {
        return None;
    }
    let fsid = if UUID_BASED_FSID_MAGIC.contains(&kind) { rustix::fs::fstatvfs(descriptor).ok()?.f_fsid } else { 0 };
    if fsid != 0 { Some(fsid) } else { ioctl::uuid(descriptor).map(fold_uuid) }
}

/// Folds a UUID into an identifier as those file systems do.
fn fold_uuid(uuid: [u8; 16]) -> u64 {
    let half = |from: usize| u64::from_le_bytes(std::array::from_fn(|index| uuid[from + index]));
    half(0) ^ half(8)
}
