//! The forked file system as a branch: nothing in it is a mark of the union, and changes are made as the committing process.
//!
//! Names that begin like marks are shown in the form in which the branch of changes would store them. So the fork shows every
//! name as the file system has it.

use std::borrow::Cow;

use vnode::layer::{Layer, LayerVnode};
use vnode::{Caller, Errno, Name, Promises, Result, XattrMode};

use crate::union::branch::whiteout::{self, EntryMeaning};

/// Layer that implements this.
pub(crate) struct ForkBase {
    /// Caller as which everything is done; `None` to pass callers on.
    pub(crate) committer: Option<Caller>,
}

/// This process, without a umask: layers below permit or refuse its accesses like any other's.
pub(crate) fn committer() -> Caller {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Caller::process(std::process::id(), uid, gid, 0)
}

impl Layer for ForkBase {
    type State = ();

    fn kind(&self) -> &'static str {
        "fork"
    }

    fn promises(&self) -> Promises {
        Promises { names_untouched: false, ..Promises::TRANSPARENT }
    }

    fn map_caller<'a>(&'a self, caller: &'a Caller) -> Cow<'a, Caller> {
        match &self.committer {
            Some(committer) if caller.server => Cow::Borrowed(committer),
            _ => Cow::Borrowed(caller),
        }
    }

    fn encode_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: Name<'a>) -> Result<Cow<'a, [u8]>> {
        match whiteout::meaning(name.as_bytes()) {
            EntryMeaning::Object(plain) => Ok(Cow::Owned(plain.into_owned())),
            _ => Err(Errno::ENOENT),
        }
    }

    fn decode_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: Name<'a>) -> Result<Option<Cow<'a, [u8]>>> {
        // A name that is too long to be stored cannot be shown in a union.
        Ok(whiteout::stored_name(name).ok())
    }

    fn getxattr(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        match name {
            // No device is a whiteout either.
            _ if name == whiteout::USER_DEVICE_MARK => Ok(b"y".to_vec()),
            _ => node.forward_getxattr(caller, &whiteout::stored_attribute(name).ok_or(Errno::ENODATA)?),
        }
    }

    fn setxattr(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        if name == whiteout::USER_DEVICE_MARK {
            return Ok(());
        }
        node.forward_setxattr(caller, &whiteout::stored_attribute(name).ok_or(Errno::EPERM)?, value, mode)
    }

    fn listxattr(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Vec<u8>> {
        Ok(whiteout::shown_attributes(&node.forward_listxattr(caller)?))
    }
}
