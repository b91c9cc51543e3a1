//! Creation under `map`: new objects get the owner, group and permission bits that the options specify.

use rustix::process::geteuid;
use vnode::layer::LayerVnode;
use vnode::{Attributes, Caller, Creation, Entry, Errno, FileKind, Name, Result, SetAttributes};

use super::layer::Map;

/// The lower attributes that a new object is to have.
pub(crate) struct NewObject {
    /// Mode with which to create the object.
    pub(crate) mode: u32,
    kind: FileKind,
    /// Attributes that the object is to have once it exists.
    wanted: SetAttributes,
}

impl Map {
    /// Determines the attributes of an object that the caller creates in the directory `node`.
    pub(crate) fn new_object(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        kind: FileKind,
        mode: u32,
    ) -> Result<NewObject> {
        let mode = if kind == FileKind::Regular { mode & !self.squashed_set_id(caller) } else { mode };
        let caller = self.effective(caller);
        let mut wanted = SetAttributes {
            uid: self.settings.created.owner,
            gid: self.settings.created.group,
            ..SetAttributes::default()
        };
        let mut new_mode = mode;
        if self.has_view() && !caller.server {
            let parent = node.lower().getattr(&Caller::server())?;
            new_mode &= !caller.umask;
            let inherits = parent.mode & libc::S_ISGID != 0;
            if wanted.uid.is_none() {
                wanted.uid = Some(self.settings.users.to_lower(caller.uid).ok_or(Errno::EOVERFLOW)?);
            }
            if wanted.gid.is_none() {
                let own = || self.settings.groups.to_lower(caller.gid).ok_or(Errno::EOVERFLOW);
                wanted.gid = Some(if inherits { parent.gid } else { own()? });
            }
            if inherits && kind == FileKind::Directory {
                new_mode |= libc::S_ISGID;
            } else if inherits
                && !caller.is_superuser()
                && !caller.is_in_group(self.settings.groups.to_shown(parent.gid))
            {
                new_mode &= !libc::S_ISGID;
            }
            wanted.mode = Some(new_mode);
        }
        let sets_id = kind == FileKind::Regular && mode & (libc::S_ISUID | libc::S_ISGID) != 0;
        if wanted.mode.is_none() && sets_id && wanted.uid.or(wanted.gid).is_some() {
            wanted.mode = Some(new_mode & !caller.umask);
        }
        if let Some(permissions) = &self.settings.created.permissions {
            let without_umask = new_mode & !caller.umask;
            wanted.mode = Some(permissions.apply(without_umask, kind == FileKind::Directory));
        }
        if kind == FileKind::Symlink {
            wanted.mode = None;
        }
        if let Some(mode) = &mut wanted.mode
            && kind == FileKind::Regular
            && !caller.server
        {
            // Nobody may create a program that runs as somebody else, except that the superuser may for the group of a
            // directory.
            let is_inherited = self.settings.created.group.is_none() && caller.is_superuser();
            if wanted.uid.is_some_and(|uid| uid != caller.uid) {
                *mode &= !libc::S_ISUID;
            }
            if !is_inherited && wanted.gid.is_some_and(|gid| !caller.is_in_group(gid)) {
                *mode &= !libc::S_ISGID;
            }
        }
        // Until the object has its owner, it is no more accessible than it will be.
        let mode = wanted.mode.map_or(mode, |wanted| new_mode & wanted & 0o1777);
        Ok(NewObject { mode, kind, wanted })
    }

    /// Creates a file, or opens an existing one: in that case the view decides by the file, not by the directory.
    pub(crate) fn create_file(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        how: &Creation,
    ) -> Result<vnode::Created> {
        if !self.has_view() || caller.server {
            return self.create_lower(node, caller, name, how);
        }
        loop {
            match node.forward_lookup(caller, name) {
                Ok(_) if how.flags.is_exclusive() => return Err(Errno::EEXIST),
                Ok(entry) if entry.vnode.kind() == FileKind::Symlink => return Err(Errno::ELOOP),
                Ok(entry) => {
                    let file = entry.vnode.open(caller, how.flags)?;
                    let attributes = file.getattr(caller)?;
                    return Ok(vnode::Created { entry: Entry { attributes, ..entry }, file });
                }
                Err(Errno::ENOENT) => {}
                Err(error) => return Err(error),
            }
            self.view(node, &self.effective(caller))?.check_entries()?;
            let flags = how.flags.with(vnode::OpenFlags::EXCLUSIVE);
            match self.create_lower(node, caller, name, &Creation { flags, ..*how }) {
                // Another caller was faster: the file exists now, or is gone again.
                Err(Errno::EEXIST) if !how.flags.is_exclusive() => {}
                result => return result,
            }
        }
    }

