//! What a branch would refuse a caller, asked of the original before anything is copied for it: who may change nothing makes no
//! copies either. The branch of the copy has the last word.

use vnode::{AccessMode, Attributes, Caller, Errno, Result, SetAttributes, SetTime};

use super::node::Node;

impl Node {
    /// Whether the caller may make and take away names in this directory.
    pub(super) fn may_change_names(&self, caller: &Caller) -> Result<()> {
        if self.is_writable() || caller.is_superuser() {
            return Ok(());
        }
        self.may(caller, AccessMode::from_bits(AccessMode::WRITE.bits() | AccessMode::EXECUTE.bits()))
    }

    /// Whether the caller may take a name of an object with these attributes away from this directory.
    pub(super) fn may_take_away(&self, caller: &Caller, object: &Attributes) -> Result<()> {
        self.may_change_names(caller)?;
        const STICKY: u32 = 0o1000;
        if self.is_writable() || caller.is_superuser() {
            return Ok(());
        }
        let directory = self.leftmost().vnode.getattr(&Caller::server())?;
        let is_owner = [directory.uid, object.uid].contains(&caller.uid);
        if directory.mode & STICKY != 0 && !is_owner { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// Whether the caller may make these changes of attributes.
    pub(super) fn may_set(&self, caller: &Caller, changes: &SetAttributes) -> Result<()> {
        if changes.size.is_some() {
            self.may(caller, AccessMode::WRITE)?;
        }
        if caller.is_superuser() {
            return Ok(());
        }
        let now = self.leftmost().vnode.getattr(&Caller::server())?;
        let is_owner = now.uid == caller.uid;
        let is_given = |time: Option<SetTime>| matches!(time, Some(SetTime::To(_)));
        let has_another_owner = changes.uid.is_some_and(|uid| uid != now.uid || !is_owner);
        let has_a_foreign_group =
            changes.gid.is_some_and(|gid| !is_owner || (gid != now.gid && !caller.is_in_group(gid)));
        let is_owners = changes.mode.is_some() || is_given(changes.atime) || is_given(changes.mtime);
        if has_another_owner || has_a_foreign_group || (is_owners && !is_owner) {
            return Err(Errno::EPERM);
        }
        if (changes.atime.is_some() || changes.mtime.is_some()) && !is_owner {
            return self.may(caller, AccessMode::WRITE);
        }
        Ok(())
    }

    /// Whether the caller may set the extended attribute to this value, or take it away (xattr(7)).
    pub(super) fn may_change_xattr(&self, caller: &Caller, name: &[u8], value: &[u8]) -> Result<()> {
        let attributes = self.leftmost().vnode.getattr(&Caller::server())?;
        let is_owner = caller.is_superuser() || attributes.uid == caller.uid;
        let only = |may: bool| if may { Ok(()) } else { Err(Errno::EPERM) };
        if name.starts_with(b"user.") {
            const STICKY: u32 = 0o1000;
            only(is_owner || !attributes.is_directory() || attributes.mode & STICKY == 0)?;
            return self.may(caller, AccessMode::WRITE);
        }
        if name == b"security.capability" {
            let may_of_own =
                || caller.may_give_capabilities(value, attributes.uid) || caller.may_give_own_files_capabilities();
            return only(caller.is_superuser() || (is_owner && may_of_own()));
        }
        if name.starts_with(b"trusted.") || name.starts_with(b"security.") {
            return only(caller.may_administer());
        }
        if name.starts_with(b"system.") { only(is_owner) } else { Err(Errno::EOPNOTSUPP) }
    }

    /// Whether the caller may change the flags of chattr(1).
    pub(super) fn may_flag(&self, caller: &Caller) -> Result<()> {
        let is_owner = caller.is_superuser() || self.leftmost().vnode.getattr(&Caller::server())?.uid == caller.uid;
        if is_owner { Ok(()) } else { Err(Errno::EPERM) }
    }
}
