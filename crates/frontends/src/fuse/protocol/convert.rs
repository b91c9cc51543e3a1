//! Conversion between the types of the vnode interface and those of the kernel.

use super::wire::{self, set_attributes as valid};
use std::time::Duration;
use vnode::{
    Attributes, Device, Errno, FileKind, Lock, LockFamily, LockKind, RenameMode, Result, SeekTarget, SetAttributes,
    SetTime, StatFs, Timestamp, XattrMode,
};

/// Encodes a device number in the 32 bits that the kernel uses in its interface to user space.
pub(crate) fn device_to_wire(device: Device) -> u32 {
    (device.minor & 0xff) | (device.major & 0xfff) << 8 | (device.minor & !0xff) << 12
}

/// Decodes a device number; the inverse of [`device_to_wire`].
pub(crate) fn device_from_wire(number: u32) -> Device {
    Device { major: number >> 8 & 0xfff, minor: number & 0xff | number >> 12 & !0xff }
}

pub(crate) fn attributes_to_wire(attributes: &Attributes) -> wire::WireAttributes {
    wire::WireAttributes {
        inode: attributes.ino.get(),
        size: attributes.size,
        blocks: attributes.blocks,
        atime: attributes.atime.seconds as u64,
        mtime: attributes.mtime.seconds as u64,
        ctime: attributes.ctime.seconds as u64,
        atime_nanoseconds: attributes.atime.nanoseconds,
        mtime_nanoseconds: attributes.mtime.nanoseconds,
        ctime_nanoseconds: attributes.ctime.nanoseconds,
        mode: attributes.full_mode(),
        links: attributes.nlink,
        uid: attributes.uid,
        gid: attributes.gid,
        device: device_to_wire(attributes.rdev),
        block_size: attributes.block_size,
        flags: 0,
    }
}

pub(crate) fn attributes_out(attributes: &Attributes, timeout: Duration) -> wire::AttributesOut {
    wire::AttributesOut {
        valid_s: timeout.as_secs(),
        valid_ns: timeout.subsec_nanos(),
        padding: 0,
        attributes: attributes_to_wire(attributes),
    }
}

pub(crate) fn statx_out(attributes: &Attributes, timeout: Duration) -> wire::StatxOut {
    fn time(time: Timestamp) -> wire::StatxTime {
        wire::StatxTime { seconds: time.seconds, nanoseconds: time.nanoseconds, padding: 0 }
    }
    let with_btime = if attributes.btime.is_some() { libc::STATX_BTIME } else { 0 };
    let statx = wire::WireStatx {
        mask: libc::STATX_BASIC_STATS | with_btime,
        block_size: attributes.block_size,
        attributes: attributes.flags,
        links: attributes.nlink,
        uid: attributes.uid,
        gid: attributes.gid,
        mode: attributes.full_mode() as u16,
        inode: attributes.ino.get(),
        size: attributes.size,
        blocks: attributes.blocks,
        attributes_mask: attributes.flags_known,
        atime: time(attributes.atime),
        btime: time(attributes.btime.unwrap_or_default()),
        ctime: time(attributes.ctime),
        mtime: time(attributes.mtime),
        rdev_major: attributes.rdev.major,
        rdev_minor: attributes.rdev.minor,
        ..Default::default()
    };
    wire::StatxOut { valid_s: timeout.as_secs(), valid_ns: timeout.subsec_nanos(), statx, ..Default::default() }
}

/// Decodes the attribute changes of a SETATTR.
pub(crate) fn changes_from_wire(set: &wire::SetAttributesIn) -> SetAttributes {
    let has = |bit: u32| set.valid & bit != 0;
    let time = |bit: u32, now: u32, seconds: u64, nanoseconds: u32| {
        if has(now) {
            Some(SetTime::Now)
        } else {
            has(bit).then_some(SetTime::To(Timestamp { seconds: seconds as i64, nanoseconds }))
        }
    };
    SetAttributes {
        mode: has(valid::MODE).then_some(set.mode & 0o7777),
        uid: has(valid::UID).then_some(set.uid),
        gid: has(valid::GID).then_some(set.gid),
        size: has(valid::SIZE).then_some(set.size),
        atime: time(valid::ATIME, valid::ATIME_NOW, set.atime, set.atime_nanoseconds),
        mtime: time(valid::MTIME, valid::MTIME_NOW, set.mtime, set.mtime_nanoseconds),
        kill_privileges: has(valid::KILL_SUIDGID),
    }
}

pub(crate) fn statfs_out(state: &StatFs) -> wire::StatFsOut {
    wire::StatFsOut {
        blocks: state.blocks,
        blocks_free: state.blocks_free,
        blocks_available: state.blocks_available,
        files: state.files,
        files_free: state.files_free,
        block_size: state.block_size,
        name_length_max: state.name_max,
        fragment_size: state.fragment_size,
        ..Default::default()
    }
}

