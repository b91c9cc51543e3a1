//! The attacked objects: every kind of object, each in a directory of its own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use libtest_mimic::Failed;
use rustix::fs::{CWD, FileType, IFlags, Mode, XattrFlags, ioctl_getflags, ioctl_setflags, makedev, mknodat, setxattr};

use super::users::{LISTED, OWNER, STRANGER};

/// The object that calls are about, in its directory.
pub(crate) const OBJECT: &str = "object";
/// A file of the owner's that everybody may read, beside it.
pub(crate) const NEIGHBOUR: &str = "neighbour";
/// A file of the stranger's, beside it.
pub(crate) const OWN_FILE: &str = "own file";

/// A kind of object, and how it is created.
pub(crate) struct Object {
    pub name: &'static str,
    make: fn(&Path) -> Result<(), Failed>,
    mode: u32,
    /// The directory that it is in is sticky, and everybody may write to it.
    in_sticky_directory: bool,
}

const fn object(name: &'static str, mode: u32, make: fn(&Path) -> Result<(), Failed>) -> Object {
    Object { name, make, mode, in_sticky_directory: false }
}

const fn in_sticky(name: &'static str, mode: u32, make: fn(&Path) -> Result<(), Failed>) -> Object {
    Object { name, make, mode, in_sticky_directory: true }
}

pub(crate) const OBJECTS: &[Object] = &[
    object("file for all", 0o666, file),
    object("file to be read", 0o644, file),
    object("file of the owner", 0o600, file),
    object("file of the group", 0o060, file),
    object("file for nobody", 0, file),
    object("program", 0o755, file),
    object("program to be executed only", 0o111, file),
    object("set-user-id program", 0o4755, file),
    object("set-user-id program for all to write", 0o4777, file),
    object("set-group-id program", 0o2775, file),
    object("set-group-id file", 0o2664, file),
    object("program with capabilities", 0o777, with_capabilities),
    object("file with a list", 0o640, with_list),
    object("file with two names", 0o664, with_two_names),
    object("directory", 0o755, directory),
    object("directory of the owner", 0o700, directory),
    object("directory that is searched only", 0o711, directory),
    object("set-group-id directory for all", 0o2777, directory),
    object("sticky directory", 0o1777, directory),
    object("directory with a list", 0o750, directory_with_list),
    object("symlink", 0o777, to_neighbour),
    object("symlink to nothing", 0o777, to_nothing),
    object("pipe of the owner", 0o600, pipe),
    object("pipe for all", 0o666, pipe),
    object("socket of the owner", 0o600, socket),
    object("character device of the owner", 0o600, character_device),
    object("character device for all", 0o666, character_device),
    object("block device of the owner", 0o600, block_device),
    object("immutable directory", 0o777, directory),
    object("immutable file", 0o666, file),
    object("file that only grows", 0o666, file),
    in_sticky("file for all in a sticky directory", 0o666, file),
    in_sticky("file of the owner in a sticky directory", 0o600, file),
    in_sticky("symlink in a sticky directory", 0o777, to_neighbour),
    in_sticky("pipe for all in a sticky directory", 0o666, pipe),
    in_sticky("directory in a sticky directory", 0o755, directory),
];

/// Creates the object in a new directory, with its neighbours. Everything belongs to the owner, except for the
/// stranger's file.
pub(crate) fn make(directory: &Path, object: &Object) -> Result<(), Failed> {
    fs::create_dir(directory)?;
    let path = directory.join(OBJECT);
    let neighbour = directory.join(NEIGHBOUR);
    file(&neighbour)?;
    set_owner_and_mode(&neighbour, OWNER, 0o644)?;
    let own = directory.join(OWN_FILE);
    file(&own)?;
    set_owner_and_mode(&own, STRANGER, 0o644)?;
    (object.make)(&path)?;
    if fs::symlink_metadata(&path)?.is_symlink() {
        std::os::unix::fs::lchown(&path, Some(OWNER), Some(OWNER))?;
    } else {
        let capabilities = rustix::fs::getxattr(&path, CAPABILITIES, &mut [0; 64][..]).is_ok();
        set_owner_and_mode(&path, OWNER, object.mode)?;
        if capabilities {
            // The change of owner has removed them.
            set_capabilities(&path)?;
        }
        if object.name.contains("with a list") {
            set_list(&path, object.mode)?;
        }
    }
    set_owner_and_mode(directory, OWNER, if object.in_sticky_directory { 0o1777 } else { 0o775 })?;
    if object.name.contains("immutable") {
        set_flags(&path, IFlags::IMMUTABLE)?;
    } else if object.name.contains("only grows") {
        set_flags(&path, IFlags::APPEND)?;
    }
    Ok(())
}

