//! Policies for attribute changes: performed, ignored, refused or filtered.

use vnode::{Errno, Result, SetAttributes};

use super::permissions::PermissionChanges;
use super::view::ObjectView;

/// Policies for attribute changes.
#[derive(Debug)]
pub(crate) struct ChangePolicies {
    pub(crate) chown: ChangePolicy,
    pub(crate) chgrp: ChangePolicy,
    pub(crate) chmod: ChangePolicy,
    pub(crate) chmod_filter: Option<PermissionChanges>,
    pub(crate) xattrs: XattrAccess,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ChangePolicy {
    #[default]
    Normal,
    /// Reported as done but ignored, which only a caller that checks notices.
    Ignore,
    Deny,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum XattrAccess {
    None,
    ReadOnly,
    #[default]
    ReadWrite,
}

impl ChangePolicies {
    /// Returns whether all changes pass through unmodified.
    pub(crate) fn are_normal(&self) -> bool {
        [self.chown, self.chgrp, self.chmod] == [ChangePolicy::Normal; 3] && self.chmod_filter.is_none()
    }

    /// Returns the changes that remain. An ignored change still requires permission to make it.
    pub(crate) fn apply(&self, view: &ObjectView<'_>, changes: &SetAttributes) -> Result<SetAttributes> {
        let mut remaining = *changes;
        let passes = |policy, is_changed: bool| match policy {
            ChangePolicy::Deny if is_changed => Err(Errno::EPERM),
            ChangePolicy::Ignore if is_changed => view.check_owner().map(|()| false),
            _ => Ok(true),
        };
        if !passes(self.chown, changes.uid.is_some())? {
            remaining.uid = None;
        }
        if !passes(self.chgrp, changes.gid.is_some())? {
            remaining.gid = None;
        }
        if !passes(self.chmod, changes.mode.is_some())? {
            remaining.mode = None;
        }
        if let (Some(filter), Some(mode)) = (&self.chmod_filter, &mut remaining.mode) {
            *mode = filter.apply(*mode, view.attributes.is_directory());
        }
        Ok(remaining)
    }

    /// Returns whether access control lists stay unchanged for a caller to which the change is reported as done.
    pub(crate) fn ignores_acl_change(&self, view: &ObjectView<'_>) -> Result<bool> {
        match self.chmod {
            ChangePolicy::Deny => Err(Errno::EPERM),
            // The permissions that a list grants cannot be filtered as a mode can.
            _ if self.chmod_filter.is_some() => Err(Errno::EPERM),
            ChangePolicy::Ignore => view.check_owner().map(|()| true),
            ChangePolicy::Normal => Ok(false),
        }
    }

    pub(crate) fn check_xattr_change(&self) -> Result<()> {
        match self.xattrs {
            XattrAccess::None => Err(Errno::EOPNOTSUPP),
            XattrAccess::ReadOnly => Err(Errno::EPERM),
            XattrAccess::ReadWrite => Ok(()),
        }
    }
}
