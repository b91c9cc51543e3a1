//! Creation: who may create what, and what a new object inherits from its directory.

use libc::{S_ISGID, S_ISVTX, S_IXGRP};
use vnode::{Caller, Device, Errno, FileKind, Result};

use super::acl::Acl;
use super::protection::Protection;
use super::set_id::may_keep_setgid;

/// Maximum length of a symlink's target in bytes.
pub(crate) const TARGET_MAX: usize = 4095;

/// The attributes that a new object gets from its directory and its creator.
pub(crate) struct Inherited {
    pub(crate) mode: u32,
    pub(crate) gid: u32,
    pub(crate) access_acl: Option<Box<Acl>>,
    pub(crate) default_acl: Option<Box<Acl>>,
}

impl Inherited {
    /// Returns the protection of a new object of that kind and owner.
    pub(crate) fn protection(self, kind: FileKind, uid: u32) -> Protection {
        Protection {
            kind,
            uid,
            gid: self.gid,
            mode: self.mode,
            access_acl: self.access_acl,
            default_acl: self.default_acl,
        }
    }
}

/// Returns mode, group and ACLs of a new object in a directory. The umask applies only without a default list.
pub(crate) fn inherit(directory: &Protection, caller: &Caller, kind: FileKind, mode: u32) -> Inherited {
    let setgid = directory.mode & S_ISGID != 0;
    let gid = if setgid { directory.gid } else { caller.gid };
    let mode = match kind {
        FileKind::Symlink => return Inherited { mode: 0o777, gid, access_acl: None, default_acl: None },
        FileKind::Directory => mode & (0o777 | S_ISVTX) | if setgid { S_ISGID } else { 0 },
        _ if setgid && mode & (S_ISGID | S_IXGRP) == S_ISGID | S_IXGRP && !may_keep_setgid(caller, gid) => {
            mode & 0o7777 & !S_ISGID
        }
        _ => mode & 0o7777,
    };
    let Some(default) = &directory.default_acl else {
        return Inherited { mode: mode & !(caller.umask & 0o777), gid, access_acl: None, default_acl: None };
    };
    let access = default.inherited(mode);
    Inherited {
        mode: mode & !0o777 | access.mode_bits(),
        gid,
        access_acl: (!access.is_mode_only()).then(|| access.into()),
        default_acl: (kind == FileKind::Directory).then(|| default.clone()),
    }
}

/// Restricts devices, except whiteouts, to the superuser.
///
/// # Errors
/// `EPERM`.
pub(crate) fn check_device(caller: &Caller, kind: FileKind, device: Device) -> Result<()> {
    let is_whiteout = kind == FileKind::CharacterDevice && device == Device::default();
    let is_device = matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice);
    if is_device && !is_whiteout && !caller.is_superuser() { Err(Errno::EPERM) } else { Ok(()) }
}

/// Checks the length of a symlink's target.
///
/// # Errors
/// `ENOENT` for an empty target, `ENAMETOOLONG` beyond [`TARGET_MAX`] bytes.
pub(crate) fn check_target(target: &[u8]) -> Result<()> {
    match target.len() {
        0 => Err(Errno::ENOENT),
        1..=TARGET_MAX => Ok(()),
        _ => Err(Errno::ENAMETOOLONG),
    }
}
