//! Lower directories with entries of the layer's own in them: how they are made, removed and replaced.

use std::ops::ControlFlow;

use super::entry::LowerEntry;
use super::own_entries::temporary_name;
use super::template::{Layer, LayerVnode};
use crate::{
    Caller, Cookie, DirectoryEntry, Entry, Errno, FileKind, Name, NameBuf, RenameMode, Result, SetAttributes, VnodeRef,
};

/// Number of entries of the layer's own that a directory may have, and still be removed with them.
const OWN_ENTRIES_MAX: usize = 1 << 16;

/// Renames within a directory, to a name that is not used.
fn rename_unused(caller: &Caller, directory: &VnodeRef, name: Name<'_>, to_name: Name<'_>) -> Result<()> {
    match directory.rename(caller, name, directory, to_name, RenameMode::NoReplace) {
        // NFS knows no such mode.
        Err(Errno::EINVAL) => directory.rename(caller, name, directory, to_name, RenameMode::Replace),
        result => result,
    }
}

/// Checks that this name leads to this object.
///
/// # Errors
/// `ENOTEMPTY` if it does not: others have made something in its place. Those of the look-up.
fn check_leads_to(directory: &VnodeRef, name: Name<'_>, object: &VnodeRef) -> Result<()> {
    match directory.lookup(&Caller::server(), name) {
        Ok(entry) if entry.vnode.handle() == object.handle() => Ok(()),
        Ok(_) | Err(Errno::ENOENT) => Err(Errno::ENOTEMPTY),
        Err(error) => Err(error),
    }
}

/// Returns whether this name certainly leads to this object.
fn leads_to(directory: &VnodeRef, name: Name<'_>, object: &VnodeRef) -> bool {
    check_leads_to(directory, name, object).is_ok()
}

/// Returns the result of a rename, which may have been made although it reports an error: then this name leads to this object.
fn unless_made(renamed: Result<()>, directory: &VnodeRef, name: Name<'_>, object: &VnodeRef) -> Result<()> {
    renamed.or_else(|error| if leads_to(directory, name, object) { Ok(()) } else { Err(error) })
}

/// A directory that is emptied: its name in the one before, and the entries that are left, with whether they may be directories.
struct Emptied {
    directory: VnodeRef,
    name: Option<NameBuf>,
    entries: std::vec::IntoIter<(NameBuf, bool)>,
}

/// Renames are made as the caller, so that the lower file system checks what the name leads to by then; those that undo others too.
impl<L: Layer> LayerVnode<L> {
    /// Makes a lower directory, with the layer's own entries in it, if it gets some.
    pub(crate) fn make_filled(&self, caller: &Caller, entry: &LowerEntry<'_>, mode: u32) -> Result<Entry> {
        let lower_caller = self.layer().map_caller(caller);
        let (directory, name) = (entry.directory(), entry.name());
        if !self.layer().own_entries().in_new_directories {
            return directory.mkdir(&lower_caller, name, mode);
        }
        match directory.lookup(&lower_caller, name) {
            Err(Errno::ENOENT) => {}
            Ok(_) => return Err(Errno::EEXIST),
            Err(error) => return Err(error),
        }
        let temporary = temporary_name(self.layer().kind())?;
        let made = directory.mkdir(&lower_caller, temporary.as_name(), mode)?;
        let placed = self
            .fill(&made, caller)
            .and_then(|()| rename_unused(&lower_caller.uncancelled(), directory, temporary.as_name(), name));
        match unless_made(placed, directory, name, &made.vnode) {
            Err(error) => {
                if leads_to(directory, temporary.as_name(), &made.vnode) {
                    self.dispose(directory, temporary.as_name(), &made.vnode);
                }
                Err(error)
            }
            Ok(()) => Ok(directory.lookup(&lower_caller, name).unwrap_or(made)),
        }
    }

    /// Makes the layer's own entries in a new lower directory, also as a user whose umask leaves no access to it.
    fn fill(&self, made: &Entry, caller: &Caller) -> Result<()> {
        let fill = || self.layer().fill_directory(&made.vnode, caller);
        let set_mode = |mode| {
            let changes = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
            made.vnode.setattr(&Caller::server(), &changes)
        };
        match fill() {
            Err(Errno::EACCES) => {
                set_mode(made.attributes.mode | 0o700)?;
                fill()?;
                set_mode(made.attributes.mode).map(drop)
            }
            result => result,
        }
    }

    /// Removes a directory below that has entries of the layer's own only, and is locked.
    ///
    /// # Errors
    /// `ENOTEMPTY` if it has others, or the name leads to another directory by now.
    pub(crate) fn remove_filled(&self, caller: &Caller, entry: &LowerEntry<'_>, victim: &VnodeRef) -> Result<()> {
        self.check_removable(caller, victim)?;
        self.set_aside(&self.layer().map_caller(caller).uncancelled(), entry, victim, || Ok(()))
    }

