//! Policies for attribute changes: performed, ignored, refused or filtered.

use vnode::{Errno, Result, SetAttributes};

use super::permissions::Permissions;
use super::view::View;

/// Policies for attribute changes.
#[derive(Debug)]
pub(crate) struct Policies {
    pub(crate) chown: Policy,
    pub(crate) chgrp: Policy,
    pub(crate) chmod: Policy,
    pub(crate) chmod_filter: Option<Permissions>,
    pub(crate) xattrs: Xattrs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Policy {
    #[default]
    Normal,
    /// Reported as done but ignored, which only a caller that checks notices.
    Ignore,
    Deny,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Xattrs {
    None,
    ReadOnly,
    #[default]
    ReadWrite,
}

impl Policies {
    /// Returns whether all changes pass through unmodified.
    pub(crate) fn are_normal(&self) -> bool {
        [self.chown, self.chgrp, self.chmod] == [Policy::Normal; 3] && self.chmod_filter.is_none()
    }

    /// Returns the changes that remain. An ignored change still requires permission to make it.
    pub(crate) fn apply(&self, view: &View<'_>, changes: &SetAttributes) -> Result<SetAttributes> {
        let mut left = *changes;
        let keep = |policy, asked: bool| match policy {
            Policy::Deny if asked => Err(Errno::EPERM),
            Policy::Ignore if asked => view.check_owner().map(|()| false),
            _ => Ok(true),
        };
        if !keep(self.chown, changes.uid.is_some())? {
            left.uid = None;
        }
        if !keep(self.chgrp, changes.gid.is_some())? {
            left.gid = None;
        }
        if !keep(self.chmod, changes.mode.is_some())? {
            left.mode = None;
        }
        if let (Some(filter), Some(mode)) = (&self.chmod_filter, &mut left.mode) {
            *mode = filter.apply(*mode, view.attributes.is_directory());
        }
        Ok(left)
    }

    /// Returns whether access control lists stay unchanged for a caller to which the change is reported as done.
    pub(crate) fn keeps_list(&self, view: &View<'_>) -> Result<bool> {
        match self.chmod {
            Policy::Deny => Err(Errno::EPERM),
            // The permissions that a list grants cannot be filtered as a mode can.
            _ if self.chmod_filter.is_some() => Err(Errno::EPERM),
            Policy::Ignore => view.check_owner().map(|()| true),
            Policy::Normal => Ok(false),
        }
    }

    pub(crate) fn check_xattr_change(&self) -> Result<()> {
        match self.xattrs {
            Xattrs::None => Err(Errno::EOPNOTSUPP),
            Xattrs::ReadOnly => Err(Errno::EPERM),
            Xattrs::ReadWrite => Ok(()),
        }
    }
}
