//! Conversion between system values and test values.

use rustix::fs::{AtFlags, StatxFlags, Timespec, Timestamps};
use vnode::InodeNumber;

use crate::{Errno, Kind, Stat, Time, TimeChange};

/// Converts an error number to its form in the interface.
pub(crate) fn number(error: rustix::io::Errno) -> Errno {
    Errno::new(error.raw_os_error())
}

/// Returns the error of the last system call of this thread.
pub(crate) fn last_error() -> rustix::io::Errno {
    let error = std::io::Error::last_os_error();
    rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)
}

/// Calls statx(2) on a path or, with an empty path, on the descriptor itself.
pub(crate) fn stat_of(at: impl std::os::fd::AsFd, path: &[u8], flags: AtFlags) -> rustix::io::Result<Stat> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let found = rustix::fs::statx(at, path, flags, wanted)?;
    let has_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    let time = |time: rustix::fs::StatxTimestamp| Time::new(time.tv_sec, time.tv_nsec);
    Ok(Stat {
        inode: InodeNumber::new(found.stx_ino),
        kind: Kind::of_mode(found.stx_mode.into()),
        mode: u32::from(found.stx_mode) & 0o7777,
        links: found.stx_nlink.into(),
        uid: found.stx_uid,
        gid: found.stx_gid,
        device: (found.stx_rdev_major, found.stx_rdev_minor),
        size: found.stx_size,
        blocks: found.stx_blocks,
        block_size: found.stx_blksize,
        accessed: time(found.stx_atime),
        modified: time(found.stx_mtime),
        changed: time(found.stx_ctime),
        born: has_birth.then(|| time(found.stx_btime)),
    })
}

/// Converts the times to the form that utimensat(2) accepts.
pub(crate) fn timestamps(access: TimeChange, modification: TimeChange) -> Timestamps {
    let timespec = |change| match change {
        TimeChange::Keep => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT as _ },
        TimeChange::Now => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW as _ },
        TimeChange::To(time) => Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds as _ },
    };
    Timestamps { last_access: timespec(access), last_modification: timespec(modification) }
}
