//! Attributes of copies: owner, permissions, access control lists, extended attributes and times.

use vnode::{Attributes, Caller, Errno, FileKind, Result, SetAttributes, Timestamp, VnodeRef, XattrMode};

use crate::copies;

use crate::union::branch::losses::{Loss, Losses};
use crate::union::branch::objects::times_of;
use crate::union::branch::whiteout;
use crate::union::settings::CopyPermissions;

/// Gives a copy the extended attributes and times of the original, and, unless `rights` override them, its owner, access
/// control lists and permissions, in an order in which none undoes another. The writer is the server, at the expense of the
/// caller that needs the copy. Returns what the branch does not preserve.
///
/// # Errors
/// `EPERM` if the branch preserves neither owner nor permissions, and those that it assigns would let somebody read or write
/// who may not read or write the original.
pub(crate) fn copy_attributes(
    writer: &Caller,
    original: &VnodeRef,
    copy: &VnodeRef,
    rights: Option<CopyPermissions>,
) -> Result<Losses> {
    let attributes = original.getattr(&Caller::server())?;
    let (uid, gid) = rights.map_or((attributes.uid, attributes.gid), |rights| (rights.uid, rights.gid));
    let owned = set_owner(writer, copy, uid, gid)?;
    let lost = copy_xattrs(writer, original, copy, rights.is_none())?;
    let mode = match (attributes.kind, rights) {
        (FileKind::Symlink, _) => None,
        (_, None) => Some(attributes.mode),
        (FileKind::Directory, Some(rights)) => Some(rights.directory_mode()),
        (_, Some(rights)) => Some(rights.mode),
    };
    // A setuid program must not run as somebody else than its owner.
    let kept = mode.map(|mode| without_foreign_set_id(mode, (uid, gid), &owned));
    let now = set_mode_and_times(copy, kept, &attributes)?;
    let wanted = Attributes { uid, gid, mode: mode.unwrap_or(now.mode), ..attributes };
    if rights.is_none() {
        check_rights(&wanted, &now)?;
    }
    Ok(lost
        .with_if(has_wrong_owner(&wanted, &now), Loss::Owner)
        .with_if(now.mode != wanted.mode, Loss::Mode)
        .with_if(!is_near(now.mtime, wanted.mtime), Loss::Times))
}

/// Gives a directory the owner, mode and access control lists of another instance, if they differ.
///
/// # Errors
/// `EPERM` as for [`copy_attributes`].
pub(crate) fn copy_permissions(writer: &Caller, from: &VnodeRef, to: &VnodeRef) -> Result<()> {
    let server = Caller::server();
    let (wanted, present) = (from.getattr(&server)?, to.getattr(&server)?);
    if (wanted.uid, wanted.gid) != (present.uid, present.gid) {
        set_owner(writer, to, wanted.uid, wanted.gid)?;
    }
    for list in [&b"system.posix_acl_access"[..], b"system.posix_acl_default"] {
        let value = |object: &VnodeRef| match object.getxattr(&server, list) {
            Ok(value) => Ok(Some(value)),
            Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
            Err(error) => Err(error),
        };
        match (value(from)?, value(to)?) {
            (wanted, present) if wanted == present => {}
            (Some(wanted), _) => to.setxattr(writer, list, &wanted, XattrMode::Set)?,
            (None, _) => to.removexattr(&server, list)?,
        }
    }
    let now = to.getattr(&server)?;
    if now.mode == wanted.mode {
        return check_rights(&wanted, &now);
    }
    match to.setattr(&server, &SetAttributes { mode: Some(wanted.mode), ..SetAttributes::default() }) {
        Err(error) if copies::is_refusal(error) => check_rights(&wanted, &now),
        set => check_rights(&wanted, &set?),
    }
}

/// Sets the owner of an object, if the branch can: FAT and others have one owner for all. Returns the resulting attributes.
fn set_owner(writer: &Caller, object: &VnodeRef, uid: u32, gid: u32) -> Result<Attributes> {
    let present = object.getattr(&Caller::server())?;
    if (present.uid, present.gid) == (uid, gid) {
        return Ok(present);
    }
    let owner = SetAttributes { uid: Some(uid), gid: Some(gid), ..SetAttributes::default() };
    match object.setattr(writer, &owner) {
        Err(error) if copies::is_refusal(error) => object.getattr(&Caller::server()),
        result => result,
    }
}

