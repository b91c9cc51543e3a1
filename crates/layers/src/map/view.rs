//! Permission checks of a Unix file system, by the attributes that `map` shows.

use vnode::{AccessMode, Attributes, Caller, Errno, FileKind, OpenFlags, Result, SetAttributes, SetTime};

/// The kernel opens a file with this flag to execute it (`__FMODE_EXEC`).
const FMODE_EXEC: u32 = 0x20;

/// An object as a caller sees it.
pub(crate) struct ObjectView<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) attributes: Attributes,
}

impl ObjectView<'_> {
    /// Checks access as access(2) does, except for read-only file systems.
    pub(crate) fn check(&self, mode: AccessMode) -> Result<()> {
        let Attributes { mode: bits, uid, gid, .. } = self.attributes;
        // The kernel knows what the root of a user namespace may do with objects that its user owns.
        let is_overriding = self.caller.uid == uid && self.caller.is_admitted_by_kernel();
        let granted = if self.caller.is_superuser() || is_overriding {
            let executable = self.attributes.is_directory() || bits & 0o111 != 0;
            if executable { 7 } else { 6 }
        } else if self.caller.uid == uid {
            bits >> 6
        } else if bits >> 3 & 7 != bits & 7 && self.caller.is_in_group(gid) {
            bits >> 3
        } else {
            bits
        };
        if mode.bits() & !granted == 0 { Ok(()) } else { Err(Errno::EACCES) }
    }

    pub(crate) fn check_open(&self, flags: OpenFlags) -> Result<()> {
        let mut wanted = 0;
        if flags.bits() & FMODE_EXEC != 0 {
            wanted |= AccessMode::EXECUTE.bits();
        } else if flags.reads() {
            wanted |= AccessMode::READ.bits();
        }
        if flags.writes() || flags.truncates() {
            wanted |= AccessMode::WRITE.bits();
        }
        self.check(AccessMode::from_bits(wanted))
    }

    /// Checks whether names may be added to and removed from this directory.
    pub(crate) fn check_entries(&self) -> Result<()> {
        self.check(AccessMode::from_bits(AccessMode::WRITE.bits() | AccessMode::EXECUTE.bits()))
    }

    /// Checks whether the sticky bit permits removing the name of an object of `owner` from this directory.
    pub(crate) fn check_sticky(&self, owner: u32) -> Result<()> {
        let free = self.attributes.mode & libc::S_ISVTX == 0;
        if free || self.is_owner() || owner == self.caller.uid { Ok(()) } else { Err(Errno::EPERM) }
    }

    pub(crate) fn is_owner(&self) -> bool {
        self.caller.is_superuser() || self.caller.uid == self.attributes.uid
    }

    pub(crate) fn check_owner(&self) -> Result<()> {
        if self.is_owner() { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Checks whether the object may get another name. Where the kernel protects files (`protected_hardlinks`,
    /// proc_sys_fs(5)), so does this check: from names by which a caller that may not both read and write them would
    /// keep them.
    pub(crate) fn check_link(&self) -> Result<()> {
        let both = AccessMode::from_bits(AccessMode::READ.bits() | AccessMode::WRITE.bits());
        let mode = self.attributes.mode;
        let runs_as_others =
            mode & libc::S_ISUID != 0 || mode & (libc::S_ISGID | libc::S_IXGRP) == libc::S_ISGID | libc::S_IXGRP;
        let is_safe = self.attributes.kind == FileKind::Regular && !runs_as_others && self.check(both).is_ok();
        if self.is_owner() || is_safe || !are_links_protected() { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Checks whether the changes may be made, and adjusts them: set-group-ID is cleared where the caller has no right
    /// to it.
    pub(crate) fn check_changes(&self, changes: &mut SetAttributes) -> Result<()> {
        let superuser = self.caller.is_superuser();
        if let Some(mode) = &mut changes.mode {
            self.check_owner()?;
            if !superuser && !self.caller.is_in_group(changes.gid.unwrap_or(self.attributes.gid)) {
                *mode &= !libc::S_ISGID;
            }
        }
        let keeps = |uid| self.is_owner() && uid == self.attributes.uid;
        if !superuser && changes.uid.is_some_and(|uid| !keeps(uid)) {
            return Err(Errno::EPERM);
        }
        if let Some(gid) = changes.gid {
            self.check_owner()?;
            if !superuser && gid != self.attributes.gid && !self.caller.is_in_group(gid) {
                return Err(Errno::EPERM);
            }
        }
        if changes.size.is_some() {
            self.check(AccessMode::WRITE)?;
        }
        self.check_times(changes)
    }

    fn check_times(&self, changes: &SetAttributes) -> Result<()> {
        match (changes.atime, changes.mtime) {
            (None, None) => Ok(()),
            _ if self.is_owner() => Ok(()),
            // Setting both to now is what a write would do.
            (Some(SetTime::Now), Some(SetTime::Now)) => self.check(AccessMode::WRITE),
            // A change of size comes with a new time, which a caller that may write may set.
            (None, Some(SetTime::Now)) if changes.size.is_some() => Ok(()),
            _ => Err(Errno::EPERM),
        }
    }

    /// Checks whether an extended attribute may be read or, with `write`, written.
    pub(crate) fn check_attribute(&self, name: &[u8], write: bool) -> Result<()> {
        let regular = matches!(self.attributes.kind, FileKind::Regular | FileKind::Directory);
        if name.starts_with(b"user.") {
            if !regular {
                return Err(if write { Errno::EPERM } else { Errno::ENODATA });
            }
            if write && self.attributes.is_directory() && self.attributes.mode & libc::S_ISVTX != 0 {
                self.check_owner()?;
            }
            return self.check(if write { AccessMode::WRITE } else { AccessMode::READ });
        }
        let trusted = name.starts_with(b"trusted.");
        if is_acl(name) || !(trusted || name.starts_with(b"security.") || name.starts_with(b"system.")) {
            return Err(Errno::EOPNOTSUPP);
        }
        match self.caller.is_superuser() {
            true => Ok(()),
            false if write => Err(Errno::EPERM),
            false if trusted => Err(Errno::ENODATA),
            false => Ok(()),
        }
    }
}

/// Returns whether the kernel protects files from links; where that cannot be determined, they are protected.
fn are_links_protected() -> bool {
    procfs::parameter("fs/protected_hardlinks").is_none_or(|switch| switch != "0")
}

/// Returns whether the extended attribute is an ACL, which names lower IDs and grants permissions that are not in the
/// shown mode.
pub(crate) fn is_acl(name: &[u8]) -> bool {
    name.starts_with(b"system.posix_acl_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use vnode::{Device, InodeNumber, Timestamp};

    fn attributes(kind: FileKind, mode: u32, uid: u32, gid: u32) -> Attributes {
        let (nlink, ino, size, blocks, block_size) = (1, InodeNumber::new(1), 0, 0, 4096);
        let now = Timestamp::default();
        let (rdev, btime, flags, flags_known) = (Device::default(), None, 0, 0);
        Attributes {
            kind,
            mode,
            nlink,
            uid,
            gid,
            rdev,
            ino,
            size,
            blocks,
            block_size,
            atime: now,
            mtime: now,
            ctime: now,
            btime,
            flags,
            flags_known,
            is_provisional: false,
        }
    }

    #[test]
    fn first_matching_permission_class_decides() {
        let file = attributes(FileKind::Regular, 0o046, 1, 2);
        let may = |uid, groups: &[u32], mode| {
            let caller = Caller::with_groups(uid, 99, groups, 0);
            ObjectView { caller: &caller, attributes: file }.check(mode).is_ok()
        };
        assert!(!may(1, &[2], AccessMode::READ), "the owner");
        assert!(may(3, &[2], AccessMode::READ) && !may(3, &[2], AccessMode::WRITE), "the group");
        assert!(may(3, &[4], AccessMode::WRITE) && !may(3, &[], AccessMode::EXECUTE), "others");
        assert!(may(0, &[], AccessMode::WRITE) && !may(0, &[], AccessMode::EXECUTE), "the superuser");
    }

    #[test]
    fn protected_hardlinks_restrict_links_to_files_of_others() {
        let may = |uid, kind, mode| {
            let caller = Caller::with_groups(uid, 99, &[], 0);
            ObjectView { caller: &caller, attributes: attributes(kind, mode, 1, 2) }.check_link().is_ok()
        };
        assert!(may(1, FileKind::Regular, 0o4700) && may(0, FileKind::Fifo, 0));
        assert!(may(3, FileKind::Regular, 0o666) && may(3, FileKind::Regular, 0o2666));
        let is_protected = are_links_protected();
        for (kind, mode) in [
            (FileKind::Regular, 0o600),
            (FileKind::Regular, 0o644),
            (FileKind::Regular, 0o4777),
            (FileKind::Regular, 0o2777),
            (FileKind::Fifo, 0o666),
            (FileKind::Symlink, 0o777),
        ] {
            assert_eq!(may(3, kind, mode), !is_protected, "{kind:?} {mode:o}");
        }
    }

    #[test]
    fn attribute_changes_require_permission() {
        let caller = Caller::with_groups(5, 5, &[6], 0);
        let may = |owner, changes: SetAttributes| {
            let view = ObjectView { caller: &caller, attributes: attributes(FileKind::Regular, 0o622, owner, 6) };
            let mut changes = changes;
            view.check_changes(&mut changes).map(|()| changes)
        };
        let none = SetAttributes::default();
        assert_eq!(may(5, SetAttributes { uid: Some(7), ..none }), Err(Errno::EPERM));
        assert!(may(5, SetAttributes { gid: Some(6), ..none }).is_ok());
        assert_eq!(may(5, SetAttributes { gid: Some(8), ..none }), Err(Errno::EPERM));
        assert_eq!(may(7, SetAttributes { mode: Some(0o600), ..none }), Err(Errno::EPERM));
        let now = Some(SetTime::Now);
        assert!(may(7, SetAttributes { atime: now, mtime: now, ..none }).is_ok());
        let past = Some(SetTime::To(Timestamp::default()));
        assert_eq!(may(7, SetAttributes { atime: past, mtime: past, ..none }), Err(Errno::EPERM));
        assert!(may(7, SetAttributes { size: Some(0), ..none }).is_ok());
    }
}