    /// Removes such a directory by renaming it to a name that is not shown. With the old name free, `replace` may give it to
    /// another directory; if that fails, the directory gets its name back.
    ///
    /// # Errors
    /// As [`LayerVnode::remove_filled`], and those of `replace`.
    fn set_aside(
        &self,
        lower_caller: &Caller,
        entry: &LowerEntry<'_>,
        victim: &VnodeRef,
        replace: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let (directory, temporary) = (entry.directory(), temporary_name(self.layer().kind())?);
        let renamed = rename_unused(lower_caller, directory, entry.name(), temporary.as_name());
        unless_made(renamed, directory, temporary.as_name(), victim)?;
        // What another program has made there meanwhile is not lost.
        let checked = check_leads_to(directory, temporary.as_name(), victim)
            .and_then(|()| self.check_removable(lower_caller, victim));
        if let Err(error) = checked.and_then(|()| replace()) {
            rename_unused(lower_caller, directory, temporary.as_name(), entry.name())?;
            return Err(error);
        }
        self.dispose(directory, temporary.as_name(), victim);
        Ok(())
    }

    /// Renames a directory over another that has entries of the layer's own only, and is locked. The new name always leads to one
    /// of them, if the lower file system can exchange names.
    ///
    /// # Errors
    /// `ENOTEMPTY` if the other has other entries, or the name leads to another directory by now.
    pub(crate) fn replace_filled(
        &self,
        caller: &Caller,
        from: &LowerEntry<'_>,
        to: &LowerEntry<'_>,
        victim: &VnodeRef,
    ) -> Result<()> {
        self.check_removable(caller, victim)?;
        let lower_caller = self.layer().map_caller(caller).uncancelled();
        let rename = |mode| from.directory().rename(&lower_caller, from.name(), to.directory(), to.name(), mode);
        match rename(RenameMode::Exchange) {
            // Who may replace a directory may not always write to it, as moving it to another one needs.
            Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP | Errno::EACCES) => {
                self.set_aside(&lower_caller, to, victim, || rename(RenameMode::Replace))
            }
            exchanged => {
                unless_made(exchanged, from.directory(), from.name(), victim)?;
                let removed = check_leads_to(from.directory(), from.name(), victim)
                    .and_then(|()| self.set_aside(&lower_caller, from, victim, || Ok(())));
                if let Err(error) = removed {
                    rename(RenameMode::Exchange)?;
                    return Err(error);
                }
                Ok(())
            }
        }
    }

    /// Removes a directory that is not shown any more. What cannot be removed stays hidden, until its parent is removed.
    fn dispose(&self, parent: &VnodeRef, name: Name<'_>, directory: &VnodeRef) {
        let removed = self.clear(directory).and_then(|()| parent.rmdir(&Caller::server(), name));
        if let Err(error) = removed {
            let kind = self.layer().kind();
            tracing::warn!("{kind}: {}, a removed directory, is left below: {error}", name.display());
        }
    }

    /// Removes the layer's own entries in a lower directory, directories with what is in them.
    fn clear(&self, directory: &VnodeRef) -> Result<()> {
        let server = Caller::server();
        let emptied = |directory: VnodeRef, name| {
            let entries = self.list_own(&directory)?.into_iter();
            Ok::<_, Errno>(Emptied { directory, name, entries })
        };
        // Of any depth, since what is below may be hostile.
        let mut path = vec![emptied(directory.clone(), None)?];
        while let Some(top) = path.last_mut() {
            let Some((name, may_be_directory)) = top.entries.next() else {
                let name = path.pop().and_then(|done| done.name);
                if let (Some(parent), Some(name)) = (path.last(), name) {
                    parent.directory.rmdir(&server, name.as_name())?;
                }
                continue;
            };
            let inner = may_be_directory.then(|| top.directory.lookup(&server, name.as_name())).transpose()?;
            match inner.filter(|inner| inner.vnode.kind() == FileKind::Directory) {
                Some(inner) => path.push(emptied(inner.vnode, Some(name))?),
                None => top.directory.unlink(&server, name.as_name())?,
            }
        }
        Ok(())
    }

    /// Checks that a lower directory has entries of the layer's own only, these too, and not more than anybody needs.
    fn check_removable(&self, caller: &Caller, directory: &VnodeRef) -> Result<()> {
        let (mut directories, mut left) = (vec![directory.clone()], OWN_ENTRIES_MAX);
        while let Some(directory) = directories.pop() {
            let entries = self.list_own(&directory)?;
            left = left.checked_sub(entries.len()).ok_or(Errno::ENOTEMPTY)?;
            for (name, _) in entries.into_iter().filter(|(_, may_be_directory)| *may_be_directory) {
                caller.cancellation().check()?;
                let inner = directory.lookup(&Caller::server(), name.as_name())?.vnode;
                directories.extend(Some(inner).filter(|inner| inner.kind() == FileKind::Directory));
            }
        }
        Ok(())
    }

    /// Returns the entries of a lower directory, with whether they may be directories.
    ///
    /// # Errors
    /// `ENOTEMPTY` if one is not the layer's own, or there are too many.
    fn list_own(&self, directory: &VnodeRef) -> Result<Vec<(NameBuf, bool)>> {
        let (server, mut entries, mut has_others) = (Caller::server(), Vec::new(), false);
        directory.open_directory(&server)?.read(&server, Cookie::START, &mut |entry: DirectoryEntry<'_>| {
            has_others |= !self.is_own(entry.name) || entries.len() == OWN_ENTRIES_MAX;
            entries.push((entry.name.to_owned(), entry.kind.is_none_or(|kind| kind == FileKind::Directory)));
            if has_others { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if has_others { Err(Errno::ENOTEMPTY) } else { Ok(entries) }
    }
}
