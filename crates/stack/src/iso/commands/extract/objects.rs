//! Creates objects in a directory, with the attributes that they have in an image.

use std::os::fd::{AsFd, BorrowedFd};

use bases::iso::WalkEntry;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno as SystemError;
use vnode::{Attributes, Caller, FileKind, OpenFlags, Timestamp};

use super::copying;
use super::error::ExtractionError;

/// Permission bits that give others the rights of the owner or group.
const SET_ID: u32 = 0o6000;

/// Which attributes are restored, besides times and permission bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restored {
    /// Owners, groups and set-id bits.
    pub(crate) owners: bool,
    /// Devices.
    pub(crate) devices: bool,
}

/// Creates an object that is no directory.
///
/// # Errors
/// [`ExtractionError`]; then it does not exist.
pub(crate) fn create(
    directory: BorrowedFd<'_>,
    name: &[u8],
    entry: &WalkEntry,
    restored: Restored,
) -> Result<(), ExtractionError> {
    match entry.attributes.kind {
        FileKind::Regular => create_file(directory, name, entry, restored),
        FileKind::Symlink => {
            let target = entry.vnode.readlink(&Caller::server())?;
            rustix::fs::symlinkat(target, directory, name)?;
            complete(directory, name, &entry.attributes, restored)
        }
        _ => {
            let Attributes { kind, rdev, .. } = entry.attributes;
            let device = rustix::fs::makedev(rdev.major, rdev.minor);
            rustix::fs::mknodat(directory, name, file_type(kind), mode(&entry.attributes, restored), device)?;
            complete(directory, name, &entry.attributes, restored)
        }
    }
}

fn create_file(
    directory: BorrowedFd<'_>,
    name: &[u8],
    entry: &WalkEntry,
    restored: Restored,
) -> Result<(), ExtractionError> {
    let caller = Caller::server();
    let source = entry.vnode.open(&caller, OpenFlags::READ)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
    let copied = copying::copy(&*source, &file, entry.attributes.size)
        .and_then(|()| Ok(set(file.as_fd(), &entry.attributes, restored)?));
    if copied.is_err() {
        remove(directory, name);
    }
    copied
}

/// Sets owner and times of an object that was created without an open file.
fn complete(
    directory: BorrowedFd<'_>,
    name: &[u8],
    attributes: &Attributes,
    restored: Restored,
) -> Result<(), ExtractionError> {
    let (owner, group) = owners(attributes);
    let changed = match restored.owners {
        true => rustix::fs::chownat(directory, name, owner, group, AtFlags::SYMLINK_NOFOLLOW),
        false => Ok(()),
    };
    let times = times(attributes);
    let set = changed.and_then(|()| rustix::fs::utimensat(directory, name, &times, AtFlags::SYMLINK_NOFOLLOW));
    if set.is_err() {
        remove(directory, name);
    }
    Ok(set?)
}

/// Sets the attributes of an open object.
///
/// # Errors
/// Those of fchown(2), fchmod(2) and futimens(3).
pub(crate) fn set(object: BorrowedFd<'_>, attributes: &Attributes, restored: Restored) -> Result<(), SystemError> {
    if restored.owners {
        let (owner, group) = owners(attributes);
        rustix::fs::fchown(object, owner, group)?;
    }
    rustix::fs::fchmod(object, mode(attributes, restored))?;
    rustix::fs::futimens(object, &times(attributes))
}

/// Removes what could not be completed.
fn remove(directory: BorrowedFd<'_>, name: &[u8]) {
    let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
}

fn mode(attributes: &Attributes, restored: Restored) -> Mode {
    let bits = if restored.owners { attributes.mode } else { attributes.mode & !SET_ID };
    Mode::from_raw_mode(bits & 0o7777)
}

fn owners(attributes: &Attributes) -> (Option<Uid>, Option<Gid>) {
    // The largest number means to chown(2) that nothing changes.
    let owner = Some(attributes.uid).filter(|uid| *uid != u32::MAX).map(Uid::from_raw);
    (owner, Some(attributes.gid).filter(|gid| *gid != u32::MAX).map(Gid::from_raw))
}

fn times(attributes: &Attributes) -> Timestamps {
    let time = |time: Timestamp| Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() };
    Timestamps { last_access: time(attributes.atime), last_modification: time(attributes.mtime) }
}

fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::Fifo,
        FileKind::Socket => FileType::Socket,
        FileKind::CharacterDevice => FileType::CharacterDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}
