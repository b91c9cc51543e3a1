//! The view of `map`: the attributes that callers are shown, squashing, and whether the shown attributes decide access.

use std::borrow::Cow;

use vnode::layer::LayerVnode;
use vnode::{AccessControl, Attributes, Caller, FileKind, Result, Vnode};

use super::layer::{Map, with_process};
use super::view::ObjectView;

impl Map {
    /// Returns whether attributes are shown other than they are, so that the shown ones decide access.
    pub(crate) fn has_view(&self) -> bool {
        !self.settings.users.is_identity()
            || !self.settings.groups.is_identity()
            || self.settings.permissions.is_some()
            || self.settings.mirror.is_some()
    }

    /// Returns what the shown attributes say about access control: a view decides by them.
    pub(crate) fn access_control(&self) -> AccessControl {
        if self.settings.mirror.is_some() || self.denies("lookup") {
            AccessControl::NotShown
        } else if self.settings.squash.is_some() || self.denies("access") {
            // The kernel does not know to whom a caller is squashed, and would answer access(2) by itself.
            AccessControl::OpenAsShown
        } else {
            AccessControl::AsShown
        }
    }

    /// Returns the lower identity of a squashed caller: objects created at its expense are its own from the beginning.
    /// A user as whom the lower superuser is shown is not the superuser.
    pub(crate) fn charged_caller<'a>(&self, effective: &'a Caller) -> Cow<'a, Caller> {
        let below = (self.settings.users.to_lower(effective.uid), self.settings.groups.to_lower(effective.gid));
        match below {
            (Some(uid), Some(gid))
                if effective.uid != 0 && uid != 0 && (uid, gid) != (effective.uid, effective.gid) =>
            {
                let mut charged_caller = effective.clone();
                (charged_caller.uid, charged_caller.gid) = (uid, gid);
                Cow::Owned(charged_caller)
            }
            _ => Cow::Borrowed(effective),
        }
    }

    /// Returns the owner and the group that a squashed caller is shown for the lower ones.
    pub(crate) fn shown_ids(&self, caller: &Caller, (uid, gid): (u32, u32)) -> (u32, u32) {
        let uid = match &self.settings.mirror {
            Some(mirror) if !caller.server && mirror.users.contains(caller) => caller.uid,
            _ => self.settings.users.to_shown(uid),
        };
        (uid, self.settings.groups.to_shown(gid))
    }

    /// Returns the set-ID bits that a file with this lower owner and group must not have for a squashed caller: the
    /// program would run as somebody other than shown.
    pub(crate) fn foreign_set_id(&self, caller: &Caller, below: (u32, u32)) -> u32 {
        let shown = self.shown_ids(caller, below);
        let user = if shown.0 == below.0 { 0 } else { libc::S_ISUID };
        user | if shown.1 == below.1 { 0 } else { libc::S_ISGID }
    }

    /// Returns the set-ID bits that this caller must not give a file: the program would run as the user or the group that the
    /// caller is only treated as here.
    pub(crate) fn squashed_set_id(&self, caller: &Caller) -> u32 {
        let Cow::Owned(squashed) = self.effective(caller) else { return 0 };
        let user = if squashed.uid == caller.uid { 0 } else { libc::S_ISUID };
        user | if caller.is_in_group(squashed.gid) { 0 } else { libc::S_ISGID }
    }

    /// Changes lower attributes to those that a squashed caller sees.
    pub(crate) fn show(&self, caller: &Caller, attributes: &mut Attributes) {
        let below = (attributes.uid, attributes.gid);
        (attributes.uid, attributes.gid) = self.shown_ids(caller, below);
        if attributes.kind == FileKind::Regular {
            attributes.mode &= !self.foreign_set_id(caller, below);
        }
        if let Some(permissions) = &self.settings.permissions
            && attributes.kind != FileKind::Symlink
        {
            attributes.mode = permissions.apply(attributes.mode, attributes.is_directory());
        }
        if self.excludes(caller) {
            attributes.mode &= !0o777;
        }
    }

    /// Returns whether a squashed caller has no access, since only others are shown as owners.
    pub(crate) fn excludes(&self, caller: &Caller) -> bool {
        let mirror = self.settings.mirror.as_ref();
        mirror.is_some_and(|mirror| mirror.denies_others && !caller.server && !mirror.users.contains(caller))
    }

    /// Returns whether attributes that decide nothing are shown other than they are.
    pub(crate) fn alters(&self) -> bool {
        self.settings.ctime_from_mtime || self.settings.hides_links
    }

    /// Changes attributes that decide nothing to those that callers see.
    pub(crate) fn alter(&self, attributes: &mut Attributes) {
        if self.settings.ctime_from_mtime {
            attributes.ctime = attributes.mtime;
        }
        if self.settings.hides_links && !attributes.is_directory() {
            attributes.nlink = attributes.nlink.min(1);
        }
    }

    /// Returns the object as a squashed caller sees it.
    pub(crate) fn view<'a>(&self, node: &LayerVnode<Self>, caller: &'a Caller) -> Result<ObjectView<'a>> {
        self.view_of(&**node.lower(), caller)
    }

    pub(crate) fn view_of<'a>(&self, below: &dyn Vnode, caller: &'a Caller) -> Result<ObjectView<'a>> {
        let mut attributes = below.getattr(&Caller::server())?;
        if self.has_view() {
            self.show(caller, &mut attributes);
        }
        Ok(ObjectView { caller, attributes })
    }

    /// Returns the caller, or the caller that it is squashed to.
    pub(crate) fn effective<'a>(&self, caller: &'a Caller) -> Cow<'a, Caller> {
        match &self.settings.squash {
            Some(squash) if !caller.server && (squash.all || caller.uid == 0) => {
                let squashed = Caller::with_groups(squash.uid, squash.gid, &[], caller.umask);
                Cow::Owned(with_process(squashed, caller))
            }
            _ => Cow::Borrowed(caller),
        }
    }
}