/// The mode without set-id bits that would apply to another owner or group than wanted.
fn without_foreign_set_id(mode: u32, (uid, gid): (u32, u32), owned: &Attributes) -> u32 {
    const SET_UID: u32 = 0o4000;
    const SET_GID: u32 = 0o2000;
    let of_owner = if owned.uid == uid { SET_UID } else { 0 };
    // Objects created in a directory with that bit get its group.
    let of_group = if owned.gid == gid || owned.is_directory() { SET_GID } else { 0 };
    mode & !(SET_UID | SET_GID) | mode & (of_owner | of_group)
}

/// Sets as much of mode and times as the branch preserves; returns the resulting attributes.
fn set_mode_and_times(object: &VnodeRef, mode: Option<u32>, of: &Attributes) -> Result<Attributes> {
    const PERMISSION_BITS: u32 = 0o777;
    let server = Caller::server();
    // Some branches have no set-id bits, others nothing that could be set.
    for mode in [mode, mode.map(|mode| mode & PERMISSION_BITS), None] {
        match object.setattr(&server, &SetAttributes { mode, ..times_of(of) }) {
            Err(error) if copies::is_refusal(error) => {}
            result => return result,
        }
    }
    object.getattr(&server)
}

/// Returns whether an object has another owner than wanted, and the server could give it away elsewhere: an unprivileged server
/// owns everything that it creates.
fn has_wrong_owner(wanted: &Attributes, now: &Attributes) -> bool {
    (wanted.uid, wanted.gid) != (now.uid, now.gid) && rustix::process::geteuid().is_root()
}

/// Refuses permissions that a branch assigns instead of the wanted ones, if they allow anything that those do not.
fn check_rights(wanted: &Attributes, now: &Attributes) -> Result<()> {
    const PERMISSION_BITS: u32 = 0o777;
    let is_kept = !has_wrong_owner(wanted, now) && (wanted.mode ^ now.mode) & PERMISSION_BITS == 0;
    if is_kept || !grants_more(wanted, now, rustix::process::geteuid().as_raw()) { Ok(()) } else { Err(Errno::EPERM) }
}

/// Returns whether permissions let anybody read, write or search who may not do so with the wanted ones, not counting the
/// superuser and the server itself.
fn grants_more(wanted: &Attributes, now: &Attributes, server: u32) -> bool {
    const SEARCH_BIT: u32 = 0o1;
    let bits = if wanted.is_directory() { 0o6 | SEARCH_BIT } else { 0o6 };
    let classes = |attributes: &Attributes| [6, 3, 0].map(|shift| attributes.mode >> shift & bits);
    let ([owner, group, others], [new_owner, new_group, new_others]) = (classes(wanted), classes(now));
    let owner = if wanted.uid == 0 { bits } else { owner };
    let everybody = owner & group & others;
    let (is_same_owner, is_same_group) = (wanted.uid == now.uid, wanted.gid == now.gid);
    let of_owner = match now.uid {
        0 => bits,
        uid if uid == server => bits,
        // An owner may grant itself that at any time.
        _ if is_same_owner => bits,
        _ => everybody,
    };
    let of_group = if is_same_group { group } else { everybody };
    let of_others = if is_same_owner && is_same_group { others } else { everybody };
    new_owner & !of_owner != 0 || new_group & !of_group != 0 || new_others & !of_others != 0
}

/// Returns whether a time is a rounded form of another, as stored by a file system with a granularity of at most two seconds.
pub(crate) fn is_near(kept: Timestamp, wanted: Timestamp) -> bool {
    const MAX_TIME_STEP_SECONDS: u64 = 2;
    kept.seconds.abs_diff(wanted.seconds) <= MAX_TIME_STEP_SECONDS
}

/// Checks that a copy has what makes up its original, apart from rounded times, so that the original can be removed.
///
/// # Errors
/// `EPERM`.
pub(crate) fn check_complete(original: &VnodeRef, copy: &VnodeRef, lost: Losses) -> Result<()> {
    let server = Caller::server();
    let (wanted, now) = (original.getattr(&server)?, copy.getattr(&server)?);
    let is_same = (wanted.uid, wanted.gid, wanted.mode) == (now.uid, now.gid, now.mode);
    if is_same && lost.without(Loss::Times) == Losses::NONE { Ok(()) } else { Err(Errno::EPERM) }
}

/// Like [`copy_attributes`], to an object that may have extended attributes which the original lacks.
pub(crate) fn replace_attributes(original: &VnodeRef, copy: &VnodeRef) -> Result<Losses> {
    remove_surplus(original, copy)?;
    copy_attributes(&Caller::server(), original, copy, None)
}

