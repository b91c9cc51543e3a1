//! Where an entry is below, and which entry of a directory one below is.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::PoisonError;

use super::own_entries::{EntryOrigin, is_temporary};
use super::template::{Layer, LayerVnode};
use crate::name::NameCow;
use crate::{AccessMode, Caller, Errno, FileKind, Handle, KeyedGuard, Name, RenameMode, Result, VnodeRef};

/// Number of objects below for which an error is logged.
const REPORTED_MAX: usize = 256;

/// A name in a directory below.
pub(crate) struct LowerEntry<'a> {
    directory: Cow<'a, VnodeRef>,
    name: NameCow<'a>,
}

impl LowerEntry<'_> {
    /// Returns the directory.
    pub(crate) fn directory(&self) -> &VnodeRef {
        &self.directory
    }

    /// Returns the name in it.
    pub(crate) fn name(&self) -> Name<'_> {
        self.name.as_name()
    }
}

impl<L: Layer> LayerVnode<L> {
    /// Returns where the entry `name` of this directory is below, with its name checked again, since encoding may lengthen it.
    ///
    /// # Errors
    /// Those of the layer; `ENOENT` for what are entries of the layer's own.
    pub(crate) fn locate<'a>(&'a self, caller: &Caller, name: Name<'a>) -> Result<LowerEntry<'a>> {
        self.locate_or(Errno::ENOENT, caller, name)
    }

    /// As [`LayerVnode::locate`], for a name that an object is to get.
    ///
    /// # Errors
    /// `EPERM` for what are entries of the layer's own.
    pub(crate) fn locate_new<'a>(&'a self, caller: &Caller, name: Name<'a>) -> Result<LowerEntry<'a>> {
        self.locate_or(Errno::EPERM, caller, name)
    }

    /// As [`LayerVnode::locate`], with `refusal` as the error for entries of the layer's own.
    fn locate_or<'a>(&'a self, refusal: Errno, caller: &Caller, name: Name<'a>) -> Result<LowerEntry<'a>> {
        let layer = self.layer();
        let encoded = NameCow::new(layer.encode_name(self, caller, name)?)?;
        if self.is_own(encoded.as_name()) {
            return Err(refusal);
        }
        let other = layer.lower_directory(self, caller, name)?;
        Ok(LowerEntry { directory: other.map_or(Cow::Borrowed(&self.lower), Cow::Owned), name: encoded })
    }

    /// Returns whether this lower name is that of an entry of the layer's own.
    pub(crate) fn is_own(&self, name: Name<'_>) -> bool {
        let layer = self.layer();
        layer.own_entries().exist && (layer.is_own_entry(name) || is_temporary(layer.kind(), name))
    }