pub(crate) fn rename_mode(flags: u32) -> Result<RenameMode> {
    const WHITEOUT_NO_REPLACE: u32 = libc::RENAME_WHITEOUT | libc::RENAME_NOREPLACE;
    match flags {
        0 => Ok(RenameMode::Replace),
        libc::RENAME_NOREPLACE => Ok(RenameMode::NoReplace),
        libc::RENAME_EXCHANGE => Ok(RenameMode::Exchange),
        libc::RENAME_WHITEOUT => Ok(RenameMode::Whiteout),
        WHITEOUT_NO_REPLACE => Ok(RenameMode::WhiteoutNoReplace),
        _ => Err(Errno::EINVAL),
    }
}

pub(crate) fn xattr_mode(flags: u32) -> Result<XattrMode> {
    match flags as i32 {
        0 => Ok(XattrMode::Set),
        libc::XATTR_CREATE => Ok(XattrMode::Create),
        libc::XATTR_REPLACE => Ok(XattrMode::Replace),
        _ => Err(Errno::EINVAL),
    }
}

pub(crate) fn seek_target(whence: u32) -> Result<SeekTarget> {
    match whence as i32 {
        libc::SEEK_DATA => Ok(SeekTarget::Data),
        libc::SEEK_HOLE => Ok(SeekTarget::Hole),
        _ => Err(Errno::EINVAL),
    }
}

/// The largest file offset, by which the kernel encodes "to the end".
const OFFSET_MAX: u64 = i64::MAX as u64;

pub(crate) fn lock_from_wire(arguments: &wire::LockIn) -> Result<Lock> {
    let flock = arguments.flags & wire::LOCK_FLOCK != 0;
    let wire::FileLock { start, end, kind, pid } = arguments.lock;
    let kind = match kind as i32 {
        libc::F_RDLCK => LockKind::Shared,
        libc::F_WRLCK => LockKind::Exclusive,
        libc::F_UNLCK => LockKind::Unlock,
        _ => return Err(Errno::EINVAL),
    };
    let family = if flock { LockFamily::Flock } else { LockFamily::Posix };
    let end = if end >= OFFSET_MAX { u64::MAX } else { end };
    if start > end {
        return Err(Errno::EINVAL);
    }
    Ok(Lock { family, kind, start, end, pid })
}

/// Encodes the conflicting lock, or the absence of one.
pub(crate) fn lock_to_wire(lock: Option<&Lock>) -> wire::FileLock {
    let Some(lock) = lock else {
        return wire::FileLock { kind: libc::F_UNLCK as u32, ..Default::default() };
    };
    let kind = match lock.kind {
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
        LockKind::Unlock => libc::F_UNLCK,
    };
    wire::FileLock { start: lock.start, end: lock.end.min(OFFSET_MAX), kind: kind as u32, pid: lock.pid }
}

/// Returns the kind of a new node, from the mode of MKNOD.
pub(crate) fn node_kind(mode: u32) -> Result<FileKind> {
    // mknod(2): a mode without a file type means a regular file.
    if mode & libc::S_IFMT == 0 { Ok(FileKind::Regular) } else { FileKind::from_mode(mode).ok_or(Errno::EINVAL) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_round_trip() {
        for (major, minor) in [(0, 0), (8, 1), (10, 229), (259, 0xf_ffff), (0xfff, 0x100)] {
            let device = Device { major, minor };
            assert_eq!(device_from_wire(device_to_wire(device)), device);
        }
        assert_eq!(device_to_wire(Device { major: 8, minor: 1 }), 0x801);
    }

    #[test]
    fn a_lock_to_the_end_is_one_without_an_end() {
        let lock = wire::FileLock { start: 5, end: OFFSET_MAX, kind: libc::F_WRLCK as u32, pid: 9 };
        let arguments = wire::LockIn { lock, ..Default::default() };
        let converted = lock_from_wire(&arguments).unwrap();
        assert_eq!((converted.start, converted.end, converted.kind), (5, u64::MAX, LockKind::Exclusive));
        assert_eq!(lock_to_wire(Some(&converted)).end, OFFSET_MAX);
        let backwards = wire::LockIn { lock: wire::FileLock { start: 9, end: 1, ..lock }, ..Default::default() };
        assert_eq!(lock_from_wire(&backwards), Err(Errno::EINVAL));
    }

    #[test]
    fn only_valid_fields_change() {
        let set = wire::SetAttributesIn {
            valid: valid::MODE | valid::MTIME | valid::MTIME_NOW | valid::ATIME | valid::KILL_SUIDGID,
            mode: 0o104_755,
            uid: 7,
            atime: (-5i64) as u64,
            atime_nanoseconds: 3,
            ..Default::default()
        };
        let changes = changes_from_wire(&set);
        assert_eq!(changes.mode, Some(0o4755));
        assert_eq!((changes.uid, changes.size), (None, None));
        assert_eq!(changes.atime, Some(SetTime::To(Timestamp { seconds: -5, nanoseconds: 3 })));
        assert_eq!(changes.mtime, Some(SetTime::Now));
        assert!(changes.kill_privileges);
    }

    #[test]
    fn unknown_flags_are_refused() {
        assert_eq!(rename_mode(3), Err(Errno::EINVAL));
        assert_eq!(rename_mode(5), Ok(RenameMode::WhiteoutNoReplace));
        assert_eq!(xattr_mode(3), Err(Errno::EINVAL));
        assert_eq!(seek_target(0), Err(Errno::EINVAL));
    }
}
