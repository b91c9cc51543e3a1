//! Changes of names in a branch whose errors are verified by a look-up.
//!
//! Storage may carry out a request and report an error all the same: a reply that was lost, a journal that could not be
//! written. If the change is then undone, or assumed not made, a file appears twice or not at all. The caller holds the locks
//! of the names, so that nobody else changes them in between.

use vnode::{Caller, Created, Creation, Device, Entry, Errno, FileKind, Name, RenameMode, Result, Vnode, VnodeRef};

use super::whiteout_device::has_number;

/// Operations of [`Vnode`] whose errors are reliable.
pub(crate) trait VerifiedOperations {
    /// As [`Vnode::unlink`].
    fn unlink_verified(&self, caller: &Caller, name: Name<'_>) -> Result<()>;
    /// As [`Vnode::rmdir`].
    fn rmdir_verified(&self, caller: &Caller, name: Name<'_>) -> Result<()>;
    /// As [`Vnode::create`] for a file that does not exist: after an error it still does not.
    fn create_verified(&self, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created>;
    /// As [`Vnode::mkdir`].
    fn mkdir_verified(&self, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry>;
    /// As [`Vnode::mknod`].
    fn mknod_verified(
        &self,
        caller: &Caller,
        name: Name<'_>,
        kind: FileKind,
        mode: u32,
        device: Device,
    ) -> Result<Entry>;
    /// As [`Vnode::symlink`].
    fn symlink_verified(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry>;
    /// As [`Vnode::link`].
    fn link_verified(&self, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry>;
    /// As [`Vnode::rename`], also if the branch does not support [`RenameMode::NoReplace`]: then a look-up checks that the name
    /// is free.
    fn rename_verified(
        &self,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()>;
}

impl VerifiedOperations for dyn Vnode {
    fn unlink_verified(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.unlink(caller, name).or_else(|error| verify_done(error, || is_unused(self, name)))
    }

    fn rmdir_verified(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.rmdir(caller, name).or_else(|error| verify_done(error, || is_unused(self, name)))
    }

    fn create_verified(&self, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        self.create(caller, name, how).inspect_err(|&error| {
            // Its creator could write to it whatever its mode: it cannot be opened again.
            let made = verify_made(error, self, caller, name, FileKind::Regular);
            if made.is_ok_and(|made| made.attributes.size == 0) {
                let _ = self.unlink_verified(&Caller::server(), name);
            }
        })
    }

    fn mkdir_verified(&self, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        self.mkdir(caller, name, mode).or_else(|error| verify_made(error, self, caller, name, FileKind::Directory))
    }

    fn mknod_verified(
        &self,
        caller: &Caller,
        name: Name<'_>,
        kind: FileKind,
        mode: u32,
        device: Device,
    ) -> Result<Entry> {
        self.mknod(caller, name, kind, mode, device).or_else(|error| verify_made(error, self, caller, name, kind))
    }

    fn symlink_verified(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        self.symlink(caller, name, target).or_else(|error| verify_made(error, self, caller, name, FileKind::Symlink))
    }

    fn link_verified(&self, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        self.link(caller, target, name).or_else(|error| match may_have_been_done(error) {
            true => entry_with_handle(self, name, &target.handle()).ok_or(error),
            false => Err(error),
        })
    }

    fn rename_verified(
        &self,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        // Afterwards both names lead to objects, whether they were exchanged or not.
        let exchanged = match mode {
            RenameMode::Exchange => Some(self.lookup(&Caller::server(), name)?.vnode.handle()),
            _ => None,
        };
        self.rename(caller, name, to, to_name, mode).or_else(|error| match mode {
            RenameMode::NoReplace if is_unsupported_mode(error) => match to.lookup(&Caller::server(), to_name) {
                Err(Errno::ENOENT) => self.rename_verified(caller, name, to, to_name, RenameMode::Replace),
                there => there.and(Err(Errno::EEXIST)),
            },
            _ => verify_done(error, || match &exchanged {
                Some(handle) => entry_with_handle(&**to, to_name, handle).is_some(),
                // A whiteout that stays is not an object.
                None => !leads_to_object(self, name) && leads_to_object(&**to, to_name),
            }),
        })
    }
}

/// Returns whether the error says, or may say, that a branch supports no flags of renameat2(2), like NFS and many others.
fn is_unsupported_mode(error: Errno) -> bool {
    matches!(error, Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP)
}

/// The error, unless it may be wrong and the change turns out to have been made.
fn verify_done(error: Errno, is_done: impl FnOnce() -> bool) -> Result<()> {
    if may_have_been_done(error) && is_done() { Ok(()) } else { Err(error) }
}

/// The error, unless it may be wrong and there is now an object of that kind at a formerly unused name. An object that somebody
/// else has created meanwhile is not taken for the caller's.
fn verify_made(error: Errno, directory: &dyn Vnode, caller: &Caller, name: Name<'_>, kind: FileKind) -> Result<Entry> {
    let made = if may_have_been_done(error) { directory.lookup(&Caller::server(), name).ok() } else { None };
    let is_own = |made: &Entry| caller.server || made.attributes.uid == caller.uid;
    made.filter(|made| made.attributes.kind == kind && is_own(made)).ok_or(error)
}

/// Returns whether an operation that reports this may have been carried out: all errors except those of mere queries.
fn may_have_been_done(error: Errno) -> bool {
    !matches!(
        error,
        Errno::EPERM
            | Errno::ENOENT
            | Errno::EACCES
            | Errno::EBUSY
            | Errno::EEXIST
            | Errno::EXDEV
            | Errno::ENOTDIR
            | Errno::EISDIR
            | Errno::EINVAL
            | Errno::ETXTBSY
            | Errno::EROFS
            | Errno::EMLINK
            | Errno::ENAMETOOLONG
            | Errno::ENOSYS
            | Errno::ENOTEMPTY
            | Errno::ELOOP
            | Errno::EOPNOTSUPP
    )
}

/// Returns whether a name is unused; `false` if the query fails.
fn is_unused(directory: &dyn Vnode, name: Name<'_>) -> bool {
    matches!(directory.lookup(&Caller::server(), name), Err(Errno::ENOENT))
}

/// The entry of a name, if it is the object with this handle.
fn entry_with_handle(directory: &dyn Vnode, name: Name<'_>, handle: &vnode::Handle) -> Option<Entry> {
    directory.lookup(&Caller::server(), name).ok().filter(|entry| entry.vnode.handle() == *handle)
}

/// Returns whether a name leads to anything but a whiteout device; also `true` if the query fails, so that a rename counts as
/// not made if this is its source.
fn leads_to_object(directory: &dyn Vnode, name: Name<'_>) -> bool {
    match directory.lookup(&Caller::server(), name) {
        Ok(entry) => !has_number(&entry.attributes),
        Err(error) => error != Errno::ENOENT,
    }
}