    fn create_lower(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        how: &Creation,
    ) -> Result<vnode::Created> {
        let new = self.new_object(node, caller, FileKind::Regular, how.mode)?;
        let how = &Creation { mode: new.mode, ..*how };
        if new.wanted.is_empty() {
            return node.forward_create(caller, name, how);
        }
        // Only a new file gets attributes, so it has to be known whether the file is new.
        let exclusive = how.flags.with(vnode::OpenFlags::EXCLUSIVE);
        let mut created = match node.forward_create(caller, name, &Creation { flags: exclusive, ..*how }) {
            Err(Errno::EEXIST) if !how.flags.is_exclusive() => return node.forward_create(caller, name, how),
            result => result?,
        };
        created.entry = new.finish(self, node, caller, name, created.entry)?;
        Ok(created)
    }
}

impl NewObject {
    /// Gives the new object in the directory `node` its attributes, or removes it again.
    pub(crate) fn finish(
        &self,
        map: &Map,
        node: &LayerVnode<Map>,
        caller: &Caller,
        name: Name<'_>,
        entry: Entry,
    ) -> Result<Entry> {
        match self.apply_attributes(map, node, caller, &entry) {
            Ok(attributes) => Ok(Entry { attributes, ..entry }),
            Err(error) => {
                self.remove_again(map, node, name, &entry);
                Err(error)
            }
        }
    }

    /// Removes the object again, unless its name refers to another one by now. Only the error that occurred before
    /// counts.
    fn remove_again(&self, map: &Map, node: &LayerVnode<Map>, name: Name<'_>, entry: &Entry) {
        let (below, server) = (node.lower(), Caller::server());
        let _guard = map.names.lock_directory(node);
        let handle = node.lower_of(&entry.vnode).map(|created| created.handle());
        if below.lookup(&server, name).map(|found| found.vnode.handle()) != handle {
            return;
        }
        let _ = match self.kind {
            FileKind::Directory => below.rmdir(&server, name),
            _ => below.unlink(&server, name),
        };
    }

    /// Gives the new object the attributes that it does not have yet. A server that is not the superuser cannot give
    /// objects away: it remains their owner.
    pub(crate) fn apply_attributes(
        &self,
        map: &Map,
        node: &LayerVnode<Map>,
        caller: &Caller,
        entry: &Entry,
    ) -> Result<Attributes> {
        if self.wanted.is_empty() {
            return Ok(entry.attributes);
        }
        // The new owner must have space for the object, unless the caller may exceed that limit.
        let (below, server) = (node.lower_of(&entry.vnode)?, Caller::server().at_expense_of(&map.effective(caller)));
        let current = below.getattr(&server)?;
        let mut changes = SetAttributes {
            uid: self.wanted.uid.filter(|uid| *uid != current.uid),
            gid: self.wanted.gid.filter(|gid| *gid != current.gid),
            ..SetAttributes::default()
        };
        let changes_owner = changes.uid.is_some() || changes.gid.is_some();
        changes.mode = self.wanted.mode.filter(|mode| *mode != current.mode || (changes_owner && mode & 0o6000 != 0));
        let mut attributes = match changes.is_empty() {
            true => current,
            false => match below.setattr(&server, &changes) {
                Err(Errno::EPERM) if changes_owner && !geteuid().is_root() => {
                    let mode = SetAttributes { uid: None, gid: None, ..changes };
                    if mode.is_empty() { current } else { below.setattr(&server, &mode)? }
                }
                result => result?,
            },
        };
        if map.has_view() {
            map.show(&map.effective(caller), &mut attributes);
        }
        map.alter(&mut attributes);
        Ok(attributes)
    }
}
