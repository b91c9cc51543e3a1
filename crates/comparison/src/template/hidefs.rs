//! Hidefs shows a tree as it is, but for names that begin with a dot, and lets nobody change it.

use std::borrow::Cow;

use vnode::layer::{Layer, LayerVnode, Operation};
use vnode::{Caller, Errno, Name, Needs, Promises, Result};

/// Hides names, and refuses changes.
pub struct Hidefs;

impl Layer for Hidefs {
    type State = ();

    fn kind(&self) -> &'static str {
        "hidefs"
    }

    fn promises(&self) -> Promises {
        Promises { names_untouched: false, ..Promises::TRANSPARENT }
    }

    fn needs(&self) -> Needs {
        Needs { read_only: true, ..Needs::NONE }
    }

    fn admit(&self, _: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>) -> Result<()> {
        match operation {
            // A command that only reads says so in its first bits.
            Operation::Ioctl { command } if command >> 30 != 2 => Err(Errno::EROFS),
            _ if operation.modifies() => Err(Errno::EROFS),
            _ => Ok(()),
        }
    }

    fn admit_handle(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<()> {
        node.check_lookup(caller)
    }

    fn encode_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: Name<'a>) -> Result<Cow<'a, [u8]>> {
        if name.as_bytes().starts_with(b".") { Err(Errno::ENOENT) } else { Ok(Cow::Borrowed(name.as_bytes())) }
    }

    fn decode_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: Name<'a>) -> Result<Option<Cow<'a, [u8]>>> {
        Ok((!name.as_bytes().starts_with(b".")).then_some(Cow::Borrowed(name.as_bytes())))
    }
}
