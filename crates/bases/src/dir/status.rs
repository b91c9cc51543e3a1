//! Converts the results of statx(2) into vnode attributes.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Statx, StatxFlags, StatxTimestamp};
use rustix::path::Arg;
use vnode::{Attributes, Device, Errno, FileKind, InodeNumber, Result, Timestamp};

use super::errno;

/// Flags that belong to the object itself, rather than to how it is mounted here.
const FLAGS_OF_OBJECTS: u64 = !(libc::STATX_ATTR_MOUNT_ROOT | libc::STATX_ATTR_AUTOMOUNT) as u64;

/// The status of one object at one moment.
pub(crate) struct Status {
    raw: Statx,
    is_queried: bool,
    /// The kind.
    pub kind: FileKind,
}

impl Status {
    /// Queries the object with that name in a directory, without following a symlink.
    pub(crate) fn at(directory: impl AsFd, name: impl Arg) -> Result<Self> {
        Self::of(directory, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Queries an open object.
    pub(crate) fn of_descriptor(descriptor: impl AsFd) -> Result<Self> {
        Self::of(descriptor, c"", AtFlags::EMPTY_PATH)
    }

    /// Like [`Status::at`], with what the kernel knows: a server, which may not reply, is not queried.
    pub(crate) fn cached_at(directory: impl AsFd, name: impl Arg) -> Result<Self> {
        Self::of(directory, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC)
    }

    /// Like [`Status::of_descriptor`], with what the kernel knows: a server, which may not reply, is not queried.
    pub(crate) fn cached_of_descriptor(descriptor: impl AsFd) -> Result<Self> {
        Self::of(descriptor, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC)
    }

    fn of(descriptor: impl AsFd, name: impl Arg, flags: AtFlags) -> Result<Self> {
        let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
        let raw = rustix::fs::statx(descriptor, name, flags, mask).map_err(errno)?;
        let kind = FileKind::from_mode(u32::from(raw.stx_mode)).ok_or(Errno::EIO)?;
        Ok(Self { raw, is_queried: !flags.contains(AtFlags::STATX_DONT_SYNC), kind })
    }

    /// Returns whether the object's server, if it has one, has been queried.
    pub(crate) fn is_queried(&self) -> bool {
        self.is_queried
    }

    /// Returns whether it is the root of a mount. Linux before 5.8 does not report this.
    pub(crate) fn is_mount_root(&self) -> bool {
        self.raw.stx_attributes.bits() & libc::STATX_ATTR_MOUNT_ROOT as u64 != 0
    }

    /// Returns the number of the device that the object is on.
    pub(crate) fn device(&self) -> u64 {
        rustix::fs::makedev(self.raw.stx_dev_major, self.raw.stx_dev_minor)
    }

    /// Returns the ID of the mount through which the object was reached; 0 before Linux 5.8.
    pub(crate) fn mount_id(&self) -> u64 {
        self.raw.stx_mnt_id
    }

    /// Returns the inode number on that device.
    pub(crate) fn ino(&self) -> InodeNumber {
        InodeNumber::new(self.raw.stx_ino)
    }

    /// Returns the owner.
    pub(crate) fn uid(&self) -> u32 {
        self.raw.stx_uid
    }

    /// Returns the number of links.
    pub(crate) fn nlink(&self) -> u32 {
        self.raw.stx_nlink
    }

    /// Returns the permission and set-id bits.
    pub(crate) fn mode(&self) -> u32 {
        u32::from(self.raw.stx_mode) & 0o7777
    }

    /// Returns the creation time in nanoseconds, if the file system keeps it; it distinguishes objects that had the same inode
    /// number. Less than 2^63.
    pub(crate) fn generation(&self) -> Option<u64> {
        self.created().map(|time| {
            (time.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(u64::from(time.nanoseconds)) & !(1 << 63)
        })
    }

    /// Returns the creation time, if the file system keeps it.
    pub(crate) fn created(&self) -> Option<Timestamp> {
        (self.raw.stx_mask & StatxFlags::BTIME.bits() != 0).then(|| timestamp(self.raw.stx_btime))
    }

    /// Returns the attributes, with the inode number that the stack shows.
    pub(crate) fn attributes(&self, ino: InodeNumber) -> Attributes {
        let raw = &self.raw;
        Attributes {
            kind: self.kind,
            mode: self.mode(),
            nlink: raw.stx_nlink,
            uid: raw.stx_uid,
            gid: raw.stx_gid,
            rdev: Device { major: raw.stx_rdev_major, minor: raw.stx_rdev_minor },
            ino,
            size: raw.stx_size,
            blocks: raw.stx_blocks,
            block_size: raw.stx_blksize,
            atime: timestamp(raw.stx_atime),
            mtime: timestamp(raw.stx_mtime),
            ctime: timestamp(raw.stx_ctime),
            btime: self.created(),
            flags: raw.stx_attributes.bits() & FLAGS_OF_OBJECTS,
            flags_known: raw.stx_attributes_mask.bits() & FLAGS_OF_OBJECTS,
            is_provisional: false,
        }
    }
}

/// Returns the device and inode number of the object with that name in a directory, as the kernel knows them: a file system
/// mounted there is not queried, since it may not reply, and listing a directory does not wait for what is mounted in it.
pub(crate) fn number_at(directory: impl AsFd, name: impl Arg) -> Result<(u64, InodeNumber)> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(directory, name, flags, StatxFlags::INO).map_err(errno)?;
    Ok((rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor), InodeNumber::new(found.stx_ino)))
}

fn timestamp(time: StatxTimestamp) -> Timestamp {
    Timestamp { seconds: time.tv_sec, nanoseconds: time.tv_nsec }
}
