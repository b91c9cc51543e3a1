//! The identifier of a file system, which it keeps whichever device it is on and wherever it is mounted.

use std::os::fd::BorrowedFd;

use super::ioctl;

/// The magic numbers of file systems whose `f_fsid` (statfs(2)) is made of their UUID: ext2 to ext4; Btrfs, with the subvolume;
/// F2FS; tmpfs, whose UUID is new at each mount. Others make it of the number of the device, which says nothing.
const TELLING: [u32; 4] = [0xef53, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

/// That of FUSE: before Linux 6.9 its server would be asked, which may be anybody's and never answer.
const FUSE: u32 = 0x6573_5546;

/// That of the file system that a descriptor is on, if it has one.
pub fn of(descriptor: BorrowedFd<'_>) -> Option<u64> {
    let kind = rustix::fs::fstatfs(descriptor).ok()?.f_type as u32;
    if kind == FUSE {
        return None;
    }
    let told = if TELLING.contains(&kind) { rustix::fs::fstatvfs(descriptor).ok()?.f_fsid } else { 0 };
    if told != 0 { Some(told) } else { ioctl::uuid(descriptor).map(folded) }
}

/// A UUID as those file systems make it their identifier.
fn folded(uuid: [u8; 16]) -> u64 {
    let half = |from: usize| u64::from_le_bytes(std::array::from_fn(|index| uuid[from + index]));
    half(0) ^ half(8)
}