    /// Returns the upper name of a lower entry of this directory; `None` if it is not shown.
    ///
    /// # Errors
    /// Those of the layer, for a name that it cannot decode.
    pub(crate) fn try_decode<'a>(&self, caller: &Caller, name: Name<'a>) -> Result<Option<NameCow<'a>>> {
        if self.is_own(name) {
            return Ok(None);
        }
        self.layer().decode_name(self, caller, name)?.map(NameCow::new).transpose()
    }

    /// As [`LayerVnode::try_decode`]; what cannot be decoded is not shown, and logged.
    pub(crate) fn decode<'a>(&self, caller: &Caller, name: Name<'a>) -> Option<NameCow<'a>> {
        self.try_decode(caller, name).unwrap_or_else(|error| {
            self.report_once(format_args!("{} cannot be decoded and is not shown: {error}", name.display()));
            None
        })
    }

    /// Logs what is wrong with the lower object, unless something was logged of it before.
    pub(crate) fn report_once(&self, message: std::fmt::Arguments<'_>) {
        let is_news =
            |reported: &HashSet<Handle>| reported.len() <= REPORTED_MAX && !reported.contains(&self.lower.handle());
        let lock = || self.mount.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_news(&lock()) {
            return;
        }
        // Without the lock: it may have to be read below.
        let path = self.lower.path().unwrap_or_default();
        let mut reported = lock();
        if !is_news(&reported) {
            return;
        }
        reported.insert(self.lower.handle());
        let kind = self.layer().kind();
        tracing::warn!("{kind}: in /{}: {message}", String::from_utf8_lossy(&path));
        if reported.len() > REPORTED_MAX {
            tracing::warn!("{kind}: further objects of which something cannot be decoded are not logged");
        }
    }

    /// Locks the names of this directory and what is in others, if entries of the layer's own have to be kept true with them.
    pub(crate) fn lock_names(&self, caller: &Caller, others: &[&VnodeRef]) -> Result<Vec<KeyedGuard<'_, Handle>>> {
        if !self.layer().own_entries().exist {
            return Ok(Vec::new());
        }
        let mut handles: Vec<Handle> = others.iter().map(|other| other.handle()).collect();
        handles.push(self.lower.handle());
        // As all do, so that none waits for another in a circle.
        handles.sort_unstable();
        handles.dedup();
        handles.into_iter().map(|handle| self.mount.name_locks.write_unless(caller.cancellation(), handle)).collect()
    }

    /// Locks the names of this directory, and of `other`, and of the directory that the entry leads to, which is returned; nothing if
    /// the layer has no own entries.
    fn lock_target(
        &self,
        caller: &Caller,
        other: &VnodeRef,
        entry: &LowerEntry<'_>,
    ) -> Result<(Vec<KeyedGuard<'_, Handle>>, Option<VnodeRef>)> {
        if !self.layer().own_entries().exist {
            return Ok((Vec::new(), None));
        }
        let lower_caller = self.layer().map_caller(caller);
        let look_up = || {
            let found = entry.directory().lookup(&lower_caller, entry.name()).map(|entry| entry.vnode);
            found.ok().filter(|vnode| vnode.kind() == FileKind::Directory)
        };
        let handle = |target: &Option<VnodeRef>| target.as_ref().map(|target| target.handle());
        loop {
            let target = look_up();
            let others: &[&VnodeRef] = match &target {
                Some(target) => &[other, target],
                None => &[other],
            };
            let guards = self.lock_names(caller, others)?;
            if handle(&look_up()) == handle(&target) {
                return Ok((guards, target));
            }
        }
    }

    /// Makes an entry below, with those of the layer's own that belong to it.
    pub(crate) fn make_entry<T>(
        &self,
        caller: &Caller,
        name: Name<'_>,
        origin: EntryOrigin<'_, Self>,
        make: impl FnOnce(&LowerEntry<'_>, &Caller) -> Result<T>,
    ) -> Result<T> {
        let entry = self.locate_new(caller, name)?;
        let _guards = self.lock_names(caller, &[])?;
        let result =
            self.prepare(caller, name, &entry, origin).and_then(|()| make(&entry, &self.layer().map_caller(caller)));
        if result.is_err() {
            self.settle(name, &entry);
        }
        result
    }

    /// Removes an entry of a file, with those of the layer's own that belonged to it.
    pub(crate) fn remove_entry(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        let entry = self.locate(caller, name)?;
        let _guards = self.lock_names(caller, &[])?;
        entry.directory().unlink(&self.layer().map_caller(caller), entry.name())?;
        self.settle(name, &entry);
        Ok(())
    }

    /// Removes an entry of a directory, with those of the layer's own in it and beside it.
    pub(crate) fn remove_directory(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        let entry = self.locate(caller, name)?;
        let (_guards, victim) = self.lock_target(caller, &self.lower, &entry)?;
        let removed = entry.directory().rmdir(&self.layer().map_caller(caller), entry.name());
        match (removed, victim) {
            (Err(Errno::ENOTEMPTY | Errno::EEXIST), Some(victim)) => self.remove_filled(caller, &entry, &victim)?,
            (result, _) => result?,
        }
        self.settle(name, &entry);
        Ok(())
    }

    /// Renames an entry, with those of the layer's own that belong to it.
    pub(crate) fn rename_entry(
        &self,
        caller: &Caller,
        name: Name<'_>,
        to: &Self,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        let lower_caller = self.layer().map_caller(caller);
        let (from, into) = (self.locate(caller, name)?, to.locate_new(caller, to_name)?);
        let (_guards, target) = self.lock_target(caller, &to.lower, &into)?;
        let rename = || {
            if self.layer().own_entries().beside_others {
                from.directory().lookup(&lower_caller, from.name())?;
                to.prepare(caller, to_name, &into, EntryOrigin::Renamed(self, name))?;
                if mode == RenameMode::Exchange {
                    into.directory().lookup(&lower_caller, into.name())?;
                    self.prepare(caller, name, &from, EntryOrigin::Renamed(to, to_name))?;
                }
            }
            let renamed = from.directory().rename(&lower_caller, from.name(), into.directory(), into.name(), mode);
            match (renamed, target) {
                (Err(Errno::ENOTEMPTY | Errno::EEXIST), Some(target)) if mode == RenameMode::Replace => {
                    self.replace_filled(caller, &from, &into, &target)
                }
                (result, _) => result,
            }
        };
        let result = rename();
        self.settle(name, &from);
        to.settle(to_name, &into);
        result
    }

    /// Makes the layer's own entries that belong to an entry which is about to be made, for a caller that may make it.
    fn prepare(
        &self,
        caller: &Caller,
        name: Name<'_>,
        entry: &LowerEntry<'_>,
        origin: EntryOrigin<'_, Self>,
    ) -> Result<()> {
        if !self.layer().own_entries().beside_others {
            return Ok(());
        }
        let lower_caller = self.layer().map_caller(caller);
        if matches!(origin, EntryOrigin::New) && entry.directory().lookup(&lower_caller, entry.name()).is_ok() {
            return Ok(());
        }
        self.lower
            .access(&lower_caller, AccessMode::from_bits(AccessMode::WRITE.bits() | AccessMode::EXECUTE.bits()))?;
        self.layer().prepare_entry(self, caller, name, origin)
    }

    /// Removes the layer's own entries that belonged to an entry, unless it is there.
    fn settle(&self, name: Name<'_>, entry: &LowerEntry<'_>) {
        if !self.layer().own_entries().beside_others
            || entry.directory().lookup(&Caller::server(), entry.name()).err() != Some(Errno::ENOENT)
        {
            return;
        }
        if let Err(error) = self.layer().forget_entry(self, name)
            && error != Errno::ENOENT
        {
            let kind = self.layer().kind();
            tracing::warn!("{kind}: what belonged to {}, which is gone, is left below: {error}", name.display());
        }
    }
}