/// Removes a directory of objects.
pub(crate) fn remove(directory: &Path) -> Result<(), Failed> {
    if fs::remove_dir_all(directory).is_ok() {
        return Ok(());
    }
    // Immutable and append-only objects cannot be removed before their flags are cleared, under each of their names.
    for entry in fs::read_dir(directory)? {
        let _ = set_flags(&entry?.path(), IFlags::empty());
    }
    Ok(fs::remove_dir_all(directory)?)
}

/// Makes an object immutable or append-only, or neither, as chattr(1) does.
fn set_flags(path: &Path, flags: IFlags) -> Result<(), Failed> {
    let object = fs::File::open(path)?;
    let others = ioctl_getflags(&object)? - (IFlags::IMMUTABLE | IFlags::APPEND);
    Ok(ioctl_setflags(object, others | flags)?)
}

fn set_owner_and_mode(path: &Path, owner: u32, mode: u32) -> Result<(), Failed> {
    chown(path, Some(owner), Some(OWNER))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(())
}

fn file(path: &Path) -> Result<(), Failed> {
    Ok(fs::write(path, b"#!/bin/sh\nexit 7\n")?)
}

fn with_two_names(path: &Path) -> Result<(), Failed> {
    file(path)?;
    Ok(fs::hard_link(path, path.with_file_name("second name"))?)
}

const CAPABILITIES: &str = "security.capability";

/// `cap_net_raw=ep`, as capabilities(7) describes revision 2.
fn set_capabilities(path: &Path) -> Result<(), Failed> {
    let value: Vec<u8> = [0x0200_0001_u32, 1 << 13, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    Ok(setxattr(path, CAPABILITIES, &value, XattrFlags::empty())?)
}

fn with_capabilities(path: &Path) -> Result<(), Failed> {
    file(path)?;
    set_capabilities(path)
}

/// A list that lets one more user read and write, as acl(5) and the kernel's posix_acl_xattr.h describe it.
fn set_list(path: &Path, mode: u32) -> Result<(), Failed> {
    const NOBODY: u32 = u32::MAX;
    let bits = |shift: u32| (mode >> shift & 7) as u16;
    let more = if fs::metadata(path)?.is_dir() { 7 } else { 6 };
    let entries =
        [(1, bits(6), NOBODY), (2, more, LISTED), (4, bits(3), NOBODY), (16, more, NOBODY), (32, bits(0), NOBODY)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(u16::to_le_bytes(tag));
        list.extend(u16::to_le_bytes(permissions));
        list.extend(u32::to_le_bytes(id));
    }
    match setxattr(path, "system.posix_acl_access", &list, XattrFlags::empty()) {
        // Then it has none in either directory, or the difference shows.
        Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn with_list(path: &Path) -> Result<(), Failed> {
    file(path)
}

fn directory(path: &Path) -> Result<(), Failed> {
    fs::create_dir(path)?;
    let inner = path.join("inner");
    file(&inner)?;
    set_owner_and_mode(&inner, OWNER, 0o644)
}

fn directory_with_list(path: &Path) -> Result<(), Failed> {
    directory(path)
}

fn to_neighbour(path: &Path) -> Result<(), Failed> {
    Ok(symlink(NEIGHBOUR, path)?)
}

fn to_nothing(path: &Path) -> Result<(), Failed> {
    Ok(symlink("nothing", path)?)
}

fn node(path: &Path, kind: FileType, device: u64) -> Result<(), Failed> {
    Ok(mknodat(CWD, path, kind, Mode::empty(), device)?)
}

fn pipe(path: &Path) -> Result<(), Failed> {
    node(path, FileType::Fifo, 0)
}

fn socket(path: &Path) -> Result<(), Failed> {
    Ok(UnixListener::bind(path).map(drop)?)
}

/// The null device: nothing is harmed.
fn character_device(path: &Path) -> Result<(), Failed> {
    node(path, FileType::CharacterDevice, makedev(1, 3))
}

/// A device number for local use, which has no driver: nothing is harmed.
fn block_device(path: &Path) -> Result<(), Failed> {
    node(path, FileType::BlockDevice, makedev(60, 0))
}
