//! Policies for attribute changes: performed, ignored, refused or filtered.

use vnode::{Errno, Result, SetAttributes};

use super::permissions::PermissionChanges;
use super::view::ObjectView;

/// Execute permissions.
const EXECUTE: u32 = 0o111;

/// Policies for attribute changes.
#[derive(Debug)]
pub(crate) struct ChangePolicies {
    pub(crate) chown: ChangePolicy,
    pub(crate) chgrp: ChangePolicy,
    pub(crate) chmod: ChangePolicy,
    pub(crate) chmod_filter: Option<PermissionChanges>,
    /// Execute permissions of files change, whatever the policy for modes is.
    pub(crate) allows_execute: bool,
    pub(crate) xattrs: XattrAccess,
}

/// Returns the mode with the execute permissions of another.
fn with_execute(mode: u32, of: u32) -> u32 {
    (mode & !EXECUTE) | (of & EXECUTE)
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

    /// Returns the changes that remain of an object whose mode below `lower_mode` returns. An ignored change still requires permission
    /// to make it.
    pub(crate) fn apply(
        &self,
        view: &ObjectView<'_>,
        lower_mode: impl FnOnce() -> Result<u32>,
        changes: &SetAttributes,
    ) -> Result<SetAttributes> {
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
        if let Some(mode) = changes.mode {
            remaining.mode = self.apply_to_mode(view, lower_mode, mode)?;
        }
        Ok(remaining)
    }

    /// Returns the mode that a change to `mode` sets below; `None` if it sets none.
    fn apply_to_mode(
        &self,
        view: &ObjectView<'_>,
        lower_mode: impl FnOnce() -> Result<u32>,
        mode: u32,
    ) -> Result<Option<u32>> {
        let is_directory = view.attributes.is_directory();
        let allows_execute = self.allows_execute && !is_directory;
        if let Some(filter) = &self.chmod_filter {
            let filtered = filter.apply(mode, is_directory);
            return Ok(Some(if allows_execute { with_execute(filtered, mode) } else { filtered }));
        }
        if self.chmod == ChangePolicy::Normal {
            return Ok(Some(mode));
        }
        let changes_more = (mode ^ view.attributes.mode) & 0o7777 & !EXECUTE != 0;
        if self.chmod == ChangePolicy::Deny && (changes_more || !allows_execute) {
            return Err(Errno::EPERM);
        }
        view.check_owner()?;
        if !allows_execute {
            return Ok(None);
        }
        let lower_mode = lower_mode()?;
        let changed = with_execute(lower_mode, mode);
        Ok((changed != lower_mode).then_some(changed))
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
