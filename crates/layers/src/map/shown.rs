//! What callers are shown, as whom they are taken, and whether what is shown decides.

use std::borrow::Cow;

use vnode::layer::LayerVnode;
use vnode::{AccessControl, Attributes, Caller, FileKind, Result, Vnode};

use super::layer::{Map, with_process};
use super::settings::Users;
use super::view::View;

impl Map {
    /// Whether attributes are shown other than they are, so that they decide.
    pub(super) fn has_view(&self) -> bool {
        !self.settings.users.is_identity()
            || !self.settings.groups.is_identity()
            || self.settings.permissions.is_some()
            || self.settings.mirror.is_some()
    }

    /// What the attributes that are shown say of who gets in: a view decides by them.
    pub(super) fn access_control(&self) -> AccessControl {
        if self.settings.mirror.is_some() || self.denies("lookup") {
            AccessControl::NotShown
        } else if self.settings.squash.is_some() || self.denies("access") {
            // The kernel does not know as whom a caller is seen, and would answer access(2) by itself.
            AccessControl::OpenAsShown
        } else {
            AccessControl::AsShown
        }
    }

    /// Whom this caller, squashed, is below: what is made at its expense is its own from the beginning. A user whom the superuser
    /// below is shown as is not the superuser.
    pub(super) fn payer<'a>(&self, effective: &'a Caller) -> Cow<'a, Caller> {
        let below = (self.settings.users.meant(effective.uid), self.settings.groups.meant(effective.gid));
        match below {
            (Some(uid), Some(gid))
                if effective.uid != 0 && uid != 0 && (uid, gid) != (effective.uid, effective.gid) =>
            {
                let mut payer = effective.clone();
                (payer.uid, payer.gid) = (uid, gid);
                Cow::Owned(payer)
            }
            _ => Cow::Borrowed(effective),
        }
    }

    /// The owner and the group that this caller, squashed, is shown for those below.
    pub(super) fn shown_ids(&self, caller: &Caller, (uid, gid): (u32, u32)) -> (u32, u32) {
        let mirrored = |users: &Users| {
            !caller.server
                && (users.users.contains(&caller.uid) || users.groups.iter().any(|group| caller.is_in_group(*group)))
        };
        let uid = match &self.settings.mirror {
            Some(users) if mirrored(users) => caller.uid,
            _ => self.settings.users.shown(uid),
        };
        (uid, self.settings.groups.shown(gid))
    }

    /// The set-id bits that a file with this owner and group below must not have for this caller, squashed: a program would run
    /// as somebody else than it is shown to.
    pub(super) fn foreign_set_id(&self, caller: &Caller, below: (u32, u32)) -> u32 {
        let shown = self.shown_ids(caller, below);
        let user = if shown.0 == below.0 { 0 } else { libc::S_ISUID };
        user | if shown.1 == below.1 { 0 } else { libc::S_ISGID }
    }

    /// Attributes from below as this caller, squashed, sees them.
    pub(super) fn show(&self, caller: &Caller, attributes: &mut Attributes) {
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
    }

    /// The object as the caller, squashed, sees it.
    pub(super) fn view<'a>(&self, node: &LayerVnode<Self>, caller: &'a Caller) -> Result<View<'a>> {
        self.view_of(&**node.lower(), caller)
    }

    pub(super) fn view_of<'a>(&self, below: &dyn Vnode, caller: &'a Caller) -> Result<View<'a>> {
        let mut attributes = below.getattr(&Caller::server())?;
        if self.has_view() {
            self.show(caller, &mut attributes);
        }
        Ok(View { caller, attributes })
    }

    /// The caller, or whom it is squashed to.
    pub(super) fn effective<'a>(&self, caller: &'a Caller) -> Cow<'a, Caller> {
        match &self.settings.squash {
            Some(squash) if !caller.server && (squash.all || caller.uid == 0) => {
                let squashed = Caller::with_groups(squash.uid, squash.gid, &[], caller.umask);
                Cow::Owned(with_process(squashed, caller))
            }
            _ => Cow::Borrowed(caller),
        }
    }
}