/// Removes extended attributes, and thereby access control lists, that the original lacks.
pub(crate) fn remove_surplus(original: &VnodeRef, copy: &VnodeRef) -> Result<()> {
    let server = Caller::server();
    let (wanted, there) = (original.listxattr(&server)?, copy.listxattr(&server)?);
    let is_wanted = |name: &[u8]| wanted.split(|&byte| byte == 0).any(|wanted| wanted == name);
    let surplus = there.split(|&byte| byte == 0).filter(|name| !name.is_empty() && !is_wanted(name));
    for name in surplus.filter(|name| !whiteout::is_own_attribute(name) && !copies::is_of_file_system(name)) {
        match copy.removexattr(&server, name) {
            Err(Errno::ENODATA) => {}
            result => result?,
        }
    }
    Ok(())
}

/// Copies extended attributes; returns which of them the branch does not preserve.
///
/// # Errors
/// Also if the branch supports no access control lists or capabilities, and the original has some.
fn copy_xattrs(writer: &Caller, original: &VnodeRef, copy: &VnodeRef, with_rights: bool) -> Result<Losses> {
    let decides = |name: &[u8]| copies::decides_access(name) || copies::is_label(name);
    let is_wanted = |name: &[u8]| !whiteout::is_own_attribute(name) && (with_rights || !decides(name));
    let mut lost = Losses::NONE;
    copies::copy_xattrs((original, &Caller::server()), (copy, writer), is_wanted, |name| {
        lost = match copies::is_label(name) {
            true => lost.with_if(true, Loss::Labels),
            false => lost.with_if(!copies::is_of_file_system(name), Loss::Attributes),
        };
    })?;
    Ok(lost)
}

#[cfg(test)]
mod tests {
    use vnode::Device;

    use super::*;

    fn rights(kind: FileKind, uid: u32, gid: u32, mode: u32) -> Attributes {
        let time = Timestamp { seconds: 0, nanoseconds: 0 };
        Attributes {
            kind,
            mode,
            nlink: 1,
            uid,
            gid,
            rdev: Device::default(),
            ino: vnode::InodeNumber::new(1),
            size: 0,
            blocks: 0,
            block_size: 4096,
            atime: time,
            mtime: time,
            ctime: time,
            btime: None,
            flags: 0,
            flags_known: 0,
            is_provisional: false,
        }
    }

    #[test]
    fn assigned_permissions_grant_nothing_more() {
        use FileKind::{Directory, Regular};
        let shown_to_all = (0, 0, 0o755);
        for (kind, wanted, now, opens) in [
            (Regular, (0, 0, 0o644), shown_to_all, false),
            (Regular, (0, 0, 0o4755), shown_to_all, false),
            (Regular, (5, 5, 0o644), shown_to_all, false),
            (Regular, (5, 5, 0o664), shown_to_all, false),
            (Regular, (5, 5, 0o640), shown_to_all, true),
            (Regular, (5, 5, 0o600), shown_to_all, true),
            (Regular, (5, 5, 0o600), (0, 0, 0o700), false),
            (Regular, (5, 5, 0o600), (9, 9, 0o700), true),
            (Regular, (5, 5, 0o644), (9, 9, 0o755), true),
            (Regular, (5, 5, 0o400), (5, 5, 0o700), false),
            (Regular, (0, 7, 0o640), (0, 7, 0o640), false),
            (Regular, (0, 7, 0o640), (0, 8, 0o640), true),
            (Regular, (5, 7, 0o604), (5, 8, 0o604), true),
            (Regular, (5, 5, 0o604), (5, 5, 0o604), false),
            (Directory, (0, 0, 0o755), shown_to_all, false),
            (Directory, (0, 0, 0o744), shown_to_all, true),
            (Directory, (0, 0, 0o1777), shown_to_all, false),
        ] {
            let of = |(uid, gid, mode)| rights(kind, uid, gid, mode);
            assert_eq!(grants_more(&of(wanted), &of(now), 0), opens, "{kind:?} {wanted:?} {now:?}");
        }
        for (now, kept) in [((5, 5), 0o6755), ((0, 5), 0o2755), ((5, 0), 0o4755), ((0, 0), 0o755)] {
            assert_eq!(without_foreign_set_id(0o6755, (5, 5), &rights(Regular, now.0, now.1, 0o644)), kept);
        }
        // Objects that an unprivileged server creates are its own.
        assert!(!grants_more(&rights(Regular, 0, 0, 0o600), &rights(Regular, 9, 9, 0o600), 9));
    }
}
