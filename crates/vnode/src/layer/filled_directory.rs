//! Lower directories with entries of the layer's own in them: how they are made, removed and replaced.

use std::ops::ControlFlow;

use super::entry::LowerEntry;
use super::own_entries::temporary_name;
use super::template::{Layer, LayerVnode};
use crate::{
    Caller, DirectoryEntry, Entry, Errno, FileKind, Name, NameBuf, RenameMode, Result, SetAttributes, VnodeRef,
};

/// Renames within a directory, to a name that is not used, as the server.
fn rename_unused(directory: &VnodeRef, name: Name<'_>, to_name: Name<'_>) -> Result<()> {
    let server = Caller::server();
    match directory.rename(&server, name, directory, to_name, RenameMode::NoReplace) {
        // NFS knows no such mode.
        Err(Errno::EINVAL) => directory.rename(&server, name, directory, to_name, RenameMode::Replace),
        result => result,
    }
}

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
        let filled = self.fill(&made);
        if let Err(error) = filled.and_then(|()| rename_unused(directory, temporary.as_name(), name)) {
            self.dispose(directory, temporary.as_name(), &made.vnode);
            return Err(error);
        }
        Ok(directory.lookup(&lower_caller, name).unwrap_or(made))
    }

    /// Makes the layer's own entries in a new lower directory, also as a user whose umask leaves no access to it.
    fn fill(&self, made: &Entry) -> Result<()> {
        let fill = || self.layer().fill_directory(&made.vnode);
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
    /// `ENOTEMPTY` if it has others.
    pub(crate) fn remove_filled(&self, entry: &LowerEntry<'_>, victim: &VnodeRef) -> Result<()> {
        self.check_removable(victim)?;
        let temporary = temporary_name(self.layer().kind())?;
        rename_unused(entry.directory(), entry.name(), temporary.as_name())?;
        // What another program has made there meanwhile is not lost.
        if let Err(error) = self.check_removable(victim) {
            rename_unused(entry.directory(), temporary.as_name(), entry.name())?;
            return Err(error);
        }
        self.dispose(entry.directory(), temporary.as_name(), victim);
        Ok(())
    }

    /// Renames a directory over another that has entries of the layer's own only, and is locked. The new name always leads to one
    /// of them, if the lower file system can exchange names.
    ///
    /// # Errors
    /// `ENOTEMPTY` if the other has other entries.
    pub(crate) fn replace_filled(&self, from: &LowerEntry<'_>, to: &LowerEntry<'_>, victim: &VnodeRef) -> Result<()> {
        self.check_removable(victim)?;
        let (server, temporary) = (Caller::server(), temporary_name(self.layer().kind())?);
        let temporary = temporary.as_name();
        let rename = |mode| from.directory().rename(&server, from.name(), to.directory(), to.name(), mode);
        match rename(RenameMode::Exchange) {
            Ok(()) => {
                if let Err(error) = self.remove_filled(from, victim) {
                    rename(RenameMode::Exchange)?;
                    return Err(error);
                }
                Ok(())
            }
            Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => {
                rename_unused(to.directory(), to.name(), temporary)?;
                if let Err(error) = self.check_removable(victim).and_then(|()| rename(RenameMode::Replace)) {
                    rename_unused(to.directory(), temporary, to.name())?;
                    return Err(error);
                }
                self.dispose(to.directory(), temporary, victim);
                Ok(())
            }
            Err(error) => Err(error),
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
        // Directories that are emptied, each with its name in the one before: of any depth, since what is below may be hostile.
        let mut path: Vec<(VnodeRef, Option<NameBuf>)> = vec![(directory.clone(), None)];
        'directories: while let Some((directory, own_name)) = path.last() {
            for (name, inner) in self.list_own(directory)? {
                if let Some(inner) = inner {
                    path.push((inner, Some(name)));
                    continue 'directories;
                }
                directory.unlink(&server, name.as_name())?;
            }
            let own_name = own_name.clone();
            path.pop();
            if let (Some((parent, _)), Some(name)) = (path.last(), own_name) {
                parent.rmdir(&server, name.as_name())?;
            }
        }
        Ok(())
    }

    /// Checks that a lower directory has entries of the layer's own only, and these too.
    fn check_removable(&self, directory: &VnodeRef) -> Result<()> {
        let mut directories = vec![directory.clone()];
        while let Some(directory) = directories.pop() {
            directories.extend(self.list_own(&directory)?.into_iter().filter_map(|(_, inner)| inner));
        }
        Ok(())
    }

    /// Returns the entries of a lower directory, with those that are directories.
    ///
    /// # Errors
    /// `ENOTEMPTY` if one is not the layer's own.
    fn list_own(&self, directory: &VnodeRef) -> Result<Vec<(NameBuf, Option<VnodeRef>)>> {
        let (server, mut entries, mut has_others) = (Caller::server(), Vec::new(), false);
        directory.open_directory(&server)?.read(&server, 0, &mut |entry: DirectoryEntry<'_>| {
            has_others |= !self.is_own(entry.name);
            entries.push((entry.name.to_owned(), entry.kind));
            if has_others { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if has_others {
            return Err(Errno::ENOTEMPTY);
        }
        let with_directory = |(name, kind): (NameBuf, Option<FileKind>)| {
            let may_be_directory = kind.is_none_or(|kind| kind == FileKind::Directory);
            let inner = may_be_directory.then(|| directory.lookup(&server, name.as_name())).transpose()?;
            Ok((name, inner.map(|entry| entry.vnode).filter(|inner| inner.kind() == FileKind::Directory)))
        };
        entries.into_iter().map(with_directory).collect()
    }
}
