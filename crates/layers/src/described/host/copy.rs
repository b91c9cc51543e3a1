//! Copies that rules make of lower files: as the caller, and open to nobody who could not read the original.

use vnode::{
    Attributes, Caller, Creation, Errno, Name, OpenFlags, RenameMode, Result, SetAttributes, SetTime, VnodeRef,
    XattrMode,
};

use crate::copies::{ACCESS_LIST, copy_data, copy_xattrs, decides_access, is_refusal};

/// Mode of a copy that is not complete yet, and of one that only its owner may read.
const OWNER_ONLY: u32 = 0o600;
/// Permission bits of a copy, which has neither set-ID bits nor capabilities, since it remains where a program may have
/// been replaced for its flaws.
const PERMISSION_BITS: u32 = 0o777;
/// Prefixes of extended attributes in which unions and overlayfs keep data about an object in a branch, which its copy
/// is not.
const PRIVATE_XATTR_PREFIXES: [&[u8]; 4] = [b"trusted.overlay.", b"user.overlay.", b"trusted.plyfs.", b"user.plyfs."];
/// Number of names that are tried for a copy that is not complete yet.
const MAX_NAME_ATTEMPTS: usize = 16;

/// Copies a file to a name in a directory, which refers either to what it referred to before or to the complete copy:
/// data, extended attributes and times, and owner, group, access control list and permissions as far as the caller may
/// give them to the copy.
pub(crate) fn copy(caller: &Caller, original: &VnodeRef, directory: &VnodeRef, name: Name<'_>) -> Result<()> {
    let from = original.open(caller, OpenFlags::READ)?;
    let (temporary_name, created) = create(caller, directory)?;
    let temporary_name = Name::new(temporary_name.as_bytes())?;
    let target = created.file;
    let size = from.getattr(caller).map(|attributes| attributes.size);
    // The copy is on storage before it has its name, since the original may be removed or overwritten next.
    let copied = size
        .and_then(|size| copy_data(caller, &*from, &*target, size))
        .and_then(|()| copy_attributes(caller, original, &created.entry.vnode))
        .and_then(|()| target.fsync(caller, false))
        .and_then(|()| directory.rename(caller, temporary_name, directory, name, RenameMode::Replace));
    if copied.is_err() {
        // The error that counts is the earlier one.
        let _ = directory.unlink(&caller.uncancelled(), temporary_name);
    }
    copied
}

/// Creates an empty file by a name that nobody can predict.
fn create(caller: &Caller, directory: &VnodeRef) -> Result<(String, vnode::Created)> {
    let how = Creation { mode: OWNER_ONLY, flags: OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE) };
    for _ in 0..MAX_NAME_ATTEMPTS {
        let mut random = [0; 8];
        ::fist::ciphers::random(&mut random);
        let name = format!(".{:016x}.copy", u64::from_ne_bytes(random));
        match directory.create(caller, Name::new(name.as_bytes())?, &how) {
            Err(Errno::EEXIST) => {}
            created => return created.map(|created| (name, created)),
        }
    }
    Err(Errno::EEXIST)
}

/// Gives a copy the attributes of the original that it can have.
///
/// # Errors
/// Returns `EPERM` if the file system gives the copy permissions that it is not to have.
fn copy_attributes(caller: &Caller, original: &VnodeRef, copy: &VnodeRef) -> Result<()> {
    let is_copied =
        |name: &[u8]| !decides_access(name) && !PRIVATE_XATTR_PREFIXES.iter().any(|mark| name.starts_with(mark));
    copy_xattrs((original, caller), (copy, caller), is_copied, |_| {})?;
    let original_attributes = original.getattr(caller)?;
    let list = optional_xattr(original.getxattr(caller, ACCESS_LIST))?;
    let is_same_group = copy_owner(caller, copy, &original_attributes)?.gid == original_attributes.gid;
    // The copy may have inherited a list from the directory.
    optional_xattr(copy.removexattr(caller, ACCESS_LIST))?;
    let mode = match (is_same_group, list) {
        (true, list) => {
            list.map_or(Ok(()), |list| copy.setxattr(caller, ACCESS_LIST, &list, XattrMode::Set))?;
            original_attributes.mode & PERMISSION_BITS
        }
        // Users that the list names would be among all others, or in the group.
        (false, Some(_)) => original_attributes.mode & 0o700,
        (false, None) => original_attributes.mode & 0o700 | shared_by_group_and_others(original_attributes.mode),
    };
    set_if_permitted(caller, copy, SetAttributes { mode: Some(mode), ..SetAttributes::default() })?;
    let (atime, mtime) = (Some(SetTime::To(original_attributes.atime)), Some(SetTime::To(original_attributes.mtime)));
    set_if_permitted(caller, copy, SetAttributes { atime, mtime, ..SetAttributes::default() })?;
    let now = copy.getattr(caller)?;
    if now.mode & PERMISSION_BITS & !mode != 0 { Err(Errno::EPERM) } else { Ok(()) }
}

/// Returns the bits that both the group and others have: members of one may be among the others of a copy with another
/// group.
fn shared_by_group_and_others(mode: u32) -> u32 {
    let both = mode >> 3 & mode & 0o7;
    both << 3 | both
}

/// Gives a copy to the original's owner and group or, where the caller may not, to the group; returns the resulting
/// attributes.
fn copy_owner(caller: &Caller, copy: &VnodeRef, original_attributes: &Attributes) -> Result<Attributes> {
    let now = copy.getattr(caller)?;
    let uid = (now.uid != original_attributes.uid).then_some(original_attributes.uid);
    let gid = (now.gid != original_attributes.gid).then_some(original_attributes.gid);
    for owner in [(uid, gid), (None, gid)] {
        if owner == (None, None) {
            break;
        }
        match copy.setattr(caller, &SetAttributes { uid: owner.0, gid: owner.1, ..SetAttributes::default() }) {
            Err(error) if is_refusal(error) => {}
            changed => return changed,
        }
    }
    Ok(now)
}

/// Sets the attributes that the file system keeps, and ignores its refusal of others.
fn set_if_permitted(caller: &Caller, copy: &VnodeRef, changes: SetAttributes) -> Result<()> {
    match copy.setattr(caller, &changes) {
        Err(error) if is_refusal(error) => Ok(()),
        result => result.map(drop),
    }
}

/// Returns the result, or `None` if the attribute does not exist.
fn optional_xattr<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}
