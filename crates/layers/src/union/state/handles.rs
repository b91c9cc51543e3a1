//! Handles outside a union: they name the view of an object, and mark aliases.

use std::sync::Arc;

use vnode::{Errno, HANDLE_MAX, Handle, Result};

use super::Union;
use crate::union::branch::identity::{self, DUPLICATE_HANDLE, Identity};

/// First byte of a handle that names a view; the private branch's tag follows, and a handle of its union.
const VIEW_HANDLE: u8 = 2;
/// First byte of handles that cannot be resolved: those of an alias in the mount's union, and of one in a view.
const ALIAS_HANDLE: u8 = 3;
const VIEW_ALIAS_HANDLE: u8 = 4;
/// Number of bytes by which that is longer than a handle of the view's union.
const VIEW_TAG_BYTES: usize = 2;

impl Union {
    /// The handle of an object outside the union, which names the object's view, and marks an alias as such.
    pub(crate) fn external_handle(&self, handle: &Handle, is_alias: bool) -> Handle {
        let (form, rest) = handle.as_bytes().split_first().expect("a handle has a form");
        let bytes = match (&self.view_state, is_alias) {
            (None, false) => return *handle,
            (None, true) => [&[ALIAS_HANDLE], rest].concat(),
            (Some(view_state), _) => {
                let form = match *form {
                    _ if is_alias => VIEW_ALIAS_HANDLE,
                    DUPLICATE_HANDLE => DUPLICATE_HANDLE,
                    _ => VIEW_HANDLE,
                };
                [&[form], &view_state.base.numbers.tag.to_le_bytes()[..], rest].concat()
            }
        };
        Handle::new(&bytes).expect("identities leave room for the view")
    }

    /// An identity whose handle has room for the view.
    pub(crate) fn require_view_room(&self, identity: Identity) -> Result<Identity> {
        let is_too_long = self.view_state.is_some() && identity.handle.as_bytes().len() + VIEW_TAG_BYTES > HANDLE_MAX;
        if is_too_long { Err(Errno::EOVERFLOW) } else { Ok(identity) }
    }

    /// The union that a handle belongs to, and the handle there.
    pub(crate) fn resolve_view_handle(self: &Arc<Self>, handle: &Handle) -> Result<(Arc<Union>, Handle)> {
        let [VIEW_HANDLE, low, high, rest @ ..] = handle.as_bytes() else { return Ok((Arc::clone(self), *handle)) };
        let tag = u16::from_le_bytes([*low, *high]);
        let views = self.mount_state.views();
        let view = views.iter().find(|view| view.private().base.numbers.tag == tag).ok_or(Errno::ESTALE)?;
        let inner = Handle::new(&[&[identity::NATIVE_HANDLE], rest].concat())?;
        Ok((Arc::clone(&view.union), inner))
    }
}
